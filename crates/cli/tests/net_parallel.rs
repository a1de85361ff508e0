//! `parallel`: a command over blocks of records, several at a time: the same bytes in the same order, and nothing left.

mod common;

use std::fs;
use std::process::Command;

use common::{Scratch, Seen, fed, millstream, output};
use serde_json::Value;

fn net(line: &str, input: &[u8]) -> (Vec<u8>, Seen) {
    fed(millstream(["net", line]), input)
}

#[track_caller]
fn assert_writes(line: &str, input: &[u8], expected: &[u8]) {
    let (bytes, seen) = net(line, input);
    assert_eq!((seen.code, &*seen.stderr), (Some(0), ""), "{line}");
    assert!(bytes == expected, "{line}: {} bytes, not {}", bytes.len(), expected.len());
}

/// Lines of several lengths, a megabyte and a half of them.
fn lines() -> Vec<u8> {
    (0..130_000_u32).flat_map(|number| format!("{number} {}\n", "x".repeat(number as usize % 9)).into_bytes()).collect()
}

#[test]
fn results_come_in_the_order_of_the_stream() {
    let lines = lines();
    let upper = lines.to_ascii_uppercase();
    for copies in [1, 2, 5] {
        assert_writes(&format!("parallel {copies} block=64K exec tr a-z A-Z"), &lines, &upper);
    }
    // The first lines of a block say how long its command takes: the earlier ones take longer.
    let slow = "exec bash -c 'IFS= read -r line; sleep $(( ${line%% *} < 50000 )).1; echo \"$line\"; cat'";
    assert_writes(&format!("parallel 8 block=128K {slow} | upper"), &lines, &upper);
    // Without an end of the last line, and all in one block.
    assert_writes("parallel 3 exec cat", b"a\nb", b"a\nb");
    assert_writes("parallel 3 block=4K exec cat", &lines[..lines.len() - 1], &lines[..lines.len() - 1]);
}

#[test]
fn result_that_is_larger_than_its_block_is_put_out_whole() {
    let lines = lines();
    let expected: Vec<u8> = lines.split_inclusive(|byte| *byte == b'\n').flat_map(|line| [line; 9].concat()).collect();
    assert_writes("parallel 4 block=64K exec sed 'p;p;p;p;p;p;p;p'", &lines, &expected);
}

#[test]
fn copies_run_at_the_same_time_and_no_more_than_asked_for() {
    let scratch = Scratch::new();
    let input: String = (0..6).map(|number| format!("{number}{}\n", "x".repeat(4000))).collect();
    // A copy ends when as many as three have run beside it.
    let script = "n=$(cut -c 1); touch run.$n; ls run.* | wc -l >>most; \
                  until [ $(ls -d run.* done.* 2>/dev/null | wc -l) -ge 3 ]; do sleep 0.01; done; \
                  mv run.$n done.$n; echo $n";
    let line = format!("read '{}' | parallel 3 block=4K exec sh -c '{script}'", scratch.file("in", &input));
    let seen = output(millstream(["net", &line]).current_dir(scratch.path("")));
    assert_eq!((seen.code, &*seen.stdout), (Some(0), "0\n1\n2\n3\n4\n5\n"), "{seen:?}");
    let most = fs::read_to_string(scratch.path("most")).unwrap();
    assert!(most.lines().map(|line| line.trim().parse::<u32>().unwrap()).max() <= Some(3), "{most}");
}

