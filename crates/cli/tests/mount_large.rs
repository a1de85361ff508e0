//! A mount with very many open files, and one of a very large file.

mod common;
mod mounting;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Scratch, output};
use mounting::Mounted;

const OPEN: usize = 10_000;

/// Opens all files, then reads each of them, so that all are open at once. Prints how many have said their letter.
const READ_ALL: &str = r#"
my @files;
for my $number (0 .. $ARGV[0] - 1) { open my $file, "<", "$number" or die "$number: $!"; push @files, $file; }
my $right = 0;
for my $number (0 .. $#files) {
    sysread $files[$number], my $text, 1000;
    $right++ if $text eq chr(97 + $number % 26) x (1 + $number % 900);
}
print "$right\n";
"#;

/// What the file of a number says. Their lengths are those of no block.
fn content(number: usize) -> Vec<u8> {
    vec![b'a' + (number % 26) as u8; 1 + number % 900]
}

/// How many files say what they should while all of them are open.
fn right(mount: &Mounted, count: usize) -> String {
    let script = format!("ulimit -n 20000 && exec perl -e '{READ_ALL}' {count}");
    let seen = output(Command::new("sh").args(["-c", &script]).current_dir(mount.at("")));
    format!("{}{}{}", seen.stdout, seen.stderr, mount.log())
}

/// With a decoder for each file.
#[test]
fn ten_thousand_open_files_are_served() {
    if mounting::is_forbidden() {
        return;
    }
    let sources = Scratch::new();
    for number in 0..OPEN {
        fs::write(sources.path(&number.to_string()), content(number)).unwrap();
    }
    let packed = Command::new("sh").args(["-c", "ls | xargs gzip -1"]).current_dir(sources.path("")).status();
    assert!(packed.unwrap().success());
    assert_eq!(right(&Mounted::of_source(&sources.path(""), &["gunzip"]), OPEN), format!("{OPEN}\n"));
}

/// The daemon has descriptors for all nodes, and not for all sources too.
#[test]
fn open_files_are_read_when_descriptors_run_short() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::with_descriptors_and(400, &["rot13 | rot13"]);
    for number in 0..250 {
        fs::write(mount.source(&number.to_string()), content(number)).unwrap();
    }
    assert_eq!(right(&mount, 250), "250\n");
}

/// Bytes of the large file. `MILLSTREAM_GIGABYTES=1` for more (`make check-mount`).
fn large() -> u64 {
    let gigabytes: Option<u64> = std::env::var("MILLSTREAM_GIGABYTES").ok().and_then(|text| text.parse().ok());
    gigabytes.map_or(48 << 20, |gigabytes| gigabytes << 30) + 12_345
}

/// A text that differs everywhere and can be compressed.
struct Text {
    position: u64,
    end: u64,
}

/// The line that begins at a multiple of its length.
const LINE: u64 = 32;

impl Text {
    fn new(end: u64) -> Text {
        Text { position: 0, end }
    }

    /// Any piece of it.
    fn piece(offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + LINE as usize);
        let first = offset / LINE;
        for line in first.. {
            if bytes.len() as u64 >= offset % LINE + len as u64 {
                break;
            }
            bytes.extend(format!("{:<31}\n", line.wrapping_mul(0x9E37_79B9_7F4A_7C15)).bytes());
        }
        let start = (offset % LINE) as usize;
        bytes[start..start + len].to_vec()
    }
}

impl Read for Text {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = out.len().min((self.end - self.position) as usize);
        out[..count].copy_from_slice(&Text::piece(self.position, count));
        self.position += count as u64;
        Ok(count)
    }
}

/// Says where the first difference is, if there is one.
fn assert_is_text(mut found: impl Read, len: u64) {
    let (mut text, mut position) = (Text::new(len), 0_u64);
    let (mut expected, mut bytes) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let count = text.read(&mut expected).unwrap();
        if count == 0 {
            assert_eq!(found.read(&mut bytes).unwrap(), 0, "there is more than was written");
            return;
        }
        found.read_exact(&mut bytes[..count]).unwrap_or_else(|error| panic!("at {position}: {error}"));
        assert!(bytes[..count] == expected[..count], "within 1 MiB from {position}");
        position += count as u64;
    }
}

fn decompressed(source: &Path, len: u64) {
    let mut zstd = Command::new("zstd").arg("-dcq").arg(source).stdout(Stdio::piped()).spawn().unwrap();
    assert_is_text(zstd.stdout.take().unwrap(), len);
    assert!(zstd.wait().unwrap().success());
}

#[test]
fn large_file_is_written_and_read_anywhere() {
    if mounting::is_forbidden() {
        return;
    }
    let (mount, len) = (Mounted::new(&["unzstd"]), large());
    let path = mount.at("file");
    let mut file = File::create(&path).unwrap();
    io::copy(&mut Text::new(len), &mut file).unwrap();
    file.flush().unwrap();
    millstream_sys::written::close_copy(&file).unwrap();
    drop(file);
    decompressed(&mount.source("file.zst"), len);
    assert_eq!(fs::metadata(&path).unwrap().len(), len);
    assert_is_text(File::open(&path).unwrap(), len);
    let (file, mut random) = (File::open(&path).unwrap(), fastrand::Rng::with_seed(len));
    for _ in 0..200 {
        let (offset, mut bytes) = (random.u64(..len - 4096), [0; 4096]);
        file.read_exact_at(&mut bytes, offset).unwrap();
        assert!(bytes[..] == Text::piece(offset, 4096), "at {offset}");
    }
    assert_eq!(mount.log(), "");
    println!("{len} bytes; the daemon had {} MiB at most", mount.peak_kibibytes() >> 10);
    // Neither the file nor its index is in memory: 32 MiB of it are the cache.
    assert!(mount.peak_kibibytes() < 128 << 10, "{} KiB", mount.peak_kibibytes());
}
