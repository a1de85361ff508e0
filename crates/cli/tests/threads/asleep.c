// What one thread does while another one of its process is asleep in a read or a write of an end.
//
//   asleep list             all things that may be done, and at which side: "read THING", "write THING"
//   asleep read|write THING
//   asleep read|write help  reads or writes some records beside them, in a process of its own
//
// The peers are those of threads.c that wait. The thread that is asleep goes on when the thing was done.
#include "stream.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>

// Writers of records: the thread that is asleep, the first thread, another process.
enum { ASLEEP, FIRST, HELP };
enum { HELPED = 500 };

extern char **environ;
static int is_writer, fd, most = 1;
static char *self;
static pthread_t sleeper;
static atomic_int sleeper_id, interruptions, partial_calls, cleaned, handled, last_error;
static atomic_uint records;

// Everything that the thread which sleeps has read or is to write.
static void *sleeps(void *unused);

static void wait_until_asleep(void) {
    char path[60], text[300];
    unsigned before = UINT_MAX;
    await("waiting");
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", sleeper_id);
    for (int same = 0, ms = 0; same < 15; ms++) {
        CHECK(ms < LIMIT_S * 1000);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t len = read(file, text, sizeof text - 1);
        CHECK(len > 0 && close(file) == 0);
        text[len] = 0;
        unsigned now = records;
        int is_asleep = strrchr(text, ')')[2] == 'S' && (is_writer ? now + most > BEFORE : now == BEFORE);
        same = is_asleep && now == before ? same + 1 : 0;
        before = now;
        usleep(2000);
    }
}

static void cleans(void *unused) {
    (void)unused;
    cleaned++;
}

static void reads(struct met *met) {
    unsigned char bytes[RECORD];
    for (;;) {
        ssize_t got = read(fd, bytes, RECORD);
        if (got < 0 && errno == EINTR) {
            interruptions++;
        } else if (got < 0 && errno == EAGAIN) {
            struct pollfd asked = {fd, POLLIN, 0};
            poll(&asked, 1, -1);
        } else if (got <= 0) {
            last_error = got < 0 ? errno : 0;
            return;
        } else {
            share_read(met, bytes, got, RECORD);
            records++;
        }
    }
}

static void writes(void) {
    unsigned char *bytes = malloc(most * RECORD);
    for (uint32_t number = 0, block; number < ALL; number += block) {
        // At first, so that the pipe is attached meanwhile, by one.
        block = number < 2048 ? 1 : most;
        for (unsigned i = 0; i < block; i++)
            make_record(bytes + i * RECORD, RECORD, ASLEEP, number + i, number + i == ALL - 1);
        for (size_t done = 0; done < block * RECORD;) {
            ssize_t some = write(fd, bytes + done, block * RECORD - done);
            if (some < 0 && errno == EINTR) {
                interruptions++;
            } else if (some < 0 && errno == EAGAIN) {
                struct pollfd asked = {fd, POLLOUT, 0};
                poll(&asked, 1, -1);
            } else if (some <= 0) {
                last_error = errno;
                free(bytes);
                return;
            } else {
                partial_calls += (size_t)some < block * RECORD - done;
                CHECK(block > 1 || some == RECORD);
                done += some;
                records = number + done / RECORD;
            }
        }
    }
    free(bytes);
}

static void *sleeps(void *met) {
    sleeper_id = syscall(SYS_gettid);
    pthread_cleanup_push(cleans, 0);
    if (is_writer) writes();
    else reads(met);
    pthread_cleanup_pop(0);
    return 0;
}

// The end is used under this number by a process or a thread beside the sleeper.
static void use_beside(int number, int writer, int count) {
    unsigned char bytes[RECORD];
    static struct met met;
    if (is_writer) {
        for (int i = 0; i < count; i++) {
            make_record(bytes, RECORD, writer, i, i == count - 1);
            CHECK(write(number, bytes, RECORD) == RECORD);
        }
        return;
    }
    ssize_t got;
    while ((got = read(number, bytes, RECORD)) > 0) share_read(&met, bytes, got, RECORD);
    CHECK(got == 0);
}

static void help(void) {
    share_records();
    use_beside(is_writer, HELP, HELPED);
}

// The sleeper has ended by itself, or with an error of its next call.
static void end_sleeper(int error) {
    end_thread(sleeper);
    CHECK(last_error == error);
}

static void use_and_end(int number) {
    let_go_on();
    use_beside(number, FIRST, HELPED);
    end_sleeper(0);
}

