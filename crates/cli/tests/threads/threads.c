// Programs with threads between pipes, and at the ends of pipes.
//
//   threads list                  all ways, by what they are a word of: "move WAY", "read WAY", "write WAY"
//   threads write|read PEER       a peer with one thread: plain, waits, cut, waits-cut
//   threads move WAY              from the standard input to the standard output, every byte once, in order
//   threads write|read WAY        one end, used by several threads
#include "stream.h"
#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <threads.h>
#include <time.h>

#ifdef OWN_CODE
#define OWN 1
#else
#define OWN 0
#endif

enum { SOME = 1500000, QUEUE = 8, POOL = 4 };

// The next block of the input, of a size at random. 0: the end.
static size_t take_up_to(unsigned char *block, size_t most) {
    ssize_t got = read(0, block, 1 + chance(most));
    CHECK(got >= 0);
    return got;
}

static size_t take(unsigned char *block) { return take_up_to(block, chance(3) ? BLOCK : 300); }

static void put(const unsigned char *block, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t some = write(1, block + done, size - done);
        CHECK(some > 0);
        done += some;
    }
}

static atomic_size_t moved;

static int move_block(unsigned char *block) {
    size_t size = take(block);
    put(block, size);
    moved += size;
    return size > 0;
}

static void move_until(size_t all) {
    static unsigned char block[BLOCK];
    while (moved < all && move_block(block)) {}
}

// A pump: one thread reads, one writes.
static struct { unsigned char bytes[BLOCK]; size_t size; } queue[QUEUE];
static sem_t empty, full;

static void *pump_reads(void *unused) {
    for (int at = 0;; at = (at + 1) % QUEUE) {
        CHECK(sem_wait(&empty) == 0);
        queue[at].size = take(queue[at].bytes);
        CHECK(sem_post(&full) == 0);
        if (queue[at].size == 0) return unused;
    }
}

static void *pump_writes(void *unused) {
    for (int at = 0;; at = (at + 1) % QUEUE) {
        CHECK(sem_wait(&full) == 0);
        if (queue[at].size == 0) return unused;
        put(queue[at].bytes, queue[at].size);
        CHECK(sem_post(&empty) == 0);
    }
}

static void *pump_writes_and_ends(void *reader) {
    pump_writes(0);
    end_thread(*(pthread_t *)reader);
    exit(0);
}

static void begin_pump(void) { CHECK(sem_init(&empty, 0, QUEUE) == 0 && sem_init(&full, 0, 0) == 0); }

static void move_pump(void) {
    begin_pump();
    pthread_t reader = begin_thread(pump_reads, 0);
    pump_writes(0);
    end_thread(reader);
}

static void move_two(void) {
    begin_pump();
    pthread_t reader = begin_thread(pump_reads, 0), writer = begin_thread(pump_writes, 0);
    end_thread(writer);
    end_thread(reader);
}

static void move_later(void) {
    move_until(SOME);
    move_two();
}

// A new thread for each block.
static sem_t ended;
static void *one_block(void *block) { return move_block(block) ? block : 0; }
static void *one_block_detached(void *goes_on) {
    static unsigned char block[BLOCK];
    *(int *)goes_on = move_block(block);
    CHECK(sem_post(&ended) == 0);
    return 0;
}

static void move_each(void) {
    static unsigned char block[BLOCK];
    while (end_thread(begin_thread(one_block, block))) {}
}

static void move_detached(void) {
    int goes_on = 1;
    CHECK(sem_init(&ended, 0, 0) == 0);
    while (goes_on) {
        pthread_detach(begin_thread(one_block_detached, &goes_on));
        CHECK(sem_wait(&ended) == 0);
    }
}

// On the smallest stack that threads may have.
static void move_small(void) {
    static unsigned char block[BLOCK];
    long least = sysconf(_SC_THREAD_STACK_MIN);
    pthread_attr_t attributes;
    size_t size = (least > PTHREAD_STACK_MIN ? least : PTHREAD_STACK_MIN) + 4096;
    size = (size + 4095) & ~4095ul;
    void *stack = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *result = block;
    CHECK(stack != MAP_FAILED && pthread_attr_init(&attributes) == 0 && pthread_attr_setstack(&attributes, stack, size) == 0);
    while (result) {
        pthread_t thread;
        CHECK((errno = pthread_create(&thread, &attributes, one_block, block)) == 0);
        result = end_thread(thread);
    }
}

