//! `millstream net`: the same bytes as the programs that people know, and how it fails.

mod common;

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use common::{Scratch, Seen, fed, millstream, output};

fn net(line: &str, input: &[u8]) -> Vec<u8> {
    let (bytes, seen) = fed(millstream(["net", line]), input);
    assert_eq!(seen.code, Some(0), "{line}: {}", seen.stderr);
    bytes
}

fn shell(script: &str, input: &[u8]) -> Vec<u8> {
    let mut command = Command::new("bash");
    command.args(["-c", script]).env("LC_ALL", "C");
    let (bytes, seen) = fed(command, input);
    // grep says 1 when it finds nothing.
    assert!(matches!(seen.code, Some(0 | 1)), "{script}: {seen:?}");
    bytes
}

fn samples() -> Vec<Vec<u8>> {
    let text: String = (0..60_000)
        .map(|number| format!("{number}\tthe {} of\tthe x{}\n", number * 7919 % 1000, number % 13))
        .collect();
    let bytes: Vec<u8> = (0..700_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    vec![Vec::new(), b"one line".to_vec(), b"a\n\nb".to_vec(), text.into_bytes(), bytes]
}

#[test]
fn a_transform_writes_what_the_program_of_that_name_writes() {
    for (line, script) in [
        ("grep the", "grep -a the"),
        ("grep -v 'x1$'", "grep -av 'x1$'"),
        ("grep -i 'THE 9.*x3'", "grep -ai 'THE 9.*x3'"),
        ("grep '$'", "grep -a '$'"),
        ("grep -v '$'", "grep -av '$'"),
        ("grep '[0-9]*$'", "grep -a '[0-9]*$'"),
        ("grep '(?-u)1[^z]*e'", "grep -a '1[^z]*e'"),
        ("head", "head"),
        ("head -n 3", "head -n 3"),
        ("head -c 100001", "head -c 100001"),
        ("tail", "tail"),
        ("tail -n 5000", "tail -n 5000"),
        ("tail -c 70000", "tail -c 70000"),
        ("cut -f 1,3-", "cut -f 1,3-"),
        ("cut -d ' ' -f 2", "cut -d ' ' -f 2"),
        ("tr a-z A-Z", "tr a-z A-Z"),
        (r"tr '\n\t' '  '", r"tr '\n\t' '  '"),
        ("base64", "base64"),
        ("base64 -w 0", "base64 -w 0"),
        ("count -l", "wc -l"),
        ("count -c", "wc -c"),
        ("swab", "dd conv=swab status=none"),
    ] {
        for sample in samples() {
            // A text tool of the shell adds the end that the last line lacks, or, for cut, that of nothing.
            let (ours, theirs) = (net(line, &sample), shell(script, &sample));
            let ours_ended = [&ours[..], b"\n"].concat();
            let is_text = line.starts_with("grep") && !ours.is_empty() && !ours.ends_with(b"\n");
            assert!(
                ours == theirs || (is_text && ours_ended == theirs),
                "{line}: {} and {} bytes",
                ours.len(),
                theirs.len()
            );
        }
    }
}

#[test]
fn a_digest_is_that_of_its_program_and_the_bytes_pass() {
    let scratch = Scratch::new();
    let told = scratch.path("told");
    for sample in samples() {
        assert!(net(&format!("sha256 '{}'", told.display()), &sample) == sample);
        assert_eq!(fs::read(&told).unwrap(), shell("sha256sum | cut -d ' ' -f 1", &sample));
    }
}

#[test]
fn formats_are_read_and_written_by_their_own_programs() {
    for (pack, unpack, program, reverse) in [
        ("gzip", "gunzip", "gzip", "gzip -d"),
        ("gzip -9", "gunzip", "gzip -1", "gzip -d"),
        ("zstd", "unzstd", "zstd -q", "zstd -dq"),
        ("zstd -19", "unzstd", "zstd -q --fast", "zstd -dq"),
        ("xz -1", "unxz", "xz -1", "xz -d"),
        ("lz4", "unlz4", "lz4 -cq", "lz4 -dcq"),
        ("lz4", "unlz4", "lz4 -cq9 -B4 -BD -BX", "lz4 -dcq"),
        ("lz4", "unlz4", "lz4 -cq -B5 --no-frame-crc", "lz4 -dcq"),
        ("brotli -5", "unbrotli", "brotli -cq 5", "brotli -dc"),
        ("brotli -0", "unbrotli", "brotli -cq 9 --lgwin=24", "brotli -dc"),
        ("base64", "unbase64", "base64", "base64 -d"),
    ] {
        for sample in samples() {
            assert!(shell(reverse, &net(pack, &sample)) == sample, "{pack} | {reverse}");
            assert!(net(unpack, &shell(program, &sample)) == sample, "{program} | {unpack}");
        }
    }
    for (unpack, program) in [("gunzip", "gzip -c"), ("unzstd", "zstd -q"), ("unxz", "xz"), ("unlz4", "lz4 -cq")] {
        let twice = format!("{program}; printf more | {program}");
        assert_eq!(net(unpack, &shell(&twice, b"some and ")), b"some and more", "{twice}");
    }
}

#[test]
fn a_line_does_what_a_pipeline_does() {
    let scratch = Scratch::new();
    let text = &samples()[3];
    let packed = shell("gzip -c", text);
    fs::write(scratch.path("in.gz"), packed).unwrap();
    let (from, to) = (scratch.path("in.gz"), scratch.path("out.zst"));
    let line = format!("read '{}' | gunzip | grep 'x1$' | zstd -3 | write '{}'", from.display(), to.display());
    let seen = output(&mut millstream(["net", &line, "--stats=json"]));
    assert_eq!((seen.code, &*seen.stdout), (Some(0), ""), "{}", seen.stderr);
    let expected = shell("grep 'x1$'", text);
    assert!(shell(&format!("zstd -dqc '{}'", to.display()), b"") == expected);
    let stats: serde_json::Value = serde_json::from_str(&seen.stderr).unwrap();
    let grep = &stats["stages"][2];
    assert_eq!(grep["stage"], "grep x1$");
    assert_eq!(
        (grep["bytes_in"].as_u64(), grep["bytes_out"].as_u64()),
        (Some(text.len() as u64), Some(expected.len() as u64))
    );
}

/// One line, from us.
fn assert_one_sentence(seen: &Seen, code: i32, says: &str) {
    assert_eq!(seen.code, Some(code), "{seen:?}");
    assert_eq!(seen.stderr.lines().count(), 1, "{seen:?}");
    assert!(seen.stderr.starts_with("millstream: ") && seen.stderr.contains(says), "{says:?} in {seen:?}");
}

#[test]
fn bad_data_bad_files_and_bad_networks_are_told_apart() {
    let scratch = Scratch::new();
    let text = scratch.file("text", "no gzip at all");
    let out = scratch.path("out");
    let seen = |arguments: &[&str]| output(&mut millstream([&["net"], arguments].concat()));
    let to = format!("| write '{}'", out.display());
    assert_one_sentence(&seen(&[&format!("read '{text}' | gunzip {to}")]), 1, "gunzip: at byte");
    assert_one_sentence(&seen(&[&format!("read '{text}x' | gunzip {to}")]), 1, "cannot read");
    assert_one_sentence(&seen(&[&format!("read '{text}' | write /dev/full")]), 1, "No space left on device");
    assert_one_sentence(&seen(&[&format!("read '{text}' | zstd | gunzip {to}")]), 2, "gives the format zstd");
    assert_one_sentence(&seen(&["gunzip |"]), 2, "a transform is missing, at stage 2");
    assert_one_sentence(&seen(&["upper", "--memory", "5000"]), 2, "more memory than 5000 bytes");
    assert_one_sentence(&seen(&["run", &text]), 2, "line 1");
    assert_one_sentence(&seen(&["run", "nowhere.toml"]), 2, "cannot be read: No such file");
    assert_one_sentence(&seen(&["inverse", "upper"]), 2, "nothing undoes 'upper'");
    assert_one_sentence(&seen(&["doc", "gzipp"]), 2, "did you mean 'gzip'?");
    assert_one_sentence(
        &seen(&["test", &scratch.file("n.toml", "[nodes.a]\nread = '-'\n[nodes.b]\nfrom = 'a'\nwrite = '-'")]),
        2,
        "no [[test]]",
    );
    assert_eq!(seen(&[]).code, Some(2));
    assert!(!out.exists());
    assert_eq!(fs::read_dir(scratch.path("")).unwrap().count(), 2, "nothing is left behind");
}

#[test]
fn names_that_no_file_can_have_are_refused_before_a_byte_moves() {
    let scratch = Scratch::new();
    for (name, says) in [
        (String::new(), "after 0 bytes: No such file"),
        (scratch.path("new/").display().to_string(), "after 0 bytes: Is a directory"),
        (scratch.path(&"x".repeat(256)).display().to_string(), "after 0 bytes: File name too long"),
    ] {
        let seen = output(&mut millstream(["net", &format!("read /dev/zero | head -c 1000000 | write '{name}'")]));
        assert_one_sentence(&seen, 1, says);
    }
    assert_eq!(fs::read_dir(scratch.path("")).unwrap().count(), 0);
}

#[test]
fn standard_files_that_are_closed_are_not_taken_for_empty_ones() {
    let scratch = Scratch::new();
    let (text, program) = (scratch.file("text", "text"), common::program());
    let shell = |script: String| output(Command::new("sh").args(["-c", &script]));
    let seen = shell(format!("'{program}' net \"read '{text}' | upper\" >&-"));
    assert_one_sentence(&seen, 1, "cannot write the standard output, after 0 bytes: Bad file descriptor");
    let seen = shell(format!("'{program}' net upper <&-"));
    assert_one_sentence(&seen, 1, "cannot read the standard input, after 0 bytes: Bad file descriptor");
    // A network that does not use it does not miss it.
    let to = scratch.path("to");
    let seen = shell(format!("'{program}' net \"read '{text}' | upper | write '{}'\" <&- >&-", to.display()));
    assert_eq!((seen.code, &*seen.stderr, &*fs::read_to_string(to).unwrap()), (Some(0), "", "TEXT"));
}

#[test]
fn a_file_that_a_standard_stream_leads_to_is_written_on_and_not_replaced() {
    let scratch = Scratch::new();
    let (text, program) = (scratch.file("text", "text"), common::program());
    let log = scratch.path("log");
    for (line, redirected, says) in [
        (
            format!("read '{text}' | sha256 /dev/stderr | write /dev/null"),
            "2",
            "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1",
        ),
        (format!("read '{text}' | upper | write /dev/stdout"), "1", "TEXT"),
        (format!("read '{text}' | upper | write /dev/fd/3"), "3", "TEXT"),
    ] {
        let script = format!("echo before >&{redirected}; '{program}' net \"{line}\"; echo after >&{redirected}");
        let script = format!("exec {redirected}>'{}'; {script}", log.display());
        let seen = output(Command::new("sh").args(["-c", &script]));
        let logged = fs::read_to_string(&log).unwrap();
        assert!(logged.starts_with("before\n") && logged.contains(says), "{line}: {logged:?} {seen:?}");
        assert!(logged.ends_with("after\n"), "{line}: {logged:?}");
    }
}

#[test]
fn what_is_wrong_is_said_in_words() {
    let plain = "not random, and more than a few bytes\n".repeat(100);
    // Where the bytes are wrong; at the end if it is negative.
    for (pack, unpack, place, says) in [
        ("lz4", "unlz4", -1_i32, "the lz4 stream is corrupt: the checksum of the content is wrong"),
        ("lz4", "unlz4", 6, "the lz4 stream is corrupt: the checksum of a header is wrong"),
        ("xz", "unxz", -1, "the xz stream is corrupt: "),
        ("gzip", "gunzip", -1, "the gzip stream is corrupt: "),
        ("zstd", "unzstd", -1, "the zstd stream is corrupt, in the part that begins here: "),
    ] {
        let mut packed = net(pack, plain.as_bytes());
        let place = usize::try_from(place).unwrap_or(packed.len() - 1);
        packed[place] ^= 0x40;
        let (_, seen) = fed(millstream(["net", unpack]), &packed);
        assert_one_sentence(&seen, 1, says);
        assert!(!seen.stderr.contains(['{', '(']), "{seen:?}");
    }
    for (line, says) in [
        ("unxz", "the xz stream is empty"),
        ("gunzip", "the gzip stream is empty"),
        ("grep '(a'", "'(a' is no regular expression: unclosed group; it is used as: "),
    ] {
        let (_, seen) = fed(millstream(["net", line]), b"");
        assert_one_sentence(&seen, if line.starts_with("grep") { 2 } else { 1 }, says);
    }
}

#[test]
fn a_module_does_its_work_or_stops_the_network() {
    let scratch = Scratch::new();
    let (out, templates) = (scratch.path("out"), concat!(env!("CARGO_MANIFEST_DIR"), "/../../templates"));
    let module = |name: &str, source: &str| {
        let (c, wasm) = (scratch.file(&format!("{name}.c"), source), scratch.path(&format!("{name}.wasm")));
        let mut clang = Command::new("clang");
        clang.args(["--target=wasm32", "-O1", "-ffreestanding", "-nostdlib", "-Wl,--no-entry"]);
        let seen = output(clang.args(["-I", &format!("{templates}/wasm-c"), "-o"]).arg(&wasm).arg(c));
        assert_eq!(seen.code, Some(0), "{}\nThis needs clang and lld: scripts/setup test", seen.stderr);
        wasm.display().to_string()
    };
    let apply = |body: &str| {
        format!("#include <millstream.h>\nuint32_t millstream_apply(uint64_t o, uint8_t *b, uint32_t n) {{ {body} }}")
    };
    let rot13 = module("rot13", &fs::read_to_string(format!("{templates}/wasm-c/rot13.c")).unwrap());
    let text = &samples()[3];
    assert!(net(&format!("wasm {rot13} | upper"), text) == net("rot13 | upper", text));
    for (name, body, says) in [
        ("loop", "for (;;) ;", "fuel, 1000000, in one call"),
        ("trap", "__builtin_trap();", "0 of its input: the module was stopped: "),
        ("large", "for (;;) __builtin_wasm_memory_grow(0, 9);", "wants more memory than 1048576 bytes"),
        ("wide", "return n + 1;", "says that it worked on"),
    ] {
        let line =
            format!("upper | wasm fuel=1000000 memory=1M {} | write '{}'", module(name, &apply(body)), out.display());
        let (_, seen) = fed(millstream(["net", &line]), text);
        assert_one_sentence(&seen, 1, says);
        assert!(seen.stderr.contains(".wasm: at byte 0 of its input: "), "{seen:?}");
        assert!(!out.exists(), "{name}");
    }
    let without = module("without", "int nothing;");
    for (file, says) in [(&*without, "exports no function millstream_abi"), ("nowhere", "cannot be read: No such file")]
    {
        let (_, seen) = fed(millstream(["net", &format!("wasm {file} | write '{}'", out.display())]), text);
        assert_one_sentence(&seen, 2, says);
        assert!(!out.exists());
    }
}

#[test]
fn a_reader_that_goes_early_is_no_failure() {
    let program = common::program();
    let script = format!("'{program}' net 'read /dev/zero | hex' | head -c 10; echo ${{PIPESTATUS[0]}}");
    let seen = output(Command::new("bash").args(["-c", &script]));
    assert_eq!((&*seen.stdout, &*seen.stderr), ("00000000000\n", ""));
}

#[test]
fn a_network_that_is_killed_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let line = format!("read /dev/zero | identity | write '{}'", scratch.path("out").display());
    let mut child = millstream(["net", &line]).spawn().unwrap();
    let io = format!("/proc/{}/io", child.id());
    common::wait_for("some writing", || {
        let written = fs::read_to_string(&io).ok();
        let written =
            written.and_then(|io| io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse::<u64>().ok()));
        written.is_some_and(|bytes| bytes > 1 << 20)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read_dir(scratch.path("")).unwrap().count(), 0);
}

