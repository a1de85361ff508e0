//! Pipes in shared memory: the standard input and output of this process, if they are pipes, and both sides of the pipe are
//! such processes, and nobody else holds an end.
//!
//! `docs/joining.md` has the reasons. In reading order: [`text`] puts jumps into glibc's code; `guard` makes a
//! process leave before it does anything that the ring cannot carry, `confined` before it confines itself; `alone` proves that nobody else is there; `meet` is how two
//! sides agree; [`slot`] is the ring; `stream` reads and writes; `retreat` gives everything back to the kernel.
//!
//! Only processes with one thread: the flag by which glibc itself knows that is looked at in every call. And programs that
//! know this library and make a promise instead: [`promised`].

mod alone;
mod confined;
mod faults;
mod guard;
mod kernel;
mod meet;
mod nap;
mod newer;
mod offer;
mod promised;
mod retreat;
mod signals;
mod slot;
mod stream;
mod tally;
mod text;
mod wait;

use core::arch::global_asm;
use core::ffi::c_int;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

use millstream_sys::fate::Fate;
use millstream_sys::ledger::Direction;
use millstream_sys::pipe;
use millstream_sys::settings::{OLDER_PIPES, Ring, Settings};

use crate::descriptor::borrow;
use crate::glibc::{self, Behind};
use slot::Slot;

const READER_FD: c_int = 0;
const WRITER_FD: c_int = 1;

/// Nothing is done for a pipe before so much has gone through it. On one CPU what is done then costs about as much as it gains
/// with 3 to 4 MB, so who joins never loses more than twice what it could have saved.
const WORTH_IT: u64 = 4 << 20;
/// And this, if all processes of the machine have to be looked at, which may take milliseconds.
const WORTH_A_LONG_LOOK: u64 = 8 << 20;

/// What an end of this process is.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Stage {
    /// A kernel's pipe, or no pipe, for ever.
    Kernel,
    /// A kernel's pipe whose bytes are counted.
    Counted,
    /// A writer that has made a slot for its reader to find. No guards yet.
    Offers,
    /// It has a slot, and the guards are up.
    Wants,
    /// Nobody else holds it.
    Ready,
    /// Its stream is in the ring.
    Ring,
}

/// The standard input or the standard output.
struct End {
    fd: c_int,
    stage: AtomicU8,
    slot: AtomicPtr<Slot>,
    /// Bytes that went through the kernel.
    passed: AtomicU64,
    try_at: AtomicU64,
    tries: AtomicU32,
    turns: AtomicU32,
    is_in_kernel: AtomicBool,
    /// It is used only as [`promised`] says.
    is_promised: AtomicBool,
    patience: wait::Patience,
    tally: tally::Tally,
}

static READER: End = End::new(READER_FD);
static WRITER: End = End::new(WRITER_FD);

impl End {
    const fn new(fd: c_int) -> End {
        End {
            fd,
            stage: AtomicU8::new(Stage::Kernel as u8),
            slot: AtomicPtr::new(core::ptr::null_mut()),
            passed: AtomicU64::new(0),
            try_at: AtomicU64::new(0),
            tries: AtomicU32::new(0),
            turns: AtomicU32::new(0),
            is_in_kernel: AtomicBool::new(false),
            is_promised: AtomicBool::new(false),
            patience: wait::Patience::new(),
            tally: tally::Tally::new(),
        }
    }

    fn fd(&self) -> c_int {
        self.fd
    }

    fn is_reader(&self) -> bool {
        self.fd == READER_FD
    }

    fn is_promised(&self) -> bool {
        self.is_promised.load(Relaxed)
    }

    fn stage(&self) -> Stage {
        match self.stage.load(Relaxed) {
            1 => Stage::Counted,
            2 => Stage::Offers,
            3 => Stage::Wants,
            4 => Stage::Ready,
            5 => Stage::Ring,
            _ => Stage::Kernel,
        }
    }

