//! What the kernel answers at a pipe to calls for files, or for two pipes. The ends are exported descriptors, whose
//! bytes were in shared memory just before.
// The names say what is promised, and every one of them panics when it is not kept.
#![allow(missing_docs, clippy::missing_panics_doc, unsafe_code)]

use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read, Seek, Write};

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{FileType, SeekFrom, fstat, ftruncate, seek};
use rustix::io::{Errno, ioctl_fionread, pread, pwrite, read, write};
use rustix::pipe::{SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, splice, tee};

use crate::descriptors::going;
use crate::pattern::{bytes, check, read_exact, write_all};
use crate::ready::{Flags, Sigio, by_poll};
use crate::{BetweenProcesses, End, PIPE_BUF, Polled, WriteEnd, error_of, kernel};

const WAITING: usize = 10_000;

/// Both ends as descriptors, with 10 000 bytes of the stream between them.
fn descriptors<I: BetweenProcesses>() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = going::<I>();
    (reader.into_descriptor().unwrap(), writer.into_descriptor().unwrap())
}

fn assert_waits(end: impl AsFd) {
    assert_eq!(ioctl_fionread(&end), Ok(WAITING as u64));
}

pub fn end_is_fifo_to_fstat<I: BetweenProcesses>() {
    let (reader, writer) = going::<I>();
    for end in [reader.readiness().unwrap(), writer.readiness().unwrap()] {
        assert_eq!(FileType::from_raw_mode(fstat(end).unwrap().st_mode), FileType::Fifo);
    }
    let (reader, writer) = (reader.into_descriptor().unwrap(), writer.into_descriptor().unwrap());
    let [first, second] = [&reader, &writer].map(|end| fstat(end).unwrap());
    assert_eq!(FileType::from_raw_mode(first.st_mode), FileType::Fifo);
    assert_eq!((first.st_dev, first.st_ino, first.st_mode), (second.st_dev, second.st_ino, second.st_mode), "one pipe");
}

pub fn a_pipe_has_no_positions<I: BetweenProcesses>() {
    let (reader, writer) = descriptors::<I>();
    for end in [&reader, &writer] {
        for place in [SeekFrom::Start(0), SeekFrom::Current(0), SeekFrom::Current(1), SeekFrom::End(0)] {
            assert_eq!(seek(end, place), Err(Errno::SPIPE), "{place:?}");
        }
        assert_eq!(pread(end, &mut [0; 1], 0), Err(Errno::SPIPE));
        assert_eq!(pwrite(end, &[0], 0), Err(Errno::SPIPE));
        assert_waits(end);
    }
}

pub fn a_pipe_is_not_truncated<I: BetweenProcesses>() {
    let (reader, writer) = descriptors::<I>();
    for end in [&reader, &writer] {
        for length in [0, 1, 1 << 20] {
            assert_eq!(ftruncate(end, length), Err(Errno::INVAL));
        }
        assert_waits(end);
    }
}

pub fn the_wrong_end_is_neither_read_nor_written<I: BetweenProcesses>() {
    let (reader, writer) = descriptors::<I>();
    assert_eq!(read(&writer, &mut [0; 1]), Err(Errno::BADF));
    assert_eq!(rustix::io::readv(&writer, &mut [IoSliceMut::new(&mut [0; 1])]), Err(Errno::BADF));
    assert_eq!(write(&reader, b"x"), Err(Errno::BADF));
    assert_eq!(rustix::io::writev(&reader, &[IoSlice::new(b"x")]), Err(Errno::BADF));
    assert_waits(&reader);
    // Refused when it is made an end, or when that is used.
    let taken = I::Writer::from_descriptor(reader).and_then(|writer| writer.write(b"x"));
    assert_eq!(error_of(taken), Errno::BADF);
    let taken = I::Reader::from_descriptor(writer).and_then(|reader| crate::ReadEnd::read(&reader, &mut [0]));
    assert_eq!(error_of(taken), Errno::BADF);
}

