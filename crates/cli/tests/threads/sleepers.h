// Things of asleep.c that happen to the thread which is asleep, to other threads or to the whole process.
#pragma once

static void do_cancel(void) {
    void *result;
    struct timespec limit;
    CHECK((errno = pthread_cancel(sleeper)) == 0 && clock_gettime(CLOCK_REALTIME, &limit) == 0);
    limit.tv_sec += 10;
    CHECK((errno = pthread_timedjoin_np(sleeper, &result, &limit)) == 0);
    CHECK(result == PTHREAD_CANCELED && cleaned == 1);
    succeed(records);
}

static void do_cancel_at_once(void) { do_cancel(); }

static void on_signal(int signal) { (void)signal; handled++; }

static void signals(int flags, int to_process) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(sigaction(SIGUSR1, &action, 0) == 0);
    if (to_process) CHECK((errno = pthread_sigmask(SIG_BLOCK, &set, 0)) == 0);
    for (int sent = 1; sent <= 5; sent++) {
        CHECK((to_process ? kill(getpid(), SIGUSR1) : (errno = pthread_kill(sleeper, SIGUSR1))) == 0);
        for (int ms = 0; handled < sent; ms++) {
            CHECK(ms < LIMIT_S * 1000);
            usleep(1000);
        }
        wait_until_asleep();
    }
    // Where something was written the first signal ends the call in any case.
    CHECK(partial_calls == (most > 1));
    CHECK(interruptions == (flags & SA_RESTART ? 0 : 5 - (most > 1)));
    let_go_on();
    end_sleeper(0);
}

static void do_signals(void) { signals(0, 0); }
static void do_signals_restart(void) { signals(SA_RESTART, 0); }
static void do_process_signals(void) { signals(0, 1); }
static void do_process_signals_restart(void) { signals(SA_RESTART, 1); }

// A signal that the sleeper holds back, and one that is ignored, interrupt nothing.
static void do_ignored(void) {
    CHECK(signal(SIGUSR2, SIG_IGN) != SIG_ERR && (errno = pthread_kill(sleeper, SIGUSR2)) == 0);
    wait_until_asleep();
    CHECK(interruptions == 0);
    go_on();
}

static void do_stop(void) {
    pid_t child = fork();
    if (child == 0) {
        kill(getppid(), SIGSTOP);
        usleep(20000);
        kill(getppid(), SIGCONT);
        _exit(0);
    }
    reap(child);
    CHECK(interruptions == 0);
    go_on();
}

// glibc has every thread change its identity, by a signal of its own.
static void do_setgid(void) {
    CHECK(setgid(getgid()) == 0);
    CHECK(interruptions == 0);
    go_on();
}

// An alternate handler for SIGSEGV, and a fault that it jumps out of.
static sigjmp_buf before_fault;
static void jumps(int signal) { siglongjmp(before_fault, signal); }
static void do_fault(void) {
    struct sigaction action = {.sa_handler = jumps};
    CHECK(sigaction(SIGSEGV, &action, 0) == 0);
    int caught = sigsetjmp(before_fault, 1);
    if (!caught) *(volatile int *)16 = 1;
    CHECK(caught == SIGSEGV);
    go_on();
}

static void *nothing(void *unused) { return unused; }
static void do_threads(void) {
    for (int i = 0; i < 50; i++) end_thread(begin_thread(nothing, 0));
    go_on();
}

static void do_dlopen(void) {
    void *library = dlopen("libm.so.6", RTLD_NOW);
    double (*root)(double) = library ? (double (*)(double))dlsym(library, "sqrt") : 0;
    CHECK(root && root(4) == 2);
    go_on();
}

static void do_setrlimit(void) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && setrlimit(RLIMIT_NOFILE, &limit) == 0);
    go_on();
}

// Threads of the C library's own.
static void do_aio(void) {
    char byte = 1;
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    struct aiocb control = {.aio_fildes = zero, .aio_buf = &byte, .aio_nbytes = 1};
    const struct aiocb *list[] = {&control};
    CHECK(zero >= 0 && aio_read(&control) == 0);
    while (aio_error(&control) == EINPROGRESS) aio_suspend(list, 1, 0);
    CHECK(aio_return(&control) == 1 && byte == 0 && close(zero) == 0);
    go_on();
}

