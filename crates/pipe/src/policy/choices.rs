//! What a program chooses: how its ends wait, and when they do without the ring.

/// What an end does when it cannot go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitPolicy {
    /// Spins for a while where that pays. Yields where both ends share a CPU and no third program wants it. Then
    /// sleeps. The default.
    #[default]
    Adaptive,
    /// Never sleeps. The fastest answer, for a CPU of its own, of which it uses all. Asks the kernel from time to
    /// time whether the other side is still there.
    Spin,
    /// Sleeps at once, as the kernel's pipe does. For programs that would rather be slow than use a CPU for nothing.
    Block,
}

/// When a write that blocks lets the reader copy straight out of its memory (`process_vm_readv(2)`), instead of
/// through the ring. In every case the kernel decides whether it may. Another user, a container's rules or a process
/// that is not dumpable (`PR_SET_DUMPABLE`) mean the ring, without an error;
/// [`Statistics::direct_refused`](crate::Statistics) says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DirectPolicy {
    /// Where it was measured to be faster. That is where at least 128 KiB of a write are left, the pipe holds at most
    /// 64 KiB, and both ends run on the same CPU. [`Builder::direct_min`](crate::Builder::direct_min) and the setting
    /// of that name change the 128 KiB. The default.
    #[default]
    Adaptive,
    /// Never.
    Never,
    /// Whenever a write of more than [`PIPE_BUF`](crate::PIPE_BUF) bytes finds no room. For measurements and tests.
    Always,
}
