//! Several threads in a program whose pipes are attached, or may be.
//!
//! One thread at a time has an end, for as long as its call lasts ([`super::mapping::Uses`]). A thread that comes to an end which
//! another one has detaches the pipe: in the kernel any number of threads may use it. What changes an end is done under one lock, with
//! signals held back ([`super::held::Held`]).
//!
//! A hook is a jump and leaves no trace, so when the guards go up another thread may be in a call that passed its hook before. That
//! call must not pass an end on, or watch one. So from the first thread on every guarded call is noted before it goes on, and an attempt
//! to attach first raises the guards, then reads the notes: either the call finds the guards up, or the attempt finds the note.
//! After a call that could concern any end ([`is_harmless`] has the others) this process attaches no further pipe.
//!
//! Both are in a page that the kernel clears in a forked child, where the other threads are not.

use core::arch::global_asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU8, AtomicUsize};

use millstream_sys::fate::{Fate, place_of};
use millstream_sys::raw;

use super::end::{End, READER, WRITER};
use super::own_process::{OwnPage, has_threads, own_page, this_thread};
use super::own_run::IS_WANTED;
use super::{alone, calls, caught, confined, faults, guard_flags, harmless, kernel, retreat, trapped};
use crate::behind::Behind;
use crate::names;

/// More calls at once than that are not told apart.
const MOST_CALLS: u8 = 128;

const PTHREAD_CREATE: usize = place_of("pthread_create");
const THRD_CREATE: usize = place_of("thrd_create");
const PTHREAD_EXIT: usize = place_of("pthread_exit");
const TIMER_CREATE: usize = place_of("timer_create");
const DLOPEN: usize = place_of("dlopen");
/// Those that make threads inside glibc.
const MAKE_THREADS: [usize; 12] = [
    PTHREAD_CREATE,
    THRD_CREATE,
    place_of("clone"),
    place_of("__clone"),
    TIMER_CREATE,
    place_of("mq_notify"),
    place_of("getaddrinfo_a"),
    place_of("aio_read"),
    place_of("aio_read64"),
    place_of("aio_write"),
    place_of("aio_write64"),
    place_of("lio_listio"),
];

/// Before a guarded call: where it goes on, if not as any other. The first that makes a thread is made by the only one there is.
pub(super) fn before_call(place: usize, second: usize) -> Option<usize> {
    let makes_one = MAKE_THREADS.contains(&place) && (place != TIMER_CREATE || begins_thread(second));
    if !makes_one || !(has_threads() || begin()) {
        return None;
    }
    // The new thread may have the address of one that was checked, and has this thread's mask.
    READER.checked_thread.store(0, Relaxed);
    WRITER.checked_thread.store(0, Relaxed);
    if place == PTHREAD_CREATE && are_armed() && IS_WANTED.load(Relaxed) {
        return Some(create as *const () as usize);
    }
    expect_unarmed();
    None
}

/// A thread will come whose calls are never trapped.
fn expect_unarmed() {
    if let Some(page) = own_page() {
        page.are_armed.store(0, SeqCst);
    }
    if trapped::is_on() {
        retreat::all(Fate::Code);
    }
}

/// From now on there are several threads, in a process whose calls are ours.
fn begin() -> bool {
    if !calls::are_ours() || !may_attach() {
        return false;
    }
    let Some(page) = own_page() else {
        retreat::all(Fate::Threads);
        calls::stop();
        return false;
    };
    let allowed = || Some(alone::allowed_range(&names::c_library()?.code, &names::own_code()?));
    if let Some(allowed) = allowed()
        && lets_sigsys_in()
        && (trapped::is_on() || trapped::arm(&allowed))
    {
        page.allowed[0].store(allowed.start, Relaxed);
        page.allowed[1].store(allowed.end, Relaxed);
        page.are_armed.store(1, SeqCst);
    }
    guard_flags::expect_threads();
    true
}

/// Whether this process may attach a pipe, and so make calls that it does not make by itself.
fn may_attach() -> bool {
    IS_WANTED.load(Relaxed) && !confined::may_not_join()
}

/// Whether a call of this thread can be trapped: a SIGSYS that is held back is the program's end.
fn lets_sigsys_in() -> bool {
    raw::block_signals(0) & caught::CAUGHT == 0
}

