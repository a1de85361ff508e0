//! Every system call that millstream makes, and the few words that its processes share.
//!
//! This is the only crate that knows `libc` and `rustix`. It holds no policy: its callers decide how large a pipe is,
//! what to do when the kernel refuses, and which signal goes where.
//!
//! ```
//! use millstream_sys::pipe;
//!
//! let (reader, _writer) = pipe::create()?;
//! let granted = pipe::set_capacity(&reader, 100_000)?;
//! assert_eq!(granted, 131_072, "the kernel rounds up to a power of two");
//! # Ok::<(), millstream_sys::Errno>(())
//! ```
//!
//! Two layers:
//!
//! - **without `std`** ([`pipe`], [`settings`], [`ledger`], [`fate`], [`joint`], [`executable`], [`machine`],
//!   [`confinement`], [`raw`]): what the library inside other programs and the start of a run need. It allocates
//!   nothing, never panics on the paths that the library takes, and may be called from a signal handler.
//! - **with `std`** (default; everything else): what the program itself, the pipe library and the measurements need.
//!
//! Not here: anything that chooses, waits or retries. See `docs/architecture.md` for the whole.

#![no_std]

#[cfg(feature = "std")]
extern crate std;

pub mod births;
pub mod clock;
pub mod confinement;
pub mod descriptor_path;
pub mod descriptors;
pub mod directory;
pub mod executable;
pub mod fate;
pub mod joint;
pub mod ledger;
pub mod machine;
pub mod pipe;
pub mod quota;
pub mod raw;
pub mod settings;
pub mod settled;

#[cfg(feature = "std")]
pub mod attributes;
#[cfg(feature = "std")]
pub mod child;
#[cfg(all(test, feature = "std"))]
mod children;
#[cfg(feature = "std")]
pub mod cpu;
#[cfg(feature = "std")]
pub mod detach;
#[cfg(feature = "std")]
pub mod fifo;
#[cfg(feature = "std")]
pub mod foreign;
#[cfg(feature = "std")]
pub mod fork;
#[cfg(feature = "std")]
pub mod futex;
#[cfg(feature = "std")]
pub mod identity;
#[cfg(feature = "std")]
pub mod inherited;
#[cfg(feature = "std")]
pub mod lend;
#[cfg(feature = "std")]
pub mod mapped_file;
#[cfg(feature = "std")]
pub mod memory;
#[cfg(feature = "std")]
pub mod message_queue;
#[cfg(feature = "std")]
pub mod open_files;
#[cfg(feature = "std")]
pub mod own_page;
#[cfg(feature = "std")]
pub mod pages;
#[cfg(feature = "std")]
pub mod process;
#[cfg(feature = "std")]
pub mod process_memory;
#[cfg(feature = "std")]
pub mod promised;
#[cfg(feature = "std")]
pub mod ready;
#[cfg(feature = "std")]
pub mod share;
#[cfg(feature = "std")]
pub mod shared;
#[cfg(feature = "std")]
pub mod signals;
#[cfg(feature = "std")]
pub mod socket;
#[cfg(feature = "std")]
pub mod terminal;
#[cfg(feature = "std")]
pub mod transfer;
#[cfg(feature = "std")]
pub mod tripwire;
#[cfg(feature = "std")]
pub mod usage;
#[cfg(feature = "std")]
pub mod vector;
#[cfg(feature = "std")]
pub mod whole_file;
#[cfg(feature = "std")]
pub mod written;

/// What a system call returns when it fails: the kernel's own number, with its usual text as `Display`.
pub use rustix::io::Errno;

pub use rustix::fd;

/// The number of the calling process. Each call asks the kernel, so it is right in every child too.
pub fn own_pid() -> u32 {
    rustix::process::getpid().as_raw_pid().unsigned_abs()
}

/// The number of the namespace in which process and thread numbers of the calling process mean something.
///
/// # Errors
/// `ENOENT`: `/proc` is not mounted.
pub fn own_pid_namespace() -> Result<u64, Errno> {
    rustix::fs::stat(c"/proc/self/ns/pid").map(|status| status.st_ino)
}

/// The name of the program that the calling process runs, as the kernel keeps it: at most 15 bytes, then zeros.
pub fn own_name() -> [u8; 16] {
    let mut name = [0; 16];
    // The name of the first thread is the program's, unless the program has changed it already.
    if let Ok(file) = rustix::fs::open(
        c"/proc/self/comm",
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    ) {
        let len = rustix::io::read(file, &mut name).unwrap_or(0);
        if let Some(end) = len.checked_sub(1).and_then(|last| name.get_mut(last)) {
            *end = 0;
        }
    }
    name
}

/// A program without `std` has to say itself what a panic does. It ends the process: this code runs inside programs
/// that did not ask for it, and going on after a broken assumption could cost their data.
#[cfg(not(feature = "std"))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    use rustix::process::{Signal, getpid, kill_process};
    loop {
        let _ = kill_process(getpid(), Signal::ABORT);
    }
}
