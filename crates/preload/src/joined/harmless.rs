//! Guarded calls of which many leave every end as it is: which they are, and how that is known.

use millstream_sys::fate::place_of;

use super::caught;

pub(super) const CLOSE: [usize; 2] = [place_of("close"), place_of("__close")];
pub(super) const FCNTL: [usize; 3] = [place_of("fcntl"), place_of("__fcntl"), place_of("fcntl64")];
pub(super) const IOCTL: usize = place_of("ioctl");
pub(super) const SIGPROCMASK: usize = place_of("sigprocmask");
pub(super) const PTHREAD_SIGMASK: usize = place_of("pthread_sigmask");
pub(super) const POLL: [usize; 2] = [place_of("poll"), place_of("__poll")];
pub(super) const POLL_CHK: usize = place_of("__poll_chk");
pub(super) const SELECT: [usize; 2] = [place_of("select"), place_of("__select")];
pub(super) const LONGJMP: [usize; 4] =
    [place_of("longjmp"), place_of("_longjmp"), place_of("siglongjmp"), place_of("__longjmp_chk")];

/// Whether a function changes nothing but what its thread does next, or which signals it takes.
pub(super) fn is_of_mask_or_jump(place: usize) -> bool {
    [SIGPROCMASK, PTHREAD_SIGMASK].contains(&place) || LONGJMP.contains(&place)
}

pub(super) fn is_harmless_fcntl(concerns_an_end: bool, command: u32) -> bool {
    const F_GETFD: u32 = 1;
    const F_SETFD: u32 = 2;
    const F_GETFL: u32 = 3;
    const F_SETPIPE_SZ: u32 = 1031;
    const F_GETOWN: u32 = 9;
    // `F_GETOWN` is another call inside glibc.
    matches!(command, F_GETFD | F_SETFD | F_GETFL)
        || (!concerns_an_end && command != F_SETPIPE_SZ && command != F_GETOWN)
}

pub(super) fn is_harmless_ioctl(concerns_an_end: bool, request: usize) -> bool {
    const TCGETS: u32 = 0x5401;
    /// Terminals, flags and sizes of files. Any other request may have a descriptor inside (`BTRFS_IOC_SEND`).
    const OF_OTHER_FILES: [u32; 15] = [
        0x5402,      // TCSETS
        0x5403,      // TCSETSW
        0x5404,      // TCSETSF
        0x5405,      // TCGETA
        0x5409,      // TCSBRK
        0x540b,      // TCFLSH
        0x540f,      // TIOCGPGRP
        0x5410,      // TIOCSPGRP
        0x5413,      // TIOCGWINSZ
        0x5414,      // TIOCSWINSZ
        0x5421,      // FIONBIO
        0x5450,      // FIONCLEX
        0x5451,      // FIOCLEX
        0x8008_1272, // BLKGETSIZE64
        0x8008_6601, // FS_IOC_GETFLAGS
    ];
    // glibc gives the kernel 32 bits of it.
    let request = request as u32;
    request == TCGETS || (!concerns_an_end && OF_OTHER_FILES.contains(&request))
}

/// Whether a function says what becomes of a signal, and that is none of those that must come here.
pub(super) fn is_of_other_signal(place: usize, first: usize, second: usize) -> bool {
    const SIGACTION: [usize; 2] = [place_of("sigaction"), place_of("__sigaction")];
    const OF_SIGNAL: [usize; 7] = [
        place_of("signal"),
        place_of("bsd_signal"),
        place_of("ssignal"),
        place_of("sysv_signal"),
        place_of("__sysv_signal"),
        place_of("sigignore"),
        place_of("siginterrupt"),
    ];
    let action = if SIGACTION.contains(&place) { second as *const [u64; 2] } else { core::ptr::null() };
    // SAFETY: what glibc reads as well.
    (SIGACTION.contains(&place) || OF_SIGNAL.contains(&place)) && unsafe { caught::are_left_alone(first, action) }
}
