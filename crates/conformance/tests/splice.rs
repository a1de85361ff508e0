//! Between a pipe and everything else that has a descriptor: `copy_to`, `copy_from`, `copy_to_pipe` and `tee`, over the ring, over
//! the shadow, and at a pipe that only the kernel carries.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use millstream_conformance::pattern::{self, Random, bytes, check};
use millstream_conformance::process::{HANDLED, count_signals, fork, interrupt, private_directories};
use millstream_conformance::seed::seed;
use millstream_conformance::task::{Task, start, start_and_wait_until_asleep};
use millstream_conformance::{alone, error_of, ours};
use millstream_pipe::{Builder, Reader, Writer};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

const TOTAL: u64 = 700_000;

/// Who carries the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// The ring, which is small enough to wrap around.
    Ring,
    /// The shadow, because a copy of the other end is in other hands.
    Shadow,
    /// The kernel alone.
    Kernel,
}

const ROUTES: [Route; 3] = [Route::Ring, Route::Shadow, Route::Kernel];

/// A pipe, and what keeps it on its route.
fn pipe(route: Route) -> (Reader, Writer, Option<OwnedFd>) {
    let builder = Builder::new().capacity(65_536).cloexec(route != Route::Kernel);
    let (reader, writer) = builder.create().unwrap();
    // A copy of the read end: the end of the stream comes all the same.
    let given = (route == Route::Shadow).then(|| reader.try_clone().unwrap().into_fd().unwrap());
    (reader, writer, given)
}

/// What is at the other side of a splice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    File,
    UnixSocket,
    TcpSocket,
    Pipe,
    /// A FIFO has no `RWF_NOWAIT`.
    Fifo,
    Terminal,
    /// The master side cannot be opened once more.
    TerminalMaster,
    /// A millstream end that was given away.
    GivenEnd,
}

const PLACES: [Place; 8] = [
    Place::File,
    Place::UnixSocket,
    Place::TcpSocket,
    Place::Pipe,
    Place::Fifo,
    Place::Terminal,
    Place::TerminalMaster,
    Place::GivenEnd,
];

/// A name in a directory that is this test's own: each runs in a process by itself.
fn path(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("millstream-splice-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    directory.join(name)
}

struct Clean;

impl Drop for Clean {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(path(""));
    }
}

fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

fn fifo() -> (OwnedFd, OwnedFd) {
    let path = path("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let open = |flags| rustix::fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let both = open(OFlags::RDWR);
    let ends = (open(OFlags::RDONLY), open(OFlags::WRONLY));
    drop(both);
    std::fs::remove_file(&path).unwrap();
    ends
}

/// A terminal that hands on every byte as it is, and its master.
fn terminal() -> (OwnedFd, OwnedFd) {
    use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap();
    let mut settings = rustix::termios::tcgetattr(&slave).unwrap();
    settings.make_raw();
    rustix::termios::tcsetattr(&slave, rustix::termios::OptionalActions::Now, &settings).unwrap();
    (slave, master)
}

fn file() -> File {
    File::options().read(true).write(true).create(true).truncate(true).open(path("file")).unwrap()
}

/// Reads all that comes and checks it; returns how much.
fn drain(mut from: File) -> Task<u64> {
    start(move || {
        let (mut position, mut buffer) = (0, vec![0; 50_000]);
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return position,
                // What a terminal says when its other side is gone.
                Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => return position,
                count => {
                    let count = count.unwrap();
                    check(position, &buffer[..count]);
                    position += count as u64;
                }
            }
        }
    })
}

/// Copies until a target that does not block takes nothing more; returns how much it took. More than one call may be
/// needed: what is on its way through a socket or a terminal makes room again when it arrives.
fn copy_until_full(reader: &Reader, to: impl AsFd) -> u64 {
    let mut count = 0;
    loop {
        match reader.copy_to(&to, u64::MAX) {
            Ok(moved) => count += moved,
            Err(error) => {
                assert_eq!(error_of::<()>(Err(error)), Errno::AGAIN);
                return count;
            }
        }
    }
}

