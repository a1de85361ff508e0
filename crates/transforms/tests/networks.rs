//! Networks as a whole: what is refused before a byte moves, splits and merges, early ends, and what is left after a failure.

use std::fs;
use std::path::PathBuf;

use millstream_net::{Network, Options, Placement, Plan, check, explain, run};
use millstream_transforms::ALL;

/// A directory that is removed when the value is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("millstream-networks-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().into()
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().into()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn run_line(line: &str) -> Result<(), String> {
    let network = Network::from_line(line).map_err(|error| error.to_string())?;
    run::run(&network, ALL, &Options::default()).map(|_| ()).map_err(|failure| failure.to_string())
}

fn run_toml(text: &str) -> Result<(), String> {
    let network = Network::from_toml(text).map_err(|error| error.to_string())?;
    run::run(&network, ALL, &Options::default()).map(|_| ()).map_err(|failure| failure.to_string())
}

fn unfit(text: &str) -> String {
    let network = Network::from_toml(text).unwrap();
    check::check(&network, ALL).unwrap_err().to_string()
}

#[test]
fn impossible_network_is_refused_before_a_byte_moves() {
    for (text, error) in [
        ("[nodes.a]\nread = 'x'", "what comes out of 'a' goes nowhere"),
        ("[nodes.a]\nwrite = 'x'", "nothing goes into 'a'"),
        (
            "[nodes.a]\nread = 'x'\n[nodes.b]\nfrom = 'a'\nread = 'y'\n[nodes.c]\nfrom = 'b'\nwrite = 'z'",
            "'b' reads a file, and cannot",
        ),
        (
            "[nodes.a]\nread = 'x'\n[nodes.b]\nfrom = 'a'\nwrite = 'y'\n[nodes.c]\nfrom = 'b'\nwrite = 'z'",
            "'b' writes a file, and nothing",
        ),
        (
            "[nodes.a]\nread = 'x'\n[nodes.b]\nfrom = 'a'\ndo = 'gzipp'\n[nodes.c]\nfrom = 'b'\nwrite = 'z'",
            "there is no transform 'gzipp' (did you mean 'gzip'?)",
        ),
        (
            "[nodes.a]\nread = 'x'\n[nodes.b]\nfrom = 'a'\ndo = 'zstd'\n[nodes.c]\nfrom = 'b'\ndo = 'gunzip'\n[nodes.d]\nfrom = 'c'\nwrite = 'z'",
            "between 'b' and 'c': 'b' gives the format zstd, and 'c' takes the format gzip",
        ),
        (
            "[nodes.a]\nread = 'x'\n[nodes.b]\nfrom = 'a'\ndo = 'gzip | grep x'\n[nodes.d]\nfrom = 'b'\nwrite = 'z'",
            "between 'b/1' and 'b': 'b/1' gives the format gzip, and 'b' takes lines of text",
        ),
        (
            "[nodes.a]\nread = 'x'\n[nodes.b]\nfrom = 'a'\nwrite = 'z'\n[nodes.c]\nfrom = 'a'\nwrite = './z'",
            "'./z' is written twice",
        ),
        (
            "[nodes.a]\nread = '-'\n[nodes.b]\nread = '-'\n[nodes.c]\nfrom = ['a', 'b']\nwrite = 'z'",
            "the standard input is read twice",
        ),
        (
            "[nodes.a]\nread = 'x'\n[nodes.b]\nfrom = 'a'\nwrite = '-'\n[nodes.c]\nfrom = 'a'\nwrite = '-'",
            "the standard output is written twice",
        ),
        (
            "[nodes.a]\nread = 'x'\n[nodes.b]\nfrom = 'a'\nappend = 'x'",
            "' would be read and appended to, and never end",
        ),
        (
            "[nodes.a]\nread = 'x'\n[nodes.b]\nfrom = 'a'\ndo = 'upper'\n[nodes.c]\nfrom = ['a', 'b']\nwrite = 'z'",
            "two ways lead from 'a' to 'c': the second would have to be kept in memory",
        ),
        (
            "[nodes.a]\nread = 'x'\n[nodes.b]\nread = 'y'\n[nodes.c]\nfrom = ['a', 'b']\nwrite = 'z'\n[nodes.d]\nfrom = ['b', 'a']\nwrite = 'w'",
            "two merges want the same sources in different orders",
        ),
    ] {
        let found = unfit(text);
        assert!(found.contains(error), "{text}\n{found}");
    }
}

