//! Random sequences of operations, answered as the model answers them: millstream's pipe within one process, and with its
//! ends in two. The kernel's pipe too, as far as it can: it counts its room in pages, the model in bytes, so it is given
//! whole pages only. Each transfer of millstream's goes another way of `conformance::paths`, from one to the next, which
//! the model knows nothing of.
//!
//! What fails is printed as the shortest sequence that does, with the seed that found it; `MILLSTREAM_SEED=N` in the
//! environment runs the same sequences again, and `MILLSTREAM_CASES=N` more of them.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use millstream_conformance::kernel::Kernel;
use millstream_conformance::model::{CAPACITY_MAX, Model};
use millstream_conformance::ours::Ours;
use millstream_conformance::paths::{READ_PATHS, WRITE_PATHS};
use millstream_conformance::process::fork;
use millstream_conformance::seed::{number, seed};
use millstream_conformance::{BetweenProcesses, End, Implementation, PIPE_BUF, ReadEnd, WriteEnd, alone, pattern};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// One operation. The number of an end says which of the clones does it, modulo how many there are; that of a path which
/// way of its table the bytes go.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Write { end: u8, count: u32, path: u8 },
    WriteVectored { end: u8, counts: [u32; 3] },
    WriteWithoutBlocking { end: u8, count: u32 },
    Read { end: u8, count: u32, path: u8 },
    ReadVectored { end: u8, counts: [u32; 3] },
    BytesReadable { at_reader: bool },
    Capacity { at_reader: bool },
    SetCapacity { at_reader: bool, bytes: u64 },
    Clone { reader: bool, end: u8 },
    Drop { reader: bool, end: u8 },
    DropAll { reader: bool },
}

use Operation::*;

impl Operation {
    /// Whether it is done at the read end.
    fn is_at_reader(self) -> bool {
        match self {
            Write { .. } | WriteVectored { .. } | WriteWithoutBlocking { .. } => false,
            Read { .. } | ReadVectored { .. } => true,
            BytesReadable { at_reader } | Capacity { at_reader } | SetCapacity { at_reader, .. } => at_reader,
            Clone { reader, .. } | Drop { reader, .. } | DropAll { reader } => reader,
        }
    }
}

/// The same operations with every transfer rounded up to whole pages. Then a pipe that counts its room in pages answers
/// as one that counts it in bytes.
fn in_whole_pages(mut operations: Vec<Operation>) -> Vec<Operation> {
    for operation in &mut operations {
        match operation {
            Write { count, .. } | WriteWithoutBlocking { count, .. } | Read { count, .. } => {
                *count = count.next_multiple_of(PIPE_BUF as u32);
            }
            WriteVectored { counts, .. } | ReadVectored { counts, .. } => {
                *counts = counts.map(|count| count.next_multiple_of(PIPE_BUF as u32));
            }
            _ => {}
        }
    }
    operations
}

/// What an operation answered: a number or the kernel's number of an error, and the bytes of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    result: Result<u64, i32>,
    bytes: Vec<u8>,
}

impl Answer {
    fn of(result: std::io::Result<usize>) -> Answer {
        let result = result.map(|count| count as u64).map_err(|error| error.raw_os_error().unwrap_or(i32::MAX));
        Answer { result, bytes: Vec::new() }
    }
}

/// The ends that one process holds, and how far the stream is.
struct Ends<I: Implementation> {
    readers: Vec<I::Reader>,
    writers: Vec<I::Writer>,
    written: u64,
}

impl<I: Implementation> Ends<I> {
    /// A new pipe whose ends do not block. It gets the kernel's size, since not every implementation begins with that.
    fn new() -> Ends<I> {
        let (reader, writer) = I::pipe().unwrap();
        reader.set_capacity(65_536).unwrap();
        reader.set_nonblocking(true).unwrap();
        writer.set_nonblocking(true).unwrap();
        Ends { readers: vec![reader], writers: vec![writer], written: 0 }
    }

    /// Does the operation, if there is still an end to do it at.
    fn answer(&mut self, operation: Operation) -> Option<Answer> {
        let is_there = if operation.is_at_reader() { !self.readers.is_empty() } else { !self.writers.is_empty() };
        is_there.then(|| self.answer_at_open_end(operation))
    }