/// Where to write to; once that is closed the second tells how many bytes arrived, all of them right.
fn target(place: Place) -> (OwnedFd, Box<dyn FnOnce() -> u64>) {
    let drained = |to: OwnedFd, from: OwnedFd| -> (OwnedFd, Box<dyn FnOnce() -> u64>) {
        let task = drain(from.into());
        (to, Box::new(move || task.join()))
    };
    match place {
        Place::File => {
            let written = file();
            let mut from_start = written.try_clone().unwrap();
            let count = move || {
                let end = from_start.stream_position().unwrap();
                from_start.rewind().unwrap();
                let mut all = Vec::new();
                from_start.read_to_end(&mut all).unwrap();
                check(0, &all);
                assert_eq!(end, all.len() as u64, "the position has moved on");
                end
            };
            (written.into(), Box::new(count))
        }
        Place::UnixSocket => {
            let (to, from) = UnixStream::pair().unwrap();
            drained(to.into(), from.into())
        }
        Place::TcpSocket => {
            let (to, from) = tcp();
            drained(to.into(), from.into())
        }
        Place::Pipe => {
            let (from, to) = std::io::pipe().unwrap();
            drained(to.into(), from.into())
        }
        Place::Fifo => {
            let (from, to) = fifo();
            drained(to, from)
        }
        Place::Terminal => {
            let (to, from) = terminal();
            drained(to, from)
        }
        Place::TerminalMaster => {
            let (from, to) = terminal();
            // What has not been read when the master goes is gone with it.
            let keep = to.try_clone().unwrap();
            let task = start(move || {
                let mut all = vec![0; TOTAL as usize];
                File::from(from).read_exact(&mut all).unwrap();
                check(0, &all);
                TOTAL
            });
            let count = move || {
                let count = task.join();
                drop(keep);
                count
            };
            (to, Box::new(count))
        }
        Place::GivenEnd => {
            let (reader, writer) = millstream_pipe::pipe().unwrap();
            let to = writer.into_fd().unwrap();
            let task = start(move || pattern::read_stream(&ours::Reader(reader), 0, 30_000));
            (to, Box::new(move || task.join()))
        }
    }
}

/// Where to read `TOTAL` bytes from, and what is to be waited for in the end.
fn source(place: Place) -> (OwnedFd, Option<Task<()>>) {
    let filled = |from: OwnedFd, to: OwnedFd| {
        let mut to = File::from(to);
        let task = start(move || {
            to.write_all(&bytes(0..TOTAL)).unwrap();
            // The rest of what was written to a terminal is gone with its master.
            if matches!(place, Place::Terminal | Place::TerminalMaster) {
                std::mem::forget(to);
            }
        });
        (from, Some(task))
    };
    match place {
        Place::File => {
            let mut source = file();
            source.write_all(&bytes(0..TOTAL)).unwrap();
            source.rewind().unwrap();
            (source.into(), None)
        }
        Place::UnixSocket => {
            let (from, to) = UnixStream::pair().unwrap();
            filled(from.into(), to.into())
        }
        Place::TcpSocket => {
            let (from, to) = tcp();
            filled(from.into(), to.into())
        }
        Place::Pipe => {
            let (from, to) = std::io::pipe().unwrap();
            filled(from.into(), to.into())
        }
        Place::Fifo => {
            let (from, to) = fifo();
            filled(from, to)
        }
        Place::Terminal => {
            let (from, to) = terminal();
            filled(from, to)
        }
        Place::TerminalMaster => {
            let (to, from) = terminal();
            filled(from, to)
        }
        Place::GivenEnd => {
            let (reader, writer) = millstream_pipe::pipe().unwrap();
            let from = reader.into_fd().unwrap();
            (from, Some(start(move || pattern::write_stream(&ours::Writer(writer), 0..TOTAL, 30_000))))
        }
    }
}

fn length(random: &mut Random) -> u64 {
    let largest = [2, 5000, 70_000, 300_000][random.within(0..4)];
    random.within(1..largest) as u64
}

/// Copies by calls of all lengths, to the end of the stream.
fn copy_to_end(reader: &Reader, to: BorrowedFd<'_>, random: &mut Random) -> u64 {
    let mut total = 0;
    loop {
        let wanted = length(random);
        match reader.copy_to(to, wanted).unwrap() {
            0 => return total,
            count => {
                assert!(count <= wanted);
                total += count;
            }
        }
    }
}

fn start_writing(writer: Writer, total: u64) -> Task<Writer> {
    start(move || {
        let writer = ours::Writer(writer);
        pattern::write_stream(&writer, 0..total, 9000);
        writer.0
    })
}

fn start_reading(reader: Reader) -> Task<u64> {
    start(move || pattern::read_stream(&ours::Reader(reader), 0, 9000))
}

fn fill(writer: &Writer) -> u64 {
    pattern::fill(&ours::Writer(writer.try_clone().unwrap()), 0) as u64
}

fn rest(reader: Reader) -> Vec<u8> {
    pattern::read_to_end(&ours::Reader(reader))
}

