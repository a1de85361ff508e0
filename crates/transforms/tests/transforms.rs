//! What every transform has to hold: the same bytes however the stream is cut, and its inverse undoes it.

mod age;
mod python;

use millstream_net::{Kind, Network, Options, Size, find, run};
use millstream_transforms::ALL;

/// A use of each transform that takes any bytes, and of those that take text or a format, with what has to come before.
const USES: &[(&str, &str)] = &[
    ("", "identity"),
    ("", "increment"),
    ("", "increment 200"),
    ("", "xor 5a"),
    ("", "xor 0102030405"),
    ("", "swab"),
    ("", "rot13"),
    ("", "upper"),
    ("", "lower"),
    ("", "tr a-y b-z"),
    ("", "tr ab ba"),
    ("", "hex"),
    ("hex", "unhex"),
    ("", "base64"),
    ("", "base64 -w 0"),
    ("base64", "unbase64"),
    ("", "gzip"),
    ("", "gzip -0"),
    ("", "gzip -1"),
    ("", "gzip -2"),
    ("gzip -1", "gunzip"),
    ("", "zlib -4"),
    ("", "zlib -9"),
    ("zlib", "unzlib"),
    ("", "zstd"),
    ("", "zstd -s 64K"),
    ("zstd -s 64K -1", "unzstd"),
    ("zstd -1", "unzstd"),
    ("", "xz -0"),
    ("xz -0", "unxz"),
    ("", "lz4"),
    ("lz4", "unlz4"),
    ("", "brotli -0"),
    ("", "brotli -1"),
    ("", "brotli -5"),
    ("", "brotli"),
    ("brotli -1", "unbrotli"),
    ("", "age -i BOTH"),
    ("", "age -w 5 -p PASSPHRASE"),
    ("age -i BOTH", "unage -i BOTH"),
    ("age -w 5 -p PASSPHRASE", "unage -p PASSPHRASE"),
    ("", "exec cat"),
    ("", "parallel 1 records=1 block=4K exec cat"),
    ("", "iconv latin1 utf-8"),
    ("", "iconv koi8-r utf-16"),
    ("", "iconv latin1 utf-32be"),
    ("iconv latin1 utf-16be", "iconv utf-16be latin1"),
    ("iconv latin1 gb18030", "iconv gb18030 latin1"),
    ("", "sha256 =HASH"),
    ("", "blake3 /dev/null"),
    ("", "crc32 /dev/null"),
    ("", "grep e"),
    ("", "grep -v e"),
    ("", "grep -i 'THE|a.b$'"),
    ("", "grep -F a.b"),
    ("", "grep ''"),
    ("", "grep '[^x]y'"),
    ("", "grep 't[^z]*x'"),
    ("", "grep '$'"),
    ("", "head"),
    ("", "head -n 3"),
    ("", "head -n 0"),
    ("", "head -c 1000"),
    ("", "tail"),
    ("", "tail -n 3"),
    ("", "tail -n 0"),
    ("", "tail -c 1000"),
    ("", "cut -d ' ' -f 2,4-"),
    ("", "cut -f -1"),
    ("", "count"),
    ("", "count -w"),
    ("", "delay 0"),
    ("", "rate 100G"),
    ("", "buffer 1"),
    ("", "buffer 20K"),
    ("", "progress"),
    ("", "short 100"),
    ("", "corrupt 77"),
    ("", "truncate 500"),
];

fn samples() -> Vec<Vec<u8>> {
    let mut state = 12345_u32;
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 24
    };
    let noise: Vec<u8> = (0..40_000).map(|_| next() as u8).collect();
    let text: Vec<u8> = (0..6000)
        .flat_map(|place| {
            let word = ["the", "x", "a.b", "Theory", "", "\tend", "axy"][next() as usize % 7];
            format!("{word}{}", if place % 9 == next() as usize % 9 { "\n" } else { " " }).into_bytes()
        })
        .collect();
    vec![vec![], b"a".to_vec(), b"ab\n".to_vec(), b"\n\n".to_vec(), b"no end".to_vec(), vec![0; 10_000], noise, text]
}

