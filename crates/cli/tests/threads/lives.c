// Lives of pipelines: a source, one or two programs whose threads move what they read and do at random what threads may do meanwhile,
// and a sink that checks every byte. In some lives a process is killed or stopped at a random moment.
//
//   lives drive FIRST LIVES SECONDS   lives from this seed on, so many or for so long; "lives N whole N" when all went well
//   lives write|move|read SEED        one stage of a life, for the driver
//
// Nothing of the source's is missing at the sink if no process was killed, and what arrived is its beginning otherwise. In every second
// life threads pass the bytes on in their order, in the others whole records as they come.
#include "stream.h"
#include <dlfcn.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>

enum { STAGES = 4, THREADS = 5, HANG_S = 30, PIECE = LONGEST, MENU = 5 };
extern char **environ;

// What the stages of a life tell the driver.
static struct report {
    // Bytes that the source is about to write, that it has written, and that the sink has got.
    _Atomic uint64_t offered, written, arrived;
    // A stage has left early, by itself.
    atomic_int has_left;
    atomic_int has_ended;
} *report;

static _Thread_local uint64_t state;
static unsigned pick(unsigned below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % below;
}

static uint64_t mixed(uint64_t number) {
    number = (number + 1) * 0x9e3779b97f4a7c15ull;
    return number ^ number >> 29;
}

static int is_ordered;
static uint64_t life;

static uint64_t total_of_life(void) { return (200 + mixed(life * 3) % (mixed(life * 5) % 4 ? 1500 : 8000)) * RECORD; }

static void pause_at_times(void) {
    if (pick(300) == 0) usleep(pick(3000));
}

static void source(void) {
    unsigned char block[8 * PIECE];
    uint64_t all = total_of_life() / RECORD;
    signal(SIGPIPE, SIG_IGN);
    for (uint64_t number = 0; number < all;) {
        unsigned count = 1 + pick(pick(3) ? 8 : is_ordered ? 64 : 8);
        if (count > all - number) count = all - number;
        for (unsigned i = 0; i < count; i++) make_record(block + i * RECORD, RECORD, 0, number + i, number + i == all - 1);
        report->offered = (number + count) * RECORD;
        for (size_t done = 0; done < count * RECORD;) {
            ssize_t some = write(1, block + done, count * RECORD - done);
            if (some < 0 && errno == EPIPE) _exit(0);
            CHECK(some > 0);
            done += some;
        }
        number += count;
        report->written = number * RECORD;
        pause_at_times();
    }
}

static void sink(void) {
    static unsigned char block[BLOCK];
    static struct input input;
    share_records();
    for (ssize_t got; (got = read(0, block, 1 + pick(pick(2) ? BLOCK : 3000))) != 0;) {
        CHECK(got > 0);
        if (is_ordered) {
            verify_bytes(&input, block, got);
        } else {
            for (ssize_t at = 0, some; at < got; at += some) {
                some = RECORD - (ssize_t)input.len < got - at ? RECORD - (ssize_t)input.len : got - at;
                memcpy(input.kept + input.len, block + at, some);
                input.len = (input.len + some) % RECORD;
                // In any order.
                input.met = (struct met){0};
                if (input.len == 0) share_read(&input.met, input.kept, RECORD, RECORD);
            }
        }
        report->arrived += got;
        pause_at_times();
    }
    report->has_ended = 1;
}

// A stage in the middle. Threads that move bytes have a place here, where signals are sent to them.
static struct { pthread_t thread; int is_there; } places[THREADS];
static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER, input_lock = PTHREAD_MUTEX_INITIALIZER,
                       output_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t next_turn = PTHREAD_COND_INITIALIZER;
static uint64_t taken_turns, put_turns;
static atomic_int movers, is_over;
static unsigned menu[MENU], menu_len, rareness;
static int mixes_numbers;
static char *self;

static void *mover(void *number);
static void *disturber(void *number);

static void leave(int status) {
    report->has_left = 1;
    _exit(status);
}

// A call of the end that a signal, a full pipe or an empty one may end.
static int has_to_repeat(int fd, short events) {
    if (errno == EAGAIN) {
        struct pollfd asked = {fd, events, 0};
        poll(&asked, 1, 10);
        return 1;
    }
    return errno == EINTR;
}