    fn set_stage(&self, stage: Stage) {
        self.stage.store(stage as u8, SeqCst);
        if stage == Stage::Kernel {
            self.slot.store(core::ptr::null_mut(), SeqCst);
        }
    }

    fn slot(&self) -> Option<&'static Slot> {
        // SAFETY: null, or a mapping that lasts; every field is an atomic integer.
        unsafe { self.slot.load(Relaxed).as_ref() }
    }

    fn set_slot(&self, slot: &'static Slot) {
        self.slot.store(core::ptr::from_ref(slot).cast_mut(), SeqCst);
    }

    fn count(&self, moved: isize) {
        if let Ok(moved) = u64::try_from(moved) {
            self.passed.store(self.passed.load(Relaxed) + moved, Relaxed);
        }
    }

    fn is_due(&self) -> bool {
        self.passed.load(Relaxed) >= self.try_at.load(Relaxed)
    }

    /// Of the calls since it is ready, every second, fourth, eighth...
    fn has_its_turn(&self) -> bool {
        let turn = self.turns.load(Relaxed).saturating_add(1);
        self.turns.store(turn, Relaxed);
        turn.is_power_of_two()
    }

    /// Makes a call of the kernel. A handler that interrupts it must not begin the ring: the call goes on in the shadow.
    fn in_kernel(&self, call: impl FnOnce() -> isize) -> isize {
        let before = self.is_in_kernel.swap(true, SeqCst);
        let moved = call();
        self.is_in_kernel.store(before, SeqCst);
        self.count(moved);
        moved
    }

    /// Whether this call has interrupted another one, or one was left by a jump.
    fn is_in_kernel(&self) -> bool {
        self.is_in_kernel.load(SeqCst)
    }
}

/// The functions of glibc that are redirected, the first two from the start, and where a call with several threads goes on.
static READ: Behind = Behind::new(c"__read");
static WRITE: Behind = Behind::new(c"__write");
static PLACES: [text::Place; 2] = [const { text::Place::new() }; 2];
static BARE_PLACES: [text::Place; 2] = [const { text::Place::new() }; 2];

/// glibc's flag; and the two places behind the jump.
static SINGLE_THREADED: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static SEVERAL_READ: AtomicUsize = AtomicUsize::new(0);
static SEVERAL_WRITE: AtomicUsize = AtomicUsize::new(0);

/// Whether glibc's `read` and `write` begin with the jump.
static ARE_REDIRECTED: AtomicBool = AtomicBool::new(false);

/// A page that is wiped in every forked child; 1 in the process that put its guards up. Null before that: a child may join as well.
static OWN: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

/// Which run this is.
static RUN: [AtomicU64; 6 + OLDER_PIPES] = [const { AtomicU64::new(0) }; 6 + OLDER_PIPES];

// With several threads the call goes on in glibc as if it had not been redirected, and so stays a point of cancellation.
global_asm!(
    ".pushsection .text.millstream_joined,\"ax\",@progbits",
    ".globl millstream_read_jump",
    ".hidden millstream_read_jump",
    ".balign 16",
    "millstream_read_jump: endbr64",
    "mov rax, [rip + {flag}]",
    "cmp byte ptr [rax], 0",
    "je 6f",
    "jmp {read}",
    "6: jmp [rip + {several_read}]",
    ".globl millstream_write_jump",
    ".hidden millstream_write_jump",
    ".balign 16",
    "millstream_write_jump: endbr64",
    "mov rax, [rip + {flag}]",
    "cmp byte ptr [rax], 0",
    "je 7f",
    "jmp {write}",
    "7: jmp [rip + {several_write}]",
    ".popsection",
    flag = sym SINGLE_THREADED,
    several_read = sym SEVERAL_READ,
    several_write = sym SEVERAL_WRITE,
    read = sym read,
    write = sym write,
);

unsafe extern "C" {
    #[link_name = "millstream_read_jump"]
    fn read_jump();
    #[link_name = "millstream_write_jump"]
    fn write_jump();
}

