// Lives of pipes under any number: a parent makes pipes and writers for them, reads them in turns, and does at random what may happen to a
// descriptor. Every byte is a function of its pipe and its position, and every reader knows its position, so every byte is
// checked. Ends with status 0 and one line for each pipe if all was as it should be.
//
//   lives SEED
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIPES 3
#define LARGEST 70000

static unsigned long long state;
static char *self;

static unsigned chance(unsigned below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % below;
}

static unsigned char byte_at(unsigned long long pipe, unsigned long long at) {
    at = (at + pipe * 0x1000003) * 0x9e3779b97f4a7c15ull;
    return (at >> 56) ^ (at >> 40);
}

static void require(int is_so, const char *what) {
    if (is_so) return;
    fprintf(stderr, "lives: %s: %s\n", what, strerror(errno));
    _exit(9);
}

// Moves a descriptor to some other number, now and then to a high one.
static int moved(int fd) {
    int to = fcntl(fd, chance(2) ? F_DUPFD_CLOEXEC : F_DUPFD, chance(4) ? 3 + chance(20) : 3 + chance(280));
    require(to >= 0, "F_DUPFD");
    close(fd);
    return to;
}

static void *nothing(void *none) { return none; }

static void on_alarm(int signal) { (void)signal; }

static void interrupt_often(int flags) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = flags};
    struct itimerval every = {{0, 900}, {0, 900}};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &every, 0);
}

// Something that happens to an end in the middle of its stream; its number afterwards.
static int something(int fd, int is_reader) {
    int other, file;
    char none;
    struct iovec parts = {&none, 0};
    switch (chance(14)) {
    case 0:
        return moved(fd);
    case 1: // Away and back to the same number, with a file there meanwhile.
        other = dup(fd);
        file = open(self, O_RDONLY);
        require(dup2(file, fd) == fd && read(fd, &none, 1) == 1 && none == 0x7f, "a file at the number");
        require(dup2(other, fd) == fd, "back at the number");
        close(other);
        close(file);
        return fd;
    case 2: // The same by closing, which nobody sees who is not looking.
        other = dup(fd);
        close(fd);
        file = open(self, O_RDONLY);
        if (file == fd) require(read(fd, &none, 1) == 1 && none == 0x7f, "a file with the number");
        close(file);
        require(dup2(other, fd) == fd, "back with the number");
        close(other);
        return fd;
    case 3: { // Opened anew; the old one stays, or not.
        char path[40];
        sprintf(path, chance(2) ? "/dev/fd/%d" : "/proc/self/fd/%d", fd);
        other = open(path, is_reader ? O_RDONLY : O_WRONLY);
        require(other >= 0, "opening it anew");
        if (chance(2)) {
            close(fd);
            return other;
        }
        int mine = chance(2) ? fd : other;
        close(mine == fd ? other : fd);
        return mine;
    }
    case 4: {
        struct pollfd asked = {fd, is_reader ? POLLIN : POLLOUT, 0};
        poll(&asked, 1, chance(3));
        return fd;
    }
    case 5:
        if (fork() == 0) _exit(0);
        wait(0);
        return fd;
    case 6:
        if (is_reader) require(readv(fd, &parts, 1) == 0, "readv");
        return fd;
    case 7:
        interrupt_often(chance(2) ? SA_RESTART : 0);
        return fd;
    case 8:
        usleep(chance(3000));
        return fd;
    case 9: {
        pthread_t thread;
        if (chance(4) == 0 && pthread_create(&thread, 0, nothing, 0) == 0) pthread_join(thread, 0);
        return fd;
    }
    case 10:
        fcntl(fd, F_GETFL);
        return fd;
    default:
        return fd;
    }
}

// `at` of the writer; it goes on elsewhere by exec now and then.
static void write_all(int fd, unsigned long long pipe, unsigned long long at, unsigned long long total) {
    static unsigned char bytes[LARGEST];
    while (at < total) {
        size_t size = 1 + chance(chance(3) ? LARGEST : 300);
        if (size > total - at) size = total - at;
        for (size_t i = 0; i < size; i++) bytes[i] = byte_at(pipe, at + i);
        ssize_t done = write(fd, bytes, size);
        if (done < 0 && errno == EINTR) continue;
        require(done > 0, "write");
        at += done;
        if (chance(12) == 0) fd = something(fd, 0);
        if (chance(60) == 0) { // The child goes on, with the parent gone or waiting without its end.
            pid_t child = fork();
            require(child >= 0, "fork");
            if (child) {
                int status = 0;
                close(fd);
                while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
                _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 8);
            }
        }
        if (chance(60) == 0) {
            char words[5][32];
            fcntl(fd, F_SETFD, 0);
            sprintf(words[0], "%d", fd);
            sprintf(words[1], "%llu", pipe);
            sprintf(words[2], "%llu", at);
            sprintf(words[3], "%llu", total);
            sprintf(words[4], "%llu", state);
            struct itimerval never = {{0, 0}, {0, 0}};
            setitimer(ITIMER_REAL, &never, 0);
            execl(self, self, "write", words[0], words[1], words[2], words[3], words[4], (char *)0);
            require(0, "exec");
        }
    }
    close(fd);
    _exit(0);
}

