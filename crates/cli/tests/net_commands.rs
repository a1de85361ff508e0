//! `millstream net` with commands of several inputs and outputs: the bytes, the failures, and what is left.

mod common;

use std::fs;
use std::process::Command;

use common::{Scratch, Seen, fed, millstream, output};
use serde_json::Value;

/// Runs a network in the scratch directory.
fn net(scratch: &Scratch, toml: &str, options: &[&str]) -> Seen {
    let file = scratch.file("net.toml", toml);
    let mut command = millstream([&["net", "run", &file], options].concat());
    output(command.current_dir(scratch.path("")))
}

fn assert_well(seen: &Seen) {
    assert_eq!((seen.code, &*seen.stdout, &*seen.stderr), (Some(0), "", ""));
}

/// What a shell writes in the scratch directory.
fn shell(scratch: &Scratch, script: &str) -> Vec<u8> {
    let mut command = Command::new("bash");
    command.args(["-c", script]).current_dir(scratch.path(""));
    let (bytes, seen) = fed(command, b"");
    assert_eq!((seen.code, &*seen.stderr), (Some(0), ""), "{script}");
    bytes
}

#[track_caller]
fn assert_file(scratch: &Scratch, name: &str, script: &str) {
    let (ours, theirs) = (fs::read(scratch.path(name)).unwrap(), shell(scratch, script));
    assert!(ours == theirs, "{name}: {} bytes, and of {script}: {}", ours.len(), theirs.len());
}

/// Two files of some megabytes, more than the buffers on their way hold.
fn numbers(scratch: &Scratch) {
    shell(scratch, "seq 1 300000 >one; seq 300001 600000 >two; gzip -k two");
}

/// Nodes that read the two files.
const SOURCES: &str = "[nodes.one]\nread = 'one'\n[nodes.two]\nread = 'two'\n";

/// Names of what the directory has.
fn names(scratch: &Scratch) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(scratch.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Processes that have this word among their arguments.
fn processes_with(word: &str) -> usize {
    let has_it = |entry: &fs::DirEntry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    };
    fs::read_dir("/proc").unwrap().flatten().filter(|entry| has_it(entry)).count()
}

/// A command that neither reads, writes nor ends, with a word to find it by.
fn idle(word: &str, names: &str) -> String {
    format!("exec python3 -c 'import time; time.sleep(1000)' {word} {names}")
}

#[test]
fn command_reads_its_named_inputs_and_its_standard_input() {
    let scratch = Scratch::new();
    numbers(&scratch);
    let toml = format!(
        "{SOURCES}[nodes.packed]\nread = 'two.gz'\n[nodes.plain]\nfrom = 'packed'\ndo = 'gunzip'\n\
         [nodes.both]\nfrom = 'one'\ninputs.more = 'plain'\ninputs.again = 'two'\ndo = 'exec paste - {{more}} {{again}}'\n\
         [nodes.out]\nfrom = 'both'\nwrite = 'out'\n"
    );
    assert_well(&net(&scratch, &toml, &[]));
    assert_file(&scratch, "out", "paste one two two");
    // A name is replaced within a word too, and other braces are text.
    let toml = format!(
        "{SOURCES}[nodes.both]\ninputs.a = 'one'\ninputs.b = ['two', 'more']\n\
         do = \"exec sh -c '{{ cat ${{1#--in=}} && echo $3; }} && tail -n 1 $2' sh --in={{a}} {{b}} {{{{a}}}}{{}}\"\n\
         [nodes.more]\nread = 'one'\n[nodes.out]\nfrom = 'both'\nwrite = 'out'\n"
    );
    assert_well(&net(&scratch, &toml, &[]));
    assert_file(&scratch, "out", "cat one; echo '{a}{}'; tail -n 1 one");
}

#[test]
fn command_reads_its_inputs_in_any_order() {
    let scratch = Scratch::new();
    numbers(&scratch);
    for (order, same) in [("{a} {b}", "cat one two"), ("{b} {a}", "cat two one")] {
        let toml = format!(
            "{SOURCES}[nodes.both]\ninputs.a = 'one'\ninputs.b = 'two'\ndo = 'exec cat {order}'\n\
             [nodes.out]\nfrom = 'both'\nwrite = 'out'\n"
        );
        for threads in ["1", "4"] {
            assert_well(&net(&scratch, &toml, &["--threads", threads]));
            assert_file(&scratch, "out", same);
        }
    }
}

