//! A hostile process scribbles over everything that it shares with the others: the header, the data, the descriptors.
//! Its victims may then read wrong bytes, but each call returns: they do not crash, read no foreign memory, and wait no
//! longer than the hostile process lives.
//!
//! What fails prints the seed of its round; `MILLSTREAM_SEED=N` begins with the same again, `MILLSTREAM_ROUNDS=N` runs
//! more of them.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use millstream_conformance::fifo::{Name, acquainted};
use millstream_conformance::ours::segments;
use millstream_conformance::pattern::Random;
use millstream_conformance::process::{Child, end, fork};
use millstream_conformance::seed::{number, seed};
use millstream_conformance::task::start;
use millstream_conformance::{alone, error_of};
use millstream_pipe::{Builder, DirectPolicy, Reader, WaitPolicy, Writer};
use millstream_ring::layout::{self, layout};
use millstream_sys::shared::Shared;
use millstream_sys::transfer::{self, Access, Mark};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// Rounds of each test, unless the environment says how many.
const ROUNDS: u64 = 150;

/// The segment of the only pipe that this process has, opened once more.
fn segment() -> File {
    segments().pop().expect("the pipe has a segment")
}

/// The words that hold the number of a thread for which others wait.
const OWNERS: [(&str, &str); 10] = [
    ("writers", "shared"),
    ("writers", "inside"),
    ("writers", "owner"),
    ("writers", "claim"),
    ("readers", "shared"),
    ("readers", "inside"),
    ("readers", "owner"),
    ("readers", "claim"),
    ("bell", "lock"),
    ("bell", "sleeper"),
];
const LOCKS: [(&str, &str); 3] = [("writers", "shared"), ("readers", "shared"), ("bell", "lock")];
const POSITIONS: [(&str, &str); 9] = [
    ("write_pos", "position"),
    ("read_pos", "position"),
    ("writers", "peer_position"),
    ("writers", "own_position"),
    ("readers", "peer_position"),
    ("readers", "own_position"),
    ("state", "giving_back"),
    ("state", "strangers_at"),
    ("state", "strangers"),
];

fn at((line, name): (&str, &str)) -> u64 {
    layout::offset(line, name)
}

/// How often the hostile processes of a test have written each word by itself, in memory that all of them share. The
/// first word of the memory says whether the hostile process of this round is dead.
struct Says(Shared);

impl Says {
    fn new() -> Says {
        Says(Shared::anonymous(4096).unwrap())
    }

    fn is_dead(&self) -> &AtomicU64 {
        self.0.word(0)
    }

    fn written(&self, index: usize) -> &AtomicU64 {
        self.0.word(8 * (index + 1))
    }

    /// Fails when a word was never written.
    fn assert_all_were_written(&self) {
        let counts = || layout().enumerate().map(|(index, word)| (word, self.written(index).load(Relaxed)));
        let missed: Vec<_> = counts().filter(|(_, count)| *count == 0).map(|(word, _)| word).collect();
        assert!(missed.is_empty(), "never written: {missed:?}");
        println!(
            "{} words, each written {} times at least",
            counts().count(),
            counts().map(|(_, count)| count).min().unwrap()
        );
    }
}

