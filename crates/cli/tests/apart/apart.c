// The pipe contract with writer and reader in two processes, each without the other end: what the contract in contract-c has in one
// process, and what shared memory can be used for.
//
//   apart list      the names of all ideas
//   apart NAME      one of them
//
// A supervisor without an end starts both and judges how they ended. Before its idea each side moves WARM bytes, so that a pipe that
// can be attached is. They take turns over a socket: tell and await.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WARM = 2000000, BLOCK = 4096, KILLED = 1, LEFT = 2 };

static const char *side;
static int channel;
static unsigned long at;
static unsigned char bytes[1 << 20];

static void failed(int line, const char *what) {
    fprintf(stderr, "apart: %s: line %d: %s: %s\n", side, line, what, strerror(errno));
    _exit(9);
}
#define CHECK(what) do { if (!(what)) failed(__LINE__, #what); } while (0)
#define IS(call, wanted) do { errno = 0; long long got_ = (long long)(call); if (got_ != (long long)(wanted)) { \
    fprintf(stderr, "apart: got %lld\n", got_); failed(__LINE__, #call " == " #wanted); } } while (0)
#define FAILS(call, error) do { errno = 0; CHECK((call) == -1 && errno == (error)); } while (0)

static unsigned char byte_at(unsigned long where) {
    where *= 0x9e3779b97f4a7c15ul;
    return (where >> 56) ^ (where >> 40);
}

static void make(size_t size) {
    for (size_t i = 0; i < size; i++) bytes[i] = byte_at(at + i);
}

static void verify(size_t size) {
    for (size_t i = 0; i < size; i++) CHECK(bytes[i] == byte_at(at + i));
    at += size;
}

static void put(int fd, size_t size) {
    CHECK(size <= sizeof(bytes));
    make(size);
    IS(write(fd, bytes, size), size);
    at += size;
}

static void get(int fd, size_t size) {
    for (size_t done = 0; done < size;) {
        size_t most = size - done < sizeof(bytes) ? size - done : sizeof(bytes);
        ssize_t got = read(fd, bytes, most);
        CHECK(got > 0 && (size_t)got <= most);
        verify(got);
        done += got;
    }
}

static void tell(void) { IS(write(channel, "t", 1), 1); }
static void await(void) {
    char byte;
    IS(read(channel, &byte, 1), 1);
}

// Waits until the peer sleeps (proc(5)). The peer has sent its process number.
static void until_asleep(pid_t process) {
    char path[64], text[512];
    for (;;) {
        snprintf(path, sizeof path, "/proc/%d/stat", process);
        int file = open(path, O_RDONLY);
        CHECK(file >= 0);
        ssize_t got = read(file, text, sizeof text - 1);
        CHECK(got > 0);
        close(file);
        text[got] = 0;
        if (strrchr(text, ')')[2] == 'S') return;
        usleep(1000);
    }
}

static pid_t other(void) {
    pid_t self = getpid(), process;
    IS(write(channel, &self, sizeof self), sizeof self);
    IS(read(channel, &process, sizeof process), sizeof process);
    return process;
}

static volatile int signals;
// What a handler of SIGALRM does besides counting.
static void (*volatile in_alarm)(void);
static void on_signal(int signal) {
    int before = errno;
    if (signal == SIGALRM && in_alarm) in_alarm();
    else signals++;
    errno = before;
}
static void handle(int signal, int flags) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    IS(sigaction(signal, &action, 0), 0);
}

static void nonblocking(int fd, int on) {
    int flags = fcntl(fd, F_GETFL);
    IS(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK), 0);
}

static int waiting(int fd) {
    int count = -1;
    IS(ioctl(fd, FIONREAD, &count), 0);
    return count;
}

static short polled(int fd, short events, int ms) {
    struct pollfd asked = {fd, events, 0};
    int found = poll(&asked, 1, ms);
    CHECK(found == (asked.revents != 0));
    return asked.revents;
}