/// Whether the calls of every thread are trapped, as soon as any are ([`trapped::begin`]).
pub(super) fn are_armed() -> bool {
    own_page().is_some_and(|page| page.are_armed.load(SeqCst) != 0)
}

/// The type of `pthread_create`.
type Create = unsafe extern "C-unwind" fn(*mut c_void, *const c_void, usize, usize) -> c_int;

/// `pthread_create(3)`, whose thread is armed before it begins.
extern "C-unwind" fn create(thread: *mut c_void, attributes: *const c_void, function: usize, argument: usize) -> c_int {
    static CREATE: Behind = Behind::new("pthread_create");
    // SAFETY: the signature is that of glibc's function.
    let behind: Create = unsafe { CREATE.glibcs() };
    let beginning = own_page().and_then(|page| {
        let is_free = |begins: &&[AtomicUsize; 2]| begins[0].compare_exchange(0, function, SeqCst, Relaxed).is_ok();
        page.beginnings.iter().find(is_free)
    });
    let Some(beginning) = beginning else {
        expect_unarmed();
        // SAFETY: what the program passed.
        return unsafe { behind(thread, attributes, function, argument) };
    };
    beginning[1].store(argument, SeqCst);
    let place = core::ptr::from_ref(beginning) as usize;
    // SAFETY: what the program passed, but for the function, which goes on in the program's.
    let outcome = unsafe { behind(thread, attributes, millstream_thread as *const () as usize, place) };
    if outcome != 0 {
        beginning[0].store(0, SeqCst);
    }
    outcome
}

// The function of a thread: it is armed, and goes on in the program's, which finds the stack as if it had been called itself.
global_asm!(
    ".pushsection .text.millstream_thread,\"ax\",@progbits",
    ".globl millstream_thread",
    ".hidden millstream_thread",
    "millstream_thread:",
    "endbr64",
    "sub rsp, 8",
    "call {begin}",
    "add rsp, 8",
    "mov rdi, rdx",
    "jmp rax",
    ".popsection",
    begin = sym begin_thread,
);

unsafe extern "C" {
    fn millstream_thread();
}

/// Two registers.
#[repr(C)]
struct Beginning {
    function: usize,
    argument: usize,
}

extern "C" fn begin_thread(place: &[AtomicUsize; 2]) -> Beginning {
    let beginning = Beginning { function: place[0].load(SeqCst), argument: place[1].load(SeqCst) };
    place[0].store(0, SeqCst);
    if let Some(page) = own_page() {
        let [start, end] = [0, 1].map(|at| page.allowed[at].load(Relaxed));
        let is_armed = IS_WANTED.load(Relaxed) && lets_sigsys_in() && trapped::arm(&(start..end));
        if !is_armed {
            expect_unarmed();
        }
    }
    beginning
}

/// Before a guarded call of a process with threads.
pub(super) fn note(place: usize, first: usize, second: usize) {
    if !IS_WANTED.load(Relaxed) {
        return;
    }
    if may_hold_sigsys(place, first, second) {
        expect_unarmed();
    }
    if USED_BY_NUMBER.contains(&place) || changes_number(place, second) {
        note_number(first as c_int);
    } else if !is_harmless(place, first, second) {
        note_any(u16::try_from(place).map_or(Fate::Threads, Fate::Called));
        if !guard_flags::are_up() {
            // The call may ask for them, or make a process that has them.
            faults::step_aside();
        }
    }
}

/// Notes a call that could concern any end.
pub(super) fn note_any(called: Fate) {
    if let Some(page) = own_page() {
        page.called.store(called.word(), SeqCst);
    }
}

/// Notes that this descriptor is used by other calls than read and write.
pub(super) fn note_number(fd: c_int) {
    if let Some(page) = own_page()
        && let Some(word) = page.used_otherwise.get(fd as usize / 64)
        && word.load(Relaxed) >> (fd & 63) & 1 == 0
    {
        word.fetch_or(1 << (fd & 63), SeqCst);
    }
}

/// They use the descriptor that is their first argument.
const USED_BY_NUMBER: [usize; 17] = [
    place_of("readv"),
    place_of("writev"),
    place_of("preadv2"),
    place_of("preadv64v2"),
    place_of("pwritev2"),
    place_of("pwritev64v2"),
    place_of("fdopen"),
    place_of("_IO_fdopen"),
    place_of("lockf"),
    place_of("lockf64"),
    place_of("eventfd_read"),
    place_of("eventfd_write"),
    place_of("mq_close"),
    place_of("dprintf"),
    place_of("vdprintf"),
    place_of("__dprintf_chk"),
    place_of("__vdprintf_chk"),
];