struct life {
    int fd;
    FILE *stream;
    unsigned long long pipe, at, total;
    pid_t writer;
    int is_killed;
};

static void begin(struct life *life, unsigned long long pipe) {
    int ends[2];
    require(pipe2(ends, chance(2) ? O_CLOEXEC : 0) == 0, "pipe2");
    life->pipe = pipe;
    life->at = 0;
    life->total = chance(3) ? 200000 + chance(3000000) : chance(100000);
    life->is_killed = 0;
    life->stream = 0;
    unsigned seed = chance(1u << 31);
    life->writer = fork();
    require(life->writer >= 0, "fork");
    if (life->writer == 0) {
        state = seed;
        close(ends[0]);
        // So that each pipe ends when its writer does.
        for (struct life *other = life - pipe % PIPES; other < life - pipe % PIPES + PIPES; other++)
            if (other != life && other->fd >= 0) close(other->fd);
        write_all(chance(2) ? moved(ends[1]) : ends[1], pipe, 0, life->total);
    }
    close(ends[1]);
    life->fd = chance(3) ? ends[0] : moved(ends[0]);
    if (chance(4) == 0) life->stream = fdopen(life->fd, "r");
}

// Whether it goes on.
static int go_on(struct life *life) {
    static unsigned char bytes[LARGEST];
    size_t size = 1 + chance(chance(3) ? LARGEST : 5000);
    ssize_t done;
    if (life->stream) {
        clearerr(life->stream);
        errno = 0;
        done = fread(bytes, 1, size, life->stream);
        if (done == 0 && ferror(life->stream) && errno == EINTR) return 1;
    } else {
        done = read(life->fd, bytes, size);
        if (done < 0 && errno == EINTR) return 1;
    }
    require(done >= 0, "read");
    for (ssize_t i = 0; i < done; i++)
        if (bytes[i] != byte_at(life->pipe, life->at + i)) {
            fprintf(stderr, "lives: pipe %llu is wrong at %llu of %llu\n", life->pipe, life->at + i, life->total);
            _exit(9);
        }
    life->at += done;
    if (done == 0 && life->stream && ferror(life->stream)) return 1;
    if (done == 0) {
        require(life->at == life->total || life->is_killed, "the end came early");
        return 0;
    }
    if (!life->stream && chance(25) == 0) life->fd = something(life->fd, 1);
    if (chance(300) == 0) {
        kill(life->writer, SIGKILL);
        life->is_killed = 1;
    }
    return chance(400) != 0;
}

static void end(struct life *life) {
    int status = 0, is_early = life->at < life->total;
    if (life->stream) fclose(life->stream);
    else close(life->fd);
    life->fd = -1;
    while (waitpid(life->writer, &status, 0) < 0 && errno == EINTR) {}
    int is_whole = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    // A writer that waits for the child that goes on says what became of that one; a killed child is not told apart.
    require(is_whole || is_early || life->is_killed, "a writer failed");
    printf("pipe %llu of %llu bytes\n", life->pipe, life->total);
}

int main(int count, char **arguments) {
    self = "/proc/self/exe";
    if (count == 7) {
        state = strtoull(arguments[6], 0, 10);
        write_all(atoi(arguments[2]), strtoull(arguments[3], 0, 10), strtoull(arguments[4], 0, 10),
                  strtoull(arguments[5], 0, 10));
    }
    state = (strtoull(arguments[1], 0, 10) + 1) * 0x9e3779b97f4a7c15ull;
    struct life lives[PIPES] = {{.fd = -1}, {.fd = -1}, {.fd = -1}};
    unsigned long long begun = 0, wanted = 4 + chance(8);
    while (begun < wanted) {
        struct life *life = &lives[begun % PIPES];
        if (life->fd >= 0) {
            while (go_on(life)) {}
            end(life);
        }
        begin(life, begun++);
        // A little of another one first.
        struct life *other = &lives[chance(PIPES)];
        for (unsigned turns = chance(30); turns > 0 && other->fd >= 0; turns--)
            if (!go_on(other)) end(other);
    }
    for (int i = 0; i < PIPES; i++)
        if (lives[i].fd >= 0) {
            while (go_on(&lives[i])) {}
            end(&lives[i]);
        }
    fflush(stdout);
    return 0;
}
