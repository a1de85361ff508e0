//! The library as C programs use it: shared and static, the examples, an installation.
//!
//! 'make lib' has made what is tested.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn library() -> PathBuf {
    let made = root().join("target/c");
    assert!(made.join("libmillstream.so").exists(), "there is no libmillstream.so in target/c: run 'make lib' first");
    made
}

/// A directory that goes with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("millstream-c-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linked {
    Shared,
    Static,
    /// With the address sanitizer in the C program.
    Sanitized,
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}: {said:?}", output.status);
    output
}

/// A program that is ended after two minutes: one that hangs has failed.
fn limited(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "120"]).arg(program.as_ref());
    command
}

/// Compiles a C file of this crate, with every warning an error.
fn compile(source: &str, scratch: &Scratch, linked: Linked) -> PathBuf {
    let program = scratch.path(&format!("{}-{linked:?}", Path::new(source).file_stem().unwrap().to_string_lossy()));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-pedantic", "-Werror"]);
    compiler.arg("-I").arg(root().join("crates/capi/include"));
    compiler.arg(root().join("crates/capi").join(source)).arg("-o").arg(&program);
    match linked {
        Linked::Static => compiler.arg(library().join("libmillstream.a")).args(["-lpthread", "-lm", "-ldl", "-lgcc_s"]),
        Linked::Shared | Linked::Sanitized => compiler
            .args(if linked == Linked::Sanitized { &["-fsanitize=address,undefined"][..] } else { &[] })
            .arg("-L")
            .arg(library())
            .arg(format!("-Wl,-rpath,{}", library().display()))
            .args(["-lmillstream", "-lpthread"]),
    };
    succeed(&mut compiler);
    program
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn contract_holds_for_c_programs() {
    for linked in [Linked::Shared, Linked::Static, Linked::Sanitized] {
        let scratch = Scratch::new(&format!("contract-{linked:?}"));
        let program = compile("tests/c/contract.c", &scratch, linked);
        let said = text(&succeed(limited(program).arg(&scratch.0)));
        let checks: u64 = said.split(' ').next().unwrap().parse().unwrap();
        assert!(checks > 500_000, "{said}");
    }
}

/// The program in docs/c.md.
#[test]
fn quick_start_of_the_docs_runs() {
    let scratch = Scratch::new("start");
    let page = std::fs::read_to_string(root().join("docs/c.md")).unwrap();
    let program = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let source = scratch.path("start.c");
    std::fs::write(&source, program).unwrap();
    let program = compile(source.to_str().unwrap(), &scratch, Linked::Shared);
    assert_eq!(text(&succeed(&mut limited(program))), "grain\n");
}

/// Under valgrind errors and lost memory are a status of their own, in children of a fork too.
fn watched(program: &Path) -> Command {
    let mut command = limited("valgrind");
    command.args(["--quiet", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
    command.args(["--show-leak-kinds=definite", "--fair-sched=yes"]).arg(program);
    command
}

#[test]
fn programs_touch_no_wrong_memory_and_lose_none() {
    let scratch = Scratch::new("valgrind");
    let from = scratch.path("from");
    std::fs::write(&from, vec![7; 300_000]).unwrap();
    let (from, to) = (from.to_str().unwrap().to_owned(), scratch.path("to").to_str().unwrap().to_owned());
    let directory = scratch.0.to_str().unwrap().to_owned();
    for (source, arguments) in [
        ("tests/c/contract.c", vec![directory]),
        ("tests/c/broadcast.c", vec![]),
        ("examples/broadcast.c", vec![]),
        ("examples/copy.c", vec![from, to]),
        ("examples/event_loop.c", vec![]),
        ("examples/zero_copy.c", vec!["100003".into()]),
    ] {
        let seen = succeed(watched(&compile(source, &scratch, Linked::Shared)).args(arguments));
        assert!(seen.stderr.is_empty(), "{source}: {}", String::from_utf8_lossy(&seen.stderr));
    }
}

#[test]
fn copy_example_copies_a_file() {
    let scratch = Scratch::new("copy");
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::write(&from, &bytes).unwrap();
    for linked in [Linked::Shared, Linked::Static] {
        let program = compile("examples/copy.c", &scratch, linked);
        succeed(limited(&program).args([&from, &to]));
        assert!(std::fs::read(&to).unwrap() == bytes);
        std::fs::remove_file(&to).unwrap();
        let refused = limited(&program).args([Path::new("no-such-file"), &to]).output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("no-such-file"), "{refused:?}");
        assert_eq!(limited(&program).output().unwrap().status.code(), Some(2));
    }
}

#[test]
fn event_loop_example_adds_what_three_processes_send() {
    let scratch = Scratch::new("loop");
    let program = compile("examples/event_loop.c", &scratch, Linked::Shared);
    let said = text(&succeed(&mut limited(program)));
    let mut lines: Vec<_> = said.lines().collect();
    lines.sort_unstable();
    let expected: Vec<_> =
        (1..=3).map(|step| format!("process {step} sent numbers with the sum {}", step * 499_500)).collect();
    assert_eq!(lines, expected);
}

#[test]
fn zero_copy_example_copies_no_byte() {
    let scratch = Scratch::new("zero");
    let program = compile("examples/zero_copy.c", &scratch, Linked::Shared);
    for count in [0_u64, 1, 100_003, 3_000_000] {
        let said = text(&succeed(limited(&program).arg(count.to_string())));
        let sum = count * count.saturating_sub(1) / 2;
        assert_eq!(said, format!("sum {sum}, {} bytes, all in place\n", count * 8));
    }
}

#[test]
fn broadcast_holds_for_c_programs() {
    for linked in [Linked::Shared, Linked::Static, Linked::Sanitized] {
        let scratch = Scratch::new(&format!("broadcast-{linked:?}"));
        let said = text(&succeed(&mut limited(compile("tests/c/broadcast.c", &scratch, linked))));
        let checks: u64 = said.split(' ').next().unwrap().parse().unwrap();
        assert!(checks > 500, "{said}");
    }
}

/// A control group for memory, with a limit and without the kernel's killer of processes where that can be had.
struct MemoryGroup {
    directory: PathBuf,
    has_killer: bool,
}

impl MemoryGroup {
    fn new(bytes: u64) -> MemoryGroup {
        let name = format!("millstream-c-{}", std::process::id());
        let first = PathBuf::from("/sys/fs/cgroup/memory");
        let (root, limit) =
            if first.is_dir() { (first, "memory.limit_in_bytes") } else { ("/sys/fs/cgroup".into(), "memory.max") };
        let directory = root.join(name);
        let made = std::fs::create_dir(&directory);
        made.unwrap_or_else(|error| {
            panic!("{}: {error}; this test makes a control group, as root", directory.display())
        });
        let mut group = MemoryGroup { directory, has_killer: true };
        group.write(limit, &bytes.to_string()).unwrap();
        group.has_killer = group.write("memory.oom_control", "1").is_err();
        group
    }

    fn write(&self, file: &str, text: &str) -> std::io::Result<()> {
        std::fs::OpenOptions::new().write(true).open(self.directory.join(file))?.write_all(text.as_bytes())
    }

    /// The command in the group from its first instruction on.
    fn command(&self, program: &Path) -> Command {
        let mut command = limited("sh");
        command
            .args(["-c", "echo $$ >\"$1\" && exec \"$2\"", "sh"])
            .arg(self.directory.join("cgroup.procs"))
            .arg(program);
        command
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.directory);
    }
}

/// In a full control group, which would raise SIGBUS where memory is touched that is not there.
#[test]
fn memory_that_runs_out_is_an_error_and_no_signal() {
    let scratch = Scratch::new("memory");
    let program = compile("tests/c/memory.c", &scratch, Linked::Shared);
    let group = MemoryGroup::new(8 << 20);
    let output = group.command(&program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if group.has_killer && output.status.signal() == Some(9) {
        // The kernel's answer to the allocation itself: what the library could answer never comes.
        return;
    }
    assert!(output.status.success(), "{}: {said}", output.status);
    let written: u64 = text(&output).trim().parse().unwrap();
    assert!((1 << 20..8 << 20).contains(&written), "{written} bytes");
}

#[test]
fn broadcast_example_has_three_processes_read_the_same() {
    let scratch = Scratch::new("broadcast");
    let said = text(&succeed(&mut limited(compile("examples/broadcast.c", &scratch, Linked::Shared))));
    let mut lines: Vec<_> = said.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["count 200000", "largest 199999", "sum 19999900000"]);
}

#[test]
fn shared_library_has_a_name_and_symbol_versions() {
    let shared = library().join("libmillstream.so");
    let tags = text(&succeed(Command::new("readelf").arg("-dW").arg(&shared)));
    assert!(tags.contains("Library soname: [libmillstream.so.0]"), "{tags}");
    let symbols =
        text(&succeed(Command::new("nm").args(["-D", "--defined-only", "--with-symbol-versions"]).arg(&shared)));
    let defined: Vec<_> = symbols.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let (functions, nodes): (Vec<&str>, Vec<&str>) = defined.iter().partition(|name| name.starts_with("ms_"));
    assert!(functions.len() >= 31, "{defined:?}");
    assert!(functions.iter().all(|name| name.ends_with("@@MILLSTREAM_0.1")), "{functions:?}");
    // The node itself; nothing of Rust.
    assert_eq!(nodes, ["MILLSTREAM_0.1"], "{defined:?}");
}

#[test]
fn installed_library_is_found_and_leaves_nothing() {
    let scratch = Scratch::new("installed");
    let place = scratch.path("root");
    let make = |target: &str| {
        let mut command = Command::new("make");
        // The tests' own 'make' has told its children about itself.
        command.current_dir(root()).env_remove("MAKEFLAGS").env_remove("MAKELEVEL").env_remove("MFLAGS");
        succeed(
            command.args(["--no-print-directory", target, "PREFIX=/usr"]).arg(format!("DESTDIR={}", place.display())),
        )
    };
    make("install-lib");
    for file in [
        "include/millstream.h",
        "lib/libmillstream.so",
        "lib/libmillstream.so.0",
        "lib/libmillstream.a",
        "lib/pkgconfig/millstream.pc",
        "share/man/man3/ms_pipe.3",
        "share/man/man3/ms_readv.3",
        "share/man/man7/millstream.7",
    ] {
        assert!(place.join("usr").join(file).exists(), "{file}");
    }
    let ask = |what: &str| {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_SYSROOT_DIR", &place).env("PKG_CONFIG_PATH", place.join("usr/lib/pkgconfig"));
        // Where a program would leave these out because they are the system's.
        command.env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1").env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1");
        text(&succeed(command.args([what, "millstream"]))).trim().to_owned()
    };
    assert_eq!(ask("--modversion"), env!("CARGO_PKG_VERSION"));
    // All of them at once: some are links to another.
    let functions = functions_of(&place.join("usr/include/millstream.h"));
    let mut manual = Command::new("man");
    manual.arg("-M").arg(place.join("usr/share/man")).args(["--warnings=w", "3"]).args(&functions);
    let shown = succeed(manual.env("MANPAGER", "cat").env("LC_ALL", "C.UTF-8"));
    let pages = text(&shown).matches("\nNAME\n").count() + usize::from(text(&shown).starts_with("NAME\n"));
    assert_eq!(pages, functions.len(), "{functions:?}");
    assert!(shown.stderr.is_empty(), "{}", String::from_utf8_lossy(&shown.stderr));
    let program = scratch.path("copy");
    let mut compiler = Command::new("cc");
    compiler.arg(root().join("crates/capi/examples/copy.c")).arg("-o").arg(&program);
    succeed(compiler.args(ask("--cflags").split(' ')).args(ask("--libs").split(' ')));
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::write(&from, "grain").unwrap();
    succeed(limited(&program).args([&from, &to]).env("LD_LIBRARY_PATH", place.join("usr/lib")));
    assert_eq!(std::fs::read(&to).unwrap(), b"grain");
    make("uninstall-lib");
    let left: Vec<_> = walk(&place).into_iter().filter(|path| !path.is_dir()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The names in the lines that begin a declaration.
fn functions_of(header: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(header).unwrap();
    let declared = text.lines().filter(|line| line.starts_with(|letter: char| letter.is_ascii_lowercase()));
    let names = declared.filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next().map(str::to_owned));
    let names: Vec<_> = names.filter(|name| name.starts_with("ms_")).collect();
    assert!(names.len() >= 31, "{names:?}");
    names
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(walk(&path));
        }
        found.push(path);
    }
    found
}