/// Calls that change how the descriptor that is their first argument behaves.
fn changes_number(place: usize, second: usize) -> bool {
    const F_SETFL: u32 = 4;
    const F_SETOWN: u32 = 8;
    const FIONBIO: u32 = 0x5421;
    const FIOASYNC: u32 = 0x5452;
    let command = second as u32;
    (harmless::FCNTL.contains(&place) && [F_SETFL, F_SETOWN].contains(&command))
        || (place == harmless::IOCTL && [FIONBIO, FIOASYNC, kernel::FIONREAD as u32].contains(&command))
}

/// Calls after which a thread may hold back SIGSYS.
fn may_hold_sigsys(place: usize, first: usize, second: usize) -> bool {
    // SAFETY: what the program passes as a set, or what `setjmp` has filled.
    unsafe {
        if [harmless::SIGPROCMASK, harmless::PTHREAD_SIGMASK].contains(&place) {
            !caught::are_let_through(first, second)
        } else {
            harmless::LONGJMP.contains(&place) && !caught::are_let_through_by_jump(first)
        }
    }
}

/// Calls that leave every end as it is, whichever descriptor stands for it: they pass nothing on, and watch nothing.
fn is_harmless(place: usize, first: usize, second: usize) -> bool {
    const F_DUPFD: u32 = 0;
    const F_DUPFD_CLOEXEC: u32 = 1030;
    harmless::is_of_mask_or_jump(place)
        || harmless::is_of_other_signal(place, first, second)
        || (place == TIMER_CREATE && !begins_thread(second))
        || harmless::CLOSE.contains(&place)
        || [PTHREAD_CREATE, THRD_CREATE].contains(&place)
        // The kernel tells of the reader's death by the first thread's list.
        || (place == PTHREAD_EXIT && !is_first())
        || (harmless::FCNTL.contains(&place)
            && ![F_DUPFD, F_DUPFD_CLOEXEC].contains(&(second as u32))
            && harmless::is_harmless_fcntl(false, second as u32))
        || (place == harmless::IOCTL && harmless::is_harmless_ioctl(false, second))
        // What they wait for is noted by [`super::watched`].
        || harmless::POLL.contains(&place)
        || harmless::SELECT.contains(&place)
        || place == harmless::POLL_CHK
}

/// Whether a timer calls a function in a thread of its own.
fn begins_thread(event: usize) -> bool {
    const SIGEV_THREAD: u32 = 2;
    // SAFETY: null, or what the program has passed as a `struct sigevent`: a value, a signal, and how it comes.
    unsafe { (event as *const [u32; 4]).as_ref() }.is_some_and(|event| event[3] == SIGEV_THREAD)
}

/// While pipes are attached: whether the call goes on in glibc at once.
pub(super) fn leaves_ends_alone(place: usize, first: usize, second: usize) -> bool {
    let fd = first as c_int;
    match place {
        PTHREAD_CREATE | THRD_CREATE => true,
        PTHREAD_EXIT => !is_first(),
        TIMER_CREATE => !begins_thread(second),
        harmless::SIGPROCMASK | harmless::PTHREAD_SIGMASK if !trapped::is_on() => {
            // Its next copy asks for the mask again.
            for end in [&READER, &WRITER] {
                let _ = end.checked_thread.compare_exchange(this_thread(), 0, Relaxed, Relaxed);
            }
            true
        }
        _ if USED_BY_NUMBER.contains(&place) => {
            !READER.is_at(fd) && !WRITER.is_at(fd) && super::other_names::leave_if_one(fd)
        }
        _ if harmless::POLL.contains(&place) => !super::polled::concerns_an_end(first, second),
        _ => false,
    }
}

/// Whether the calling thread is the one that the program began with.
fn is_first() -> bool {
    kernel::own_thread() == millstream_sys::own_pid()
}

