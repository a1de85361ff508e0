// Things of asleep.c that use, duplicate, watch, send, close or replace the end.
#pragma once

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

// The same pipe by its path, which gives it an open file of its own.
static void do_reopen(void) {
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int other = open(path, (is_writer ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    CHECK(other > 2);
    use_and_end(other);
    CHECK(close(other) == 0);
}

// By other calls than read and write.
static void do_vector(void) {
    static struct met met;
    unsigned char bytes[RECORD];
    struct iovec whole = {bytes, RECORD};
    let_go_on();
    for (int i = 0; i < HELPED; i++) {
        make_record(bytes, RECORD, FIRST, i, i == HELPED - 1);
        ssize_t moved = is_writer ? writev(fd, &whole, 1) : readv(fd, &whole, 1);
        if (moved == 0 && !is_writer) break;
        CHECK(moved == RECORD);
        if (!is_writer) share_read(&met, bytes, moved, RECORD);
    }
    end_sleeper(0);
}

static void do_splice(void) {
    static struct met met;
    unsigned char bytes[RECORD];
    int ends[2];
    CHECK(pipe(ends) == 0);
    let_go_on();
    for (int i = 0; i < HELPED; i++) {
        make_record(bytes, RECORD, FIRST, i, i == HELPED - 1);
        CHECK(!is_writer || write(ends[1], bytes, RECORD) == RECORD);
        ssize_t moved = is_writer ? splice(ends[0], 0, fd, 0, RECORD, 0) : splice(fd, 0, ends[1], 0, RECORD, 0);
        if (moved == 0 && !is_writer) break;
        CHECK(moved == RECORD && (is_writer || read(ends[0], bytes, RECORD) == RECORD));
        if (!is_writer) share_read(&met, bytes, moved, RECORD);
    }
    end_sleeper(0);
}

static void do_stdio(void) {
    static struct met met;
    unsigned char bytes[RECORD];
    FILE *stream = is_writer ? stdout : stdin;
    CHECK(setvbuf(stream, 0, _IOFBF, RECORD) == 0);
    let_go_on();
    // What stdio has read ahead is read to the end.
    for (int i = 0; !is_writer || i < HELPED; i++) {
        make_record(bytes, RECORD, FIRST, i, i == HELPED - 1);
        size_t moved = is_writer ? fwrite(bytes, 1, RECORD, stream) : fread(bytes, 1, RECORD, stream);
        if (moved == 0 && feof(stream)) break;
        CHECK(moved == RECORD && (!is_writer || fflush(stream) == 0));
        if (!is_writer) share_read(&met, bytes, moved, RECORD);
    }
    end_sleeper(0);
}