/// The hostile process: until it is killed it does its worst. It also writes `victim`, the number of a process, as
/// the owner of locks and offers.
fn scribble(shadow: BorrowedFd<'_>, random: &mut Random, victim: u32, says: &Says) -> ! {
    let segment = segment();
    let words: Vec<_> = layout().collect();
    let length = segment.metadata().unwrap().len();
    let both = transfer::reopened(shadow, Access::Both, true).ok();
    let marked = transfer::reopened(shadow, Access::Read, true).ok();
    let set = |at: u64, bytes: &[u8]| assert_eq!(segment.write_at(bytes, at).unwrap(), bytes.len());
    let number = |random: &mut Random| {
        let few = [0, 1, 2, 3, 7, 12, 0x10c, 0x114, 0x11e, 4095, 4096, 4097, 8192, 0x4000_0000, 0x8000_0000, u32::MAX];
        if random.within(0..2) == 0 { few[random.within(0..few.len())] } else { random.within(0..1 << 32) as u32 }
    };
    // Counted after it is done: the process may be killed at any moment.
    let set_word = |index: usize, value: u64| {
        let word = words[index];
        set(word.offset as u64, &value.to_le_bytes()[..word.bytes]);
        says.written(index).fetch_add(1, Relaxed);
    };
    let set_named = |name: (&str, &str), value: u64| {
        let index = words.iter().position(|word| (word.line, word.name) == name).expect("a word of the header");
        set_word(index, value);
    };
    loop {
        match random.within(0..100) {
            0..25 => {
                let (low, high) = (u64::from(number(random)), u64::from(number(random)));
                set_word(random.within(0..words.len()), low | high << 32);
            }
            25..40 => {
                // Living and dead processes, the one that will read it, and nonsense; with and without the bits for
                // waiters.
                let owners = [1, std::process::id(), victim, 4_194_000, number(random), 0];
                let bits = [0, 1 << 31, 1 << 30, 3 << 30][random.within(0..4)];
                let word = owners[random.within(0..owners.len())] | bits;
                set_named(OWNERS[random.within(0..OWNERS.len())], word.into());
            }
            40..65 => {
                let near = random.within(0..1 << 21) as u64;
                let values = [near, near.wrapping_neg(), 0, u64::MAX, 1 << 63, u64::from(number(random)) << 20];
                let position = values[random.within(0..values.len())];
                set_named(POSITIONS[random.within(0..POSITIONS.len())], position);
            }
            65..70 => {
                // Possible positions again, or the victim would only ever see the impossible.
                let at = random.within(0..1 << 40) as u64;
                set_named(("read_pos", "position"), at);
                set_named(("write_pos", "position"), at + random.within(0..4097) as u64);
                set_named(("state", "geometry"), 12);
            }
            70..73 => {
                // An open offer of a process that may live: perhaps of the victim's own memory.
                let process = [victim, std::process::id(), 1, number(random)][random.within(0..4)];
                let start = millstream_sys::identity::own().map_or(0, |own| own.start);
                let address = [0, 4096, random.within(0..1 << 47)][random.within(0..3)] as u64;
                let (voucher, len) = (address ^ 4096, random.within(0..1 << 23) as u32);
                set_named(("offer", "address"), address);
                set_named(("offer", "voucher"), voucher);
                set_named(("offer", "start"), start);
                set_named(("offer", "process"), process.into());
                set_named(("offer", "len"), len.into());
                set_named(("offer", "refused"), 0);
                let taken = random.within(0..3) as u32 * 4096;
                set_named(("offer", "word"), (1 << 31 | taken).into());
            }
            73..75 => {
                let mut noise = vec![0; random.within(1..8192)];
                noise.iter_mut().for_each(|byte| *byte = random.within(0..256) as u8);
                set(random.within(0..length as usize - 8192) as u64, &noise);
            }
            75..77 => {
                let mut noise = [0; 1024];
                noise.iter_mut().for_each(|byte| *byte = random.within(0..256) as u8);
                set(0, &noise);
            }
            77..80 => {
                assert_eq!(rustix::fs::ftruncate(&segment, random.within(0..1 << 22) as u64), Err(Errno::PERM));
                let _ = rustix::fs::fcntl_add_seals(&segment, rustix::fs::SealFlags::WRITE);
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let start = random.within(0..length as usize - 1) as u64;
                let _ = rustix::fs::fallocate(&segment, hole, start, length - start);
            }
            80..88 => {
                if let Some(both) = &both {
                    let _ = rustix::io::write(both, &[7; 5000][..random.within(1..5000)]);
                }
            }
            88..93 => {
                if let Some(both) = &both {
                    let _ = rustix::io::read(both, &mut [0; 9000][..random.within(1..9000)]);
                }
            }
            93..95 => {
                if let Some(both) = &both {
                    let _ = rustix::pipe::fcntl_setpipe_size(both, random.within(1..1 << 18));
                }
            }
            95..97 => {
                if let Some(marked) = &marked {
                    let _ = transfer::mark(marked, Mark(random.within(0..1 << 62) as u64));
                }
            }
            _ => std::thread::sleep(Duration::from_micros(random.within(0..100) as u64)),
        }
    }
}

