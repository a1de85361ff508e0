// One end of a pipe that is given memory that is not there, or not all of it, in the middle of a stream; and what else has to do
// with SIGSEGV and SIGBUS.
//
//   write|read WHAT [TURN]
//
// The stream is a fixed function of the position, and half of it passes before WHAT. Every answer of the kernel is said on stderr, so
// two runs can be compared; a reader and a writer say how much went through in the end.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

enum { PAGE = 4096, HALF = 12 << 20 };

static int writes;
static unsigned long long at;

static unsigned char byte_at(unsigned long long at) {
    at *= 0x9e3779b97f4a7c15ull;
    return (at >> 56) ^ (at >> 40);
}

static void fail(const char *what) {
    fprintf(stderr, "%s at %llu: %s\n", what, at, strerrorname_np(errno));
    _exit(90);
}

// One call with `size` bytes from `memory`, of which the first `good` are there.
static ssize_t call(char *memory, size_t good, size_t size) {
    if (writes)
        for (size_t i = 0; i < good; i++) memory[i] = byte_at(at + i);
    ssize_t moved = writes ? write(1, memory, size) : read(0, memory, size);
    if (moved > (ssize_t)good) fail("more than there is");
    for (ssize_t i = 0; !writes && i < moved; i++)
        if ((unsigned char)memory[i] != byte_at(at + i)) fail("wrong");
    at += moved > 0 ? moved : 0;
    return moved;
}

// Such a call whose answer is said. How much a reader finds is chance, and so is how much is written of memory that ends on the way:
// whole pages, the first of which may be what was left of the last one in the pipe.
static void tell(const char *name, char *memory, size_t good, size_t size) {
    ssize_t moved = call(memory, good, size);
    if (moved < 0) fprintf(stderr, "%s: %s\n", name, strerrorname_np(errno));
    else if (!writes || good < size) fprintf(stderr, "%s: %s\n", name, moved ? "some" : "none");
    else fprintf(stderr, "%s: %zd\n", name, moved);
}

// Ordinary calls up to a place in the stream, or to its end.
static void pass(unsigned long long to) {
    static char bytes[100000];
    for (unsigned long long steps = at + 1; at < to; steps = steps * 6364136223846793005ull + 1442695040888963407ull) {
        size_t size = 1 + (steps >> 33) % sizeof bytes;
        if (size > to - at) size = to - at;
        ssize_t moved = call(bytes, size, size);
        if (moved < 0 && errno == EINTR) continue;
        if (moved < 0) fail("call");
        if (moved == 0) break;
    }
}

static char *pages(int count) {
    char *memory = mmap(0, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    return memory;
}

static char *unmapped(void) {
    char *memory = pages(4);
    munmap(memory + 2 * PAGE, 2 * PAGE);
    return memory;
}

// The first of these takes the pipe back; each can be the first.
static int turn;
static void try_all(char *memory) {
    for (int i = 0; i < 5; i++) switch ((turn + i) % 5) {
        case 0: tell("begins there", memory + 2 * PAGE, 0, 100); break;
        case 1: tell("runs into it", memory, 2 * PAGE, 4 * PAGE); break;
        case 2: tell("runs into it in a page", memory + 1000, 2 * PAGE - 1000, 3 * PAGE); break;
        case 3: if (writes) tell("short, atomic", memory + 2 * PAGE - 50, 50, 100); break;
        case 4: tell("one byte", memory + 2 * PAGE, 0, 1); break;
    }
}

static void on_signal_fill(int signal) {
    (void)signal;
    try_all(unmapped());
}

static char *volatile guarded;
static volatile int faults, sent;
static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    if (info->si_code == SI_USER) {
        sent++;
    } else {
        if (signal != SIGSEGV || info->si_addr != guarded + 5 || info->si_code != SEGV_ACCERR) _exit(91);
        mprotect(guarded, PAGE, PROT_READ | PROT_WRITE);
        faults++;
    }
}

static void have_own_handler(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGSEGV, &action, 0)) fail("sigaction");
}

static void fault(void) {
    guarded = pages(1);
    mprotect(guarded, PAGE, PROT_NONE);
    guarded[5] = 1;
    fprintf(stderr, "faults: %d\n", faults);
}

static sigjmp_buf out;
static void on_overflow(int signal) { (void)signal; siglongjmp(out, 1); }
static int overflow(volatile char *above) {
    volatile char here[500];
    here[0] = above[0];
    return overflow(here) + here[0];
}

static char *volatile absent;
static void on_alarm(int signal) {
    (void)signal;
    ssize_t moved = writes ? write(1, absent, 10) : read(0, absent, 10);
    if (moved > 0 || (moved < 0 && errno != EFAULT && errno != EINTR)) _exit(92);
}

static void first(const char *what) {
    if (!strncmp(what, "own", 3) && strcmp(what, "own-late")) have_own_handler();
    if (!strcmp(what, "ignored")) signal(SIGSEGV, SIG_IGN);
    if (!strcmp(what, "fills-mask")) {
        struct sigaction action = {.sa_handler = on_signal_fill};
        sigfillset(&action.sa_mask);
        sigaction(SIGUSR1, &action, 0);
    }
    if (!strcmp(what, "overflow")) {
        static char stack[65536];
        stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
        struct sigaction action = {.sa_handler = on_overflow, .sa_flags = SA_ONSTACK};
        sigaltstack(&other, 0);
        sigaction(SIGSEGV, &action, 0);
    }
}