// A call by an instruction of the program's own, as far as it has any.
static long own_call(long number, int fd, const void *bytes, size_t size) {
#ifdef OWN_CODE
    long outcome;
    __asm__ volatile("syscall" : "=a"(outcome) : "a"(number), "D"((long)fd), "S"(bytes), "d"(size) : "rcx", "r11", "memory");
    errno = outcome < 0 ? -outcome : 0;
    return outcome < 0 ? -1 : outcome;
#else
    return syscall(number, fd, bytes, size);
#endif
}

static int way_of_call(void) { return mixes_numbers ? pick(4) : 0; }

static ssize_t read_some(unsigned char *bytes, size_t size, int way) {
    for (;;) {
        // Of records none is in two parts.
        size_t first = is_ordered ? size / 2 : size / RECORD / 2 * RECORD;
        struct iovec parts[2] = {{bytes, first}, {bytes + first, size - first}};
        int other = way == 1 ? dup(0) : 0;
        CHECK(other >= 0);
        ssize_t got = way == 2 ? readv(0, parts, 2) : way == 3 ? own_call(SYS_read, 0, bytes, size) : read(other, bytes, size);
        int error = errno;
        if (other > 0) close(other);
        errno = error;
        if (got >= 0) return got;
        CHECK(has_to_repeat(0, POLLIN));
    }
}

static void write_all(const unsigned char *bytes, size_t size, int way) {
    for (size_t done = 0; done < size;) {
        struct iovec part = {(void *)(bytes + done), size - done};
        int other = way == 1 ? dup(1) : 1;
        CHECK(other >= 0);
        ssize_t some = way == 2   ? writev(1, &part, 1)
                       : way == 3 ? own_call(SYS_write, 1, bytes + done, size - done)
                                  : write(other, bytes + done, size - done);
        int error = errno;
        if (other > 1) close(other);
        errno = error;
        if (some < 0 && errno == EPIPE) leave(0);
        CHECK(some > 0 || has_to_repeat(1, POLLOUT));
        if (some > 0) done += some;
    }
}

// A handler moves a record too, in the middle of whatever its thread does.
static int handlers_move;
static void on_signal(int signal) {
    unsigned char record[RECORD];
    int before = errno, others = movers;
    (void)signal;
    // Not when the last thread is about to end the process.
    while (handlers_move && others > 0 && !atomic_compare_exchange_strong(&movers, &others, others + 1)) {}
    if (handlers_move && others > 0) {
        write_all(record, read_some(record, RECORD, 0), 0);
        if (--movers == 0) _exit(0);
    }
    errno = before;
}

// Nothing is on its way in this process, and no other thread moves anything until `release`.
static void hold_all(void) {
    pthread_mutex_lock(&input_lock);
    pthread_mutex_lock(&output_lock);
    while (put_turns != taken_turns) pthread_cond_wait(&next_turn, &output_lock);
}

static void release(void) {
    pthread_mutex_unlock(&output_lock);
    pthread_mutex_unlock(&input_lock);
}

static void wait_for_child(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR);
    CHECK(status == 0 || (WIFSIGNALED(status) && (WTERMSIG(status) == SIGPIPE || WTERMSIG(status) == SIGKILL)));
}

// A child moves some bytes, while nothing else does or beside all threads.
static void act_child_moves(void) {
    unsigned char bytes[PIECE];
    if (is_ordered) hold_all();
    pid_t child = fork();
    if (child == 0) {
        for (int turns = 1 + pick(4); turns > 0; turns--) write_all(bytes, read_some(bytes, PIECE, 0), 0);
        _exit(0);
    }
    CHECK(child > 0);
    wait_for_child(child);
    if (is_ordered) release();
}

static void act_fork(void) {
    pid_t child = fork();
    if (child == 0) {
        if (pick(2)) usleep(pick(3000));
        _exit(0);
    }
    CHECK(child > 0);
    wait_for_child(child);
}