pub fn descriptors_count_what_waited_and_what_came<I: BetweenProcesses>() {
    let (reader, writer) = descriptors::<I>();
    assert_waits(&reader);
    assert_waits(&writer);
    assert_eq!(write(&writer, b"more"), Ok(4));
    assert_eq!((ioctl_fionread(&reader), ioctl_fionread(&writer)), (Ok(10_004), Ok(10_004)));
    let reader = kernel::Reader(reader);
    check(0, &read_exact(&reader, WAITING));
    assert_eq!((reader.bytes_readable().unwrap(), ioctl_fionread(&writer)), (4, Ok(4)));
}

pub fn the_capacity_is_set_and_refused_by_descriptor<I: BetweenProcesses>() {
    let (reader, writer) = descriptors::<I>();
    assert_eq!(fcntl_getpipe_size(&reader), fcntl_getpipe_size(&writer));
    for end in [&reader, &writer] {
        assert_eq!(fcntl_setpipe_size(end, PIPE_BUF), Err(Errno::BUSY), "three pages are used");
        // Rounded up to a power of two of pages.
        assert_eq!(fcntl_setpipe_size(end, 100_000), Ok(131_072));
        assert_eq!((fcntl_getpipe_size(&reader), fcntl_getpipe_size(&writer)), (Ok(131_072), Ok(131_072)));
        assert_eq!(fcntl_setpipe_size(end, 65_536), Ok(65_536));
        // SAFETY: no memory is involved. Not through rustix, which takes no such number.
        assert_eq!(unsafe { libc::fcntl(end.as_raw_fd(), libc::F_SETPIPE_SZ, 0xffff_ffff_u32) }, -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
    }
    check(0, &read_exact(&kernel::Reader(reader), WAITING));
}

pub fn an_end_that_does_not_block_does_not_block_as_a_descriptor<I: BetweenProcesses>() {
    let (reader, writer) = going::<I>();
    reader.set_nonblocking(true).unwrap();
    let (reader, writer) = (reader.into_descriptor().unwrap(), writer.into_descriptor().unwrap());
    let reader = kernel::Reader(reader);
    check(0, &read_exact(&reader, WAITING));
    assert_eq!(error_of(crate::ReadEnd::read(&reader, &mut [0])), Errno::AGAIN);
    let flags = rustix::fs::fcntl_getfl(&writer).unwrap();
    assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK), "the other end is another description");
}

pub fn a_descriptor_is_polled_and_tells_by_signal<I: BetweenProcesses>() {
    let (reader, writer) = going::<I>();
    let reader = reader.into_descriptor().unwrap();
    assert_eq!(by_poll(reader.as_fd(), Some(std::time::Duration::ZERO)), Flags::IN);
    check(0, &read_exact(&kernel::Reader(reader.try_clone().unwrap()), WAITING));
    assert_eq!(by_poll(reader.as_fd(), Some(std::time::Duration::ZERO)), Flags::empty());
    let signals = Sigio::of(reader.as_fd());
    // Written by an end that was not turned into a descriptor.
    write_all(&writer, b"x");
    signals.wait();
    assert_eq!(read(&reader, &mut [0; 10]), Ok(1));
    while signals.is_there() {}
    drop(writer);
    signals.wait();
    assert_eq!(by_poll(reader.as_fd(), Some(std::time::Duration::ZERO)), Flags::HUP);
}

fn file() -> File {
    let file = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    File::from(file)
}

pub fn splice_moves_from_a_file_and_to_a_file<I: BetweenProcesses>() {
    let (reader, writer) = descriptors::<I>();
    let mut source = file();
    source.write_all(&bytes(10_000..30_000)).unwrap();
    let mut at = 0;
    assert_eq!(splice(&source, Some(&mut at), &writer, None, 20_000, SpliceFlags::empty()), Ok(20_000));
    assert_eq!((at, ioctl_fionread(&reader)), (20_000, Ok(30_000)));
    let mut target = file();
    let mut moved = 0;
    while moved < 30_000 {
        moved += splice(&reader, None, &target, None, 30_000, SpliceFlags::empty()).unwrap();
    }
    target.rewind().unwrap();
    let mut copied = Vec::new();
    target.read_to_end(&mut copied).unwrap();
    check(0, &copied);
    assert_eq!(copied.len(), 30_000);
    drop(writer);
    assert_eq!(splice(&reader, None, &target, None, 1, SpliceFlags::empty()), Ok(0), "the end");
}

