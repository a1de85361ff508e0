//! What a WebAssembly module needs to be a transform, `millstream net 'wasm FILE'`. `docs/wasm.md` explains all of it.
//!
//! A transform implements [`InPlace`] or [`Rewrite`], and says `in_place!(Type)` or `rewrite!(Type)` at the end of its file. A panic
//! stops the network with its message.

// No transform needs all of it.
#![allow(dead_code, unused_macros, unused_imports)]

use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

/// Changes bytes where they lie.
pub trait InPlace: Sized {
    /// Made once, with the arguments that follow the file in the network.
    fn new(arguments: &[&str]) -> Result<Self, String>;

    /// Works on the next bytes of the stream; `offset` is the number of those before them.
    fn apply(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), TransformError>;

    /// The stream has ended.
    fn finish(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// Writes other bytes than it reads.
pub trait Rewrite: Sized {
    /// Made once, with the arguments that follow the file in the network.
    fn new(arguments: &[&str]) -> Result<Self, String>;

    /// Reads from the start of `input` and writes to the start of `output`, which has room for 4096 bytes or more. Must consume
    /// or produce something, unless it needs more input and there is none. `ends`: no input follows; it is then called until it
    /// says [`Next::Done`].
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError>;
}

/// What one call of [`Rewrite::step`] did.
pub struct Step {
    /// Bytes of the input that are not needed any more.
    pub consumed: usize,
    /// Bytes written to the output.
    pub produced: usize,
    /// Whether there is more to do.
    pub next: Next,
}

/// What follows a step.
pub enum Next {
    /// Further steps.
    More,
    /// Nothing: the output is complete, whatever input follows.
    Done,
}

/// What is wrong with a byte of the input.
pub struct TransformError {
    /// In a few words.
    pub what: String,
    /// Bytes of this piece before it.
    pub after: usize,
}

/// Makes a type that is [`InPlace`] the transform of this module.
macro_rules! in_place {
    ($transform:ty) => {
        static TRANSFORM: std::sync::Mutex<Option<$transform>> = std::sync::Mutex::new(None);

        #[unsafe(no_mangle)]
        extern "C" fn millstream_start(arguments: *const u8, bytes: usize) -> i32 {
            let made =
                millstream::words(arguments, bytes).and_then(|words| <$transform as millstream::InPlace>::new(&words));
            millstream::kept(&TRANSFORM, made)
        }

        #[unsafe(no_mangle)]
        extern "C" fn millstream_apply(offset: u64, bytes: *mut u8, len: usize) -> usize {
            // SAFETY: the host gives `len` bytes that it got from millstream_allocate.
            let bytes = unsafe { std::slice::from_raw_parts_mut(bytes, len) };
            let outcome = millstream::with(&TRANSFORM, |it| millstream::InPlace::apply(it, offset, bytes));
            outcome.map_or_else(|fault| millstream::said(fault.what, fault.after), |()| len)
        }

        #[unsafe(no_mangle)]
        extern "C" fn millstream_finish() -> i32 {
            let outcome = millstream::with(&TRANSFORM, |it| millstream::InPlace::finish(it));
            outcome.map_or_else(|what| millstream::said(what, 1), |()| 0)
        }
    };
}
pub(crate) use in_place;

/// Makes a type that is [`Rewrite`] the transform of this module.
macro_rules! rewrite {
    ($transform:ty) => {
        static TRANSFORM: std::sync::Mutex<Option<$transform>> = std::sync::Mutex::new(None);

        #[unsafe(no_mangle)]
        extern "C" fn millstream_start(arguments: *const u8, bytes: usize) -> i32 {
            let made =
                millstream::words(arguments, bytes).and_then(|words| <$transform as millstream::Rewrite>::new(&words));
            millstream::kept(&TRANSFORM, made)
        }

        #[unsafe(no_mangle)]
        extern "C" fn millstream_step(call: *mut millstream::Call) -> i32 {
            // SAFETY: the host gives one that it got from millstream_allocate, with two pieces of memory from there.
            let (call, input, output) = unsafe {
                let call = &mut *call;
                let input = std::slice::from_raw_parts(call.input, call.input_len);
                let output = std::slice::from_raw_parts_mut(call.output, call.output_room);
                (call, input, output)
            };
            let ends = call.ends != 0;
            match millstream::with(&TRANSFORM, |it| millstream::Rewrite::step(it, input, output, ends)) {
                Ok(step) => {
                    (call.consumed, call.produced) = (step.consumed, step.produced);
                    matches!(step.next, millstream::Next::Done).into()
                }
                Err(fault) => {
                    call.consumed = fault.after;
                    millstream::said(fault.what, 2)
                }
            }
        }
    };
}
pub(crate) use rewrite;

/// The argument of `millstream_step`.
#[repr(C)]
pub struct Call {
    pub input: *const u8,
    pub input_len: usize,
    pub output: *mut u8,
    pub output_room: usize,
    pub ends: u32,
    pub consumed: usize,
    pub produced: usize,
}

/// What is wrong, for the host to read.
static MESSAGE: Mutex<Option<CString>> = Mutex::new(None);

/// Leaves a message, and gives the answer that says so.
pub fn said<T>(what: String, answer: T) -> T {
    let message = CString::new(what.replace('\0', " ")).ok();
    *MESSAGE.lock().unwrap_or_else(PoisonError::into_inner) = message;
    answer
}

/// The arguments, from how the host writes them: each with a zero at its end.
pub fn words<'a>(arguments: *const u8, bytes: usize) -> Result<Vec<&'a str>, String> {
    std::panic::set_hook(Box::new(|panic| said(panic.to_string(), ())));
    // SAFETY: the host gives `bytes` bytes that it got from millstream_allocate and does not use again.
    let text = unsafe { std::slice::from_raw_parts(arguments, bytes) };
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    Ok(text.split_terminator('\0').collect())
}

/// Keeps the transform for the calls that follow.
pub fn kept<T>(transform: &Mutex<Option<T>>, made: Result<T, String>) -> i32 {
    match made {
        Ok(made) => {
            *transform.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
            0
        }
        Err(what) => said(what, 1),
    }
}

/// Has the transform do something.
pub fn with<T, R>(transform: &Mutex<Option<T>>, work: impl FnOnce(&mut T) -> R) -> R {
    let mut transform = transform.lock().unwrap_or_else(PoisonError::into_inner);
    work(transform.as_mut().expect("millstream_start comes first"))
}

#[unsafe(no_mangle)]
extern "C" fn millstream_abi() -> i32 {
    1
}

/// Memory that is never given back, aligned for everything.
#[unsafe(no_mangle)]
extern "C" fn millstream_allocate(bytes: usize) -> *mut u64 {
    Vec::leak(vec![0; bytes.div_ceil(8).max(1)]).as_mut_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn millstream_message() -> *const std::ffi::c_char {
    let message = MESSAGE.lock().unwrap_or_else(PoisonError::into_inner);
    message.as_ref().map_or(std::ptr::null(), |message| message.as_ptr())
}