#[test]
fn a_split_gives_each_branch_the_whole_stream() {
    let scratch = Scratch::new("split");
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let input = scratch.file("in", &content);
    let [plain, changed, packed] = ["plain", "changed", "packed"].map(|name| scratch.path(name));
    run_toml(&format!(
        "[nodes.in]\nread = '{input}'\n[nodes.a]\nfrom = 'in'\ndo = 'increment'\n[nodes.b]\nfrom = 'a'\nwrite = '{changed}'\n\
         [nodes.c]\nfrom = 'in'\ndo = 'gzip -1'\n[nodes.d]\nfrom = 'c'\nwrite = '{packed}'\n[nodes.e]\nfrom = 'in'\nwrite = '{plain}'"
    ))
    .unwrap();
    assert!(fs::read(plain).unwrap() == content);
    assert!(fs::read(changed).unwrap().iter().zip(&content).all(|(to, from)| *to == from.wrapping_add(1)));
    let back = scratch.path("back");
    run_line(&format!("read '{packed}' | gunzip | write '{back}'")).unwrap();
    assert!(fs::read(back).unwrap() == content);
}

#[test]
fn a_merge_has_one_input_after_the_other() {
    let scratch = Scratch::new("merge");
    let (first, second, out) = (scratch.file("1", "first\n"), scratch.file("2", "second\n"), scratch.path("out"));
    // In the order that the merge names, which is not that of the file.
    run_toml(&format!(
        "[nodes.b]\nread = '{second}'\n[nodes.a]\nread = '{first}'\n[nodes.u]\nfrom = 'a'\ndo = 'upper | gzip | gunzip'\n\
         [nodes.m]\nfrom = ['u', 'b']\ndo = 'count'\n[nodes.o]\nfrom = ['u', 'b']\nwrite = '{out}'\n[nodes.n]\nfrom = 'm'\nwrite = '{out}.count'"
    ))
    .unwrap();
    assert_eq!(fs::read_to_string(&out).unwrap(), "FIRST\nsecond\n");
    assert_eq!(fs::read_to_string(format!("{out}.count")).unwrap(), "2 2 13\n");
}

#[test]
fn output_that_has_enough_stops_only_its_source() {
    let scratch = Scratch::new("enough");
    let (first, all) = (scratch.path("first"), scratch.path("all"));
    let text: String = (0..100_000).map(|number| format!("{number}\n")).collect();
    let input = scratch.file("in", &text);
    run_toml(&format!(
        "[nodes.in]\nread = '{input}'\n[nodes.a]\nfrom = 'in'\ndo = 'head -n 2 | gzip'\n[nodes.b]\nfrom = 'a'\nwrite = '{first}'\n\
         [nodes.c]\nfrom = 'in'\nwrite = '{all}'"
    ))
    .unwrap();
    assert_eq!(fs::read_to_string(all).unwrap(), text);
    run_line(&format!("read '{first}' | gunzip | write '{first}.txt'")).unwrap();
    assert_eq!(fs::read_to_string(format!("{first}.txt")).unwrap(), "0\n1\n");
    // An endless source ends.
    run_line(&format!("read /dev/zero | head -c 1000000 | hex | write '{first}'")).unwrap();
    assert_eq!(fs::metadata(first).unwrap().len(), 2_000_000);
}