fn rounds(mut round: impl FnMut(&mut Random, &Says)) {
    let says = Says::new();
    let began = Instant::now();
    let count = number("MILLSTREAM_ROUNDS").unwrap_or(ROUNDS);
    for seed in seed()..seed() + count {
        println!("MILLSTREAM_SEED={seed}");
        let mut random = Random::from_seed(seed);
        says.is_dead().store(0, Relaxed);
        round(&mut random, &says);
    }
    println!("{count} rounds in {:?}", began.elapsed());
    if count >= ROUNDS {
        says.assert_all_were_written();
    }
}

fn pipe(random: &mut Random) -> (Reader, Writer) {
    let policy = [WaitPolicy::Adaptive, WaitPolicy::Block, WaitPolicy::Spin][random.within(0..3)];
    let capacity = [4096, 65_536, millstream_pipe::DEFAULT_CAPACITY][random.within(0..3)];
    let direct = [DirectPolicy::Adaptive, DirectPolicy::Always][random.within(0..2)];
    let (reader, writer) = Builder::new().capacity(capacity).wait(policy).direct(direct).create().unwrap();
    // All processes have the segment before the hostile one spoils it.
    (&writer).write_all(&[1; 100]).unwrap();
    (&reader).read_exact(&mut [0; 50]).unwrap();
    (reader, writer)
}

/// Both ends of a FIFO, of which the ring carries the stream.
fn fifo() -> (Reader, Writer) {
    let name = Name::new().unwrap();
    let (reader, writer) = acquainted(&name);
    (reader.0, writer.0)
}

/// Lets the hostile one work for a while, kills it, says so, and waits for the victim, which must end well.
fn outlive(random: &mut Random, says: &Says, hostile: Child, victim: Child) {
    std::thread::sleep(Duration::from_micros(random.within(0..12_000) as u64));
    hostile.kill();
    says.is_dead().store(1, Relaxed);
    victim.succeed();
}

/// Whatever the call says is fine, but when the hostile one is dead and nothing comes any more the victim has done its
/// part.
fn is_over(outcome: std::io::Result<usize>, says: &Says) -> bool {
    let is_dead = says.is_dead().load(Relaxed) == 1;
    match outcome {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => true,
        Err(_) => is_dead,
    }
}

/// The other things that can be done with an end.
fn reader_tries_something(reader: Reader, random: &mut Random) -> Option<Reader> {
    match random.within(0..40) {
        0 => drop(reader.bytes_readable()),
        1 => drop(reader.capacity()),
        2 => drop(reader.set_capacity(4096 << random.within(0..6))),
        3 => drop(reader.readiness().map(|fd| transfer::readiness(fd).is_ok())),
        4 => return reader.try_clone().ok(),
        5 => return reader.into_fd().ok().and_then(|fd| Reader::attach(fd).ok()),
        _ => {}
    }
    Some(reader)
}

fn writer_tries_something(writer: Writer, random: &mut Random) -> Option<Writer> {
    match random.within(0..40) {
        0 => drop(writer.bytes_readable()),
        1 => drop(writer.capacity()),
        2 => drop(writer.set_capacity(4096 << random.within(0..6))),
        3 => drop(writer.readiness().map(|fd| transfer::readiness(fd).is_ok())),
        4 => return writer.try_clone().ok(),
        5 => return writer.into_fd().ok().and_then(|fd| Writer::attach(fd).ok()),
        _ => {}
    }
    Some(writer)
}

