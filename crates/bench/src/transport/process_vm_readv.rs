//! One copy and no kernel buffer: the writer tells in shared memory where its bytes lie, and the reader takes them
//! straight from the writer's memory with `process_vm_readv(2)`.
//!
//! ```text
//! 0             128                  256
//! │ given, where, writer's process │ taken │ reader's process │
//! ```
//!
//! A write returns when everything was taken, since its bytes may change then: the two never work at the same time. An end
//! that has to wait spins, or gives way on one CPU, as in `spsc_bare`; no news of a peer's death.
//!
//! | edge | store | load | because |
//! |---|---|---|---|
//! | G | writer, `GIVEN`, Release | reader, Acquire | address and bytes are there before the position says so |
//! | T | reader, `TAKEN`, Release | writer, Acquire | bytes were taken before they change |
//! | O | writer, `IS_OVER`, Release | reader, Acquire | a reader that sees the end sees the last G |
//! | L | reader, `READER`, Release | writer, Acquire | the reader may look once it gave its number |

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use millstream_sys::shared::Shared;
use millstream_sys::{Errno, own_pid, process_memory};

use super::ends::{Ends, Transport, WriteEnd};
use crate::engine::placement::Placement;

/// Written by the writer: the position up to which bytes are given, where in its memory that position would be, its
/// process number, and whether nothing more comes.
const GIVEN: usize = 0;
const GIVEN_UP_TO_ADDRESS: usize = 8;
const WRITER: usize = 16;
const IS_OVER: usize = 24;
/// Written by the reader, on lines of its own: the position up to which bytes were taken, its process number.
const TAKEN: usize = 128;
const READER: usize = 256;

/// Memory of another process.
pub struct ProcessVmReadv;

/// The only one.
pub static PROCESS_VM_READV: ProcessVmReadv = ProcessVmReadv;

impl Transport for ProcessVmReadv {
    fn name(&self) -> &'static str {
        "process_vm_readv"
    }

    fn connect(&self, placement: Placement) -> Result<Ends, String> {
        let memory = Shared::anonymous(4096).map_err(|error| format!("no shared memory: {error}"))?;
        let (memory, idle) = (Arc::new(memory), placement.idle());
        let writer = Giver { memory: Arc::clone(&memory), idle, given: 0, is_met: false };
        Ok(Ends { writer: Box::new(writer), reader: Box::new(Taker { memory, idle, taken: 0, is_met: false }) })
    }

    fn sleeps(&self) -> bool {
        false
    }
}

struct Giver {
    memory: Arc<Shared>,
    idle: fn(),
    given: u64,
    /// Whether the reader may look into this process.
    is_met: bool,
}

impl Giver {
    fn meet(&mut self) {
        let reader = self.memory.word(READER);
        while reader.load(Acquire) == 0 {
            (self.idle)(); // edge L
        }
        process_memory::let_look(reader.load(Relaxed) as u32);
        self.memory.word(WRITER).store(own_pid().into(), Relaxed);
        self.is_met = true;
    }
}

impl Write for Giver {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_met {
            self.meet();
        }
        let up_to = bytes.as_ptr_range().end.expose_provenance() as u64;
        self.given += bytes.len() as u64;
        self.memory.word(GIVEN_UP_TO_ADDRESS).store(up_to, Relaxed);
        self.memory.word(GIVEN).store(self.given, Release); // edge G
        while self.memory.word(TAKEN).load(Acquire) < self.given {
            (self.idle)(); // edge T
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WriteEnd for Giver {
    fn finish(self: Box<Self>) {
        self.memory.word(IS_OVER).store(1, Release); // edge O
    }
}

struct Taker {
    memory: Arc<Shared>,
    idle: fn(),
    taken: u64,
    is_met: bool,
}

impl Taker {
    /// Waits for bytes; how many there are, 0 at the end.
    fn wait_for_bytes(&mut self) -> u64 {
        if !self.is_met {
            self.memory.word(READER).store(own_pid().into(), Release); // edge L
            self.is_met = true;
        }
        loop {
            let is_over = self.memory.word(IS_OVER).load(Acquire) != 0; // edge O
            let given = self.memory.word(GIVEN).load(Acquire); // edge G
            if is_over || given > self.taken {
                return given - self.taken;
            }
            (self.idle)();
        }
    }
}

impl Read for Taker {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let available = self.wait_for_bytes();
        if available == 0 {
            return Ok(0);
        }
        let wanted = bytes.len().min(available as usize);
        let address = self.memory.word(GIVEN_UP_TO_ADDRESS).load(Relaxed) - available;
        let writer = self.memory.word(WRITER).load(Relaxed) as u32;
        let count = process_memory::read(writer, address, &mut bytes[..wanted]).map_err(explained)?;
        self.taken += count as u64;
        self.memory.word(TAKEN).store(self.taken, Release); // edge T
        Ok(count)
    }
}

fn explained(error: Errno) -> io::Error {
    match error {
        Errno::PERM => {
            let why = "the kernel does not let it look into the writer; is /proc/sys/kernel/yama/ptrace_scope above 1?";
            io::Error::new(io::ErrorKind::PermissionDenied, why)
        }
        error => error.into(),
    }
}
