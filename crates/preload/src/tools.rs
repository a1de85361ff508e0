//! The tools that most lines of a script start, known by where they are and what they are called: their files need not be looked at,
//! and it is known how much they can move.
//!
//! A wrong guess does no harm, as in [`crate::exec`]: what is not the tool of that name has ordinary pipes.

use core::ffi::c_char;

use millstream_sys::executable::name;

use crate::text::rest_of;

pub(crate) use at_pipes::{is_pipe, may_move_much};

/// What a tool writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    /// Some lines; and it reads no input.
    Terse,
    /// What it makes of its input, or of the files that it is told to read.
    Filter,
    /// The same, after an argument that is not the name of a file.
    Told,
}

/// First those that are terse, then the filters, then those that are told.
const NAMES: [u64; 54] = [
    name("["),
    name("basename"),
    name("chgrp"),
    name("chmod"),
    name("chown"),
    name("cp"),
    name("date"),
    name("dirname"),
    name("echo"),
    name("expr"),
    name("false"),
    name("getconf"),
    name("hostname"),
    name("id"),
    name("ln"),
    name("ls"),
    name("mkdir"),
    name("mkfifo"),
    name("mktemp"),
    name("mv"),
    name("nproc"),
    name("printf"),
    name("pwd"),
    name("readlink"),
    name("realpath"),
    name("rm"),
    name("rmdir"),
    name("sleep"),
    name("stat"),
    name("test"),
    name("touch"),
    name("true"),
    name("uname"),
    name("whoami"),
    name("cat"),
    name("cksum"),
    name("cmp"),
    name("comm"),
    name("cut"),
    name("diff"),
    name("head"),
    name("join"),
    name("md5sum"),
    name("od"),
    name("paste"),
    name("sha1sum"),
    name("sort"),
    name("tac"),
    name("tail"),
    name("uniq"),
    name("wc"),
    name("grep"),
    name("sed"),
    name("tr"),
];
const FIRST_FILTER: usize = 34;
const FIRST_TOLD: usize = 51;

/// The tool that is started by this path.
///
/// # Safety
/// `path` is a C string.
pub(crate) unsafe fn at(path: *const c_char) -> Option<Tool> {
    // SAFETY: the caller's promise.
    let name = unsafe { rest_of(path, b"/usr/bin/").or_else(|| rest_of(path, b"/bin/")).and_then(|name| word(name)) }?;
    Some(match NAMES.iter().position(|&known| known == name)? {
        0..FIRST_FILTER => Tool::Terse,
        FIRST_FILTER..FIRST_TOLD => Tool::Filter,
        _ => Tool::Told,
    })
}

/// All of a text as a number, if it has no more than eight letters.
///
/// # Safety
/// `text` is a C string.
unsafe fn word(text: *const c_char) -> Option<u64> {
    let mut word = 0;
    for at in 0..=8 {
        // SAFETY: none of the bytes before was zero.
        match unsafe { text.add(at).cast::<u8>().read() } {
            0 => return Some(word),
            letter if at < 8 => word |= u64::from(letter) << (8 * at),
            _ => {}
        }
    }
    None
}

mod at_pipes {
    use super::*;
    use core::ffi::c_int;

    use millstream_sys::{pipe, raw};

    use crate::descriptor::borrow;
    use crate::joined;

    /// More than a terse tool writes.
    const SOME_LINES: u64 = 64 << 10;
    /// A program that names more files keeps the library.
    const ARGUMENTS: usize = 64;

