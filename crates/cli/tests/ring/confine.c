// confine HOW PROGRAM ARGS: runs a program under a filter of system calls.
//
//   few       death for all that a loader, stdio and the program of these tests do not do
//   unpolled  death for poll(2) and select(2), and their like
//   kill      death for memfd_create     refuse    EPERM for it     harmless   everything is allowed
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define SAY(what) BPF_STMT(BPF_RET | BPF_K, what)
#define IF(call, what) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), SAY(what)
#define LET(call) IF(call, SECCOMP_RET_ALLOW)

static struct sock_filter few[] = {
    LOOK, LET(SYS_execve), LET(SYS_brk), LET(SYS_arch_prctl), LET(SYS_set_tid_address), LET(SYS_set_robust_list), LET(SYS_rseq),
    LET(SYS_mmap), LET(SYS_munmap), LET(SYS_mprotect), LET(SYS_access), LET(SYS_openat), LET(SYS_newfstatat), LET(SYS_fstat),
    LET(SYS_read), LET(SYS_pread64), LET(SYS_write), LET(SYS_close), LET(SYS_fcntl), LET(SYS_prlimit64), LET(SYS_getrandom),
    LET(SYS_rt_sigaction), LET(SYS_rt_sigreturn), LET(SYS_exit_group), SAY(SECCOMP_RET_KILL_PROCESS),
};
static struct sock_filter unpolled[] = {
    LOOK, IF(SYS_poll, SECCOMP_RET_KILL_PROCESS), IF(SYS_ppoll, SECCOMP_RET_KILL_PROCESS), IF(SYS_select, SECCOMP_RET_KILL_PROCESS),
    IF(SYS_pselect6, SECCOMP_RET_KILL_PROCESS), SAY(SECCOMP_RET_ALLOW),
};
static struct sock_filter kills[] = {LOOK, IF(SYS_memfd_create, SECCOMP_RET_KILL_PROCESS), SAY(SECCOMP_RET_ALLOW)};
static struct sock_filter refuses[] = {LOOK, IF(SYS_memfd_create, SECCOMP_RET_ERRNO | EPERM), SAY(SECCOMP_RET_ALLOW)};
static struct sock_filter harmless[] = {SAY(SECCOMP_RET_ALLOW)};

#define PROGRAM(rules) {sizeof rules / sizeof *rules, rules}
static struct { const char *name; struct sock_fprog program; } all[] = {
    {"few", PROGRAM(few)}, {"unpolled", PROGRAM(unpolled)}, {"kill", PROGRAM(kills)}, {"refuse", PROGRAM(refuses)}, {"harmless", PROGRAM(harmless)},
};

int main(int count, char **arguments) {
    for (size_t i = 0; i < sizeof all / sizeof *all && count > 2; i++) {
        if (strcmp(all[i].name, arguments[1])) continue;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all[i].program)) {
            perror("confine");
            return 125;
        }
        execv(arguments[2], arguments + 2);
        perror("exec");
    }
    return 126;
}
