// A writer and a reader that waits: poll, ppoll, select and pselect in any order, with other descriptors, short times, signals that
// only the call lets through, and now and then something that the kernel alone can carry. What each call says is checked against what
// is known, and every byte against its position. Ends with status 0, and the reader says how many bytes there were.
//
//   polls write SEED BYTES      to descriptor 1; with BYTES negative it kills itself after so many; another word says that the
//                               reader leaves before the end, which is told with status 3
//   polls read SEED [BYTES]     from descriptor 0; kills itself after so many
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LARGEST 70000
#define ENTRIES 6
#define CLOSED 77

static unsigned long long state;
static unsigned char buffer[LARGEST];
static unsigned long long at;

static unsigned chance(unsigned below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % below;
}

static unsigned char byte_at(unsigned long long at) {
    at *= 0x9e3779b97f4a7c15ull;
    return (at >> 56) ^ (at >> 40);
}

static void require(int is_so, const char *what) {
    if (is_so) return;
    fprintf(stderr, "polls: at %llu: %s: %s\n", at, what, strerror(errno));
    _exit(9);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static void something(int fd) {
    switch (chance(3)) {
    case 0:
        close(dup(fd));
        return;
    case 1:
        if (fork() == 0) _exit(0);
        wait(0);
        return;
    default:
        fcntl(fd, F_GETOWN);
    }
}

// Whether the reader may leave before the end.
static int leaves;

static int writes(long long bytes) {
    unsigned long long limit = bytes < 0 ? -bytes : bytes;
    signal(SIGPIPE, SIG_IGN);
    // How often it rests and how much it writes at once changes now and then.
    unsigned rests = 2, most = LARGEST;
    while (at < limit) {
        if (chance(200) == 0) rests = 1 + chance(1 << chance(10)), most = 1 + chance(1 << chance(17));
        if (most > LARGEST) most = LARGEST;
        size_t len = 1 + chance(most);
        if (len > limit - at) len = limit - at;
        for (size_t i = 0; i < len; i++) buffer[i] = byte_at(at + i);
        if (chance(5000) == 0) something(1);
        if (chance(20) == 0) {
            struct pollfd room = {1, POLLOUT, 0};
            require(poll(&room, 1, chance(2) ? -1 : 0) >= 0, "poll for room");
            require(!(room.revents & ~(POLLOUT | (leaves ? POLLERR : 0))), "what a writer was told");
            if (room.revents == POLLOUT && len > 4096) len = 4096;
        }
        ssize_t moved = write(1, buffer, len);
        if (moved < 0 && errno == EPIPE) return 3;
        require(moved == (ssize_t)len || leaves, "write");
        at += moved;
        if (chance(rests) == 0) usleep(chance(300));
    }
    if (bytes < 0) raise(SIGKILL);
    return 0;
}

static int other[2], other_holds, has_ended;
static volatile int handled;

static void check(ssize_t moved) {
    require(moved >= 0, "read");
    for (ssize_t i = 0; i < moved; i++) require(buffer[i] == byte_at(at + i), "byte");
    at += moved;
    has_ended |= moved == 0;
}

// Comes only while a call waits that lets it through, so nobody is reading.
static void on_alarm(int signal) {
    int before = errno;
    struct pollfd asked = {0, POLLIN, 0};
    handled++;
    if (chance(4) == 0) {
        int count = poll(&asked, 1, 0);
        require(count == (asked.revents != 0), "poll in a handler");
        if (asked.revents & POLLIN) {
            ssize_t moved = read(0, buffer, 1 + chance(9000));
            require(moved > 0, "nothing to read in a handler");
            check(moved);
        }
    }
    if (chance(40) == 0) usleep(chance(2000));
    errno = before;
}

static void change_other(void) {
    char byte = 0;
    if (other_holds) require(read(other[0], &byte, 1) == 1, "other pipe");
    else require(write(other[1], &byte, 1) == 1, "other pipe");
    other_holds = !other_holds;
}

// Waits once, in some way. Whether bytes are there: 1 if so, 2 if it is the end, 0 if that is not known.
static int waits(void) {
    int way = chance(4), listens = chance(2), tells = 0;
    long limit = chance(4) ? (long)chance(1 << chance(13)) : -1;
    if (limit >= 0) limit = chance(4) ? limit : 0;
    struct timespec time = {0, limit * 1000}, *time_at = limit < 0 ? 0 : &time;
    struct timeval small = {0, limit};
    sigset_t none;
    sigemptyset(&none);
    handled = 0;
    double began = now(), asked_ms = way == 0 && limit > 0 ? limit / 1000 : limit / 1e3;
    int count, is_readable, hangs = 0;
    if (way < 2) {
        struct pollfd entries[ENTRIES];
        int len = 1 + chance(ENTRIES), fds[] = {0, 0, other[0], other[1], -5, CLOSED}, wants[] = {POLLIN, POLLIN | POLLRDNORM, 0, POLLIN | POLLOUT | POLLPRI};
        for (int i = 0; i < len; i++) entries[i] = (struct pollfd){fds[chance(6)], wants[chance(4)], -1};
        entries[chance(len)] = (struct pollfd){0, wants[chance(2)], -1};
        count = way == 0 ? poll(entries, len, limit < 0 ? -1 : limit / 1000) : ppoll(entries, len, time_at, listens ? &none : 0);
        if (count < 0) {
            require(errno == EINTR && way == 1 && listens && handled, "poll");
            return 0;
        }
        int ready = 0, said = -1;
        for (int i = 0; i < len; i++) {
            struct pollfd *entry = &entries[i];
            ready += entry->revents != 0;
            if (entry->fd < 0) require(entry->revents == 0, "an entry without a descriptor");
            else if (entry->fd == CLOSED) require(entry->revents == POLLNVAL, "a closed descriptor");
            else if (entry->fd == other[0]) require(entry->revents == (other_holds ? entry->events & POLLIN || entry->events & POLLRDNORM ? entry->events & (POLLIN | POLLRDNORM) : 0 : 0), "the other pipe");
            else if (entry->fd == other[1]) require(entry->revents == (entry->events & POLLOUT), "the end of the other pipe");
            else {
                require((entry->revents & ~(POLLHUP | entry->events)) == 0, "more than was asked");
                if (entry->events & POLLIN) {
                    int here = entry->revents & (POLLIN | POLLHUP);
                    if ((entry->revents & POLLIN) && (entry->events & POLLRDNORM)) require(entry->revents & POLLRDNORM, "POLLRDNORM");
                    // Only more of it can have come between two entries.
                    require(said <= 0 || !(said & ~here), "two entries for one descriptor");
                    said = here;
                }
            }
        }
        require(count == ready, "how many");
        is_readable = said & POLLIN, hangs = said & POLLHUP;
    } else {
        fd_set read, write;
        int has_other = chance(2), has_end = chance(8) == 0, numbers = chance(2) ? other[1] + 1 : FD_SETSIZE;
        FD_ZERO(&read);
        FD_ZERO(&write);
        FD_SET(0, &read);
        if (has_other) FD_SET(other[0], &read);
        if (has_end) FD_SET(other[1], &write);
        if (chance(10) == 0) FD_SET(0, &write);
        count = way == 2 ? select(numbers, &read, &write, 0, limit < 0 ? 0 : &small)
                         : pselect(numbers, &read, chance(2) || has_end ? &write : 0, 0, time_at, listens ? &none : 0);
        if (count < 0) {
            require(errno == EINTR && way == 3 && listens && handled, "select");
            require(FD_ISSET(0, &read), "sets are left alone");
            return 0;
        }
        require(!(way == 2 && limit >= 0) || (small.tv_sec == 0 && small.tv_usec <= limit), "the time that is left");
        is_readable = FD_ISSET(0, &read);
        require(!FD_ISSET(0, &write) || way == 3, "a read end that is writable");
        require(!FD_ISSET(other[0], &read) == !(has_other && other_holds), "the other pipe");
        require(!FD_ISSET(other[1], &write) == !has_end, "the end of the other pipe");
        require(count == !!is_readable + (has_other && other_holds) + has_end, "how many");
        if (is_readable) tells = 3;
    }
    require(!handled, "a handler has run, and that is no answer");
    require(count != 0 || limit >= 0, "no answer, and no limit");
    require(count != 0 || now() - began >= asked_ms, "too early");
    if (tells) return tells;
    return is_readable ? 1 : hangs ? 2 : 0;
}

static int reads(unsigned long long limit) {
    sigset_t alarm;
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = chance(2) ? SA_RESTART : 0};
    struct itimerval every = {{0, 1 + chance(3000)}, {0, 1000}};
    require(pipe(other) == 0, "pipe");
    close(CLOSED);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm, 0);
    sigaction(SIGALRM, &action, 0);
    if (chance(3)) setitimer(ITIMER_REAL, &every, 0);
    while (!has_ended) {
        int told = chance(12) ? waits() : 4;
        if (has_ended) break;
        if (chance(8) == 0) change_other();
        if (chance(5000) == 0) something(0);
        if (told == 1 && chance(6) == 0) {
            struct pollfd again = {0, POLLIN, 0};
            require(poll(&again, 1, 0) == 1 && again.revents & POLLIN, "it was there a moment ago");
        }
        if (told == 0 || (told == 1 && chance(9) == 0)) continue;
        ssize_t moved = read(0, buffer, 1 + chance(LARGEST));
        require(told != 1 || moved > 0, "nothing to read");
        require(told != 2 || moved == 0, "the end was no end");
        check(moved);
        if (at >= limit) raise(SIGKILL);
    }
    printf("%llu\n", at);
    return 0;
}

int main(int count, char **words) {
    state = strtoull(words[2], 0, 10) * 77 + (words[1][0] == 'r');
    chance(2);
    if (words[1][0] == 'r') return reads(count > 3 ? atoll(words[3]) : ~0ull);
    leaves = count > 4;
    return writes(atoll(words[3]));
}