#[test]
fn after_a_failure_files_are_as_they_were() {
    let scratch = Scratch::new("failure");
    let (input, old) = (scratch.file("in", vec![b'x'; 3_000_000]), scratch.file("old", "old"));
    for line in [
        format!("read '{input}' | error 2000000 | write '{old}'"),
        format!("read '{input}' | gzip -1 | error 1 | gunzip | write '{old}'"),
        format!("read '{input}' | gunzip | write '{old}'"),
        format!("read '{input}.missing' | write '{old}'"),
        format!("read '{input}' | sha256 ={} | write '{old}'", "0".repeat(64)),
    ] {
        run_line(&line).unwrap_err();
        assert_eq!(fs::read_to_string(&old).unwrap(), "old", "{line}");
        assert_eq!(scratch.names(), ["in", "old"], "{line}");
    }
    // One of two outputs is complete when the other fails.
    run_toml(&format!(
        "[nodes.in]\nread = '{input}'\n[nodes.a]\nfrom = 'in'\nwrite = '{old}'\n[nodes.b]\nfrom = 'in'\ndo = 'crc32 =00000000'\n\
         [nodes.c]\nfrom = 'b'\nwrite = '{old}.c'"
    ))
    .unwrap_err();
    run_toml(&format!(
        "[nodes.in]\nread = '{input}'\n[nodes.a]\nfrom = 'in'\nwrite = '{old}'\n[nodes.bad]\nread = '{input}'\n[nodes.b]\nfrom = 'bad'\n\
         do = 'gunzip'\n[nodes.c]\nfrom = 'b'\nwrite = '{old}.c'"
    ))
    .unwrap_err();
    assert_eq!(fs::read_to_string(&old).unwrap(), "old");
    assert_eq!(scratch.names(), ["in", "old"]);
    run_line(&format!("read '{input}' | count -c | append '{old}'")).unwrap();
    assert_eq!(fs::read_to_string(&old).unwrap(), "old3000000\n");
}

#[test]
fn file_error_names_file_and_position() {
    let scratch = Scratch::new("names");
    let input = scratch.file("in", vec![b'x'; 1_000_000]);
    let missing = scratch.path("missing/file");
    let error = |line: String| run_line(&line).unwrap_err();
    assert!(
        error(format!("read '{missing}' | write /dev/null"))
            .starts_with(&format!("cannot read '{missing}', after 0 bytes: No such"))
    );
    assert!(
        error(format!("read '{input}' | write '{missing}'"))
            .starts_with(&format!("cannot write '{missing}', after 0 bytes: No such"))
    );
    let full = error(format!("read '{input}' | write /dev/full"));
    assert!(full.starts_with("cannot write '/dev/full', after 0 bytes: No space left"), "{full}");
    let directory = error("read / | write /dev/null".into());
    assert!(directory.contains("'/', after 0 bytes: Is a directory"), "{directory}");
}

#[test]
fn digest_of_a_stream_that_was_not_read_is_not_compared() {
    let network = Network::from_line("crc32 =00000000 | head -c 4").unwrap();
    let one = Options { threads: 1, ..Options::default() };
    let error = run::in_memory(&network, ALL, &[b'x'; 1_000_000], &one).unwrap_err().to_string();
    assert!(error.contains("was not read to its end"), "{error}");
}

#[test]
fn a_file_with_a_digest_is_an_output_like_the_others() {
    let scratch = Scratch::new("digest");
    let (input, sum, out) =
        (scratch.file("in", vec![b'x'; 1_000_000]), scratch.file("sum", "old"), scratch.path("out"));
    // Something fails behind it, beside it, or after it.
    for line in [
        format!("read '{input}' | crc32 '{sum}' | error 999999 | write '{out}'"),
        format!("read '{input}' | crc32 '{sum}' | crc32 =00000000 | write '{out}'"),
        format!("read '{input}' | crc32 '{sum}' | write /dev/full"),
        format!("read '{input}' | crc32 '{sum}' | write '{out}/nowhere'"),
        format!("read '{input}' | crc32 '{out}/nowhere' | write '{out}'"),
        format!("read '{input}' | crc32 '{sum}' | write '{sum}'"),
        format!("read '{input}' | crc32 '{sum}' | crc32 '{sum}' | write '{out}'"),
    ] {
        run_line(&line).unwrap_err();
        assert_eq!(fs::read_to_string(&sum).unwrap(), "old", "{line}");
        assert_eq!(scratch.names(), ["in", "sum"], "{line}");
    }
    // An endless input: stages before one that has enough may be any number of bytes ahead.
    run_line(&format!("read /dev/zero | crc32 '{sum}' | head -c 3 | write '{out}'")).unwrap();
    assert_eq!(fs::read_to_string(&sum).unwrap(), "old", "no stage read all of it");
    let network = Network::from_toml(&format!(
        "[nodes.in]\nread = '{input}'\n[nodes.a]\nfrom = 'in'\ndo = \"crc32 '{sum}'\"\n[nodes.out]\nfrom = 'a'\nwrite = '{out}'\n\
         [[test]]\nname = 'b'\ninput.in = \"a\"\noutput.out = \"a\""
    ))
    .unwrap();
    assert_eq!(run::test(&network, ALL, &network.tests[0]), Ok(()));
    assert_eq!(fs::read_to_string(&sum).unwrap(), "old", "a test touches no files");
    run_line(&format!("read '{input}' | crc32 '{sum}' | write '{out}'")).unwrap();
    assert_eq!(fs::read_to_string(&sum).unwrap().len(), 9);
}

