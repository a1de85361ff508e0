//! A terminal for a full-screen program: single keys, the size, and signals. The program waits for signals together
//! with keys, so that it can restore the terminal before a signal ends or stops it.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use core::ptr;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};

use crate::Errno;
use crate::signals::Signal;

/// The settings of the terminal from before. One for the process, because the panic hook must find them.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Signals that may end or stop a program at a terminal, or announce a new size.
const SIGNALS: [Signal; 6] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGTSTP, libc::SIGWINCH];

/// `SIGWINCH`: the terminal has another size.
pub const RESIZED: Signal = libc::SIGWINCH;
/// `SIGTSTP`: the key for stopping the program.
pub const STOPPED: Signal = libc::SIGTSTP;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes of keys, as the terminal sends them.
    Keys(Vec<u8>),
    /// One of the blocked signals.
    Signal(Signal),
    /// The wait reached its timeout.
    Nothing,
    /// The terminal is gone.
    Gone,
}

/// The terminal at the standard input and output.
pub struct Terminal {
    signals: OwnedFd,
    mask_before: libc::sigset_t,
    has_keys: bool,
}

impl Terminal {
    /// Reads single keys from now on, if the standard input is a terminal, and blocks the signals that [`Event`]
    /// reports. Only for the only thread of a process.
    ///
    /// # Errors
    /// `EMFILE`, or what the terminal answers.
    pub fn take() -> Result<Terminal, Errno> {
        let has_keys = termios::isatty(rustix::stdio::stdin());
        let (signals, mask_before) = hold_signals()?;
        let terminal = Terminal { signals, mask_before, has_keys };
        terminal.take_keys()?;
        Ok(terminal)
    }

    /// Reads single keys again, after [`give_back`].
    ///
    /// # Errors
    /// What the terminal answers.
    pub fn take_keys(&self) -> Result<(), Errno> {
        if !self.has_keys {
            return Ok(());
        }
        let mut wanted = termios::tcgetattr(rustix::stdio::stdin())?;
        before().get_or_insert(wanted.clone());
        wanted.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        // A read returns with one byte or more.
        wanted.special_codes[SpecialCodeIndex::VMIN] = 1;
        wanted.special_codes[SpecialCodeIndex::VTIME] = 0;
        termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &wanted)
    }

    /// Whether it reports keys.
    pub fn has_keys(&self) -> bool {
        self.has_keys
    }

    /// Waits for the next event; for ever without a limit.
    pub fn wait(&self, limit: Option<Duration>) -> Event {
        let stdin = rustix::stdio::stdin();
        let mut polled = [
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stdin, PollFlags::IN),
        ];
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let count = if self.has_keys { 2 } else { 1 };
        // Signals that are not blocked at most stop the process, and it goes on later.
        if poll(&mut polled[..count], limit.as_ref()).is_err() {
            return Event::Nothing;
        }
        let [has_signal, has_keys] = polled.map(|fd| !fd.revents().is_empty());
        match () {
            () if has_signal => self.received().map_or(Event::Nothing, Event::Signal),
            () if has_keys => keys(),
            () => Event::Nothing,
        }
    }

    fn received(&self) -> Option<Signal> {
        let mut information = [0; size_of::<libc::signalfd_siginfo>()];
        rustix::io::read(&self.signals, &mut information).ok()?;
        // The number comes first (`signalfd(2)`).
        let number = information.first_chunk::<4>()?;
        Signal::try_from(u32::from_ne_bytes(*number)).ok()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
        // SAFETY: the set is the one that the thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.mask_before, ptr::null_mut()) };
    }
}

/// Restores the settings of the terminal, if this process has changed them. The panic hook may call it too.
pub fn give_back() {
    if let Some(before) = before().take() {
        // Keys that were typed meanwhile stay for the next program.
        let _ = termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &before);
    }
}

/// Columns and rows of the terminal at the standard output; `None` if it is none, or does not tell.
pub fn size() -> Option<(usize, usize)> {
    let size = termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col.into(), size.ws_row.into()))
}

fn before() -> MutexGuard<'static, Option<Termios>> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keys() -> Event {
    let mut bytes = [0; 64];
    match rustix::io::read(rustix::stdio::stdin(), &mut bytes) {
        Ok(0) => Event::Gone,
        Ok(len) => Event::Keys(bytes[..len].to_vec()),
        Err(Errno::INTR | Errno::AGAIN) => Event::Nothing,
        Err(_) => Event::Gone,
    }
}

/// A descriptor that receives the signals, except those that were ignored when this process started.
fn hold_signals() -> Result<(OwnedFd, libc::sigset_t), Errno> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set, and the mask before is written by the call that it is given to.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in SIGNALS.into_iter().filter(|&signal| !is_ignored(signal)) {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        let descriptor = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if descriptor < 0 {
            return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
        Ok((OwnedFd::from_raw_fd(descriptor), before.assume_init()))
    }
}

fn is_ignored(signal: Signal) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action changes nothing; all zeros is a valid answer too.
    unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
