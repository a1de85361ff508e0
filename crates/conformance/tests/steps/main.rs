//! Death between any two instructions. A child is led through one call on an end by single steps and killed after a
//! number of them. The surviving processes must find every lock free, no byte lost or doubled, and the end of the
//! stream. In `paused.rs` the child only pauses there while another process changes how the pipe works, and then goes
//! on.
//!
//! The number of steps before a death runs over the whole call. To reach the last of n steps costs n of them, so where
//! that takes too long only every s-th point is taken, from a seeded one on: what each test prints (`--nocapture`) says
//! how many. `MILLSTREAM_STEPS=N` allows each test N times as many, `MILLSTREAM_SEED=N` chooses the points.

mod paused;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::time::Instant;

use millstream_conformance::alone;
use millstream_conformance::paths::{READ_PATHS, ReadPath, WRITE_PATHS, WritePath};
use millstream_conformance::pattern::{self, Random};
use millstream_conformance::seed::{number, seed};
use millstream_conformance::task::{Task, start};
use millstream_conformance::trace::{Sleep, Step, Traced, fork_traced, sleeps_in};
use millstream_pipe::{Builder, DirectPolicy, Reader, WaitPolicy, Writer};
use rustix::process::{Signal, kill_process};

/// What is written when the child is gone.
const TAIL: &[u8] = &[b'!'; 300];

/// Two handles of each end, so that the child's death leaves one of each.
struct Ends {
    readers: Vec<Reader>,
    writers: Vec<Writer>,
}

/// A pipe that holds the stream from 0 on to `content`, nearly at the end of its ring, so that calls wrap around.
fn ends(capacity: usize, content: u64) -> Ends {
    let (reader, writer) = Builder::new().capacity(capacity).wait(WaitPolicy::Block).create().unwrap();
    let skipped = capacity - 100;
    (&writer).write_all(&vec![0; skipped]).unwrap();
    (&reader).read_exact(&mut vec![0; skipped]).unwrap();
    (&writer).write_all(&pattern::bytes(0..content)).unwrap();
    Ends { readers: vec![reader.try_clone().unwrap(), reader], writers: vec![writer.try_clone().unwrap(), writer] }
}

/// A full pipe at which what follows is offered.
fn offering() -> Ends {
    let builder = Builder::new().capacity(4096).wait(WaitPolicy::Block).direct(DirectPolicy::Always);
    let (reader, writer) = builder.create().unwrap();
    (&writer).write_all(&pattern::bytes(0..4096)).unwrap();
    Ends { readers: vec![reader.try_clone().unwrap(), reader], writers: vec![writer.try_clone().unwrap(), writer] }
}

fn read_all(mut reader: Reader, size: usize) -> Task<Vec<u8>> {
    start(move || {
        let (mut all, mut buffer) = (Vec::new(), vec![0; size]);
        loop {
            match reader.read(&mut buffer).unwrap() {
                0 => return all,
                count => all.extend_from_slice(&buffer[..count]),
            }
        }
    })
}

/// A pipe, a child at it, and what the others do meanwhile.
struct Scene {
    ends: Ends,
    child: Option<Traced>,
    /// Writes something when there is room.
    writing: Option<Task<()>>,
    /// Reads to the end.
    reading: Option<Task<Vec<u8>>>,
    /// An exported end.
    given: Option<OwnedFd>,
}

impl Scene {
    fn of<P>(ends: Ends, prepare: impl FnOnce(Ends) -> P, operate: impl FnOnce(P)) -> Scene {
        let (child, ends) = fork_traced(ends, prepare, operate);
        Scene { ends, child: Some(child), writing: None, reading: None, given: None }
    }

    fn of_writer(ends: Ends, operate: impl FnOnce(Writer)) -> Scene {
        Scene::of(ends, |mut ends| ends.writers.remove(0), operate)
    }

    /// A child that writes the stream's next 200 bytes.
    fn of_write(ends: Ends, position: u64) -> Scene {
        let bytes = pattern::bytes(position..position + 200);
        Scene::of_writer(ends, move |mut writer| writer.write_all(&bytes).unwrap())
    }