#[test]
fn what_comes_goes_on_at_once() {
    let mut child = millstream(["net", "grep b | upper"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stdout));
    for line in ["ab", "xbx"] {
        stdin.write_all(format!("a\n{line}\n").as_bytes()).unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), line.to_uppercase());
    }
    drop(stdin);
    assert!(lines.next().is_none());
    assert!(child.wait().unwrap().success());
}

/// Feeds these bytes and leaves the standard input open; what the program says when it ends all the same. Killed if it has
/// not after a minute.
fn fed_without_end(arguments: &[&str], input: &[u8]) -> Seen {
    let mut child = millstream([&["net"], arguments].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input).unwrap();
    let start = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() && start.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // It has ended, or else it must be stopped.
    let _ = child.kill();
    let seen = Seen::from(child.wait_with_output().unwrap());
    drop(stdin);
    seen
}

#[test]
fn a_stage_that_ends_early_ends_the_network_though_nothing_more_comes() {
    for threads in ["1", "2", "4", "8"] {
        for line in [
            "head -n 1",
            "upper | head -n 1 | rot13 | rot13",
            "hex | unhex | upper | head -n 1",
            "swab | swab | head -c 2 | upper",
        ] {
            let seen = fed_without_end(&[line, "--threads", threads], b"A\nb\nc\n");
            assert_eq!((seen.code, &*seen.stdout, &*seen.stderr), (Some(0), "A\n", ""), "{line}, {threads} threads");
        }
        for line in ["unhex", "identity | unhex | upper", "swab | swab | unhex"] {
            let seen = fed_without_end(&[line, "--threads", threads], b"zz\n");
            assert_one_sentence(&seen, 1, "unhex: at byte 0 of its input");
        }
    }
}