static sem_t ticked;
static void tick(union sigval unused) {
    (void)unused;
    sem_post(&ticked);
}

static void do_timer(void) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = tick};
    struct itimerspec soon = {{0, 0}, {0, 1000000}};
    CHECK(sem_init(&ticked, 0, 0) == 0 && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    CHECK(timer_settime(timer, 0, &soon, 0) == 0 && sem_wait(&ticked) == 0 && timer_delete(timer) == 0);
    go_on();
}

// The sleeper jumps out of its call, and goes on.
static void leaves_call(int signal) { siglongjmp(before_call, signal); }
static void do_jump(void) {
    struct sigaction action = {.sa_handler = leaves_call};
    CHECK(sigaction(SIGUSR2, &action, 0) == 0 && may_jump);
    for (int turn = 1; turn <= 3; turn++) {
        CHECK((errno = pthread_kill(sleeper, SIGUSR2)) == 0);
        while (jumps_done < turn) usleep(1000);
        wait_until_asleep();
    }
    go_on();
}

// The sleeper jumps out of its call, and another thread goes on.
static void do_jump_and_use(void) {
    struct sigaction action = {.sa_handler = leaves_call};
    CHECK(sigaction(SIGUSR2, &action, 0) == 0 && (errno = pthread_kill(sleeper, SIGUSR2)) == 0);
    while (jumps_done < 1) usleep(1000);
    wait_until_asleep();
    use_and_end(fd);
}

// The sleeper's thread ends in a handler.
static void ends_thread(int signal) {
    (void)signal;
    pthread_exit(&ticked);
}

static void do_exit_in_handler(void) {
    struct sigaction action = {.sa_handler = ends_thread};
    CHECK(sigaction(SIGUSR2, &action, 0) == 0 && (errno = pthread_kill(sleeper, SIGUSR2)) == 0);
    CHECK(end_thread(sleeper) == &ticked && cleaned == 1);
    succeed(records);
}

// A handler of the sleeper uses the end in the middle of its call.
static void uses_end(int signal) {
    unsigned char bytes[RECORD];
    static struct met met;
    (void)signal;
    int before = errno;
    if (handled == 0) let_go_on();
    make_record(bytes, RECORD, FIRST, handled, handled == 4);
    ssize_t moved = is_writer ? write(fd, bytes, RECORD) : read(fd, bytes, RECORD);
    if (!is_writer && moved > 0) share_read(&met, bytes, moved, RECORD);
    CHECK(moved == RECORD || (moved == 0 && !is_writer));
    handled++;
    errno = before;
}

static void do_use_in_handler(void) {
    struct sigaction action = {.sa_handler = uses_end, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR2, &action, 0) == 0);
    for (int turn = 1; turn <= 5; turn++) {
        // The thread may have ended, but not been joined.
        int error = pthread_kill(sleeper, SIGUSR2);
        if (error) break;
        for (int ms = 0; handled < turn && !is_done; ms++) usleep(1000);
        if (is_done) break;
    }
    int is_cut = is_writer && handled < 5;
    end_sleeper(0);
    if (is_cut && handled > 0) {
        unsigned char bytes[RECORD];
        make_record(bytes, RECORD, FIRST, handled, 1);
        CHECK(write(fd, bytes, RECORD) == RECORD);
    }
}

// The first thread ends; the sleeper ends the process.
static void *ends_process(void *unused) {
    (void)unused;
    end_sleeper(0);
    if (!is_writer) verify_shared(ASLEEP, ALL);
    exit(0);
}

static void do_pthread_exit(void) {
    begin_thread(ends_process, 0);
    let_go_on();
    pthread_exit(0);
}

static void end_now(void (*ends)(int)) {
    fprintf(stderr, "wrote %u records\n", (unsigned)records);
    let_go_on();
    ends(0);
}

static void do_exit(void) { end_now(exit); }
static void do__exit(void) { end_now(_exit); }
