//! Ends as descriptors: duplicated, opened again, sent, and left to programs that know nothing of us. Each of them is the same end.
// The names say what is promised, and every one of them panics when it is not kept.
#![allow(missing_docs, clippy::missing_panics_doc, unsafe_code)]

use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::{DupFlags, Errno, FdFlags, dup, dup2, dup3, fcntl_dupfd_cloexec, fcntl_getfd, fcntl_setfd};

use crate::pattern::{bytes, check, get_going, read_exact, read_stream, read_to_end, write_all, write_stream};
use crate::process::fork;
use crate::socket::{receive, send};
use crate::task::{start, start_and_wait_until_asleep, wait_until_asleep};
use crate::{BetweenProcesses, End, Polled, ReadEnd, WriteEnd, error_of, kernel};

const TOTAL: u64 = 1 << 18;

/// Bytes that wait when an end becomes a descriptor.
const WAITING: u64 = 10_000;

/// Ends that know one another, with the beginning of the stream waiting between them.
pub(crate) fn going<I: BetweenProcesses>() -> (I::Reader, I::Writer) {
    let (reader, writer) = I::pipe().unwrap();
    get_going(&reader, &writer);
    write_all(&writer, &bytes(0..WAITING));
    (reader, writer)
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::null());
    command
}

/// All copies of an end that there are ways to make, itself first, with whether they are closed on exec.
fn copies(end: OwnedFd) -> Vec<(OwnedFd, bool)> {
    let placeholder = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    let (mut second, mut third) = (placeholder(), placeholder());
    dup2(&end, &mut second).unwrap();
    dup3(&end, &mut third, DupFlags::CLOEXEC).unwrap();
    let (plain, fourth, fifth) = (dup(&end), fcntl_dupfd(&end, 100), fcntl_dupfd_cloexec(&end, 200));
    let copies = [(plain, false), (fourth, false), (fifth, true)].map(|(copy, is_closed)| (copy.unwrap(), is_closed));
    assert!(copies[1].0.as_raw_fd() >= 100 && copies[2].0.as_raw_fd() >= 200);
    let is_closed = fcntl_getfd(&end).unwrap().contains(FdFlags::CLOEXEC);
    [(end, is_closed), (second, false), (third, true)].into_iter().chain(copies).collect()
}

/// `F_DUPFD`, which no library of ours has.
fn fcntl_dupfd(end: &OwnedFd, min: RawFd) -> rustix::io::Result<OwnedFd> {
    // SAFETY: no memory is involved, and nothing owns the new descriptor yet.
    match unsafe { libc::fcntl(end.as_raw_fd(), libc::F_DUPFD, min) } {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap()),
        // SAFETY: as above.
        copy => Ok(unsafe { OwnedFd::from_raw_fd(copy) }),
    }
}

fn is_nonblocking(end: impl AsFd) -> bool {
    rustix::fs::fcntl_getfl(end).unwrap().contains(OFlags::NONBLOCK)
}

pub fn copies_of_a_write_end_by_dup_and_fcntl_are_the_same_end<I: BetweenProcesses>() {
    let (reader, writer) = going::<I>();
    let mut copies = copies(writer.into_descriptor().unwrap());
    let mut at = WAITING;
    for (index, (copy, is_closed)) in copies.iter().enumerate() {
        assert_eq!(fcntl_getfd(copy).unwrap().contains(FdFlags::CLOEXEC), *is_closed, "copy {index}");
        assert_eq!(rustix::io::ioctl_fionread(copy), Ok(at));
        assert_eq!(rustix::io::write(copy, &bytes(at..at + 100)), Ok(100));
        at += 100;
    }
    // One open file description has one flag.
    rustix::io::ioctl_fionbio(&copies[3].0, true).unwrap();
    assert!(copies.iter().all(|(copy, _)| is_nonblocking(copy)));
    check(0, &read_exact(&reader, at as usize));
    reader.set_nonblocking(true).unwrap();
    while !copies.is_empty() {
        assert_eq!(error_of(reader.read(&mut [0])), Errno::AGAIN, "{} copies are open", copies.len());
        copies.remove(copies.len() / 2);
    }
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}