#[test]
fn a_file_that_others_have_open_too_is_read_from_where_they_left_it_and_left_at_its_end() {
    let scratch = Scratch::new();
    let text: String = (0..400_000).map(|number| format!("a{number}\n")).collect();
    let file = scratch.file("text", &text);
    let program = common::program();
    let script = format!(
        "(dd bs=7 count=1 status=none >/dev/null; '{program}' net 'upper | rot13 | rot13' --threads 4; cat) <'{file}'"
    );
    let seen = output(Command::new("bash").args(["-c", &script]));
    assert!(seen.code == Some(0) && seen.stdout == text[7..].to_uppercase(), "{} bytes", seen.stdout.len());
}

#[test]
fn progress_and_a_buffer_let_everything_pass() {
    for line in
        ["progress copy | buffer 1M", "buffer 100 | progress copy", "rate 1G | buffer 5M | progress copy | delay 0"]
    {
        for threads in ["1", "4"] {
            let (bytes, seen) = fed(millstream(["net", line, "--threads", threads]), &samples()[4]);
            assert!(bytes == samples()[4], "{line}");
            assert!(seen.stderr.starts_with("copy: 700000 bytes in ") && seen.stderr.lines().count() == 1, "{seen:?}");
        }
    }
    assert_one_sentence(
        &output(&mut millstream(["net", "buffer 1G"])),
        2,
        "and what is to be kept; give it more memory",
    );
}

