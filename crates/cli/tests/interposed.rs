//! How calls reach the library of a run: every name under which a program may call a function of glibc that the library stands in front
//! of, pointers to such functions, and other libraries with functions of these names.

mod common;
#[path = "common/over_ring.rs"]
mod over_ring;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use common::{Scratch, can_attach, mostly, output};
use over_ring::{MANY, Programs, assert_arrived, over_ring_with, seen, told};

static PROGRAMS: LazyLock<Programs> = LazyLock::new(|| {
    Programs::built(&[
        ("P", include_str!("interposed/pointers.c"), &["-ldl"]),
        ("S", include_str!("interposed/streams.c"), &["-ldl", "-w"]),
        ("B", include_str!("interposed/begins.c"), &["-pthread"]),
    ])
});

/// What every program of a run has of `read` and `write`, beside [`millstream_sys::fate::guarded`].
const MOVING: [&str; 5] = ["read", "__read", "write", "__write", "__read_chk"];

/// Names that glibc keeps for its own libraries.
const PRIVATE: &str = "@@GLIBC_PRIVATE";

fn symbols(library: &str) -> Vec<(String, String)> {
    let listed = output(Command::new("readelf").args(["--dyn-syms", "-W", library]));
    let function = |line: &str| {
        // Number, value, size, type, binding, visibility, section, name.
        let words: Vec<_> = line.split_whitespace().collect();
        let [_, value, _, "FUNC", _, _, section, name] = words[..] else { return None };
        (section != "UND").then(|| (name.to_owned(), value.to_owned()))
    };
    listed.stdout.lines().filter_map(function).collect()
}

/// The glibc that programs here are started with.
fn glibc() -> String {
    let maps = output(Command::new("cat").arg("/proc/self/maps")).stdout;
    let path = maps.lines().find_map(|line| line.split_whitespace().nth(5).filter(|path| path.contains("/libc.so")));
    path.expect("cat is a program of glibc").to_owned()
}

fn library() -> PathBuf {
    let seen = output(common::millstream(["run", "-c", "echo $LD_PRELOAD"]).env_remove("LD_PRELOAD"));
    PathBuf::from(seen.stdout.trim())
}

#[test]
fn library_has_every_name_of_a_guarded_function() {
    if !can_attach() {
        return;
    }
    let glibc = symbols(&glibc());
    let mut names_at: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, value) in glibc.iter().filter(|(name, _)| !name.ends_with(PRIVATE)) {
        names_at.entry(value).or_default().push(name.split('@').next().unwrap());
    }
    let own: Vec<String> = symbols(library().to_str().unwrap()).into_iter().map(|(name, _)| name).collect();
    let guarded = millstream_sys::fate::guarded().map(|name| name.to_str().unwrap());
    let mut checked = 0;
    for function in guarded.chain(MOVING) {
        assert!(own.iter().any(|name| name == function), "the library has no {function}");
        let is_here = |(_, names): &(&&str, &Vec<&str>)| names.contains(&function);
        for other in names_at.iter().filter(is_here).flat_map(|(_, names)| names) {
            assert!(own.iter().any(|name| name == other), "the library has no {other}, which is {function}");
            checked += 1;
        }
    }
    println!("{checked} names");
    assert!(checked >= 130, "{checked}");
}

/// How a program gets pointers to `read`, `write` and `dup`, and whether all its calls come to the library.
const WAYS: [(&str, bool); 5] =
    [("called", true), ("default", true), ("handle", true), ("next", true), ("version", false)];

#[test]
fn pointers_to_functions_lose_no_byte() {
    for (way, is_reached) in WAYS {
        for (writer, reader) in [(way, "called"), ("called", way)] {
            let script = format!("$P write {MANY} {writer} | $P read {reader}");
            assert_arrived(&seen(&script), MANY);
            let joins = mostly(|| told(&script)["path"] == "ring");
            assert_eq!(joins, can_attach() && is_reached, "{script}");
        }
    }
}

/// A library behind this one that asks for the next `write` calls glibc's.
#[test]
fn library_that_asks_for_the_next_function_keeps_the_pipe_with_the_kernel() {
    let scratch = Scratch::new();
    let other = scratch.c_program("other", include_str!("interposed/next.c"), &["-shared", "-fPIC"]);
    let script = format!("LD_PRELOAD=\"$LD_PRELOAD:{other}\" $P write {MANY} called | $P read called");
    assert_arrived(&seen(&script), MANY);
    let pipe = told(&script);
    assert_eq!(pipe["path"], "kernel", "{pipe}");
}

