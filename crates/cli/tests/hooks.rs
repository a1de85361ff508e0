//! What hooks displace: the first instructions of every function of glibc that is hooked, understood and written elsewhere.
//!
//! `objdump` says what the instructions are, here and in their new place.

mod common;
#[path = "../../preload/src/joined/displaced.rs"]
mod displaced;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::Scratch;
use displaced::WINDOW;

/// Where the code is written to, in a memory in which glibc's file begins at 0: far enough that near jumps do not reach.
const ELSEWHERE: usize = 0x4000_0000;

fn stdout(command: &mut Command) -> String {
    let seen = common::output(command);
    assert_eq!(seen.code, Some(0), "{command:?}: {}", seen.stderr);
    seen.stdout
}

/// The glibc that programs here are started with.
fn glibc() -> PathBuf {
    let maps = stdout(Command::new("cat").arg("/proc/self/maps"));
    let path = maps.lines().find_map(|line| line.split_whitespace().nth(5).filter(|path| path.contains("/libc.so")));
    PathBuf::from(path.expect("cat is a program of glibc"))
}

/// Name and entry of each hooked function.
fn hooked(glibc: &Path) -> Vec<(String, usize)> {
    let wanted: Vec<&str> = millstream_sys::fate::guarded()
        .map(|name| name.to_str().unwrap())
        .chain(["__read_nocancel", "__write_nocancel"])
        .collect();
    let mut found = Vec::new();
    for line in stdout(Command::new("readelf").args(["--dyn-syms", "-W"]).arg(glibc)).lines() {
        // Number, value, size, type, binding, visibility, section, name.
        let [_, value, _, "FUNC", _, _, _, name] = line.split_whitespace().collect::<Vec<_>>()[..] else { continue };
        let name = name.split('@').next().unwrap();
        if wanted.contains(&name) {
            let entry = usize::from_str_radix(value, 16).unwrap();
            found.push((name.to_owned(), entry));
        }
    }
    for name in wanted {
        assert!(found.iter().any(|(known, _)| known == name), "glibc has no {name}");
    }
    found
}

/// What `objdump` makes of code at an address: instructions with absolute targets.
fn disassembled(code: &[u8], address: usize) -> Vec<String> {
    let scratch = Scratch::new();
    let file = scratch.path("code");
    fs::write(&file, code).unwrap();
    let text = stdout(
        Command::new("objdump")
            .args(["-D", "-b", "binary", "-m", "i386:x86-64", "--no-show-raw-insn"])
            .arg(format!("--adjust-vma={address:#x}"))
            .arg(&file),
    );
    let instruction = |line: &str| {
        let (at, text) = line.split_once(":\t")?;
        usize::from_str_radix(at.trim(), 16).ok()?;
        // "mov 0x1234(%rip),%rax  # 0x5678": only the place is the same elsewhere.
        let words = match text.split_once("# ") {
            Some((words, place)) => {
                let (before, _) = words.split_at(words.find(['-', '0']).unwrap_or(0).min(words.len()));
                format!("{} {}", before.split_whitespace().next().unwrap_or(""), place.trim())
            }
            None => text.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        Some(words)
    };
    text.lines().filter_map(instruction).collect()
}

#[test]
fn displaced_instructions_mean_the_same_elsewhere() {
    let glibc = glibc();
    let file = fs::read(&glibc).unwrap();
    let functions = hooked(&glibc);
    for (name, entry) in &functions {
        // Code lies in the file as it lies in memory, in every glibc for x86-64.
        let landing = if file[*entry..].starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 4 } else { 0 };
        let from = entry + landing;
        let window: [u8; WINDOW] = file[from..from + WINDOW].try_into().unwrap();
        let displaced = displaced::at((from, window));
        let displaced = displaced.unwrap_or_else(|| panic!("{name}: {:?}", disassembled(&window, from)));
        let (code, len) = displaced.moved_to(ELSEWHERE).unwrap_or_else(|| panic!("{name} cannot be moved"));
        let before = disassembled(&file[from..displaced.end()], from);
        assert_eq!(disassembled(&code[..len], ELSEWHERE), before, "{name}");
    }
    println!("{} functions", functions.len());
    assert!(functions.len() >= 90, "{}", functions.len());
}