    /// The same, by one of the ways.
    fn of_write_by(path: &'static WritePath, ends: Ends, position: u64) -> Scene {
        let bytes = pattern::bytes(position..position + 200);
        Scene::of_writer(ends, move |writer| assert_eq!((path.write)(&writer, &bytes).unwrap(), 200))
    }

    fn of_reader(ends: Ends, operate: impl FnOnce(Reader)) -> Scene {
        Scene::of(ends, |mut ends| ends.readers.remove(0), operate)
    }

    /// A child that has used both sides alone for so long that their locks are its own, and then wrote to 2000.
    fn of_owner(operate: impl FnOnce(Reader, Writer)) -> Scene {
        let prepare = |mut ends: Ends| {
            let (reader, writer) = (ends.readers.remove(0), ends.writers.remove(0));
            for _ in 0..100 {
                (&writer).write_all(&[1; 10]).unwrap();
                (&reader).read_exact(&mut [0; 10]).unwrap();
            }
            (&writer).write_all(&pattern::bytes(0..2000)).unwrap();
            (reader, writer)
        };
        Scene::of(ends(4096, 0), prepare, |(reader, writer)| operate(reader, writer))
    }

    fn kill(&mut self) {
        self.child.take().unwrap().kill();
    }

    /// What the survivors find: the stream from one of `beginnings` on to one of `ends`, then the bytes that are
    /// written now, nothing else, and then the end.
    #[track_caller]
    fn rest_is(mut self, beginnings: &[u64], ends: &[u64]) {
        if self.child.is_some() {
            self.kill();
        }
        let (reader, writer) = (self.ends.readers.pop().unwrap(), self.ends.writers.pop().unwrap());
        drop(self.ends);
        let reading = self.reading.unwrap_or_else(|| {
            start(move || {
                let mut all = Vec::new();
                (&reader).read_to_end(&mut all).unwrap();
                assert_eq!((&reader).read(&mut [0]).unwrap(), 0, "the end stays the end");
                all
            })
        });
        if let Some(writing) = self.writing {
            writing.join();
        }
        (&writer).write_all(TAIL).unwrap();
        drop(writer);
        check_stream(&reading.join(), beginnings, ends);
    }
}

#[track_caller]
fn check_stream(all: &[u8], beginnings: &[u64], ends: &[u64]) {
    let (stream, tail) = all.split_at(all.len().checked_sub(TAIL.len()).expect("what was written last was lost"));
    assert!(tail == TAIL, "what was written last is not there");
    let possible: Vec<_> = beginnings.iter().flat_map(|&from| ends.iter().map(move |&to| from..to)).collect();
    let is_possible = possible.iter().any(|range| stream == pattern::bytes(range.clone()));
    assert!(is_possible, "{} bytes, which are none of {possible:?}", stream.len());
}

fn sleep_in_poll<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> Task<T> {
    let task = start(body);
    while sleeps_in(task.id) != Some(Sleep::Poll) {
        std::thread::yield_now();
    }
    task
}

alone! {
    /// Of the instrument itself: a machine may stop all tests for a while.
    fn a_stop_from_outside_is_not_the_end_of_a_call() {
        let count = || (0..200).for_each(|_| { std::hint::black_box(rustix::process::getppid()); });
        let (child, ()) = fork_traced((), |()| {}, |()| count());
        let mut steps = 0;
        while child.step() != Step::Finished {
            steps += 1;
            if steps % 100 == 0 {
                kill_process(child.id(), Signal::STOP).unwrap();
                kill_process(child.id(), Signal::CONT).unwrap();
                kill_process(child.id(), Signal::STOP).unwrap();
            }
        }
        assert!(steps > 200, "it was left after {steps} steps");
        child.kill();
    }
}

/// Where a child was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    InTheMiddle,
    Asleep,
    Finished,
}