static void act_spawn(void) {
    pid_t child;
    char *words[] = {"true", 0};
    switch (pick(4)) {
    case 0:
        child = vfork();
        if (child == 0) {
            execl("/bin/true", "true", (char *)0);
            _exit(1);
        }
        break;
    case 1:
        CHECK(system("exit 0") == 0 || report->has_left);
        return;
    case 2: {
        FILE *stream = popen("echo 2>/dev/null", "r");
        CHECK(stream);
        while (fgetc(stream) != '\n') {
            CHECK(ferror(stream) && errno == EINTR);
            clearerr(stream);
        }
        CHECK(pclose(stream) == 0);
        return;
    }
    default:
        CHECK((errno = posix_spawn(&child, "/bin/true", 0, 0, words, environ)) == 0);
    }
    CHECK(child > 0);
    wait_for_child(child);
}

static void act_number(void) {
    int fd = pick(2), other;
    switch (pick(4)) {
    case 0:
        CHECK(fcntl(fd, F_GETFL) >= 0 && (other = fcntl(fd, F_DUPFD, 20)) >= 0 && close(other) == 0);
        return;
    case 1: { // The same pipe again.
        CHECK((other = dup(fd)) >= 0 && dup2(other, fd) == fd && close(other) == 0);
        return;
    }
    case 2: {
        int bytes = -1;
        CHECK(ioctl(fd, FIONREAD, &bytes) == 0 && bytes >= 0);
        return;
    }
    default: {
        int flags = fcntl(fd, F_GETFL);
        CHECK(flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
        usleep(pick(1000));
        CHECK(fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0);
    }
    }
}

static void act_send(void) {
    int sockets[2], fd = pick(2), got = -1;
    char byte = 0, room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    while (sendmsg(sockets[0], &message, 0) != 1) CHECK(errno == EINTR);
    while (recvmsg(sockets[1], &message, 0) != 1) CHECK(errno == EINTR);
    CHECK((header = CMSG_FIRSTHDR(&message)));
    memcpy(&got, CMSG_DATA(header), sizeof got);
    CHECK(got > 2 && close(sockets[0]) == 0 && close(sockets[1]) == 0 && close(got) == 0);
}

static void act_wait(void) {
    int fd = pick(2), ms = pick(3), answer;
    short events = fd ? POLLOUT : POLLIN;
    struct timeval time = {0, ms * 1000};
    struct timespec moment = {0, ms * 1000000};
    struct pollfd asked = {fd, events, 0};
    struct epoll_event event = {.events = fd ? EPOLLOUT : EPOLLIN};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    switch (pick(4)) {
    case 0: answer = poll(&asked, 1, ms); break;
    case 1: answer = ppoll(&asked, 1, &moment, 0); break;
    case 2: answer = select(2, fd ? 0 : &set, fd ? &set : 0, 0, &time); break;
    default: {
        int list = epoll_create1(EPOLL_CLOEXEC);
        CHECK(list >= 0 && epoll_ctl(list, EPOLL_CTL_ADD, fd, &event) == 0);
        answer = epoll_wait(list, &event, 1, ms);
        int error = errno;
        CHECK(close(list) == 0);
        errno = error;
    }
    }
    CHECK(answer >= 0 || errno == EINTR);
}

static void act_signal(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = pick(2) ? SA_RESTART : 0};
    struct itimerval every = {{0, 0}, {0, 0}};
    if (pick(3) == 0) sigfillset(&action.sa_mask);
    switch (pick(5)) {
    case 0: CHECK(sigaction(SIGUSR1, &action, 0) == 0); return;
    case 1: CHECK(sigaction(SIGALRM, &action, 0) == 0); return;
    case 2:
        if (pick(2)) every.it_interval.tv_usec = every.it_value.tv_usec = 200 + pick(3000);
        CHECK(setitimer(ITIMER_REAL, &every, 0) == 0);
        return;
    case 3: CHECK(kill(getpid(), SIGUSR1) == 0); return;
    default:
        pthread_mutex_lock(&places_lock);
        unsigned place = pick(THREADS);
        if (places[place].is_there) CHECK((errno = pthread_kill(places[place].thread, SIGUSR1)) == 0);
        pthread_mutex_unlock(&places_lock);
    }
}

