//! A stream cut into pieces of one size, each compressed at once into a frame of its own, by as many threads as there may be.
//!
//! ```text
//!   stream  ──▶ filling ──▶ waiting  waiting ──▶ in work, one on each thread ──▶ frames, in the order of the stream ──▶
//! ```
//!
//! The thread that brings the bytes compresses too. When enough pieces wait for the other threads, it compresses the
//! piece that it has just filled, which is still in its cache. At the end of the stream it compresses pieces that wait.
//! Without other threads it compresses all pieces itself.
//!
//! The library has threads too (`nbWorkers`), which cut one frame into jobs. It is slower: each job reads again the
//! bytes before it, and does not know that it is short. At the end of a job, the thread that brings the bytes spins
//! until the worker has returned to its pool; with one CPU for both, that takes a whole time slice.
//!
//! The frame of a piece ends in its checksum: the low half of the XXH64 of the piece.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use millstream_net::{Next, Step, TransformError};
use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, compress_bound};

/// The most threads, even if more are allowed.
const THREADS_MAX: usize = 64;

/// Binary logarithm of the largest distance of a match: 8 MiB, which every decoder has to support (RFC 8878,
/// 3.1.1.1.2). In a smaller piece it is the whole piece.
const WINDOW_LOG: u32 = 23;

/// The stage.
pub(super) struct Frames {
    level: i32,
    piece_bytes: usize,
    threads: usize,
    filling: Vec<u8>,
    /// Whether a piece was full, or the stream has ended.
    has_begun: bool,
    /// Whether no byte has come: the end of an empty stream is a frame too.
    is_empty_frame_missing: bool,
    own: Own,
    shared: Arc<Shared>,
    others: Vec<JoinHandle<()>>,
    /// The frame that is being written to the output, and how many bytes of it were.
    ready: Frame,
    taken: usize,
}

/// The frame of a piece.
#[derive(Default)]
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    /// Bytes of the piece.
    pub(super) piece_bytes: usize,
}

impl Frames {
    /// A stage that cuts the stream into pieces of `piece_bytes`.
    pub(super) fn new(level: i32, piece_bytes: usize) -> Frames {
        Frames {
            level,
            piece_bytes,
            threads: 1,
            filling: Vec::new(),
            has_begun: false,
            is_empty_frame_missing: true,
            own: Own { level, compressor: None },
            shared: Arc::default(),
            others: Vec::new(),
            ready: Frame::default(),
            taken: 0,
        }
    }

    /// The same, with no frame for a stream without bytes.
    pub(super) fn without_empty(mut self) -> Frames {
        self.is_empty_frame_missing = false;
        self
    }

    pub(super) fn use_threads(&mut self, most: usize) {
        self.threads = most.clamp(1, THREADS_MAX);
    }

    /// As [`Rewrite::step`](millstream_net::Rewrite::step). `told` gets each frame before the first byte of it is written.
    pub(super) fn step(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        ends: bool,
        mut told: impl FnMut(&Frame) -> Result<(), TransformError>,
    ) -> Result<Step, TransformError> {
        let (mut consumed, mut produced) = (0, 0);
        let next = loop {
            produced += self.hand_on(&mut output[produced..], &mut told)?;
            if produced == output.len() {
                break Next::More;
            }
            let rest = &input[consumed..];
            if self.is_full() {
                self.advance();
            } else if self.filling.len() == self.piece_bytes {
                self.dispatch();
            } else if !rest.is_empty() {
                consumed += self.fill(rest);
            } else if !ends {
                break Next::More;
            } else if !self.filling.is_empty() || self.is_empty_frame_missing {
                self.dispatch();
            } else if self.shared.lock().pieces.is_empty() {
                break Next::Done;
            } else {
                self.advance();
            }
        };
        Ok(Step { consumed, produced, next })
    }

    /// Moves bytes of the oldest ready frames to `output`, as many as fit. Returns how many.
    fn hand_on(
        &mut self,
        output: &mut [u8],
        told: &mut impl FnMut(&Frame) -> Result<(), TransformError>,
    ) -> Result<usize, TransformError> {
        let mut produced = 0;
        loop {
            let (left, room) = (&self.ready.bytes[self.taken..], &mut output[produced..]);
            let count = left.len().min(room.len());
            room[..count].copy_from_slice(&left[..count]);
            (self.taken, produced) = (self.taken + count, produced + count);
            if produced == output.len() {
                return Ok(produced);
            }
            let Some(frame) = self.shared.lock().first_frame(&mut self.ready) else { return Ok(produced) };
            frame.map_err(TransformError::new)?;
            told(&self.ready)?;
            self.taken = 0;
        }
    }

    /// Whether there are as many pieces as there may be.
    fn is_full(&self) -> bool {
        self.shared.lock().pieces.len() > 3 * self.threads
    }

