//! The library that `millstream run` puts into every dynamically linked program of its tree.
//!
//! It stands in front of a few functions of the C library. It makes pipes large as they are created ([`pipes`]) and
//! keeps itself out of programs that have no use for it ([`exec`]). Three more parts are switched on by the run's settings:
//! one counts what passes through pipes ([`counted`], [`counters`]), one moves bytes through shared memory (`joined`), one has stdio
//! flush at line ends ([`lines`]). Nothing else about the program may change: return values, errno, cancellation and
//! signals are those of the function behind.
//!
//! The rules for code in here:
//!
//! - **No `std`, no allocation, no lock, no thread-local, no panic.** A call may come from a signal handler, from the
//!   child of a `vfork`, or while the program holds the allocator's lock.
//! - **errno stays as it is** unless the call fails. Our own system calls do not touch it; they are
//!   instructions (`millstream_sys::raw`) or come from `rustix`, which uses no libc here.
//! - **Nothing but glibc's own names is imported, without versions**, so the library loads into programs that bring an
//!   older glibc than the one it was built beside. That is why [`glibc`] lists every import.
//! - **Loading must be nearly free** (see `build.rs`): a script of small commands loads it for each of them.

#![no_std]
#![allow(unsafe_code)]
// The exported functions are reached by the dynamic linker, not by a path.
#![allow(unreachable_pub)]
// Parts that only `joined` calls are not called where there is none of it.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

mod behind;
#[cfg(target_arch = "x86_64")]
mod confining;
mod counted;
mod counters;
mod descriptor;
mod exec;
mod glibc;
#[cfg_attr(not(target_arch = "x86_64"), path = "kernel_only.rs")]
mod joined;
mod lines;
mod memory;
mod names;
mod passing_on;
mod pipes;
mod quota;
mod start;
mod text;
mod tools;