// Each idea: what the writer does, then what the reader does.
static void end_of_stream_w(int fd) { put(fd, 5000); close(fd); tell(); }
static void end_of_stream_r(int fd) { await(); get(fd, 5000); IS(read(fd, bytes, 10), 0); IS(read(fd, bytes, 10), 0); }

static void broken_w(int fd) {
    await();
    IS(write(fd, bytes, 0), 0);
    FAILS(write(fd, bytes, 10), EPIPE);
    IS(signals, 1);
    FAILS(write(fd, bytes, 100000), EPIPE);
    IS(signals, 2);
}
static void broken_r(int fd) { close(fd); tell(); }

static void broken_asleep_w(int fd) {
    other();
    ssize_t wrote = write(fd, bytes, sizeof bytes);
    CHECK(wrote > 0 && wrote < (ssize_t)sizeof bytes);
    FAILS(write(fd, bytes, 1), EPIPE);
}
static void broken_asleep_r(int fd) { until_asleep(other()); close(fd); }

static void killed_writer_w(int fd) { put(fd, 70000); kill(getpid(), SIGKILL); }
static void killed_writer_r(int fd) { get(fd, 70000); IS(read(fd, bytes, 10), 0); }

static void killed_reader_w(int fd) {
    ssize_t wrote;
    while ((wrote = write(fd, bytes, 3000)) == 3000);
    CHECK(wrote == -1 ? errno == EPIPE : wrote > 0);
}
static void killed_reader_r(int fd) { IS(read(fd, bytes, 1), 1); kill(getpid(), SIGKILL); }

static void interrupted_read_w(int fd) {
    pid_t reader = other();
    until_asleep(reader);
    kill(reader, SIGUSR1);
    await();
    until_asleep(reader);
    kill(reader, SIGUSR2);
    until_asleep(reader);
    put(fd, 10);
}
static void interrupted_read_r(int fd) {
    other();
    FAILS(read(fd, bytes, 10), EINTR);
    tell();
    get(fd, 10);
    IS(signals, 2);
}

static void interrupted_write_w(int fd) {
    other();
    make(sizeof bytes);
    ssize_t wrote = write(fd, bytes, sizeof bytes);
    CHECK(wrote > 0 && wrote < (ssize_t)sizeof bytes);
    at += wrote;
    // Full: nothing goes in before the signal.
    tell();
    make(4096);
    FAILS(write(fd, bytes, 4096), EINTR);
    close(fd);
    IS(write(channel, &at, sizeof at), sizeof at);
}
static void interrupted_write_r(int fd) {
    pid_t writer = other();
    until_asleep(writer);
    kill(writer, SIGUSR1);
    await();
    until_asleep(writer);
    kill(writer, SIGUSR1);
    unsigned long all;
    IS(read(channel, &all, sizeof all), sizeof all);
    get(fd, all - at);
    IS(read(fd, bytes, 1), 0);
}

static void stopped_w(int fd) {
    pid_t reader = other();
    for (int i = 0; i < 20; i++) {
        kill(reader, SIGSTOP);
        put(fd, 3000);
        kill(reader, SIGCONT);
        put(fd, 100000);
        await();
    }
}
static void stopped_r(int fd) {
    other();
    for (int i = 0; i < 20; i++) {
        get(fd, 103000);
        tell();
    }
}

static void poll_reader_w(int fd) {
    await();
    put(fd, 1);
    await();
    put(fd, 5000);
    close(fd);
    tell();
}
static void poll_reader_r(int fd) {
    IS(polled(fd, POLLIN, 0), 0);
    tell();
    IS(polled(fd, POLLIN, -1), POLLIN);
    get(fd, 1);
    IS(polled(fd, POLLIN, 0), 0);
    tell();
    await();
    IS(polled(fd, POLLIN, -1), POLLIN | POLLHUP);
    get(fd, 5000);
    IS(polled(fd, POLLIN, -1), POLLHUP);
}

static long fill(int fd) {
    long total = 0;
    ssize_t wrote;
    nonblocking(fd, 1);
    for (make(4096); (wrote = write(fd, bytes, 4096)) == 4096; make(4096)) at += wrote, total += wrote;
    CHECK(wrote == -1 && errno == EAGAIN);
    nonblocking(fd, 0);
    return total;
}

