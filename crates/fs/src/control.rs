//! `ioctl(2)` on a file of a mount: stages are pushed and popped while programs have it open.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;

use rustix::io::Errno;
use rustix::ioctl::{NoArg, Opcode, Setter, ioctl, opcode};

use crate::source::Result;

/// Bytes of a stage as it is written, with a zero behind it.
const STAGE: usize = 1024;

const PUSH: Opcode = opcode::write::<[u8; STAGE]>(b'm', 1);
const POP: Opcode = opcode::none(b'm', 2);

/// What a program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Push(String),
    Pop,
}

/// What the kernel has passed on.
pub(crate) fn understood(command: u32, input: &[u8]) -> Result<Command> {
    match Opcode::from(command) {
        PUSH => {
            let stage = input.split(|&byte| byte == 0).next().unwrap_or_default();
            String::from_utf8(stage.to_vec()).map(Command::Push).map_err(|_| Errno::INVAL)
        }
        POP => Ok(Command::Pop),
        _ => Err(Errno::NOTTY),
    }
}

/// Puts a further stage between a file of a mount and the programs that read and write it.
///
/// # Errors
/// What is wrong, as a sentence.
pub fn push(file: &Path, stage: &str) -> std::result::Result<(), String> {
    crate::line::network(stage)?;
    let mut bytes = [0; STAGE];
    let room = bytes.get_mut(..stage.len()).filter(|room| room.len() < STAGE);
    let Some(room) = room else { return Err(format!("the stage is longer than {} bytes", STAGE - 1)) };
    room.copy_from_slice(stage.as_bytes());
    // SAFETY: the number says that so many bytes are read, and nothing else; other file systems do not know it.
    let pushed = unsafe { ioctl(&opened(file)?, Setter::<PUSH, [u8; STAGE]>::new(bytes)) };
    pushed.map_err(|error| explained(file, error))
}

/// Takes away the stage that was pushed last.
///
/// # Errors
/// What is wrong, as a sentence.
pub fn pop(file: &Path) -> std::result::Result<(), String> {
    // SAFETY: the number says that nothing is read or written; other file systems do not know it.
    let popped = unsafe { ioctl(&opened(file)?, NoArg::<POP>::new()) };
    popped.map_err(|error| explained(file, error))
}

fn opened(file: &Path) -> std::result::Result<File, String> {
    File::open(file).map_err(|error| format!("cannot open '{}': {error}", file.display()))
}

fn explained(file: &Path, error: Errno) -> String {
    let file = file.display();
    match error {
        Errno::NOTTY => format!("'{file}' is not in a directory that millstream has mounted"),
        Errno::BUSY => {
            format!("programs have '{file}' open, and the kernel reads it itself: bind it with a rule first")
        }
        Errno::PERM => format!("only root and the user of the mount can change the stages of '{file}'; ask them to"),
        Errno::NODATA => format!("no stage was pushed on '{file}'"),
        error => format!("cannot change the stages of '{file}': {error}"),
    }
}
