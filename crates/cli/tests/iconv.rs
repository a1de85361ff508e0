//! `iconv` as a stage: what the program of that name writes, and where it stops.

mod common;

use std::process::Command;

use common::{Seen, fed, millstream};

fn ours(from: &str, to: &str, input: &[u8]) -> (Vec<u8>, Seen) {
    fed(millstream(["net", &format!("iconv {from} {to}")]), input)
}

fn theirs(from: &str, to: &str, input: &[u8]) -> (Vec<u8>, Seen) {
    let mut command = Command::new("iconv");
    command.args(["-f", from, "-t", to]).env("LC_ALL", "C");
    fed(command, input)
}

const SINGLE: &[&str] = &[
    "ASCII",
    "ISO-8859-1",
    "ISO-8859-2",
    "ISO-8859-3",
    "ISO-8859-4",
    "ISO-8859-5",
    "ISO-8859-6",
    "ISO-8859-7",
    "ISO-8859-8",
    "ISO-8859-9",
    "ISO-8859-10",
    "ISO-8859-13",
    "ISO-8859-14",
    "ISO-8859-15",
    "ISO-8859-16",
    "CP1250",
    "CP1251",
    "CP1252",
    "CP1253",
    "CP1254",
    "CP1256",
    "CP1257",
    "CP874",
    "KOI8-R",
    "CP866",
];

/// The bytes that stand for a character: each is asked about in a line of its own, and `-c` leaves out what is none.
fn assigned_in(encoding: &str) -> Vec<u8> {
    let bytes: Vec<u8> = (0..=255).filter(|byte| *byte != b'\n').collect();
    let lines: Vec<u8> = bytes.iter().flat_map(|byte| [*byte, b'\n']).collect();
    let mut command = Command::new("iconv");
    command.args(["-c", "-f", encoding, "-t", "UTF-8"]).env("LC_ALL", "C");
    let text = fed(command, &lines).0;
    let is_assigned = text.split(|byte| *byte == b'\n').map(|line| !line.is_empty());
    let assigned = bytes.iter().zip(is_assigned).filter_map(|(byte, is)| is.then_some(*byte));
    assigned.chain([b'\n']).collect()
}

#[test]
fn tables_are_those_of_iconv() {
    for encoding in SINGLE {
        let assigned = assigned_in(encoding);
        assert!(assigned.len() >= 128, "{encoding}");
        let (text, seen) = ours(encoding, "UTF-8", &assigned);
        assert_eq!(seen.code, Some(0), "{encoding}: {}", seen.stderr);
        assert!(text == theirs(encoding, "UTF-8", &assigned).0, "{encoding}");
        let (back, seen) = ours("UTF-8", encoding, &text);
        assert_eq!(seen.code, Some(0), "{encoding}: {}", seen.stderr);
        assert!(back == assigned, "{encoding}");
        if let Some(byte) = (0..=255).find(|byte| !assigned.contains(byte)) {
            let (_, seen) = ours(encoding, "UTF-8", &[b'a', byte]);
            assert!(
                seen.code == Some(1) && seen.stderr.contains("at byte 1 of its input: no "),
                "{encoding}: {seen:?}"
            );
        }
    }
}

const TEXT: &str = "plain, then ß, Ж, 日本語, 한국어, 漢字, 🦀 and\nplain again\n";

#[test]
fn unicode_is_that_of_iconv() {
    let long = TEXT.repeat(5000);
    for encoding in ["UTF-8", "UTF-16", "UTF-16LE", "UTF-16BE", "UTF-32", "UTF-32LE", "UTF-32BE", "GB18030"] {
        for text in ["", "a", TEXT, &long] {
            let encoded = theirs("UTF-8", encoding, text.as_bytes()).0;
            assert!(ours("UTF-8", encoding, text.as_bytes()).0 == encoded, "to {encoding}");
            assert!(ours(encoding, "UTF-8", &encoded).0 == text.as_bytes(), "from {encoding}");
        }
    }
    // The other order, with its mark.
    let marked = [&[0xfe, 0xff][..], &theirs("UTF-8", "UTF-16BE", TEXT.as_bytes()).0].concat();
    assert_eq!(ours("UTF-16", "UTF-8", &marked).0, TEXT.as_bytes());
}

#[test]
fn east_asian_text_is_that_of_iconv() {
    for (encoding, text) in [
        ("EUC-JP", "日本語のテキスト、かなカナ漢字 and ASCII。\n"),
        ("CP932", "日本語のテキスト、かなカナ漢字 ｶﾅ and ASCII。\n"),
        ("CP949", "한국어 텍스트와 ASCII. 똠방각하\n"),
        ("GBK", "汉字文本，简体與繁體 and ASCII。\n"),
        ("BIG5", "中文字，繁體 and ASCII。\n"),
    ] {
        let text = text.repeat(3000);
        let encoded = theirs("UTF-8", encoding, text.as_bytes()).0;
        assert!(encoded.len() > 10_000 && ours("UTF-8", encoding, text.as_bytes()).0 == encoded, "to {encoding}");
        assert!(ours(encoding, "UTF-8", &encoded).0 == text.as_bytes(), "from {encoding}");
    }
}

#[test]
fn errors_are_found_where_iconv_finds_them() {
    let long = format!("{}é", "x".repeat(300_000));
    for (from, to, input) in [
        ("UTF-8", "UTF-16LE", &b"abc\xffdef"[..]),
        ("UTF-8", "UTF-16LE", b"ab\xc3\xa9\xe2\x28\xa1"),
        ("UTF-8", "UTF-16LE", b"\xed\xa0\x80"),
        ("UTF-8", "UTF-16LE", b"abc\xf4\x90\x80\x80"),
        ("UTF-16LE", "UTF-8", b"a\0\0\xdcb\0"),
        ("UTF-16LE", "UTF-8", b"a\0\0\xd8b\0"),
        ("UTF-32LE", "UTF-8", b"a\0\0\0\0\0\x11\0"),
        ("ASCII", "UTF-8", b"abc\x80"),
        ("UTF-8", "ASCII", long.as_bytes()),
        ("UTF-8", "ISO-8859-1", "aß€".as_bytes()),
        ("EUC-JP", "UTF-8", b"ab\xc6\xfc\xff\xff"),
        ("UTF-8", "BIG5", "a字🦀".as_bytes()),
    ] {
        let (_, seen) = theirs(from, to, input);
        let position = seen.stderr.trim_end().rsplit(' ').next().unwrap();
        let (_, seen) = ours(from, to, input);
        let stage = format!("millstream: iconv {from} {to}: at byte {position} of its input: ");
        assert!(seen.code == Some(1) && seen.stderr.starts_with(&stage), "{stage}\n{seen:?}");
    }
    for (from, input, position) in [("UTF-8", &b"abc\xe2\x82"[..], 3), ("UTF-16BE", b"\0a\0", 2), ("GBK", b"a\x81", 1)]
    {
        let (_, seen) = ours(from, "UTF-32", input);
        let says = format!("at byte {position} of its input: the text ends within a character");
        assert!(seen.code == Some(1) && seen.stderr.contains(&says), "{seen:?}");
    }
}