#[test]
fn files_of_networks_run_and_test_themselves() {
    let scratch = Scratch::new();
    let out = scratch.path("out");
    let text = |expected: &str| {
        format!(
            "[nodes.in]\nread = '-'\n[nodes.lines]\nfrom = 'in'\ndo = 'grep b | upper'\n[nodes.out]\nfrom = 'lines'\nwrite = '{}'\n\
             [nodes.n]\nfrom = 'lines'\ndo = 'count -l'\n[nodes.end]\nfrom = 'n'\nwrite = '-'\n\
             [[test]]\nname = 'b'\ninput.in = \"a\\nb\\n\"\noutput.out = \"{expected}\"\noutput.end = \"1\\n\"\n",
            out.display()
        )
    };
    let (good, bad) = (scratch.file("good.toml", &text("B\\n")), scratch.file("bad.toml", &text("C\\n")));
    let seen = output(&mut millstream(["net", "test", &good]));
    assert_eq!((seen.code, &*seen.stdout), (Some(0), "ok      b\n"), "{seen:?}");
    let seen = output(&mut millstream(["net", "test", &bad]));
    assert!(seen.code == Some(1) && seen.stdout.starts_with("FAILED  b: out: 2 bytes, not 2"), "{seen:?}");
    assert!(!out.exists(), "a test writes no files");
    let (bytes, seen) = fed(millstream(["net", "run", &good]), b"ab\nc\nb\n");
    assert_eq!((seen.code, &bytes[..]), (Some(0), &b"2\n"[..]), "{seen:?}");
    assert_eq!(fs::read(&out).unwrap(), b"AB\nB\n");
    let (_, seen) = fed(millstream(["net", "run", &good, "--append"]), b"b2\n");
    assert_eq!(seen.code, Some(0), "{seen:?}");
    assert_eq!(fs::read(&out).unwrap(), b"AB\nB\nB2\n");
    let printed = output(&mut millstream(["net", "check", &good])).stdout;
    let again = scratch.file("again.toml", &printed);
    assert_eq!(output(&mut millstream(["net", "check", &again])).stdout, printed);
}

