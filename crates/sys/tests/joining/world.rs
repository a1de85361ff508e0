//! What the two share: the words of a slot (`slot.rs`), and the kernel.

use crate::reader::Reader;
use crate::writer::Writer;

/// What a world may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Of the stream: 0, 1, 2...
    pub(crate) bytes: u8,
    /// That the ring holds, and the shadow.
    pub(crate) ring: u8,
    /// Each side may call a guarded function once.
    pub(crate) gives_back: bool,
    /// One of them may be killed, anywhere.
    pub(crate) kills: bool,
    /// The reader polls when it likes, and reads when it likes.
    pub(crate) polls: bool,
    /// One of its polls ends because of the time, a signal, or another descriptor.
    pub(crate) times_out: bool,
    /// Once, somebody who moves the content finds no file for it, and leaves it to whoever comes next.
    pub(crate) fails: bool,
}

/// A look, or an order of two steps, that the protocol could be without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Without {
    /// The writer asks the kernel once more that the shadow is empty.
    EmptyShadow,
    /// The carrier is the ring before the reader is told.
    CarrierBeforeAgreement,
    /// The bytes are counted before the reader's sleep is looked at.
    CountBeforeBell,
    /// They are taken before the writer's sleep is looked at.
    TakeBeforeWake,
    /// The writer looks for room after it has said that it will sleep.
    LastLookForRoom,
    /// The reader looks for bytes after it has said so.
    LastLookForBytes,
    /// The reader looks at the ring after the kernel has said that the stream ends.
    LookAfterEnd,
    /// Who freezes, freezes both positions.
    BothFrozen,
    /// The stream is frozen before its content is looked at.
    FreezeBeforeMove,
    /// The byte that rings is taken out before the content is put in.
    NoBellAmongContent,
    /// Who goes on after a death asks what the shadow holds already.
    GoOnWhereTheDeadStopped,
    /// What the reader had of the content before is not put in once more.
    TakenEarly,
    /// Who waits for the content to be moved looks whether the mover is gone.
    MoverGone,
    /// Who has moved it wakes a writer that waits for room.
    WakeAfterMove,
    /// A writer looks whether its reader is gone.
    ReaderGone,
    /// A reader that polls looks for bytes after it has said that it sleeps.
    LastLookBeforePoll,
    /// One that was rung before, and has not got the byte, gives the pipe back before it sleeps.
    RungGivesBack,
    /// What poll says of bytes is what the ring says, not the shadow.
    RingAnswers,
    /// The ring is looked at after the kernel was asked.
    RingAfterKernel,
    /// A frozen ring says nothing of bytes.
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
    /// The writer is about to put the byte that wakes into the kernel's pipe.
    Ringing,
    Rung,
    Stream,
}

impl Sleep {
    pub(crate) fn is_rung(self) -> bool {
        matches!(self, Sleep::Ringing | Sleep::Rung)
    }
}

/// A byte in the kernel's pipe.
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

/// What a side is to this pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    Kernel,
    Ready,
    Ring,
}

/// Everything there is.
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
    /// Bytes that the reader has got; it gets them in order, or the world is wrong.
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

    pub(crate) fn shadow_is_full(&self) -> bool {
        self.shadow.len() >= self.cells.len()
    }

    pub(crate) fn take_from_shadow(&mut self) -> Option<Byte> {
        (!self.shadow.is_empty()).then(|| self.shadow.remove(0))
    }

    /// A byte reaches the reading program.
    pub(crate) fn deliver(&mut self, byte: u8) {
        if byte != self.got {
            self.wrong = Some("the reader got a byte out of its turn");
        }
        self.got += 1;
    }
}

/// What a step leads to: every world that can come of it.
pub(crate) type Next = Vec<World>;

pub(crate) fn one(world: World) -> Next {
    vec![world]
}
