//! What it costs to take bytes from a pipe to somewhere else, or from somewhere else into a pipe: `copy_to` and
//! `copy_from` beside a loop of `read` and `write` with 64 KiB of memory, in GB/s, medians of interleaved pairs.
//!
//! ```text
//! cargo run --release -p millstream-pipe --example splicing [MEBIBYTES [PAIRS]]
//! ```
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use millstream_pipe::{Reader, Writer, pipe};
use millstream_sys::fork::{self, Side};

const BUFFER: usize = 64 << 10;

#[derive(Clone, Copy, Debug)]
enum Place {
    Null,
    File,
    Socket,
    KernelPipe,
    Millstream,
}

#[derive(Clone, Copy, PartialEq)]
enum Carrier {
    Ring,
    Shadow,
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|number| number.parse::<u64>().expect("a number"));
    let (bytes, pairs) = (arguments.next().unwrap_or(256) << 20, arguments.next().unwrap_or(5));
    println!("{:<38} {:>14} {:>10} {:>7}", "", "read and write", "spliced", "");
    for carrier in [Carrier::Ring, Carrier::Shadow] {
        for place in [Place::Null, Place::File, Place::Socket, Place::KernelPipe, Place::Millstream] {
            row("to", place, carrier, pairs, |spliced| take(place, carrier, spliced, bytes));
        }
        for place in [Place::File, Place::Socket, Place::KernelPipe, Place::Millstream] {
            row("from", place, carrier, pairs, |spliced| give(place, carrier, spliced, bytes));
        }
    }
}

fn row(direction: &str, place: Place, carrier: Carrier, pairs: u64, mut run: impl FnMut(bool) -> f64) {
    let carried = if carrier == Carrier::Ring { "ring" } else { "kernel" };
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..pairs {
        rates[0].push(run(false));
        rates[1].push(run(true));
    }
    let [plain, spliced] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    println!(
        "{:<38} {plain:>14.2} {spliced:>10.2} {:>6.2}x",
        format!("{carried} {direction} {place:?}"),
        spliced / plain
    );
}

/// In a child, which ends when `body` does.
fn in_child(body: impl FnOnce()) -> fork::Child {
    // SAFETY: this program has one thread.
    match unsafe { fork::fork() }.expect("a child") {
        Side::Child => {
            body();
            fork::exit_at_once(0)
        }
        Side::Parent(child) => child,
    }
}

/// A pipe on its route, and what keeps it there.
fn carried(carrier: Carrier) -> (Reader, Writer, Option<OwnedFd>) {
    let (reader, writer) = pipe().expect("a pipe");
    let given = (carrier == Carrier::Shadow).then(|| reader.try_clone().and_then(Reader::into_fd).expect("given away"));
    (reader, writer, given)
}

fn produce(mut to: impl Write, bytes: u64) {
    let buffer = vec![7; BUFFER];
    (0..bytes / BUFFER as u64).for_each(|_| to.write_all(&buffer).expect("a reader"));
}

fn devour(mut from: impl Read) {
    let mut buffer = vec![0; BUFFER];
    while from.read(&mut buffer).expect("bytes") > 0 {}
}

fn relay(mut from: impl Read, mut to: impl Write) {
    let mut buffer = vec![0; BUFFER];
    while let count @ 1.. = from.read(&mut buffer).expect("bytes") {
        to.write_all(&buffer[..count]).expect("room");
    }
}

fn gigabytes_a_second(bytes: u64, body: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    body();
    bytes as f64 / begin.elapsed().as_secs_f64() / 1e9
}

/// On tmpfs, of the size of what is moved, with its pages: writing them anew is what is measured.
fn file(bytes: u64) -> File {
    let mut file = millstream_sys::memory::anonymous_file().expect("memory");
    produce(&file, bytes);
    file.rewind().expect("a file");
    file
}

