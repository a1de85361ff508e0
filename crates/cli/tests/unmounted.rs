//! `/proc` goes away in mid-stream: what needs it says so, and no byte is lost.

mod common;

use std::process::Command;

use common::{Scratch, can_attach, output};

/// Reads, and forks when `/proc` is gone, which asks for the pipe to go back; then reads on.
const READER: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static unsigned char bytes[65536];
int main(void) {
    unsigned long sum = 0, count = 0;
    int outcome = -1;
    for (ssize_t got; (got = read(0, bytes, sizeof bytes)) != 0; count += got) {
        if (got < 0) return perror("read"), 1;
        for (ssize_t i = 0; i < got; i++) sum = sum * 31 + bytes[i];
        if (count < 20000000 && count + got >= 20000000) {
            close(open("joined", O_CREAT | O_WRONLY, 0600));
            while (access("/proc/self", F_OK) == 0) usleep(1000);
            pid_t child = fork();
            outcome = child < 0 ? errno : 0;
            if (child == 0) _exit(0);
            if (child > 0) waitpid(child, 0, 0);
        }
    }
    printf("%lu %lu %d\n", count, sum, outcome);
    return 0;
}
"#;

#[test]
fn fork_fails_without_losing_bytes_when_proc_is_unmounted() {
    if !can_attach() {
        return;
    }
    let scratch = Scratch::new();
    scratch.c_program("reader", READER, &["-O1"]);
    let script = |run: &str| {
        format!(
            "mount --make-rprivate / && rm -f joined && \
             {{ while [ ! -e joined ]; do sleep 0.01; done; umount -l /proc; }} & \
             {run} sh -c 'head -c 40000000 /dev/zero | tr \"\\0\" x | ./reader'; wait"
        )
    };
    let seen = |run: &str| {
        let seen = output(Command::new("unshare").args(["-m", "sh", "-c", &script(run)]).current_dir(scratch.path("")));
        assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{run}");
        seen.stdout
    };
    let bare = seen("");
    let joined = seen(&format!("'{}' run --ring-after 1 --", common::program()));
    const EMFILE: &str = "24";
    let (content, outcome) = bare.trim().rsplit_once(' ').unwrap();
    assert_eq!(outcome, "0", "{bare}");
    assert_eq!(joined.trim(), format!("{content} {EMFILE}"));
}