#[test]
fn command_writes_its_named_outputs_and_its_standard_output() {
    let scratch = Scratch::new();
    numbers(&scratch);
    let toml = "[nodes.one]\nread = 'one'\n\
                [nodes.parts]\nfrom = 'one'\noutputs = ['odd', 'even']\n\
                do = '''exec awk '{ print > ($1 % 2 ? A : B); print $1 * 3 }' A={odd} B={even} -'''\n\
                [nodes.odd]\nfrom = 'parts.odd'\nwrite = 'odd'\n\
                [nodes.even]\nfrom = 'parts.even'\ndo = 'gzip'\n\
                [nodes.even-file]\nfrom = 'even'\nwrite = 'even.gz'\n\
                [nodes.tripled]\nfrom = 'parts'\ndo = 'sha256 tripled.sum'\n\
                [nodes.tripled-file]\nfrom = 'tripled'\nwrite = 'tripled'\n\
                [nodes.both]\nfrom = 'parts.odd'\nwrite = 'odd-too'\n";
    assert_well(&net(&scratch, toml, &[]));
    assert_file(&scratch, "odd", "awk '$1 % 2' one");
    assert_file(&scratch, "odd-too", "awk '$1 % 2' one");
    assert_file(&scratch, "tripled", "awk '{ print $1 * 3 }' one");
    assert_file(&scratch, "tripled.sum", "awk '{ print $1 * 3 }' one | sha256sum | cut -d ' ' -f 1");
    assert_eq!(shell(&scratch, "zcat even.gz"), shell(&scratch, "awk '!($1 % 2)' one"));
    let expected = ["even.gz", "net.toml", "odd", "odd-too", "one", "tripled", "tripled.sum", "two", "two.gz"];
    assert_eq!(names(&scratch), expected);
}

#[test]
fn standard_output_that_no_node_takes_is_told_on_stderr() {
    let scratch = Scratch::new();
    scratch.file("one", "1\n2\n");
    let toml = "[nodes.one]\nread = 'one'\n[nodes.copy]\nfrom = 'one'\noutputs = ['to']\n\
                do = \"exec sh -c 'cat >$1; echo done' sh {to}\"\n[nodes.out]\nfrom = 'copy.to'\nwrite = '-'\n";
    let seen = net(&scratch, toml, &[]);
    assert_eq!((seen.code, &*seen.stdout, &*seen.stderr), (Some(0), "1\n2\n", "done\n"));
}

#[test]
fn graph_that_could_wait_for_itself_goes_through_temporary_files() {
    let scratch = Scratch::new();
    numbers(&scratch);
    let spool = scratch.path("spool");
    fs::create_dir(&spool).unwrap();
    let run = |toml: &str, directory: &str| {
        let file = scratch.file("net.toml", toml);
        output(millstream(["net", "run", &file]).current_dir(scratch.path("")).env("TMPDIR", scratch.path(directory)))
    };
    // One source, two ways: whichever is read first, the other one is full before the first has ended.
    for (order, same) in [("{x} {y}", "cat one; rev one"), ("{y} {x}", "rev one; cat one")] {
        let toml = format!(
            "[nodes.one]\nread = 'one'\n[nodes.turned]\nfrom = 'one'\ndo = 'exec rev'\n\
             [nodes.both]\ninputs.x = 'one'\ninputs.y = 'turned'\ndo = 'exec cat {order}'\n\
             [nodes.out]\nfrom = 'both'\nwrite = 'out'\n"
        );
        assert_well(&run(&toml, "spool"));
        assert_file(&scratch, "out", same);
        let file = scratch.file("net.toml", &toml);
        let seen = output(&mut millstream(["net", "explain", &file]));
        assert_eq!(seen.stdout.matches("through a temporary file").count(), 2, "{seen:?}");
        let seen = run(&toml, "missing");
        assert!(seen.code == Some(1) && seen.stderr.contains("cannot write the temporary file for 'both."), "{seen:?}");
    }
    // Two commands that want the same two sources in different orders.
    let toml = format!(
        "{SOURCES}[nodes.c]\ninputs.a = 'one'\ninputs.b = 'two'\ndo = 'exec cat {{a}} {{b}}'\n\
         [nodes.d]\ninputs.a = 'one'\ninputs.b = 'two'\ndo = 'exec cat {{b}} {{a}}'\n\
         [nodes.c-out]\nfrom = 'c'\nwrite = 'c'\n[nodes.d-out]\nfrom = 'd'\nwrite = 'd'\n"
    );
    assert_well(&run(&toml, "spool"));
    assert_file(&scratch, "c", "cat one two");
    assert_file(&scratch, "d", "cat two one");
    // One command writes what another reads the other way round, and its standard input is one of the ways.
    let toml = "[nodes.one]\nread = 'one'\n[nodes.parts]\nfrom = 'one'\noutputs = ['first', 'second']\n\
                do = \"exec sh -c 'tee $1 >copy; cat copy >$2; rm copy' sh {first} {second}\"\n\
                [nodes.both]\nfrom = 'parts.first'\ninputs.rest = 'parts.second'\ndo = 'exec cat {rest} -'\n\
                [nodes.out]\nfrom = 'both'\nwrite = 'out'\n";
    assert_well(&run(toml, "spool"));
    assert_file(&scratch, "out", "cat one one");
    assert_eq!(fs::read_dir(&spool).unwrap().count(), 0);
}