fn run(line: &str, input: &[u8], options: &Options) -> Result<Vec<u8>, String> {
    let network = Network::from_line(line).map_err(|error| error.to_string())?;
    run::in_memory(&network, ALL, input, options).map_err(|failure| failure.to_string())
}

fn done(line: &str, input: &[u8]) -> Vec<u8> {
    run(line, input, &Options::default()).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// The uses, with the digest of an input and the names of files with keys filled in.
fn uses(input: &[u8]) -> impl Iterator<Item = (String, String)> {
    let directory = std::env::temp_dir().join(format!("millstream-transforms-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("digest");
    done(&format!("sha256 '{}'", file.display()), input);
    let digest = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let filled = move |line: &str| age::filled(&line.replace("HASH", digest.trim()));
    USES.iter().map(move |(before, line)| (filled(before), filled(line)))
}

/// One test, so that the files of two do not meet.
#[test]
fn a_stream_can_be_cut_anywhere_and_every_inverse_undoes() {
    let small = Options { memory: 16 * 4096, threads: 1, timeout: None };
    for sample in samples() {
        for (before, line) in uses(&sample) {
            let input = if before.is_empty() { sample.clone() } else { done(&before, &sample) };
            let whole = done(&line, &input);
            if !before.is_empty() {
                assert_eq!(whole, sample, "{before} | {line}");
            }
            for cut in [1, 3, 100, 4095, 5000] {
                if cut < 100 && input.len() > 20_000 {
                    continue;
                }
                let pieces = run(&format!("short {cut} | {line}"), &input, &small);
                let pieces = pieces.unwrap_or_else(|error| panic!("short {cut} | {line}: {error}"));
                // Every encryption has a key of its own.
                if line.starts_with("age ") {
                    assert_eq!(pieces.len(), whole.len(), "short {cut} | {line}");
                } else {
                    assert!(pieces == whole, "short {cut} | {line}: {} bytes, not {}", pieces.len(), whole.len());
                }
                // What undoes a decoder may write other bytes than there were, which mean the same.
                if before.is_empty() {
                    check_inverse(&line, &input, &pieces);
                }
            }
            if before.is_empty() {
                check_inverse(&line, &input, &whole);
            }
            check_size(&line, input.len(), whole.len());
        }
    }
}

fn stage_of(line: &str) -> millstream_net::Stage {
    let words = millstream_net::words::stages(line).unwrap().remove(0);
    find(ALL, &words[0]).unwrap().build(&words[1..]).unwrap()
}

fn check_inverse(line: &str, input: &[u8], output: &[u8]) {
    if let Some(inverse) = stage_of(line).inverse {
        let back = run(&inverse, output, &Options::default()).unwrap_or_else(|error| panic!("{inverse}: {error}"));
        assert!(back == input, "{line} | {inverse}: {} bytes, not {}", back.len(), input.len());
    }
}

fn check_size(line: &str, from: usize, to: usize) {
    let stage = stage_of(line);
    match stage.size {
        Size::Same => assert_eq!(from, to, "{line}"),
        Size::Computed(size) => assert_eq!(size(from as u64), to as u64, "{line}"),
        Size::Unknown => assert!(matches!(stage.kind, Kind::Rewrite(_) | Kind::Exported(_)), "{line}"),
        _ => panic!("{line}: a size that this test does not know"),
    }
}

#[test]
fn every_transform_is_used_above() {
    for transform in ALL {
        let name = transform.name();
        let is_used = USES.iter().any(|(_, line)| line.split(' ').next() == Some(name));
        // What fails has no bytes to compare, and what runs a file has tests of its own.
        assert!(is_used || matches!(name, "error" | "wasm" | "python"), "{name}");
        assert!(transform.usage().starts_with(name), "{name}");
    }
}

#[test]
fn error_in_the_bytes_names_its_position() {
    let text: Vec<u8> = (0..200_000_u32).flat_map(|number| number.to_string().into_bytes()).collect();
    for (line, error) in [
        ("gzip | truncate 20000 | gunzip", "gunzip: at byte 20000 of its input: the gzip stream ends too early"),
        ("zlib | truncate 20000 | unzlib", "unzlib: at byte 20000 of its input: the zlib stream ends too early"),
        ("zstd | truncate 20000 | unzstd", "unzstd: at byte 20000 of its input: the zstd stream ends too early"),
        ("xz -0 | truncate 20000 | unxz", "unxz: at byte 20000 of its input: the xz stream ends too early"),
        ("lz4 | truncate 20000 | unlz4", "unlz4: at byte 20000 of its input: the lz4 stream ends too early"),
        (
            "brotli -1 | truncate 20000 | unbrotli",
            "unbrotli: at byte 20000 of its input: the brotli stream ends too early",
        ),
        ("gunzip", "gunzip: at byte 2 of its input: the gzip stream is corrupt"),
        ("unlz4", "unlz4: at byte 0 of its input: the lz4 stream is corrupt: no frame begins here"),
        ("unbrotli", "unbrotli: at byte "),
        ("unzstd", "unzstd: at byte 0 of its input: the zstd stream is corrupt"),
        ("unxz", "unxz: at byte 12 of its input: the xz stream is corrupt"),
        ("hex | corrupt 8001 | tr 0-7 x | unhex", "unhex: at byte 0 of its input: 'x' is no hexadecimal digit"),
        ("hex | truncate 5001 | unhex", "unhex: at byte 5001 of its input: the last digit has no partner"),
        (
            "base64 | truncate 5001 | unbase64",
            "unbase64: at byte 5001 of its input: the base64 text ends within a group",
        ),
        ("identity | error 123456 | upper", "error 123456: at byte 123456 of its input: an error was asked for"),
        ("base64 | tr T ! | unbase64", "unbase64: at byte 13 of its input: no base64: '!' is no letter of it"),
        (
            "iconv ascii utf-16be | corrupt 100000 | iconv utf-16be ascii",
            "iconv utf-16be ascii: at byte 100000 of its input: ASCII has no 'ı' (U+0131)",
        ),
        (
            "tr 9 '\\0' | iconv ascii utf-8 | increment 255 | iconv utf-8 latin1",
            "iconv utf-8 latin1: at byte 9 of its input: no UTF-8: byte 0xff",
        ),
        ("exec false", "exec false: at byte "),
        ("crc32 =00000000", "crc32 =00000000: at byte"),
    ] {
        let found = run(line, &text, &Options::default());
        let found = found.map(|bytes| bytes.len()).expect_err(line);
        assert!(found.starts_with(error), "{line}: {found}");
    }
    for empty in ["gunzip", "unzlib", "unzstd", "unxz", "unlz4", "unbrotli"] {
        assert!(run(empty, b"", &Options::default()).is_err(), "{empty} of nothing");
    }
}

#[test]
fn a_corrupt_byte_anywhere_is_found() {
    let text: Vec<u8> = (0..20_000_u32).flat_map(|number| number.to_string().into_bytes()).collect();
    // Not zlib: its checksum, Adler-32, misses one of these changes in any implementation. Brotli has no checksum.
    for (pack, unpack) in [("gzip", "gunzip"), ("zstd", "unzstd"), ("xz -0", "unxz"), ("lz4", "unlz4")] {
        let packed = done(pack, &text);
        // Behind the headers, whose bytes do not all matter.
        for place in (30..packed.len()).step_by(packed.len() / 40) {
            let found = run(&format!("corrupt {place} | {unpack}"), &packed, &Options::default());
            assert!(found.is_err(), "{pack}: byte {place} of {} can be changed", packed.len());
        }
    }
}

#[test]
fn arguments_that_mean_nothing_are_refused() {
    for line in [
        "identity x",
        "increment 256",
        "xor",
        "xor 5",
        "xor zz",
        "swab 1",
        "tr a",
        "tr a ''",
        "tr z-a x",
        "gzip 9",
        "gzip -10",
        "zstd -0",
        "zstd -s",
        "zstd -s 1K",
        "zstd -s 64K x",
        "zstd -3 -s 64K -3",
        "xz -10",
        "sha256 =00",
        "sha256 a b",
        "grep",
        "grep -x a",
        "grep (",
        "head -n",
        "head -n x",
        "tail -k 3",
        "cut",
        "cut -f 0",
        "cut -f 3-1",
        "cut -d ab -f 1",
        "count -x",
        "error",
        "delay -1",
        "rate",
        "rate 0",
        "rate 1T",
        "buffer",
        "buffer 0",
        "progress a b",
        "short 0",
        "corrupt",
        "truncate x",
        "base64 -w",
        "lz4 -9",
        "brotli -12",
        "exec",
        "exec ''",
        "iconv latin1",
        "iconv latin1 klingon",
        "gzipp",
    ] {
        let error = run(line, b"", &Options::default()).unwrap_err();
        assert!(error.contains("used as") || error.contains("did you mean"), "{line}: {error}");
    }
}

#[test]
fn zstd_names_the_block_that_is_wrong() {
    let text: Vec<u8> = (0..900_000_u32).flat_map(|number| number.to_string().into_bytes()).collect();
    let packed = done("zstd", &text);
    let mut ends = vec![0];
    while let Some(rest) = packed.get(ends[ends.len() - 1]..).filter(|rest| !rest.is_empty()) {
        ends.push(ends[ends.len() - 1] + zstd::zstd_safe::find_frame_compressed_size(rest).unwrap());
    }
    assert!(ends.len() > 2, "several frames: {ends:?}");
    for place in (1000..packed.len()).step_by(packed.len() / 7) {
        let error = run(&format!("corrupt {place} | unzstd"), &packed, &Options::default()).unwrap_err();
        let offset =
            error.strip_prefix("unzstd: at byte ").and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
        let offset = offset.unwrap_or_else(|| panic!("{error}"));
        // A block has at most 128 KiB; what is wrong with its bytes may show as late as in the checksum of the frame.
        let is_in_block = offset <= place && place - offset <= 128 << 10;
        let end_of_frame = *ends.iter().find(|&&end| end > place).unwrap();
        assert!(is_in_block || offset == end_of_frame - 4, "byte {place} of {}: {error}", packed.len());
    }
}

#[test]
fn base64_names_the_letter_that_is_wrong() {
    let text: Vec<u8> = (0..3000_u32).flat_map(|number| number.to_string().into_bytes()).collect();
    let packed = done("base64", &text);
    for place in (0..packed.len()).step_by(97) {
        if packed[place] == b'\n' {
            continue;
        }
        let mut wrong = packed.clone();
        wrong[place] = b'!';
        for cut in [1, 5, 3000] {
            let error = run(&format!("short {cut} | unbase64"), &wrong, &Options::default()).unwrap_err();
            assert!(error.starts_with(&format!("unbase64: at byte {place} of its input")), "byte {place}: {error}");
        }
    }
}

#[test]
fn a_large_stream_is_compressed_to_the_same_bytes_however_it_is_cut() {
    let text: Vec<u8> =
        (0..90_000_u32).flat_map(|number| (number * 7 % 1009 * number).to_string().into_bytes()).collect();
    assert!(text.len() > 500_000);
    for level in ["gzip -0", "gzip -1", "gzip -3", "gzip", "zlib -9"] {
        let whole = done(level, &text);
        let unpack = if level.starts_with("gzip") { "gunzip" } else { "unzlib" };
        assert!(done(unpack, &whole) == text);
        for cut in [777, 65_535, 65_536, 100_000] {
            assert!(done(&format!("short {cut} | {level}"), &text) == whole, "short {cut} | {level}");
        }
    }
}

#[test]
fn a_seekable_stream_says_where_its_frames_are() {
    let text: Vec<u8> = (0..3_000_000_u32).flat_map(|number| number.to_string().into_bytes()).collect();
    // The last frames are longer than those of which threads keep whole ones.
    for (option, frame_bytes, size) in [
        ("64K", 65_536, 0),
        ("64K", 65_536, 1),
        ("64K", 65_536, 65_535),
        ("64K", 65_536, 65_536),
        ("64K", 65_536, 65_537),
        ("64K", 65_536, 2_000_000),
        ("8M", 8 << 20, 17_000_000),
        ("9M", 9 << 20, 18 << 20),
        ("9M", 9 << 20, 19_500_000),
    ] {
        let text = &text[..size];
        let packed = done(&format!("zstd -1 -s {option}"), text);
        assert!(done("unzstd", &packed) == text && program(&["zstd", "-dqc"], &packed) == text, "{size} bytes");
        let number = |at: usize| u32::from_le_bytes(packed[at..at + 4].try_into().unwrap()) as usize;
        // From the end, as a reader finds it.
        let end = packed.len();
        assert_eq!((number(end - 4), packed[end - 5]), (0x8f92_eab1, 0x80), "{size} bytes");
        let frames = number(end - 9);
        let table = end - 9 - 12 * frames;
        assert_eq!((number(table - 4), number(table - 8)), (12 * frames + 9, 0x184d_2a5e), "{size} bytes");
        assert_eq!(frames, size.div_ceil(frame_bytes), "{size} bytes");
        let (mut at, mut from) = (0, 0);
        for entry in (table..end - 9).step_by(12) {
            let part = &text[from..from + number(entry + 4)];
            assert!(done("unzstd", &packed[at..at + number(entry)]) == part, "the frame at {at}, {size} bytes");
            let hash = twox_hash::XxHash64::oneshot(0, part);
            assert_eq!(number(entry + 8) as u64, hash & 0xffff_ffff);
            assert!(part.len() == frame_bytes || entry + 12 == end - 9);
            (at, from) = (at + number(entry), from + part.len());
        }
        assert_eq!((at, from), (table - 8, size));
    }
}

/// What a program makes of these bytes, which a pipe has room for.
fn program(words: &[&str], input: &[u8]) -> Vec<u8> {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut command = Command::new(words[0]);
    let mut child = command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    assert!(output.status.success(), "{words:?}");
    output.stdout
}

#[test]
fn a_line_may_be_as_long_as_there_is_memory_for() {
    let line_of = |bytes: usize| [&vec![b'x'; bytes - 3], &b"\ty\n"[..]].concat();
    for stage in ["grep x", "grep -v z", "cut -f 1-"] {
        let largest = line_of(16 << 20);
        assert!(done(stage, &largest) == largest, "{stage}");
        let error = run(stage, &line_of((16 << 20) + 1), &Options::default()).unwrap_err();
        assert!(error.ends_with("a line is longer than 16777216 bytes"), "{error}");
        // Three buffers of 256 KiB, and half of the rest for a line.
        let small = Options { memory: 2 << 20, threads: 1, timeout: None };
        let most = (1280 << 10) / 2;
        assert!(run(stage, &line_of(most), &small).unwrap() == line_of(most), "{stage}");
        let error = run(stage, &line_of(most + 1), &small).unwrap_err();
        assert!(
            error.ends_with(&format!("a line is longer than the {most} bytes that there is memory for")),
            "{error}"
        );
    }
    // `head` passes on the beginning of a line as it comes, and keeps nothing.
    let first = [&line_of(17 << 20)[..], b"next"].concat();
    assert!(done("head -n 1", &first) == first[..17 << 20]);
}
