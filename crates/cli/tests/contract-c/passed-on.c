// Ends that travel over a Unix socket (SCM_RIGHTS), with bytes in the pipe, and are then the receiver's alone.
#include "check.h"
static void send_fd(int to, int fd) {
    char room[CMSG_SPACE(sizeof fd)] = {0}, byte = 'f';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    IS(sendmsg(to, &message, 0), 1);
}
static int receive_fd(int from) {
    int fd;
    char room[CMSG_SPACE(sizeof fd)], byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    IS(recvmsg(from, &message, 0), 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}
int main(void) {
    int sockets[2], ends[2];
    char got[20];
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    pair(ends);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        close(ends[1]);
        int reader = receive_fd(sockets[1]), writer = receive_fd(sockets[1]);
        read_all(reader, got, 5);
        CHECK(!memcmp(got, "early", 5));
        read_all(reader, got, 4);
        CHECK(!memcmp(got, "late", 4));
        IS(write(writer, "answer", 6), 6);
        close(writer);
        IS(write(sockets[1], "x", 1), 1);
        IS(read(reader, got, 20), 0);
        _exit(0);
    }
    int back[2];
    IS(pipe(back), 0);
    IS(write(ends[1], "early", 5), 5);
    send_fd(sockets[0], ends[0]);
    send_fd(sockets[0], back[1]);
    close(ends[0]);
    close(back[1]);
    IS(write(ends[1], "late", 4), 4);
    IS(read(back[0], got, 20), 6);
    IS(read(back[0], got, 20), 0);
    IS(read(sockets[0], got, 1), 1);
    close(ends[1]);
    passed(child);
    return 0;
}