    /// Whether a tool that is started with the descriptors of this process may move enough through a pipe at its standard input or
    /// output for that to be worth it.
    ///
    /// # Safety
    /// `arguments` is null or a null-terminated list of C strings.
    pub(crate) unsafe fn may_move_much(tool: Tool, arguments: *const *const c_char) -> bool {
        if tool == Tool::Terse {
            return joined::is_worth(SOME_LINES);
        }
        let (reads, writes) = (is_pipe(0), is_pipe(1));
        // SAFETY: the caller's promise.
        (reads || writes)
            && match unsafe { files(tool, arguments) } {
                Files::None if reads => !joined::has_some_bytes(0) || joined::is_worth(SOME_LINES),
                Files::None => bytes_of_input().is_none_or(pays_off),
                Files::Bytes(bytes) => pays_off(bytes),
                Files::Unknown => true,
            }
    }

    /// Whether what is left of so many bytes once the pipe is attached repays attaching and the start of the library: `cat | tr` on one
    /// CPU takes as long with as without for 8 MiB, and 0.8 of it for 16. A filter writes no more than it reads.
    fn pays_off(bytes: u64) -> bool {
        joined::is_worth(bytes / 2)
    }

    /// Whether a pipe stands at this number that can be attached, which a FIFO never is.
    #[unsafe(link_section = ".text.hot.millstream")]
    pub(crate) fn is_pipe(fd: c_int) -> bool {
        borrow(&fd).is_some_and(|end| pipe::is_anonymous(end) == Ok(true))
    }

    enum Files {
        None,
        Bytes(u64),
        Unknown,
    }

    /// Whether an option has what is told in it (`-es/a/b/`, `--regexp=a`), so that the next argument is a file, or names directories to
    /// walk through (`-r`).
    ///
    /// # Safety
    /// `option` is a C string of one byte at least.
    unsafe fn tells_by_itself(option: *const c_char) -> bool {
        let mut tells = false;
        for at in 1.. {
            // SAFETY: none of the bytes before was zero.
            match unsafe { option.add(at).cast::<u8>().read() } {
                0 => break,
                _ if tells => return true,
                b'-' | b'r' | b'R' => return true,
                letter => tells = letter == b'e' || letter == b'f',
            }
        }
        false
    }

    /// What the arguments name. Those that name nothing are something else.
    ///
    /// # Safety
    /// As for [`may_move_much`].
    #[unsafe(link_section = ".text.hot.millstream")]
    unsafe fn files(tool: Tool, arguments: *const *const c_char) -> Files {
        if arguments.is_null() {
            return Files::Unknown;
        }
        let mut is_told = tool != Tool::Told;
        let mut files = Files::None;
        for index in 0..ARGUMENTS {
            // SAFETY: the list has not ended before this entry, which is null or a C string.
            let (argument, first) = unsafe {
                let argument = *arguments.add(index);
                (argument, if argument.is_null() { 0 } else { *argument.cast::<u8>() })
            };
            if argument.is_null() {
                return files;
            }
            let is_option = first == b'-';
            if index == 0 || is_option {
                // The standard input among files.
                // SAFETY: its first byte is not zero.
                if index > 0 && unsafe { *argument.add(1) } == 0 {
                    return Files::Unknown;
                }
                // SAFETY: a C string that is not empty.
                if index > 0 && tool == Tool::Told && unsafe { tells_by_itself(argument) } {
                    return Files::Unknown;
                }
                continue;
            }
            if !core::mem::replace(&mut is_told, true) {
                continue;
            }
            // SAFETY: a C string.
            files = match (files, unsafe { raw::status_at(argument) }.map(|status| status.bytes())) {
                (files, Err(_)) => files,
                (Files::None, Ok(Some(bytes))) => Files::Bytes(bytes),
                (Files::Bytes(others), Ok(Some(bytes))) => Files::Bytes(others.saturating_add(bytes)),
                _ => return Files::Unknown,
            };
        }
        Files::Unknown
    }

    /// What can be read from the standard input, which is no pipe that is in use.
    fn bytes_of_input() -> Option<u64> {
        let input = borrow(&0)?;
        if let Ok(capacity) = pipe::capacity(input) {
            return Some(capacity as u64);
        }
        raw::status_of(input).ok()?.bytes()
    }
}