static void act(const char *what) {
    if (!strcmp(what, "unmapped") || !strcmp(what, "ignored")) {
        try_all(unmapped());
    } else if (!strcmp(what, "none")) {
        char *memory = pages(4);
        mprotect(memory + 2 * PAGE, PAGE, PROT_NONE);
        try_all(memory);
    } else if (!strcmp(what, "read-only")) {
        char *memory = pages(4);
        if (writes) memset(memory, 0, 4 * PAGE);
        mprotect(memory + 2 * PAGE, 2 * PAGE, writes ? PROT_NONE : PROT_READ);
        try_all(memory);
    } else if (!strcmp(what, "truncated")) {
        int file = memfd_create("file", 0);
        ftruncate(file, 4 * PAGE);
        char *memory = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        memset(memory, 1, 4 * PAGE);
        ftruncate(file, 2 * PAGE);
        try_all(memory);
    } else if (!strcmp(what, "pause")) {
        usleep(20000);
    } else if (!strcmp(what, "far")) {
        // The beginning is there, the end can not be.
        ssize_t moved = writes ? write(1, pages(1), 1ull << 62) : read(0, pages(1), 1ull << 62);
        fprintf(stderr, "far: %zd %s\n", moved, strerrorname_np(errno));
    } else if (!strcmp(what, "long")) {
        char *memory = pages(402);
        munmap(memory + 400 * PAGE, 2 * PAGE);
        ssize_t moved = call(memory, 400 * PAGE, 402 * PAGE);
        if (moved < 1 || (writes && moved < 399 * PAGE)) fail("long");
    } else if (!strcmp(what, "masked")) {
        sigset_t all, before, none;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, &before);
        try_all(unmapped());
        sigprocmask(SIG_SETMASK, &before, &none);
        fprintf(stderr, "masked: %d %d\n", sigismember(&before, SIGSEGV), sigismember(&none, SIGSEGV));
    } else if (!strcmp(what, "masks-others")) {
        sigset_t some, before, now;
        sigemptyset(&some);
        sigaddset(&some, SIGUSR2);
        sigprocmask(SIG_BLOCK, &some, &before);
        sigprocmask(SIG_BLOCK, 0, &now);
        fprintf(stderr, "masks: %d %d %d\n", sigismember(&before, SIGUSR2), sigismember(&now, SIGUSR2), sigprocmask(77, &some, 0));
        fprintf(stderr, "masks: %s %d\n", strerrorname_np(errno), pthread_sigmask(77, &some, 0) == EINVAL);
        try_all(unmapped());
    } else if (!strcmp(what, "fills-mask")) {
        raise(SIGUSR1);
    } else if (!strcmp(what, "own") || !strcmp(what, "own-late")) {
        if (!strcmp(what, "own-late")) have_own_handler();
        fault();
        try_all(unmapped());
        fault();
    } else if (!strcmp(what, "own-before")) {
        try_all(unmapped());
        fault();
    } else if (!strcmp(what, "own-sent")) {
        kill(getpid(), SIGSEGV);
        fprintf(stderr, "sent: %d\n", sent);
        fault();
        try_all(unmapped());
    } else if (!strcmp(what, "query")) {
        struct sigaction action;
        sigaction(SIGSEGV, 0, &action);
        fprintf(stderr, "query: %d\n", action.sa_handler == SIG_DFL);
    } else if (!strcmp(what, "replace")) {
        fprintf(stderr, "replace: %d\n", signal(SIGBUS, SIG_IGN) == SIG_DFL);
        fprintf(stderr, "replace: %d\n", signal(SIGBUS, SIG_DFL) == SIG_IGN);
    } else if (!strcmp(what, "overflow")) {
        char top = 0;
        if (!sigsetjmp(out, 1)) overflow(&top);
        try_all(unmapped());
    } else if (!strcmp(what, "interrupted")) {
        absent = unmapped() + 2 * PAGE;
        struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
        struct itimerval every = {{0, 900}, {0, 900}};
        sigaction(SIGALRM, &action, 0);
        setitimer(ITIMER_REAL, &every, 0);
    } else if (!strcmp(what, "crash")) {
        *(volatile char *)16 = 1;
    } else if (!strcmp(what, "crash-bus")) {
        int file = memfd_create("file", 0);
        *(volatile char *)mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) = 1;
    } else if (!strcmp(what, "crash-general")) {
        *(volatile char *)(1ull << 60) = 1;
    } else if (!strcmp(what, "crash-sent")) {
        kill(getpid(), SIGSEGV);
    } else if (!strcmp(what, "crash-raised")) {
        raise(SIGBUS);
    } else {
        fail(what);
    }
}

int main(int count, char **arguments) {
    if (count < 3) return 93;
    turn = count > 3 ? atoi(arguments[3]) : 0;
    writes = !strcmp(arguments[1], "write");
    first(arguments[2]);
    pass(HALF);
    if (strcmp(arguments[2], "nothing")) act(arguments[2]);
    pass(writes ? 2 * HALF : ~0ull);
    fprintf(stderr, "%s %llu\n", arguments[1], at);
    return 0;
}