#[test]
fn graph_that_must_wait_for_itself_is_refused() {
    let scratch = Scratch::new();
    scratch.file("one", "1\n");
    for (nodes, says) in [
        (
            "[nodes.x]\ninputs.i = 'y.o'\nfrom = 'one'\ndo = 'exec cat {i} -'\n\
             [nodes.y]\nfrom = 'x'\noutputs = ['o']\ndo = 'exec tee {o}'\n[nodes.out]\nfrom = 'y'\nwrite = 'out'\n",
            "these nodes go round in a circle: x, y, out",
        ),
        (
            "[nodes.x]\nfrom = 'one'\noutputs = ['o']\ndo = 'exec tee {o}'\n\
             [nodes.out]\nfrom = ['x.o', 'x']\nwrite = 'out'\n",
            "two ways lead from 'one' to 'out': the second would have to be kept in memory until the first has ended",
        ),
    ] {
        let seen = net(&scratch, &format!("[nodes.one]\nread = 'one'\n{nodes}"), &[]);
        assert!(seen.code == Some(2) && seen.stderr.contains(says), "{nodes}: {seen:?}");
    }
    assert_eq!(names(&scratch), ["net.toml", "one"]);
}

#[test]
fn wrong_names_are_refused_before_a_byte_moves() {
    let scratch = Scratch::new();
    scratch.file("one", "1\n");
    scratch.file("out", "old");
    for (node, says) in [
        ("inputs.a = 'one'\ndo = 'exec cat {b}'", "'x': '{b}' names no input or output; it has 'a'; write {{b}} if"),
        ("inputs.a = 'one'\ndo = 'exec cat'", "'x': the command has no use for 'a'; write {a} where it takes the path"),
        ("from = 'one'\noutputs = ['o']\ndo = 'exec cat'", "'x': the command has no use for 'o'"),
        ("inputs.a = 'one'\ndo = 'gzip {a}'", "level is written as -6, not '{a}'"),
        (
            "inputs.a = 'one'\ndo = 'gzip'",
            "'x': 'gzip' cannot have 'inputs' and 'outputs'; a command that 'exec' runs can",
        ),
        ("inputs.a = 'one'\ndo = 'parallel 2 exec cat {a}'", "'parallel' cannot have 'inputs' and 'outputs'"),
        ("inputs.a = 'one'\ndo = 'gunzip | exec cat {a}'", "only one command can have 'inputs' and 'outputs'"),
        ("inputs.a = []\nfrom = 'one'\ndo = 'exec cat {a}'", "nothing goes into 'x.a'"),
        ("inputs.a = 'two'\ndo = 'exec cat {a}'", "there is no node 'two' that it could come from"),
    ] {
        let toml = format!("[nodes.one]\nread = 'one'\n[nodes.x]\n{node}\n[nodes.out]\nfrom = 'x'\nwrite = 'out'\n");
        let seen = net(&scratch, &toml, &[]);
        assert!(seen.code == Some(2) && seen.stderr.contains(says), "{node}: {seen:?}");
        assert_eq!(fs::read_to_string(scratch.path("out")).unwrap(), "old");
    }
    let toml = "[nodes.one]\nread = 'one'\n[nodes.x]\nfrom = 'one'\noutputs = ['o']\ndo = 'exec tee {o}'\n\
                [nodes.out]\nfrom = 'x'\nwrite = 'out'\n";
    let seen = net(&scratch, toml, &[]);
    assert!(seen.code == Some(2) && seen.stderr.contains("what comes out of 'x.o' goes nowhere"), "{seen:?}");
}

