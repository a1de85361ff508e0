//! Making a pipe.

use std::io;
use std::sync::Arc;

use millstream_sys::{Errno, memory, pipe, transfer};

use crate::capacity::{permitted_capacity, size_for};
use crate::claim::Trust;
use crate::direct::descriptor::Direct;
use crate::end::{End, Origin, Pipe};
use crate::pipe_count::is_another_allowed;
use crate::policy::{DirectPolicy, WaitPolicy};
use crate::reader::Reader;
use crate::settings::{self, table::DEFAULT_CAPACITY};
use crate::writer::Writer;

/// A new pipe with default options: what the [`settings`] say, blocking, both ends closed on exec.
///
/// ```
/// use std::io::{Read, Write};
///
/// let (mut reader, mut writer) = millstream_pipe::pipe()?;
/// writer.write_all(b"hello")?;
/// drop(writer);
/// let mut text = String::new();
/// reader.read_to_string(&mut text)?;
/// assert_eq!(text, "hello");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// As [`Builder::create`].
pub fn pipe() -> io::Result<(Reader, Writer)> {
    Builder::new().create()
}

/// Options for a new pipe.
///
/// ```
/// use millstream_pipe::{Builder, WaitPolicy};
///
/// let (reader, _writer) = Builder::new().capacity(100_000).nonblocking(true).wait(WaitPolicy::Block).create()?;
/// assert_eq!(reader.capacity()?, 131_072);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    /// `None`: what the settings say.
    capacity: Option<usize>,
    nonblocking: bool,
    cloexec: bool,
    /// `None`: what the settings say.
    wait: Option<WaitPolicy>,
    /// `None`: what the settings say.
    direct: Option<DirectPolicy>,
    direct_min: Option<usize>,
    loan_max: Option<usize>,
    trust: bool,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            capacity: None,
            nonblocking: false,
            cloexec: true,
            wait: None,
            direct: None,
            direct_min: None,
            loan_max: None,
            trust: false,
        }
    }
}

impl Builder {
    /// The defaults of [`pipe()`].
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Bytes that the pipe holds, rounded up to a power of two of at least 4096; whatever the [`settings`] say, except
    /// for the system's limit. Without it the setting `capacity` counts, by default [`DEFAULT_CAPACITY`].
    #[must_use]
    pub fn capacity(mut self, bytes: usize) -> Builder {
        self.capacity = Some(bytes);
        self
    }

    /// Whether both ends are non-blocking at first.
    #[must_use]
    pub fn nonblocking(mut self, yes: bool) -> Builder {
        self.nonblocking = yes;
        self
    }

    /// Whether both ends are closed when this process, or a child, executes another program. If not, any program may
    /// come to hold them, so the kernel's pipe carries the bytes; to give a program one end, rather use
    /// [`Reader::into_fd`].
    #[must_use]
    pub fn cloexec(mut self, yes: bool) -> Builder {
        self.cloexec = yes;
        self
    }

    /// How both ends wait; without it as the setting `wait` says.
    #[must_use]
    pub fn wait(mut self, policy: WaitPolicy) -> Builder {
        self.wait = Some(policy);
        self
    }

    /// When a write that blocks lets the reader copy straight out of its memory; without it as the setting `direct`
    /// says.
    #[must_use]
    pub fn direct(mut self, policy: DirectPolicy) -> Builder {
        self.direct = Some(policy);
        self
    }

    /// Bytes that must be left of a write for [`DirectPolicy::Adaptive`]; without it the setting `direct_min`, by
    /// default 128 KiB.
    #[must_use]
    pub fn direct_min(mut self, bytes: usize) -> Builder {
        self.direct_min = Some(bytes);
        self
    }

    /// Bytes that each of the two ends works on in place at once ([`Writer::reserve`], [`Reader::borrow`] where the
    /// others are trusted); what is more goes through memory of the process. Without it the setting `loan_max`, by
    /// default 16 MiB. No more than the system's limit for that. With 0 everything is copied.
    #[must_use]
    pub fn loan_max(mut self, bytes: usize) -> Builder {
        self.loan_max = Some(bytes);
        self
    }

    /// Both ends believe the others at the pipe: [`Writer::reserve`], [`Reader::borrow`] and
    /// [`fill_buf`](std::io::BufRead::fill_buf) then give the shared memory itself, with no copy.
    ///
    /// # Safety
    /// As [`Reader::trust_peers`].
    #[must_use]
    #[allow(unsafe_code, reason = "a promise of the caller's, not an operation")]
    pub unsafe fn trust_peers(mut self) -> Builder {
        self.trust = true;
        self
    }

    /// Makes the pipe.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: too many open files; a pipe needs three. `EPERM`: a capacity above 512 KiB and above
    /// `/proc/sys/fs/pipe-max-size` without `CAP_SYS_RESOURCE`, or above 1 GiB, or above the system's limit for
    /// `capacity_max` ([`settings`]). `EINVAL`: above 2 GiB. `ENOMEM`.
    pub fn create(&self) -> io::Result<(Reader, Writer)> {
        let capacity = match self.capacity {
            None => settings::capacity(),
            Some(wished) => permitted_capacity(wished, DEFAULT_CAPACITY.min(settings::capacity_limit()))?,
        };
        let (reader, writer) = pipe::create()?;
        let pipe = if self.cloexec && is_another_allowed() {
            let (file, size) = (memory::sealable_file()?, size_for(capacity)?);
            let shadow = pipe::identity(&reader).ok_or(Errno::BADF)?;
            let direct = Direct::new(
                self.direct.unwrap_or_else(settings::direct),
                self.direct_min.unwrap_or_else(settings::direct_min),
            );
            let loan_max = self.loan_max.map_or_else(settings::loan_max, settings::loan_max_within);
            Pipe::unmapped(Origin { file, shadow, size, found_at: None }, direct, loan_max)
        } else {
            pipe::request_capacity(&reader, capacity);
            Pipe::of_the_kernel()
        };
        if !self.cloexec {
            pipe::survive_exec(&reader)?;
            pipe::survive_exec(&writer)?;
        }
        if self.nonblocking {
            transfer::set_nonblocking(&reader, true)?;
            transfer::set_nonblocking(&writer, true)?;
        }
        let (pipe, wait) = (Arc::new(pipe), self.wait.unwrap_or_else(settings::wait));
        let trust = if self.trust { Trust::Yes } else { Trust::No };
        let reader = Reader::new(End::new(reader, pipe.clone(), wait)).trusting(trust.clone());
        Ok((reader, Writer::new(End::new(writer, pipe, wait)).trusting(trust)))
    }
}