/// Begins to count what passes, if the standard input or output is a pipe of a run whose pipes are to be joined.
pub(crate) fn start(settings: &Settings<'_>) {
    let Some(run) = settings.ring else { return };
    let is_pipe = |fd: c_int| borrow(&fd).and_then(pipe::identity).is_some();
    let ends = [is_pipe(READER_FD), is_pipe(WRITER_FD)];
    if ends == [false, false] {
        return;
    }
    let words = [run.token, run.after, run.first, run.namespace, run.ticks, u64::from(run.filters)];
    for (word, value) in RUN.iter().zip(words.iter().chain(&run.older)) {
        word.store(*value, Relaxed);
    }
    let is_known = redirect().is_some();
    ARE_REDIRECTED.store(is_known, Relaxed);
    for (end, _) in [&READER, &WRITER].into_iter().zip(ends).filter(|&(_, is_pipe)| is_pipe) {
        if is_known {
            end.try_at.store(worth_it(), Relaxed);
            end.set_stage(Stage::Counted);
        } else {
            end.tally.begin(end);
            end.tally.tell(Fate::Glibc);
        }
    }
}

/// Redirects the first two, if they are what we know.
fn redirect() -> Option<()> {
    let [read_at, write_at] = [&READ, &WRITE].map(|function| function.find() as usize);
    if read_at == 0 || write_at == 0 {
        return None;
    }
    let (reading, writing) = (text::cancellable(read_at)?, text::cancellable(write_at)?);
    SINGLE_THREADED.store(reading.single_threaded.cast_mut(), Relaxed);
    SEVERAL_READ.store(reading.several, Relaxed);
    SEVERAL_WRITE.store(writing.several, Relaxed);
    let (first, last) = (read_at.min(write_at), read_at.max(write_at));
    // Far apart: not the glibc that we know.
    if last - first > 1 << 20 || !text::open(first, last + 16, true) {
        return None;
    }
    let are_all =
        redirect_to(&PLACES, [read_at, write_at], [read_jump as *const () as usize, write_jump as *const () as usize]);
    text::open(first, last + 16, false);
    are_all.then_some(())
}

/// The same for their variants that are no points of cancellation. They are on another page, whose copy only a process is to pay
/// for that wants to join: stdio of the standard input and output does not use them. glibc's code is writable.
fn redirect_bare(names: &text::Names) -> bool {
    let entry_of = |name, number| {
        let mut found = 0;
        names.each(name, |entry| found = entry);
        if found != 0 && text::is_bare_call(found, number) { found } else { 0 }
    };
    let entries = [entry_of(c"__read_nocancel", 0), entry_of(c"__write_nocancel", 1)];
    !entries.contains(&0)
        && redirect_to(&BARE_PLACES, entries, [read as *const () as usize, write as *const () as usize])
}

fn restore_bare() {
    BARE_PLACES.iter().for_each(text::Place::restore);
}

fn redirect_to(places: &[text::Place; 2], entries: [usize; 2], to: [usize; 2]) -> bool {
    let are_all = places.iter().zip(entries.into_iter().zip(to)).all(|(place, (entry, to))| place.redirect(entry, to));
    if !are_all {
        places.iter().for_each(text::Place::restore);
    }
    are_all
}

/// Tells this process from children that it forks from now on.
fn mark_own_process() -> bool {
    if OWN.load(Relaxed).is_null() {
        let Some(own) = kernel::page_of_this_process() else { return false };
        OWN.store(core::ptr::from_ref(own).cast_mut(), Relaxed);
    }
    // SAFETY: a page that lasts.
    if let Some(own) = unsafe { OWN.load(Relaxed).as_ref() } {
        own.store(1, Relaxed);
    }
    true
}

/// Before this process becomes another program. `false`: a pipe could not be given back, because the process may open no
/// further file.
pub(crate) fn leave() -> bool {
    let has_nothing = READER.slot().is_none() && WRITER.slot().is_none();
    // What a parent has offered goes with this program, which has a copy of the descriptor.
    let has_parents = WRITER.stage() == Stage::Offers && !guard::are_up() && offer::is_of_parent();
    has_nothing || has_parents || retreat::all(Fate::called(c"execve"))
}

