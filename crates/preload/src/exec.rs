//! `execve` and its relatives: as ever, but a program that has no use for this library, or whose loader cannot use it,
//! is started without it.
//!
//! Loading the library costs a program 50 us, looking at its file 2 us, knowing it by its name nothing ([`tools`]). Shell scripts
//! are mostly made of programs that neither make pipes nor start others. What is taken out of the environment is exactly
//! what `millstream run` put there, and only if nothing was added to it. Wrong guesses do no harm: a program without the library
//! has ordinary pipes.
//!
//! `execl` and its kind have a variable number of arguments and go to glibc directly, as does what glibc starts itself;
//! there the environment stays whole.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;

use millstream_sys::executable::{self, Kind};
use millstream_sys::{raw, settings};

use crate::behind::Behind;
use crate::descriptor::borrow;
use crate::glibc;
use crate::text::rest_of;
use crate::{counters, joined, lines, pipes, tools};

type Strings = *const *const c_char;

static EXECVPE: Behind = Behind::new("execvpe");
static FEXECVE: Behind = Behind::new("fexecve");
static POSIX_SPAWN: Behind = Behind::new("posix_spawn");
static POSIX_SPAWNP: Behind = Behind::new("posix_spawnp");

/// `execve(2)`.
///
/// # Safety
/// As for `execve(2)`.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.millstream")]
pub unsafe extern "C" fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    // The guards of attached pipes stand in glibc's function, which this one does not call.
    if !joined::leave() {
        return glibc::returned(Err(millstream_sys::Errno::MFILE));
    }
    // SAFETY: the caller's promises are the same.
    unsafe {
        let is_better_off = is_better_off(path, arguments, Descriptors::Ours);
        let mut room = Room::new();
        glibc::returned(raw::execve(path, arguments, room.environment(is_better_off, environment)))
    }
}

/// `execv(3)`.
///
/// # Safety
/// As for `execv(3)`.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.millstream")]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the caller's promises are the same; the environment is the program's.
    unsafe { execve(path, arguments, glibc::environment()) }
}

/// `execvp(3)`.
///
/// # Safety
/// As for `execvp(3)`.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.millstream")]
pub unsafe extern "C" fn execvp(name: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the caller's promises are the same; the environment is the program's.
    unsafe { execvpe(name, arguments, glibc::environment()) }
}

/// `execvpe(3)`.
///
/// # Safety
/// As for `execvpe(3)`.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.millstream")]
pub unsafe extern "C" fn execvpe(name: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    // SAFETY: the signature is that of glibc's function, and the caller's promises are the same.
    unsafe {
        let behind: unsafe extern "C" fn(*const c_char, Strings, Strings) -> c_int = EXECVPE.function();
        let is_better_off = is_better_off_in_path(name, arguments, Descriptors::Ours);
        let mut room = Room::new();
        behind(name, arguments, room.environment(is_better_off, environment))
    }
}

/// `fexecve(3)`.
///
/// # Safety
/// As for `fexecve(3)`.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.millstream")]
pub unsafe extern "C" fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int {
    let is_better_off = borrow(&fd).is_some_and(|file| prepare_for(executable::look(file), Descriptors::Ours));
    // SAFETY: the signature is that of glibc's function, and the caller's promises are the same.
    unsafe {
        let behind: unsafe extern "C" fn(c_int, Strings, Strings) -> c_int = FEXECVE.function();
        let mut room = Room::new();
        behind(fd, arguments, room.environment(is_better_off, environment))
    }
}

/// The type of `posix_spawn` and `posix_spawnp`.
type Spawn = unsafe extern "C" fn(*mut c_int, *const c_char, *const c_void, *const c_void, Strings, Strings) -> c_int;

/// `posix_spawn(3)`.
///
/// # Safety
/// As for `posix_spawn(3)`.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.millstream")]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut c_int,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the type is that of glibc's function, and the caller's promises are the same.
    unsafe {
        let is_better_off = is_better_off(path, arguments, descriptors_after(actions));
        let mut room = Room::new();
        let environment = room.environment(is_better_off, environment);
        POSIX_SPAWN.function::<Spawn>()(pid, path, actions, attributes, arguments, environment)
    }
}

