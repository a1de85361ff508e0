//! Memory that is not there. The kernel answers `EFAULT` for it; a copy of ours is stopped by a signal instead.
//!
//! All copies between a program's memory and a ring are one instruction ([`super::copy`]), so the signal says whose it is: at that
//! instruction the copy is abandoned, and the call goes to the kernel, whose answer it then is. Any other SIGSEGV or SIGBUS is the
//! program's own. Its own action is put back first and the instruction done again, so that all is as without this library, down to
//! the core dump; what was sent is sent once more.
//!
//! The handler stands where the program's is while the guards are up. They see to it that the program neither finds nor replaces
//! it, and does not hold these signals back.

use core::arch::global_asm;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use millstream_sys::fate::Fate;
use millstream_sys::raw;

use super::caught::{CAUGHT, SIGBUS, SIGNALS, SIGSEGV, SIGSYS};
use super::end::{End, READER, WRITER};
use super::kernel::{self, Action};
use super::{copy, fenced, own_process, retreat, trapped};

const DEFAULT: u64 = 0;
const IGNORED: u64 = 1;

// How a handler returns. Debuggers know the way back by these very bytes.
global_asm!(
    ".pushsection .text.millstream_copy,\"ax\",@progbits",
    ".balign 16",
    ".globl millstream_return",
    ".hidden millstream_return",
    "millstream_return:",
    "mov rax, 15",
    "syscall",
    ".popsection",
);

unsafe extern "C" {
    fn millstream_return();
}

/// Whether the handler would be called for each fault of the calling code: these signals are neither held back nor ignored. Where a
/// thread may hold them back, that is asked again before each copy.
pub(super) fn can_be_caught() -> bool {
    // A `poll` copies without asking, and is glibc's own where there are several threads.
    if !own_process::has_threads() && !are_let_in() {
        return false;
    }
    // A copy brings no SIGSYS.
    [SIGSEGV, SIGBUS].into_iter().all(|signal| kernel::action_of(signal).handler != IGNORED)
}

/// Whether the calling code does not hold these signals back.
fn are_let_in() -> bool {
    raw::block_signals(0) & CAUGHT == 0
}

/// Does a copy of this end so that memory which is not there is caught, though the thread may hold these signals back.
pub(super) fn caught<T>(end: &End, copy: impl FnOnce() -> T) -> T {
    if would_catch(end) {
        return copy();
    }
    let before = raw::unblock_signals(CAUGHT);
    let outcome = copy();
    raw::set_signal_mask(before);
    outcome
}

/// Whether a copy of the calling thread at memory that is not there would be caught.
pub(super) fn would_catch(end: &End) -> bool {
    /// Set in the address of a thread that holds them back.
    const HOLDS: usize = 1;
    if !own_process::has_threads() {
        return true;
    }
    let (this, checked) = (own_process::this_thread(), end.checked_thread.load(Relaxed));
    if checked & !HOLDS == this {
        return checked == this;
    }
    let is_caught = are_let_in();
    end.checked_thread.store(this | if is_caught { 0 } else { HOLDS }, Relaxed);
    is_caught
}

static IS_IN_FRONT: AtomicBool = AtomicBool::new(false);
/// The program's own actions.
static OWN: [Kept; 3] = [const { Kept::new() }; 3];

/// Takes the place of the program's actions.
pub(super) fn stand_in_front() -> bool {
    const SA_ONSTACK: u64 = 0x0800_0000;
    const SA_RESTORER: u64 = 0x0400_0000;
    const SA_RESTART: u64 = 0x1000_0000;
    const SA_SIGINFO: u64 = 4;
    IS_IN_FRONT.store(true, Relaxed);
    let_in_handlers();
    SIGNALS.into_iter().zip(&OWN).all(|(signal, own)| {
        let action = kernel::action_of(signal);
        // It may stand there already, see `step_aside`.
        if action.handler == on_fault as *const () as u64 {
            return true;
        }
        own.keep(&action);
        let ours = Action {
            handler: on_fault as *const () as u64,
            // A call that is interrupted goes on, or does not, as the program has it.
            flags: SA_SIGINFO | SA_ONSTACK | SA_RESTORER | (action.flags & SA_RESTART),
            restorer: millstream_return as *const () as u64,
            mask: u64::MAX,
        };
        kernel::set_action(signal, &ours)
    })
}

/// The signals whose handlers held back each of [`SIGNALS`], a bit for each.
static HELD_BACK_BY: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// From now on the program's other handlers let these signals in.
fn let_in_handlers() {
    for signal in (1..=64).filter(|signal| !SIGNALS.contains(signal)) {
        let action = kernel::action_of(signal);
        if action.handler <= IGNORED || action.mask & CAUGHT == 0 {
            continue;
        }
        for (caught, by) in SIGNALS.into_iter().zip(&HELD_BACK_BY) {
            if action.mask >> (caught - 1) & 1 != 0 {
                by.fetch_or(1 << (signal - 1), Relaxed);
            }
        }
        kernel::set_action(signal, &Action { mask: action.mask & !CAUGHT, ..action });
    }
}