/// Whether calls of `read` and `write` are counted in here, because they come here from wherever they are made.
#[cfg(feature = "count")]
pub(crate) fn counts_inside() -> bool {
    ARE_REDIRECTED.load(Relaxed) && has_one_thread()
}

/// Why bytes that pass through a descriptor now will never be joined, where that can be told from the descriptor and the threads.
#[cfg(feature = "count")]
pub(crate) fn fate_of_other_use(fd: c_int) -> Option<Fate> {
    match fd {
        READER_FD if READER.is_promised() => None,
        WRITER_FD if WRITER.is_promised() => None,
        READER_FD | WRITER_FD => (ARE_REDIRECTED.load(Relaxed) && !has_one_thread()).then_some(Fate::Threads),
        _ => Some(Fate::Number),
    }
}

/// An address in glibc's code.
fn glibc_code() -> usize {
    // SAFETY: only the address is used.
    unsafe { READ.function::<usize>() }
}

/// The run that this process belongs to.
fn own_run() -> Ring {
    let words: [u64; 6 + OLDER_PIPES] = core::array::from_fn(|at| RUN[at].load(Relaxed));
    let [token, after, first, namespace, ticks, filters, older @ ..] = words;
    Ring { token, after, first, namespace, ticks, filters: filters as u32, older }
}

/// What the user has said instead of both below.
fn after() -> Option<u64> {
    Some(own_run().after).filter(|&after| after > 0)
}

fn worth_it() -> u64 {
    after().unwrap_or(WORTH_IT)
}

fn worth_a_long_look() -> u64 {
    after().unwrap_or(WORTH_A_LONG_LOOK)
}

fn has_one_thread() -> bool {
    let flag = SINGLE_THREADED.load(Relaxed);
    // SAFETY: glibc's own flag, which is never moved.
    !flag.is_null() && unsafe { flag.read_volatile() } != 0
}

/// Whether this is not a forked child of the process that put its guards up.
fn is_own_process() -> bool {
    // SAFETY: null, or a page that lasts.
    unsafe { OWN.load(Relaxed).as_ref() }.is_none_or(|own| own.load(Relaxed) == 1)
}

/// `read(2)`.
extern "C" fn read(fd: c_int, buffer: *mut u8, len: usize) -> isize {
    glibc::returned_from_kernel(match fd {
        READER_FD if READER.stage() != Stage::Kernel => read_input(buffer, len, None),
        _ => {
            leave_if_other_name_of(fd);
            read_from_kernel(fd, buffer, len)
        }
    })
}

/// `write(2)`.
extern "C" fn write(fd: c_int, buffer: *const u8, len: usize) -> isize {
    glibc::returned_from_kernel(match fd {
        WRITER_FD if WRITER.stage() != Stage::Kernel => write_output(buffer, len),
        _ => {
            leave_if_other_name_of(fd);
            write_to_kernel(fd, buffer, len)
        }
    })
}

fn read_from_kernel(fd: c_int, buffer: *mut u8, len: usize) -> isize {
    tally::count(fd, Direction::Read, kernel::read(fd, buffer, len))
}

fn write_to_kernel(fd: c_int, buffer: *const u8, len: usize) -> isize {
    tally::count(fd, Direction::Written, kernel::write(fd, buffer, len))
}

fn leave_if_not_alone(end: &End) {
    if end.is_promised() {
        // Several threads know that each end is used by one of them at a time, and no child uses it.
    } else if !has_one_thread() {
        retreat::all(Fate::Threads);
    } else if !is_own_process() {
        meet::forget_offer_of_parent();
        retreat::all(Fate::Forked);
    }
}

