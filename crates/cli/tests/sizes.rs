//! The sizes of pipes where programs with threads, or with a wish of their own, stand at them.

mod common;

use std::process::Command;

use common::{PIPE_SIZES, Scratch, millstream, output};

/// Programs that say how large the pipes on their descriptors are: one that makes a thread, and one without. And one that sets the size of its
/// standard input to its first argument, or to what it is, and becomes what the others name.
struct Sizes {
    _scratch: Scratch,
    threads: String,
    plain: String,
    set: String,
}

impl Sizes {
    fn new() -> Sizes {
        let scratch = Scratch::new();
        let with_threads = r#"
            #define _GNU_SOURCE
            #include <fcntl.h>
            #include <pthread.h>
            #include <stdio.h>
            #include <stdlib.h>
            static void *say(void *descriptor) { fprintf(stderr, "%d\n", fcntl(atoi(descriptor), F_GETPIPE_SZ)); return 0; }
            int main(int count, char **arguments) {
                for (int i = 1; i < count; i++) {
                    pthread_t thread;
                    if (pthread_create(&thread, 0, say, arguments[i]) || pthread_join(thread, 0)) return 1;
                }
                return 0;
            }"#;
        let setting = r#"
            #define _GNU_SOURCE
            #include <fcntl.h>
            #include <stdlib.h>
            #include <unistd.h>
            int main(int count, char **arguments) {
                int bytes = atoi(arguments[1]) ? atoi(arguments[1]) : fcntl(0, F_GETPIPE_SZ);
                return fcntl(0, F_SETPIPE_SZ, bytes) != bytes || execv(arguments[2], arguments + 2);
            }"#;
        Sizes {
            threads: scratch.c_program("threads", with_threads, &["-pthread"]),
            plain: scratch.c_program("plain", &PIPE_SIZES.replace("printf(", "fprintf(stderr, "), &[]),
            set: scratch.c_program("set", setting, &["-D_FILE_OFFSET_BITS=64"]),
            _scratch: scratch,
        }
    }

    /// What the programs of a script have said, for each library. `THREADS`, `PLAIN` and `SET` are theirs.
    fn said(&self, options: &[&str], script: &str) -> Vec<u32> {
        let script = script.replace("THREADS", &self.threads).replace("PLAIN", &self.plain).replace("SET", &self.set);
        let runs = ["--no-ring", "--ring"].map(|ring| {
            let seen = output(millstream(["run", ring]).args(options).args(["--shell", "sh", "-c", &script]));
            assert_eq!((seen.code, seen.stdout.as_str()), (Some(0), ""), "{seen:?}");
            seen.stderr.lines().map(|line| line.parse().unwrap()).collect::<Vec<u32>>()
        });
        assert_eq!(runs[0], runs[1], "{script}");
        runs.into_iter().next().unwrap()
    }
}

#[test]
fn a_program_that_makes_threads_has_pipes_of_the_size_that_the_kernel_gives() {
    let sizes = Sizes::new();
    assert_eq!(sizes.said(&[], ": | THREADS 0 1 | cat"), [65_536; 2]);
    assert!(sizes.said(&[], ": | PLAIN 0 1 | cat").iter().all(|&size| size > 65_536));
    assert_eq!(sizes.said(&[], ": | (THREADS 0; PLAIN 0)"), [65_536; 2], "it does not become larger again");
    assert_eq!(sizes.said(&["--pipe-size", "256K"], ": | THREADS 0 1 | cat"), [262_144; 2], "the user's word");
}

#[test]
fn chosen_size_stays_when_other_programs_start() {
    let sizes = Sizes::new();
    let large = sizes.said(&[], ": | PLAIN 0")[0];
    assert_eq!(sizes.said(&[], ": | (SET 0 THREADS 0; PLAIN 0)"), [large; 2], "the size that the pipe has already");
    assert_eq!(sizes.said(&[], ": | (SET 65536 PLAIN 0; THREADS 0)"), [65_536; 2]);
    assert_eq!(sizes.said(&[], ": | (SET 131072 THREADS 0; PLAIN 0)"), [131_072; 2]);
}

