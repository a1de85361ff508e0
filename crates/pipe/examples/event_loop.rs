//! An event loop over several pipes: `poll(2)` says which of them can be read, and none of them blocks.
//!
//! `cargo run -p millstream-pipe --example event_loop [PIPES]`

use std::io::{self, ErrorKind, Read, Write};
use std::thread;
use std::time::Duration;

use millstream_pipe::{Builder, Reader};
use rustix::event::{PollFd, PollFlags, poll};

/// A pipe, and what came out of it.
struct Source {
    reader: Reader,
    bytes: usize,
}

fn main() -> io::Result<()> {
    let pipes = std::env::args().nth(1).map_or(Ok(3), |count| count.parse::<u8>()).map_err(io::Error::other)?;
    let mut sources = (1..=pipes).map(source).collect::<io::Result<Vec<_>>>()?;
    let mut total = 0;
    while !sources.is_empty() {
        let ready = wait(&sources)?;
        let mut is_ready = ready.into_iter();
        // A source whose stream has ended leaves the loop.
        let mut outcome = Ok(());
        sources.retain_mut(|source| {
            if !is_ready.next().unwrap_or(false) || outcome.is_err() {
                return true;
            }
            match drain(source) {
                Ok(has_ended) => {
                    total += if has_ended { source.bytes } else { 0 };
                    !has_ended
                }
                Err(error) => {
                    outcome = Err(error);
                    true
                }
            }
        });
        outcome?;
    }
    println!("{total} bytes from {pipes} pipes");
    Ok(())
}

/// A pipe whose writer sends a few lines, each after a pause.
fn source(number: u8) -> io::Result<Source> {
    let (reader, mut writer) = Builder::new().create()?;
    reader.set_nonblocking(true)?;
    thread::spawn(move || {
        for line in 1..=3 {
            thread::sleep(Duration::from_millis(u64::from(number)));
            // The reader is this program, and stays until the end.
            writeln!(writer, "pipe {number}, line {line}").expect("the loop reads to the end");
        }
    });
    Ok(Source { reader, bytes: 0 })
}

/// Sleeps until one of them can be read, or has ended; says which.
fn wait(sources: &[Source]) -> io::Result<Vec<bool>> {
    let watched: Vec<_> = sources.iter().map(|source| source.reader.readiness()).collect::<io::Result<_>>()?;
    let mut polled: Vec<_> = watched.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    poll(&mut polled, None)?;
    Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect())
}

/// Reads what there is; whether that was the end.
fn drain(source: &mut Source) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    loop {
        match source.reader.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(count) => source.bytes += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
