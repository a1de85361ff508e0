//! Real text to measure with: what the machine has of documentation and sources, put together to a fixed size.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::cache;

/// The text that the old measurements used was 50 MB (MB = 10^6 bytes).
pub const BYTES: usize = 50_000_000;

/// Where text is found on most systems; read in this order, each in the order of names, until there is enough.
const PLACES: [&str; 6] =
    ["/usr/share/doc", "/usr/share/perl", "/usr/include", "/usr/lib/python3", "/usr/share", "/usr/lib"];

/// A text of [`BYTES`] bytes, made on first use and kept in the user's cache directory (`$XDG_CACHE_HOME/millstream`, or
/// `~/.cache/millstream`), or where there is none that can be written in the directory for temporary files.
///
/// # Errors
/// Whatever writing the file answers last; `NotFound` if the machine has no text at all.
pub fn text() -> io::Result<PathBuf> {
    let directories = [cache::directory(), Some(std::env::temp_dir())];
    let mut outcome = Err(io::ErrorKind::NotFound.into());
    for directory in directories.into_iter().flatten() {
        let directory = directory.join("millstream");
        let path = directory.join("text-50MB");
        if fs::metadata(&path).is_ok_and(|metadata| metadata.len() == BYTES as u64) {
            return Ok(path);
        }
        outcome = fs::create_dir_all(&directory).and_then(|()| write_whole(&path)).map(|()| path);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// The file appears whole or not at all.
fn write_whole(path: &Path) -> io::Result<()> {
    let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = File::create_new(&unfinished)
        .and_then(|mut file| file.write_all(&gather(&PLACES.map(PathBuf::from), BYTES)?))
        .and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// Exactly `bytes` bytes of the text files under `places`, repeated if they are less.
fn gather(places: &[PathBuf], bytes: usize) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(bytes);
    for place in places {
        append_directory(place, bytes, &mut text);
    }
    if text.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "no text under /usr/share, /usr/include or /usr/lib"));
    }
    while text.len() < bytes {
        let missing = (bytes - text.len()).min(text.len());
        text.extend_from_within(..missing);
    }
    text.truncate(bytes);
    Ok(text)
}

/// What cannot be read is passed over: any text will do.
fn append_directory(directory: &Path, bytes: usize, text: &mut Vec<u8>) {
    let mut entries: Vec<_> = fs::read_dir(directory).into_iter().flatten().flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if text.len() >= bytes {
            return;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => append_directory(&entry.path(), bytes, text),
            Ok(kind) if kind.is_file() => append_if_text(&entry.path(), text),
            _ => {}
        }
    }
}

fn append_if_text(path: &Path, text: &mut Vec<u8>) {
    let Ok(content) = fs::read(path) else { return };
    if !content.contains(&0) && std::str::from_utf8(&content).is_ok() {
        text.extend(content);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str, files: &[(&str, &[u8])]) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("millstream-corpus-{name}-{}", std::process::id()));
        fs::create_dir_all(directory.join("inner")).unwrap();
        for (name, content) in files {
            fs::write(directory.join(name), content).unwrap();
        }
        directory
    }

    #[test]
    fn text_is_gathered_in_order_and_binary_files_are_left_out() {
        let place = directory(
            "order",
            &[("b", b"two\n"), ("a", b"one\n"), ("c", b"\0\0"), ("d", b"\xff"), ("inner/e", b"three\n")],
        );
        let text = gather(std::slice::from_ref(&place), 14).unwrap();
        assert_eq!(text, b"one\ntwo\nthree\n");
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn too_little_is_repeated_and_too_much_is_cut() {
        let place = directory("size", &[("a", b"abc")]);
        assert_eq!(gather(std::slice::from_ref(&place), 8).unwrap(), b"abcabcab");
        assert_eq!(gather(std::slice::from_ref(&place), 2).unwrap(), b"ab");
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn no_text_at_all_is_an_error() {
        assert_eq!(gather(&["/nonexistent".into()], 8).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