static void go_on(void) {
    let_go_on();
    end_sleeper(0);
}

static void do_nothing(void) { go_on(); }

static void do_fork(void) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    reap(child);
    go_on();
}

static void do_fork_help(void) {
    pid_t child = fork();
    if (child == 0) {
        use_beside(fd, HELP, HELPED);
        _exit(0);
    }
    go_on();
    reap(child);
}

static void do_fork_and_close(void) {
    pid_t child = fork();
    if (child == 0) {
        close(fd);
        _exit(0);
    }
    reap(child);
    go_on();
}

static void do_vfork(void) {
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)0);
        _exit(1);
    }
    reap(child);
    go_on();
}

static void do_vfork_help(void) {
    pid_t child = vfork();
    if (child == 0) {
        execl(self, self, is_writer ? "write" : "read", "help", (char *)0);
        _exit(1);
    }
    go_on();
    reap(child);
}

static void do_spawn(void) {
    pid_t child;
    char *words[] = {"true", 0};
    CHECK((errno = posix_spawn(&child, "/bin/true", 0, 0, words, environ)) == 0);
    reap(child);
    go_on();
}

static void do_spawn_help(void) {
    pid_t child;
    char *words[] = {self, is_writer ? "write" : "read", "help", 0};
    CHECK((errno = posix_spawn(&child, self, 0, 0, words, environ)) == 0);
    go_on();
    reap(child);
}

static void do_system(void) {
    CHECK(system("exit 0") == 0);
    go_on();
}

static void do_popen(void) {
    char line[9] = "";
    FILE *stream = popen("echo said", "r");
    CHECK(stream && fgets(line, sizeof line, stream) && !strcmp(line, "said\n") && pclose(stream) == 0);
    go_on();
}

static void do_popen_help(void) {
    char line[PATH_MAX + 20];
    snprintf(line, sizeof line, "%s %s help", self, is_writer ? "write" : "read");
    FILE *stream = popen(line, is_writer ? "w" : "r");
    CHECK(stream);
    go_on();
    CHECK(pclose(stream) == 0);
}

// Another program takes the place of this one, with all of its threads.
static void do_exec(void) {
    char number[20];
    snprintf(number, sizeof number, "%u", (unsigned)records);
    execl(self, self, is_writer ? "write" : "read", "successor", number, (char *)0);
    CHECK(!"exec");
}

static void succeed(unsigned first) {
    static struct met met;
    unsigned char bytes[RECORD];
    let_go_on();
    if (!is_writer) {
        met.next[ASLEEP] = first;
        reads(&met);
        CHECK(last_error == 0);
        return;
    }
    for (; first < ALL; first++) {
        make_record(bytes, RECORD, ASLEEP, first, first == ALL - 1);
        CHECK(write(fd, bytes, RECORD) == RECORD);
    }
}

static void do_dup(void) {
    int other = dup(fd);
    CHECK(other >= 0 && close(other) == 0);
    go_on();
}

static void do_dup_and_use(void) {
    int other = dup(fd);
    CHECK(other >= 0);
    use_and_end(other);
    CHECK(close(other) == 0);
}

static void do_dupfd(void) {
    int other = fcntl(fd, F_DUPFD_CLOEXEC, 50);
    CHECK(other >= 50);
    use_and_end(other);
    CHECK(close(other) == 0);
}

static void do_use(void) { use_and_end(fd); }

static void *lets_go_on_soon(void *unused) {
    usleep(30000);
    let_go_on();
    return unused;
}

// The second call begins while the peer waits.
static void do_use_asleep(void) {
    pthread_t other = begin_thread(lets_go_on_soon, 0);
    use_beside(fd, FIRST, HELPED);
    end_thread(other);
    end_sleeper(0);
}

// The number means something else afterwards; the call that sleeps goes on with what it meant.
static void do_dup2_over(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    if (is_writer) {
        static struct input input;
        unsigned char bytes[RECORD];
        unsigned before = records;
        CHECK(dup2(ends[1], fd) == fd && close(ends[1]) == 0);
        let_go_on();
        // The call that slept has written to the old pipe, all others write to the new one.
        input.met.next[ASLEEP] = before + 1;
        while (!input.met.is_ended[ASLEEP]) {
            ssize_t got = read(ends[0], bytes, RECORD);
            CHECK(got > 0);
            verify_bytes(&input, bytes, got);
        }
        end_sleeper(0);
        CHECK(input.met.records == ALL - before - 1);
        fprintf(stderr, "wrote %u records\n", before + 1);
        return;
    }
    unsigned char bytes[RECORD];
    for (int i = 0; i < 100; i++) {
        make_record(bytes, RECORD, FIRST, i, i == 99);
        CHECK(write(ends[1], bytes, RECORD) == RECORD);
    }
    CHECK(dup2(ends[0], fd) == fd && close(ends[0]) == 0 && close(ends[1]) == 0);
    let_go_on();
    end_sleeper(0);
    verify_shared(ASLEEP, BEFORE + 1);
    verify_shared(FIRST, 100);
}

