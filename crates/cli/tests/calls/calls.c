// One call at an attached end, in the middle of a stream.
//
//   calls list                    the names of all calls, with what becomes of the pipe
//   calls write|read NAME         a side of the pipeline; "-" calls nothing
//   calls write|read NAME AT      goes on there, after an exec
//
// The stream is a fixed function of the position, so the reader checks every byte, also those that the call itself moves. The
// writer says "wrote BYTES", the reader "read BYTES".
#define _GNU_SOURCE
#include <aio.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <grp.h>
#include <mqueue.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <utmp.h>
#include <wordexp.h>

enum { BLOCK = 16384, SOME = 5000 };
// The call comes here, and this many bytes come after it.
static const long BEFORE = 4000000, BEHIND = 1000000;

extern char **environ;
// Exported, and in no header.
pid_t __fork(void);
// As the program began, with SIGSEGV held back.
static sigjmp_buf holds_sigsegv;
static FILE *opened;
static char *self;
static int is_writer, fd;
static long at;
static unsigned char bytes[BLOCK];

static void failed(int line, const char *what) {
    fprintf(stderr, "calls: %s: line %d: %s: %s\n", is_writer ? "writer" : "reader", line, what, strerror(errno));
    _exit(9);
}
#define CHECK(what) do { if (!(what)) failed(__LINE__, #what); } while (0)

static unsigned char byte_at(unsigned long where) {
    where *= 0x9e3779b97f4a7c15ul;
    return (where >> 56) ^ (where >> 40);
}

static void make(unsigned char *to, size_t size) {
    for (size_t i = 0; i < size; i++) to[i] = byte_at(at + i);
}

static void verify(const unsigned char *got, long size) {
    for (long i = 0; i < size; i++) {
        if (got[i] != byte_at(at + i)) {
            fprintf(stderr, "calls: wrong byte at %ld\n", at + i);
            _exit(8);
        }
    }
    at += size;
}

// Bytes by read or write at another number.
static void move_at(int other, size_t size) {
    if (is_writer) {
        make(bytes, size);
        CHECK(write(other, bytes, size) == (ssize_t)size);
        at += size;
        return;
    }
    ssize_t got = read(other, bytes, size);
    CHECK(got > 0);
    verify(bytes, got);
}

static void move(size_t size) { move_at(fd, size); }

// A file with the next bytes of the stream, or an empty one.
static int file_of_stream(size_t size) {
    int file = memfd_create("calls", 0);
    CHECK(file >= 0);
    make(bytes, size);
    CHECK(!size || write(file, bytes, size) == (ssize_t)size);
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    return file;
}

static void verify_file(int file, ssize_t size) {
    CHECK(size > 0 && pread(file, bytes, size, 0) == size);
    verify(bytes, size);
}