// Every byte, from everywhere to everywhere.
alone! {
    fn every_byte_arrives_at_every_kind_of_target_by_every_route() {
        let _clean = Clean;
        let mut random = Random::from_seed(seed());
        for (place, route) in PLACES.into_iter().flat_map(|place| ROUTES.map(|route| (place, route))) {
            let (reader, writer, given) = pipe(route);
            let (to, arrived) = target(place);
            let task = start_writing(writer, TOTAL);
            let first = reader.copy_to(&to, 100_000).unwrap();
            assert_eq!(first, 100_000, "{place:?} {route:?}");
            let closing = start(move || drop(task.join()));
            assert_eq!(first + copy_to_end(&reader, to.as_fd(), &mut random), TOTAL, "{place:?} {route:?}");
            closing.join();
            assert_eq!(reader.statistics().bytes_spliced, TOTAL);
            assert_eq!(reader.statistics().bytes_through_kernel, if route == Route::Ring { 0 } else { TOTAL });
            drop((to, given));
            assert_eq!(arrived(), TOTAL, "{place:?} {route:?}");
        }
    }

    fn every_byte_arrives_from_every_kind_of_source_by_every_route() {
        let _clean = Clean;
        let mut random = Random::from_seed(seed());
        for (place, route) in PLACES.into_iter().flat_map(|place| ROUTES.map(|route| (place, route))) {
            let (reader, writer, given) = pipe(route);
            let (from, task) = source(place);
            let reading = start_reading(reader);
            let mut total = 0;
            while total < TOTAL {
                let wanted = length(&mut random).min(TOTAL - total);
                let count = writer.copy_from(&from, wanted).unwrap();
                assert_eq!(count, wanted, "{place:?} {route:?}");
                total += count;
            }
            if let Some(task) = task {
                task.join();
            }
            if !matches!(place, Place::Terminal | Place::TerminalMaster) {
                assert_eq!(writer.copy_from(&from, u64::MAX).unwrap(), 0, "{place:?} {route:?}");
            }
            assert_eq!(writer.statistics().bytes_spliced, TOTAL);
            drop((writer, given));
            assert_eq!(reading.join(), TOTAL, "{place:?} {route:?}");
        }
    }

    fn every_byte_arrives_from_pipe_to_pipe_by_every_route() {
        let mut random = Random::from_seed(seed());
        for (first, second) in ROUTES.into_iter().flat_map(|first| ROUTES.map(|second| (first, second))) {
            let ((reader, writer, _given), (last, between, _too)) = (pipe(first), pipe(second));
            let writing = start_writing(writer, TOTAL);
            let closing = start(move || drop(writing.join()));
            let reading = start_reading(last);
            let mut total = 0;
            loop {
                match reader.copy_to_pipe(&between, length(&mut random)).unwrap() {
                    0 => break,
                    count => total += count,
                }
            }
            closing.join();
            assert_eq!(total, TOTAL, "{first:?} {second:?}");
            assert_eq!((reader.statistics().bytes_spliced, between.statistics().bytes_spliced), (TOTAL, TOTAL));
            drop(between);
            assert_eq!(reading.join(), TOTAL, "{first:?} {second:?}");
        }
    }

    fn until_the_end_is_until_the_end() {
        let _clean = Clean;
        for route in ROUTES {
            let (reader, writer, _given) = pipe(route);
            let (last, between, _too) = pipe(route);
            let writing = start(move || drop(start_writing(writer, TOTAL).join()));
            let relaying = start(move || reader.copy_to_pipe(&between, u64::MAX).unwrap());
            let mut target = file();
            assert_eq!(last.copy_to(&target, u64::MAX).unwrap(), TOTAL, "{route:?}");
            assert_eq!(last.copy_to(&target, u64::MAX).unwrap(), 0);
            assert_eq!(relaying.join(), TOTAL);
            writing.join();
            target.rewind().unwrap();
            let (reader, writer, _given) = pipe(route);
            let reading = start_reading(reader);
            assert_eq!(writer.copy_from(&target, u64::MAX).unwrap(), TOTAL);
            drop(writer);
            assert_eq!(reading.join(), TOTAL);
        }
    }

    fn what_is_devoured_is_counted_and_nothing_is_nothing() {
        for route in ROUTES {
            let (reader, writer, _given) = pipe(route);
            let null = File::options().read(true).write(true).open("/dev/null").unwrap();
            assert_eq!((reader.copy_to(&null, 0).unwrap(), writer.copy_from(&null, 0).unwrap()), (0, 0));
            assert_eq!(writer.copy_from(&null, 10).unwrap(), 0, "it ends where it begins");
            let zero = File::open("/dev/zero").unwrap();
            assert_eq!(writer.copy_from(&zero, 5000).unwrap(), 5000);
            assert_eq!(reader.copy_to(&null, 4000).unwrap(), 4000);
            assert_eq!(pattern::read_exact(&ours::Reader(reader), 1000), [0; 1000]);
        }
    }

    fn several_copy_and_read_at_once_and_each_byte_goes_to_one() {
        let _clean = Clean;
        let (reader, writer, _none) = pipe(Route::Ring);
        let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        let (one, other) = (reader.try_clone().unwrap(), reader.try_clone().unwrap());
        let (mut socket, peer) = UnixStream::pair().unwrap();
        let to_file = start(move || {
            let mut target = file();
            assert!(one.copy_to(&target, u64::MAX).is_ok());
            target.rewind().unwrap();
            let mut all = Vec::new();
            target.read_to_end(&mut all).unwrap();
            all
        });
        let to_socket = start(move || other.copy_to(&peer, u64::MAX).unwrap());
        let from_socket = start(move || {
            let mut all = Vec::new();
            socket.read_to_end(&mut all).unwrap();
            all
        });
        let reading = start(move || rest(reader));
        let copied = writer.try_clone().unwrap();
        let copying = start(move || {
            let mut source = File::from(rustix::fs::memfd_create("source", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
            source.write_all(&bytes(0..TOTAL)).unwrap();
            source.rewind().unwrap();
            assert_eq!(copied.copy_from(&source, u64::MAX).unwrap(), TOTAL);
        });
        drop(start_writing(writer, TOTAL).join());
        copying.join();
        let all = [to_file.join(), from_socket.join(), reading.join()];
        let moved = to_socket.join();
        assert_eq!(moved, all[1].len() as u64);
        assert_eq!(all.iter().map(|part| part.len() as u64).sum::<u64>(), 2 * TOTAL);
        assert_eq!(all.iter().map(|part| sum(part)).sum::<u64>(), 2 * sum(&bytes(0..TOTAL)));
    }
}

// What the other side does not take stays in the pipe.
alone! {
    fn a_full_device_takes_nothing_and_nothing_is_lost() {
        for route in ROUTES {
            let (reader, writer, _given) = pipe(route);
            let full = File::options().write(true).open("/dev/full").unwrap();
            assert_eq!(start_writing(writer, 20_000).join().copy_from(&full, 0).map_err(|e| e.raw_os_error()), Err(Some(9)));
            assert_eq!(error_of(reader.copy_to(&full, u64::MAX)), Errno::NOSPC, "{route:?}");
            let left = rest(reader);
            check(0, &left);
            assert_eq!(left.len(), 20_000);
        }
    }

    fn a_disk_that_becomes_full_keeps_what_it_took_and_the_pipe_the_rest() {
        const ROOM: usize = 40 << 10;
        private_directories(ROOM);
        for (route, append) in ROUTES.into_iter().flat_map(|route| [(route, false), (route, true)]) {
            let (reader, writer, _given) = pipe(route);
            let path = format!("/tmp/{route:?}");
            let target = File::options().create(true).append(append).write(true).open(&path).unwrap();
            ours::Writer(writer).0.write_all(&bytes(0..60_000)).unwrap();
            let count = reader.copy_to(&target, u64::MAX).unwrap();
            let taken = std::fs::read(&path).unwrap();
            assert_eq!(count, taken.len() as u64, "{route:?} {append}");
            assert!((1..60_000).contains(&count));
            assert_eq!(error_of(reader.copy_to(&target, u64::MAX)), Errno::NOSPC);
            check(0, &taken);
            let left = rest(reader);
            check(count, &left);
            assert_eq!(count + left.len() as u64, 60_000);
            drop(target);
            std::fs::remove_file(&path).unwrap();
        }
    }

    fn a_file_at_its_limit_keeps_what_it_took_and_the_pipe_the_rest() {
        let _clean = Clean;
        count_signals(Signal::XFSZ, true);
        for route in ROUTES {
            let (reader, writer, _given) = pipe(route);
            drop(start_writing(writer, 50_000).join());
            let (target, before) = (file(), getrlimit(Resource::Fsize));
            setrlimit(Resource::Fsize, Rlimit { current: Some(30_000), ..before }).unwrap();
            assert_eq!(reader.copy_to(&target, u64::MAX).unwrap(), 30_000, "{route:?}");
            assert_eq!(error_of(reader.copy_to(&target, u64::MAX)), Errno::FBIG);
            setrlimit(Resource::Fsize, before).unwrap();
            let left = rest(reader);
            check(30_000, &left);
            assert_eq!(left.len(), 20_000);
        }
    }

    fn a_target_without_a_reader_is_a_broken_pipe_and_one_signal() {
        let _clean = Clean;
        count_signals(Signal::PIPE, true);
        let alone_ends = || {
            let (to_pipe, to_socket) = (std::io::pipe().unwrap().1, UnixStream::pair().unwrap().0);
            [OwnedFd::from(to_pipe), to_socket.into(), fifo().1]
        };
        for route in ROUTES {
            for to in alone_ends() {
                let (reader, writer, _given) = pipe(route);
                drop(start_writing(writer, 20_000).join());
                let before = HANDLED.load(SeqCst);
                assert_eq!(error_of(reader.copy_to(&to, u64::MAX)), Errno::PIPE, "{route:?} {to:?}");
                assert_eq!(HANDLED.load(SeqCst), before + 1, "{route:?} {to:?}");
                check(0, &rest(reader));
            }
            for second in ROUTES {
                let ((reader, writer, _given), (last, between, too)) = (pipe(route), pipe(second));
                drop((start_writing(writer, 20_000).join(), last, too));
                let before = HANDLED.load(SeqCst);
                assert_eq!(error_of(reader.copy_to_pipe(&between, u64::MAX)), Errno::PIPE, "{route:?} {second:?}");
                assert_eq!(error_of(reader.tee(&between, 1)), Errno::PIPE);
                assert_eq!(HANDLED.load(SeqCst), before + 2, "{route:?} {second:?}");
                let left = rest(reader);
                check(0, &left);
                assert_eq!(left.len(), 20_000);
            }
        }
    }

    fn a_full_target_that_does_not_block_takes_what_fits() {
        let _clean = Clean;
        for route in ROUTES {
            let sockets = UnixStream::pair().unwrap();
            let (from_tcp, to_tcp) = tcp();
            let (slave, master) = terminal();
            let (from_pipe, to_pipe) = std::io::pipe().unwrap();
            let (from_fifo, to_fifo) = fifo();
            let targets: [(OwnedFd, OwnedFd); 5] = [
                (sockets.0.into(), sockets.1.into()),
                (to_tcp.into(), from_tcp.into()),
                (to_pipe.into(), from_pipe.into()),
                (to_fifo, from_fifo),
                (slave, master),
            ];
            for (to, from) in targets {
                const MANY: u64 = 20_000_000;
                millstream_sys::transfer::set_nonblocking(&to, true).unwrap();
                let (reader, writer, given) = pipe(route);
                let writing = start(move || drop(start_writing(writer, MANY).join()));
                let count = copy_until_full(&reader, &to);
                assert!((1..MANY).contains(&count), "{route:?} {to:?}");
                millstream_sys::transfer::set_nonblocking(&to, false).unwrap();
                let arriving = drain(from.into());
                let more = reader.copy_to(&to, 100_000).unwrap();
                assert_eq!(more, 100_000, "{route:?} {to:?}");
                drop(to);
                assert_eq!(arriving.join(), count + more);
                let (mut left, mut buffer, mut reader) = (0, vec![0; 1 << 16], reader);
                while let moved @ 1.. = reader.read(&mut buffer).unwrap() {
                    check(count + more + left, &buffer[..moved]);
                    left += moved as u64;
                }
                assert_eq!(count + more + left, MANY, "{route:?}");
                writing.join();
                drop(given);
            }
        }
    }

    fn an_end_that_does_not_block_moves_what_there_is() {
        let _clean = Clean;
        for route in ROUTES {
            let (reader, writer, _given) = pipe(route);
            reader.set_nonblocking(true).unwrap();
            writer.set_nonblocking(true).unwrap();
            let mut both = file();
            assert_eq!(error_of(reader.copy_to(&both, 10)), Errno::AGAIN);
            both.write_all(&bytes(0..TOTAL)).unwrap();
            both.rewind().unwrap();
            let count = writer.copy_from(&both, u64::MAX).unwrap();
            assert!((4096..TOTAL).contains(&count), "{route:?}");
            assert_eq!(error_of(writer.copy_from(&both, u64::MAX)), Errno::AGAIN);
            assert_eq!(both.stream_position().unwrap(), count, "nothing was read that the pipe did not take");
            let target = std::env::temp_dir().join(path("target"));
            let target = File::options().create(true).truncate(true).write(true).open(target).unwrap();
            assert_eq!(reader.copy_to(&target, u64::MAX).unwrap(), count);
            assert_eq!(error_of(reader.copy_to(&target, u64::MAX)), Errno::AGAIN);
            let (quiet, _peer) = UnixStream::pair().unwrap();
            quiet.set_nonblocking(true).unwrap();
            assert_eq!(error_of(writer.copy_from(&quiet, 1)), Errno::AGAIN);
            for second in ROUTES {
                let (last, between, _too) = pipe(second);
                between.set_nonblocking(true).unwrap();
                assert_eq!(error_of(reader.copy_to_pipe(&between, 1)), Errno::AGAIN, "empty");
                assert_eq!(error_of(reader.tee(&between, 1)), Errno::AGAIN, "empty");
                fill(&between);
                between.set_nonblocking(true).unwrap();
                (&writer).write_all(b"x").unwrap();
                assert_eq!(error_of(reader.copy_to_pipe(&between, 1)), Errno::AGAIN, "full");
                assert_eq!(error_of(reader.tee(&between, 1)), Errno::AGAIN, "full");
                assert_eq!((&reader).read(&mut [0; 2]).unwrap(), 1);
                drop(last);
            }
        }
    }

    fn what_is_appended_comes_behind_what_was_there() {
        let _clean = Clean;
        for route in ROUTES {
            let (reader, writer, _given) = pipe(route);
            std::fs::write(path("log"), b"before ").unwrap();
            let log = File::options().append(true).open(path("log")).unwrap();
            (&writer).write_all(b"between after").unwrap();
            assert_eq!(reader.copy_to(&log, 8).unwrap(), 8, "{route:?}");
            File::options().append(true).open(path("log")).unwrap().write_all(b"and ").unwrap();
            drop(writer);
            assert_eq!(reader.copy_to(&log, u64::MAX).unwrap(), 5);
            assert_eq!(std::fs::read(path("log")).unwrap(), b"before between and after", "{route:?}");
        }
    }

    fn a_file_that_changes_later_does_not_change_what_was_copied_from_it() {
        let _clean = Clean;
        for route in ROUTES {
            let (reader, writer, _given) = pipe(route);
            let mut source = file();
            source.write_all(&bytes(0..20_000)).unwrap();
            source.rewind().unwrap();
            assert_eq!(writer.copy_from(&source, u64::MAX).unwrap(), 20_000);
            source.rewind().unwrap();
            source.write_all(&[0; 20_000]).unwrap();
            drop(writer);
            let copied = rest(reader);
            check(0, &copied);
            assert_eq!(copied.len(), 20_000, "{route:?}");
        }
    }

    fn who_may_not_be_written_to_or_read_from_is_refused() {
        let _clean = Clean;
        for route in ROUTES {
            let (reader, writer, given) = pipe(route);
            let (for_reading, for_writing) = (File::open("/dev/null").unwrap(), File::create(path("new")).unwrap());
            (&writer).write_all(b"x").unwrap();
            assert_eq!(error_of(reader.copy_to(&for_reading, 1)), Errno::BADF);
            assert_eq!(error_of(writer.copy_from(&for_writing, 1)), Errno::BADF);
            assert_eq!(error_of(reader.copy_to_pipe(&writer, 1)), Errno::INVAL);
            assert_eq!(error_of(reader.tee(&writer, 1)), Errno::INVAL);
            if let Some(given) = &given {
                assert_eq!(error_of(writer.copy_from(given, 1)), Errno::INVAL, "its own other end");
            }
            assert_eq!(reader.bytes_readable().unwrap(), 1);
        }
    }
}

// Sleep and signals.
alone! {
    fn who_copies_and_sleeps_holds_nobody_up() {
        for route in ROUTES {
            let (reader, writer, _given) = pipe(route);
            let (full, _peer) = UnixStream::pair().unwrap();
            let (quiet, _other_peer) = UnixStream::pair().unwrap();
            let (copier, target) = (reader.try_clone().unwrap(), full.try_clone().unwrap());
            let feeding = writer.try_clone().unwrap();
            let feeder = start(move || start_writing(feeding, 10_000_000).join());
            let to_full = start_and_wait_until_asleep(move || copier.copy_to(&target, u64::MAX));
            let (copier, source) = (writer.try_clone().unwrap(), quiet.try_clone().unwrap());
            // The feeder too.
            let from_quiet = start_and_wait_until_asleep(move || copier.copy_from(&source, u64::MAX));
            // What the feeder writes comes past the one, and what is read past the other.
            assert_eq!(pattern::read_exact(&ours::Reader(reader), 5_000_000).len(), 5_000_000, "{route:?}");
            assert!(!to_full.is_finished() && !from_quiet.is_finished() && !feeder.is_finished());
        }
    }

    fn a_signal_ends_a_sleep_with_what_was_moved_or_the_call_goes_on() {
        let _clean = Clean;
        for restart in [false, true] {
            count_signals(Signal::USR1, restart);
            for route in ROUTES {
                // Asleep because nothing comes, with and without something moved.
                for before in [0_u64, 5000] {
                    let (reader, writer, _given) = pipe(route);
                    (&writer).write_all(&bytes(0..before)).unwrap();
                    let target = file();
                    let task = start_and_wait_until_asleep(move || reader.copy_to(&target, 6000));
                    interrupt(task.id, Signal::USR1);
                    if restart {
                        std::thread::sleep(Duration::from_millis(20));
                        (&writer).write_all(&bytes(before..6000)).unwrap();
                    }
                    match (restart, before) {
                        (true, _) => assert_eq!(task.join().unwrap(), 6000, "{route:?}"),
                        (false, 0) => assert_eq!(error_of(task.join()), Errno::INTR, "{route:?}"),
                        (false, _) => assert_eq!(task.join().unwrap(), before, "{route:?}"),
                    }
                    let (quiet, mut peer) = UnixStream::pair().unwrap();
                    peer.write_all(&bytes(0..before)).unwrap();
                    let (reader, writer, _given) = pipe(route);
                    let task = start_and_wait_until_asleep(move || writer.copy_from(&quiet, 6000));
                    interrupt(task.id, Signal::USR1);
                    if restart {
                        std::thread::sleep(Duration::from_millis(20));
                        peer.write_all(&bytes(before..6000)).unwrap();
                    }
                    match (restart, before) {
                        (true, _) => assert_eq!(task.join().unwrap(), 6000, "{route:?}"),
                        (false, 0) => assert_eq!(error_of(task.join()), Errno::INTR, "{route:?}"),
                        (false, _) => assert_eq!(task.join().unwrap(), before, "{route:?}"),
                    }
                    check(0, &rest(reader));
                }
                // Asleep because nothing is taken.
                let (reader, writer, _given) = pipe(route);
                let (full, peer) = UnixStream::pair().unwrap();
                let writing = start(move || drop(start_writing(writer, 3_000_000).join()));
                let task = start_and_wait_until_asleep(move || (reader.copy_to(&full, u64::MAX), full, reader));
                interrupt(task.id, Signal::USR1);
                if restart {
                    let arriving = drain(OwnedFd::from(peer).into());
                    let (moved, socket, _reader) = task.join();
                    assert_eq!(moved.unwrap(), 3_000_000, "{route:?}");
                    drop(socket);
                    assert_eq!(arriving.join(), 3_000_000);
                } else {
                    let (moved, socket, reader) = task.join();
                    let moved = moved.unwrap();
                    assert!((1..3_000_000).contains(&moved), "{route:?}");
                    drop(socket);
                    assert_eq!(drain(OwnedFd::from(peer).into()).join(), moved);
                    let left = rest(reader);
                    check(moved, &left);
                    assert_eq!(moved + left.len() as u64, 3_000_000);
                }
                writing.join();
            }
        }
    }

    fn the_last_reader_goes_while_a_quiet_source_is_waited_for() {
        count_signals(Signal::PIPE, true);
        for route in [Route::Ring, Route::Kernel] {
            let (reader, writer, _given) = pipe(route);
            let (quiet, _peer) = UnixStream::pair().unwrap();
            let before = HANDLED.load(SeqCst);
            let task = start_and_wait_until_asleep(move || writer.copy_from(&quiet, u64::MAX));
            drop(reader);
            assert_eq!(error_of(task.join()), Errno::PIPE, "{route:?}");
            assert_eq!(HANDLED.load(SeqCst), before + 1);
        }
    }

    fn the_last_reader_goes_while_a_file_without_end_is_copied() {
        for route in [Route::Ring, Route::Kernel] {
            let (mut reader, writer, _given) = pipe(route);
            let task = start(move || {
                let zero = File::open("/dev/zero").unwrap();
                let moved = writer.copy_from(&zero, u64::MAX).unwrap();
                (moved, error_of(writer.copy_from(&zero, u64::MAX)))
            });
            reader.read_exact(&mut vec![1; 1_000_000]).unwrap();
            drop(reader);
            let (moved, error) = task.join();
            assert!(moved >= 1_000_000);
            assert_eq!(error, Errno::PIPE);
        }
    }
}

// Death.
alone! {
    fn a_writer_that_is_killed_has_ended_and_all_it_wrote_is_copied() {
        let _clean = Clean;
        let mut random = Random::from_seed(seed());
        for round in 0..60 {
            let (reader, writer, _none) = pipe(Route::Ring);
            let (child, (reader, writer)) = fork((reader, writer), |(reader, writer)| {
                drop(reader);
                let zero = File::open("/dev/zero").unwrap();
                match round % 2 {
                    0 => drop(writer.copy_from(&zero, u64::MAX)),
                    _ => loop {
                        (&writer).write_all(&[0; 7000]).unwrap();
                    },
                }
            });
            drop(writer);
            let target = file();
            let to = target.try_clone().unwrap();
            let task = start(move || reader.copy_to(&to, u64::MAX).unwrap());
            std::thread::sleep(Duration::from_micros(random.within(0..3000) as u64));
            child.kill();
            assert_eq!(task.join(), target.metadata().unwrap().len());
        }
    }

    fn a_reader_that_is_killed_ends_what_is_copied_from_a_file() {
        let mut random = Random::from_seed(seed());
        for _ in 0..60 {
            let (reader, writer, _none) = pipe(Route::Ring);
            let (child, (reader, writer)) = fork((reader, writer), |(reader, writer)| {
                drop(writer);
                let null = File::create("/dev/null").unwrap();
                let _ = reader.copy_to(&null, u64::MAX);
            });
            drop(reader);
            let task = start(move || {
                let zero = File::open("/dev/zero").unwrap();
                while writer.copy_from(&zero, u64::MAX).is_ok() {}
                error_of(writer.copy_from(&zero, 1))
            });
            std::thread::sleep(Duration::from_micros(random.within(0..3000) as u64));
            child.kill();
            assert_eq!(task.join(), Errno::PIPE);
        }
    }

    fn who_copies_is_killed_and_what_it_did_not_copy_is_still_there() {
        let _clean = Clean;
        // One call; see `PIECE` in `foreign.rs`.
        const PIECE: u64 = 128 << 10;
        let mut random = Random::from_seed(seed());
        for round in 0..90 {
            let route = [Route::Ring, Route::Ring, Route::Kernel][round % 3];
            let (reader, writer, _given) = pipe(route);
            let to_pipe = round % 2 == 1;
            let (last, between, _too) = pipe(route);
            let target = file();
            let (child, (reader, writer, last, between, target)) =
                fork((reader, writer, last, between, target), |(reader, writer, last, between, target)| {
                    drop((writer, last));
                    let _ = match to_pipe {
                        true => reader.copy_to_pipe(&between, u64::MAX),
                        false => reader.copy_to(&target, u64::MAX),
                    };
                });
            drop(between);
            let writing = start(move || drop(start_writing(writer, 5_000_000).join()));
            let arriving = start_reading(last);
            std::thread::sleep(Duration::from_micros(random.within(0..4000) as u64));
            child.signal(Signal::KILL);
            let _ = child.wait();
            let left = start(move || rest(reader));
            writing.join();
            let (left, copied) = (left.join(), arriving.join());
            let copied = if to_pipe { copied } else { target.metadata().unwrap().len() };
            let begin = 5_000_000 - left.len() as u64;
            check(begin, &left);
            // Between handing bytes over and consuming them is an instant.
            assert!(begin <= copied && copied - begin <= PIECE, "{copied} copied, the rest begins at {begin}");
        }
    }
}

// Copies of what waits.
alone! {
    fn what_is_teed_arrives_and_still_waits() {
        for (first, second) in ROUTES.into_iter().flat_map(|first| ROUTES.map(|second| (first, second))) {
            let ((reader, writer, _given), (last, between, _too)) = (pipe(first), pipe(second));
            (&writer).write_all(&bytes(0..30_000)).unwrap();
            assert_eq!(reader.tee(&between, 0).unwrap(), 0);
            assert_eq!(reader.tee(&between, 10_000).unwrap(), 10_000, "{first:?} {second:?}");
            assert_eq!(reader.bytes_readable().unwrap(), 30_000);
            assert_eq!((reader.statistics().bytes, between.statistics().bytes_spliced), (0, 10_000));
            let last = ours::Reader(last);
            check(0, &pattern::read_exact(&last, 10_000));
            assert_eq!(reader.tee(&between, usize::MAX).unwrap(), 30_000, "{first:?} {second:?}");
            check(0, &pattern::read_exact(&last, 30_000));
            drop(writer);
            let reader = ours::Reader(reader);
            check(0, &pattern::read_exact(&reader, 30_000));
            assert_eq!(reader.0.tee(&between, usize::MAX).unwrap(), 0, "the end");
        }
    }

    fn a_tee_sleeps_until_there_is_something_or_room() {
        for (first, second) in ROUTES.into_iter().flat_map(|first| ROUTES.map(|second| (first, second))) {
            let ((reader, writer, _given), (last, between, _too)) = (pipe(first), pipe(second));
            let task = start_and_wait_until_asleep(move || (reader.tee(&between, 100).unwrap(), reader, between));
            (&writer).write_all(b"grain").unwrap();
            let (count, reader, between) = task.join();
            assert_eq!(count, 5, "{first:?} {second:?}");
            assert_eq!(pattern::read_exact(&ours::Reader(last.try_clone().unwrap()), 5), b"grain");
            fill(&between);
            let task = start_and_wait_until_asleep(move || (reader.tee(&between, 100).unwrap(), reader, between));
            let drained = last.bytes_readable().unwrap();
            assert_eq!(pattern::read_exact(&ours::Reader(last.try_clone().unwrap()), drained).len(), drained);
            assert_eq!(task.join().0, 5, "{first:?} {second:?}");
            assert_eq!(pattern::read_exact(&ours::Reader(last), 5), b"grain");
        }
    }

    fn a_stream_is_teed_and_copied_on_as_the_program_tee_does() {
        for (first, second) in ROUTES.into_iter().flat_map(|first| ROUTES.map(|second| (first, second))) {
            let ((reader, writer, _given), (last, between, _too)) = (pipe(first), pipe(second));
            let (other, to_other, _three) = pipe(first);
            let writing = start(move || drop(start_writing(writer, TOTAL).join()));
            let (one, two) = (start_reading(last), start_reading(other));
            loop {
                let count = reader.tee(&between, 50_000).unwrap();
                if count == 0 {
                    break;
                }
                assert_eq!(reader.copy_to_pipe(&to_other, count as u64).unwrap(), count as u64);
            }
            drop((between, to_other));
            assert_eq!((one.join(), two.join()), (TOTAL, TOTAL), "{first:?} {second:?}");
            writing.join();
        }
    }

    fn two_relays_in_a_circle_and_two_who_resize_do_not_wait_for_each_other() {
        let ((first_reader, first_writer, _), (second_reader, second_writer, _)) = (pipe(Route::Ring), pipe(Route::Ring));
        (&first_writer).write_all(&[7; 30_000]).unwrap();
        let resizers = [first_writer.try_clone().unwrap(), second_writer.try_clone().unwrap()];
        let tasks = resizers.map(|writer| {
            start(move || {
                for round in 0..3000 {
                    // Refused while more waits.
                    let _ = writer.set_capacity(4096 << (round % 5));
                }
            })
        });
        let there = start(move || first_reader.copy_to_pipe(&second_writer, 50_000_000).unwrap());
        let back = start(move || second_reader.copy_to_pipe(&first_writer, 50_000_000).unwrap());
        for task in tasks {
            task.join();
        }
        assert!(there.join() > 30_000 && back.join() > 30_000);
    }
}
