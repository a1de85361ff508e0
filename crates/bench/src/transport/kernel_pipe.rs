//! The kernel's pipe: as a program gets it, and as large as an unprivileged program may make it.

use std::io::{self, PipeWriter};

use millstream_sys::pipe;

use super::ends::{Ends, Transport, WriteEnd};
use crate::engine::placement::Placement;

/// A pipe of a certain size.
pub struct KernelPipe {
    name: &'static str,
    capacity_bytes: usize,
}

/// 64 KiB, nothing asked for.
pub static DEFAULT: KernelPipe = KernelPipe { name: "pipe", capacity_bytes: pipe::DEFAULT_CAPACITY };

/// 1 MiB, the limit for unprivileged programs (`pipe(7)`, `/proc/sys/fs/pipe-max-size`).
pub static ONE_MEBIBYTE: KernelPipe = KernelPipe { name: "pipe-1m", capacity_bytes: 1 << 20 };

impl Transport for KernelPipe {
    fn name(&self) -> &'static str {
        self.name
    }

    fn connect(&self, _: Placement) -> Result<Ends, String> {
        let (reader, writer) = io::pipe().map_err(|error| format!("cannot make a pipe: {error}"))?;
        if self.capacity_bytes != pipe::DEFAULT_CAPACITY {
            pipe::set_capacity(&reader, self.capacity_bytes)
                .map_err(|error| format!("the kernel grants no pipe of {} bytes: {error}", self.capacity_bytes))?;
        }
        match pipe::capacity(&reader) {
            Ok(granted) if granted == self.capacity_bytes => {
                Ok(Ends { writer: Box::new(writer), reader: Box::new(reader) })
            }
            granted => Err(format!(
                "the pipe holds {} bytes instead of {}; is the user's quota used up?",
                granted.unwrap_or(0),
                self.capacity_bytes
            )),
        }
    }
}

impl WriteEnd for PipeWriter {
    fn finish(self: Box<Self>) {}
}