#[test]
fn each_block_has_whole_records() {
    let (lines, nuls): (Vec<u8>, Vec<u8>) =
        (lines(), lines().iter().map(|byte| if *byte == b'\n' { 0 } else { *byte }).collect());
    assert_writes("parallel 2 records=nul block=8K exec tr '\\0' '\\n'", &nuls, &lines);
    assert_writes("parallel 2 records=lines block=8K exec tail -n +1", &lines, &lines);
    let reads: String = (0..9000)
        .map(|number| format!("@read{number}\n{}\n+\n@{}\n", "ACGT".repeat(number % 30), "!".repeat(4 * (number % 30))))
        .collect();
    // Each command refuses a block that does not begin with a record or does not end with one.
    let check = "parallel 3 records=fastq block=64K exec awk 'NR % 4 == 1 && !/^@read/ { exit 3 } { print } END { exit NR % 4 }'";
    assert_writes(check, reads.as_bytes(), reads.as_bytes());
    assert_writes(check, &reads.as_bytes()[..reads.len() - 1], reads.as_bytes());
    // 1000 numbers of four bytes do not end where 4096 bytes do.
    let numbers: Vec<u8> = (0..10_000_u32).flat_map(|number| [number; 3]).flat_map(u32::to_le_bytes).collect();
    let check = "parallel 3 records=12 block=4K exec python3 -c 'import sys; b = sys.stdin.buffer.read(); \
                 assert len(b) % 12 == 0 and b[0:4] == b[4:8] == b[8:12]; sys.stdout.buffer.write(b)'";
    assert_writes(check, &numbers, &numbers);
}

#[test]
fn records_that_are_none_are_refused_with_their_byte() {
    let long = [&b"short\n"[..], &[b'x'; 5000]].concat();
    for (stage, input, says) in [
        ("block=4K", &long[..], "at byte 6 of its input: a record is longer than 4096 bytes; say block= and more"),
        ("records=10", b"0123456789abc", "at byte 10 of its input: the stream ends 3 bytes into a record of 10"),
        (
            "records=fastq",
            b"@a\nAC\n+\n!!\n>b\n",
            "at byte 11 of its input: no FASTQ record of four lines: here should be a name",
        ),
        ("records=fastq", b"@a\nAC\n+\n!!\n@b\nAC\n", "at byte 11 of its input: the stream ends within a FASTQ record"),
    ] {
        let (_, seen) = net(&format!("parallel 2 {stage} exec cat"), input);
        assert!(seen.code == Some(1) && seen.stderr.contains(says), "{stage}: {seen:?}");
    }
}

#[test]
fn wrong_use_is_refused() {
    for (stage, says) in [
        ("parallel", "'exec COMMAND' is missing"),
        ("parallel 4 cat", "'exec COMMAND' is missing"),
        ("parallel 4 exec", "COMMAND is missing"),
        ("parallel exec cat", "N, how many copies run, is missing"),
        ("parallel 0 exec cat", "N is a number from 1 to 1024, not '0'"),
        ("parallel many exec cat", "N is a number from 1 to 1024, not 'many'"),
        ("parallel 2 3 exec cat", "'3' means nothing here"),
        ("parallel 2 record=nul exec cat", "'record=nul' means nothing here"),
        ("parallel 2 records=words exec cat", "records= is lines, nul, fastq or a number of bytes, not 'words'"),
        ("parallel 2 records=nul records=nul exec cat", "'records=' is said twice"),
        ("parallel 2 block=1K exec cat", "block= is a number of bytes from 4096"),
        ("parallel 2 block=4K records=8K exec cat", "a record of 8192 bytes does not fit into a block of 4096"),
    ] {
        let (_, seen) = net(stage, b"");
        assert!(seen.code == Some(2) && seen.stderr.contains(says), "{stage}: {seen:?}");
        assert!(seen.stderr.contains("it is used as: parallel N ["), "{stage}: {seen:?}");
    }
    let seen = output(&mut millstream(["net", "--memory", "8M", "parallel 16 exec cat"]));
    assert!(seen.code == Some(2) && seen.stderr.contains("give it more memory than 8388608 bytes"), "{seen:?}");
}

/// Processes that have this word among their arguments.
fn processes_with(word: &str) -> usize {
    let has_it = |entry: &fs::DirEntry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    };
    fs::read_dir("/proc").unwrap().flatten().filter(|entry| has_it(entry)).count()
}