pub fn copies_of_a_read_end_by_dup_and_fcntl_are_the_same_end<I: BetweenProcesses>() {
    let (reader, writer) = going::<I>();
    let mut copies = copies(reader.into_descriptor().unwrap());
    let mut at = 0;
    for (index, (copy, is_closed)) in copies.iter().enumerate() {
        assert_eq!(fcntl_getfd(copy).unwrap().contains(FdFlags::CLOEXEC), *is_closed, "copy {index}");
        assert_eq!(rustix::io::ioctl_fionread(copy), Ok(WAITING - at));
        let mut buffer = [0; 100];
        assert_eq!(rustix::io::read(copy, &mut buffer), Ok(100));
        check(at, &buffer);
        at += 100;
    }
    rustix::io::ioctl_fionbio(&copies[2].0, true).unwrap();
    assert!(copies.iter().all(|(copy, _)| is_nonblocking(copy)));
    while !copies.is_empty() {
        write_all(&writer, b"x");
        copies.remove(copies.len() / 2);
    }
    assert_eq!(error_of(writer.write(b"x")), Errno::PIPE);
}

/// `/proc/self/fd/N` opens the pipe, not the end: the other description has flags of its own.
pub fn an_end_opened_once_more_by_its_number_has_flags_of_its_own<I: BetweenProcesses>() {
    let (reader, writer) = going::<I>();
    let (reader, writer) = (reader.into_descriptor().unwrap(), writer.into_descriptor().unwrap());
    let again = |end: &OwnedFd, access| {
        rustix::fs::open(format!("/proc/self/fd/{}", end.as_raw_fd()), access | OFlags::CLOEXEC, Mode::empty()).unwrap()
    };
    let second_reader = again(&reader, OFlags::RDONLY | OFlags::NONBLOCK);
    let second_writer = again(&writer, OFlags::WRONLY);
    assert!(is_nonblocking(&second_reader) && !is_nonblocking(&reader) && !is_nonblocking(&second_writer));
    // Through the one end the other can be had, too.
    let crossed = again(&reader, OFlags::WRONLY);
    let mut at = WAITING;
    for end in [&writer, &second_writer, &crossed] {
        assert_eq!(rustix::io::write(end, &bytes(at..at + 100)), Ok(100));
        at += 100;
    }
    drop((writer, crossed));
    check(0, &read_exact(&kernel::Reader(second_reader), 7000));
    drop(second_writer);
    assert_eq!(read_stream(&kernel::Reader(reader), 7000, 999), at - 7000);
}

pub fn a_program_reads_what_waited_and_what_comes_later<I: BetweenProcesses>() {
    let (reader, writer) = going::<I>();
    let program = Command::new("cat").stdin(reader.into_descriptor().unwrap()).stdout(Stdio::piped()).spawn().unwrap();
    let task = start(move || write_stream(&writer, WAITING..TOTAL, 7000));
    let output = program.wait_with_output().unwrap();
    task.join();
    check(0, &output.stdout);
    assert_eq!((output.stdout.len() as u64, output.status.success()), (TOTAL, true));
}

pub fn a_program_writes_behind_what_waited_and_before_what_comes_later<I: BetweenProcesses>() {
    let (reader, writer) = going::<I>();
    let given = writer.try_clone().unwrap().into_descriptor().unwrap();
    assert!(shell("printf theirs").stdout(given).status().unwrap().success());
    write_all(&writer, b"ours");
    drop(writer);
    check(0, &read_exact(&reader, WAITING as usize));
    assert_eq!(read_to_end(&reader), b"theirsours");
}

pub fn a_program_that_is_killed_has_closed<I: BetweenProcesses>() {
    let (reader, writer) = going::<I>();
    let given = writer.into_descriptor().unwrap();
    let mut program = shell("printf words; exec sleep 3600").stdout(given).spawn().unwrap();
    check(0, &read_exact(&reader, WAITING as usize));
    assert_eq!(read_exact(&reader, 5), b"words");
    let task = start_and_wait_until_asleep(move || reader.read(&mut [0]).unwrap());
    program.kill().unwrap();
    assert_eq!(task.join(), 0);
    program.wait().unwrap();
}