// On a stack that is memory of malloc, between other data.
static void move_heap(void) {
    static unsigned char block[BLOCK];
    pthread_attr_t attributes;
    char *memory = malloc(3 << 16);
    void *stack = (void *)(((uintptr_t)memory + 4095) & ~4095ul), *result = block;
    CHECK(memory && pthread_attr_init(&attributes) == 0 && pthread_attr_setstack(&attributes, stack, 2 << 16) == 0);
    while (result) {
        pthread_t thread;
        CHECK((errno = pthread_create(&thread, &attributes, one_block, block)) == 0);
        result = end_thread(thread);
    }
    free(memory);
}

// Each thread moves some blocks, begins the next one and ends.
static void *runner(void *unused) {
    static unsigned char block[BLOCK];
    for (int turns = 0; turns < 16; turns++)
        if (!move_block(block)) {
            CHECK(sem_post(&ended) == 0);
            return unused;
        }
    pthread_detach(begin_thread(runner, 0));
    return unused;
}

static void move_relay(void) {
    CHECK(sem_init(&ended, 0, 0) == 0);
    pthread_detach(begin_thread(runner, 0));
    CHECK(sem_wait(&ended) == 0);
}

static int c11_runner(void *block) {
    for (int turns = 0; turns < 16; turns++)
        if (!move_block(block)) return 0;
    return 1;
}

static void move_c11(void) {
    static unsigned char block[BLOCK];
    thrd_t thread;
    for (int goes_on = 1; goes_on;)
        CHECK(thrd_create(&thread, c11_runner, block) == thrd_success && thrd_join(thread, &goes_on) == thrd_success);
}

// The thread with which the pipes were attached ends, and another goes on.
static void *some_blocks(void *unused) {
    move_until(SOME);
    return unused;
}

static void move_attacher(void) {
    end_thread(begin_thread(some_blocks, 0));
    CHECK(moved >= SOME);
    move_until(SIZE_MAX);
}

// A pool whose threads take turns.
static pthread_mutex_t input_lock = PTHREAD_MUTEX_INITIALIZER, output_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t next_turn = PTHREAD_COND_INITIALIZER;
static unsigned long taken_turns, put_turns;

static void *in_turns(void *unused) {
    unsigned char *block = malloc(BLOCK);
    for (int goes_on = 1; goes_on;) {
        pthread_mutex_lock(&input_lock);
        goes_on = move_block(block);
        pthread_mutex_unlock(&input_lock);
        if (chance(4) == 0) sched_yield();
    }
    free(block);
    return unused;
}

static void *in_order(void *unused) {
    unsigned char *block = malloc(BLOCK);
    for (size_t size = 1; size > 0;) {
        pthread_mutex_lock(&input_lock);
        size = take(block);
        unsigned long turn = taken_turns++;
        pthread_mutex_unlock(&input_lock);
        pthread_mutex_lock(&output_lock);
        while (put_turns != turn) pthread_cond_wait(&next_turn, &output_lock);
        put(block, size);
        put_turns++;
        pthread_cond_broadcast(&next_turn);
        pthread_mutex_unlock(&output_lock);
    }
    free(block);
    return unused;
}

static void pool(void *(*function)(void *)) {
    pthread_t threads[POOL];
    for (int i = 0; i < POOL; i++) threads[i] = begin_thread(function, 0);
    for (int i = 0; i < POOL; i++) end_thread(threads[i]);
}

static void move_turns(void) { pool(in_turns); }
static void move_order(void) { pool(in_order); }

// The first thread ends, and others go on.
static void leave_to_pump(void) {
    static pthread_t reader;
    begin_pump();
    reader = begin_thread(pump_reads, 0);
    begin_thread(pump_writes_and_ends, &reader);
    pthread_exit(0);
}

static void move_first_ends(void) { leave_to_pump(); }

static void move_first_ends_late(void) {
    move_until(SOME);
    leave_to_pump();
}

// Threads that have nothing to do with the pipes.
static void *idle(void *semaphore) {
    CHECK(sem_wait(semaphore) == 0);
    return 0;
}