fn reader_survives_hostile_writer_of(made: fn(&mut Random) -> (Reader, Writer)) {
    rounds(|random, says| {
        let mut seeds = random.clone();
        let (victim, (reader, writer)) = fork(made(random), |(reader, writer)| {
            drop(writer);
            let (mut reader, mut buffer) = (Some(reader), vec![0; 70_000]);
            while let Some(end) = reader.take() {
                let size = seeds.within(1..70_000);
                if is_over((&end).read(&mut buffer[..size]), says) {
                    break;
                }
                reader = reader_tries_something(end, &mut seeds);
            }
        });
        drop(reader);
        let blamed = victim.id.as_raw_nonzero().get().unsigned_abs();
        let (hostile, writer) = fork(writer, |writer| {
            let shadow = writer.readiness().unwrap();
            scribble(shadow, &mut random.clone(), blamed, says)
        });
        drop(writer);
        outlive(random, says, hostile, victim);
    });
}

fn writer_survives_hostile_reader_of(made: fn(&mut Random) -> (Reader, Writer)) {
    rounds(|random, says| {
        let mut seeds = random.clone();
        let (victim, (reader, writer)) = fork(made(random), |(reader, writer)| {
            drop(reader);
            let (mut writer, buffer) = (Some(writer), vec![0; 70_000]);
            while let Some(end) = writer.take() {
                let size = seeds.within(1..70_000);
                if is_over((&end).write(&buffer[..size]), says) {
                    break;
                }
                writer = writer_tries_something(end, &mut seeds);
            }
        });
        drop(writer);
        let blamed = victim.id.as_raw_nonzero().get().unsigned_abs();
        let (hostile, reader) = fork(reader, |reader| {
            let shadow = reader.readiness().unwrap();
            scribble(shadow, &mut random.clone(), blamed, says)
        });
        drop(reader);
        outlive(random, says, hostile, victim);
    });
}