static void poll_writer_w(int fd) {
    IS(polled(fd, POLLOUT, -1), POLLOUT);
    long total = fill(fd);
    IS(polled(fd, POLLOUT, 0), 0);
    IS(write(channel, &total, sizeof total), sizeof total);
    await();
    IS(polled(fd, POLLOUT, -1), POLLOUT);
    put(fd, 1);
    await();
    IS(polled(fd, POLLOUT, -1), POLLOUT | POLLERR);
}
static void poll_writer_r(int fd) {
    long total;
    IS(read(channel, &total, sizeof total), sizeof total);
    get(fd, total);
    tell();
    get(fd, 1);
    close(fd);
    tell();
}

static void select_w(int fd) { await(); put(fd, 10); await(); }
static void select_r(int fd) {
    fd_set set;
    struct timeval none = {0, 0};
    FD_ZERO(&set);
    FD_SET(fd, &set);
    IS(select(fd + 1, &set, 0, 0, &none), 0);
    CHECK(!FD_ISSET(fd, &set));
    tell();
    FD_SET(fd, &set);
    IS(select(fd + 1, &set, 0, 0, 0), 1);
    CHECK(FD_ISSET(fd, &set));
    get(fd, 10);
    tell();
}

static void epoll_w(int fd) { await(); put(fd, 10); await(); put(fd, 10); await(); close(fd); }
static void epoll_r(int fd) {
    struct epoll_event asked = {.events = EPOLLIN | EPOLLET}, told;
    int set = epoll_create1(0);
    IS(epoll_ctl(set, EPOLL_CTL_ADD, fd, &asked), 0);
    IS(epoll_wait(set, &told, 1, 0), 0);
    tell();
    IS(epoll_wait(set, &told, 1, -1), 1);
    IS(epoll_wait(set, &told, 1, 0), 0);
    tell();
    // Each write tells an edge-triggered reader again.
    IS(epoll_wait(set, &told, 1, -1), 1);
    get(fd, 20);
    tell();
    IS(epoll_wait(set, &told, 1, -1), 1);
    CHECK(told.events & EPOLLHUP);
}

static void unread_w(int fd) { put(fd, 1234); IS(waiting(fd), 1234); tell(); await(); IS(waiting(fd), 0); }
static void unread_r(int fd) { await(); IS(waiting(fd), 1234); get(fd, 1234); IS(waiting(fd), 0); tell(); }

static void not_blocking_w(int fd) { await(); put(fd, 100); tell(); await(); close(fd); tell(); }
static void not_blocking_r(int fd) {
    nonblocking(fd, 1);
    FAILS(read(fd, bytes, 10), EAGAIN);
    tell();
    await();
    IS(read(fd, bytes, 200), 100);
    verify(100);
    FAILS(read(fd, bytes, 10), EAGAIN);
    tell();
    await();
    IS(read(fd, bytes, 10), 0);
}

static void all_sizes_w(int fd) {
    for (long sent = 0, size = 1; sent < 3000000; sent += size, size = size * 5 % 65521 + 1) put(fd, size);
    close(fd);
}
static void all_sizes_r(int fd) {
    ssize_t got;
    for (long size = 1; (got = read(fd, bytes, size)) > 0; size = size * 3 % 40961 + 1) verify(got);
    IS(got, 0);
}

static void nothing_w(int fd) { IS(write(fd, bytes, 0), 0); put(fd, 10); IS(write(fd, 0, 0), 0); }
static void nothing_r(int fd) { IS(read(fd, bytes, 0), 0); get(fd, 10); }

static void nowhere_w(int fd) { FAILS(write(fd, (void *)8, 100), EFAULT); put(fd, 5000); }
static void nowhere_r(int fd) { FAILS(read(fd, (void *)8, 100), EFAULT); get(fd, 5000); }