static void reap(pid_t child) {
    int status = -1;
    CHECK(child > 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static char *again[5];
static char **arguments(void) {
    static char where[30];
    snprintf(where, sizeof where, "%ld", at);
    char *words[] = {self, is_writer ? "write" : "read", "-", where, 0};
    memcpy(again, words, sizeof words);
    return again;
}

// What the C library has and no header says.
int capget(void *, void *);
int capset(void *, const void *);
int pivot_root(const char *, const char *);
int __poll_chk(struct pollfd *, nfds_t, int, size_t);
int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);
pid_t __libc_fork(void);
pid_t _Fork(void);

static void on_signal(int signal) { (void)signal; }
static int child_of_clone(void *unused) { (void)unused; return 0; }
static void *thread(void *unused) { return unused; }
static int c_thread(void *unused) { (void)unused; return 0; }

static ucontext_t here, there;
static void in_context(void) { }

#define PIECES struct iovec pieces[2] = {{bytes, 1000}, {bytes + 1000, SOME - 1000}}
#define MOVED(moved) do { ssize_t moved_ = (moved); CHECK(moved_ > 0); if (is_writer) at += moved_; else verify(bytes, moved_); } while (0)
#define READS_OR_WRITES(reading, writing) PIECES; make(bytes, SOME); MOVED(is_writer ? (writing) : (reading))

static void descriptor(int other) {
    CHECK(other >= 0);
    move_at(other, SOME);
    CHECK(close(other) == 0);
}

// Into and out of a file or, with a pipe of its own, that one.
static void spliced(int with_pipe) {
    int ends[2];
    if (with_pipe) CHECK(pipe(ends) == 0);
    else ends[0] = ends[1] = file_of_stream(is_writer ? SOME : 0);
    if (is_writer) {
        if (with_pipe) {
            make(bytes, SOME);
            CHECK(write(ends[1], bytes, SOME) == SOME);
        }
        for (long left = SOME; left > 0;) {
            ssize_t moved = splice(ends[0], 0, fd, 0, left, 0);
            CHECK(moved > 0 && moved <= left);
            left -= moved;
        }
        at += SOME;
    } else {
        ssize_t moved = splice(fd, 0, ends[1], 0, SOME, 0);
        CHECK(moved > 0 && moved <= SOME);
        if (!with_pipe) CHECK(lseek(ends[0], 0, SEEK_SET) == 0);
        CHECK(read(ends[0], bytes, moved) == moved);
        verify(bytes, moved);
    }
    close(ends[0]);
    if (with_pipe) close(ends[1]);
}

// With a position in a file, which the call is to move.
static void spliced_at(void) {
    int file = file_of_stream(is_writer ? SOME : 0);
    loff_t place = 0;
    ssize_t moved = is_writer ? splice(file, &place, fd, 0, 100, 0) : splice(fd, 0, file, &place, 100, 0);
    CHECK(moved > 0 && place == moved && lseek(file, 0, SEEK_CUR) == 0);
    if (is_writer) at += moved;
    else verify_file(file, moved);
    close(file);
}

// Without waiting: at the end of the stream 0, and else no longer than a moment.
static void spliced_now(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    ssize_t moved = is_writer ? splice(ends[0], 0, fd, 0, 100, SPLICE_F_NONBLOCK) : splice(fd, 0, ends[1], 0, 100, SPLICE_F_NONBLOCK);
    CHECK(moved > 0 || (moved == -1 && errno == EAGAIN));
    if (moved > 0) {
        CHECK(!is_writer && read(ends[0], bytes, moved) == moved);
        verify(bytes, moved);
    }
    close(ends[0]);
    close(ends[1]);
}

static void spliced_wrongly(void) {
    int file = file_of_stream(0), terminal = open("/proc/self/ns/uts", O_RDONLY);
    CHECK(splice(fd, 0, fd, 0, 10, 0) == -1 && errno == EBADF);
    CHECK(splice(file, 0, file, 0, 10, 0) == -1 && errno == EINVAL);
    CHECK(is_writer ? splice(terminal, 0, fd, 0, 10, 0) == -1 : splice(fd, 0, terminal, 0, 10, 0) == -1);
    close(terminal);
    close(file);
}

static void teed(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    if (is_writer) {
        make(bytes, SOME);
        CHECK(write(ends[1], bytes, SOME) == SOME);
        CHECK(tee(ends[0], fd, SOME, 0) == SOME);
        at += SOME;
    } else {
        ssize_t copied = tee(fd, ends[1], SOME, 0);
        CHECK(copied > 0 && read(ends[0], bytes, copied) == copied);
        long start = at;
        verify(bytes, copied);
        at = start;
        move(copied);
    }
    close(ends[0]);
    close(ends[1]);
}

static void sent(void) {
    int file = file_of_stream(is_writer ? SOME : 0);
    for (long left = SOME; is_writer && left > 0;) {
        ssize_t moved = sendfile(fd, file, 0, left);
        CHECK(moved > 0 && moved <= left);
        left -= moved;
    }
    if (is_writer) {
        at += SOME;
    } else {
        // Linux refuses it from a pipe, but for kernels that do not.
        ssize_t moved = sendfile(file, fd, 0, SOME);
        if (moved > 0) verify_file(file, moved);
        else CHECK(errno == EINVAL);
    }
    close(file);
}

static void passed_on(int many) {
    int ends[2], sent = fd, got = -1;
    char one = 'x', control[CMSG_SPACE(sizeof sent)] = {0};
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    struct iovec piece = {&one, 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control}};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message.msg_hdr);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof sent);
    memcpy(CMSG_DATA(head), &sent, sizeof sent);
    if (many) CHECK(sendmmsg(ends[0], &message, 1, 0) == 1);
    else CHECK(sendmsg(ends[0], &message.msg_hdr, 0) == 1);
    CHECK(recvmsg(ends[1], &message.msg_hdr, 0) == 1);
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message.msg_hdr)), sizeof got);
    close(ends[0]);
    close(ends[1]);
    descriptor(got);
}

static void watched(void) {
    struct epoll_event asked = {.events = is_writer ? EPOLLOUT : EPOLLIN}, told;
    int set = epoll_create1(0);
    CHECK(set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &asked) == 0 && epoll_wait(set, &told, 1, -1) == 1);
    close(set);
}

