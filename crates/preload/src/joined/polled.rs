//! `poll`, `ppoll`, `select` and `pselect` while the guards are up. Reader and writer keep their pipes.
//!
//! ```text
//!   look at the ring ── bytes ─────────────────────────▶ ask the kernel for the others, without waiting ──┐
//!        │ none                                                                                           ▼
//!        └▶ look and offer ▶ say "asleep" ▶ look again ▶ wait in the kernel, for the pipe too ▶ say "awake" ▶ look at the ring
//! ```
//!
//! The kernel is asked about all descriptors as the program has listed them. What it says of bytes in the backing pipe is none of the program's
//! business and is replaced by what the ring says, looked at later: so a writer that is gone (`POLLHUP`, which is the kernel's) has
//! left nothing unseen. Where the ring has bytes the answer is there, and the kernel is asked under the mask that the thread has: a
//! signal that only the mask of `ppoll` lets through must not come then. That the kernel finds nothing else says nothing there: a handler
//! may have read the bytes meanwhile, and then all begins anew.
//!
//! The byte that wakes is not taken here. The writer may be giving the pipe back, and have replaced it by one of the stream, which
//! a poll cannot hand to the program. It stays in the backing pipe until the next `read` ([`super::stream`]), where bytes are; until then
//! the word says that the reader was woken. A reader that would sleep while it says so, with an empty ring, detaches the pipe instead. That
//! is rare: there were bytes when the writer sent the byte, and reading them takes it, unless the writer was stopped before it put it there.
//!
//! If the stream has gone back meanwhile all is asked once more, of the kernel's pipe, for what is left of the time.
//!
//! A writer whose ring is full waits for room on the word of which its reader knows, and asks the kernel for everything else again every
//! two milliseconds: the kernel's pipe behind a full ring has room.
//!
//! A reader that polls finds bytes whenever it reads. So it is here that it finds the backing pipe empty and meets its writer.

use core::ffi::{c_int, c_ulong};
use core::ptr::{null, null_mut};

use millstream_ring::channel::{Channel, Found};
use millstream_sys::fate::Fate;

use super::copy::copy;
use super::end::{READER, READERS_SLEEP, Stage, WRITER};
use super::faults;
use super::kernel::{self, Asked, Time};
use super::{caught, guard_flags, meet, other_names, retreat, wait};
use crate::glibc;
use millstream_sys::pipe::PIPE_BUF;

/// A call for more descriptors detaches the pipe: it takes long in any case.
const MOST: usize = 1024;
const WORDS: usize = MOST / 64;
/// A reader that waits for less than this does not wait for a writer to meet it.
const SHORT_NS: i64 = 10_000_000;
/// So long a wait for room lasts before the kernel is asked for the other descriptors again; and where there are none, for the reader.
const OTHERS_NS: u64 = 2_000_000;
const ROOM_NS: u64 = 500_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// So often a reader looks whether a wake token has come that it does not wait for any more.
const LOOKS: u32 = 20;

const BYTES: i16 = kernel::POLLIN | kernel::POLLRDNORM;
const ROOM: i16 = kernel::POLLOUT | kernel::POLLWRNORM;

/// `poll(2)`.
pub(super) extern "C" fn poll(list: *mut Asked, len: c_ulong, limit_ms: c_int) -> c_int {
    let ms = i64::from(limit_ms);
    let left = (ms >= 0).then(|| Time { seconds: ms / 1000, nanoseconds: ms % 1000 * 1_000_000 });
    answer(&mut Call { list: List::Poll(list, len as u32 as usize), left, mask: null() })
}

/// Whether a list of a `poll` has an end in it, or cannot be looked at.
pub(super) fn concerns_an_end(list: usize, len: usize) -> bool {
    len > MOST
        || (0..len).any(|at| {
            let mut entry = Asked { fd: 0, events: 0, answer: 0 };
            let place = (list as *const Asked).wrapping_add(at);
            !kernel::read_own_memory(place.cast(), (&raw mut entry).cast(), size_of::<Asked>())
                || READER.is_at(entry.fd)
                || WRITER.is_at(entry.fd)
                || !other_names::leave_if_one(entry.fd)
        })
}

/// `ppoll(2)`.
pub(super) extern "C" fn ppoll(list: *mut Asked, len: c_ulong, limit: *const Time, mask: *const u64) -> c_int {
    // SAFETY: null or the caller's; glibc reads it as well.
    let left = unsafe { limit.as_ref() }.copied();
    answer(&mut Call { list: List::Poll(list, len as u32 as usize), left, mask })
}