#[test]
fn zstd_writes_the_same_bytes_however_many_threads_it_has() {
    let numbers: Vec<u8> = (0..2_800_000_u32).flat_map(|number| number.to_string().into_bytes()).collect();
    // At level 1 a thread compresses a frame of 4 MiB, at level 6 one of 8 MiB, at level 10 a part of 4 MiB of the only
    // frame. Each input has two such parts and the beginning of a third.
    for (level, bytes) in [(1, 9 << 20), (6, 17 << 20), (10, 9 << 20)] {
        let input = &numbers[..bytes];
        let packed = |line: &str, threads| {
            let network = Network::from_line(line).unwrap();
            run::in_memory(&network, ALL, input, &Options { threads, ..Options::default() }).unwrap()
        };
        let one = packed(&format!("zstd -{level}"), 1);
        assert!(one.len() < input.len() / 2);
        for (before, threads) in [("", 2), ("", 5), ("short 70001 | ", 1), ("short 1000000 | ", 3)] {
            assert!(packed(&format!("{before}zstd -{level}"), threads) == one, "{before}-{level}, {threads} threads");
        }
    }
}

#[test]
fn copies_are_counted_and_stages_in_place_make_none() {
    let network = Network::from_line("increment | rot13 | upper | hex | lower").unwrap();
    let scratch = Scratch::new("copies");
    let (input, out) = (scratch.file("in", vec![b'x'; 1_000_000]), scratch.path("out"));
    let network = Network::from_line(&format!("read '{input}' | {network} | write '{out}'")).unwrap();
    let outcome = run::run(&network, ALL, &Options::default()).unwrap();
    let copied: Vec<u64> = outcome.stages.iter().map(|stage| stage.bytes_copied).collect();
    assert_eq!(copied, [1_000_000, 0, 0, 0, 2_000_000, 0, 2_000_000]);
    let read: Vec<u64> = outcome.stages.iter().map(|stage| stage.bytes_in).collect();
    assert_eq!(read, [0, 1_000_000, 1_000_000, 1_000_000, 1_000_000, 2_000_000, 2_000_000]);
}

#[test]
fn the_plan_keeps_to_the_memory_and_the_threads() {
    let network = Network::from_line("upper | gzip | gunzip | lower | zstd").unwrap();
    let checked = check::check(&network, ALL).unwrap();
    let plan = |memory, threads| Plan::of(&checked, &Options { memory, threads, timeout: None });
    let placements = |threads| plan(64 << 20, threads).unwrap().placements;
    use Placement::{Fused, OwnThread, SameThread, Sink, Source};
    assert_eq!(placements(1), [Source, Fused, SameThread, SameThread, Fused, SameThread, Sink]);
    assert_eq!(placements(3), [Source, Fused, OwnThread, OwnThread, Fused, SameThread, Sink]);
    for memory in [100_000, 300_000, 1 << 20, 64 << 20] {
        for threads in [1, 2, 8] {
            assert!(plan(memory, threads).unwrap().memory() <= memory);
        }
    }
    let error = plan(10_000, 1).unwrap_err().to_string();
    assert!(error.contains("needs 5 buffers of at least 4096 bytes"), "{error}");
}