static void asynchronous(void) {
    int file = file_of_stream(SOME);
    static char room[SOME];
    struct aiocb request = {.aio_fildes = file, .aio_buf = room, .aio_nbytes = SOME};
    const struct aiocb *list[] = {&request};
    CHECK(aio_read(&request) == 0);
    while (aio_error(&request) == EINPROGRESS) aio_suspend(list, 1, 0);
    CHECK(aio_return(&request) == SOME && !memcmp(room, bytes, SOME));
}

static void suspended(void) {
    struct sigaction action = {.sa_handler = on_signal};
    struct itimerval soon = {{0, 0}, {0, 1000}};
    sigset_t held, none;
    sigemptyset(&none);
    sigemptyset(&held);
    sigaddset(&held, SIGALRM);
    CHECK(sigaction(SIGALRM, &action, 0) == 0 && sigprocmask(SIG_BLOCK, &held, 0) == 0 && setitimer(ITIMER_REAL, &soon, 0) == 0);
    CHECK(sigsuspend(&none) == -1 && errno == EINTR);
}

static void other_context(int how) {
    static char stack[65536];
    static volatile int times;
    CHECK(getcontext(&here) == 0);
    if (how) {
        if (times++ == 0) setcontext(&here);
        return;
    }
    CHECK(getcontext(&there) == 0);
    there.uc_stack.ss_sp = stack, there.uc_stack.ss_size = sizeof stack, there.uc_link = &here;
    makecontext(&there, in_context, 0);
    CHECK(swapcontext(&here, &there) == 0);
}

static void with_timer(void) {
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_delete(timer) == 0);
}

static void in_terminal(void) {
    int master;
    pid_t child = forkpty(&master, 0, 0, 0);
    if (child == 0) _exit(0);
    reap(child);
    close(master);
}

static void in_namespace(void) {
    int space = open("/proc/self/ns/uts", O_RDONLY);
    CHECK(space >= 0 && setns(space, 0) == 0);
    close(space);
}

static void with_words(void) {
    wordexp_t words;
    CHECK(wordexp("$(echo one)", &words, 0) == 0 && !strcmp(words.we_wordv[0], "one"));
    wordfree(&words);
}

static void spawned(int by_path) {
    char *words[] = {"true", 0};
    pid_t child;
    CHECK((by_path ? posix_spawnp(&child, "true", 0, 0, words, environ) : posix_spawn(&child, "/bin/true", 0, 0, words, environ)) == 0);
    reap(child);
}

static void capabilities(void) {
    unsigned head[2] = {0x20080522, 0}, data[6];
    CHECK(capget(head, data) == 0 && capset(head, data) == 0);
}

static void limited(int which) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK((which ? prlimit(0, RLIMIT_NOFILE, &limit, 0) : setrlimit(RLIMIT_NOFILE, &limit)) == 0);
}

static void cancelled(void) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, 0);
    CHECK(pthread_cancel(pthread_self()) == 0);
}

static void robust(void) {
    pthread_mutexattr_t kind;
    CHECK(pthread_mutexattr_init(&kind) == 0 && pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST) == 0);
}

static void threaded(int of_c) {
    pthread_t one;
    thrd_t other;
    if (of_c) CHECK(thrd_create(&other, c_thread, 0) == thrd_success && thrd_join(other, 0) == thrd_success);
    else CHECK(pthread_create(&one, 0, thread, 0) == 0 && pthread_join(one, 0) == 0);
}

static void executed(const char *how) {
    char **words = arguments();
    if (!strcmp(how, "execve")) execve(self, words, environ);
    if (!strcmp(how, "execv")) execv(self, words);
    if (!strcmp(how, "execvp")) execvp(self, words);
    if (!strcmp(how, "execvpe")) execvpe(self, words, environ);
    if (!strcmp(how, "execl")) execl(self, words[0], words[1], words[2], words[3], (char *)0);
    if (!strcmp(how, "execlp")) execlp(self, words[0], words[1], words[2], words[3], (char *)0);
    if (!strcmp(how, "execle")) execle(self, words[0], words[1], words[2], words[3], (char *)0, environ);
    int file = open(self, O_RDONLY | O_CLOEXEC);
    if (!strcmp(how, "execveat")) execveat(file, "", words, environ, AT_EMPTY_PATH);
    if (!strcmp(how, "fexecve")) fexecve(file, words, environ);
    CHECK(!"exec");
}

