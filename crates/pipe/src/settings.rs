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
mod value;

pub use file::{LIMIT_SUFFIX, Line, lines};
pub(crate) use in_force::{
    capacity, capacity_limit, capacity_max, direct, direct_min, loan_max, loan_max_within, pipes_max, user_loan_max,
    wait,
};
pub(crate) use sources::pipe_max_size;
pub use sources::{Entry, Limit, Report, SettingError, SettingErrorKind, Source, report, system_file, user_file};
pub use value::{Kind, ValueError, ValueErrorKind};

/// One row of the table.
#[derive(Debug)]
pub struct Setting {
    /// As it is written in files; in capitals after `MILLSTREAM_` in the environment.
    pub name: &'static str,
    /// Which values there are.
    pub kind: Kind,
    /// The value unless a source says otherwise: bytes, a count, or the place in the list of choices.
    pub default: u64,
    /// What it means, in one line.
    pub meaning: &'static str,
}

/// A setting, by its place in [`TABLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Name {
    /// Bytes that a new pipe holds.
    Capacity,
    /// Bytes to which a pipe can be enlarged.
    CapacityMax,
    /// Pipes with shared memory in one process.
    PipesMax,
    /// How ends wait.
    Wait,
    /// When a reader copies straight out of a writer's memory.
    Direct,
    /// What has to be left of a write for that to be thought of.
    DirectMin,
    /// Bytes that a process has in hand at once, in place, at one end of a pipe.
    LoanMax,
    /// Bytes that all processes of a user have.
    UserLoanMax,
}

/// Every setting.
pub const TABLE: [Setting; 8] = [
    Setting {
        name: "capacity",
        kind: Kind::PowerOfTwo { least: 4096, most: 1 << 30 },
        default: crate::DEFAULT_CAPACITY as u64,
        meaning: "bytes that a new pipe holds; above 512K no more than /proc/sys/fs/pipe-max-size allows this user",
    },
    Setting {
        name: "capacity_max",
        kind: Kind::PowerOfTwo { least: 4096, most: 1 << 30 },
        default: 1 << 20,
        meaning: "bytes to which a pipe can be enlarged later; addresses, which take memory only when used",
    },
    Setting {
        name: "pipes_max",
        kind: Kind::Count { least: 0, most: 1 << 20 },
        default: 1 << 20,
        meaning: "pipes with shared memory in one process; further ones are plain kernel pipes, with 0 all",
    },
    Setting {
        name: "wait",
        kind: Kind::Choice(&["adaptive", "spin", "block"]),
        default: 0,
        meaning: "how ends wait: look for as long as that pays and then sleep, never sleep, or sleep at once",
    },
    Setting {
        name: "direct",
        kind: Kind::Choice(&["adaptive", "never", "always"]),
        default: 0,
        meaning: "when a reader copies straight out of the memory of a writer that waits: where it was measured to pay, never, or always",
    },
    Setting {
        name: "direct_min",
        kind: Kind::Bytes { least: 4096, most: 1 << 30 },
        default: 128 << 10,
        meaning: "bytes that must be left of a write for that to pay; counts where direct is adaptive",
    },
    Setting {
        name: "loan_max",
        kind: Kind::Bytes { least: 0, most: 1 << 30 },
        default: 16 << 20,
        meaning: "bytes that one end of a pipe works on in place at once; what is more is copied, with 0 all",
    },
    Setting {
        name: "user_loan_max",
        kind: Kind::Bytes { least: 0, most: 1 << 40 },
        default: 1 << 30,
        meaning: "bytes of which all ends of a user together can work on so many in place; further ends copy",
    },
];

impl Name {
    /// Every setting, in the order of [`TABLE`].
    pub const ALL: [Name; TABLE.len()] = [
        Name::Capacity,
        Name::CapacityMax,
        Name::PipesMax,
        Name::Wait,
        Name::Direct,
        Name::DirectMin,
        Name::LoanMax,
        Name::UserLoanMax,
    ];

    /// Its row of the table.
    pub fn setting(self) -> &'static Setting {
        &TABLE[self as usize]
    }

    /// The setting that is written like this.
    pub fn of(text: &str) -> Option<Name> {
        Name::ALL.into_iter().find(|name| name.setting().name == text)
    }

    /// The variable of the environment that sets it.
    pub fn variable(self) -> String {
        format!("MILLSTREAM_{}", self.setting().name.to_ascii_uppercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_where_their_rows_are_and_defaults_are_values() {
        for (at, name) in Name::ALL.into_iter().enumerate() {
            let setting = name.setting();
            assert_eq!(name as usize, at);
            assert_eq!(Name::of(setting.name), Some(name));
            let shown = setting.kind.show(setting.default);
            assert_eq!(setting.kind.parse(&shown), Ok(setting.default), "{}", setting.name);
            assert!(setting.name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{}", setting.name);
        }
        assert_eq!(Name::of("Capacity"), None);
        assert_eq!(Name::CapacityMax.variable(), "MILLSTREAM_CAPACITY_MAX");
    }
}