fn lead(scene: &Scene, steps: u64) -> (u64, Left) {
    let child = scene.child.as_ref().unwrap();
    for step in 0..steps {
        match child.step() {
            Step::Made => {}
            Step::Asleep => return (step, Left::Asleep),
            Step::Finished => return (step, Left::Finished),
        }
    }
    (steps, Left::InTheMiddle)
}

/// Makes the scene again and again and calls `visit` when its child has made 0, 1, 2, ... steps, until it has made all.
fn at_every_step(begin: impl Fn() -> Scene, visit: impl Fn(Scene, Left)) {
    let started = Instant::now();
    let scene = begin();
    let (total, left) = lead(&scene, u64::MAX);
    println!("MILLSTREAM_SEED={} {total} steps, then {left:?}", seed());
    assert!(total > 100, "a call of {total} instructions?");
    visit(scene, left);
    let budget = number("MILLSTREAM_STEPS").unwrap_or(1) * 50_000;
    let stride = (total * total / 2).div_ceil(budget).max(1);
    let first = Random::from_seed(seed()).within(0..stride as usize) as u64;
    let mut points = 1;
    for steps in (first..total).step_by(stride as usize) {
        let scene = begin();
        let (at, left) = lead(&scene, steps);
        println!("step {at}, {left:?}");
        visit(scene, left);
        points += 1;
    }
    println!("{points} points, each {stride}. step, {:?}", started.elapsed());
}

/// Where the stream may begin after a read of 200 bytes that came so far. Only a plain read takes all of them at once.
fn taken(path: &ReadPath, left: Left) -> Vec<u64> {
    match left {
        Left::Finished => vec![200],
        _ if path.name == READ_PATHS[0].name => vec![0, 200],
        _ => (0..=200).collect(),
    }
}

#[allow(unsafe_code, reason = "a promise: the processes of these tests keep to the protocol")]
fn trust<E>(end: &mut E, promise: unsafe fn(&mut E)) {
    // SAFETY: all ends stay with processes of these tests, which run this crate.
    unsafe { promise(end) };
}

fn write_in_place(writer: &mut Writer, bytes: &[u8]) {
    trust(writer, Writer::trust_peers);
    let mut room = writer.reserve(bytes.len()).unwrap();
    room.write_all(bytes).unwrap();
    room.commit(bytes.len()).unwrap();
}

const BOTH: [u64; 2] = [2000, 2200];

/// The possible ends of a stream to which the child appends 200 bytes: both, until it has done it.
fn with_or_without(left: Left) -> &'static [u64] {
    if left == Left::Finished { &BOTH[1..] } else { &BOTH }
}

/// The child pauses in its write, perhaps with the writers' lock or the in-place lock. A second writer waits for it. In
/// the end both have written, each as a whole.
fn both_have_written(mut scene: Scene, left: Left) {
    let writer = scene.ends.writers[0].try_clone().unwrap();
    let writing = start(move || (&writer).write_all(&[b'?'; 50]).unwrap());
    while sleeps_in(writing.id).is_none() && !writing.is_finished() {
        std::thread::yield_now();
    }
    if left == Left::InTheMiddle {
        lead(&scene, u64::MAX);
    }
    writing.join();
    scene.kill();
    let reader = scene.ends.readers.pop().unwrap();
    drop(scene.ends);
    let mut all = Vec::new();
    (&reader).read_to_end(&mut all).unwrap();
    let theirs = all.windows(50).position(|window| window == [b'?'; 50]).expect("the other's bytes are whole");
    all.drain(theirs..theirs + 50);
    assert!(all == pattern::bytes(0..2200), "{} bytes", all.len());
}