static void wrong_end_w(int fd) { FAILS(read(fd, bytes, 1), EBADF); put(fd, 100); }
static void wrong_end_r(int fd) { FAILS(write(fd, bytes, 1), EBADF); get(fd, 100); }

static void not_a_file(int fd) {
    struct stat status;
    FAILS(lseek(fd, 0, SEEK_CUR), ESPIPE);
    FAILS(ftruncate(fd, 0), EINVAL);
    IS(fstat(fd, &status), 0);
    CHECK(S_ISFIFO(status.st_mode));
}
static void not_a_file_w(int fd) { not_a_file(fd); FAILS(pwrite(fd, bytes, 1, 0), ESPIPE); put(fd, 100); }
static void not_a_file_r(int fd) { not_a_file(fd); FAILS(pread(fd, bytes, 1, 0), ESPIPE); get(fd, 100); }

static void forked(int fd, void (*move)(int, size_t)) {
    pid_t child = fork();
    int status;
    if (child == 0) {
        move(fd, 300000);
        IS(write(channel, "x", 0), 0);
        _exit(0);
    }
    IS(waitpid(child, &status, 0), child);
    IS(status, 0);
    at += 300000;
    move(fd, 300000);
}
static void forked_writer_w(int fd) { forked(fd, put); }
static void forked_writer_r(int fd) { get(fd, 600000); }
static void forked_reader_w(int fd) { put(fd, 600000); }
static void forked_reader_r(int fd) { forked(fd, get); }

static int shared;
static void *writes(void *unused) { put(shared, 200000); return unused; }
static void *reads(void *unused) { get(shared, 200000); return unused; }
static void in_thread(void *(*work)(void *)) {
    pthread_t thread;
    IS(pthread_create(&thread, 0, work, 0), 0);
    IS(pthread_join(thread, 0), 0);
}
static void threads_w(int fd) { shared = fd; in_thread(writes); put(fd, 200000); in_thread(writes); }
static void threads_r(int fd) { shared = fd; in_thread(reads); get(fd, 200000); in_thread(reads); }

static void cancelled_w(int fd) { await(); put(fd, 5000); }
static void *blocked(void *unused) { char byte; read(shared, &byte, 1); return unused; }
static void cancelled_r(int fd) {
    pthread_t thread;
    void *outcome;
    shared = fd;
    IS(pthread_create(&thread, 0, blocked, 0), 0);
    IS(pthread_cancel(thread), 0);
    IS(pthread_join(thread, &outcome), 0);
    CHECK(outcome == PTHREAD_CANCELED);
    tell();
    get(fd, 5000);
}

static void sigio_w(int fd) { await(); put(fd, 100); }
static void sigio_r(int fd) {
    sigset_t held, before;
    handle(SIGIO, 0);
    sigemptyset(&held);
    sigaddset(&held, SIGIO);
    IS(sigprocmask(SIG_BLOCK, &held, &before), 0);
    IS(fcntl(fd, F_SETOWN, getpid()), 0);
    IS(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC), 0);
    tell();
    while (!signals) sigsuspend(&before);
    get(fd, 100);
}

static void size_w(int fd) {
    int size = fcntl(fd, F_GETPIPE_SZ);
    CHECK(size >= 65536);
    put(fd, 40000);
    tell();
    await();
    IS(fcntl(fd, F_SETPIPE_SZ, 131072), 131072);
}
static void size_r(int fd) {
    await();
    FAILS(fcntl(fd, F_SETPIPE_SZ, 4096), EBUSY);
    get(fd, 40000);
    IS(fcntl(fd, F_SETPIPE_SZ, 4096), 4096);
    tell();
}

static void timer_w(int fd) {
    struct itimerval every = {{0, 500}, {0, 500}};
    IS(setitimer(ITIMER_REAL, &every, 0), 0);
    for (int i = 0; i < 300; i++) {
        // Once something is written a signal ends the call, whatever its flags.
        size_t size = 50000;
        for (make(size); size;) {
            ssize_t wrote = write(fd, bytes, size);
            CHECK(wrote > 0);
            at += wrote;
            size -= wrote;
            make(size);
        }
    }
}
static void timer_r(int fd) {
    struct itimerval every = {{0, 700}, {0, 700}};
    IS(setitimer(ITIMER_REAL, &every, 0), 0);
    get(fd, 300 * 50000);
}