/// More waits in it than a pipe of the kernel's size has room for.
#[test]
fn a_pipe_that_is_full_before_a_program_with_threads_starts_keeps_its_size_and_its_bytes() {
    let sizes = Sizes::new();
    let script = "{ head -c 100000 /dev/zero; echo written >&3; } 3>FIFO | \
                  (read word <FIFO; THREADS 0; [ $(wc -c) = 100000 ])";
    let scratch = Scratch::new();
    let fifo = scratch.path("written");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let script = &script.replace("FIFO", fifo.to_str().unwrap());
    assert!(sizes.said(&[], script)[0] > 65_536);
}

/// The most that this user's pipes may hold, up to 1 GiB.
fn largest_pipe() -> u64 {
    let probe = "import fcntl, os\nr, w = os.pipe()\nsize = 1 << 30\nwhile True:\n    try: print(fcntl.fcntl(r, 1031, size)); break\n    except OSError: size //= 2";
    output(Command::new("python3").args(["-c", probe])).stdout.trim().parse().unwrap()
}

#[test]
fn buffer_is_as_large_as_the_kernel_grants_and_says_what_is_missing() {
    let sizes = Sizes::new();
    let largest = largest_pipe();
    let script = format!("true | {} 0; true | {} 0", sizes.plain, sizes.threads);
    let seen = output(&mut millstream(["run", "--buffer", "1G", "--shell", "sh", "-c", &script]));
    let (said, shown): (Vec<&str>, Vec<&str>) = seen.stderr.lines().partition(|line| line.starts_with("millstream: "));
    assert_eq!((shown, seen.code), (vec![largest.to_string().as_str(); 2], Some(0)));
    assert_eq!(said.len(), usize::from(largest < 1 << 30), "{said:?}");
    assert!(said.iter().all(|said| said.starts_with("millstream: pipes hold up to ") && said.contains("1 GiB")));
    let granted = output(&mut millstream(["run", "--buffer", "128K", "--shell", "sh", "-c", &script]));
    assert_eq!((granted.stderr.as_str(), granted.code), ("131072\n131072\n", Some(0)));
}

/// The writer ends before a byte is read, which 64 KiB have no room for.
#[test]
fn buffer_takes_up_a_burst_that_its_reader_has_not_seen() {
    let scratch = Scratch::new();
    let written = scratch.path("written").display().to_string();
    let script =
        format!("(head -c 900000 /dev/zero; touch {written}) | (while [ ! -e {written} ]; do sleep 0.01; done; wc -c)");
    let stats = scratch.path("stats");
    let options = ["run", "--buffer", "1M", "--stats=json", "--stats-file", stats.to_str().unwrap()];
    let seen = output(millstream(options).args(["--shell", "sh", "-c", &script]));
    assert_eq!((seen.stdout.trim(), seen.stderr.as_str(), seen.code), ("900000", "", Some(0)));
    let stats = common::statistics(&stats);
    assert_eq!((&stats["ring_off"], &stats["pipe_size"]), (&"buffer".into(), &(1 << 20).into()), "{stats}");
}

#[test]
fn buffer_that_makes_no_sense_is_refused_in_a_sentence() {
    for (arguments, sentence) in [
        (&["--buffer", "4K"][..], "a pipe holds 64K anyway"),
        (&["--buffer", "much"], "a size is a number of bytes"),
        (&["--buffer", "1M", "--pipe-size", "1M"], "cannot be used with"),
        (&["--buffer", "1M", "--ring"], "cannot be used with"),
    ] {
        let seen = output(millstream(["run"]).args(arguments).args(["-c", "echo ran"]));
        assert_eq!((seen.code, seen.stdout.as_str(), seen.stderr.lines().count()), (Some(2), "", 1), "{seen:?}");
        assert!(seen.stderr.contains(sentence), "{seen:?}");
    }
}
