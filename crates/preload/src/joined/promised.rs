//! The standard input and output of a program that knows this library and promises how it uses them, in place of what is
//! otherwise proved of programs that know nothing: `docs/joining.md` has the promise. Such a program may have several
//! threads and call the kernel as it likes, with everything but these two descriptors.
//!
//! The names end in the version of the promise. A program looks them up with `dlsym`.

use core::ffi::c_int;
use core::sync::atomic::Ordering::SeqCst;

use super::end::{End, READER, WRITER};
use super::{attached, kernel, notice};

const INPUT: c_int = 0;
const OUTPUT: c_int = 1;

/// What a read returns that would have slept, when the bell rings.
pub(super) const RUNG: isize = kernel::ECANCELED;

/// Promises for one end, 0 or 1, that it is used through the functions below only, as `docs/joining.md` says. Returns 1 if it is
/// a pipe that may be attached; with 0 nothing is promised, and everything is as ever.
#[unsafe(no_mangle)]
extern "C" fn millstream_promise_1(fd: c_int) -> c_int {
    let (end, other) = match fd {
        INPUT => (&READER, &WRITER),
        OUTPUT => (&WRITER, &READER),
        _ => return 0,
    };
    // Where the other end is guarded, this one is too.
    let is_guarded = |end: &End| end.channel().is_some() && !end.is_promised();
    if is_guarded(other) || !notice::adopts_promised(end, fd) {
        return 0;
    }
    end.is_promised.store(true, SeqCst);
    1
}

/// `read(2)` of the standard input, of which the promise was made. With a bell that is not -1 it ends without a byte, and says
/// `ECANCELED`, when it would sleep and the bell can be read. Errors are negative numbers; errno stays what it is.
#[unsafe(no_mangle)]
extern "C" fn millstream_promised_read_1(buffer: *mut u8, len: usize, bell: c_int) -> isize {
    attached::read_input(INPUT, buffer, len, (bell >= 0).then_some(bell))
}

/// `write(2)` to the standard output, of which the promise was made. Errors are negative numbers; errno stays what it is.
#[unsafe(no_mangle)]
extern "C" fn millstream_promised_write_1(buffer: *const u8, len: usize) -> isize {
    attached::write_output(OUTPUT, buffer, len)
}

/// Sleeps until there is something to read, or an end, or the bell rings; whether it rings. Without a bell it does not sleep.
pub(super) fn is_only_rung(fd: c_int, bell: Option<c_int>) -> bool {
    let Some(bell) = bell else { return false };
    loop {
        match kernel::poll_both([fd, bell]) {
            [_, true] => return true,
            [true, false] => return false,
            // A signal.
            [false, false] => {}
        }
    }
}
