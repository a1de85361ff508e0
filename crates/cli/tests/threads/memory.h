// Ways of threads.c that give a call at the end memory that is not there.
#pragma once

static unsigned char *bad_memory(int kind) {
    static unsigned char *pages, *of_file;
    if (!pages) {
        int file = memfd_create("bad", MFD_CLOEXEC);
        pages = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        of_file = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        CHECK(pages != MAP_FAILED && mprotect(pages + 4096, 4096, PROT_NONE) == 0 && of_file != MAP_FAILED && close(file) == 0);
    }
    switch (kind) {
    case 0: return pages + 4096;
    case 1: return (unsigned char *)0x20000; // Nothing is there.
    case 2: return pages + 4096 - RECORD / 2; // The first half of a record is.
    case 3: return of_file; // Behind the end of the file.
    default: return 0;
    }
}

static int is_writer;
static atomic_int tried;
static atomic_int bad_kind = 0;

static void try_bad_memory(void) {
    errno = 0;
    unsigned char *memory = bad_memory(bad_kind);
    ssize_t done = is_writer ? write(1, memory, RECORD) : read(0, memory, RECORD);
    if (done != -1 || errno != EFAULT) failed(__LINE__, "EFAULT");
    tried++;
}

static void try_in_handler(int signal) {
    int before = errno;
    (void)signal;
    try_bad_memory();
    errno = before;
}

static void one_record(struct input *input) {
    static uint32_t number;
    unsigned char record[RECORD];
    if (is_writer) {
        make_record(record, RECORD, 0, number, number == ALL - 1);
        CHECK(write(1, record, RECORD) == RECORD);
        number++;
        return;
    }
    for (size_t got = 0; got < RECORD;) {
        ssize_t some = read(0, record + got, RECORD - got);
        CHECK(some > 0);
        got += some;
    }
    verify_bytes(input, record, RECORD);
}

static int in_a_handler;
static void *moves_between_bad_calls(void *holds_all) {
    static struct input input;
    sigset_t all;
    sigfillset(&all);
    if (holds_all) CHECK((errno = pthread_sigmask(SIG_SETMASK, &all, 0)) == 0);
    for (int number = 0; number < ALL; number++) {
        if (number > 0 && number % 3000 == 0) {
            if (in_a_handler) CHECK((errno = pthread_kill(pthread_self(), SIGUSR1)) == 0);
            else try_bad_memory();
        }
        one_record(&input);
    }
    if (!is_writer) verify_end(&input, 0);
    CHECK(tried == ALL / 3000);
    return 0;
}

static void bad_calls(int holds_all, int handler) {
    struct sigaction action = {.sa_handler = try_in_handler};
    char *kind = getenv("KIND");
    bad_kind = kind ? atoi(kind) : 0;
    bad_memory(0);
    sigfillset(&action.sa_mask);
    in_a_handler = handler;
    CHECK(sigaction(SIGUSR1, &action, 0) == 0);
    sem_t semaphore;
    CHECK(sem_init(&semaphore, 0, 0) == 0);
    pthread_t beside = begin_thread(idle, &semaphore);
    end_thread(begin_thread(moves_between_bad_calls, holds_all ? &holds_all : 0));
    CHECK(sem_post(&semaphore) == 0);
    end_thread(beside);
}

static void bad_masked(void) { bad_calls(1, 0); }

// The program's own handlers are not called for it.
static void is_called(int signal) { _exit(signal); }
static void bad_caught(void) {
    CHECK(signal(SIGSEGV, is_called) != SIG_ERR && signal(SIGBUS, is_called) != SIG_ERR);
    bad_calls(0, 0);
}

static void bad_plain(void) { bad_calls(0, 0); }
static void bad_in_handler(void) { bad_calls(0, 1); }