/// `ppoll(2)` as programs built with `_FORTIFY_SOURCE` call it.
pub(super) extern "C" fn ppoll_chk(
    list: *mut Asked,
    len: c_ulong,
    limit: *const Time,
    mask: *const u64,
    room: usize,
) -> c_int {
    if room / size_of::<Asked>() < len as usize {
        glibc::chk_fail();
    }
    ppoll(list, len, limit, mask)
}

/// `select(2)`. The time is `struct timeval`, with microseconds; what is left of it is written there, whatever the answer.
pub(super) extern "C" fn select(
    numbers: c_int,
    read: *mut u64,
    write: *mut u64,
    other: *mut u64,
    limit: *mut Time,
) -> c_int {
    const EINVAL: isize = -22;
    // SAFETY: null or the caller's; glibc reads and writes it as well.
    let limit = unsafe { limit.as_mut() };
    let left = limit.as_ref().map(|time| {
        // glibc knows 32 bits of it.
        let microseconds = i64::from(time.nanoseconds as i32);
        let seconds = time.seconds.saturating_add(microseconds / 1_000_000);
        (time.seconds < 0 || microseconds < 0, Time { seconds, nanoseconds: microseconds % 1_000_000 * 1000 })
    });
    if let Some((true, _)) = left {
        return glibc::returned_from_kernel(EINVAL) as c_int;
    }
    let mut sets = Sets::new(numbers, [read, write, other]);
    let mut call = Call { list: List::Select(&mut sets), left: left.map(|(_, time)| time), mask: null() };
    let result = answer(&mut call);
    if let (Some(limit), Some(left)) = (limit, call.left) {
        *limit = Time { seconds: left.seconds, nanoseconds: left.nanoseconds / 1000 };
    }
    result
}

/// `pselect(2)`.
pub(super) extern "C" fn pselect(
    numbers: c_int,
    read: *mut u64,
    write: *mut u64,
    other: *mut u64,
    limit: *const Time,
    mask: *const u64,
) -> c_int {
    // SAFETY: null or the caller's; glibc reads it as well.
    let left = unsafe { limit.as_ref() }.copied();
    let mut sets = Sets::new(numbers, [read, write, other]);
    answer(&mut Call { list: List::Select(&mut sets), left, mask })
}

/// A call of the program.
struct Call<'a> {
    list: List<'a>,
    /// The time that is left; none: it waits for ever.
    left: Option<Time>,
    /// The signals that are held back meanwhile, if not null.
    mask: *const u64,
}

enum List<'a> {
    Poll(*mut Asked, usize),
    Select(&'a mut Sets),
}

struct Sets {
    numbers: c_int,
    programs: [*mut u64; 3],
    /// What stands there. The kernel writes its answer over it, and may have to be asked again.
    asked: [[u64; WORDS]; 3],
    answer: [[u64; WORDS]; 3],
}

impl Sets {
    fn new(numbers: c_int, programs: [*mut u64; 3]) -> Sets {
        Sets { numbers, programs, asked: [[0; WORDS]; 3], answer: [[0; WORDS]; 3] }
    }

    /// Changes the answer for one descriptor, if it is asked for, and returns by how much there are more.
    fn replace(&mut self, set: usize, fd: c_int, is_ready: impl FnOnce(bool) -> bool) -> isize {
        let (at, bit) = (fd as usize / 64, 1 << (fd % 64));
        if self.asked[set][at] & bit == 0 {
            return 0;
        }
        let was_ready = self.answer[set][at] & bit != 0;
        let is_ready = is_ready(was_ready);
        self.answer[set][at] = self.answer[set][at] & !bit | if is_ready { bit } else { 0 };
        isize::from(is_ready) - isize::from(was_ready)
    }
}

/// What is asked of the two ends.
#[derive(Default)]
struct Wanted {
    bytes: bool,
    room: bool,
    /// Anything of another descriptor.
    others: bool,
}

fn answer(call: &mut Call<'_>) -> c_int {
    let wait = || wait(call).unwrap_or_else(|error| error);
    // Where there are several threads glibc's own function waits.
    let answer = READER.uses.during(|| WRITER.uses.during(wait)).flatten().unwrap_or(kernel::EINTR);
    glibc::returned_from_kernel(answer) as c_int
}