pub fn splice_is_refused_as_by_the_kernel<I: BetweenProcesses>() {
    let (reader, writer) = descriptors::<I>();
    let (other_reader, other_writer) = descriptors::<I>();
    let (file, nothing) = (file(), SpliceFlags::empty());
    assert_eq!(splice(&writer, None, &file, None, 1, nothing), Err(Errno::BADF), "out of a write end");
    assert_eq!(splice(&file, None, &reader, None, 1, nothing), Err(Errno::BADF), "into a read end");
    assert_eq!(splice(&reader, None, &writer, None, 1, nothing), Err(Errno::INVAL), "into itself");
    assert_eq!(splice(&reader, Some(&mut 0), &other_writer, None, 1, nothing), Err(Errno::SPIPE), "from a position");
    assert_eq!(splice(&reader, None, &other_writer, Some(&mut 0), 1, nothing), Err(Errno::SPIPE), "to a position");
    assert_eq!(splice(&reader, None, &other_writer, None, 0, nothing), Ok(0));
    assert_waits(&reader);
    check(0, &read_exact(&kernel::Reader(reader.try_clone().unwrap()), WAITING));
    assert_eq!(splice(&reader, None, &other_writer, None, 1, SpliceFlags::NONBLOCK), Err(Errno::AGAIN), "empty");
    drop(other_reader);
    write(&writer, b"x").unwrap();
    // SIGPIPE is ignored here.
    assert_eq!(splice(&reader, None, &other_writer, None, 1, nothing), Err(Errno::PIPE));
    assert_eq!(ioctl_fionread(&reader), Ok(1));
}

pub fn tee_shows_without_taking_and_is_refused_as_by_the_kernel<I: BetweenProcesses>() {
    let (reader, writer) = descriptors::<I>();
    let (other_reader, other_writer) = descriptors::<I>();
    let nothing = SpliceFlags::empty();
    assert_eq!(tee(&reader, &other_writer, WAITING, nothing), Ok(WAITING));
    assert_waits(&reader);
    let (reader, other) = (kernel::Reader(reader), kernel::Reader(other_reader));
    for _ in 0..2 {
        check(0, &read_exact(&other, WAITING));
    }
    check(0, &read_exact(&reader, WAITING));
    assert_eq!(tee(&reader.0, &writer, 1, nothing), Err(Errno::INVAL), "into itself");
    assert_eq!(tee(&reader.0, file(), 1, nothing), Err(Errno::INVAL), "into a file");
    assert_eq!(tee(&writer, &other_writer, 1, nothing), Err(Errno::BADF), "out of a write end");
    assert_eq!(tee(&reader.0, &other.0, 1, nothing), Err(Errno::BADF), "into a read end");
    assert_eq!(tee(&reader.0, &other_writer, 1, SpliceFlags::NONBLOCK), Err(Errno::AGAIN), "empty");
    drop(writer);
    assert_eq!(tee(&reader.0, &other_writer, 1, nothing), Ok(0), "the end");
}

fn vmsplice(end: &OwnedFd, bytes: &mut [u8]) -> Result<usize, Errno> {
    let memory = [libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }];
    // SAFETY: the bytes are ours until the test has read the pipe. They do not change, they outlive the call, and what
    // went in is read before they are dropped.
    let count = unsafe { libc::vmsplice(end.as_raw_fd(), memory.as_ptr(), 1, 0) };
    usize::try_from(count).map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap())
}

pub fn vmsplice_moves_and_is_refused_as_by_the_kernel<I: BetweenProcesses>() {
    let (reader, writer) = descriptors::<I>();
    let mut more = bytes(10_000..15_000);
    assert_eq!(vmsplice(&writer, &mut more), Ok(5000));
    assert_eq!(ioctl_fionread(&reader), Ok(15_000));
    // Out of a read end it copies.
    let mut got = vec![0; 15_000];
    let mut count = 0;
    while count < got.len() {
        count += vmsplice(&reader, &mut got[count..]).unwrap();
    }
    check(0, &got);
    assert_eq!(vmsplice(&OwnedFd::from(file()), &mut [0]), Err(Errno::BADF), "no pipe");
    drop(reader);
    assert_eq!(vmsplice(&writer, &mut [0]), Err(Errno::PIPE));
}