static void *nothing(void *unused) { return unused; }
static void act_thread(void) { end_thread(begin_thread(nothing, 0)); }

static void act_bad_memory(void) {
    static void *volatile page;
    ssize_t got;
    if (!page) page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pick(2)) {
        CHECK(write(1, page, RECORD) == -1);
        if (errno == EPIPE) leave(0);
    } else {
        got = read(0, page, RECORD);
        if (got == 0) return;
        CHECK(got == -1);
    }
    CHECK(errno == EFAULT || errno == EINTR || errno == EAGAIN);
}

static void act_library(void) {
    void *library = dlopen(pick(2) ? "libm.so.6" : "libutil.so.1", RTLD_NOW);
    CHECK(library && dlclose(library) == 0);
}

static void act_identity(void) { CHECK(setgid(getgid()) == 0); }

static void act_robust(void) {
    static pthread_mutex_t mutex;
    static pthread_mutex_t *made;
    pthread_mutex_lock(&places_lock);
    if (!made) {
        pthread_mutexattr_t attributes;
        CHECK(pthread_mutexattr_init(&attributes) == 0 && pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
        CHECK(pthread_mutex_init(&mutex, &attributes) == 0);
        made = &mutex;
    }
    pthread_mutex_unlock(&places_lock);
    CHECK((errno = pthread_mutex_lock(made)) == 0);
    usleep(pick(300));
    CHECK((errno = pthread_mutex_unlock(made)) == 0);
}

// Another program takes the place of this one.
static void act_exec(void) {
    char seed[30];
    if (!is_ordered) return;
    hold_all();
    struct itimerval never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &never, 0) == 0);
    signal(SIGALRM, SIG_IGN);
    signal(SIGUSR1, SIG_IGN);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)life);
    execl(self, self, "move", seed, "again", (char *)0);
    CHECK(!"exec");
}

static void act_leave(void) {
    if (pick(20)) return;
    report->has_left = 1;
    if (pick(2)) exit(0);
    _exit(0);
}

static void act_read_differently(void) { mixes_numbers = !mixes_numbers; }
static void act_yield(void) { CHECK(own_call(SYS_getpid, 0, 0, 0) == getpid() && own_call(SYS_sched_yield, 0, 0, 0) == 0); }
static void act_sleep(void) { usleep(pick(2000)); }

static void (*const acts[])(void) = {
    act_child_moves, act_fork, act_fork, act_spawn, act_number, act_number, act_send, act_wait, act_wait, act_signal, act_signal,
    act_signal, act_thread, act_bad_memory, act_library, act_identity, act_robust, act_exec, act_leave, act_read_differently,
    act_yield, act_sleep,
};

// Nothing of that is done before so many bytes have been moved.
static uint64_t acts_begin_at;
static _Atomic uint64_t moved;

static void act_at_times(void) {
    if (moved >= acts_begin_at && pick(rareness) == 0) acts[menu[pick(menu_len)]]();
}

static void take_place(long number, int is_there) {
    pthread_mutex_lock(&places_lock);
    places[number].thread = pthread_self();
    places[number].is_there = is_there;
    pthread_mutex_unlock(&places_lock);
}

static uint64_t seed_of_thread(long number) {
    static atomic_uint threads;
    return mixed(life * 1000 + number + 100 * ++threads);
}

static ssize_t move_in_order(unsigned char *bytes) {
    pthread_mutex_lock(&input_lock);
    ssize_t got = read_some(bytes, 1 + pick(pick(2) ? BLOCK : 2000), way_of_call());
    uint64_t turn = taken_turns++;
    pthread_mutex_unlock(&input_lock);
    pthread_mutex_lock(&output_lock);
    while (put_turns != turn) pthread_cond_wait(&next_turn, &output_lock);
    write_all(bytes, got, way_of_call());
    put_turns++;
    pthread_cond_broadcast(&next_turn);
    pthread_mutex_unlock(&output_lock);
    return got;
}

