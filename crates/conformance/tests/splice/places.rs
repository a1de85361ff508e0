//! What is at the other side of a splice, and what carries the stream.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::LazyLock;

use millstream_conformance::pattern::{Random, bytes, check};
use millstream_conformance::process::new_directory;
use millstream_conformance::task::{Task, start};
use millstream_conformance::{error_of, ours, pattern};
use millstream_pipe::{Builder, Reader, Writer};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};

pub(crate) const TOTAL: u64 = 700_000;

/// What carries the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The ring, which is small enough to wrap around.
    Ring,
    /// The backing pipe, because a copy of the other end is exported.
    Shadow,
    /// The kernel alone.
    Kernel,
}

pub(crate) const ROUTES: [Route; 3] = [Route::Ring, Route::Shadow, Route::Kernel];

/// A pipe, and what keeps it on its route.
pub(crate) fn pipe(route: Route) -> (Reader, Writer, Option<OwnedFd>) {
    let builder = Builder::new().capacity(65_536).cloexec(route != Route::Kernel);
    let (reader, writer) = builder.create().unwrap();
    // A copy of the read end: the end of the stream comes all the same.
    let given = (route == Route::Shadow).then(|| reader.try_clone().unwrap().into_fd().unwrap());
    (reader, writer, given)
}

/// What is at the other side of a splice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    File,
    UnixSocket,
    TcpSocket,
    Pipe,
    /// A FIFO has no `RWF_NOWAIT`.
    Fifo,
    Terminal,
    /// The master side cannot be opened once more.
    TerminalMaster,
    /// A millstream end that is exported.
    GivenEnd,
}

pub(crate) const PLACES: [Place; 8] = [
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
pub(crate) fn path(name: &str) -> PathBuf {
    static DIRECTORY: LazyLock<PathBuf> = LazyLock::new(|| new_directory().unwrap());
    DIRECTORY.join(name)
}

pub(crate) struct Clean;

impl Drop for Clean {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(path(""));
    }
}

/// What a socket here takes before it is full, about: what the system gives it may be more than a test has to send.
const SOCKET_BUFFER: usize = 100_000;

/// Two ends of a connection.
pub(crate) fn unix() -> (UnixStream, UnixStream) {
    let (one, other) = UnixStream::pair().unwrap();
    for end in [&one, &other] {
        set_socket_send_buffer_size(end, SOCKET_BUFFER).unwrap();
    }
    (one, other)
}

/// Two ends of a connection.
pub(crate) fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let other = listener.accept().unwrap().0;
    for end in [&one, &other] {
        set_socket_send_buffer_size(end, SOCKET_BUFFER).unwrap();
        set_socket_recv_buffer_size(end, SOCKET_BUFFER).unwrap();
    }
    (one, other)
}

pub(crate) fn fifo() -> (OwnedFd, OwnedFd) {
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
pub(crate) fn terminal() -> (OwnedFd, OwnedFd) {
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

pub(crate) fn file() -> File {
    File::options().read(true).write(true).create(true).truncate(true).open(path("file")).unwrap()
}

/// Reads all that comes and checks it; returns how much.
pub(crate) fn drain(mut from: File) -> Task<u64> {
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
pub(crate) fn copy_until_full(reader: &Reader, to: impl AsFd) -> u64 {
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
pub(crate) fn target(place: Place) -> (OwnedFd, Box<dyn FnOnce() -> u64>) {
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
            let (to, from) = unix();
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
pub(crate) fn source(place: Place) -> (OwnedFd, Option<Task<()>>) {
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
            let (from, to) = unix();
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

pub(crate) fn length(random: &mut Random) -> u64 {
    let largest = [2, 5000, 70_000, 300_000][random.within(0..4)];
    random.within(1..largest) as u64
}

/// Copies by calls of all lengths, to the end of the stream.
pub(crate) fn copy_to_end(reader: &Reader, to: BorrowedFd<'_>, random: &mut Random) -> u64 {
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

pub(crate) fn start_writing(writer: Writer, total: u64) -> Task<Writer> {
    start(move || {
        let writer = ours::Writer(writer);
        pattern::write_stream(&writer, 0..total, 9000);
        writer.0
    })
}

pub(crate) fn start_reading(reader: Reader) -> Task<u64> {
    start(move || pattern::read_stream(&ours::Reader(reader), 0, 9000))
}

pub(crate) fn fill(writer: &Writer) -> u64 {
    pattern::fill(&ours::Writer(writer.try_clone().unwrap()), 0) as u64
}

pub(crate) fn rest(reader: Reader) -> Vec<u8> {
    pattern::read_to_end(&ours::Reader(reader))
}