    fn fill(&mut self, input: &[u8]) -> usize {
        if self.filling.capacity() == 0 {
            self.filling = self.shared.lock().spare_inputs.pop().unwrap_or_default();
            self.filling.reserve_exact(self.piece_bytes);
        }
        let count = input.len().min(self.piece_bytes - self.filling.len());
        self.filling.extend_from_slice(&input[..count]);
        count
    }

    /// Makes a piece of the filled bytes. Another thread compresses it, if fewer pieces wait than there are other
    /// threads; otherwise this thread does.
    fn dispatch(&mut self) {
        // A stream of one piece needs no other threads.
        if self.has_begun {
            self.start_others();
        }
        (self.has_begun, self.is_empty_frame_missing) = (true, false);
        let piece = std::mem::take(&mut self.filling);
        let mut state = self.shared.lock();
        if state.waiting < self.others.len() {
            state.pieces.push_back(Piece::Waiting(piece));
            state.waiting += 1;
            self.shared.is_waiting.notify_one();
        } else {
            let begun = state.begin_with(piece);
            drop(state);
            self.shared.compress(begun, &mut self.own);
        }
    }

    fn start_others(&mut self) {
        while self.others.len() + 1 < self.threads {
            let (shared, mut own) = (Arc::clone(&self.shared), Own { level: self.level, compressor: None });
            match thread::Builder::new().spawn(move || shared.work(&mut own)) {
                Ok(thread) => self.others.push(thread),
                // Fewer threads do the work too.
                Err(_) => self.threads = self.others.len() + 1,
            }
        }
    }

