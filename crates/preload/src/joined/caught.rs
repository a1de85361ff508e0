//! The signals by which memory that is not there is known, and calls of the kernel that are trapped: the program may
//! neither hold them back nor replace their handler while the guards are up.

pub(super) const SIGBUS: usize = 7;
pub(super) const SIGSEGV: usize = 11;
pub(super) const SIGSYS: usize = 31;
pub(super) const SIGNALS: [usize; 3] = [SIGSEGV, SIGBUS, SIGSYS];
/// All of them, as a set.
pub(super) const CAUGHT: u64 = 1 << (SIGSEGV - 1) | 1 << (SIGBUS - 1) | 1 << (SIGSYS - 1);

/// Before a function that says what becomes of a signal: whether it is none of these, and its handler lets them in.
///
/// # Safety
/// `action` is what the program has passed as a `struct sigaction`, or null.
pub(super) unsafe fn are_left_alone(signal: usize, action: *const [u64; 2]) -> bool {
    // SAFETY: the caller's promise: the handler, and the first word of its mask.
    let lets_in = unsafe { action.as_ref() }.is_none_or(|&[_, mask]| mask & CAUGHT == 0);
    lets_in && !SIGNALS.contains(&(signal as u32 as usize))
}

/// Whether a change of the mask leaves these signals as they are, which are let through.
///
/// # Safety
/// `set` is null or a set of signals, as for `sigprocmask(2)`.
pub(super) unsafe fn are_let_through(how: usize, set: usize) -> bool {
    const SIG_UNBLOCK: usize = 1;
    // SAFETY: the caller's promise.
    how as u32 as usize == SIG_UNBLOCK || unsafe { (set as *const u64).as_ref() }.is_none_or(|set| set & CAUGHT == 0)
}

/// Whether a jump leaves these signals as they are, whose mask comes back with it where it was saved.
///
/// # Safety
/// `saved` is what `setjmp(3)` or `sigsetjmp(3)` has filled.
pub(super) unsafe fn are_let_through_by_jump(saved: usize) -> bool {
    /// In `jmp_buf` of x86-64, in words.
    const IS_SAVED: usize = 8;
    const MASK: usize = 9;
    // SAFETY: the caller's promise.
    let word = |at: usize| unsafe { (saved as *const u64).add(at).read() };
    word(IS_SAVED) as u32 == 0 || word(MASK) & CAUGHT == 0
}