/// `Err` is an answer, too.
fn wait(call: &mut Call<'_>) -> Result<isize, isize> {
    let wanted = match call.wanted() {
        Some(wanted) => wanted,
        None => {
            give_back(Fate::called(c"poll"))?;
            Wanted::default()
        }
    };
    if let (Stage::Ready, Some(channel)) = (READER.stage(), READER.channel())
        && wanted.bytes
        && !READER.is_in_kernel()
        && call.left.is_none_or(|left| left.seconds > 0 || left.nanoseconds >= SHORT_NS)
    {
        meet::meet_writer(channel);
    }
    loop {
        if let Some(channel) =
            WRITER.channel().filter(|channel| wanted.room && WRITER.is_in(channel) && !channel.has_room())
        {
            match wait_at_full_ring(call, channel, &wanted)? {
                Some(result) => return Ok(result),
                None => continue,
            }
        }
        let joined = || READER.channel().filter(|channel| wanted.bytes && READER.is_in(channel));
        // A handler must not begin the ring between the look at it and the call.
        let in_kernel = READER.without_beginning(|| joined().is_none().then(|| call.kernel_for_program()));
        let (None, Some(channel)) = (in_kernel, joined()) else {
            match in_kernel {
                Some(result) => return Ok(result),
                None => continue,
            }
        };
        if let Some(result) = wait_for_ring(call, channel, wanted.others)? {
            return Ok(result);
        }
    }
}

/// `None`: once more, as something has changed.
fn wait_for_ring(call: &mut Call<'_>, channel: &Channel, has_others: bool) -> Result<Option<isize>, isize> {
    let is_ready = channel.bytes_waiting() != Found::Nothing;
    if !is_ready && has_others && call.can_wait() {
        // Another descriptor that is ready must not wait until this side has spun for bytes in vain.
        let found = call.kernel(false);
        if found > 0
            && let Some(has_bytes) = channel.has_bytes()
        {
            let told = call.put_right(found, Some(has_bytes), false);
            if told > 0 {
                return Ok(Some(call.tell(told)));
            }
        }
    }
    let sleeps = !is_ready && call.can_wait();
    if sleeps && !falls_asleep(channel)? {
        return Ok(None);
    }
    let found = call.kernel(!is_ready);
    let was_woken = sleeps && wakes_up(channel);
    if found < 0 {
        // The signal has been seen to, and there is an answer.
        return if is_ready && found == kernel::EINTR { Ok(None) } else { Err(found) };
    }
    let Some(has_bytes) = channel.has_bytes() else {
        return if retreat::follow(&READER) { Ok(None) } else { Err(kernel::EMFILE) };
    };
    let told = call.put_right(found, Some(has_bytes), false);
    // Where there were bytes this call has not waited: if a handler has read them, that was no answer.
    let is_over = told != 0 || (found == 0 && !is_ready) || !call.can_wait();
    if !is_over && sleeps && !was_woken {
        // A foreign process writes to the backing pipe, and would end each wait.
        give_back(Fate::called(c"poll"))?;
    }
    // Otherwise only a byte that wakes has come, for bytes that a handler has read.
    Ok(is_over.then(|| call.tell(told)))
}

/// Asks for everything but room, and waits for a moment, if there is nothing. `None`: once more.
fn wait_at_full_ring(call: &mut Call<'_>, full: &Channel, wanted: &Wanted) -> Result<Option<isize>, isize> {
    if !call.mask.is_null() {
        // What waits for room cannot wait under another mask.
        give_back(Fate::called(c"poll"))?;
        return Ok(None);
    }
    let found = call.kernel(false);
    if found < 0 {
        return Err(found);
    }
    let reader = READER.channel().filter(|channel| wanted.bytes && READER.is_in(channel));
    let has_bytes = reader.map(Channel::has_bytes);
    if has_bytes == Some(None) {
        return if retreat::follow(&READER) { Ok(None) } else { Err(kernel::EMFILE) };
    }
    let told = call.put_right(found, has_bytes.flatten(), true);
    if told != 0 || !call.can_wait() {
        return Ok(Some(call.tell(told)));
    }
    let Some(value) = full.writer_will_sleep(PIPE_BUF) else { return Ok(None) };
    WRITER.tally.slept();
    let has_others = wanted.others || wanted.bytes;
    let limit_ns = if has_others { OTHERS_NS } else { ROOM_NS };
    match call.spend(limit_ns, |limit_ns| kernel::wait(full.room_word(), value, Some(limit_ns))) {
        kernel::EINTR => Err(kernel::EINTR),
        _ => Ok(None),
    }
}

