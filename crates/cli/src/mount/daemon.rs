//! A mount in the background: the command ends when it is there, or cannot be.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};

use millstream_sys::detach;

use millstream_command::failure::Failure;

/// What the daemon says when the directory is mounted.
const READY: &str = "mounted\n";

/// Starts this program once more, in the background, and waits for its first word.
pub(super) fn start() -> Result<ExitCode, Failure> {
    let cannot_start = |error: std::io::Error| Failure::own(format!("cannot start the daemon: {error}"));
    let program = std::env::current_exe().map_err(cannot_start)?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).arg("--as-daemon");
    let mut daemon = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(cannot_start)?;
    let mut word = String::new();
    if let Some(output) = daemon.stdout.take() {
        BufReader::new(output).read_line(&mut word).map_err(cannot_start)?;
    }
    if word == READY {
        return Ok(ExitCode::SUCCESS);
    }
    // It has said why on stderr, which it shares.
    let status = daemon.wait().map_err(cannot_start)?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).filter(|&code| code != 0);
    code.map(ExitCode::from).ok_or_else(|| Failure::own(format!("the daemon has ended: {status}")))
}

/// Says that the directory is mounted, and leaves the terminal.
pub(super) fn is_ready() -> Result<(), Failure> {
    let mut output = std::io::stdout();
    let said = output.write_all(READY.as_bytes()).and_then(|()| output.flush());
    // The caller may have ended: the mount is there all the same.
    let _ = said;
    detach::from_terminal().map_err(|error| Failure::own(format!("cannot leave the terminal: {error}")))
}
