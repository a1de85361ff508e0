//! The daemon of a mount is killed while programs write: every source is an old version or a new one, whole.

mod common;
mod mounting;

use std::fs::{self, File};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mounting::Mounted;

/// `MILLSTREAM_LIVES=1000` for more (`make check-mount`).
fn lives() -> u64 {
    std::env::var("MILLSTREAM_LIVES").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

const FILES: usize = 4;

/// A version of a file: one letter, so often that a mixture or a part shows.
fn version(number: u64) -> Vec<u8> {
    vec![b'a' + (number % 26) as u8; 1000 + (number as usize * 7919) % 300_000]
}

#[test]
fn killed_daemon_leaves_whole_versions() {
    if mounting::is_forbidden() {
        return;
    }
    let mut changed = 0;
    for life in 0..lives() {
        let mut mount = Mounted::new(&["gunzip"]);
        for file in 0..FILES {
            let name = format!("{file}.gz");
            fs::write(mount.source(&name), mounting::piped("gzip", &["-1c"], &version(0))).unwrap();
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..FILES)
            .map(|file| {
                let (path, is_over) = (mount.at(&file.to_string()), Arc::clone(&is_over));
                std::thread::spawn(move || write_versions(&path, life, &is_over))
            })
            .collect();
        // A point that differs from life to life, and that is the same for each run.
        std::thread::sleep(Duration::from_micros(life * 7919 % 40_000));
        mount.signal("KILL");
        mount.wait();
        is_over.store(true, Ordering::Relaxed);
        let last: Vec<u64> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        for (file, last) in last.iter().enumerate() {
            let found = mounting::piped("gzip", &["-dc"], &fs::read(mount.source(&format!("{file}.gz"))).unwrap());
            // The last one may have been put in place before the daemon could say so.
            let is_version = (0..=last + 1).any(|number| found == version(number));
            assert!(is_version, "life {life}, file {file}: {} bytes of {:?}", found.len(), found.first());
            changed += u64::from(found != version(0));
        }
        drop(mount);
    }
    println!("{} lives, {changed} files had a new version", lives());
    assert!(changed > 0, "nothing was ever written before the daemon was killed");
}

/// Writes versions until the mount is gone. Returns the number of the last one that was closed without an error, or begun.
fn write_versions(path: &std::path::Path, life: u64, is_over: &AtomicBool) -> u64 {
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        let next = number + 1;
        let written = File::create(path).and_then(|mut file| {
            for piece in version(next).chunks(1 + (life as usize * 331) % 70_000) {
                file.write_all(piece)?;
            }
            millstream_sys::written::close_copy(&file)
        });
        if written.is_err() {
            return number;
        }
        number = next;
    }
    number
}
