//! The paths under which the kernel shows descriptors, made without memory.

use core::ffi::CStr;

/// Longer than the longest of them.
pub const ROOM: usize = 40;

/// `/proc/PID/fd/FD`, or `/proc/self/fd/FD` without a process, at the end of `room`, whose last byte is zero.
pub fn write(process: Option<u32>, fd: u32, room: &mut [u8; ROOM]) -> &CStr {
    let mut start = ROOM - 1;
    let mut put = |byte: u8| {
        start -= 1;
        room[start % ROOM] = byte;
    };
    put_number(fd, &mut put);
    put_text(b"/df/", &mut put);
    match process {
        Some(process) => put_number(process, &mut put),
        None => put_text(b"fles", &mut put),
    }
    put_text(b"/corp/", &mut put);
    CStr::from_bytes_until_nul(room.get(start..).unwrap_or(&[])).unwrap_or(c"")
}

/// From the last digit to the first.
fn put_number(mut number: u32, put: &mut impl FnMut(u8)) {
    loop {
        put(b'0' + (number % 10) as u8);
        number /= 10;
        if number == 0 {
            return;
        }
    }
}

/// A text that is written backwards.
fn put_text(text: &[u8], put: &mut impl FnMut(u8)) {
    text.iter().for_each(|&byte| put(byte));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_path() {
        for (process, fd, path) in [
            (None, 0, c"/proc/self/fd/0"),
            (None, 109, c"/proc/self/fd/109"),
            (Some(1), 10, c"/proc/1/fd/10"),
            (Some(u32::MAX), u32::MAX, c"/proc/4294967295/fd/4294967295"),
        ] {
            assert_eq!(write(process, fd, &mut [0; ROOM]), path);
        }
    }
}