#[test]
fn a_stage_with_threads_of_its_own_gets_no_other() {
    let network = Network::from_line("zstd | unzstd | zstd -s 1M").unwrap();
    let checked = check::check(&network, ALL).unwrap();
    use Placement::{OwnThread, SameThread, Sink, Source};
    for (threads, second, why) in [
        (1, SameThread, ["no thread is left"; 3]),
        (3, OwnThread, ["threads of its own", "in a thread of its own", "threads of its own"]),
    ] {
        let plan = Plan::of(&checked, &Options { threads, ..Options::default() }).unwrap();
        assert_eq!(plan.placements, [Source, SameThread, second, SameThread, Sink]);
        let explained = explain(&checked, &plan);
        for (line, why) in explained.lines().skip(1).zip(why) {
            assert!(line.contains(why), "{why:?} in {explained}");
        }
    }
}

#[test]
fn every_number_of_threads_and_any_memory_give_the_same_bytes() {
    let input: Vec<u8> = (0..400_000_u32).flat_map(|number| number.to_string().into_bytes()).collect();
    let line = "increment | gzip -1 | gunzip | swab | zstd -1 | unzstd | swab | hex | unhex | increment 255";
    let network = Network::from_line(line).unwrap();
    for threads in [1, 2, 3, 16] {
        for memory in [400_000, 64 << 20] {
            let output = run::in_memory(&network, ALL, &input, &Options { memory, threads, timeout: None }).unwrap();
            assert!(output == input, "{threads} threads, {memory} bytes");
        }
    }
}

#[test]
fn a_network_carries_its_own_tests() {
    let text = |expected: &str| {
        format!(
            "[nodes.in]\nread = 'nowhere'\n[nodes.a]\nfrom = 'in'\ndo = 'grep b | upper'\n[nodes.out]\nfrom = 'a'\nwrite = 'nowhere/either'\n\
             [[test]]\nname = 'b'\ninput.in = \"a\\nb\\nab\\n\"\noutput.out = \"{expected}\""
        )
    };
    let outcome = |text: &str| {
        let network = Network::from_toml(text).unwrap();
        run::test(&network, ALL, &network.tests[0])
    };
    assert_eq!(outcome(&text("B\\nAB\\n")), Ok(()));
    let error = outcome(&text("B\\nXB\\n")).unwrap_err();
    assert_eq!(error, "out: 5 bytes, not 5; the first difference is at byte 2: \"AB\\n\", not \"XB\\n\"");
}

#[test]
fn one_file_under_two_names_is_one_file() {
    let scratch = Scratch::new("names-of-one");
    let (one, two, three) = (scratch.file("one", "content"), scratch.path("two"), scratch.path("three"));
    fs::hard_link(&one, &two).unwrap();
    std::os::unix::fs::symlink(&one, &three).unwrap();
    for other in [&two, &three] {
        let error = run_line(&format!("read '{one}' | append '{other}'")).unwrap_err();
        assert_eq!(error, format!("'{other}' would be read and appended to, and never end"));
        let twice = format!(
            "[nodes.in]\nread = '/dev/null'\n[nodes.a]\nfrom = 'in'\nappend = '{one}'\n[nodes.b]\nfrom = 'in'\nappend = '{other}'"
        );
        assert_eq!(run_toml(&twice).unwrap_err(), format!("'{other}' is written twice"));
    }
    // Replacing one name would break the link.
    let error = run_line(&format!("read '{one}' | upper | write '{two}'")).unwrap_err();
    assert!(error.contains("2 names (hard links)"), "{error}");
    assert_eq!([&one, &two].map(|name| fs::read_to_string(name).unwrap()), ["content", "content"]);
}