/// From the pipe to a place.
fn take(place: Place, carrier: Carrier, spliced: bool, bytes: u64) -> f64 {
    let (reader, writer, given) = carried(carrier);
    let (last, between, _given) = carried(Carrier::Ring);
    let (to, from): (OwnedFd, Option<OwnedFd>) = match place {
        Place::Null | Place::Millstream => (File::create("/dev/null").expect("a device").into(), None),
        Place::File => (file(bytes).into(), None),
        Place::Socket => {
            let (to, from) = UnixStream::pair().expect("sockets");
            (to.into(), Some(from.into()))
        }
        Place::KernelPipe => {
            let (from, to) = std::io::pipe().expect("a pipe");
            (to.into(), Some(from.into()))
        }
    };
    let (to, from) = (File::from(to), from.map(File::from));
    let (writer, last, to) = (Some(writer), Some(last), Some(to));
    let (mut kept, mut between) = ((writer, last, to, from), Some(between));
    let producer = in_child(|| {
        drop((kept.1.take(), kept.2.take(), kept.3.take(), between.take()));
        produce(kept.0.take().expect("the writer"), bytes);
    });
    let devourer = in_child(|| {
        drop((kept.0.take(), kept.2.take(), between.take()));
        match (place, kept.3.take(), kept.1.take()) {
            (Place::Millstream, _, Some(last)) => devour(last),
            (_, Some(from), _) => devour(from),
            _ => {}
        }
    });
    drop((kept.0.take(), kept.1.take(), kept.3.take()));
    let to = kept.2.take().expect("the target");
    let between = between.take().expect("the second pipe");
    let rate = gigabytes_a_second(bytes, || match (place, spliced) {
        (Place::Millstream, true) => assert_eq!(reader.copy_to_pipe(&between, u64::MAX).expect("room"), bytes),
        (Place::Millstream, false) => relay(&reader, &between),
        (_, true) => assert_eq!(reader.copy_to(&to, u64::MAX).expect("room"), bytes),
        (_, false) => relay(&reader, &to),
    });
    drop((to, between, given));
    wait_for([producer, devourer]);
    rate
}

/// From a place into the pipe.
fn give(place: Place, carrier: Carrier, spliced: bool, bytes: u64) -> f64 {
    let (reader, writer, given) = carried(carrier);
    let (first, between, _given) = carried(Carrier::Ring);
    let (from, to): (OwnedFd, Option<OwnedFd>) = match place {
        Place::File => (file(bytes).into(), None),
        Place::Socket => {
            let (to, from) = UnixStream::pair().expect("sockets");
            (from.into(), Some(to.into()))
        }
        _ => {
            let (from, to) = std::io::pipe().expect("a pipe");
            (from.into(), Some(to.into()))
        }
    };
    let (from, to) = (File::from(from), to.map(File::from));
    let (mut reader, mut between, mut to) = (Some(reader), Some(between), to);
    let (mut writer, mut first) = (Some(writer), Some(first));
    let producer = in_child(|| {
        drop((reader.take(), writer.take(), first.take()));
        match (place, to.take(), between.take()) {
            (Place::Millstream, _, Some(between)) => produce(between, bytes),
            (_, Some(to), _) => produce(to, bytes),
            _ => {}
        }
    });
    let devourer = in_child(|| {
        drop((between.take(), to.take(), writer.take(), first.take()));
        devour(reader.take().expect("the reader"));
    });
    drop((reader.take(), between.take(), to.take()));
    let (writer, first) = (writer.take().expect("the writer"), first.take().expect("the first pipe"));
    let begin = Instant::now();
    let moved = match (place, spliced) {
        (Place::Millstream, true) => first.copy_to_pipe(&writer, u64::MAX).expect("bytes"),
        (Place::Millstream, false) => {
            relay(&first, &writer);
            bytes
        }
        (_, true) => writer.copy_from(borrowed(&from), u64::MAX).expect("bytes"),
        (_, false) => {
            relay(&from, &writer);
            bytes
        }
    };
    assert_eq!(moved, bytes);
    drop((writer, given));
    let rate = bytes as f64 / begin.elapsed().as_secs_f64() / 1e9;
    wait_for([producer, devourer]);
    rate
}

fn borrowed(file: &File) -> BorrowedFd<'_> {
    file.as_fd()
}

fn wait_for(children: [fork::Child; 2]) {
    for child in children {
        child.wait().expect("a child");
    }
}
