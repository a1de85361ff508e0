//! Becoming another program, or starting it as a child.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};
use std::ffi::{CString, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::vec::Vec;

pub use rustix::process::{Pid, WaitStatus};

use crate::Errno;
use crate::signals::{self, Held};

/// A program to run: its arguments (the first names it, looked up in `PATH` unless it has a slash) and its environment.
pub struct Program {
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Program {
    /// Puts a program together. The entries of the environment are `NAME=value`.
    ///
    /// # Errors
    /// `EINVAL`: no arguments, or a zero byte inside one of them.
    pub fn new(arguments: impl IntoIterator<Item = OsString>, environment: Vec<CString>) -> Result<Program, Errno> {
        let strings = arguments.into_iter().map(|argument| CString::new(argument.into_vec()));
        let arguments = strings.collect::<Result<Vec<_>, _>>().map_err(|_| Errno::INVAL)?;
        match arguments.is_empty() {
            true => Err(Errno::INVAL),
            false => Ok(Program { arguments, environment }),
        }
    }

    /// Becomes the program, with the signals and standard descriptors that this process was started with. Returns only
    /// when that failed, and says why: `ENOENT`, `EACCES` and the others of `execve(2)`.
    pub fn exec(&self) -> Errno {
        let arguments = pointers(&self.arguments);
        let environment = pointers(&self.environment);
        restore_what_was_inherited();
        exec_raw(&arguments, &environment)
    }

    /// Starts the program as a child, which is killed if this process is. The child gets the signal mask from before
    /// `held`.
    ///
    /// # Errors
    /// Those of [`exec`](Self::exec), reported here and not by the child, and `EAGAIN`, `ENOMEM`, `EMFILE`.
    pub fn spawn(&self, held: &Held) -> Result<Pid, Errno> {
        let arguments = pointers(&self.arguments);
        let environment = pointers(&self.environment);
        let (reader, writer) = crate::pipe::create()?;
        let parent = rustix::process::getpid();
        // SAFETY: between fork and exec the child only calls async-signal-safe functions and allocates nothing.
        let forked = unsafe { libc::fork() };
        if forked == 0 {
            let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
            if rustix::process::getppid() == Some(parent) {
                restore_what_was_inherited();
                held.restore();
                let errno = exec_raw(&arguments, &environment);
                let _ = rustix::io::write(&writer, &errno.raw_os_error().to_le_bytes());
            }
            // SAFETY: ends the child at once, without running what was registered for the end of the parent.
            unsafe { libc::_exit(127) };
        }
        let child = Pid::from_raw(forked).filter(|_| forked > 0).ok_or_else(last_errno)?;
        drop(writer);
        let mut report = Vec::new();
        // Ends when the exec closed the child's end, or the child wrote why there was none.
        let _ = std::fs::File::from(reader).read_to_end(&mut report);
        match <[u8; 4]>::try_from(report.as_slice()) {
            Ok(errno) => {
                let _ = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
                Err(Errno::from_raw_os_error(i32::from_le_bytes(errno)))
            }
            Err(_) => Ok(child),
        }
    }
}

/// What has become of `child` since the last call, stops and continuations included; `None` if nothing.
///
/// # Errors
/// `ECHILD`: no such child.
pub fn news_of(child: Pid) -> Result<Option<WaitStatus>, Errno> {
    use rustix::process::WaitOptions;
    let options = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
    Ok(rustix::process::waitpid(Some(child), options)?.map(|(_, status)| status))
}

/// Sleeps until `child` has ended and leaves it unreaped, so that `/proc` still tells about it.
///
/// # Errors
/// `ECHILD`: no such child.
pub fn wait_unreaped(child: Pid) -> Result<(), Errno> {
    use rustix::process::{WaitId, WaitIdOptions};
    rustix::io::retry_on_intr(|| {
        rustix::process::waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).map(|_| ())
    })
}

/// Kills every process of a group that is still there.
pub fn kill_group(group: Pid) {
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
}

/// Replaces the standard input and output by `/dev/null`. The peer of a pipe there sees it closed when the other
/// holders have closed it.
///
/// # Errors
/// `ENOENT`: no `/dev/null`. `EMFILE`.
pub fn let_go_of_input_and_output() -> Result<(), Errno> {
    use rustix::fs::{Mode, OFlags};
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)
}

/// Whether this process was started with more rights than its user has: by a set-user-id or set-group-id program, or one
/// with capabilities (`AT_SECURE` in `getauxval(3)`). Such a process must not trust what its user tells it.
pub fn has_more_rights_than_its_user() -> bool {
    // SAFETY: takes a number, returns one.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The environment of this process as it was given, entry for entry.
pub fn environment() -> Vec<CString> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let mut entries = Vec::new();
    // SAFETY: a null-terminated list of C strings, or null; this program does not change it.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            entries.push(CString::from(CStr::from_ptr(*at)));
            at = at.add(1);
        }
    }
    entries
}

/// Async-signal-safe: runs between fork and exec.
fn restore_what_was_inherited() {
    signals::restore_sigpipe();
    for fd in crate::inherited::closed_standard_descriptors() {
        // SAFETY: the number was closed when the process started, so what it names now is the runtime's `/dev/null`.
        unsafe { libc::close(fd) };
    }
}

/// Async-signal-safe. `arguments` is not empty, both lists end with a null pointer.
fn exec_raw(arguments: &[*const c_char], environment: &[*const c_char]) -> Errno {
    // SAFETY: both lists are null-terminated, made of strings that outlive the call, and the first argument exists.
    unsafe { libc::execvpe(arguments[0], arguments.as_ptr(), environment.as_ptr()) };
    last_errno()
}

pub(crate) fn last_errno() -> Errno {
    // SAFETY: the C library gives every thread its own, always valid.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(CString::as_c_str).map(CStr::as_ptr).chain([core::ptr::null()]).collect()
}