/// Whether an end of a process with threads may be attached: if the guards are up, no other thread can be in a call that concerns it.
pub(super) fn allow(end: &End) -> Result<(), Fate> {
    if !has_threads() {
        return Ok(());
    }
    let Some(page) = own_page() else { return Err(Fate::Threads) };
    let number = end.fd() as usize;
    if page.loads.load(SeqCst) != 0 {
        return Err(Fate::called(c"dlopen"));
    }
    let is_in_one_call = page.in_call.get(number).is_some_and(|calls| calls.load(SeqCst) == 1);
    let is_used_otherwise =
        page.used_otherwise.get(number / 64).is_none_or(|word| word.load(SeqCst) >> (number % 64) & 1 != 0);
    match page.called.load(SeqCst) {
        0 if page.waits.load(SeqCst) != 0 => Err(Fate::called(c"poll")),
        0 if is_in_one_call && !is_used_otherwise => Ok(()),
        0 => Err(Fate::Threads),
        called => Err(Fate::from_word(called)),
    }
}

/// While the guards are up: `None` if another thread may be unloading a library whose code is to be read.
pub(super) fn may_read_code() -> Option<()> {
    let is_loading = || own_page().is_none_or(|page| page.loads.load(SeqCst) != 0);
    (!has_threads() || (why_not().is_none() && !is_loading())).then_some(())
}

/// Whether what has kept an end from being attached may be over in a while.
pub(super) fn may_pass(why_not: Fate) -> bool {
    why_not == Fate::called(c"poll") || why_not == Fate::called(c"dlopen")
}

/// Why this process attaches no further pipe because of its threads, if that is so.
pub(super) fn why_not() -> Option<Fate> {
    let called = own_page().filter(|_| has_threads())?.called.load(SeqCst);
    (called != 0).then(|| Fate::from_word(called))
}

/// A read or a write of a descriptor goes on, until this is dropped.
pub(super) struct InCall(Option<&'static AtomicU8>);

impl InCall {
    #[inline(always)] // each call of a program comes through here
    pub(super) fn of(fd: c_int) -> InCall {
        InCall(if has_threads() { InCall::begin(fd) } else { None })
    }

    fn begin(fd: c_int) -> Option<&'static AtomicU8> {
        let calls = own_page()?.in_call.get(fd as usize)?;
        if calls.fetch_add(1, SeqCst) >= MOST_CALLS {
            note_number(fd);
        }
        Some(calls)
    }
}

impl Drop for InCall {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(calls) = self.0 {
            calls.fetch_sub(1, SeqCst);
        }
    }
}

/// A call that waits for descriptors, until this is dropped. The first ones note which, among them those that last; that takes a system
/// call. The others are counted while they go on.
pub(super) struct Waits {
    page: Option<&'static OwnPage>,
    pub(super) are_noted: bool,
}

/// So many waits of a process are noted.
const FIRST_WAITS: u32 = 256;

impl Waits {
    pub(super) fn begin() -> Waits {
        let page = if has_threads() && IS_WANTED.load(Relaxed) { own_page() } else { None };
        let Some(page) = page else { return Waits { page: None, are_noted: false } };
        if page.noted_waits.load(Relaxed) < FIRST_WAITS {
            page.noted_waits.fetch_add(1, Relaxed);
            return Waits { page: None, are_noted: true };
        }
        page.waits.fetch_add(1, SeqCst);
        Waits { page: Some(page), are_noted: false }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        if let Some(page) = self.page {
            page.waits.fetch_sub(1, SeqCst);
        }
    }
}

/// `dlopen(3)` of a path, for which it does not matter which library asks.
pub(super) extern "C-unwind" fn load(path: *const c_char, flags: c_int) -> *mut c_void {
    static DLOPEN: Behind = Behind::new("dlopen");
    // SAFETY: the signature is that of glibc's function.
    let behind: unsafe extern "C-unwind" fn(*const c_char, c_int) -> *mut c_void = unsafe { DLOPEN.glibcs() };
    // SAFETY: what the program passed.
    let load = || unsafe { behind(path, flags) };
    let Some(page) = own_page() else { return load() };
    page.loads.fetch_add(1, SeqCst);
    let library = load();
    page.loads.fetch_sub(1, SeqCst);
    library
}

/// Whether a library is loaded by [`load`], which the attempt to attach sees.
pub(super) fn loads_here(place: usize, path: usize) -> bool {
    let path = path as *const c_char;
    // SAFETY: null, or a C string, as for `dlopen`.
    place == DLOPEN && !path.is_null() && unsafe { CStr::from_ptr(path) }.to_bytes().starts_with(b"/")
}