#[test]
fn first_failure_ends_every_copy() {
    let scratch = Scratch::new();
    let word = format!("millstream-parallel-{}", std::process::id());
    // Lines of 4096 bytes, a block each; the first ones never end.
    let text: String = (0..100).map(|number| format!("{number:04095}\n")).collect();
    let (input, out) = (scratch.file("in", &text), scratch.file("out", "old"));
    let program = "import os, sys, time; n = int(sys.stdin.readline()); n == 2 or time.sleep(1000); \
                   print('oops', file=sys.stderr); END";
    for (end, says, status) in [
        (
            "sys.exit(4)",
            "at byte 8192 of its input: the command for the block that begins there ended with status 4; it said last: oops",
            "status",
        ),
        (
            "os.kill(os.getpid(), 11)",
            "at byte 8192 of its input: the command for the block that begins there was killed by signal 11",
            "signal",
        ),
    ] {
        let program = program.replace("END", end);
        let line = format!("read '{input}' | parallel 5 block=4K exec python3 -c \"{program}\" {word} | write '{out}'");
        let stats = scratch.path("stats");
        let seen = output(&mut millstream(["net", &line, "--stats=json", "--stats-file", stats.to_str().unwrap()]));
        let code = if status == "status" { 4 } else { 139 };
        assert!(seen.code == Some(code) && seen.stderr.contains(says), "{seen:?}");
        assert_eq!(processes_with(&word), 0);
        assert_eq!(fs::read_to_string(&out).unwrap(), "old");
        let stats: Value = serde_json::from_str(&fs::read_to_string(&stats).unwrap()).unwrap();
        let command = &stats["commands"][0];
        assert_eq!(command[status], if status == "status" { 4 } else { 11 }, "{stats}");
        assert!((3..=5).contains(&command["processes"].as_u64().unwrap()), "{stats}");
    }
    // The network fails elsewhere, in front and behind.
    let idle =
        format!("parallel 3 block=4K exec python3 -c 'import time; print(1, flush=True); time.sleep(1000)' {word}");
    for stages in [format!("error 40000 | {idle}"), format!("{idle} | error 0"), format!("{idle} | exec false")] {
        let seen = output(&mut millstream(["net", &format!("read '{input}' | {stages} | write '{out}'")]));
        assert_eq!(seen.code, Some(1), "{stages}: {seen:?}");
        assert!(!seen.stderr.contains("parallel 3"), "{stages}: {seen:?}");
        assert_eq!(processes_with(&word), 0, "{stages}");
    }
    for (command, status, says) in [
        (
            "millstream-nowhere",
            127,
            "at byte 0 of its input: cannot run 'millstream-nowhere': no directory in PATH has it",
        ),
        ("/etc/passwd", 126, "cannot run '/etc/passwd': permission denied; is it executable?"),
    ] {
        let seen =
            output(&mut millstream(["net", &format!("read '{input}' | parallel 2 exec {command} | write '{out}'")]));
        assert!(seen.code == Some(status) && seen.stderr.contains(says), "{command}: {seen:?}");
    }
}

#[test]
fn reader_that_wants_no_more_ends_every_copy() {
    let word = format!("millstream-enough-{}", std::process::id());
    let line =
        format!("read /dev/zero | parallel 3 records=1 exec sh -c 'head -c 10; sleep 0.0' {word} | head -c 15 | hex");
    let seen = output(&mut millstream(["net", &line]));
    assert_eq!((seen.code, &*seen.stdout, &*seen.stderr), (Some(0), "000000000000000000000000000000", ""));
    assert_eq!(processes_with(&word), 0);
    let script = format!("'{}' net 'read /dev/zero | parallel 2 records=1 exec od -v' | head -n 1", common::program());
    let seen = output(Command::new("bash").args(["-o", "pipefail", "-c", &script]));
    assert_eq!(seen.code, Some(0), "{seen:?}");
}

#[test]
fn empty_stream_starts_no_command() {
    let scratch = Scratch::new();
    let stats = scratch.path("stats");
    let seen = output(&mut millstream([
        "net",
        "parallel 2 exec wc -l",
        "--stats=json",
        "--stats-file",
        stats.to_str().unwrap(),
    ]));
    assert_eq!((seen.code, &*seen.stdout, &*seen.stderr), (Some(0), "", ""));
    let stats: Value = serde_json::from_str(&fs::read_to_string(&stats).unwrap()).unwrap();
    assert_eq!(
        (&stats["commands"][0]["processes"], &stats["commands"][0]["status"]),
        (&0.into(), &0.into()),
        "{stats}"
    );
}
