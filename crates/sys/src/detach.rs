//! A process that goes on without its terminal and its caller.

use std::fs::OpenOptions;
use std::io;

/// Begins a session of its own, in the root directory, with `/dev/null` as its standard input, output and error. A process that
/// leads a group already, as one that a shell has started, stays in its session.
///
/// # Errors
/// Those of `chdir(2)`, `open(2)` and `dup2(2)`.
pub fn from_terminal() -> io::Result<()> {
    // Fails for a group leader, which is a job of a shell. The descriptors below lose the terminal in any case.
    let _ = rustix::process::setsid();
    rustix::process::chdir("/")?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