#[test]
fn first_failure_ends_all_commands_and_is_told() {
    let scratch = Scratch::new();
    numbers(&scratch);
    scratch.file("out", "old");
    let word = format!("millstream-named-{}", std::process::id());
    let other = idle(&word, "{a} {b} {o}");
    for (fails, status, says) in [
        ("exec sh -c 'read line; echo oops >&2; exit 3'", 3, "exec sh -c 'read line; echo oops >&2; exit 3': at byte"),
        ("exec sh -c 'read line; echo oops >&2; exit 3'", 3, "the command ended with status 3; it said last: oops"),
        ("exec sh -c 'read line; kill -9 $$'", 137, "the command was killed by signal 9 (SIGKILL)"),
        ("exec millstream-nowhere", 127, "cannot run 'millstream-nowhere': no directory in PATH has it"),
        ("exec ./net.toml", 126, "cannot run './net.toml': permission denied; is it executable?"),
        ("error 100", 1, "error 100: at byte 100 of its input"),
        ("gunzip", 1, "gunzip: at byte"),
    ] {
        // The idle command never reads: both sources wait for it when the other one, which gets each piece first, fails.
        let toml = format!(
            "{SOURCES}[nodes.fails]\nfrom = 'two'\ndo = \"{fails}\"\n\
             [nodes.idle]\ninputs.a = 'one'\ninputs.b = 'two'\noutputs = ['o']\ndo = \"{other}\"\n\
             [nodes.o]\nfrom = 'idle.o'\nwrite = 'out'\n[nodes.p]\nfrom = 'fails'\nwrite = 'new'\n"
        );
        let seen = net(&scratch, &toml, &[]);
        assert_eq!(seen.code, Some(status), "{fails}: {seen:?}");
        let last = seen.stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with("millstream: ") && last.contains(says), "{fails}: {seen:?}");
        assert_eq!(processes_with(&word), 0, "{fails}");
        assert_eq!(fs::read_to_string(scratch.path("out")).unwrap(), "old", "{fails}");
        assert_eq!(names(&scratch), ["net.toml", "one", "out", "two", "two.gz"], "{fails}");
    }
    // A command with names is told with that of its node.
    let toml = format!(
        "{SOURCES}[nodes.pair]\ninputs.a = 'one'\ninputs.b = 'two'\ndo = \"exec sh -c 'cat $1 $2; exit 5' sh {{a}} {{b}}\"\n\
         [nodes.out]\nfrom = 'pair'\nwrite = 'out'\n"
    );
    let seen = net(&scratch, &toml, &[]);
    let bytes = fs::metadata(scratch.path("one")).unwrap().len() + fs::metadata(scratch.path("two")).unwrap().len();
    let says = format!(
        "millstream: pair: exec sh -c 'cat $1 $2; exit 5' sh {{a}} {{b}}: at byte {bytes} of its input: the command ended with status 5\n"
    );
    assert_eq!((seen.code, &*seen.stderr), (Some(5), &*says));
}

#[test]
fn commands_in_branches_of_a_split_end_with_the_one_that_fails() {
    let scratch = Scratch::new();
    let word = format!("millstream-branch-{}", std::process::id());
    let toml = format!(
        "[nodes.in]\nread = '/dev/zero'\n[nodes.idle]\nfrom = 'in'\ndo = \"{}\"\n\
         [nodes.fails]\nfrom = 'in'\ndo = \"exec sh -c 'sleep 0.2; exit 7'\"\n\
         [nodes.o]\nfrom = 'idle'\nwrite = 'o'\n[nodes.p]\nfrom = 'fails'\nwrite = 'p'\n",
        idle(&word, "")
    );
    let seen = net(&scratch, &toml, &[]);
    assert!(seen.code == Some(7) && seen.stderr.contains("the command ended with status 7"), "{seen:?}");
    assert_eq!(processes_with(&word), 0);
    assert_eq!(names(&scratch), ["net.toml"]);
}

