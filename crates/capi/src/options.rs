//! What a pipe is made with.

use std::mem::{offset_of, size_of};

use libc::size_t;
use millstream_pipe::{Builder, FifoOptions, WaitPolicy, broadcast};

use crate::errors::{Errno, INVALID};

/// The ends are non-blocking at first.
pub const MS_NONBLOCK: u32 = 1;
/// The ends stay open when this process executes another program. The kernel carries the bytes of such a pipe.
pub const MS_INHERIT: u32 = 2;
/// ms_peek() and ms_reserve() lead to the memory of the pipe itself, with no copy. A promise: until the pipe is closed every
/// process that has an end of it uses it through this library only, of this version, and writes to no memory that ms_peek()
/// shows. A process that breaks it can change what another reads at any time.
pub const MS_TRUST_PEERS: u32 = 4;
/// Of a FIFO: its bytes may go through shared memory where both ends are of this library and ask for it. A reader that asks
/// may read ahead up to a FIFO full, which no other process can then read.
pub const MS_SHARE: u32 = 8;
/// Of a broadcast: a slow reader loses bytes, instead of holding up the writer.
pub const MS_LOSSY: u32 = 16;

/// Waiting as the user's settings say (the default).
pub const MS_WAIT_DEFAULT: u32 = 0;
/// Spin for a while where that pays, then sleep.
pub const MS_WAIT_ADAPTIVE: u32 = 1;
/// Never sleep. For an end that has a CPU for itself.
pub const MS_WAIT_SPIN: u32 = 2;
/// Sleep at once, as the kernel's pipe does.
pub const MS_WAIT_BLOCK: u32 = 3;

/// What a pipe is made with. Start from MS_OPTIONS_INIT, so that members which later versions add are 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ms_options {
    /// sizeof(ms_options)
    pub size: size_t,
    /// Bytes that the pipe holds when full, 1 to 2 GiB; rounded up to a power of two of at least 4096. 0: the default, 512 KiB
    /// unless the user's settings say otherwise. A FIFO has the kernel's capacity.
    pub capacity: size_t,
    /// MS_NONBLOCK and others, combined with |.
    pub flags: u32,
    /// How the ends wait: MS_WAIT_DEFAULT or another.
    pub wait: u32,
    /// Bytes that each end works on in place at most. 0: the default, 16 MiB.
    pub in_place_max: size_t,
}

/// Flags that pipes and FIFOs may have.
pub(crate) const FOR_PIPES: u32 = MS_NONBLOCK | MS_INHERIT | MS_TRUST_PEERS | MS_SHARE;

const KNOWN_FLAGS: u32 = FOR_PIPES | MS_LOSSY;

impl ms_options {
    const DEFAULT: ms_options =
        ms_options { size: size_of::<ms_options>(), capacity: 0, flags: 0, wait: MS_WAIT_DEFAULT, in_place_max: 0 };

    /// Reads options of this version, an earlier or a later one.
    ///
    /// # Safety
    /// `options` is null or leads to as many readable bytes as its first member says.
    pub(crate) unsafe fn read(options: *const ms_options) -> Result<ms_options, Errno> {
        let mut read = ms_options::DEFAULT;
        if options.is_null() {
            return Ok(read);
        }
        // SAFETY: the caller's promise.
        let size = unsafe { (&raw const (*options).size).read_unaligned() };
        // The first version ended here.
        if size < offset_of!(ms_options, in_place_max) + size_of::<size_t>() {
            return Err(INVALID);
        }
        // SAFETY: both have so many bytes, of which every value is allowed.
        let later = unsafe {
            let known = size.min(size_of::<ms_options>());
            options.cast::<u8>().copy_to_nonoverlapping((&raw mut read).cast(), known);
            std::slice::from_raw_parts(options.cast::<u8>().add(known), size - known)
        };
        if later.iter().any(|&byte| byte != 0) {
            return Err(Errno(libc::E2BIG));
        }
        if read.flags & !KNOWN_FLAGS != 0 || read.wait > MS_WAIT_BLOCK {
            return Err(INVALID);
        }
        Ok(read)
    }

    /// These options, if none of the flags is for something else.
    pub(crate) fn with_at_most(self, flags: u32) -> Result<ms_options, Errno> {
        if self.flags & !flags == 0 { Ok(self) } else { Err(INVALID) }
    }

    pub(crate) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    fn wait_policy(&self) -> Option<WaitPolicy> {
        match self.wait {
            MS_WAIT_ADAPTIVE => Some(WaitPolicy::Adaptive),
            MS_WAIT_SPIN => Some(WaitPolicy::Spin),
            MS_WAIT_BLOCK => Some(WaitPolicy::Block),
            _ => None,
        }
    }

    pub(crate) fn for_pipe(&self) -> Builder {
        let mut builder = Builder::new().nonblocking(self.has(MS_NONBLOCK)).cloexec(!self.has(MS_INHERIT));
        if self.capacity > 0 {
            builder = builder.capacity(self.capacity);
        }
        if self.in_place_max > 0 {
            builder = builder.loan_max(self.in_place_max);
        }
        if let Some(policy) = self.wait_policy() {
            builder = builder.wait(policy);
        }
        if self.has(MS_TRUST_PEERS) {
            // SAFETY: the program has made this promise by setting the flag, whose description says what it is.
            builder = unsafe { builder.trust_peers() };
        }
        builder
    }

    pub(crate) fn for_broadcast(&self) -> broadcast::Builder {
        let mut builder = broadcast::Builder::new().nonblocking(self.has(MS_NONBLOCK)).lossy(self.has(MS_LOSSY));
        if self.capacity > 0 {
            builder = builder.capacity(self.capacity);
        }
        if let Some(policy) = self.wait_policy() {
            builder = builder.wait(policy);
        }
        builder
    }

    pub(crate) fn for_fifo(&self) -> FifoOptions {
        let options = FifoOptions::new()
            .nonblocking(self.has(MS_NONBLOCK))
            .cloexec(!self.has(MS_INHERIT))
            .ring(self.has(MS_SHARE));
        match self.wait_policy() {
            Some(policy) => options.wait(policy),
            None => options,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Later {
        options: ms_options,
        added: u64,
    }

    fn read(later: &Later) -> Result<ms_options, Errno> {
        // SAFETY: as large as it says.
        unsafe { ms_options::read((&raw const *later).cast()) }
    }

    #[test]
    fn options_of_later_version_are_taken_if_unknown_ones_are_zero() {
        let options = ms_options { size: size_of::<Later>(), capacity: 4096, ..ms_options::DEFAULT };
        let mut later = Later { options, added: 0 };
        assert_eq!(read(&later).map(|options| options.capacity), Ok(4096));
        later.added = 1;
        assert_eq!(read(&later).map(|options| options.capacity), Err(Errno(libc::E2BIG)));
    }

    #[test]
    fn unknown_flags_waits_and_sizes_are_refused() {
        for options in [
            ms_options { flags: 1 << 20, ..ms_options::DEFAULT },
            ms_options { wait: MS_WAIT_BLOCK + 1, ..ms_options::DEFAULT },
            ms_options { size: size_of::<size_t>(), ..ms_options::DEFAULT },
            ms_options { size: 0, ..ms_options::DEFAULT },
        ] {
            // SAFETY: as large as it says, or larger.
            assert_eq!(unsafe { ms_options::read(&raw const options) }.map(|options| options.size), Err(INVALID));
        }
    }
}