    fn answer_at_open_end(&mut self, operation: Operation) -> Answer {
        match operation {
            Write { end, count, path } => {
                let bytes = pattern::bytes(self.written..self.written + u64::from(count));
                let writer = &self.writers[usize::from(end) % self.writers.len()];
                let path = usize::from(path) % WRITE_PATHS.len();
                let result = writer.write_by(if WRITE_PATHS[path].is_like_write { path } else { 0 }, &bytes);
                self.written += *result.as_ref().unwrap_or(&0) as u64;
                Answer::of(result)
            }
            WriteVectored { end, counts } => self.write(end, &counts),
            WriteWithoutBlocking { end, count } => {
                // Said once more at one clone, which must not change anything for the others.
                let end_count = self.writers.len();
                let set = self.writers[usize::from(end) % end_count].set_nonblocking(true);
                set.map_or_else(|error| Answer::of(Err(error)), |()| self.write(end, &[count]))
            }
            Read { end, count, path } => {
                let mut bytes = vec![0; count as usize];
                let reader = &self.readers[usize::from(end) % self.readers.len()];
                let result = reader.read_by(usize::from(path) % READ_PATHS.len(), &mut bytes);
                bytes.truncate(*result.as_ref().unwrap_or(&0));
                Answer { bytes, ..Answer::of(result) }
            }
            ReadVectored { end, counts } => self.read_vectored(end, &counts),
            BytesReadable { at_reader: true } => Answer::of(self.readers[0].bytes_readable()),
            BytesReadable { at_reader: false } => Answer::of(self.writers[0].bytes_readable()),
            Capacity { at_reader: true } => Answer::of(self.readers[0].capacity()),
            Capacity { at_reader: false } => Answer::of(self.writers[0].capacity()),
            SetCapacity { at_reader: true, bytes } => Answer::of(self.readers[0].set_capacity(bytes as usize)),
            SetCapacity { at_reader: false, bytes } => Answer::of(self.writers[0].set_capacity(bytes as usize)),
            Clone { reader: true, end } => clone(&mut self.readers, end),
            Clone { reader: false, end } => clone(&mut self.writers, end),
            Drop { reader: true, end } => drop_one(&mut self.readers, end),
            Drop { reader: false, end } => drop_one(&mut self.writers, end),
            DropAll { reader: true } => drop_all(&mut self.readers),
            DropAll { reader: false } => drop_all(&mut self.writers),
        }
    }

    fn write(&mut self, end: u8, counts: &[u32]) -> Answer {
        let total: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        let bytes = pattern::bytes(self.written..self.written + total);
        let writer = &self.writers[usize::from(end) % self.writers.len()];
        let result = match counts {
            [_] => writer.write(&bytes),
            _ => {
                let mut rest = &bytes[..];
                let parts: Vec<_> = counts
                    .iter()
                    .map(|&count| {
                        let (part, more) = rest.split_at(count as usize);
                        rest = more;
                        std::io::IoSlice::new(part)
                    })
                    .collect();
                writer.write_vectored(&parts)
            }
        };
        self.written += *result.as_ref().unwrap_or(&0) as u64;
        Answer::of(result)
    }

    fn read_vectored(&mut self, end: u8, counts: &[u32]) -> Answer {
        let reader = &self.readers[usize::from(end) % self.readers.len()];
        let mut buffers: Vec<Vec<u8>> = counts.iter().map(|&count| vec![0; count as usize]).collect();
        let mut parts: Vec<_> = buffers.iter_mut().map(|buffer| std::io::IoSliceMut::new(buffer)).collect();
        let result = reader.read_vectored(&mut parts);
        let read = *result.as_ref().unwrap_or(&0);
        let mut bytes = buffers.concat();
        bytes.truncate(read);
        Answer { bytes, ..Answer::of(result) }
    }
}

fn clone<E: End>(ends: &mut Vec<E>, end: u8) -> Answer {
    match ends[usize::from(end) % ends.len()].try_clone() {
        Ok(clone) => {
            ends.push(clone);
            Answer::of(Ok(ends.len()))
        }
        Err(error) => Answer::of(Err(error)),
    }
}

fn drop_one<E>(ends: &mut Vec<E>, end: u8) -> Answer {
    ends.swap_remove(usize::from(end) % ends.len());
    Answer::of(Ok(ends.len()))
}

fn drop_all<E>(ends: &mut Vec<E>) -> Answer {
    ends.clear();
    Answer::of(Ok(0))
}

/// Sizes around every threshold: none, one, small, the largest small one, pages, more than fits.
fn count() -> impl Strategy<Value = u32> {
    prop_oneof![
        1 => Just(0u32),
        2 => Just(1u32),
        6 => 1..300u32,
        6 => 300..4096u32,
        3 => prop_oneof![Just(4095u32), Just(4096), Just(4097), Just(8192), Just(65_535), Just(65_536), Just(65_537)],
        4 => 4097..40_000u32,
        1 => 40_000..300_000u32,
    ]
}

