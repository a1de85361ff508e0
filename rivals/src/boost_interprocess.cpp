// What of Boost.Interprocess the Rust side uses, without exceptions: a sentence at `why` says what went wrong.

#include <boost/interprocess/ipc/message_queue.hpp>
#include <boost/version.hpp>

#include <cstddef>
#include <cstdio>
#include <exception>

using boost::interprocess::message_queue;

namespace {

template <typename Result, typename Action>
Result attempt(char *why, std::size_t why_bytes, Result failure, Action action) noexcept {
    try {
        return action();
    } catch (const std::exception &error) {
        std::snprintf(why, why_bytes, "%s", error.what());
    } catch (...) {
        std::snprintf(why, why_bytes, "an exception without a text");
    }
    return failure;
}

} // namespace

extern "C" {

message_queue *millstream_boost_create(const char *name, std::size_t messages, std::size_t message_bytes, char *why,
                                       std::size_t why_bytes) {
    return attempt<message_queue *>(why, why_bytes, nullptr, [&] {
        return new message_queue(boost::interprocess::create_only, name, messages, message_bytes);
    });
}

message_queue *millstream_boost_open(const char *name, char *why, std::size_t why_bytes) {
    return attempt<message_queue *>(why, why_bytes, nullptr,
                                    [&] { return new message_queue(boost::interprocess::open_only, name); });
}

// Waits for room; 0, or -1.
int millstream_boost_send(message_queue *queue, const void *bytes, std::size_t len, char *why, std::size_t why_bytes) {
    return attempt<int>(why, why_bytes, -1, [&] {
        queue->send(bytes, len, 0);
        return 0;
    });
}

// Waits for a message; its length, or -1. `capacity` must be that of the queue's messages.
std::ptrdiff_t millstream_boost_receive(message_queue *queue, void *bytes, std::size_t capacity, char *why,
                                        std::size_t why_bytes) {
    return attempt<std::ptrdiff_t>(why, why_bytes, -1, [&] {
        message_queue::size_type received = 0;
        unsigned int priority = 0;
        queue->receive(bytes, capacity, received, priority);
        return static_cast<std::ptrdiff_t>(received);
    });
}

void millstream_boost_close(message_queue *queue) { delete queue; }

// The release that it was compiled with, as boost/version.hpp writes it.
int millstream_boost_version() { return BOOST_VERSION; }
}
