//! What both ends share: the words of a channel (`channel/words.rs` of `crates/ring`), and the backing pipe.

use crate::reader::Reader;
use crate::writer::Writer;

/// What may happen in a world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of the stream: 0, 1, 2...
    pub(crate) bytes: u8,
    /// Bytes that the ring holds; the backing pipe holds as many.
    pub(crate) ring: u8,
    /// Each end may call a guarded function once.
    pub(crate) gives_back: bool,
    /// One end may be killed, at any step.
    pub(crate) kills: bool,
    /// The reader polls or reads, in any order.
    pub(crate) polls: bool,
    /// One poll of the reader ends because of its timeout, a signal, or another descriptor.
    pub(crate) times_out: bool,
    /// One flush to the kernel finds no descriptor for it, and leaves the flush to the next attempt of either end.
    pub(crate) fails: bool,
}

/// A check, or an order of two steps, that the model can leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Without {
    /// The writer asks the kernel again whether the backing pipe is empty.
    EmptyShadow,
    /// The writer sets the state to the ring before it tells the reader.
    CarrierBeforeAgreement,
    /// The writer publishes its bytes before it reads the reader's sleep word.
    CountBeforeBell,
    /// The reader consumes its bytes before it reads the writer's sleep word.
    TakeBeforeWake,
    /// The writer checks for room after it has announced its sleep.
    LastLookForRoom,
    /// The reader checks for bytes after it has announced its sleep.
    LastLookForBytes,
    /// The reader checks the ring after the kernel has reported the end of the stream.
    LookAfterEnd,
    /// A flush freezes both positions.
    BothFrozen,
    /// A flush freezes the stream before it reads the content.
    FreezeBeforeMove,
    /// A flush removes the wake token before it writes the content.
    NoBellAmongContent,
    /// A flush that continues after a death asks how much the backing pipe holds already.
    GoOnWhereTheDeadStopped,
    /// A flush does not write again the bytes that the reader has taken from the backing pipe already.
    TakenEarly,
    /// An end that waits for a flush checks whether the flushing process is gone.
    MoverGone,
    /// After a flush, the flushing end wakes a writer that waits for room.
    WakeAfterMove,
    /// The writer checks whether its reader is gone.
    ReaderGone,
    /// A reader that polls checks for bytes after it has announced its sleep.
    LastLookBeforePoll,
    /// A reader that polls, and was sent a wake token that it has not received, detaches before it sleeps.
    RungGivesBack,
    /// A poll reports bytes of the ring, not of the backing pipe.
    RingAnswers,
    /// A poll reads the ring after it has asked the kernel.
    RingAfterKernel,
    /// A poll reports nothing about bytes from a frozen ring.
    FrozenIsNoAnswer,
}

impl Without {
    pub(crate) const ALL: [Without; 20] = [
        Without::EmptyShadow,
        Without::CarrierBeforeAgreement,
        Without::CountBeforeBell,
        Without::TakeBeforeWake,
        Without::LastLookForRoom,
        Without::LastLookForBytes,
        Without::LookAfterEnd,
        Without::BothFrozen,
        Without::FreezeBeforeMove,
        Without::NoBellAmongContent,
        Without::GoOnWhereTheDeadStopped,
        Without::TakenEarly,
        Without::MoverGone,
        Without::WakeAfterMove,
        Without::ReaderGone,
        Without::LastLookBeforePoll,
        Without::RungGivesBack,
        Without::RingAnswers,
        Without::RingAfterKernel,
        Without::FrozenIsNoAnswer,
    ];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Carrier {
    Kernel,
    Ring,
    WriterMoves,
    ReaderMoves,
    Shadow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Meeting {
    None,
    ReaderWaits,
    Agreed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sleep {
    Awake,
    Asleep,
    /// The writer is about to write the wake token into the backing pipe.
    Ringing,
    Rung,
    Stream,
}

impl Sleep {
    pub(crate) fn is_rung(self) -> bool {
        matches!(self, Sleep::Ringing | Sleep::Rung)
    }
}

/// A byte in the backing pipe: of the stream, or a wake token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Byte {
    Of(u8),
    Bell,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Position {
    pub(crate) bytes: u8,
    pub(crate) is_frozen: bool,
}

/// How far an end has attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    Kernel,
    Ready,
    Ring,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) carrier: Carrier,
    pub(crate) meeting: Meeting,
    pub(crate) writer_waits: bool,
    pub(crate) is_settled: bool,
    pub(crate) taken_early: u8,
    pub(crate) written: Position,
    pub(crate) read: Position,
    pub(crate) cells: Vec<u8>,
    pub(crate) sleep: Sleep,
    pub(crate) space_waits: bool,
    pub(crate) space_gone: bool,
    pub(crate) shadow: Vec<Byte>,
    pub(crate) has_writer: bool,
    pub(crate) has_reader: bool,
    pub(crate) writer: Writer,
    pub(crate) reader: Reader,
    /// Bytes whose write has returned.
    pub(crate) told: u8,
    /// Bytes that the reader has received; it receives them in order, or the world is wrong.
    pub(crate) got: u8,
    pub(crate) may_kill: bool,
    pub(crate) may_fail: bool,
    pub(crate) was_joined: bool,
    pub(crate) wrong: Option<&'static str>,
}

impl World {
    pub(crate) fn new(limits: Limits) -> World {
        World {
            carrier: Carrier::Kernel,
            meeting: Meeting::None,
            writer_waits: false,
            is_settled: false,
            taken_early: 0,
            written: Position::default(),
            read: Position::default(),
            cells: vec![0; usize::from(limits.ring)],
            sleep: Sleep::Awake,
            space_waits: false,
            space_gone: false,
            shadow: Vec::new(),
            has_writer: true,
            has_reader: true,
            writer: Writer::new(limits),
            reader: Reader::new(limits),
            told: 0,
            got: 0,
            may_kill: limits.kills,
            may_fail: limits.fails,
            was_joined: false,
            wrong: None,
        }
    }

    pub(crate) fn cell(&mut self, position: u8) -> &mut u8 {
        let count = self.cells.len();
        &mut self.cells[usize::from(position) % count]
    }

    pub(crate) fn room(&self) -> usize {
        self.cells.len() - usize::from(self.written.bytes - self.read.bytes)
    }

    pub(crate) fn waiting(&self) -> u8 {
        self.written.bytes - self.read.bytes
    }

    pub(crate) fn backing_pipe_is_full(&self) -> bool {
        self.shadow.len() >= self.cells.len()
    }

    pub(crate) fn take_from_backing_pipe(&mut self) -> Option<Byte> {
        (!self.shadow.is_empty()).then(|| self.shadow.remove(0))
    }

    /// A byte reaches the reading program.
    pub(crate) fn deliver(&mut self, byte: u8) {
        if byte != self.got {
            self.wrong = Some("the reader received a byte out of order");
        }
        self.got += 1;
    }
}

/// Every world that a step can lead to.
pub(crate) type Next = Vec<World>;

pub(crate) fn one(world: World) -> Next {
    vec![world]
}