#[test]
fn nothing_is_made_when_something_cannot_be_opened() {
    let scratch = Scratch::new("opened");
    let (input, new, nowhere) = (scratch.file("in", "x"), scratch.path("new"), scratch.path("missing/new"));
    for last in [format!("write = '{nowhere}'"), format!("append = '{nowhere}'")] {
        let text = format!(
            "[nodes.in]\nread = '{input}'\n[nodes.a]\nfrom = 'in'\nappend = '{new}'\n[nodes.b]\nfrom = 'in'\n{last}"
        );
        assert!(run_toml(&text).unwrap_err().contains("missing/new', after 0 bytes: No such file"), "{last}");
        assert_eq!(scratch.names(), ["in"], "{last}");
    }
    let link = scratch.path("link");
    std::os::unix::fs::symlink(&new, &link).unwrap();
    run_line(&format!("read '{input}' | append '{link}'")).unwrap();
    run_line(&format!("read '{input}' | append '{new}'")).unwrap();
    assert_eq!(fs::read_to_string(&new).unwrap(), "xx");
}

#[test]
fn tail_keeps_what_there_is_memory_for() {
    let tail = |amount: &str, memory: usize, input: &[u8]| {
        let network = Network::from_line(&format!("tail {amount}")).unwrap();
        run::in_memory(&network, ALL, input, &Options { memory, threads: 1, timeout: None })
            .map_err(|failure| failure.to_string())
    };
    let line = vec![b'x'; 20 << 20];
    assert!(tail("-n 1", 64 << 20, &line).unwrap() == line);
    let error = tail("-n 1", 8 << 20, &line).unwrap_err();
    let most: usize = error.split(' ').filter_map(|word| word.parse().ok()).next_back().unwrap();
    assert!(most > 7 << 20 && most < 8 << 20 && error.contains("the end that is wanted is longer than"), "{error}");
    assert!(tail(&format!("-c {most}"), 8 << 20, &line).unwrap() == line[..most]);
    assert!(tail("-c 9M", 8 << 20, &line).unwrap_err().contains("N is a number"));
    assert!(tail("-c 9000000", 8 << 20, &line).unwrap_err().contains("longer than"));
}

#[test]
fn a_line_with_tests_is_printed_with_them() {
    let text = "[nodes.a]\nread = '-'\n[nodes.b]\nfrom = 'a'\ndo = 'upper'\n[nodes.c]\nfrom = 'b'\nwrite = '-'\n\
                [[test]]\nname = 'a'\ninput.a = 'x'\noutput.c = 'X'";
    let network = Network::from_toml(text).unwrap();
    assert_eq!(network.to_string(), network.to_toml());
    assert_eq!(Network::from_toml(&network.to_string()).unwrap(), network);
}

#[test]
fn failed_command_that_stands_twice_is_named_by_its_node() {
    let scratch = Scratch::new("twice");
    let (yes, no) = (scratch.file("yes", "a\nb\n"), scratch.file("no", "a\na\na\n"));
    let text = |left: &str, right: &str| {
        format!(
            "[nodes.l]\nread = '{left}'\n[nodes.r]\nread = '{right}'\n\
             [nodes.left]\nfrom = 'l'\ndo = 'exec grep b'\n[nodes.right]\nfrom = 'r'\ndo = 'exec grep b'\n\
             [nodes.out]\nfrom = ['left', 'right']\nwrite = '{}'\n",
            scratch.path("out")
        )
    };
    let ended = "of its input: the command ended with status 1";
    assert_eq!(run_toml(&text(&yes, &no)), Err(format!("right: exec grep b: at byte 6 {ended}")));
    assert_eq!(run_toml(&text(&no, &yes)), Err(format!("left: exec grep b: at byte 6 {ended}")));
    assert_eq!(run_toml(&text(&yes, &yes)), Ok(()));
    // In a line nodes have the name of their transform, and a number.
    let line = format!("read '{yes}' | exec grep a | exec cat | exec grep b | write '{}'", scratch.path("out"));
    assert_eq!(run_line(&line), Err(format!("exec grep b: at byte 2 {ended}")));
    let line = line.replace("grep b", "grep a").replace("exec cat", "tr a b");
    assert_eq!(run_line(&line), Err(format!("exec-2: exec grep a: at byte 2 {ended}")));
}