/// `false`: it need not, or the pipe is the kernel's again.
fn falls_asleep(channel: &Channel) -> Result<bool, isize> {
    let cpu = kernel::cpu();
    channel.note_readers_cpu(cpu);
    if wait::without_sleep(&READER, || channel.bytes_waiting(), channel.writer_is_on(cpu)) {
        return Ok(false);
    }
    if !READERS_SLEEP.begin() {
        give_back(Fate::Handler)?;
        return Ok(false);
    }
    let was_woken = channel.begin_sleep();
    let is_empty = !channel.has_bytes_before_sleep();
    if is_empty && !was_woken {
        READER.tally.slept();
        return Ok(true);
    }
    let _ = wakes_up(channel);
    if is_empty {
        give_back(Fate::called(c"poll"))?;
    }
    Ok(false)
}

/// Whether the writer has begun to wake it.
fn wakes_up(channel: &Channel) -> bool {
    let was_woken = channel.end_sleep();
    if was_woken {
        // So that the read that comes can take it.
        for _ in 0..LOOKS {
            if kernel::bytes_in(READER.fd()) != 0 {
                break;
            }
            kernel::give_the_cpu_away();
        }
    }
    READERS_SLEEP.end();
    was_woken
}

fn give_back(why: Fate) -> Result<(), isize> {
    if retreat::before_a_call(why) { Ok(()) } else { Err(kernel::EMFILE) }
}