static int one_set(int with_mask) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    fd_set *reads = is_writer ? 0 : &set, *writes = is_writer ? &set : 0;
    return with_mask ? pselect(fd + 1, reads, writes, 0, 0, 0) : select(fd + 1, reads, writes, 0, 0);
}

static int size_of_pipe(void) {
    int size = fcntl(fd, F_GETPIPE_SZ);
    CHECK(size >= 4096);
    return size;
}

static int unread(void) {
    int bytes = -1;
    CHECK(ioctl(fd, FIONREAD, &bytes) == 0);
    return bytes;
}

static void not_blocking(void) {
    int on = 1;
    CHECK(ioctl(fd, FIONBIO, &on) == 0 && fcntl(fd, F_GETFL) & O_NONBLOCK);
    on = 0;
    CHECK(ioctl(fd, FIONBIO, &on) == 0 && !(fcntl(fd, F_GETFL) & O_NONBLOCK));
}

#define ASKED struct pollfd asked = {fd, is_writer ? POLLOUT : POLLIN, 0}
#define VM(call) do { static unsigned char room[SOME]; make(bytes, SOME); struct iovec from = {bytes, SOME}, to = {room, SOME}; \
    CHECK(call == SOME && !memcmp(bytes, room, SOME)); } while (0)
#define CHILD(call) do { pid_t child_ = (call); if (child_ == 0) _exit(0); reap(child_); } while (0)

#ifdef OWN_CODE
// A system call of this program's own, past the C library: what the kernel answers.
static long own(long number, long first, long second, long third) {
    register long result __asm__("rax") = number;
    __asm__ volatile("syscall" : "+r"(result) : "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory");
    return result;
}

// The same, with something behind the end of the stack, as a function without calls may have it there: whether it is still there.
static int keeps_red_zone(void) {
    long differs;
    __asm__ volatile("movq $0x1234, -8(%%rsp)\n\tmovq $0x5678, -128(%%rsp)\n\tmovl $39, %%eax\n\tsyscall\n\t"
        "movq -8(%%rsp), %%rax\n\txorq $0x1234, %%rax\n\tmovq -128(%%rsp), %0\n\txorq $0x5678, %0\n\torq %%rax, %0"
        : "=&r"(differs) : : "rax", "rcx", "r11", "memory", "cc");
    return differs == 0;
}

// At every place of the stack within a cache line: the frame of the signal ends close below it, with the upper halves of registers.
static int keeps_vectors(void) {
    if (!__builtin_cpu_supports("avx")) return 1;
    for (long shift = 0; shift < 256; shift += 8) {
        long lost;
        __asm__ volatile("movq %%rsp, %%rbx\n\tsubq %1, %%rsp\n\tmovq $0x55, %%rcx\n\tvmovq %%rcx, %%xmm7\n\t"
            "vinsertf128 $1, %%xmm7, %%ymm7, %%ymm7\n\tmovl $39, %%eax\n\tsyscall\n\tvextractf128 $1, %%ymm7, %%xmm7\n\t"
            "vmovq %%xmm7, %0\n\txorq $0x55, %0\n\tmovq %%rbx, %%rsp\n\tvzeroupper"
            : "=&r"(lost) : "r"(shift + 256) : "rax", "rbx", "rcx", "r11", "xmm7", "memory", "cc");
        if (lost) return 0;
    }
    return 1;
}

static void own_file(void) {
    int other = own(SYS_openat, AT_FDCWD, (long)"/dev/zero", O_RDONLY);
    char room[100];
    CHECK(other >= 0 && own(SYS_read, other, (long)room, sizeof room) == sizeof room && own(SYS_close, other, 0, 0) == 0);
    CHECK(own(SYS_read, other, (long)room, 1) == -EBADF);
}

static void own_memory(void) {
    register long protection __asm__("rdx") = PROT_READ | PROT_WRITE;
    register long flags __asm__("r10") = MAP_PRIVATE | MAP_ANONYMOUS;
    register long none __asm__("r8") = -1;
    register long offset __asm__("r9") = 0;
    register long page __asm__("rax") = SYS_mmap;
    __asm__ volatile("syscall" : "+r"(page) : "D"(0L), "S"(4096L), "r"(protection), "r"(flags), "r"(none), "r"(offset)
        : "rcx", "r11", "memory");
    CHECK(page > 0);
    *(char *)page = 1;
    CHECK(own(SYS_munmap, page, 4096, 0) == 0);
}

