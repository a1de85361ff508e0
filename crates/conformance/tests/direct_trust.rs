//! Single-copy transfers that are not allowed, and forged ones. The first fall back to the ring, and the statistics say
//! so. Of the second nothing comes but what the writer itself has offered.
#![allow(unsafe_code)]

use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use millstream_conformance::ours::segments;
use millstream_conformance::pattern::{self, check};
use millstream_conformance::process::{become_unprivileged, fork};
use millstream_conformance::task::wait_until_asleep;
use millstream_conformance::{PIPE_BUF, alone};
use millstream_pipe::{Builder, DirectPolicy, Reader, Statistics, Writer};
use millstream_ring::layout::offset;
use millstream_sys::identity;
use millstream_sys::transfer;

const MIB: usize = 1 << 20;

fn pipe() -> (Reader, Writer) {
    Builder::new().capacity(PIPE_BUF).direct(DirectPolicy::Always).create().unwrap()
}

fn stream(len: usize) -> Vec<u8> {
    pattern::bytes(0..len as u64)
}

fn read_to_end(mut reader: &Reader) -> usize {
    let mut all = Vec::new();
    reader.read_to_end(&mut all).unwrap();
    check(0, &all);
    all.len()
}

/// Whether others of the same user may look into this process.
fn set_dumpable(yes: bool) {
    // SAFETY: takes numbers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, libc::c_ulong::from(yes), 0, 0, 0) }, 0);
}

fn assert_refused(statistics: Statistics) {
    assert_eq!((statistics.bytes as usize, statistics.bytes_direct, statistics.direct_refused), (3 * MIB, 0, 1));
}

/// Three mebibytes in three writes. The reader waits until the first write sleeps: if it empties each filled ring at
/// once, the writer never finds one full, and offers nothing.
fn write_as(writer: &mut Writer) -> Statistics {
    (0..3).for_each(|part| {
        let bytes = pattern::bytes(part * MIB as u64..(part + 1) * MIB as u64);
        assert_eq!(writer.write(&bytes).unwrap(), MIB);
    });
    writer.statistics()
}

alone! {
    fn a_writer_that_is_not_dumpable_is_read_through_the_ring() {
        for is_dumpable in [true, false] {
            // Root may read the memory of every process.
            let (family, ()) = fork((), |()| {
                become_unprivileged();
                set_dumpable(true);
                let (child, (reader, writer)) = fork(pipe(), |(reader, mut writer)| {
                    drop(reader);
                    set_dumpable(is_dumpable);
                    let statistics = write_as(&mut writer);
                    match is_dumpable {
                        true => assert!(statistics.bytes_direct > 0 && statistics.direct_refused == 0),
                        false => assert_refused(statistics),
                    }
                });
                drop(writer);
                wait_until_asleep(child.id);
                assert_eq!(read_to_end(&reader), 3 * MIB);
                match is_dumpable {
                    true => assert!(reader.statistics().bytes_direct > 0),
                    false => assert_refused(reader.statistics()),
                }
                child.succeed();
            });
            family.succeed();
        }
    }

    fn a_writer_of_another_user_is_read_through_the_ring() {
        assert!(rustix::process::geteuid().is_root(), "root is needed to become other users");
        let writing = rustix::thread::gettid();
        let (child, (reader, mut writer)) = fork(pipe(), |(reader, writer)| {
            drop(writer);
            become_unprivileged();
            wait_until_asleep(writing);
            assert_eq!(read_to_end(&reader), 3 * MIB);
            assert_refused(reader.statistics());
        });
        drop(reader);
        assert_refused(write_as(&mut writer));
        drop(writer);
        child.succeed();
    }

    fn root_reads_from_another_user() {
        assert!(rustix::process::geteuid().is_root(), "root is needed to become other users");
        let (child, (reader, writer)) = fork(pipe(), |(reader, mut writer)| {
            drop(reader);
            become_unprivileged();
            set_dumpable(true);
            write_as(&mut writer);
        });
        drop(writer);
        wait_until_asleep(child.id);
        assert_eq!(read_to_end(&reader), 3 * MIB);
        assert!(reader.statistics().bytes_direct > 0);
        child.succeed();
    }
}

