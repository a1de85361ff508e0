//! `execve` and its relatives: as ever, but a program that has no use for this library, or whose loader cannot use it,
//! is started without it.
//!
//! Loading the library costs a program 20 us, looking at its file 5 us. Shell scripts are mostly made of programs that
//! neither make pipes nor start others. What is taken out of the environment is exactly what `millstream run` put
//! there, and only if nobody added to it. Wrong guesses do no harm: a program without the library has ordinary pipes.
//!
//! `execl` and its kind have a variable number of arguments and go to glibc directly, as does what glibc starts itself;
//! there the environment stays whole.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;

use millstream_sys::executable::{self, Kind};
use millstream_sys::{raw, settings};

use crate::descriptor::borrow;
use crate::glibc::{self, Behind};
use crate::start::value_of;

type Strings = *const *const c_char;

static EXECVPE: Behind = Behind::new(c"execvpe");
static FEXECVE: Behind = Behind::new(c"fexecve");
static POSIX_SPAWN: Behind = Behind::new(c"posix_spawn");
static POSIX_SPAWNP: Behind = Behind::new(c"posix_spawnp");

/// Finds the functions behind, see [`Behind::find`].
pub(crate) fn start() {
    for behind in [&EXECVPE, &FEXECVE, &POSIX_SPAWN, &POSIX_SPAWNP] {
        behind.prepare();
    }
}

/// `execve(2)`.
///
/// # Safety
/// As for `execve(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    // The guards of joined pipes stand in glibc's function, which this one does not call.
    #[cfg(all(feature = "ring", target_arch = "x86_64"))]
    if !crate::joined::leave() {
        return glibc::returned(Err(millstream_sys::Errno::MFILE));
    }
    // SAFETY: the caller's promises are the same.
    unsafe {
        let kind = executable::look_at_raw_path(path);
        let mut room = Room::new();
        let environment = room.environment_for(kind, environment);
        glibc::returned(raw::execve(path, arguments, environment))
    }
}

/// `execv(3)`.
///
/// # Safety
/// As for `execv(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the caller's promises are the same; the environment is the program's.
    unsafe { execve(path, arguments, glibc::environment()) }
}

/// `execvp(3)`.
///
/// # Safety
/// As for `execvp(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(name: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the caller's promises are the same; the environment is the program's.
    unsafe { execvpe(name, arguments, glibc::environment()) }
}

/// `execvpe(3)`.
///
/// # Safety
/// As for `execvpe(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(name: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    // SAFETY: the signature is that of glibc's function, and the caller's promises are the same.
    unsafe {
        let behind: unsafe extern "C" fn(*const c_char, Strings, Strings) -> c_int = EXECVPE.function();
        let kind = kind_in_path(name);
        let mut room = Room::new();
        behind(name, arguments, room.environment_for(kind, environment))
    }
}

/// `fexecve(3)`.
///
/// # Safety
/// As for `fexecve(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int {
    let kind = borrow(&fd).map_or(Kind::Other, executable::look);
    // SAFETY: the signature is that of glibc's function, and the caller's promises are the same.
    unsafe {
        let behind: unsafe extern "C" fn(c_int, Strings, Strings) -> c_int = FEXECVE.function();
        let mut room = Room::new();
        behind(fd, arguments, room.environment_for(kind, environment))
    }
}

/// The type of `posix_spawn` and `posix_spawnp`.
type Spawn = unsafe extern "C" fn(*mut c_int, *const c_char, *const c_void, *const c_void, Strings, Strings) -> c_int;

/// `posix_spawn(3)`.
///
/// # Safety
/// As for `posix_spawn(3)`.
#[unsafe(no_mangle)]
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
        let kind = beside_pipes_of_its_own(executable::look_at_raw_path(path), actions);
        let mut room = Room::new();
        let environment = room.environment_for(kind, environment);
        POSIX_SPAWN.function::<Spawn>()(pid, path, actions, attributes, arguments, environment)
    }
}

/// `posix_spawnp(3)`.
///
/// # Safety
/// As for `posix_spawnp(3)`.
#[unsafe(no_mangle)]
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
        let kind = beside_pipes_of_its_own(kind_in_path(name), actions);
        let mut room = Room::new();
        let environment = room.environment_for(kind, environment);
        POSIX_SPAWNP.function::<Spawn>()(pid, name, actions, attributes, arguments, environment)
    }
}

/// A program that is started with other descriptors than this process has may get pipes, whatever stands here now.
///
/// # Safety
/// `actions` is null or what `posix_spawn_file_actions_init(3)` has made.
unsafe fn beside_pipes_of_its_own(kind: Kind, actions: *const c_void) -> Kind {
    /// In `posix_spawn_file_actions_t`, in words: how many there are.
    const USED: usize = 1;
    // SAFETY: the caller's promise.
    let has_some = !actions.is_null() && unsafe { actions.cast::<c_int>().add(USED).read() } != 0;
    if cfg!(feature = "ring") && has_some && kind == Kind::Leaf { Kind::Other } else { kind }
}

/// The first file called `name` in the directories of PATH, as `execvp` finds it.
///
/// # Safety
/// `name` is null or a C string.
unsafe fn kind_in_path(name: *const c_char) -> Kind {
    if name.is_null() {
        return Kind::Other;
    }
    // SAFETY: by the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    if name.to_bytes().contains(&b'/') {
        return executable::look_at_path(name);
    }
    // SAFETY: a C string in, null or a C string out.
    let path = unsafe { glibc::getenv(c"PATH".as_ptr()) };
    if path.is_null() {
        return Kind::Other;
    }
    // SAFETY: an entry of the environment.
    executable::look_in_path(unsafe { CStr::from_ptr(path) }, name)
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

    /// `environment`, or a copy of its list without our two entries if a program of this kind is better off.
    ///
    /// # Safety
    /// `environment` is null or a null-terminated list of C strings; the result is used while it and `self` last.
    unsafe fn environment_for(&mut self, kind: Kind, environment: Strings) -> Strings {
        let is_better_off = match kind {
            Kind::Foreign => true,
            // What it moves is to be counted, or to be moved by us.
            Kind::Leaf => cfg!(not(feature = "count")) && !is_beside_a_pipe(),
            Kind::Other => false,
        };
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

/// Whether what a program does with its standard input or output may concern us. All that will ever come through a pipe that nobody
/// writes to any more is in it: the text that a shell gives to a program, a line that `echo` has left.
fn is_beside_a_pipe() -> bool {
    #[cfg(all(feature = "ring", target_arch = "x86_64"))]
    return (0..2).any(|fd| {
        borrow(&fd).is_some_and(|end| millstream_sys::pipe::capacity(end).is_ok()) && crate::joined::may_be_in_use(fd)
    });
    #[cfg(not(all(feature = "ring", target_arch = "x86_64")))]
    false
}

/// Whether an entry of the environment is one that `millstream run` made, and nobody's addition is in it.
///
/// # Safety
/// `entry` is a C string.
unsafe fn is_ours(entry: *const c_char) -> bool {
    // SAFETY: the caller's promise.
    let value = |name| unsafe { value_of(name, entry) };
    value(settings::VARIABLE).is_some()
        || value("LD_PRELOAD").is_some_and(|libraries| {
            let libraries = libraries.to_bytes();
            let is_one = !libraries.iter().any(|&byte| byte == b':' || byte == b' ');
            is_one && settings::is_library(libraries)
        })
}