#[test]
fn unreadable_input_file_is_told_before_commands_start() {
    let scratch = Scratch::new();
    scratch.file("one", "1\n");
    scratch.file("secret", "2\n");
    common::set_mode(&scratch.path("secret"), 0o600);
    common::set_mode(&scratch.path(""), 0o777);
    let toml = |file: &str| {
        format!(
            "[nodes.one]\nread = 'one'\n[nodes.two]\nread = '{file}'\n[nodes.x]\ninputs.a = 'one'\ninputs.b = 'two'\n\
             do = \"exec sh -c 'touch started; cat $1 $2' sh {{a}} {{b}}\"\n[nodes.out]\nfrom = 'x'\nwrite = 'out'\n"
        )
    };
    let seen = net(&scratch, &toml("nowhere"), &[]);
    assert!(seen.code == Some(1) && seen.stderr.contains("cannot read 'nowhere'"), "{seen:?}");
    let file = scratch.file("net.toml", &toml("secret"));
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "64133", "--regid", "64133", "--clear-groups"]).arg(scratch.installed());
    let seen = output(command.args(["net", "run", &file]).current_dir(scratch.path("")));
    assert!(seen.code == Some(1) && seen.stderr.contains("cannot read 'secret'"), "{seen:?}");
    assert!(seen.stderr.contains("Permission denied"), "{seen:?}");
    assert!(!scratch.path("started").exists() && !scratch.path("out").exists());
}

#[test]
fn input_that_is_wanted_no_more_does_not_keep_the_others() {
    let scratch = Scratch::new();
    numbers(&scratch);
    // The first has no end; the command closes it and goes on with the second.
    let toml = "[nodes.zero]\nread = '/dev/zero'\n[nodes.two]\nread = 'two'\n\
                [nodes.x]\nfrom = 'zero'\ninputs.b = 'two'\ndo = \"exec sh -c 'head -c 4 | od -A n -t x1; exec <&-; cat $1' sh {b}\"\n\
                [nodes.out]\nfrom = 'x'\nwrite = 'out'\n";
    assert_well(&net(&scratch, toml, &[]));
    assert_file(&scratch, "out", "head -c 4 /dev/zero | od -A n -t x1; cat two");
}

#[test]
fn output_that_is_wanted_no_more_does_not_cut_the_others() {
    let scratch = Scratch::new();
    numbers(&scratch);
    for head in ["parts", "parts.copy"] {
        let other = if head == "parts" { "parts.copy" } else { "parts" };
        let toml = format!(
            "[nodes.one]\nread = 'one'\n[nodes.parts]\nfrom = 'one'\noutputs = ['copy']\ndo = 'exec tee {{copy}}'\n\
             [nodes.head]\nfrom = '{head}'\ndo = 'head -n 1'\n[nodes.h]\nfrom = 'head'\nwrite = 'head'\n\
             [nodes.o]\nfrom = '{other}'\nwrite = 'out'\n"
        );
        assert_well(&net(&scratch, &toml, &[]));
        assert_file(&scratch, "head", "head -n 1 one");
        assert_file(&scratch, "out", "cat one");
    }
    // When nothing is wanted any more an endless command ends.
    let toml = "[nodes.one]\nread = 'one'\n[nodes.parts]\nfrom = 'one'\noutputs = ['copy']\ndo = 'exec sh -c \"yes | tee $1\" sh {copy}'\n\
                [nodes.head]\nfrom = 'parts'\ndo = 'head -n 1'\n[nodes.h]\nfrom = 'head'\nwrite = 'head'\n\
                [nodes.too]\nfrom = 'parts.copy'\ndo = 'head -n 2'\n[nodes.o]\nfrom = 'too'\nwrite = 'out'\n";
    assert_well(&net(&scratch, toml, &[]));
    assert_file(&scratch, "out", "yes | head -n 2");
}