fn capacity() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => (12..=20u32).prop_map(|bits| 1u64 << bits),
        8 => 0..100_000u64,
        1 => 0..=CAPACITY_MAX as u64,
        1 => (1u64 << 31) + 1..=u64::from(u32::MAX),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let counts = || [count(), count(), count()];
    prop_oneof![
        12 => (any::<u8>(), count(), any::<u8>()).prop_map(|(end, count, path)| Write { end, count, path }),
        3 => (any::<u8>(), counts()).prop_map(|(end, counts)| WriteVectored { end, counts }),
        2 => (any::<u8>(), count()).prop_map(|(end, count)| WriteWithoutBlocking { end, count }),
        12 => (any::<u8>(), count(), any::<u8>()).prop_map(|(end, count, path)| Read { end, count, path }),
        3 => (any::<u8>(), counts()).prop_map(|(end, counts)| ReadVectored { end, counts }),
        4 => any::<bool>().prop_map(|at_reader| BytesReadable { at_reader }),
        1 => any::<bool>().prop_map(|at_reader| Capacity { at_reader }),
        3 => (any::<bool>(), capacity()).prop_map(|(at_reader, bytes)| SetCapacity { at_reader, bytes }),
        2 => (any::<bool>(), any::<u8>()).prop_map(|(reader, end)| Clone { reader, end }),
        1 => (any::<bool>(), any::<u8>()).prop_map(|(reader, end)| Drop { reader, end }),
    ]
}

/// A life of a pipe: much happens while both ends are there, something after one of them has gone.
fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let gone = prop_oneof![Just(None), any::<bool>().prop_map(|reader| Some(DropAll { reader }))];
    let many = prop::collection::vec(operation(), 1..120);
    let few = prop::collection::vec(operation(), 0..20);
    (many, gone, few).prop_map(|(many, gone, few)| many.into_iter().chain(gone).chain(few).collect())
}

/// Runs the property on random sequences and, when it fails, says with which and how to repeat it.
fn for_random_operations(cases: u32, property: impl Fn(Vec<Operation>) -> Result<(), TestCaseError>) {
    let seed = seed();
    let cases = number("MILLSTREAM_CASES").map_or(cases, |cases| cases as u32);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    if let Err(failure) = runner.run(&operations(), property) {
        panic!("{failure}\nMILLSTREAM_SEED={seed} MILLSTREAM_CASES={cases} runs the same again");
    }
}

/// Compares the answers of two implementations in one process.
fn same_answers<A: Implementation, B: Implementation>(operations: Vec<Operation>) -> Result<(), TestCaseError> {
    let (mut left, mut right) = (Ends::<A>::new(), Ends::<B>::new());
    for (step, operation) in operations.into_iter().enumerate() {
        prop_assert_eq!(left.answer(operation), right.answer(operation), "step {}: {:?}", step, operation);
    }
    Ok(())
}

/// A frame of eight words and the bytes that go with it.
type Words = [u64; 5];

fn send(socket: &mut UnixStream, words: Words, bytes: &[u8]) {
    let mut frame: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    frame.extend((bytes.len() as u64).to_le_bytes());
    frame.extend(bytes);
    socket.write_all(&frame).unwrap();
}

/// `None` when the other side is gone.
fn receive(socket: &mut UnixStream) -> Option<(Words, Vec<u8>)> {
    let mut head = [0; 6 * 8];
    socket.read_exact(&mut head).ok()?;
    let word = |index: usize| u64::from_le_bytes(head[index * 8..index * 8 + 8].try_into().unwrap());
    let mut bytes = vec![0; word(5) as usize];
    socket.read_exact(&mut bytes).ok()?;
    Some((std::array::from_fn(word), bytes))
}

fn encode(operation: Operation) -> Words {
    let counts = |counts: [u32; 3]| counts.map(u64::from);
    match operation {
        Write { end, count, path } => [0, end.into(), count.into(), path.into(), 0],
        WriteVectored { end, counts: c } => [1, end.into(), counts(c)[0], counts(c)[1], counts(c)[2]],
        WriteWithoutBlocking { end, count } => [2, end.into(), count.into(), 0, 0],
        Read { end, count, path } => [3, end.into(), count.into(), path.into(), 0],
        ReadVectored { end, counts: c } => [4, end.into(), counts(c)[0], counts(c)[1], counts(c)[2]],
        BytesReadable { at_reader } => [5, at_reader.into(), 0, 0, 0],
        Capacity { at_reader } => [6, at_reader.into(), 0, 0, 0],
        SetCapacity { at_reader, bytes } => [7, at_reader.into(), bytes, 0, 0],
        Clone { reader, end } => [8, reader.into(), end.into(), 0, 0],
        Drop { reader, end } => [9, reader.into(), end.into(), 0, 0],
        DropAll { reader } => [10, reader.into(), 0, 0, 0],
    }
}