static void own_sleep(void) {
    struct itimerval soon = {{0, 0}, {0, 1000}};
    struct timespec long_time = {50, 0};
    CHECK(setitimer(ITIMER_REAL, &soon, 0) == 0 && own(SYS_nanosleep, (long)&long_time, 0, 0) == -EINTR);
}

static void own_move(int in_pieces) {
    PIECES;
    make(bytes, SOME);
    long number = in_pieces ? is_writer ? SYS_writev : SYS_readv : is_writer ? SYS_write : SYS_read;
    MOVED(in_pieces ? own(number, fd, (long)pieces, 2) : own(number, fd, (long)bytes, SOME));
}

static void own_exec(void) {
    char **words = arguments();
    own(SYS_execve, (long)self, (long)words, (long)environ);
}

#define CALLS(X) \
    X("own-none", "stays", (void)0) \
    X("own-getpid", "stays", CHECK(own(SYS_getpid, 0, 0, 0) == getpid() && keeps_red_zone())) \
    X("own-file", "stays", own_file()) \
    X("own-memory", "stays", own_memory()) \
    X("own-sleep", "stays", own_sleep()) \
    X("own-name", "stays", char name[16]; CHECK(own(SYS_prctl, PR_GET_NAME, (long)name, 0) == 0)) \
    X("own-F_GETFL", "stays", CHECK(own(SYS_fcntl, fd, F_GETFL, 0) >= 0)) \
    X("own-move", "code", own_move(0)) \
    X("own-pieces", "code", own_move(1)) \
    X("own-FIONREAD", "code", int unread = -1; CHECK(own(SYS_ioctl, fd, FIONREAD, (long)&unread) == 0 && unread >= 0)) \
    X("own-poll", "code", ASKED; CHECK(own(SYS_poll, (long)&asked, 1, -1) == 1 && asked.revents)) \
    X("own-dup", "code", descriptor(own(SYS_dup, fd, 0, 0))) \
    X("own-fork", "code", CHILD(own(SYS_fork, 0, 0, 0))) \
    X("own-pipe", "code", int ends[2]; CHECK(own(SYS_pipe, (long)ends, 0, 0) == 0)) \
    X("own-int80", "code", long id = 20; __asm__ volatile("int $0x80" : "+a"(id) : : "memory"); CHECK(id == getpid())) \
    X("own-stack", "stays", CHECK(keeps_vectors())) \
    X("own-unknown", "code", CHECK(own(9999, 0, 0, 0) == -ENOSYS)) \
    X("own-exec", "anew", own_exec())