static void move_beside_idle(void) {
    sem_t semaphore;
    pthread_t threads[3];
    CHECK(sem_init(&semaphore, 0, 0) == 0);
    for (int i = 0; i < 3; i++) threads[i] = begin_thread(idle, &semaphore);
    move_until(SIZE_MAX);
    for (int i = 0; i < 3; i++) CHECK(sem_post(&semaphore) == 0);
    for (int i = 0; i < 3; i++) end_thread(threads[i]);
}

// Threads that come and go all the time, which get the memory of those before them.
static atomic_int stops;
static void *short_life(void *unused) { return unused; }
static void *many_lives(void *unused) {
    while (!stops) end_thread(begin_thread(short_life, 0));
    return unused;
}

static void move_beside_lives(void) {
    pthread_t lives = begin_thread(many_lives, 0);
    move_until(SIZE_MAX);
    stops = 1;
    end_thread(lives);
}

// Code that comes and goes: of a library, or of a file that is mapped by hand.
static char library_path[PATH_MAX];
static void *loads_and_unloads(void *unused) {
    while (!stops) {
        void *library = dlopen(library_path, RTLD_NOW);
        CHECK(library && dlclose(library) == 0);
    }
    return unused;
}

static void *maps_and_unmaps(void *unused) {
    enum { SIZE = 1 << 17 };
    int file = open(library_path, O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0);
    while (!stops) {
        void *code = mmap(0, SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
        CHECK(code != MAP_FAILED && munmap(code, SIZE) == 0);
    }
    CHECK(close(file) == 0);
    return unused;
}

static void move_beside(void *(*function)(void *)) {
    struct link_map *map;
    void *library = dlopen("libm.so.6", RTLD_NOW);
    CHECK(library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0);
    strcpy(library_path, map->l_name);
    CHECK(dlclose(library) == 0);
    pthread_t thread = begin_thread(function, 0);
    move_until(SIZE_MAX);
    stops = 1;
    end_thread(thread);
}

static void move_beside_loads(void) { move_beside(loads_and_unloads); }
static void move_beside_mappings(void) { move_beside(maps_and_unmaps); }

// By stdio.
static void *stdio_reads(void *unused) {
    for (int at = 0;; at = (at + 1) % QUEUE) {
        CHECK(sem_wait(&empty) == 0);
        queue[at].size = fread(queue[at].bytes, 1, 1 + chance(BLOCK), stdin);
        CHECK(!ferror(stdin) && sem_post(&full) == 0);
        if (queue[at].size == 0) return unused;
    }
}

static void move_stdio(void) {
    begin_pump();
    pthread_t reader = begin_thread(stdio_reads, 0);
    for (int at = 0;; at = (at + 1) % QUEUE) {
        CHECK(sem_wait(&full) == 0);
        if (queue[at].size == 0) break;
        CHECK(fwrite(queue[at].bytes, 1, queue[at].size, stdout) == queue[at].size && sem_post(&empty) == 0);
    }
    end_thread(reader);
    CHECK(fflush(stdout) == 0);
}

// By a timer whose thread is made for each of its ticks.
static void tick(union sigval unused) {
    static atomic_int is_moving, is_over;
    static unsigned char block[BLOCK];
    (void)unused;
    if (atomic_exchange(&is_moving, 1)) return;
    for (int turns = 0; turns < 8 && !is_over; turns++)
        if (!move_block(block)) {
            is_over = 1;
            CHECK(sem_post(&ended) == 0);
        }
    is_moving = 0;
}

static void move_ticks(void) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = tick};
    struct itimerspec every = {{0, 500000}, {0, 500000}};
    CHECK(sem_init(&ended, 0, 0) == 0 && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    CHECK(timer_settime(timer, 0, &every, 0) == 0 && sem_wait(&ended) == 0);
}

static void move_ticks_late(void) {
    move_until(SOME);
    move_ticks();
}

// A handler of the program's own lets a thread go on that writes to pages without rights, as collectors of garbage do.
static unsigned char *barrier;
static atomic_int faults;

static void lifts_barrier(int signal, siginfo_t *info, void *context) {
    unsigned char *page = (unsigned char *)((uintptr_t)info->si_addr & ~4095ul);
    (void)signal;
    (void)context;
    if (page < barrier || page >= barrier + 16 * 4096 || mprotect(page, 4096, PROT_READ | PROT_WRITE)) _exit(7);
    faults++;
}