    /// Compresses a piece, or waits until another thread has done so.
    fn advance(&mut self) {
        let mut state = self.shared.lock();
        match state.begin() {
            Some(begun) => {
                drop(state);
                self.shared.compress(begun, &mut self.own);
            }
            None => {
                while matches!(state.pieces.front(), Some(Piece::InWork)) {
                    state = self.shared.is_ready.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

/// Joins the threads: each ends after its current piece.
impl Drop for Frames {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.is_waiting.notify_all();
        self.others.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// The compressor of one thread, which keeps its tables from piece to piece.
struct Own {
    level: i32,
    compressor: Option<Compressor<'static>>,
}

impl Own {
    /// Makes a frame of a piece.
    fn compress(&mut self, piece: &[u8], frame: &mut Vec<u8>) -> std::io::Result<()> {
        let compressor = match &mut self.compressor {
            Some(compressor) => compressor,
            none => {
                let mut compressor = Compressor::new(self.level)?;
                compressor.set_parameter(CParameter::ChecksumFlag(true))?;
                compressor.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
                none.insert(compressor)
            }
        };
        frame.clear();
        frame.reserve_exact(compress_bound(piece.len()));
        compressor.compress_to_buffer(piece, frame).map(drop)
    }
}

/// What the threads share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when a piece waits, or nothing follows.
    is_waiting: Condvar,
    /// Notified when a frame is ready.
    is_ready: Condvar,
}

#[derive(Default)]
struct State {
    /// The pieces in the order of the stream, from the oldest whose frame was not taken.
    pieces: VecDeque<Piece>,
    /// How many of them wait.
    waiting: usize,
    /// How many frames were taken already.
    before: u64,
    /// Memory to be used again.
    spare_inputs: Vec<Vec<u8>>,
    spare_frames: Vec<Vec<u8>>,
    is_over: bool,
}

enum Piece {
    Waiting(Vec<u8>),
    InWork,
    /// Its frame, or why there is none.
    Ready(Result<Frame, String>),
}

/// A piece that a thread has taken for itself.
struct Begun {
    number: u64,
    input: Vec<u8>,
    frame: Vec<u8>,
}

impl State {
    /// Begins the oldest piece that waits.
    fn begin(&mut self) -> Option<Begun> {
        let place = self.pieces.iter().position(|piece| matches!(piece, Piece::Waiting(_)))?;
        let Piece::Waiting(input) = std::mem::replace(&mut self.pieces[place], Piece::InWork) else {
            unreachable!("it was looked at")
        };
        self.waiting -= 1;
        Some(self.begun(place, input))
    }

    /// Begins a piece that follows all others.
    fn begin_with(&mut self, input: Vec<u8>) -> Begun {
        self.pieces.push_back(Piece::InWork);
        self.begun(self.pieces.len() - 1, input)
    }

    fn begun(&mut self, place: usize, input: Vec<u8>) -> Begun {
        let frame = self.spare_frames.pop().unwrap_or_default();
        Begun { number: self.before + place as u64, input, frame }
    }

    /// Replaces `frame` by the frame of the oldest piece, if that is ready.
    fn first_frame(&mut self, frame: &mut Frame) -> Option<Result<(), String>> {
        if !matches!(self.pieces.front(), Some(Piece::Ready(_))) {
            return None;
        }
        let Some(Piece::Ready(ready)) = self.pieces.pop_front() else { unreachable!("it was looked at") };
        self.before += 1;
        Some(ready.map(|ready| self.spare_frames.push(std::mem::replace(frame, ready).bytes)))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compresses pieces that wait, until the stage is over.
    fn work(&self, own: &mut Own) {
        let mut state = self.lock();
        while !state.is_over {
            match state.begin() {
                Some(begun) => {
                    drop(state);
                    self.compress(begun, own);
                    state = self.lock();
                }
                None => state = self.is_waiting.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn compress(&self, begun: Begun, own: &mut Own) {
        let Begun { number, mut input, mut frame } = begun;
        // `advance` waits for the frame: after a panic there must be an error in its place.
        let outcome = catch_unwind(AssertUnwindSafe(|| own.compress(&input, &mut frame)));
        let ready = match outcome {
            Ok(Ok(())) => Ok(Frame { bytes: frame, piece_bytes: input.len() }),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("a thread that compresses has panicked".into()),
        };
        input.clear();
        let mut state = self.lock();
        state.spare_inputs.push(input);
        // Pieces before it may have been taken meanwhile, but not this one.
        let place = (number - state.before) as usize;
        state.pieces[place] = Piece::Ready(ready);
        drop(state);
        self.is_ready.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces of a real stage, a thousandth as long.
    const PIECE: usize = 4000;

    fn numbers(bytes: usize) -> Vec<u8> {
        (0_u32..).flat_map(|number| (number * 7 % 1009).to_string().into_bytes()).take(bytes).collect()
    }

    /// Brings `input` in parts of `cut` bytes and takes what comes `room` bytes at a time.
    fn packed(input: &[u8], threads: usize, cut: usize, room: usize) -> Vec<u8> {
        let mut frames = Frames::new(1, PIECE);
        frames.use_threads(threads);
        let (mut output, mut packed) = (vec![0; room], Vec::new());
        for mut part in input.chunks(cut) {
            loop {
                let step = frames.step(part, &mut output, false, |_| Ok(())).unwrap();
                packed.extend_from_slice(&output[..step.produced]);
                part = &part[step.consumed..];
                assert_eq!(step.next, Next::More);
                if part.is_empty() && step.produced == 0 {
                    break;
                }
                assert!(step.consumed + step.produced > 0);
            }
        }
        loop {
            let step = frames.step(&[], &mut output, true, |_| Ok(())).unwrap();
            packed.extend_from_slice(&output[..step.produced]);
            if step.next == Next::Done {
                return packed;
            }
            assert!(step.produced > 0);
        }
    }

    fn frames_of(mut packed: &[u8]) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while !packed.is_empty() {
            let (frame, rest) = packed.split_at(zstd::zstd_safe::find_frame_compressed_size(packed).unwrap());
            frames.push(zstd::bulk::decompress(frame, PIECE).unwrap());
            packed = rest;
        }
        frames
    }

    #[test]
    fn a_stream_of_any_length_becomes_frames_of_one_length_and_a_rest() {
        for bytes in [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 5 * PIECE + 17] {
            let input = numbers(bytes);
            let expected: Vec<&[u8]> = if bytes == 0 { vec![&[]] } else { input.chunks(PIECE).collect() };
            for threads in [1, 2, 3] {
                assert_eq!(
                    frames_of(&packed(&input, threads, 3333, 500)),
                    expected,
                    "{bytes} bytes, {threads} threads"
                );
            }
        }
    }

    #[test]
    fn threads_cuts_and_room_make_no_difference() {
        let input = numbers(300 * PIECE + 5);
        let expected = packed(&input, 1, input.len(), input.len());
        for round in 0..20 {
            for threads in [1, 2, 3, 8, 1000] {
                let (cut, room) = ([1, 777, PIECE, 3 * PIECE + 1][round % 4], [40, 1000, 1 << 20][round % 3]);
                assert!(packed(&input, threads, cut, room) == expected, "{threads} threads, {cut}, {room}");
            }
        }
    }

    #[test]
    fn dropped_stage_leaves_no_thread_behind() {
        let input = numbers(100 * PIECE);
        let mut output = vec![0; 100];
        for bytes in (0..input.len()).step_by(2 * PIECE + 999) {
            let mut frames = Frames::new(1, PIECE);
            frames.use_threads(4);
            let mut left = &input[..bytes];
            while !left.is_empty() {
                left = &left[frames.step(left, &mut output, false, |_| Ok(())).unwrap().consumed..];
            }
            let shared = Arc::downgrade(&frames.shared);
            drop(frames);
            assert!(shared.upgrade().is_none(), "{bytes} bytes");
        }
    }
}