#else
// Each: its name; the guarded function that is told (a reader's/a writer's), "stays" if the pipe stays, "stays" if a reader's does, or "anew" after an exec.
#define CALLS(X) \
    X("none", "stays", (void)0) \
    X("readv", "stays", READS_OR_WRITES(readv(fd, pieces, 2), writev(fd, pieces, 2))) \
    X("readv-few", "stays", struct iovec few[3] = {{bytes, 7}, {0, 0}, {bytes + 7, 93}}; make(bytes, 100); MOVED(is_writer ? writev(fd, few, 3) : readv(fd, few, 3))) \
    X("readv-nothing", "stays", CHECK(is_writer ? writev(fd, 0, 0) == 0 : readv(fd, 0, 0) == 0)) \
    X("readv-wrong", "nowhere", CHECK((is_writer ? writev(fd, (void *)8, 1) : readv(fd, (void *)8, 1)) == -1 && errno == EFAULT)) \
    X("readv-many", "nowhere", CHECK((is_writer ? writev(fd, 0, 2000) : readv(fd, 0, 2000)) == -1 && errno == EINVAL)) \
    X("preadv2", "preadv2/pwritev2", READS_OR_WRITES(preadv2(fd, pieces, 2, -1, 0), pwritev2(fd, pieces, 2, -1, 0))) \
    X("preadv64v2", "preadv64v2/pwritev64v2", READS_OR_WRITES(preadv64v2(fd, pieces, 2, -1, 0), pwritev64v2(fd, pieces, 2, -1, 0))) \
    X("splice", "splice/stays", spliced(0)) \
    X("splice-pipe", "stays", spliced(1)) \
    X("splice-at", "splice", spliced_at()) \
    X("splice-wrong", "splice", spliced_wrongly()) \
    X("splice-now", "splice", spliced_now()) \
    X("tee", "tee", teed()) \
    X("vmsplice", "vmsplice", READS_OR_WRITES(vmsplice(fd, pieces, 2, 0), vmsplice(fd, pieces, 2, 0)); if (is_writer) { while (unread()) usleep(1000); }) \
    X("sendfile", "sendfile/stays", sent()) \
    X("copy_file_range", "copy_file_range", int file = file_of_stream(SOME); CHECK((is_writer ? copy_file_range(file, 0, fd, 0, SOME, 0) : copy_file_range(fd, 0, file, 0, SOME, 0)) == -1)) \
    X("process_vm_readv", "process_vm_readv", VM(process_vm_readv(getpid(), &to, 1, &from, 1, 0))) \
    X("process_vm_writev", "process_vm_writev", VM(process_vm_writev(getpid(), &from, 1, &to, 1, 0))) \
    X("syscall", "syscall", CHECK(syscall(SYS_getpid) == getpid() && syscall(SYS_getpgid, 0) == getpgrp())) \
    X("epoll_ctl", "epoll_ctl", watched()) \
    X("dup", "dup", descriptor(dup(fd))) \
    X("dup2", "dup2", descriptor(dup2(fd, 50))) \
    X("dup3", "dup3", descriptor(dup3(fd, 50, O_CLOEXEC))) \
    X("close_range", "close_range", CHECK(close_range(70, 80, 0) == 0)) \
    X("closefrom", "closefrom", closefrom(70)) \
    X("sendmsg", "sendmsg", passed_on(0)) \
    X("sendmmsg", "sendmmsg", passed_on(1)) \
    X("pidfd_getfd", "pidfd_getfd", int process = pidfd_open(getpid(), 0); descriptor(pidfd_getfd(process, fd, 0)); close(process)) \
    X("login_tty", "login_tty", CHECK(login_tty(-1) == -1)) \
    X("fork", "fork", CHILD(fork())) \
    X("vfork", "vfork", CHILD(vfork())) \
    X("_Fork", "_Fork", CHILD(_Fork())) \
    X("__fork", "__fork", CHILD(__fork())) \
    X("clone", "clone", static char stack[65536]; reap(clone(child_of_clone, stack + sizeof stack, SIGCHLD, 0))) \
    X("posix_spawn", "posix_spawn", spawned(0)) \
    X("posix_spawnp", "posix_spawnp", spawned(1)) \
    X("popen", "popen", FILE *stream = popen("true", "r"); CHECK(stream && fgetc(stream) == EOF && pclose(stream) == 0)) \
    X("system", "system", CHECK(system("true") == 0)) \
    X("daemon", "daemon", CHECK(daemon(1, 1) == 0)) \
    X("forkpty", "forkpty", in_terminal()) \
    X("wordexp", "wordexp", with_words()) \
    X("pthread_create", "stays", threaded(0)) \
    X("thrd_create", "stays", threaded(1)) \
    X("aio_read", "aio_read", asynchronous()) \
    X("aio_write", "aio_write", struct aiocb request = {.aio_fildes = -1}; CHECK(aio_write(&request) == 0 || errno == EBADF)) \
    X("aio_fsync", "aio_fsync", struct aiocb request = {.aio_fildes = -1}; CHECK(aio_fsync(O_SYNC, &request) == -1)) \
    X("lio_listio", "lio_listio", CHECK(lio_listio(LIO_WAIT, 0, 0, 0) == 0)) \
    X("mq_notify", "mq_notify", CHECK(mq_notify(-1, 0) == -1)) \
    X("getaddrinfo_a", "getaddrinfo_a", CHECK(getaddrinfo_a(GAI_WAIT, 0, 0, 0) == 0)) \
    X("backtrace_symbols_fd", "backtrace_symbols_fd", backtrace_symbols_fd(0, 0, fd)) \
    X("freopen", "freopen", FILE *stream = fopen("/dev/null", "r"); CHECK(stream && freopen("/dev/null", "r", stream) && fclose(stream) == 0)) \
    X("freopen64", "freopen64", FILE *stream = fopen("/dev/null", "r"); CHECK(stream && freopen64("/dev/null", "r", stream) && fclose(stream) == 0)) \
    X("fdopen", "fdopen", CHECK(fdopen(fd, is_writer ? "w" : "r"))) \
    X("fdopen-other", "stays", int other = open("/dev/null", O_RDONLY); FILE *stream = fdopen(other, "r"); CHECK(stream && fclose(stream) == 0)) \
    X("eventfd_write", "stays", eventfd_t value; int other = eventfd(0, 0); CHECK(eventfd_write(other, 1) == 0 && eventfd_read(other, &value) == 0 && close(other) == 0)) \
    X("dprintf", "stays", int other = open("/dev/null", O_WRONLY); CHECK(dprintf(other, "%d %f", 1, 2.0) == 10 && close(other) == 0)) \
    X("psiginfo", "psiginfo", siginfo_t information = {.si_signo = SIGUSR1}; psiginfo(&information, "calls")) \
    X("herror", "herror", herror("calls")) \
    X("mq_close", "stays", CHECK(mq_close(-1) == -1)) \
    X("lockf", "lockf", lockf(fd, F_TEST, 0)) \
    X("pclose", "pclose", CHECK(pclose(opened) >= 0)) \
    X("timer_create", "timer_create", with_timer()) \
    X("execve", "anew", executed("execve")) \
    X("execveat", "anew", executed("execveat")) \
    X("fexecve", "anew", executed("fexecve")) \
    X("execv", "anew", executed("execv")) \
    X("execvp", "anew", executed("execvp")) \
    X("execvpe", "anew", executed("execvpe")) \
    X("execl", "anew", executed("execl")) \
    X("execlp", "anew", executed("execlp")) \
    X("execle", "anew", executed("execle")) \
    X("unshare", "unshare", CHECK(unshare(CLONE_FS) == 0)) \
    X("setns", "setns", in_namespace()) \
    X("dlopen", "dlopen", CHECK(dlopen("libm.so.6", RTLD_NOW))) \
    X("dlmopen", "dlmopen", CHECK(dlmopen(LM_ID_BASE, "libm.so.6", RTLD_NOW))) \
    X("prctl", "prctl", char name[16]; CHECK(prctl(PR_GET_NAME, name) == 0 && prctl(PR_GET_DUMPABLE) >= 0)) \
    X("setuid", "setuid", CHECK(setuid(geteuid()) == 0)) \
    X("setgid", "setgid", CHECK(setgid(getegid()) == 0)) \
    X("seteuid", "seteuid", CHECK(seteuid(geteuid()) == 0)) \
    X("setegid", "setegid", CHECK(setegid(getegid()) == 0)) \
    X("setreuid", "setreuid", CHECK(setreuid(-1, -1) == 0)) \
    X("setregid", "setregid", CHECK(setregid(-1, -1) == 0)) \
    X("setresuid", "setresuid", CHECK(setresuid(-1, -1, -1) == 0)) \
    X("setresgid", "setresgid", CHECK(setresgid(-1, -1, -1) == 0)) \
    X("setgroups", "setgroups", CHECK(setgroups(0, 0) == 0)) \
    X("initgroups", "initgroups", CHECK(initgroups("root", 0) == 0)) \
    X("setfsuid", "setfsuid", setfsuid(geteuid())) \
    X("setfsgid", "setfsgid", setfsgid(getegid())) \
    X("capset", "capset", capabilities()) \
    X("setrlimit", "setrlimit", limited(0)) \
    X("prlimit", "prlimit", limited(1)) \
    X("chroot", "chroot", CHECK(chroot("/") == 0)) \
    X("pivot_root", "pivot_root", CHECK(pivot_root("/nowhere", "/nowhere") == -1)) \
    X("sigaction", "stays", struct sigaction action = {.sa_handler = on_signal}; CHECK(sigaction(SIGUSR1, &action, 0) == 0)) \
    X("signal", "stays", CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR)) \
    X("sysv_signal", "stays", CHECK(sysv_signal(SIGUSR1, SIG_IGN) != SIG_ERR)) \
    X("sigset", "sigset", CHECK(sigset(SIGUSR1, SIG_IGN) != SIG_ERR)) \
    X("sigignore", "stays", CHECK(sigignore(SIGUSR1) == 0)) \
    X("siginterrupt", "stays", CHECK(siginterrupt(SIGUSR1, 1) == 0)) \
    X("sigblock", "sigblock", sigblock(0)) \
    X("sigsetmask", "sigsetmask", sigsetmask(0)) \
    X("sighold", "sighold", CHECK(sighold(SIGUSR1) == 0)) \
    X("siglongjmp", "stays", static sigjmp_buf place; if (!sigsetjmp(place, 1)) siglongjmp(place, 1)) \
    X("SIGSEGV-jumped", "siglongjmp", siglongjmp(holds_sigsegv, 1)) \
    X("sigsuspend", "sigsuspend", suspended()) \
    X("setcontext", "setcontext", other_context(1)) \
    X("swapcontext", "swapcontext", other_context(0)) \
    X("pthread_cancel", "pthread_cancel", cancelled()) \
    X("pthread_mutexattr_setrobust", "pthread_mutexattr_setrobust", robust()) \
    X("poll", "stays", ASKED; CHECK(poll(&asked, 1, -1) == 1 && asked.revents)) \
    X("__poll_chk", "stays", ASKED; CHECK(__poll_chk(&asked, 1, -1, sizeof asked) == 1 && asked.revents)) \
    X("ppoll", "stays", ASKED; CHECK(ppoll(&asked, 1, 0, 0) == 1 && asked.revents)) \
    X("__ppoll_chk", "stays", ASKED; CHECK(__ppoll_chk(&asked, 1, 0, 0, sizeof asked) == 1 && asked.revents)) \
    X("select", "stays", CHECK(one_set(0) == 1)) \
    X("pselect", "stays", CHECK(one_set(1) == 1)) \
    X("FIONREAD", "ioctl", unread()) \
    X("FIONBIO", "ioctl", not_blocking()) \
    X("TCGETS", "stays", CHECK(!isatty(fd))) \
    X("F_DUPFD", "fcntl", descriptor(fcntl(fd, F_DUPFD, 40))) \
    X("F_SETFL", "fcntl", CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL)) == 0)) \
    X("F_GETFL", "stays", CHECK(fcntl(fd, F_GETFL) >= 0)) \
    X("F_GETPIPE_SZ", "fcntl", size_of_pipe()) \
    X("F_SETPIPE_SZ", "fcntl", CHECK(fcntl(fd, F_SETPIPE_SZ, 2 * size_of_pipe()) > 0)) \
    X("close", "stays", int other = open("/dev/null", O_RDONLY); CHECK(other >= 0 && close(other) == 0)) \
    X("lseek", "stays", CHECK(lseek(fd, 0, SEEK_CUR) == -1 && errno == ESPIPE)) \
    X("pread", "stays", CHECK(pread(fd, bytes, 1, 0) == -1 && errno == ESPIPE)) \
    X("sigprocmask", "stays", sigset_t set; sigemptyset(&set); sigaddset(&set, SIGUSR1); CHECK(sigprocmask(SIG_BLOCK, &set, 0) == 0)) \
    X("pthread_sigmask", "stays", sigset_t set; sigemptyset(&set); sigaddset(&set, SIGUSR1); CHECK(pthread_sigmask(SIG_BLOCK, &set, 0) == 0)) \
    X("SIGSEGV-held", "sigprocmask", sigset_t set; sigemptyset(&set); sigaddset(&set, SIGSEGV); CHECK(sigprocmask(SIG_BLOCK, &set, 0) == 0)) \
    X("pthread_exit", "pthread_exit", fprintf(stderr, "%s %ld\n", is_writer ? "wrote" : "read", at); pthread_exit(0))