#[test]
fn the_list_has_every_transform_and_each_has_a_page() {
    let list = output(&mut millstream(["net", "list", "--json"])).stdout;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let names: Vec<&str> = list.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert!(names.len() > 20);
    for name in names {
        let page = output(&mut millstream(["net", "doc", name]));
        assert!(page.code == Some(0) && page.stdout.starts_with(&format!("{name}\n")), "{page:?}");
    }
}

#[test]
fn ten_stages_over_a_large_stream_stay_small() {
    let scratch = Scratch::new();
    let sparse = scratch.path("sparse");
    fs::File::create(&sparse).unwrap().set_len(1 << 30).unwrap();
    let line = format!(
        "read '{}' | increment | rot13 | upper | xor 5a | lower | increment 3 | tr a b | xor 11 | swab | count -c",
        sparse.display()
    );
    // The largest resident set of any child, as time(1) would say it.
    let program = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); \
                   print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
    let seen = output(Command::new("python3").args(["-c", program, common::program(), "net", &line]));
    let mut lines = seen.stdout.lines();
    assert_eq!(lines.next(), Some("1073741824"), "{seen:?}");
    let kibibytes: u64 = lines.next().unwrap().parse().unwrap();
    assert!(kibibytes <= 64 << 10, "{kibibytes} KiB");
}