/// A child that becomes another program while one of its threads sleeps over an offer, which its first thread or another
/// one makes. Nothing of the new program comes through.
fn becomes_another_program(first_offers: bool) {
    let (child, (reader, writer)) = fork(pipe(), |(reader, mut writer)| {
        drop(reader);
        let first = rustix::thread::gettid();
        let mut offer = move || drop(writer.write(&stream(MIB)));
        let become_another = move |offering| {
            wait_until_asleep(offering);
            // A program at the same addresses, if need be: the offer's memory is anonymous, so it is most likely gone.
            let error = Command::new("sleep").arg("3600").exec();
            panic!("{error}");
        };
        if first_offers {
            std::thread::spawn(move || become_another(first));
            offer();
        } else {
            let task = millstream_conformance::task::start(offer);
            become_another(task.id);
        }
    });
    drop(writer);
    // The ends are closed on exec, and then no writer is left.
    while !transfer::readiness(reader.readiness().unwrap()).unwrap().peer_gone {
        std::thread::yield_now();
    }
    let name = std::fs::read_to_string(format!("/proc/{}/comm", child.id.as_raw_nonzero())).unwrap();
    assert_eq!(name, "sleep\n", "it lives, as another program");
    assert_eq!(read_to_end(&reader), PIPE_BUF, "what was in the ring");
    assert_eq!(reader.statistics().bytes_direct, 0);
    child.kill();
}

alone! {
    fn a_process_that_has_become_another_program_is_not_read_from() {
        becomes_another_program(false);
    }

    fn a_process_whose_first_thread_made_the_offer_and_that_has_become_another_program_is_not_read_from() {
        becomes_another_program(true);
    }
}

/// Offers at the pipe of this segment, as a hostile process would.
fn forge(segment: &std::fs::File, process: identity::Identity, voucher: u64, address: u64, len: u32) {
    let set = |name, bytes: &[u8]| assert_eq!(segment.write_at(bytes, offset("offer", name)).unwrap(), bytes.len());
    set("address", &address.to_le_bytes());
    set("voucher", &voucher.to_le_bytes());
    set("start", &process.start.to_le_bytes());
    set("process", &process.process.to_le_bytes());
    set("len", &len.to_le_bytes());
    set("word", &(5 << 32 | 1_u64 << 31).to_le_bytes());
}

/// A transfer descriptor that would be right for that offer, were it in the right place.
fn forged_descriptor(
    shadow: millstream_sys::pipe::Identity,
    process: identity::Identity,
    address: u64,
    len: u32,
) -> [u64; 8] {
    let name = u64::from_le_bytes(*b"mstoffer");
    [name, shadow.device, shadow.inode, 5, process.process.into(), process.start, address, len.into()]
}

const SECRET: &[u8] = b"no writer offered this";

fn address_of<T>(memory: &[T]) -> u64 {
    memory.as_ptr().expose_provenance() as u64
}

/// A pipe in use, and its segment opened once more.
fn pipe_and_segment() -> (Reader, Writer, std::fs::File) {
    let (mut reader, mut writer) = pipe();
    writer.write_all(&[1; 10]).unwrap();
    reader.read_exact(&mut [0; 10]).unwrap();
    reader.set_nonblocking(true).unwrap();
    let segment = segments().pop().unwrap();
    (reader, writer, segment)
}

fn assert_nothing_comes(mut reader: &Reader) {
    let mut bytes = vec![0; 100];
    let error = reader.read(&mut bytes).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!((reader.statistics().bytes_direct, reader.statistics().direct_refused), (0, 1));
}

