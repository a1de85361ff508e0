//! `millstream run`: programs that ended soon each time they were started are started without the library.

mod common;

use common::{Scratch, millstream, output};

/// For each turn of a loop in a shell, whether a program in the middle of a pipeline had the library.
fn has_library_in_turns(options: &[&str], turns: &str) -> Vec<bool> {
    let scratch = Scratch::new();
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        int main(int count, char **milliseconds) {
            char line[4096];
            int has = 0;
            if (count > 1) usleep(1000 * atoi(milliseconds[1]));
            FILE *maps = fopen("/proc/self/maps", "r");
            while (fgets(line, sizeof line, maps)) has |= strstr(line, "libmillstream_preload") != 0;
            return printf("%d\n", has) < 0;
        }"#;
    let program = scratch.c_program("has", source, &[]);
    let seen =
        output(millstream(["run"]).args(options).args(["--shell", "/bin/bash", "-c", turns]).env("HAS", program));
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{options:?}");
    seen.stdout.lines().map(|line| line == "1").collect()
}

#[test]
fn brief_programs_run_without_the_library_after_two_of_them() {
    let turns = "for i in {1..40}; do \"$HAS\" | cat; done";
    let can_attach = cfg!(target_arch = "x86_64");
    // How soon the next turn comes is the machine's affair.
    let is_learnt = (0..100).any(|_| {
        let has = has_library_in_turns(&[], turns);
        assert_eq!((has.len(), &has[..3]), (40, &[can_attach; 3][..]), "{has:?}");
        has.contains(&false)
    });
    assert!(is_learnt);
    // Statistics need the library in every program, and '--ring-after' is an order.
    assert_eq!(has_library_in_turns(&["--stats-file", "/dev/null"], turns), [true; 40]);
    assert_eq!(has_library_in_turns(&["--ring-after", "1"], turns), [can_attach; 40]);
}

#[test]
fn programs_that_are_not_brief_keep_the_library() {
    let can_attach = cfg!(target_arch = "x86_64");
    // Too long after the last, and beside the last: neither is known to have been brief.
    let apart = "for i in {1..5}; do \"$HAS\" | cat; sleep 0.02; done";
    assert_eq!(has_library_in_turns(&[], apart), [can_attach; 5]);
    let beside = "for i in {1..10}; do \"$HAS\" 50 | cat & done; wait";
    assert_eq!(has_library_in_turns(&[], beside), [can_attach; 10]);
}

#[test]
fn stream_behind_brief_programs_arrives_whole() {
    let script = "for i in {1..20}; do cat /proc/self/stat | wc -l; done; head -c 50000000 /dev/zero | cat | wc -c";
    let seen = output(&mut millstream(["run", "--shell", "/bin/bash", "-c", script]));
    assert_eq!((seen.code, seen.stdout), (Some(0), "1\n".repeat(20) + "50000000\n"));
}