static void read_in_handler_w(int fd) { for (int i = 0; i < 100; i++) put(fd, 30000); close(fd); }
static void read_few(void) {
    static unsigned char few[7];
    ssize_t got = read(shared, few, sizeof few);
    if (got > 0) signals += got;
}
static void read_in_handler_r(int fd) {
    struct itimerval every = {{0, 1000}, {0, 1000}};
    long total = 0;
    ssize_t got;
    shared = fd;
    in_alarm = read_few;
    IS(setitimer(ITIMER_REAL, &every, 0), 0);
    while ((got = read(fd, bytes, 10000)) > 0 || (got < 0 && errno == EINTR)) total += got > 0 ? got : 0;
    IS(total + signals, 3000000);
}

static struct { const char *name; void (*writer)(int), (*reader)(int); int how; } ideas[] = {
#define IDEA(name) {#name, name##_w, name##_r, 0}
    IDEA(end_of_stream), IDEA(broken), IDEA(broken_asleep), {"killed_writer", killed_writer_w, killed_writer_r, KILLED},
    {"killed_reader", killed_reader_w, killed_reader_r, LEFT}, IDEA(interrupted_read), IDEA(interrupted_write), IDEA(stopped),
    IDEA(poll_reader), IDEA(poll_writer), IDEA(select), IDEA(epoll), IDEA(unread), IDEA(not_blocking), IDEA(all_sizes), IDEA(nothing),
    IDEA(nowhere), IDEA(wrong_end), IDEA(not_a_file), IDEA(forked_writer), IDEA(forked_reader), IDEA(threads), IDEA(cancelled),
    IDEA(sigio), IDEA(size), IDEA(timer), IDEA(read_in_handler),
};

int main(int count, char **words) {
    size_t many = sizeof ideas / sizeof *ideas, which = 0;
    side = "supervisor";
    CHECK(count == 2);
    if (!strcmp(words[1], "list")) {
        for (size_t i = 0; i < many; i++) puts(ideas[i].name);
        return 0;
    }
    while (which < many && strcmp(words[1], ideas[which].name)) which++;
    CHECK(which < many);
    int ends[2], channels[2], go[2], status[2];
    pid_t sides[2];
    // As of a program that uses its pipe itself.
    IS(pipe2(ends, O_CLOEXEC), 0);
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, channels), 0);
    IS(pipe(go), 0);
    for (int writes = 0; writes < 2; writes++) {
        CHECK((sides[writes] = fork()) >= 0);
        if (sides[writes] == 0) {
            side = writes ? "writer" : "reader";
            channel = channels[writes];
            close(channels[!writes]);
            close(ends[!writes]);
            close(go[1]);
            // The supervisor has closed its ends.
            IS(read(go[0], bytes, 1), 0);
            close(go[0]);
            // Before the pipe is attached: a change of an action gives it back.
            handle(SIGUSR1, 0);
            handle(SIGUSR2, SA_RESTART);
            handle(SIGALRM, SA_RESTART);
            handle(SIGPIPE, 0);
            int fd = ends[writes];
            for (int i = 0; i < WARM / BLOCK; i++) writes ? put(fd, BLOCK) : get(fd, BLOCK);
            // Both are done, and the pipe is empty.
            if (writes) await();
            else tell();
            (writes ? ideas[which].writer : ideas[which].reader)(fd);
            _exit(0);
        }
    }
    close(ends[0]), close(ends[1]), close(channels[0]), close(channels[1]), close(go[0]), close(go[1]);
    for (int i = 0; i < 2; i++) IS(waitpid(sides[i], &status[i], 0), sides[i]);
    int killed = ideas[which].how == KILLED ? 1 : ideas[which].how == LEFT ? 0 : -1;
    for (int i = 0; i < 2; i++) IS(status[i], i == killed ? SIGKILL : 0);
    return 0;
}
