//! What can be chosen about pipes without changing a program: one table, and what is in force of it.
//!
//! In rising order of precedence a value comes from
//!
//! 1. the default in [`TABLE`],
//! 2. the system's file, `/etc/millstream.conf`,
//! 3. the user's file, `$XDG_CONFIG_HOME/millstream/millstream.conf` or else `~/.config/millstream/millstream.conf`,
//! 4. the environment, `MILLSTREAM_CAPACITY` for the setting `capacity`,
//! 5. the program itself, by what it says to [`Builder`](crate::Builder).
//!
//! A line `NAME.limit = VALUE` in the system's file is the most that any of them can have. A program that runs with
//! more rights than its user (set-user-id, capabilities) looks at neither the user's file nor the environment.
//!
//! The files count only with the feature `settings-files`, which the programs of millstream and its packages for C and
//! Python have: a library reads nothing that the programmer did not ask for.
//!
//! Files and environment are read once for each process, when it makes or takes its first pipe. What cannot be used
//! in them never fails a pipe: the next source in order counts, and [`report`] says what is wrong. `docs/settings.md`
//! is for administrators and users that set them.
//!
//! ```
//! use millstream_pipe::settings::{self, Name};
//!
//! let report = settings::report();
//! let capacity = report.entry(Name::Capacity);
//! println!("{} = {}, from {}", capacity.name.setting().name, capacity.shown(), capacity.source);
//! assert!(capacity.value >= 4096);
//! ```

mod file;
mod in_force;
mod sources;
pub(crate) mod table;
mod value;

pub use file::{LIMIT_SUFFIX, Line, lines};
pub(crate) use in_force::{
    capacity, capacity_limit, capacity_max, direct, direct_min, loan_max, loan_max_within, pipes_max, user_loan_max,
    wait,
};
pub(crate) use sources::pipe_max_size;
pub use sources::{Entry, Limit, Report, SettingError, SettingErrorKind, Source, report, system_file, user_file};
pub use table::{Name, Setting, TABLE};
pub use value::{Kind, ValueError, ValueErrorKind};
