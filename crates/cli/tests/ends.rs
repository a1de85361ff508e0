//! `millstream run --ring` with ends under numbers of the program's own: what Python, Perl and popen read from and write to, and
//! what becomes of numbers that mean one thing now and another later.

mod common;

use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde_json::Value;

use common::{Scratch, Seen, can_attach, millstream, mostly, output, statistics};

const LIVES: &str = include_str!("ring/lives.c");
const ENDS: &str = include_str!("ring/ends.c");
const POLLS: &str = include_str!("ring/polls.c");
/// Much more than it takes until a pipe is attached.
const MANY: u64 = 24 << 20;

struct Programs {
    _scratch: Scratch,
    ends: String,
    lives: String,
    polls: String,
    /// [`MANY`] bytes that do not repeat.
    bytes: String,
}

static PROGRAMS: LazyLock<Programs> = LazyLock::new(|| {
    let scratch = Scratch::new();
    let ends = scratch.c_program("ends", ENDS, &[]);
    let lives = scratch.c_program("lives", LIVES, &[]);
    let polls = scratch.c_program("polls", POLLS, &[]);
    let bytes = scratch.path("bytes").to_str().unwrap().to_owned();
    let made = Command::new(&ends)
        .args(["write", &MANY.to_string(), "call"])
        .stdout(std::fs::File::create(&bytes).unwrap())
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    Programs { _scratch: scratch, ends, lives, polls, bytes }
});

fn with_programs(command: &mut Command) -> Seen {
    let Programs { ends, lives, polls, bytes, .. } = &*PROGRAMS;
    output(command.env("E", ends).env("L", lives).env("P", polls).env("B", bytes))
}

fn over_ring(options: &[&str], words: &[&str]) -> Seen {
    with_programs(&mut millstream([&["run", "--ring"], options, &["--"], words].concat()))
}

/// Runs it bare and over the ring: the same output and status. Returns what the statistics say of the pipe that carried most.
fn told(words: &[&str]) -> Value {
    let scratch = Scratch::new();
    let file = scratch.path("stats.json");
    let seen = over_ring(&["--stats=json", "--stats-file", file.to_str().unwrap()], words);
    let bare = with_programs(Command::new(words[0]).args(&words[1..]));
    assert_eq!(seen, bare);
    assert_eq!(seen.code, Some(0), "{seen:?}");
    let stats = statistics(&file);
    let pipes = stats["pipes"].as_array().unwrap();
    pipes.iter().max_by_key(|pipe| pipe["bytes"].as_u64()).unwrap().clone()
}

/// Whether it is attached in one of many runs; each must end well.
fn joins(words: &[&str]) -> bool {
    mostly(|| {
        let pipe = told(words);
        assert_eq!(pipe["bytes"].as_u64(), Some(MANY), "{pipe}");
        pipe["read"]["ring"]["bytes"].as_u64().unwrap_or(0) > MANY / 4
    })
}

fn python(program: &str) -> Vec<String> {
    // What is called `python3` may be a script with pipes of its own.
    static PYTHON: LazyLock<String> = LazyLock::new(|| {
        let seen = output(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]));
        seen.stdout.trim().to_owned()
    });
    let imports = "import os, subprocess, sys\nB = os.environ['B']\nE = os.environ['E']\n";
    vec![PYTHON.clone(), "-c".to_owned(), format!("{imports}{program}")]
}