impl Call<'_> {
    fn can_wait(&self) -> bool {
        self.left.is_none_or(|left| left.seconds != 0 || left.nanoseconds != 0)
    }

    /// Waits for so long at most, of the time that is left.
    fn spend(&mut self, limit_ns: u64, wait: impl FnOnce(u64) -> isize) -> isize {
        let in_ns =
            |time: Time| (time.seconds as u64).saturating_mul(SECOND_NS).saturating_add(time.nanoseconds as u64);
        let left = self.left.map(in_ns);
        let before = kernel::monotonic_ns();
        let outcome = wait(left.map_or(limit_ns, |left| left.min(limit_ns)));
        self.left = left.map(|left| {
            let left = left.saturating_sub(kernel::monotonic_ns() - before);
            Time { seconds: (left / SECOND_NS) as i64, nanoseconds: (left % SECOND_NS) as i64 }
        });
        outcome
    }

    /// Copies sets, and looks for the ends. `None`: that cannot be done, or the kernel has something to say against the call.
    fn wanted(&mut self) -> Option<Wanted> {
        let mut wanted = Wanted::default();
        let is_time = |left: Time| left.seconds >= 0 && (0..1_000_000_000).contains(&left.nanoseconds);
        if !self.left.is_none_or(is_time) || !self.mask_lets_faults_through() || !faults::would_catch(&READER) {
            return None;
        }
        match &mut self.list {
            &mut List::Poll(list, len) => {
                if len > MOST {
                    return None;
                }
                for at in 0..len {
                    let mut entry = Asked { fd: 0, events: 0, answer: 0 };
                    // SAFETY: to a variable of its own.
                    if !unsafe { copy(list.wrapping_add(at).cast(), (&raw mut entry).cast(), size_of::<Asked>()) } {
                        return None;
                    }
                    wanted.add(entry.fd, entry.events & BYTES != 0, entry.events & ROOM != 0)?;
                }
            }
            List::Select(sets) => {
                let numbers = usize::try_from(sets.numbers).ok().filter(|&numbers| numbers <= MOST)?;
                for (set, asked) in sets.programs.iter().zip(&mut sets.asked) {
                    // SAFETY: to an array that has room for so many bits.
                    if !set.is_null() && !unsafe { copy(set.cast(), asked.as_mut_ptr().cast(), bytes_of(numbers)) } {
                        return None;
                    }
                }
                let [read, write, other] = &sets.asked;
                for at in 0..numbers.div_ceil(64) {
                    let mut left = read[at] | write[at] | other[at];
                    while left != 0 {
                        let (number, bit) = (at * 64 + left.trailing_zeros() as usize, left & left.wrapping_neg());
                        left &= !bit;
                        if number < numbers {
                            wanted.add(number as c_int, read[at] & bit != 0, write[at] & bit != 0)?;
                        }
                    }
                }
            }
        }
        Some(wanted)
    }

    /// Else a handler that only this mask lets in would die of memory that is not there. `false` also where the mask is not there.
    fn mask_lets_faults_through(&self) -> bool {
        let mut mask = 0_u64;
        // SAFETY: to a variable of its own.
        self.mask.is_null()
            || (unsafe { copy(self.mask.cast(), (&raw mut mask).cast(), size_of::<u64>()) }
                && mask & caught::CAUGHT == 0)
    }

    /// Asks as the program would without this library.
    fn kernel_for_program(&mut self) -> isize {
        let left = self.left.as_mut().map_or(null_mut(), core::ptr::from_mut);
        match &self.list {
            List::Poll(list, len) => kernel::ppoll(*list, *len, left, self.mask),
            List::Select(sets) => kernel::pselect(sets.numbers, sets.programs, left, self.mask),
        }
    }

    fn kernel(&mut self, may_wait: bool) -> isize {
        let mut nothing = Time { seconds: 0, nanoseconds: 0 };
        let (left, mask) = match (may_wait, &mut self.left) {
            (false, _) => (&raw mut nothing, null()),
            (true, None) => (null_mut(), self.mask),
            (true, Some(left)) => (core::ptr::from_mut(left), self.mask),
        };
        match &mut self.list {
            List::Poll(list, len) => kernel::ppoll(*list, *len, left, mask),
            List::Select(Sets { numbers, programs, asked, answer }) => {
                *answer = *asked;
                let mut sets = [null_mut(); 3];
                for ((set, program), answer) in sets.iter_mut().zip(programs).zip(answer) {
                    if !program.is_null() {
                        *set = answer.as_mut_ptr();
                    }
                }
                kernel::pselect(*numbers, sets, left, mask)
            }
        }
    }

    /// Replaces what the kernel has said of the backing pipes: of the reader's, if it is attached, and of the writer's, if its ring is
    /// full. Returns how many are ready then.
    fn put_right(&mut self, mut found: isize, has_bytes: Option<bool>, is_full: bool) -> isize {
        match &mut self.list {
            &mut List::Poll(list, len) => {
                for at in 0..len {
                    // SAFETY: the kernel has just read and written these entries.
                    let entry = unsafe { &mut *list.wrapping_add(at) };
                    let before = entry.answer;
                    if let Some(has_bytes) = has_bytes
                        && entry.fd == READER.fd()
                    {
                        entry.answer = before & !BYTES | if has_bytes { entry.events & BYTES } else { 0 };
                    } else if is_full && entry.fd == WRITER.fd() {
                        entry.answer &= !ROOM;
                    }
                    found += isize::from(entry.answer != 0) - isize::from(before != 0);
                }
            }
            List::Select(sets) => {
                if let Some(has_bytes) = has_bytes {
                    let fd = READER.fd();
                    let hangs = || kernel::poll(fd, 0, 0) & kernel::POLLHUP != 0;
                    found += sets.replace(0, fd, |was_ready| has_bytes || (was_ready && hangs()));
                }
                if is_full {
                    let fd = WRITER.fd();
                    found += sets.replace(1, fd, |was_ready| was_ready && kernel::has_no_reader(fd));
                }
            }
        }
        found
    }

    /// Gives the program its sets, and returns the answer.
    fn tell(&self, told: isize) -> isize {
        if let List::Select(sets) = &self.list {
            for (set, answer) in sets.programs.iter().zip(&sets.answer) {
                // SAFETY: to the program's set, in which the bits of so many descriptors stood.
                let is_there = set.is_null()
                    || unsafe { copy(answer.as_ptr().cast(), set.cast(), bytes_of(sets.numbers as usize)) };
                if !is_there {
                    return kernel::EFAULT;
                }
            }
        }
        told
    }
}

impl Wanted {
    /// `None`: the guards are down, so memory that is not there would be the program's end; or the pipe has another name, and could not
    /// be given back.
    fn add(&mut self, fd: c_int, bytes: bool, room: bool) -> Option<()> {
        if READER.is_at(fd) {
            self.bytes |= bytes;
        }
        if WRITER.is_at(fd) {
            self.room |= room;
        } else if fd >= 0 && !READER.is_at(fd) {
            self.others = true;
            other_names::leave_if_one(fd).then_some(())?;
        }
        guard_flags::are_up().then_some(())
    }
}

/// What the kernel reads and writes of a set.
fn bytes_of(numbers: usize) -> usize {
    numbers.div_ceil(64) * 8
}