/// A program, or a library before this one, that has a `lockf` of its own does not reach the one here.
#[test]
fn library_before_this_one_keeps_the_pipe_with_the_kernel() {
    let scratch = Scratch::new();
    let other =
        scratch.c_program("other", "int lockf(int fd, int how, long len) { return -1; }", &["-shared", "-fPIC"]);
    let script = format!("LD_PRELOAD=\"{other}:$LD_PRELOAD\" $P write {MANY} called | $P read called");
    assert_arrived(&seen(&script), MANY);
    let pipe = told(&script);
    assert_eq!(pipe["path"], "kernel", "{pipe}");
    assert!(!can_attach() || pipe["written"]["why_not"] == "code", "{pipe}");
}

/// Wide characters, streams of `popen`, and functions of glibc that call the kernel with a descriptor of the program's.
const STREAMS: [&str; 8] = [
    "$S wide-out | cksum",
    "$S plain | $S wide-in",
    "$S popen-mixed",
    "$S popen-closed",
    "$S dprintf-out | cksum",
    "$S eventfd-out | cksum",
    "$S plain | $S eventfd-in",
    "$S deep-out $PLUGIN | cksum",
];

#[test]
fn ways_inside_glibc_keep_every_byte_in_its_turn() {
    let scratch = Scratch::new();
    let plugin = scratch.c_program("plugin.so", include_str!("interposed/plugin.c"), &["-shared", "-fPIC"]);
    for script in STREAMS {
        let mut bare = Command::new("bash");
        let bare = output(bare.args(["-c", script]).envs(PROGRAMS.paths()).env("PLUGIN", &plugin));
        assert!(bare.code == Some(0) && !bare.stdout.is_empty(), "{script}: {bare:?}");
        for options in [&[][..], &["--ring-after", "1"]] {
            let mut run = over_ring_with(options, script);
            let seen = output(run.env("PLUGIN", &plugin));
            assert_eq!((&seen.stdout, seen.code), (&bare.stdout, bare.code), "{script} {options:?}: {seen:?}");
        }
    }
    assert_eq!(mostly(|| told("$S plain | $S wide-in")["path"] == "ring"), can_attach());
}

#[test]
fn threads_that_make_their_first_pipes_at_once_all_go_on() {
    let scratch = Scratch::new();
    let said = scratch.path("said");
    for ring in ["--ring", "--no-ring"] {
        // Nothing that it begins with is a pipe.
        let seen =
            output(over_ring_with(&[ring], "$B 300 </dev/null 2>/dev/null >$SAID; cat $SAID").env("SAID", &said));
        assert_eq!((seen.stdout.as_str(), seen.code), ("0 of 300 died\n", Some(0)), "{seen:?}");
    }
}

/// A library behind this one that has only `close`: it sees every call of it.
#[test]
fn library_with_a_function_of_its_own_is_called_each_time() {
    let scratch = Scratch::new();
    let source = "#define _GNU_SOURCE\n#include <stdio.h>\n#include <unistd.h>\n#include <sys/syscall.h>\n\
                  static int calls;\n\
                  int close(int fd) { calls += fd == 99; return syscall(SYS_close, fd); }\n\
                  __attribute__((destructor)) static void tell(void) { if (calls) fprintf(stderr, \"closed %d\\n\", calls); }\n";
    let other = scratch.c_program("other", source, &["-shared", "-fPIC"]);
    let program = "#include <unistd.h>\n\
                   int main(void) { static char room[65536]; int calls = 0;\n\
                   while (read(0, room, sizeof room) > 0) if (calls < 1000) close(99), calls++;\n\
                   return calls != 1000; }\n";
    let program = scratch.c_program("program", program, &[]);
    let script = format!("head -c 200000000 /dev/zero | LD_PRELOAD=\"$LD_PRELOAD:{other}\" {program}");
    for options in [&[][..], &["--ring-after", "1"]] {
        let seen = output(&mut over_ring_with(options, &script));
        assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), "closed 1000\n"), "{options:?}");
    }
}
