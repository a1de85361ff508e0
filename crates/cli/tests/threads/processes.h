// Things of asleep.c that make other processes, or let another program go on.
#pragma once

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