static void do_close(void) {
    unsigned before = records;
    CHECK(close(fd) == 0);
    let_go_on();
    end_sleeper(EBADF);
    CHECK(records == before + 1);
    if (!is_writer) verify_shared(ASLEEP, BEFORE + 1);
    else fprintf(stderr, "wrote %u records\n", (unsigned)records);
}

static void do_nonblock(void) {
    int flags = fcntl(fd, F_GETFL);
    CHECK(flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK));
    go_on();
    CHECK(fcntl(fd, F_SETFL, flags) == 0);
}

static void do_getfl(void) {
    CHECK((fcntl(fd, F_GETFL) & O_ACCMODE) == (is_writer ? O_WRONLY : O_RDONLY) && fcntl(fd, F_GETFD) >= 0);
    go_on();
}

static void do_fionread(void) {
    int bytes = -1;
    CHECK(ioctl(fd, FIONREAD, &bytes) == 0 && (is_writer ? bytes >= LONGEST : bytes == 0));
    go_on();
}

static void do_sendmsg(void) {
    int sockets[2], got = -1;
    char byte = 0, room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0 && sendmsg(sockets[0], &message, 0) == 1);
    CHECK(recvmsg(sockets[1], &message, 0) == 1 && (header = CMSG_FIRSTHDR(&message)));
    memcpy(&got, CMSG_DATA(header), sizeof got);
    CHECK(got > 2 && close(sockets[0]) == 0 && close(sockets[1]) == 0);
    use_and_end(got);
    CHECK(close(got) == 0);
}

// Nothing is ready; then something is, or the peer is gone.
static void do_poll(void) {
    struct pollfd asked = {fd, is_writer ? POLLOUT : POLLIN, 0};
    CHECK(poll(&asked, 1, 0) == 0 && poll(&asked, 1, 20) == 0);
    let_go_on();
    CHECK(poll(&asked, 1, LIMIT_S * 1000) == 1 && asked.revents);
    end_sleeper(0);
}

static void do_ppoll(void) {
    struct pollfd asked = {fd, is_writer ? POLLOUT : POLLIN, 0};
    struct timespec moment = {0, 20000000};
    CHECK(ppoll(&asked, 1, &moment, 0) == 0);
    let_go_on();
    CHECK(ppoll(&asked, 1, 0, 0) == 1 && asked.revents);
    end_sleeper(0);
}

static void do_select(void) {
    for (int turn = 0; turn < 2; turn++) {
        struct timeval time = {turn ? LIMIT_S : 0, turn ? 0 : 20000};
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fd, &set);
        CHECK(select(fd + 1, is_writer ? 0 : &set, is_writer ? &set : 0, 0, &time) == turn);
        if (!turn) let_go_on();
    }
    end_sleeper(0);
}

static void do_epoll(void) {
    int list = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = is_writer ? EPOLLOUT : EPOLLIN};
    CHECK(list >= 0 && epoll_ctl(list, EPOLL_CTL_ADD, fd, &event) == 0 && epoll_wait(list, &event, 1, 20) == 0);
    let_go_on();
    CHECK(epoll_wait(list, &event, 1, LIMIT_S * 1000) == 1);
    end_sleeper(0);
    CHECK(close(list) == 0);
}

// A poll by another thread goes on while the peer waits, and ends when it does not.
static void *polls(void *unused) {
    struct pollfd asked = {fd, is_writer ? POLLOUT : POLLIN, 0};
    CHECK(poll(&asked, 1, LIMIT_S * 1000) == 1 && asked.revents);
    return unused;
}

static void do_poll_asleep(void) {
    pthread_t other = begin_thread(polls, 0);
    usleep(30000);
    let_go_on();
    end_thread(other);
    end_sleeper(0);
}