static ssize_t move_records(unsigned char *bytes) {
    ssize_t got = read_some(bytes, RECORD * (1 + pick(PIECE / RECORD)), way_of_call());
    CHECK(got % RECORD == 0);
    // Whole ones for other threads too, whatever they write.
    for (ssize_t done = 0; done < got; done += RECORD) write_all(bytes + done, RECORD, way_of_call());
    return got;
}

static void *mover(void *number) {
    unsigned char *bytes = malloc(BLOCK);
    state = seed_of_thread((long)number);
    take_place((long)number, 1);
    int is_replaced = 0;
    ssize_t got;
    while (!is_replaced && (got = is_ordered ? move_in_order(bytes) : move_records(bytes)) > 0) {
        moved += got;
        act_at_times();
        // Another thread goes on in its place, at times.
        is_replaced = pick(400) == 0;
    }
    free(bytes);
    take_place((long)number, 0);
    if (is_replaced) pthread_detach(begin_thread(mover, number));
    else if (--movers == 0) exit(0);
    is_over |= !is_replaced;
    return 0;
}

static void *disturber(void *number) {
    state = seed_of_thread((long)number);
    take_place((long)number, 1);
    while (!is_over) {
        act_at_times();
        usleep(pick(1500));
    }
    take_place((long)number, 0);
    return 0;
}

static void middle(int is_again) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = pick(2) ? SA_RESTART : 0};
    CHECK(sigaction(SIGUSR1, &action, 0) == 0 && sigaction(SIGALRM, &action, 0) == 0);
    if (pick(2)) signal(SIGPIPE, SIG_IGN);
    long count = 1 + pick(4), beside = pick(3);
    menu_len = 1 + pick(MENU);
    for (unsigned i = 0; i < menu_len; i++) menu[i] = pick(sizeof acts / sizeof *acts);
    rareness = 2 + pick(pick(2) ? 40 : 600);
    if (is_again) rareness += 500;
    handlers_move = !is_ordered && pick(3) == 0;
    acts_begin_at = pick(4) ? pick(total_of_life() / 2) : 0;
    if (count + beside > THREADS) beside = THREADS - count;
    // At first with one thread, at times.
    unsigned char *bytes = malloc(BLOCK);
    for (int turns = pick(2) ? pick(200) : 0; turns > 0; turns--)
        if ((is_ordered ? move_in_order(bytes) : move_records(bytes)) == 0) exit(0);
    free(bytes);
    movers = count;
    for (long number = 0; number < beside; number++) pthread_detach(begin_thread(disturber, (void *)(count + number)));
    int takes_part = pick(3) > 0;
    for (long number = takes_part; number < count; number++) pthread_detach(begin_thread(mover, (void *)number));
    if (takes_part) mover(0);
    if (pick(8) == 0) pthread_exit(0);
    for (;;) pause();
}

static void describe(pid_t pid) {
    char command[400];
    snprintf(command, sizeof command,
             "for t in /proc/%d/task/*; do echo \"$t $(cut -d' ' -f2,3 $t/stat) $(cat $t/wchan) $(cut -d' ' -f1-4 $t/syscall)\" >&2; done", pid);
    if (system(command)) return;
}