/// With a bell, of a promised end, it may return [`promised::RUNG`] instead of sleeping.
fn read_input(buffer: *mut u8, len: usize, bell: Option<c_int>) -> isize {
    leave_if_not_alone(&READER);
    match (READER.stage(), READER.slot()) {
        (Stage::Counted, _) if READER.is_due() => meet::accept(),
        (Stage::Wants, Some(slot)) => meet::prove(&READER, slot),
        (Stage::Ready, Some(slot)) if !READER.is_in_kernel() => meet::meet_writer(slot),
        _ => {}
    }
    if let (Stage::Ring, Some(slot)) = (READER.stage(), READER.slot())
        && len > 0
        && can_be_memory(buffer, len)
    {
        return stream::read(slot, buffer, len, bell);
    }
    if promised::is_only_rung(bell) {
        return promised::RUNG;
    }
    READER.in_kernel(|| read_from_kernel(READER_FD, buffer, len))
}

fn write_output(buffer: *const u8, len: usize) -> isize {
    leave_if_not_alone(&WRITER);
    match (WRITER.stage(), WRITER.slot()) {
        (Stage::Counted, _) if WRITER.is_due() => meet::offer(),
        (Stage::Offers, Some(slot)) if meet::is_accepted(slot) => meet::want(slot),
        (Stage::Wants, Some(slot)) if WRITER.is_due() => meet::prove(&WRITER, slot),
        _ => {}
    }
    if let (Stage::Ring, Some(slot)) = (WRITER.stage(), WRITER.slot())
        && len > 0
        && can_be_memory(buffer, len)
    {
        return stream::write(slot, buffer, len);
    }
    let meets = match (WRITER.stage(), WRITER.slot()) {
        (Stage::Ready, Some(slot)) if !WRITER.is_in_kernel() && meet::announce(slot) => Some(slot),
        _ => None,
    };
    let Some(slot) = meets else {
        return WRITER.in_kernel(|| write_to_kernel(WRITER_FD, buffer, len));
    };
    let first = len.min(meet::LAST_BYTES);
    let moved = WRITER.in_kernel(|| write_to_kernel(WRITER_FD, buffer, first));
    meet::await_reader(slot, moved > 0);
    if moved.cast_unsigned() < len && moved.cast_unsigned() == first {
        return moved + write_output(buffer.wrapping_add(first), len - first).max(0);
    }
    moved
}

/// Where no memory can be the kernel is to say `EFAULT`, so the pipe goes back to it first.
fn can_be_memory(buffer: *const u8, len: usize) -> bool {
    /// The first page is never mapped, and above this are no addresses of programs, unless they ask for some.
    const ADDRESSES: core::ops::Range<usize> = 4096..1 << 47;
    let start = buffer as usize;
    let can_be = ADDRESSES.contains(&start) && len <= ADDRESSES.end - start;
    if !can_be {
        retreat::all(Fate::Nowhere);
    }
    can_be
}

/// A joined pipe that is used under another number, which a path under `/proc` or `/dev` may have given it, goes back to the
/// kernel first.
fn leave_if_other_name_of(fd: c_int) {
    let is_joined = |end: &End| end.stage() == Stage::Ring;
    if !is_joined(&READER) && !is_joined(&WRITER) {
        return;
    }
    let bit = 1_u64.checked_shl(fd.cast_unsigned()).unwrap_or(0);
    if OTHER_FILES.load(Relaxed) & bit != 0 {
        return;
    }
    let pipe_of = |fd: &c_int| borrow(fd).and_then(pipe::identity);
    let pipe = pipe_of(&fd);
    if pipe.is_some() && [&READER, &WRITER].iter().any(|end| is_joined(end) && pipe_of(&end.fd) == pipe) {
        retreat::all(Fate::Renamed);
    } else {
        OTHER_FILES.fetch_or(bit, Relaxed);
    }
}

/// Descriptors below 64 that are known to be something else than a joined pipe. A number can only come to mean something else
/// once it was closed, and all ways to close are guarded.
static OTHER_FILES: AtomicU64 = AtomicU64::new(0);

fn forget_name(fd: c_int) {
    let bit = 1_u64.checked_shl(fd.cast_unsigned()).unwrap_or(0);
    OTHER_FILES.fetch_and(!bit, Relaxed);
}
