// A writer and a reader, each of which does one thing where it waits for descriptors, after the pipe has had time to join.
//
//   write WHAT FILE      read WHAT FILE
//
// drain, drain-select: a handler reads all that is there, while the reader waits without a limit. Such a wait never says that the time
// is up. The reader reports how many bytes there were.
// masked, masked-select: the reader waits under a mask that lets through one signal only, whose handler reads to where no memory is.
// outside: the reader writes its number to FILE and waits for a byte that somebody else puts into the pipe. It reports what the wait said.
// kept, kept-late: the writer gives the pipe back while the reader sleeps in a read to where nothing can be written, from the beginning
// or because a handler takes the memory away. The reader then waits, forks a child that reads a byte,
// duplicates its end, and reads the others.
// room: the writer waits for room at a full pipe.
//
// Where something must come first, who does it makes FILE, and the writer waits for that.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FIRST = 100, PAUSES = 200, SIZES = 150000 };

static char buffer[70000];
static const char *what, *file;
static int by_select;
static volatile long got;
static volatile int has_ended, handled;
static void *nowhere;
static char *soon_gone;
static const char constant[FIRST] = "constant";

static int is(const char *name) { return !strncmp(what, name, strlen(name)); }

static void require(int is_so, const char *text) {
    if (is_so) return;
    fprintf(stderr, "waits: at %ld: %s: %s\n", got, text, strerror(errno));
    _exit(9);
}

static int waits_for_bytes(const struct timespec *limit, const sigset_t *mask) {
    if (by_select) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(0, &set);
        return pselect(1, &set, 0, 0, limit, mask);
    }
    struct pollfd input = {0, POLLIN, 0};
    return ppoll(&input, 1, limit, mask);
}

static void reads(size_t most) {
    ssize_t moved = read(0, buffer, most);
    require(moved >= 0, "read");
    got += moved;
    has_ended |= moved == 0;
}

static void tell(void) { close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)); }

static void wait_until_told(void) {
    for (int left = 60000; access(file, F_OK); left--) require(left > 0, "nobody told"), usleep(1000);
}

static void on_alarm(int signal) {
    int before = errno;
    const struct timespec none = {0, 0};
    (void)signal;
    handled++;
    if (soon_gone) {
        munmap(soon_gone, 4096);
        tell();
    } else if (nowhere) {
        tell();
        // So long that there are bytes.
        usleep(200000);
        require(read(0, nowhere, FIRST) == -1 && errno == EFAULT, "no EFAULT");
    } else if (waits_for_bytes(&none, 0) == 1) {
        reads(sizeof buffer);
    }
    errno = before;
}

static void writes(size_t len) {
    if (write(1, buffer, len) != (ssize_t)len) _exit(3);
}

static int write_all(void) {
    for (int i = 0; i < PAUSES; i++) writes(FIRST), usleep(200);
    if (is("drain")) {
        for (int i = 0; i < SIZES; i++) {
            writes(1 + i % 100);
            if (i % 1000 == 0) usleep(100);
        }
    } else if (is("masked")) {
        wait_until_told();
        usleep(50000);
        writes(FIRST);
    } else if (is("kept")) {
        if (strstr(what, "-late")) wait_until_told();
        usleep(100000);
        close(dup(1));
        for (int i = 0; i < FIRST; i++) buffer[i] = i + 1;
        writes(FIRST);
        usleep(50000);
    } else if (is("outside")) {
        wait_until_told();
    } else {
        struct pollfd output = {1, POLLOUT, 0};
        for (int i = 0; i < 4000; i++) {
            require(poll(&output, 1, -1) == 1 && output.revents == POLLOUT, "poll for room");
            writes(4096);
        }
    }
    return 0;
}

static int read_all(void) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 40}, {0, 40}}, once = {{0, 0}, {0, 50000}};
    sigset_t alarm, others;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigfillset(&others);
    sigdelset(&others, SIGALRM);
    sigaction(SIGALRM, &action, 0);
    if (is("masked")) sigprocmask(SIG_BLOCK, &alarm, 0);
    by_select = strstr(what, "-select") != 0;
    while (got < FIRST * PAUSES) {
        require(waits_for_bytes(0, 0) == 1, "the first bytes");
        reads(FIRST);
        require(!has_ended, "the first bytes");
    }
    if (is("drain")) {
        setitimer(ITIMER_REAL, &every, 0);
        while (!has_ended) {
            int count = waits_for_bytes(0, 0);
            require(count == 1 || (count == -1 && errno == EINTR), "a wait without a limit");
        }
        every = (struct itimerval){0};
        setitimer(ITIMER_REAL, &every, 0);
    } else if (is("masked")) {
        nowhere = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(nowhere, 4096);
        setitimer(ITIMER_REAL, &once, 0);
        int count = waits_for_bytes(0, &others);
        require(count == -1 && errno == EINTR && handled == 1, "the wait that is interrupted");
        while (!has_ended) reads(sizeof buffer);
    } else if (is("kept")) {
        char *target = (char *)constant;
        if (strstr(what, "-late")) {
            target = soon_gone = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            setitimer(ITIMER_REAL, &once, 0);
        }
        require(read(0, target, FIRST) == -1 && errno == EFAULT, "no EFAULT");
        require(waits_for_bytes(0, 0) == 1, "wait for what nobody has read");
        // Whichever a child gets, it is the only one that gets it.
        int child_has = 0;
        if (fork() == 0) {
            char byte;
            _exit(read(0, &byte, 1) == 1 ? byte : 0);
        }
        wait(&child_has);
        child_has = WEXITSTATUS(child_has);
        close(dup(0));
        require(child_has > 0 && read(0, buffer, FIRST) == FIRST - 1, "all of it");
        for (int i = 0, byte = 1; i < FIRST - 1; i++, byte++) {
            byte += byte == child_has;
            require(buffer[i] == byte, "byte");
        }
        got += FIRST;
        reads(FIRST);
        require(has_ended, "the end");
    } else if (is("outside")) {
        struct timespec limit = {60, 0};
        FILE *told = fopen(file, "w");
        require(told && fprintf(told, "%d\n", getpid()) > 0 && fclose(told) == 0, "file");
        int count = waits_for_bytes(&limit, 0);
        fprintf(stderr, "waited %d\n", count);
        while (!has_ended) reads(sizeof buffer);
    } else {
        while (!has_ended) {
            reads(sizeof buffer);
            if (got % 7 == 0) usleep(3000);
        }
    }
    fprintf(stderr, "read %ld\n", got);
    return 0;
}

int main(int arguments, char **argument) {
    if (arguments < 3) return 2;
    what = argument[2];
    file = argument[3];
    return argument[1][0] == 'w' ? write_all() : read_all();
}