#[test]
fn merge_keeps_its_order_though_a_later_command_writes_first() {
    let scratch = Scratch::new();
    numbers(&scratch);
    let toml = format!(
        "{SOURCES}[nodes.first]\nfrom = 'one'\ndo = \"exec sh -c 'sleep 0.3; cat'\"\n\
         [nodes.second]\nfrom = 'two'\ndo = \"exec sh -c 'echo early; cat'\"\n\
         [nodes.out]\nfrom = ['first', 'second']\nwrite = 'out'\n"
    );
    assert_well(&net(&scratch, &toml, &[]));
    assert_file(&scratch, "out", "cat one; echo early; cat two");
}

#[test]
fn only_its_command_inherits_a_named_end() {
    let scratch = Scratch::new();
    scratch.file("one", "1\n");
    // Each command lists what it has inherited beside the three usual ones.
    let list = "import os\nnumbers = map(int, os.listdir('/proc/self/fd'))\n\
                print(*sorted(n for n in numbers if n > 2 and os.path.exists(f'/dev/fd/{n}')))\n";
    let script = scratch.file("list.py", list);
    let toml = format!(
        "[nodes.one]\nread = 'one'\n[nodes.two]\nread = 'one'\n\
         [nodes.x]\ninputs.a = 'one'\ninputs.b = 'two'\ndo = 'exec python3 {script} {{a}} {{b}}'\n\
         [nodes.y]\nfrom = 'one'\ndo = 'exec python3 {script}'\n\
         [nodes.o]\nfrom = 'x'\nwrite = 'x'\n[nodes.p]\nfrom = 'y'\nwrite = 'y'\n"
    );
    assert_well(&net(&scratch, &toml, &[]));
    // What this test itself was started with, every program has.
    let usual = output(Command::new("python3").arg(&script)).stdout;
    assert_eq!(fs::read_to_string(scratch.path("y")).unwrap(), usual);
    let own = fs::read_to_string(scratch.path("x")).unwrap();
    let own: Vec<&str> =
        own.split_whitespace().filter(|number| !usual.split_whitespace().any(|other| other == *number)).collect();
    assert_eq!(own.len(), 2, "{own:?}, beside {usual}");
}

fn statistics(scratch: &Scratch) -> Value {
    serde_json::from_str(&fs::read_to_string(scratch.path("stats")).unwrap()).unwrap()
}

#[test]
fn statistics_tell_status_time_and_bytes_of_each_command() {
    let scratch = Scratch::new();
    numbers(&scratch);
    let toml = |status: u8| {
        format!(
            "{SOURCES}[nodes.pair]\ninputs.a = 'one'\ninputs.b = 'two'\noutputs = ['o']\n\
             do = \"exec sh -c 'cat $1; cat $2 >$3; exit {status}' sh {{a}} {{b}} {{o}}\"\n\
             [nodes.up]\nfrom = 'pair'\ndo = 'exec tr 0-9 a-j'\n\
             [nodes.o]\nfrom = 'pair.o'\nwrite = 'o'\n[nodes.p]\nfrom = 'up'\nwrite = 'p'\n"
        )
    };
    let options = ["--stats=json", "--stats-file", "stats"];
    assert_well(&net(&scratch, &toml(0), &options));
    let stats = statistics(&scratch);
    let [one, two] = ["one", "two"].map(|name| fs::metadata(scratch.path(name)).unwrap().len());
    let commands = stats["commands"].as_array().unwrap();
    assert_eq!(commands.len(), 2, "{stats}");
    for (command, name, bytes_in, bytes_out) in
        [(&commands[0], "pair", one + two, one + two), (&commands[1], "up", one, one)]
    {
        assert_eq!(command["name"], name, "{stats}");
        assert_eq!((&command["status"], &command["signal"]), (&Value::from(0), &Value::Null), "{stats}");
        assert_eq!((&command["is_started"], &command["is_stopped"]), (&Value::from(true), &Value::from(false)));
        assert_eq!((command["bytes_in"].as_u64(), command["bytes_out"].as_u64()), (Some(bytes_in), Some(bytes_out)));
        let wall = command["wall_nanoseconds"].as_u64().unwrap();
        assert!(wall > 0 && wall <= stats["wall_nanoseconds"].as_u64().unwrap(), "{stats}");
    }
    assert_eq!(stats["error"], Value::Null);
    let seen = net(&scratch, &toml(0), &["--stats"]);
    assert!(seen.code == Some(0) && seen.stderr.contains("pair: input a"), "{seen:?}");
    let mut lines = seen.stderr.lines().skip_while(|line| !line.starts_with("command"));
    assert!(lines.next().unwrap().ends_with("out"), "{seen:?}");
    let row: Vec<&str> = lines.next().unwrap().split_whitespace().rev().take(4).collect();
    assert_eq!((row[0], row[1], row[3]), (&*(one + two).to_string(), &*(one + two).to_string(), "0"), "{seen:?}");
    // A failure does not take the statistics away.
    let seen = net(&scratch, &toml(9), &options);
    assert_eq!(seen.code, Some(9), "{seen:?}");
    let stats = statistics(&scratch);
    assert_eq!(stats["commands"][0]["status"], 9, "{stats}");
    assert!(stats["error"].as_str().unwrap().ends_with("the command ended with status 9"), "{stats}");
    let seen = net(&scratch, &toml(0), &["--stats-file", "/nowhere/stats"]);
    assert!(
        seen.code == Some(2) && seen.stderr.contains("cannot write the statistics to '/nowhere/stats'"),
        "{seen:?}"
    );
}