fn joins_python(program: &str) -> bool {
    let words = python(program);
    joins(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// What a parent in Python reads from the standard output of its child.
const READERS: [(&str, &str); 5] = [
    ("all at once", "got = p.stdout.read()"),
    ("in blocks", "got = b''.join(iter(lambda: p.stdout.read(50000), b''))"),
    ("by lines", "got = b''.join(p.stdout)"),
    ("by calls", "got = b''.join(iter(lambda: os.read(p.stdout.fileno(), 70000), b''))"),
    (
        "by calls and from the buffer in turns",
        "parts = []\nwhile True:\n some = p.stdout.read(1000)\n parts.append(some)\n if not some: break\n \
         parts.append(p.stdout.peek() and p.stdout.read(len(p.stdout.peek())))\n parts.append(os.read(p.stdout.fileno(), 30000))\n\
         got = b''.join(parts)",
    ),
];

#[test]
fn python_parent_reads_every_byte() {
    for (how, read) in READERS {
        let program = format!(
            "p = subprocess.Popen(['cat', B], stdout=subprocess.PIPE)\n{read}\n\
             assert p.wait() == 0 and got == open(B, 'rb').read(), len(got)\nprint(len(got))"
        );
        assert_eq!(joins_python(&program), can_attach(), "{how}");
    }
}

#[test]
fn python_parent_writes_every_byte() {
    for (how, write) in [
        ("in blocks", "for at in range(0, len(all), 50000): p.stdin.write(all[at:at + 50000])"),
        ("by calls", "at = 0\nwhile at < len(all): at += os.write(p.stdin.fileno(), all[at:at + 70000])"),
    ] {
        let program = format!(
            "p = subprocess.Popen([E, 'read', '0', 'call'], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)\n\
             all = open(B, 'rb').read()\n{write}\np.stdin.close()\nsys.exit(p.wait())"
        );
        assert_eq!(joins_python(&program), can_attach(), "{how}");
    }
}

#[test]
fn parent_that_acts_in_mid_stream_loses_no_byte() {
    for what in [
        "subprocess.run(['true'])",
        "os.waitpid(os.fork() or os._exit(0), 0)",
        "os.close(os.dup(p.stdout.fileno()))",
        "import select; select.select([p.stdout], [], [])",
        "import threading; t = threading.Thread(target=print); t.start(); t.join()",
        "import fcntl; fcntl.fcntl(p.stdout, fcntl.F_GETFL)",
        "import signal; signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)",
        "import hashlib",
    ] {
        for after in [3 << 20, 12 << 20] {
            let program = format!(
                "p = subprocess.Popen(['cat', B], stdout=subprocess.PIPE)\ngot = p.stdout.read({after})\n{what}\n\
                 got += p.stdout.read()\nimport signal; signal.setitimer(signal.ITIMER_REAL, 0)\nassert p.wait() == 0 and got == open(B, 'rb').read(), len(got)"
            );
            let words = python(&program);
            told(&words.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
}

/// `communicate` and `run` poll before each call.
#[test]
fn communicate_reads_every_byte() {
    for program in [
        "got = subprocess.run(['cat', B], capture_output=True, check=True).stdout\nassert got == open(B, 'rb').read()",
        "all = open(B, 'rb').read()\np = subprocess.Popen(['cat', B], stdout=subprocess.PIPE, stderr=subprocess.PIPE)\n\
         got = b''\nwhile len(got) < len(all):\n try: got, _ = p.communicate(timeout=0.02)\n except subprocess.TimeoutExpired: pass\nassert got == all",
        "import select\np = subprocess.Popen(['cat', B], stdout=subprocess.PIPE)\nfd, parts = p.stdout.fileno(), []\n\
         while select.select([fd], [], [], 10)[0]:\n parts.append(os.read(fd, 50000))\n if not parts[-1]: break\n\
         assert p.wait() == 0 and b''.join(parts) == open(B, 'rb').read()",
    ] {
        assert_eq!(joins_python(program), can_attach(), "{program}");
    }
}

#[test]
fn communicate_writes_and_reads_two_pipes() {
    let writes_both = "import os\nall = open(os.environ['B'], 'rb').read()\nfor at in range(0, len(all), 50000):\n \
        some = all[at:at + 50000]\n os.write(1, some)\n os.write(2, some[::-1] if at % 3 else some[:7])";
    let both = format!(
        "p = subprocess.run([sys.executable, '-c', \"\"\"{writes_both}\"\"\"], capture_output=True, check=True)\nall = open(B, 'rb').read()\n\
         parts = [(at, all[at:at + 50000]) for at in range(0, len(all), 50000)]\n\
         assert p.stdout == all and p.stderr == b''.join(some[::-1] if at % 3 else some[:7] for at, some in parts)"
    );
    let input = "all = open(B, 'rb').read()\np = subprocess.run(['cat'], input=all, capture_output=True, check=True)\nassert p.stdout == all";
    for program in [&both, input] {
        for after in ["1", "100000", "4194304"] {
            let words = python(program);
            let seen = over_ring(&["--ring-after", after], &words.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{program}, after {after}");
        }
    }
}

/// The writer polls too, and gives its pipe back when it would have to wait.
#[test]
fn waiting_reader_gets_every_byte() {
    const BYTES: u64 = 6_000_000;
    let script = |words: String| ["bash".to_owned(), "-c".to_owned(), words];
    let run = |options: &[&str], words: &[String; 3]| {
        over_ring(options, &words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let pipeline = |seed| script(format!("$P write {seed} {BYTES} | $P read {seed}; echo ${{PIPESTATUS[@]}}"));
    let check = |seed: u32| {
        let all = pipeline(seed);
        let killed = script(format!("$P write {seed} -{BYTES} | $P read {seed}; echo ${{PIPESTATUS[@]}}"));
        let leaves =
            script(format!("$P write {seed} {BYTES} x | $P read {seed} {}; echo ${{PIPESTATUS[@]}}", BYTES / 2));
        for (words, expected) in
            [(&all, format!("{BYTES}\n0 0\n")), (&killed, format!("{BYTES}\n137 0\n")), (&leaves, "3 137\n".to_owned())]
        {
            let bare = with_programs(Command::new(&words[0]).args(&words[1..]));
            assert_eq!(bare.stdout, expected, "bare, seed {seed}: {bare:?}");
            for after in ["1", "30000", "300000"] {
                let seen = run(&["--ring-after", after], words);
                assert_eq!(seen.stdout, expected, "seed {seed}, after {after}: {seen:?}");
            }
        }
    };
    // They wait most of the time.
    std::thread::scope(|scope| {
        for part in 0..4_u32 {
            let check = &check;
            scope.spawn(move || (0..16).filter(|seed| seed % 4 == part).for_each(check));
        }
    });
    let is_in_ring = |seed: u32| {
        let scratch = Scratch::new();
        let file = scratch.path("stats.json");
        let options = ["--ring-after", "30000", "--stats=json", "--stats-file", file.to_str().unwrap()];
        assert_eq!(run(&options, &pipeline(seed)).stdout, format!("{BYTES}\n0 0\n"));
        let stats = statistics(&file);
        stats["pipes"].as_array().unwrap().iter().any(|pipe| pipe["path"] == "ring")
    };
    let were_in_ring = (0..8).filter(|&seed| is_in_ring(seed)).count();
    assert_eq!(were_in_ring > 0 || mostly(|| is_in_ring(0)), can_attach());
}

#[test]
fn forked_child_writes_every_byte() {
    for pipe in ["r, w = os.pipe()", "r, w = (os.dup2(fd, fd + 90) for fd in os.pipe())"] {
        let program = format!(
            "{pipe}\nall = open(B, 'rb').read()\nif os.fork() == 0:\n at = 0\n while at < len(all): at += os.write(w, all[at:at + 70000])\n \
             os._exit(0)\nos.closerange(3, r); os.closerange(r + 1, 300)\n\
             got = b''.join(iter(lambda: os.read(r, 70000), b''))\nos.wait()\nassert got == all"
        );
        let words = python(&program);
        told(&words.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let program = "import multiprocessing as m\nm.set_start_method('fork')\nr, w = m.Pipe(duplex=False)\n\
        all = open(B, 'rb').read()[:-4 * 384]\ndef give():\n r.close()\n for i in range(384): w.send_bytes(all[i * 65532:(i + 1) * 65532])\n\
        p = m.Process(target=give); p.start(); w.close()\ngot = b''.join(r.recv_bytes() for _ in range(384))\n\
        p.join()\nassert got == all";
    assert_eq!(joins_python(program), can_attach());
}

#[test]
fn perl_reads_and_writes_every_byte() {
    for program in [
        "open(F, '-|', 'cat', $ENV{B}) or die; while (read(F, $some, 65536)) { $n += length $some } close F or die; print $n",
        "$all = `cat $ENV{B}`; print length $all",
        "open(B, '<', $ENV{B}); open(F, '|-', \"exec $ENV{E} read 0 call 2>&1\") or die; \
         while (read(B, $some, 65536)) { print F $some } close F or die",
    ] {
        assert_eq!(joins(&["perl", "-e", program]), can_attach(), "{program}");
    }
}

#[test]
fn lives_of_pipes_under_any_number() {
    let mut in_ring = 0;
    for seed in 0..60_u32 {
        let seed = seed.to_string();
        let life = [PROGRAMS.lives.as_str(), &seed];
        let bare = output(Command::new(life[0]).args(&life[1..]));
        assert_eq!(bare.code, Some(0), "bare, seed {seed}: {bare:?}");
        for after in ["1", "30000", "300000"] {
            let seen = over_ring(&["--ring-after", after], &life);
            assert_eq!(seen.code, Some(0), "seed {seed}, after {after}: {seen:?}");
        }
    }
    for seed in 0..8_u32 {
        let scratch = Scratch::new();
        let file = scratch.path("stats.json");
        let options = ["--ring-after", "30000", "--stats=json", "--stats-file", file.to_str().unwrap()];
        let seen = over_ring(&options, &[PROGRAMS.lives.as_str(), &seed.to_string()]);
        assert_eq!(seen.code, Some(0), "{seen:?}");
        let stats = statistics(&file);
        let pipes = stats["pipes"].as_array().unwrap();
        in_ring += pipes.iter().filter(|pipe| pipe["path"] == "ring").count();
    }
    assert_eq!(in_ring > 0, can_attach());
}
