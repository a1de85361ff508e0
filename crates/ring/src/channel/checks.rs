//! The checks of the protocol, so that a model can leave out each of them in turn, and must then find a fault.

/// A look at the other side's words, or at the kernel, that the protocol needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// A reader that has said that it sleeps looks for bytes again.
    BytesBeforeSleep,
    /// What the writer publishes is visible before it loads `sleep`.
    FenceAfterPublish,
    /// That the reader sleeps is visible before it loads the position of the writer.
    FenceBeforeSleep,
    /// A writer that has said that it waits looks for room again.
    RoomBeforeSleep,
    /// What the reader frees is visible before it loads `room`.
    FenceAfterConsume,
    /// That the writer waits is visible before it loads the position of the reader.
    FenceBeforeRoomSleep,
    /// A writer that waits for room looks whether the reader is gone.
    ReaderGone,
    /// A reader that finds the end of the stream looks for bytes again.
    BytesAfterEnd,
    /// A reader looks whether a signal handler has dealt with the wake token that it took.
    HandlerTookToken,
    /// A drain removes the wake token first.
    NoTokenAmongContent,
    /// A drain sees to it that the reader does not say any more that it sleeps.
    NoSleepOnceFrozen,
    /// A drain that finds the wake token on its way waits for it.
    TokenOnItsWay,
    /// A drain that goes on after a death asks how much the backing pipe holds already.
    GoOnWhereItStopped,
    /// A drain does not put in again what the reader has taken already.
    TakenEarly,
    /// A side that waits for the other's drain looks whether the other is gone.
    DrainerGone,
    /// A drain wakes a writer that waits for room.
    WakeAfterDrain,
    /// Both begin only while the backing pipe is empty.
    BackingPipeEmpty,
}

/// Whether a check is made: always, but in a model that leaves it out.
#[cfg(not(loom))]
#[inline(always)]
pub(super) fn is_made(_: Check) -> bool {
    true
}

#[cfg(loom)]
std::thread_local! {
    static LEFT_OUT: core::cell::Cell<Option<Check>> = const { core::cell::Cell::new(None) };
}

/// From now on the models that this thread runs are without the check.
#[cfg(loom)]
pub fn leave_out(check: Option<Check>) {
    LEFT_OUT.set(check);
}

#[cfg(loom)]
pub(super) fn is_made(check: Check) -> bool {
    LEFT_OUT.get() != Some(check)
}

/// Edge E16: the exchange before has fenced already. The model checker takes a sequentially consistent access for less,
/// so a model has a fence here.
#[inline(always)]
pub(super) fn fence_of_exchange(check: Check) {
    #[cfg(loom)]
    if is_made(check) {
        crate::sync::fence(crate::sync::Ordering::SeqCst);
    }
    let _ = check;
}