#endif

static struct { const char *name, *then; } table[] = {
#define NAME(name, then, ...) {name, then},
    CALLS(NAME)
};

static void act(const char *name) {
#define ACT(known, then, ...) if (!strcmp(name, known)) { __VA_ARGS__; return; }
    CALLS(ACT)
    CHECK(!strcmp(name, "-"));
}

int main(int count, char **words) {
    if (count == 2) {
        for (size_t i = 0; i < sizeof table / sizeof *table; i++) printf("%s %s\n", table[i].name, table[i].then);
        return 0;
    }
    self = words[0];
    is_writer = !strcmp(words[1], "write");
    fd = is_writer;
    volatile int is_done = count > 3;
    if (is_done) at = atol(words[3]);
    alarm(100);
#ifdef OWN_CODE
    struct sigaction action = {.sa_handler = on_signal};
    CHECK(sigaction(SIGALRM, &action, 0) == 0);
#endif
    if (!strcmp(words[2], "pclose")) CHECK(opened = popen("true", "r"));
    sigset_t fault;
    sigemptyset(&fault);
    sigaddset(&fault, SIGSEGV);
    sigprocmask(SIG_BLOCK, &fault, 0);
    if (!sigsetjmp(holds_sigsegv, 1)) sigprocmask(SIG_UNBLOCK, &fault, 0);
    for (;;) {
        if (!is_done && at >= BEFORE) {
            is_done = 1;
            act(words[2]);
        }
        if (is_writer) {
            if (at >= BEFORE + BEHIND) break;
            move(at % BLOCK + 1);
        } else {
            ssize_t got = read(fd, bytes, BLOCK);
            CHECK(got >= 0);
            if (got == 0) break;
            verify(bytes, got);
        }
    }
    fprintf(stderr, "%s %ld\n", is_writer ? "wrote" : "read", at);
    return 0;
}
