// What one thread does while another one of its process is asleep in a read or a write of an end.
//
//   asleep list             all things that may be done, and at which side: "read THING", "write THING"
//   asleep read|write THING
//   asleep read|write help  reads or writes some records beside them, in a process of its own
//
// The peers are those of threads.c that wait. The thread that is asleep goes on when the thing was done.
#include "stream.h"
#include <aio.h>
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
#include <sys/uio.h>
#include <time.h>

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
    for (uint32_t number = records, block; number < ALL; number += block) {
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

// Where a handler may jump to, out of a call that has moved nothing.
static sigjmp_buf before_call;
static atomic_int may_jump, jumps_done, is_done;

static void *sleeps(void *met) {
    sleeper_id = syscall(SYS_gettid);
    pthread_cleanup_push(cleans, 0);
    if (!strcmp(role, "cancel_at_once")) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
    if (sigsetjmp(before_call, 1)) jumps_done++;
    may_jump = 1;
    if (is_writer) writes();
    else reads(met);
    is_done = 1;
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

#include "processes.h"
#include "descriptors.h"
#include "sleepers.h"

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
    {"reopen", "rw", do_reopen, "waits"}, {"vector", "rw", do_vector, "waits"}, {"splice", "rw", do_splice, "waits"},
    {"stdio", "rw", do_stdio, "waits"}, {"aio", "rw", do_aio, "waits"}, {"timer", "rw", do_timer, "waits"},
    {"jump", "rw", do_jump, "waits"}, {"jump_and_use", "rw", do_jump_and_use, "waits"},
    {"exit_in_handler", "rw", do_exit_in_handler, "waits"}, {"cancel_at_once", "rw", do_cancel_at_once, "waits"},
    {"use_in_handler", "rw", do_use_in_handler, "waits"}, {"setrlimit", "rw", do_setrlimit, "waits"}, {"pthread_exit", "rw", do_pthread_exit, "waits"},
    {"exit", "rw", do_exit, "waits-cut"}, {"_exit", "rw", do__exit, "waits-cut"},
};

#ifdef OWN_CODE
// A thread whose code calls the kernel by itself all the time, and which signals to the process do not interrupt.
static void *calls_the_kernel(void *unused) {
    sigset_t others;
    sigemptyset(&others);
    sigaddset(&others, SIGUSR1);
    CHECK((errno = pthread_sigmask(SIG_BLOCK, &others, 0)) == 0);
    for (;;) {
        long id = SYS_getppid;
        __asm__ volatile("syscall" : "+a"(id) : : "rcx", "r11", "memory");
        CHECK(id > 0);
        usleep(300);
    }
    return unused;
}
#endif

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
#ifdef OWN_CODE
            begin_thread(calls_the_kernel, 0);
#endif
            sleeper = begin_thread(sleeps, &met);
            while (sleeper_id == 0) usleep(100);
            wait_until_asleep();
            things[i].function();
            if (!is_writer && !strcmp(things[i].peer, "waits")) verify_shared(ASLEEP, ALL);
            return 0;
        }
    CHECK(!"a thing");
}
