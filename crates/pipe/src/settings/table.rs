//! The table: every setting with its values, its default and what it means.

use super::value::Kind;

/// Bytes that a pipe holds unless the program or the [`settings`](crate::settings) say otherwise. On the one machine
/// that was measured, larger rings gained nothing with both ends on one CPU and little on two. One of 64 KiB makes both sides
/// wait more often, and moved 38 to 83 % as much on one CPU. `docs/pipe.md` has the figures.
pub const DEFAULT_CAPACITY: usize = 512 << 10;

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
        default: DEFAULT_CAPACITY as u64,
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