fn decode(words: Words) -> Operation {
    let [kind, first, second, third, fourth] = words;
    let (end, count, reader) = (first as u8, second as u32, first == 1);
    let counts = [second, third, fourth].map(|count| count as u32);
    match kind {
        0 => Write { end, count, path: third as u8 },
        1 => WriteVectored { end, counts },
        2 => WriteWithoutBlocking { end, count },
        3 => Read { end, count, path: third as u8 },
        4 => ReadVectored { end, counts },
        5 => BytesReadable { at_reader: reader },
        6 => Capacity { at_reader: reader },
        7 => SetCapacity { at_reader: reader, bytes: second },
        8 => Clone { reader, end: second as u8 },
        9 => Drop { reader, end: second as u8 },
        _ => DropAll { reader },
    }
}

/// The other process: does each operation that it receives at its ends and answers, until the socket is closed.
fn obey<I: Implementation>(mut ends: Ends<I>, mut socket: UnixStream) {
    while let Some((words, _)) = receive(&mut socket) {
        let (kind, value, bytes) = match ends.answer(decode(words)) {
            None => (0, 0, Vec::new()),
            Some(Answer { result: Ok(value), bytes }) => (1, value, bytes),
            Some(Answer { result: Err(error), bytes }) => (2, error as u64, bytes),
        };
        send(&mut socket, [kind, value, 0, 0, 0], &bytes);
    }
}

fn ask(socket: &mut UnixStream, operation: Operation) -> Option<Answer> {
    send(socket, encode(operation), &[]);
    let ([kind, value, ..], bytes) = receive(socket).expect("the other process is gone");
    match kind {
        0 => None,
        1 => Some(Answer { result: Ok(value), bytes }),
        _ => Some(Answer { result: Err(value as i32), bytes }),
    }
}

/// Compares with the model when one end is in a child, which does its operations on command.
fn same_answers_across_processes<I: BetweenProcesses>(
    operations: Vec<Operation>,
    child_reads: bool,
) -> Result<(), TestCaseError> {
    let state = (Ends::<I>::new(), UnixStream::pair().unwrap());
    let (child, (mut here, (mut socket, there))) = fork(state, |(mut ends, (here, there))| {
        drop(here);
        match child_reads {
            true => ends.writers.clear(),
            false => ends.readers.clear(),
        }
        obey(ends, there);
    });
    drop(there);
    match child_reads {
        true => here.readers.clear(),
        false => here.writers.clear(),
    }
    let mut model = Ends::<Model>::new();
    for (step, operation) in operations.into_iter().enumerate() {
        let answer = match operation.is_at_reader() == child_reads {
            true => ask(&mut socket, operation),
            false => here.answer(operation),
        };
        prop_assert_eq!(answer, model.answer(operation), "step {}: {:?}", step, operation);
    }
    drop(socket);
    let status = child.wait();
    prop_assert_eq!(status.exit_status(), Some(0));
    Ok(())
}

alone! {
    fn operations_survive_being_told_to_another_process() {
        for_random_operations(300, |operations| {
            for operation in operations {
                prop_assert_eq!(format!("{:?}", decode(encode(operation))), format!("{operation:?}"));
            }
            Ok(())
        });
    }

    /// The comparison itself on trial: the model behaves like the model.
    fn two_models_answer_alike() {
        for_random_operations(100, same_answers::<Model, Model>);
    }

    fn the_kernel_answers_like_the_model_in_whole_pages() {
        for_random_operations(500, |operations| same_answers::<Kernel, Model>(in_whole_pages(operations)));
    }

    fn the_kernel_answers_like_the_model_with_the_reader_in_another_process() {
        for_random_operations(200, |operations| same_answers_across_processes::<Kernel>(in_whole_pages(operations), true));
    }

    fn the_kernel_answers_like_the_model_with_the_writer_in_another_process() {
        for_random_operations(200, |operations| same_answers_across_processes::<Kernel>(in_whole_pages(operations), false));
    }

    fn ours_answers_like_the_model() {
        for_random_operations(500, same_answers::<Ours, Model>);
    }

    fn ours_answers_like_the_model_with_the_reader_in_another_process() {
        for_random_operations(200, |operations| same_answers_across_processes::<Ours>(operations, true));
    }

    fn ours_answers_like_the_model_with_the_writer_in_another_process() {
        for_random_operations(200, |operations| same_answers_across_processes::<Ours>(operations, false));
    }
}