static void do_cancel(void) {
    void *result;
    struct timespec limit;
    CHECK((errno = pthread_cancel(sleeper)) == 0 && clock_gettime(CLOCK_REALTIME, &limit) == 0);
    limit.tv_sec += 10;
    CHECK((errno = pthread_timedjoin_np(sleeper, &result, &limit)) == 0);
    CHECK(result == PTHREAD_CANCELED && cleaned == 1);
    succeed(records);
}

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

// `sides`: r, w; b: a write in large blocks.
static const struct { const char *name, *sides; void (*function)(void); const char *peer; } things[] = {
    {"nothing", "rwb", do_nothing, "waits"}, {"fork", "rwb", do_fork, "waits"},
    {"fork_help", "rw", do_fork_help, "waits"}, {"fork_and_close", "rw", do_fork_and_close, "waits"},
    {"vfork", "rw", do_vfork, "waits"}, {"vfork_help", "rw", do_vfork_help, "waits"},
    {"spawn", "rw", do_spawn, "waits"}, {"spawn_help", "rw", do_spawn_help, "waits"},
    {"system", "rw", do_system, "waits"}, {"popen", "rw", do_popen, "waits"},
    {"popen_help", "rw", do_popen_help, "waits"}, {"exec", "rw", do_exec, "waits"},
    {"dup", "rwb", do_dup, "waits"}, {"dup_and_use", "rw", do_dup_and_use, "waits"}, {"dupfd", "rw", do_dupfd, "waits"},
    {"use", "rw", do_use, "waits"}, {"use_asleep", "rw", do_use_asleep, "waits"},
    {"dup2_over", "rw", do_dup2_over, "waits-cut"}, {"close", "rw", do_close, "waits-cut"},
    {"nonblock", "rwb", do_nonblock, "waits"}, {"getfl", "rw", do_getfl, "waits"},
    {"fionread", "rw", do_fionread, "waits"}, {"sendmsg", "rw", do_sendmsg, "waits"},
    {"poll", "rw", do_poll, "waits"}, {"ppoll", "rw", do_ppoll, "waits"}, {"select", "rw", do_select, "waits"},
    {"epoll", "rw", do_epoll, "waits"}, {"poll_asleep", "rw", do_poll_asleep, "waits"},
    {"cancel", "rw", do_cancel, "waits"}, {"signals", "rwb", do_signals, "waits"},
    {"signals_restart", "rwb", do_signals_restart, "waits"}, {"process_signals", "rw", do_process_signals, "waits"},
    {"process_signals_restart", "rw", do_process_signals_restart, "waits"}, {"ignored", "rw", do_ignored, "waits"},
    {"stop", "rw", do_stop, "waits"}, {"setgid", "rw", do_setgid, "waits"}, {"fault", "rw", do_fault, "waits"},
    {"threads", "rw", do_threads, "waits"}, {"dlopen", "rw", do_dlopen, "waits"},
    {"setrlimit", "rw", do_setrlimit, "waits"}, {"pthread_exit", "rw", do_pthread_exit, "waits"},
    {"exit", "rw", do_exit, "waits-cut"}, {"_exit", "rw", do__exit, "waits-cut"},
};

int main(int count, char **arguments) {
    const size_t all = sizeof things / sizeof *things;
    if (count == 2 && !strcmp(arguments[1], "list")) {
        for (size_t i = 0; i < all; i++)
            for (const char *side = things[i].sides; *side; side++)
                printf("%s %s %s\n", *side == 'r' ? "read" : *side == 'w' ? "write" : "blocks", things[i].name, things[i].peer);
        return 0;
    }
    static struct met met;
    CHECK(count >= 3);
    alarm(LIMIT_S);
    self = arguments[0];
    role = arguments[2];
    is_writer = arguments[1][0] != 'r';
    fd = is_writer;
    if (arguments[1][0] == 'b') most = 2048;
    if (!strcmp(role, "help")) return help(), 0;
    if (!strcmp(role, "successor")) {
        share_records();
        succeed(atoi(arguments[3]));
        if (!is_writer) verify_shared(ASLEEP, ALL);
        return 0;
    }
    for (size_t i = 0; i < all; i++)
        if (!strcmp(things[i].name, role)) {
            share_records();
            sleeper = begin_thread(sleeps, &met);
            while (sleeper_id == 0) usleep(100);
            wait_until_asleep();
            things[i].function();
            if (!is_writer && !strcmp(things[i].peer, "waits")) verify_shared(ASLEEP, ALL);
            return 0;
        }
    CHECK(!"a thing");
}