/// `posix_spawnp(3)`.
///
/// # Safety
/// As for `posix_spawnp(3)`.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.millstream")]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut c_int,
    name: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the type is that of glibc's function, and the caller's promises are the same.
    unsafe {
        let is_better_off = is_better_off_in_path(name, arguments, descriptors_after(actions));
        let mut room = Room::new();
        let environment = room.environment(is_better_off, environment);
        POSIX_SPAWNP.function::<Spawn>()(pid, name, actions, attributes, arguments, environment)
    }
}

/// What a program is started with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Descriptors {
    /// What stands here now.
    Ours,
    /// It may get pipes, whatever stands here.
    Others,
}

/// # Safety
/// `actions` is null or what `posix_spawn_file_actions_init(3)` has made.
unsafe fn descriptors_after(actions: *const c_void) -> Descriptors {
    /// In `posix_spawn_file_actions_t`, in words: how many there are.
    const USED: usize = 1;
    // SAFETY: the caller's promise.
    let has_some = !actions.is_null() && unsafe { actions.cast::<c_int>().add(USED).read() } != 0;
    if has_some { Descriptors::Others } else { Descriptors::Ours }
}

/// Whether the program at `path` is better off without the library; its pipes are prepared.
///
/// # Safety
/// As for `execve(2)`.
#[unsafe(link_section = ".text.hot.millstream")]
#[inline(never)] // its stack is given back before the room for an environment is needed
unsafe fn is_better_off(path: *const c_char, arguments: Strings, descriptors: Descriptors) -> bool {
    // SAFETY: the caller's promise. Where the kernel finds a file there is a C string.
    unsafe {
        raw::expect_regular(path).is_ok()
            && (is_known_to_be_better_off(path, arguments, descriptors) || is_seen_to_be_better_off(path, descriptors))
    }
}

/// Whether its last starts tell that, or its file.
///
/// # Safety
/// `path` is a C string.
#[unsafe(link_section = ".text.hot.millstream")]
unsafe fn is_seen_to_be_better_off(path: *const c_char, descriptors: Descriptors) -> bool {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(path) };
    // Mostly this process becomes that program. Where it spawns it instead, it is alive when it spawns the next, which is not brief then.
    if descriptors == Descriptors::Ours && joined::is_brief(name) {
        return true;
    }
    // SAFETY: the caller's promise.
    let Ok(file) = (unsafe { raw::open(path) }) else { return false };
    let kind = executable::look(file);
    if kind == Kind::Leaf && descriptors == Descriptors::Ours {
        joined::know(name);
    }
    prepare_for(kind, descriptors)
}

/// The same for the first file called `name` in the directories of PATH, as `execvp` finds it.
///
/// # Safety
/// As for `execvp(3)`.
#[unsafe(link_section = ".text.hot.millstream")]
#[inline(never)] // as above
unsafe fn is_better_off_in_path(name: *const c_char, arguments: Strings, descriptors: Descriptors) -> bool {
    if name.is_null() {
        return false;
    }
    let mut room = [0; 512];
    // SAFETY: by the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    let path = if name.to_bytes().contains(&b'/') {
        Some(name)
    } else {
        // SAFETY: a C string in, null or a C string out.
        let path = unsafe { glibc::getenv(c"PATH".as_ptr()) };
        // SAFETY: an entry of the environment.
        let path = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) });
        path.and_then(|path| executable::find_in_path(path, name, &mut room))
    };
    // SAFETY: a C string, and the caller's promise.
    path.is_some_and(|path| unsafe { is_better_off(path.as_ptr(), arguments, descriptors) })
}

/// Whether the run has a use for the library in every program that can load it.
pub(crate) fn wants_every_program() -> bool {
    counters::is_wanted() || lines::are_wanted()
}