#[test]
fn statistics_tell_which_command_failed_and_which_was_stopped() {
    let scratch = Scratch::new();
    numbers(&scratch);
    let word = format!("millstream-stopped-{}", std::process::id());
    let toml = format!(
        "{SOURCES}[nodes.idle]\nfrom = 'one'\ndo = \"{}\"\n[nodes.dies]\nfrom = 'two'\ndo = \"exec sh -c 'kill -TERM $$'\"\n\
         [nodes.pair]\ninputs.a = 'idle'\ninputs.b = 'dies'\ndo = 'exec cat {{a}} {{b}}'\n[nodes.o]\nfrom = 'pair'\nwrite = 'o'\n",
        idle(&word, "")
    );
    let seen = net(&scratch, &toml, &["--stats=json", "--stats-file", "stats"]);
    assert!(seen.code == Some(143) && seen.stderr.contains("killed by signal 15 (SIGTERM)"), "{seen:?}");
    let stats = statistics(&scratch);
    let seen: Vec<(&Value, &Value, &Value)> = stats["commands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|command| (&command["name"], &command["signal"], &command["is_stopped"]))
        .collect();
    assert_eq!(seen[0], (&Value::from("idle"), &Value::from(9), &Value::from(true)), "{stats}");
    assert_eq!(seen[1], (&Value::from("dies"), &Value::from(15), &Value::from(false)), "{stats}");
    assert_eq!(seen[2], (&Value::from("pair"), &Value::from(9), &Value::from(true)), "{stats}");
}

#[test]
fn network_with_named_ends_is_tested_and_printed_back() {
    let scratch = Scratch::new();
    let toml = "[nodes.a]\nread = 'a'\n[nodes.b]\nread = 'b'\n\
                [nodes.both]\ninputs.x = 'a'\ninputs.y = 'b'\noutputs = ['z']\ndo = \"exec sh -c 'paste $1 $2 | tee $3' sh {x} {y} {z}\"\n\
                [nodes.o]\nfrom = 'both'\nwrite = 'o'\n[nodes.p]\nfrom = 'both.z'\nwrite = 'p'\n\
                [[test]]\nname = 'side by side'\ninput.a = \"1\\n2\\n\"\ninput.b = \"3\\n\"\noutput.o = \"1\\t3\\n2\\t\\n\"\noutput.p = \"1\\t3\\n2\\t\\n\"\n";
    let file = scratch.file("net.toml", toml);
    let seen = output(millstream(["net", "test", &file]).current_dir(scratch.path("")));
    assert_eq!((seen.code, &*seen.stdout), (Some(0), "ok      side by side\n"), "{seen:?}");
    assert_eq!(names(&scratch), ["net.toml"]);
    let seen = output(&mut millstream(["net", "check", &file]));
    assert!(seen.stdout.contains("inputs.\"x\" = \"a\"\n") && seen.stdout.contains("outputs = [\"z\"]\n"), "{seen:?}");
    let again = scratch.file("again.toml", &seen.stdout);
    assert_eq!(output(&mut millstream(["net", "check", &again])).stdout, seen.stdout);
}