alone! {
    fn writer_survives_hostile_reader() {
        writer_survives_hostile_reader_of(pipe);
    }

    fn writer_survives_hostile_reader_of_a_fifo() {
        writer_survives_hostile_reader_of(|_| fifo());
    }

    fn reader_survives_hostile_writer() {
        reader_survives_hostile_writer_of(pipe);
    }

    fn reader_survives_hostile_writer_of_a_fifo() {
        reader_survives_hostile_writer_of(|_| fifo());
    }

    fn process_that_attaches_to_hostile_end_survives() {
        rounds(|random, says| {
            let (reader, writer) = pipe(random);
            let given = reader.into_fd().unwrap();
            let mut seeds = random.clone();
            let (hostile, (given, writer)) = fork((given, writer), |(given, writer)| {
                drop(given);
                let shadow = writer.readiness().unwrap();
                scribble(shadow, &mut random.clone(), 1, says)
            });
            let (victim, (given, writer)) = fork((given, writer), |(given, writer)| {
                drop(writer);
                // Nothing of what it inherited is known to it any more, as after an exec.
                let Ok(mut reader) = Reader::attach(given) else { end(0) };
                let mut buffer = vec![0; 70_000];
                loop {
                    let size = seeds.within(1..70_000);
                    if is_over(reader.read(&mut buffer[..size]), says) {
                        break;
                    }
                }
            });
            drop((given, writer));
            outlive(random, says, hostile, victim);
        });
    }

    fn a_forged_count_of_the_bell_does_not_keep_two_honest_ones_apart() {
        for forged in [1, 7, 4096, 5000, 8192, u32::MAX] {
            let (mut reader, mut writer) = Builder::new().wait(WaitPolicy::Block).create().unwrap();
            writer.write_all(b"begin").unwrap();
            reader.read_exact(&mut [0; 5]).unwrap();
            segment().write_at(&forged.to_le_bytes(), at(("bell", "bytes"))).unwrap();
            let reading = start(move || {
                let mut bytes = [0; 4];
                reader.read_exact(&mut bytes).unwrap();
                bytes
            });
            millstream_conformance::task::wait_until_asleep(reading.id);
            writer.write_all(b"wake").unwrap();
            assert_eq!(&reading.join(), b"wake");
        }
    }

    fn forged_offer_in_a_fifo_leaves_its_reader_without_bytes() {
        let (reader, writer) = fifo();
        segment().write_at(&(1_u32 << 31).to_le_bytes(), at(("offer", "word"))).unwrap();
        reader.set_nonblocking(true).unwrap();
        assert_eq!((&reader).read(&mut [0; 5]).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(writer);
        assert_eq!((&reader).read(&mut [0; 5]).unwrap(), 0);
    }

    fn forged_position_of_an_owner_is_an_error_and_no_wait() {
        // After so many uses by one thread the locks are its own, and it goes by its own position.
        let turns = 200;
        let made: [fn() -> (Reader, Writer); 2] = [|| millstream_pipe::pipe().unwrap(), fifo];
        for (made, (line, end)) in made.into_iter().flat_map(|made| [(made, ("readers", 0)), (made, ("writers", 1))]) {
            let (reader, writer) = made();
            let capacity = writer.capacity().unwrap();
            let mut most = vec![0; capacity];
            for _ in 0..turns {
                (&writer).write_all(&[1]).unwrap();
                (&reader).read_exact(&mut most[..1]).unwrap();
            }
            // Own: nothing waits, all is full; published: the opposite.
            let published = [("read_pos", "position"), ("write_pos", "position")][end];
            let mut position = [0; 8];
            segment().read_exact_at(&mut position, at(published)).unwrap();
            let forged = u64::from_le_bytes(position).wrapping_sub(1);
            if end == 1 {
                (&writer).write_all(&most).unwrap();
            }
            segment().write_at(&forged.to_le_bytes(), at(published)).unwrap();
            let outcome = if end == 0 { (&reader).read(&mut most) } else { (&writer).write(&most[..1]) };
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Other, "{line}");
        }
    }

    fn a_lock_that_names_its_own_taker_is_an_error_and_no_wait() {
        let (mut reader, writer) = millstream_pipe::pipe().unwrap();
        (&writer).write_all(b"begin").unwrap();
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        segment().write_at(&own.to_le_bytes(), at(("readers", "shared"))).unwrap();
        assert_eq!(reader.read(&mut [0; 5]).unwrap_err().kind(), ErrorKind::Other);
    }

    fn a_lock_that_is_never_given_back_is_no_reason_to_wait_longer_than_the_others_live() {
        // Whatever is taken: the first process never dies.
        for lock in LOCKS {
            let (reader, writer) = millstream_pipe::pipe().unwrap();
            (&writer).write_all(b"begin").unwrap();
            segment().write_at(&1_u32.to_le_bytes(), at(lock)).unwrap();
            drop(reader);
            assert!(writer.into_fd().is_err());
        }
    }

    fn a_segment_keeps_its_size_and_its_seals() {
        let (reader, writer) = millstream_pipe::pipe().unwrap();
        (&writer).write_all(b"begin").unwrap();
        let segment = segment();
        for size in [0, 4096, 1 << 30] {
            assert_eq!(rustix::fs::ftruncate(&segment, size), Err(Errno::PERM));
        }
        assert_eq!(rustix::fs::fcntl_add_seals(&segment, rustix::fs::SealFlags::WRITE), Err(Errno::PERM));
        drop(writer);
        assert_eq!(error_of(Writer::attach(reader.into_fd().unwrap()).map(drop).map_err(|_| Errno::INVAL.into())), Errno::INVAL);
    }
}