/// Whether its name alone tells that.
///
/// # Safety
/// `path` is a C string, `arguments` null or a null-terminated list of such.
unsafe fn is_known_to_be_better_off(path: *const c_char, arguments: Strings, descriptors: Descriptors) -> bool {
    if wants_every_program() {
        return false;
    }
    // SAFETY: the caller's promise.
    let tool = unsafe { tools::at(path) };
    tool.is_some_and(|tool| {
        let knows_descriptors = tool == tools::Tool::Terse || descriptors == Descriptors::Ours;
        // SAFETY: the caller's promise.
        !joined::is_wanted() || knows_descriptors && !unsafe { tools::may_move_much(tool, arguments) }
    })
}

/// What is done for a program of this kind before it is started with these descriptors; whether it is better off without the library.
fn prepare_for(kind: Kind, descriptors: Descriptors) -> bool {
    match (kind, descriptors) {
        (_, Descriptors::Others) => {}
        (Kind::Threaded, Descriptors::Ours) => pipes::leave_to_threads(),
        // It may be one that does not load this library.
        (_, Descriptors::Ours) => pipes::enlarge_standard(),
    }
    is_better_off_as(kind, descriptors)
}

/// Whether a program of this kind is better off without the library.
fn is_better_off_as(kind: Kind, descriptors: Descriptors) -> bool {
    match kind {
        Kind::Foreign => true,
        // The library counts what it moves, has it flush, or moves the bytes itself.
        Kind::Leaf if wants_every_program() => false,
        Kind::Leaf if joined::is_wanted() => descriptors == Descriptors::Ours && !(0..2).any(tools::is_pipe),
        Kind::Leaf => true,
        Kind::Threaded | Kind::Other => false,
    }
}

/// Room for an environment with fewer entries. Taken after the program was looked at, so that the two need the same
/// stack: a forked child copies each page of it that it touches, and some children have only two.
struct Room {
    /// Filled as far as it is used: most of it would be written for nothing, in a child that shares its pages.
    entries: [MaybeUninit<*const c_char>; Room::ENTRIES],
}

impl Room {
    /// A larger environment is passed on as it is.
    const ENTRIES: usize = 256;

    fn new() -> Room {
        Room { entries: [MaybeUninit::uninit(); Room::ENTRIES] }
    }

    /// `environment`, or a copy of its list without our two entries for a program that is better off.
    ///
    /// # Safety
    /// `environment` is null or a null-terminated list of C strings; the result is used while it and `self` last.
    #[unsafe(link_section = ".text.hot.millstream")]
    unsafe fn environment(&mut self, is_better_off: bool, environment: Strings) -> Strings {
        if !is_better_off || environment.is_null() {
            return environment;
        }
        let mut kept = 0;
        for index in 0.. {
            // SAFETY: the list has not ended before this entry.
            let entry = unsafe { *environment.add(index) };
            let Some(place) = self.entries.get_mut(kept) else { return environment };
            if entry.is_null() {
                place.write(entry);
                break;
            }
            // SAFETY: an entry of the list is a C string.
            if !unsafe { is_ours(entry) } {
                place.write(entry);
                kept += 1;
            }
        }
        self.entries.as_ptr().cast()
    }
}

/// Whether an entry of the environment is one that `millstream run` made, without any addition.
///
/// # Safety
/// `entry` is a C string.
unsafe fn is_ours(entry: *const c_char) -> bool {
    // SAFETY: the caller's promise, and what remains of a C string is one.
    unsafe {
        rest_of(entry, settings::ENTRY).is_some()
            || rest_of(entry, b"LD_PRELOAD=").is_some_and(|libraries| is_our_library(libraries))
    }
}

/// # Safety
/// `libraries` is a C string.
#[unsafe(link_section = ".text.hot.millstream")]
unsafe fn is_our_library(libraries: *const c_char) -> bool {
    let mut name = libraries;
    for len in 0.. {
        // SAFETY: no byte before was zero; what is between two places in a string is in it.
        unsafe {
            let at = libraries.add(len);
            match at.cast::<u8>().read() {
                b':' | b' ' => return false,
                b'/' => name = at.add(1),
                0 => {
                    return settings::is_library(core::slice::from_raw_parts(
                        name.cast(),
                        at.offset_from_unsigned(name),
                    ));
                }
                _ => {}
            }
        }
    }
    false
}