/// They hold back again what they held back.
fn restore_handlers() {
    let held = HELD_BACK_BY.each_ref().map(|by| by.swap(0, Relaxed));
    for signal in 1..=64 {
        let bit = |(caught, held): (&usize, &u64)| (held >> (signal - 1) & 1) << (caught - 1);
        let mask = SIGNALS.iter().zip(&held).map(bit).fold(0, |mask, bit| mask | bit);
        if mask == 0 {
            continue;
        }
        let action = kernel::action_of(signal);
        if action.handler > IGNORED {
            kernel::set_action(signal, &Action { mask: action.mask | mask, ..action });
        }
    }
}

/// Puts them back, unless another thread may be at a copy, or have executed a fenced page and its signal is still to come: then they
/// stay until the next time, or until the program asks for them.
pub(super) fn step_aside_unless_used() {
    let is_fault_to_come = own_process::has_threads() && fenced::has_pages();
    if !is_fault_to_come && ![&READER, &WRITER].into_iter().any(|end| end.uses.are_of_another_thread()) {
        step_aside();
    }
}

/// Puts them back; but SIGSYS, where another thread may be about to receive one for a call that was trapped a moment ago.
pub(super) fn step_aside() {
    if IS_IN_FRONT.swap(false, Relaxed) {
        restore_handlers();
        for (signal, own) in SIGNALS.into_iter().zip(&OWN) {
            // Another thread may have replaced it, past its hook before the guards went up.
            let is_ours = kernel::action_of(signal).handler == on_fault as *const () as u64;
            if is_ours && (signal != SIGSYS || !own_process::has_threads()) {
                kernel::set_action(signal, &own.action());
            }
        }
    }
}

/// The handler. All signals are held back.
///
/// # Safety
/// Called by the kernel, with what it gives to handlers that want to know (`SA_SIGINFO`).
unsafe extern "C" fn on_fault(signal: c_int, info: *const [c_int; 32], context: *mut [u64; 22]) {
    const SYS_USER_DISPATCH: c_int = 2;
    const SEGV_ACCERR: c_int = 2;
    /// In `ucontext_t` of x86-64, in words.
    const INSTRUCTION: usize = 21;
    // SAFETY: `siginfo_t` is 128 bytes, number, errno and code first; the context is this large and lives until the return.
    let (code, instruction) = unsafe { ((*info)[2], (&raw mut (*context)[INSTRUCTION])) };
    // SAFETY: as above.
    let is_at_copy = unsafe { *instruction } == copy::millstream_copies_here as *const () as u64;
    if is_at_copy && is_fault(code) {
        // SAFETY: the instruction behind, which finds the registers as this one has left them.
        unsafe { *instruction = copy::millstream_copied as *const () as u64 };
        return;
    }
    if signal as usize == SIGSYS && code == SYS_USER_DISPATCH {
        // SAFETY: as above; the architecture is the last word of what is told of a call.
        return unsafe { trapped::on_call(&mut *context, (*info)[7].cast_unsigned()) };
    }
    // SAFETY: as above; the address of a fault follows the three numbers.
    let [from, fault] = unsafe { [*instruction as usize, (&raw const (*info)[4]).cast::<usize>().read()] };
    if signal as usize == SIGSEGV && code == SEGV_ACCERR && fenced::is_executed(from, fault) {
        return;
    }
    let place = SIGNALS.iter().position(|&caught| caught == signal as usize).unwrap_or(0);
    let own = OWN[place].action();
    // If the program goes on it does so unprotected, so nothing is left that would need this.
    if own.handler != DEFAULT {
        retreat::all(Fate::Fault);
    }
    // Also where it stayed for another thread's copy: the program's action is due.
    kernel::set_action(signal as usize, &own);
    if !comes_again(place, code) {
        kernel::send_again(signal, info);
    }
}

/// Whether an instruction has led to it, and no process has sent it.
fn is_fault(code: c_int) -> bool {
    const SI_KERNEL: c_int = 0x80;
    /// Memory that failed, found by the kernel and not by this thread.
    const BUS_MCEERR_AO: c_int = 5;
    (1..BUS_MCEERR_AO).contains(&code) || code == SI_KERNEL
}

/// Whether the instruction, done again, brings the same once more.
fn comes_again(place: usize, code: c_int) -> bool {
    /// No mapping, and no right; a place that is not aligned, not in the file, or failed; a call is made once.
    const LAST_CODE: [c_int; 3] = [2, 3, 0];
    (1..=LAST_CODE[place]).contains(&code)
}

/// An [`Action`] that handlers may read.
struct Kept {
    words: [AtomicU64; 4],
}

impl Kept {
    const fn new() -> Kept {
        Kept { words: [const { AtomicU64::new(0) }; 4] }
    }

    fn keep(&self, action: &Action) {
        let Action { handler, flags, restorer, mask } = *action;
        self.words.iter().zip([handler, flags, restorer, mask]).for_each(|(word, value)| word.store(value, Relaxed));
    }

    fn action(&self) -> Action {
        let [handler, flags, restorer, mask] = core::array::from_fn(|at| self.words[at].load(Relaxed));
        Action { handler, flags, restorer, mask }
    }
}
