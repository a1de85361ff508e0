//! A user's pipes together may take only so much; a run must not make that worse for any process.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::{Scratch, Seen, output};

/// As a user of the test's own, so that no other pipes count.
fn as_user(user: &str, scratch: &Scratch, arguments: &[&str]) -> Seen {
    let installed = scratch.installed();
    output(user_command(user).arg(installed).args(arguments))
}

fn user_command(user: &str) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", user, "--regid", user, "--clear-groups"])
        .env("PATH", "/usr/bin:/bin")
        .env_remove("LD_PRELOAD")
        .env_remove("MILLSTREAM_RUN");
    command
}

fn soft_quota_bytes() -> u64 {
    let pages: u64 = std::fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").unwrap().trim().parse().unwrap();
    assert_ne!(pages, 0, "this test needs a quota: sysctl fs.pipe-user-pages-soft=16384");
    pages * 4096
}

/// Makes 1000 pipes, sends a byte through each, prints the size of the largest and what the large ones take together.
const THOUSAND: &str = r#"
import os, fcntl, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096)) if resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 4096 else None
pipes = [os.pipe2(0) for _ in range(1000)]
for index, (r, w) in enumerate(pipes):
    os.write(w, bytes([index % 256]))
assert all(os.read(r, 9) == bytes([index % 256]) for index, (r, w) in enumerate(pipes))
sizes = [fcntl.fcntl(r, 1032) for r, w in pipes]
print(max(sizes), sum(size for size in sizes if size > 65536))
"#;

#[test]
fn a_thousand_pipes_of_one_process_leave_the_user_its_quota() {
    let scratch = Scratch::new();
    let seen = as_user("64123", &scratch, &["run", "--", "python3", "-c", THOUSAND]);
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""));
    let figures: Vec<u64> = seen.stdout.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
    let [largest, large_together] = figures[..] else { panic!("{seen:?}") };
    assert!(largest >= 262_144, "the first pipes are large: {seen:?}");
    assert!(large_together <= soft_quota_bytes() / 4, "{seen:?}");
}

#[test]
fn a_thousand_pipes_with_a_size_that_the_quota_cannot_hold_still_work() {
    let scratch = Scratch::new();
    let seen = as_user("64125", &scratch, &["run", "--pipe-size", "1M", "--", "python3", "-c", THOUSAND]);
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""));
}

/// So many processes, so many pipes in each. Prints how many are large when all are there, and ends when its input does.
const CROWD: &str = r#"
import os, fcntl, sys
processes, pipes = int(sys.argv[1]), int(sys.argv[2])
held, hold = os.pipe2(0)
tell, told = os.pipe2(0)
for _ in range(processes):
    if os.fork() == 0:
        os.close(hold)
        ends = [os.pipe2(0) for _ in range(pipes)]
        os.write(told, bytes([sum(fcntl.fcntl(r, 1032) > 65536 for r, w in ends)]))
        os.read(held, 1)
        os._exit(0)
os.close(told)
large = 0
for _ in range(processes):
    large += os.read(tell, 1)[0]
print(large, flush=True)
sys.stdin.read()
"#;

/// Starts many of that user's processes, and makes a pipe outside of them: how many of their pipes are large, and the other's size.
fn beside_many(user: &str, mut many: Command, processes: &str, pipes: &str) -> (u64, u64) {
    many.args(["python3", "-c", CROWD, processes, pipes]);
    let mut many = many.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(many.stdout.take().unwrap());
    let mut large = String::new();
    lines.read_line(&mut large).unwrap();
    let size_of_another = "import os, fcntl; print(fcntl.fcntl(os.pipe()[0], 1032))";
    let outside = output(user_command(user).args(["python3", "-c", size_of_another]));
    drop(many.stdin.take());
    assert!(many.wait().unwrap().success());
    (large.trim().parse().unwrap(), outside.stdout.trim().parse().unwrap())
}

#[test]
fn an_outside_pipe_is_whole_beside_a_run_of_many_processes() {
    let scratch = Scratch::new();
    let millstream = scratch.installed();
    let crowds = [("64126", "300", "1", 100), ("64127", "30", "10", 100), ("64128", "3", "100", 40)];
    for (user, processes, pipes, least) in crowds {
        let mut many = user_command(user);
        many.arg(&millstream).args(["run", "--"]);
        let (large, outside) = beside_many(user, many, processes, pipes);
        assert_eq!(outside, 65_536, "{processes} processes with {pipes} pipes each, {large} large");
        assert!(large >= least, "{processes} processes with {pipes} pipes each: {large} are large");
    }
}

#[test]
fn a_program_that_gives_its_rights_away_leaves_the_quota_to_others() {
    let scratch = Scratch::new();
    let user = "64129";
    let mut many = Command::new(scratch.installed());
    many.env("PATH", "/usr/bin:/bin").args([
        "run",
        "--",
        "setpriv",
        "--reuid",
        user,
        "--regid",
        user,
        "--clear-groups",
    ]);
    let (large, outside) = beside_many(user, many, "300", "1");
    assert_eq!(outside, 65_536, "{large} large");
    assert!(large > 100, "{large} are large");
}

#[test]
fn a_run_that_starts_with_the_quota_used_up_leaves_pipes_alone() {
    let scratch = Scratch::new();
    let millstream = scratch.installed();
    // The quota is taken by this process, and the run starts inside it.
    let hoard = format!(
        "import os, fcntl, subprocess\n\
         held = []\n\
         while True:\n\
         \x20   r, w = os.pipe(); held.append((r, w))\n\
         \x20   try: fcntl.fcntl(r, 1031, 1 << 20)\n\
         \x20   except PermissionError: break\n\
         \x20   assert len(held) < 9000\n\
         print(subprocess.run(['{0}', 'run', '-c', 'seq 100000 | cat | tail -n 1'], stdout=subprocess.PIPE).stdout)\n\
         print(subprocess.run(['{0}', 'run', '--', 'python3', '-c', 'import os, fcntl; print(fcntl.fcntl(os.pipe2(0)[0], 1032))'], \
         stdout=subprocess.PIPE).stdout)\n",
        millstream.display()
    );
    let seen = output(
        Command::new("setpriv")
            .args(["--reuid", "64124", "--regid", "64124", "--clear-groups", "python3", "-c", &hoard])
            .env("PATH", "/usr/bin:/bin")
            .env("SHELL", "/bin/sh"),
    );
    let (result, size) = seen.stdout.split_once('\n').unwrap_or_else(|| panic!("{seen:?}"));
    assert_eq!((result, seen.stderr.as_str()), (r"b'100000\n'", ""));
    let size: u64 = size.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or_else(|_| panic!("{seen:?}"));
    assert!(size <= 65_536, "{seen:?}");
}