/// As every end that a library opens: a program that was started meanwhile does not keep the stream open.
pub fn an_end_that_is_closed_on_exec_does_not_reach_a_program<I: BetweenProcesses>() {
    let (reader, writer) = going::<I>();
    let second = writer.try_clone().unwrap().into_descriptor().unwrap();
    assert!(fcntl_getfd(&second).unwrap().contains(FdFlags::CLOEXEC));
    let mut program = Command::new("sleep").arg("3600").spawn().unwrap();
    drop((writer, second));
    assert_eq!(read_stream(&reader, 0, 5000), WAITING);
    assert!(program.try_wait().unwrap().is_none());
    program.kill().unwrap();
    program.wait().unwrap();
}

pub fn an_end_that_is_not_closed_on_exec_is_a_programs_too<I: BetweenProcesses>() {
    let (reader, writer) = going::<I>();
    let given = writer.into_descriptor().unwrap();
    fcntl_setfd(&given, FdFlags::empty()).unwrap();
    // The shell has no names for descriptors above 9.
    let mut program =
        shell(&format!("printf words > /proc/self/fd/{}; exec sleep 3600", given.as_raw_fd())).spawn().unwrap();
    drop(given);
    check(0, &read_exact(&reader, WAITING as usize));
    assert_eq!(read_exact(&reader, 5), b"words");
    let task = start_and_wait_until_asleep(move || reader.read(&mut [0]).unwrap());
    assert!(!task.is_finished());
    program.kill().unwrap();
    assert_eq!(task.join(), 0);
    program.wait().unwrap();
}

pub fn a_read_end_travels_over_a_socket<I: BetweenProcesses>() {
    a_read_end_travels::<I, kernel::Reader>();
}

pub fn a_read_end_travels_over_a_socket_and_is_an_end_again<I: BetweenProcesses>() {
    a_read_end_travels::<I, I::Reader>();
}

/// `There`: what it is taken for where it arrives.
fn a_read_end_travels<I: BetweenProcesses, There: ReadEnd + Polled>() {
    let ((child, here), (reader, writer)) = (socket_child(read_the_rest::<There>), going::<I>());
    send(&here, reader.into_descriptor().unwrap());
    write_stream(&writer, WAITING..TOTAL, 3000);
    drop(writer);
    child.succeed();
}

pub fn a_write_end_travels_over_a_socket<I: BetweenProcesses>() {
    a_write_end_travels::<I, kernel::Writer>();
}

pub fn a_write_end_travels_over_a_socket_and_is_an_end_again<I: BetweenProcesses>() {
    a_write_end_travels::<I, I::Writer>();
}

fn a_write_end_travels<I: BetweenProcesses, There: WriteEnd + Polled>() {
    let ((child, here), (reader, writer)) = (socket_child(write_the_rest::<There>), going::<I>());
    send(&here, writer.into_descriptor().unwrap());
    assert_eq!(read_stream(&reader, 0, 5000), TOTAL);
    child.succeed();
}

/// As long as it is in the socket it is open; when it is lost there it is closed.
pub fn an_end_under_way_in_a_socket_is_open<I: BetweenProcesses>() {
    let (here, there) = UnixStream::pair().unwrap();
    let (reader, writer) = going::<I>();
    send(&here, writer.into_descriptor().unwrap());
    check(0, &read_exact(&reader, WAITING as usize));
    let task = start_and_wait_until_asleep(move || reader.read(&mut [0]).unwrap());
    wait_until_asleep(task.id);
    assert!(!task.is_finished());
    drop((here, there));
    assert_eq!(task.join(), 0);
}

/// A child that was forked before there was a pipe: it gets its end over a socket.
fn socket_child(body: fn(UnixStream)) -> (crate::process::Child, UnixStream) {
    let (child, (here, there)) = fork(UnixStream::pair().unwrap(), |(here, there)| {
        drop(here);
        body(there);
    });
    drop(there);
    (child, here)
}

fn read_the_rest<R: ReadEnd + Polled>(socket: UnixStream) {
    assert_eq!(read_stream(&R::from_descriptor(receive(&socket)).unwrap(), 0, 5000), TOTAL);
}

fn write_the_rest<W: WriteEnd + Polled>(socket: UnixStream) {
    write_stream(&W::from_descriptor(receive(&socket)).unwrap(), WAITING..TOTAL, 3000);
}