static void *touches(void *unused) {
    while (moved < SOME) usleep(100);
    for (int turns = 0; turns < 20 && !stops; turns++) {
        for (int page = 0; page < 16; page++) barrier[page * 4096] = turns;
        CHECK(mprotect(barrier, 16 * 4096, PROT_READ) == 0);
    }
    return unused;
}

static void move_beside_barrier(void) {
    struct sigaction action = {.sa_sigaction = lifts_barrier, .sa_flags = SA_SIGINFO};
    barrier = mmap(0, 16 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(barrier != MAP_FAILED && sigaction(SIGSEGV, &action, 0) == 0);
    pthread_t one = begin_thread(touches, 0), other = begin_thread(touches, 0);
    move_until(SIZE_MAX);
    end_thread(one);
    end_thread(other);
    CHECK(faults >= 16);
}

// Code that a program makes while its pipes are attached, or before they are, and that calls the kernel by itself.
static void moves_by_made_code(size_t from) {
    static const unsigned char code[] = {0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6, 0x48, 0x89, 0xca, 0x0f, 0x05, 0xc3};
    unsigned char block[LONGEST];
    pthread_t thread = begin_thread(short_life, 0);
    move_until(from);
    void *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && memcpy(page, code, sizeof code) && mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
    long (*call)(long, long, const void *, size_t) = (long (*)(long, long, const void *, size_t))page;
    move_until(SOME);
    for (int turn = 0;; turn++) {
        long got = turn % 2 ? call(SYS_read, 0, block, sizeof block) : read(0, block, sizeof block);
        CHECK(got >= 0);
        if (got == 0) break;
        for (long done = 0, some; done < got; done += some) {
            some = turn % 3 ? call(SYS_write, 1, block + done, got - done) : write(1, block + done, got - done);
            CHECK(some > 0);
        }
    }
    end_thread(thread);
}

static void move_by_made_code(void) { moves_by_made_code(0); }

#if OWN
// Calls of the kernel by instructions of the program's own.
static long own_call(long number, long first, long second, long third, long fourth) {
    register long r10 __asm__("r10") = fourth;
    long outcome;
    __asm__ volatile("syscall" : "=a"(outcome) : "a"(number), "D"(first), "S"(second), "d"(third), "r"(r10) : "rcx", "r11", "memory");
    return outcome;
}

// What touches no end.
static void *own_calls(void *unused) {
    static uint32_t word;
    while (!stops) {
        struct timespec moment = {0, 20000};
        CHECK(own_call(SYS_getpid, 0, 0, 0, 0) == getpid() && own_call(SYS_gettid, 0, 0, 0, 0) > 0);
        CHECK(own_call(SYS_futex, (long)&word, 0, 1, 0) == -EAGAIN);
        long outcome = own_call(SYS_futex, (long)&word, 0, 0, (long)&moment);
        CHECK(outcome == -ETIMEDOUT || outcome == -EINTR);
    }
    return unused;
}

static void move_beside_own_calls(void) {
    pthread_t before = begin_thread(own_calls, 0);
    move_until(SOME);
    pthread_t meanwhile = begin_thread(own_calls, 0);
    move_until(SIZE_MAX);
    stops = 1;
    end_thread(before);
    end_thread(meanwhile);
}

// The same in a thread that holds back all signals: from its beginning or later, before the pipes are attached or afterwards.
static void *masked_own_calls(void *unused) {
    sigset_t all;
    sigfillset(&all);
    CHECK((errno = pthread_sigmask(SIG_SETMASK, &all, 0)) == 0);
    return own_calls(unused);
}

static void move_beside_masked(size_t begins_at, int how) {
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    move_until(begins_at);
    CHECK(pthread_attr_init(&attributes) == 0 && (how != 1 || pthread_attr_setsigmask_np(&attributes, &all) == 0));
    if (how == 2) CHECK((errno = pthread_sigmask(SIG_SETMASK, &all, &before)) == 0);
    CHECK((errno = pthread_create(&thread, &attributes, how ? own_calls : masked_own_calls, 0)) == 0);
    if (how == 2) CHECK((errno = pthread_sigmask(SIG_SETMASK, &before, 0)) == 0);
    move_until(SIZE_MAX);
    stops = 1;
    end_thread(thread);
}

static void move_own_masked(void) { move_beside_masked(0, 0); }
static void move_own_masked_late(void) { move_beside_masked(SOME, 0); }
static void move_own_masked_attr(void) { move_beside_masked(0, 1); }
static void move_own_masked_attr_late(void) { move_beside_masked(SOME, 1); }
static void move_own_masked_inherited(void) { move_beside_masked(0, 2); }
static void move_own_masked_inherited_late(void) { move_beside_masked(SOME, 2); }

// More threads at once than the library has places for, before the pipes are attached and afterwards.
static void *some_own_calls(void *unused) {
    for (int turns = 0; turns < 20; turns++) CHECK(own_call(SYS_getpid, 0, 0, 0, 0) == getpid());
    return unused;
}

static void begin_and_end_many(void) {
    enum { MANY = 150 };
    pthread_t threads[MANY];
    for (int i = 0; i < MANY; i++) threads[i] = begin_thread(some_own_calls, 0);
    for (int i = 0; i < MANY; i++) end_thread(threads[i]);
}

static void move_own_many(void) {
    begin_and_end_many();
    move_until(SIZE_MAX);
}

static void move_own_many_late(void) {
    move_until(SOME);
    begin_and_end_many();
    move_until(SIZE_MAX);
}

// Threads that move bytes so, in turns with the others.
static void *own_moves(void *unused) {
    static unsigned char block[LONGEST];
    for (int goes_on = 1; goes_on;) {
        pthread_mutex_lock(&input_lock);
        long got = moved < SOME ? 1 : own_call(SYS_read, 0, (long)block, sizeof block, 0);
        CHECK(got >= 0);
        if (moved >= SOME) {
            for (long done = 0; done < got;) {
                long some = own_call(SYS_write, 1, (long)block + done, got - done, 0);
                CHECK(some > 0);
                done += some;
            }
            moved += got;
        }
        goes_on = got > 0;
        pthread_mutex_unlock(&input_lock);
        if (moved < SOME) usleep(100);
    }
    return unused;
}

static void move_by_own_calls(void) {
    pthread_t own = begin_thread(own_moves, 0);
    in_turns(0);
    end_thread(own);
}

// A process that is forked so.
static void move_own_fork(void) {
    pthread_t lives = begin_thread(own_calls, 0);
    move_until(SOME);
    long child = own_call(SYS_fork, 0, 0, 0, 0);
    if (child == 0) {
        own_call(SYS_exit_group, 0, 0, 0, 0);
    }
    reap(child);
    move_until(SIZE_MAX);
    stops = 1;
    end_thread(lives);
}
#endif

// Two threads at once in one end: records that are read whole.
static size_t size_of_records(void) { return getenv("SIZE") ? atol(getenv("SIZE")) : RECORD; }
static uint32_t count_of_records(void) { return (ALL * RECORD / 2) / size_of_records() < 60000 ? ALL * RECORD / 2 / size_of_records() : 60000; }

static void *reads_records(void *unused) {
    unsigned char record[LONGEST];
    struct met met = {0};
    size_t size = size_of_records();
    for (ssize_t got; (got = read(0, record, size)) != 0;) {
        CHECK(got > 0);
        share_read(&met, record, got, size);
        moved += got;
    }
    return unused;
}

static void read_both(int later) {
    share_records();
    pthread_t one = begin_thread(reads_records, 0);
    while (later && moved < size_of_records() * count_of_records() / 3) usleep(200);
    pthread_t other = begin_thread(reads_records, 0);
    end_thread(one);
    end_thread(other);
    verify_shared(0, count_of_records());
    verify_shared(1, 0);
}

static void read_two(void) { read_both(0); }
static void read_two_later(void) { read_both(1); }

// A writer of records of one size.
static void write_records(void) {
    unsigned char record[LONGEST];
    size_t size = size_of_records();
    for (uint32_t number = 0, count = count_of_records(); number < count; number++) {
        make_record(record, size, 0, number, number == count - 1);
        CHECK(write(1, record, size) == (ssize_t)size);
    }
}

// Two threads at once that write whole records of any size that a pipe takes in one piece.
static void *writes_records(void *writer) {
    unsigned char record[LONGEST];
    long which = (long)writer;
    uint32_t count = ALL / 2;
    for (uint32_t number = 0; number < count; number++) {
        size_t size = sizeof(struct header) + chance(chance(4) ? 500 : PIPE_BUF + 1 - sizeof(struct header));
        if (number % 100 == 0) size = PIPE_BUF;
        make_record(record, size, which, number, number == count - 1);
        CHECK(write(1, record, size) == (ssize_t)size);
        moved += size;
    }
    return 0;
}

static void write_both(int later) {
    pthread_t one = begin_thread(writes_records, (void *)1);
    while (later && moved < SOME / 3) usleep(200);
    pthread_t other = begin_thread(writes_records, (void *)2);
    end_thread(one);
    end_thread(other);
}

static void write_two(void) { write_both(0); }
static void write_two_later(void) { write_both(1); }

static void write_three(void) {
    pthread_t threads[3];
    for (long i = 0; i < 3; i++) threads[i] = begin_thread(writes_records, (void *)(i + 1));
    for (int i = 0; i < 3; i++) end_thread(threads[i]);
}

#include "memory.h"

// `sides`: r, w or m.
static const struct { const char *name, *sides; void (*function)(void); } ways[] = {
    {"pump", "m", move_pump}, {"two", "m", move_two}, {"later", "m", move_later}, {"each", "m", move_each},
    {"detached", "m", move_detached}, {"small", "m", move_small}, {"heap", "m", move_heap}, {"relay", "m", move_relay},
    {"c11", "m", move_c11}, {"attacher", "m", move_attacher}, {"turns", "m", move_turns}, {"order", "m", move_order},
    {"first_ends", "m", move_first_ends}, {"first_ends_late", "m", move_first_ends_late},
    {"beside_idle", "m", move_beside_idle}, {"beside_lives", "m", move_beside_lives}, {"stdio", "m", move_stdio}, {"beside_loads", "m", move_beside_loads},
    {"by_made_code", "m", move_by_made_code},
    {"beside_mappings", "m", move_beside_mappings},
    {"ticks", "m", move_ticks}, {"ticks_late", "m", move_ticks_late}, {"beside_barrier", "m", move_beside_barrier},
#if OWN
    {"beside_own_calls", "m", move_beside_own_calls}, {"by_own_calls", "m", move_by_own_calls},
    {"own_many", "m", move_own_many}, {"own_many_late", "m", move_own_many_late}, {"own_fork", "m", move_own_fork}, {"own_masked", "m", move_own_masked}, {"own_masked_late", "m", move_own_masked_late},
    {"own_masked_attr", "m", move_own_masked_attr}, {"own_masked_attr_late", "m", move_own_masked_attr_late},
    {"own_masked_inherited", "m", move_own_masked_inherited},
    {"own_masked_inherited_late", "m", move_own_masked_inherited_late},
#endif
    {"two", "r", read_two}, {"two_later", "r", read_two_later}, {"records", "w", write_records},
    {"two", "w", write_two}, {"two_later", "w", write_two_later}, {"three", "w", write_three},
    {"bad_plain", "rw", bad_plain}, {"bad_masked", "rw", bad_masked},
    {"bad_caught", "rw", bad_caught}, {"bad_in_handler", "rw", bad_in_handler},
};

int main(int count, char **arguments) {
    if (count == 2 && !strcmp(arguments[1], "list")) {
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
            for (const char *side = ways[i].sides; *side; side++)
                printf("%s %s\n", *side == 'm' ? "move" : *side == 'r' ? "read" : "write", ways[i].name);
        return 0;
    }
    CHECK(count == 3);
    alarm(LIMIT_S);
    is_writer = !strcmp(arguments[1], "write");
    role = arguments[2];
    int waits = !strncmp(role, "waits", 5), is_cut = strstr(role, "cut") != 0;
    if (waits || is_cut || !strcmp(role, "plain")) return is_writer ? plain_writer(waits, is_cut) : plain_reader(waits, is_cut);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(ways[i].name, role) && strchr(ways[i].sides, arguments[1][0])) {
            ways[i].function();
            return 0;
        }
    CHECK(!"a way");
}