alone! {
    fn forged_transfer_of_readers_own_memory_is_refused() {
        let (reader, _writer, segment) = pipe_and_segment();
        forge(&segment, identity::own().unwrap(), address_of(SECRET), address_of(SECRET), SECRET.len() as u32);
        assert_nothing_comes(&reader);
    }

    fn transfer_descriptor_in_received_bytes_is_refused() {
        let (reader, _writer, segment) = pipe_and_segment();
        let shadow = millstream_sys::pipe::identity(reader.readiness().unwrap()).unwrap();
        let own = identity::own().unwrap();
        // In memory of the reader that holds received bytes, which any writer could have sent.
        let voucher = forged_descriptor(shadow, own, address_of(SECRET), SECRET.len() as u32);
        forge(&segment, own, address_of(&voucher), address_of(SECRET), SECRET.len() as u32);
        assert_nothing_comes(&reader);
    }

    fn transfer_descriptor_of_another_transfer_is_refused() {
        let (reader, mut writer, segment) = pipe_and_segment();
        // A real descriptor: this process has offered bytes here itself.
        let mut other = reader.try_clone().unwrap();
        let task = millstream_conformance::task::start_and_wait_until_asleep(move || writer.write(&stream(MIB)).map(|count| (count, writer)).unwrap());
        other.set_nonblocking(false).unwrap();
        let mut all = vec![0; MIB];
        other.read_exact(&mut all).unwrap();
        assert!(other.statistics().bytes_direct > 0);
        let (_, _writer) = task.join();
        reader.set_nonblocking(true).unwrap();
        let mut word = [0; 8];
        segment.read_exact_at(&mut word, offset("offer", "voucher")).unwrap();
        forge(&segment, identity::own().unwrap(), u64::from_le_bytes(word), address_of(SECRET), SECRET.len() as u32);
        assert_nothing_comes(&reader);
    }

    fn an_offer_that_is_over_is_not_believed_again() {
        let (mut reader, mut writer, segment) = pipe_and_segment();
        reader.set_nonblocking(false).unwrap();
        let task = millstream_conformance::task::start_and_wait_until_asleep(move || {
            let mut bytes = stream(MIB);
            assert_eq!(writer.write(&bytes).unwrap(), MIB);
            // The write has returned, so the buffer is the writer's own again.
            bytes.fill(b'?');
            std::thread::park();
            drop((bytes, writer));
        });
        reader.read_exact(&mut vec![0; MIB - 1]).unwrap();
        let mut words = [0; 48];
        segment.read_exact_at(&mut words, offset("offer", "word")).unwrap();
        reader.read_exact(&mut [0]).unwrap();
        wait_until_asleep(task.id);
        // A hostile process opens the old offer again.
        words[40..].fill(0);
        segment.write_all_at(&words[8..], offset("offer", "address")).unwrap();
        segment.write_all_at(&words[..8], offset("offer", "word")).unwrap();
        let direct = reader.statistics().bytes_direct;
        reader.set_nonblocking(true).unwrap();
        assert_eq!(reader.read(&mut [0; 100]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        assert_eq!((reader.statistics().bytes_direct, reader.statistics().direct_refused), (direct, 1));
    }

    fn an_offer_of_which_nothing_is_left_is_an_error() {
        let (mut reader, _writer, segment) = pipe_and_segment();
        forge(&segment, identity::own().unwrap(), 4096, 4096, 8);
        segment.write_all_at(&(1 << 31 | 8_u32).to_le_bytes(), offset("offer", "word")).unwrap();
        assert_eq!(reader.read(&mut [0; 10]).unwrap_err().kind(), std::io::ErrorKind::Other);
    }

    fn an_offer_of_what_cannot_be_is_an_error() {
        for len in [0, u32::MAX] {
            let (mut reader, mut writer, segment) = pipe_and_segment();
            forge(&segment, identity::own().unwrap(), 4096, 4096, len);
            assert_eq!(reader.read(&mut [0; 10]).unwrap_err().kind(), std::io::ErrorKind::Other);
            writer.set_nonblocking(true).unwrap();
            assert_eq!(writer.write(&[0]).unwrap_err().kind(), std::io::ErrorKind::Other);
        }
    }
}