// Runs one life. Whether a process was killed.
static int live(const char *dir) {
    int stages = 3 + (mixed(life * 7) % 4 == 0), from = -1, statuses[STAGES] = {0};
    char seed[30];
    pid_t pids[STAGES], killed = 0;
    state = mixed(life * 11);
    *report = (struct report){0};
    unlink(path_of("records"));
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)life);
    for (int stage = 0; stage < stages; stage++) {
        int ends[2] = {-1, -1}, is_last = stage == stages - 1;
        CHECK(is_last || pipe2(ends, O_CLOEXEC) == 0);
        pids[stage] = fork();
        CHECK(pids[stage] >= 0);
        if (pids[stage] == 0) {
            if (stage > 0) CHECK(dup2(from, 0) == 0);
            if (!is_last) CHECK(dup2(ends[1], 1) == 1);
            execl(self, self, stage == 0 ? "write" : is_last ? "read" : "move", seed, (char *)0);
            _exit(99);
        }
        if (from >= 0) close(from);
        if (!is_last) close(ends[1]);
        from = ends[0];
    }
    int acts_at = mixed(life * 13) % 3 == 0 ? 200 + pick(60000) : -1;
    int left = stages, waited = 0;
    while (left > 0) {
        for (int stage = 0; stage < stages; stage++)
            if (pids[stage] && waitpid(pids[stage], &statuses[stage], WNOHANG) == pids[stage]) {
                pids[stage] = 0;
                left--;
            }
        if (left == 0) break;
        usleep(300);
        waited += 300;
        pid_t any = pids[pick(stages)];
        if (acts_at >= 0 && waited >= acts_at && any) {
            acts_at = -1;
            if (pick(4) == 0) {
                kill(any, SIGSTOP);
                usleep(pick(5000));
                kill(any, SIGCONT);
            } else {
                killed = any;
                kill(any, SIGKILL);
            }
        }
        if (waited > HANG_S * 1000000 / 2) {
            fprintf(stderr, "life %llu hangs\n", (unsigned long long)life);
            for (int stage = 0; stage < stages; stage++)
                if (pids[stage]) describe(pids[stage]);
            for (int stage = 0; stage < stages; stage++)
                if (pids[stage]) kill(pids[stage], SIGKILL);
            exit(7);
        }
    }
    (void)dir;
    int is_cut = killed || report->has_left, is_broken = 0;
    for (int stage = 0; stage < stages; stage++) {
        int signal = WIFSIGNALED(statuses[stage]) ? WTERMSIG(statuses[stage]) : 0;
        int is_expected = statuses[stage] == 0 || (killed && signal == SIGKILL) || (is_cut && signal == SIGPIPE);
        is_broken |= !is_expected;
    }
    uint64_t all = total_of_life(), arrived = report->arrived;
    int is_sink_killed = WIFSIGNALED(statuses[stages - 1]);
    // Of a source alone that was killed all that it had written arrives.
    int is_source_killed = WIFSIGNALED(statuses[0]) && !report->has_left;
    for (int stage = 1; stage < stages; stage++) is_source_killed &= !WIFSIGNALED(statuses[stage]);
    if (is_broken || arrived > report->offered || (!is_cut && arrived != all) || (is_source_killed && arrived < report->written) ||
        (!is_sink_killed && !report->has_ended)) {
        fprintf(stderr, "life %llu: %llu of %llu bytes arrived, %llu were written; statuses", (unsigned long long)life,
                (unsigned long long)arrived, (unsigned long long)all, (unsigned long long)report->written);
        for (int stage = 0; stage < stages; stage++) fprintf(stderr, " %x", statuses[stage]);
        fprintf(stderr, "%s\n", killed ? ", one was killed" : report->has_left ? ", one has left" : "");
        exit(8);
    }
    return is_cut;
}

static int open_files(void) {
    int files = 0;
    for (int fd = 0; fd < 100; fd++) files += fcntl(fd, F_GETFD) >= 0;
    return files;
}

int main(int count, char **arguments) {
    self = arguments[0];
    role = arguments[1];
    CHECK(count >= 3);
    life = strtoull(arguments[2], 0, 10);
    if (!strcmp(role, "drive")) {
        CHECK(count == 5);
        char number[20];
        int file = memfd_create("report", 0), cut = 0, lives, files;
        CHECK(file >= 0 && ftruncate(file, sizeof *report) == 0);
        snprintf(number, sizeof number, "%d", file);
        setenv("REPORT", number, 1);
        report = mmap(0, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        CHECK(report != MAP_FAILED);
        time_t until = time(0) + atoi(arguments[4]);
        files = open_files();
        for (lives = 0; lives < atoi(arguments[3]) && time(0) < until; lives++, life++) cut += live(getenv("DIR"));
        CHECK(open_files() == files);
        printf("lives %d whole %d\n", lives, lives - cut);
        return 0;
    }
    state = mixed(life * 17 + (role[0] == 'r')) + (count > 3 ? getpid() : 0);
    is_ordered = life % 2;
    report = mmap(0, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(getenv("REPORT")), 0);
    CHECK(report != MAP_FAILED);
    if (role[0] == 'w') source();
    else if (role[0] == 'r') sink();
    else middle(count > 3);
    return 0;
}