alone! {
    fn a_writer_may_die_anywhere_in_a_write_by_any_way() {
        for path in WRITE_PATHS {
            at_every_step(
                || Scene::of_write_by(path, ends(4096, 2000), 2000),
                |scene, left| match left {
                    // It may have put in a part of its bytes.
                    Left::InTheMiddle if !path.is_like_write => scene.rest_is(&[0], &(2000..=2200).collect::<Vec<_>>()),
                    _ => scene.rest_is(&[0], with_or_without(left)),
                },
            );
        }
    }

    fn a_reader_may_die_anywhere_in_a_read_by_any_way() {
        for path in READ_PATHS {
            at_every_step(
                || Scene::of_reader(ends(4096, 2000), |reader| {
                    assert_eq!((path.read)(&reader, &mut [0; 200]).unwrap(), 200);
                }),
                |scene, left| scene.rest_is(&taken(path, left), &[2000]),
            );
        }
    }

    fn a_writer_may_die_anywhere_in_a_write_under_a_lock_of_its_own() {
        at_every_step(
            || Scene::of_owner(|_reader, mut writer| writer.write_all(&pattern::bytes(2000..2200)).unwrap()),
            |scene, left| scene.rest_is(&[0], with_or_without(left)),
        );
    }

    fn a_reader_may_die_anywhere_in_a_read_under_a_lock_of_its_own() {
        at_every_step(
            || Scene::of_owner(|mut reader, _writer| assert_eq!(reader.read(&mut [0; 200]).unwrap(), 200)),
            |scene, left| scene.rest_is(if left == Left::Finished { &[200] } else { &[0, 200] }, &[2000]),
        );
    }

    fn a_writer_may_die_anywhere_in_place_under_a_lock_of_its_own() {
        at_every_step(
            || Scene::of_owner(|_reader, mut writer| write_in_place(&mut writer, &pattern::bytes(2000..2200))),
            |scene, left| scene.rest_is(&[0], with_or_without(left)),
        );
    }

    fn a_reader_may_die_anywhere_in_place_under_a_lock_of_its_own() {
        at_every_step(
            || Scene::of_owner(|mut reader, _writer| {
                trust(&mut reader, Reader::trust_peers);
                let borrowed = reader.borrow_up_to(200).unwrap();
                assert!(borrowed.segments()[0] == pattern::bytes(0..200));
                borrowed.consume(200);
            }),
            |scene, left| scene.rest_is(if left == Left::Finished { &[200] } else { &[0, 200] }, &[2000]),
        );
    }

    fn waiter_for_in_place_lock_gets_its_turn_at_any_step() {
        at_every_step(
            || Scene::of_owner(|_reader, mut writer| write_in_place(&mut writer, &pattern::bytes(2000..2200))),
            both_have_written,
        );
    }

    fn a_lock_is_taken_back_from_a_writer_at_any_point_of_its_write() {
        at_every_step(
            || Scene::of_owner(|_reader, mut writer| writer.write_all(&pattern::bytes(2000..2200)).unwrap()),
            both_have_written,
        );
    }

    fn a_writer_may_die_anywhere_while_it_wakes_a_reader() {
        at_every_step(
            || {
                let mut ends = ends(4096, 0);
                let mut sleeper = ends.readers[0].try_clone().unwrap();
                let reading = sleep_in_poll(move || {
                    let mut all = Vec::new();
                    sleeper.read_to_end(&mut all).unwrap();
                    all
                });
                ends.readers.truncate(1);
                let scene = Scene::of_write(ends, 0);
                Scene { reading: Some(reading), ..scene }
            },
            |scene, left| scene.rest_is(&[0], if left == Left::Finished { &[200] } else { &[0, 200] }),
        );
    }

    fn a_reader_may_die_anywhere_while_it_wakes_a_writer() {
        at_every_step(
            || {
                // Fuller than a page from its end, and after the read no longer.
                let ends = ends(8192, 4200);
                let mut sleeper = ends.writers[0].try_clone().unwrap();
                let writing = sleep_in_poll(move || sleeper.write_all(&pattern::bytes(4200..8296)).unwrap());
                let scene = Scene::of_reader(ends, |mut reader| assert_eq!(reader.read(&mut [0; 200]).unwrap(), 200));
                Scene { writing: Some(writing), ..scene }
            },
            |scene, left| scene.rest_is(if left == Left::Finished { &[200] } else { &[0, 200] }, &[8296]),
        );
    }

    fn a_reader_that_never_sleeps_wakes_the_writer_in_place_of_a_dead_one() {
        at_every_step(
            || {
                let ends = ends(8192, 4200);
                let mut sleeper = ends.writers[0].try_clone().unwrap();
                let writing = sleep_in_poll(move || sleeper.write_all(&pattern::bytes(4200..8296)).unwrap());
                // All of it: the next reader finds no byte, and so makes no room for which it would wake a waiter.
                let mut buffer = vec![0; 4200];
                let scene = Scene::of_reader(ends, move |mut reader| {
                    assert_eq!(reader.read(&mut buffer).unwrap(), 4200);
                });
                Scene { writing: Some(writing), ..scene }
            },
            |mut scene, _| {
                scene.kill();
                let reader = &scene.ends.readers[0];
                reader.set_nonblocking(true).unwrap();
                let mut last = 0;
                // Until the last byte of the waiter has come.
                while last != pattern::byte_at(8295) || !scene.writing.as_ref().unwrap().is_finished() {
                    let mut bytes = [0; 4200];
                    if let Ok(count) = (&*reader).read(&mut bytes) {
                        last = bytes[count - 1];
                    }
                }
            },
        );
    }

    fn a_reader_may_die_anywhere_on_its_way_to_sleep() {
        at_every_step(
            || Scene::of_reader(ends(4096, 0), |mut reader| drop(reader.read(&mut [0; 10]))),
            |scene, _| scene.rest_is(&[0], &[0]),
        );
    }

    fn a_writer_may_die_anywhere_on_its_way_to_sleep() {
        at_every_step(
            || Scene::of_writer(ends(4096, 4096), |mut writer| drop(writer.write(&[7; 10]))),
            |scene, _| scene.rest_is(&[0], &[4096]),
        );
    }

    fn a_reader_may_die_anywhere_in_a_close() {
        at_every_step(
            || Scene::of_reader(ends(4096, 2000), drop),
            |scene, _| scene.rest_is(&[0], &[2000]),
        );
    }

    fn a_writer_may_die_anywhere_in_an_offer_that_is_taken_in_parts() {
        at_every_step(
            || {
                let mut scene = Scene::of_writer(offering(), |mut writer| drop(writer.write(&pattern::bytes(4096..14_096))));
                // What it offers is taken as soon as it is there, so it does not sleep for good.
                scene.reading = Some(read_all(scene.ends.readers.pop().unwrap(), 3000));
                scene
            },
            |mut scene, left| {
                scene.kill();
                let writer = scene.ends.writers.pop().unwrap();
                drop(scene.ends);
                (&writer).write_all(TAIL).unwrap();
                drop(writer);
                let all = scene.reading.unwrap().join();
                let (stream, tail) = all.split_at(all.len() - TAIL.len());
                assert!(tail == TAIL && stream == pattern::bytes(0..stream.len() as u64), "{} bytes", all.len());
                assert!((4096..=14_096).contains(&stream.len()));
                assert!(left != Left::Finished || stream.len() == 14_096, "{} bytes of a write that has returned", stream.len());
            },
        );
    }

    fn a_reader_may_die_anywhere_in_a_direct_read() {
        at_every_step(
            || {
                let mut ends = offering();
                let mut sleeper = ends.writers.remove(0);
                let writing = sleep_in_poll(move || assert_eq!(sleeper.write(&pattern::bytes(4096..14_096)).unwrap(), 10_000));
                (&ends.readers[0]).read_exact(&mut [0; 4096]).unwrap();
                let scene = Scene::of_reader(ends, |mut reader| assert_eq!(reader.read(&mut [0; 200]).unwrap(), 200));
                Scene { writing: Some(writing), ..scene }
            },
            |scene, left| {
                let (beginnings, all): (&[u64], _) = (if left == Left::Finished { &[4296] } else { &[4096, 4296] }, [14_096]);
                scene.rest_is(beginnings, &all);
            },
        );
    }

    fn a_writer_may_die_anywhere_in_a_close() {
        at_every_step(
            || Scene::of_writer(ends(4096, 2000), drop),
            |scene, _| scene.rest_is(&[0], &[2000]),
        );
    }

    fn the_end_comes_wherever_the_last_writer_dies_in_its_close() {
        at_every_step(
            || {
                let mut scene = Scene::of_writer(ends(4096, 2000), drop);
                scene.ends.writers.clear();
                scene
            },
            |mut scene, _| {
                let mut all = Vec::new();
                let mut reader = scene.ends.readers.pop().unwrap();
                let reading = start(move || { reader.read_to_end(&mut all).unwrap(); all });
                scene.kill();
                assert!(reading.join() == pattern::bytes(0..2000));
            },
        );
    }

    fn a_writer_may_die_anywhere_while_it_is_given_away() {
        at_every_step(
            || Scene::of_writer(ends(4096, 300), |writer| std::mem::forget(writer.into_fd().unwrap())),
            |scene, _| scene.rest_is(&[0], &[300]),
        );
    }

    fn a_reader_may_die_anywhere_while_it_is_given_away() {
        at_every_step(
            || Scene::of_reader(ends(4096, 300), |reader| std::mem::forget(reader.into_fd().unwrap())),
            |scene, _| scene.rest_is(&[0], &[300]),
        );
    }

    fn reader_may_die_at_any_step_to_sleep_in_backing_pipe() {
        at_every_step(
            || {
                let mut ends = ends(4096, 0);
                let given = ends.writers.remove(0).into_fd().unwrap();
                let scene = Scene::of_reader(ends, |mut reader| drop(reader.read(&mut [0; 10])));
                Scene { given: Some(given), ..scene }
            },
            |mut scene, _| {
                scene.kill();
                let (mut reader, mut writer) = (scene.ends.readers.pop().unwrap(), scene.ends.writers.pop().unwrap());
                // A writer that has to sleep while the pipe is full finds what the dead process has left behind.
                let kernel_capacity = writer.capacity().unwrap() as u64;
                writer.write_all(&pattern::bytes(0..kernel_capacity)).unwrap();
                let mut sleeper = writer.try_clone().unwrap();
                let writing = sleep_in_poll(move || sleeper.write_all(b"more").unwrap());
                let mut bytes = vec![0; kernel_capacity as usize + 4];
                reader.read_exact(&mut bytes).unwrap();
                writing.join();
                assert!(bytes[..kernel_capacity as usize] == pattern::bytes(0..kernel_capacity));
                // The stream returns to the ring when the exported end is attached, and a waiter there is woken.
                drop(Writer::attach(scene.given.take().unwrap()).unwrap());
                assert_eq!(writer.capacity().unwrap(), 4096);
                let reading = sleep_in_poll(move || {
                    let mut bytes = [0; 4];
                    reader.read_exact(&mut bytes).unwrap();
                    bytes
                });
                writer.write_all(b"wake").unwrap();
                assert_eq!(&reading.join(), b"wake");
            },
        );
    }

    fn a_process_may_die_anywhere_while_it_attaches_to_an_end() {
        at_every_step(
            || {
                let mut ends = ends(4096, 300);
                let given = ends.readers.remove(0).into_fd().unwrap();
                let (child, (ends, given)) = fork_traced(
                    (ends, given),
                    |(ends, given)| { drop(ends.readers); given },
                    |given| std::mem::forget(Reader::attach(given).unwrap()),
                );
                drop(given);
                Scene { ends, child: Some(child), writing: None, reading: None, given: None }
            },
            |scene, _| scene.rest_is(&[0], &[300]),
        );
    }

    fn a_process_may_die_anywhere_while_it_resizes() {
        at_every_step(
            || Scene::of_writer(ends(4096, 300), |writer| assert_eq!(writer.set_capacity(16_384).unwrap(), 16_384)),
            |scene, _| scene.rest_is(&[0], &[300]),
        );
    }
}
