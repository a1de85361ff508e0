//! Where the two ends of a pipe run. It moves results more than anything else does.

use millstream_sys::cpu;

/// Where the two ends run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Both on one CPU.
    OneCpu,
    /// Each on its own.
    TwoCpus,
}

impl Placement {
    /// Both, in the order in which they are shown.
    pub const ALL: [Placement; 2] = [Placement::TwoCpus, Placement::OneCpu];

    /// The name in options and results.
    pub const fn name(self) -> &'static str {
        match self {
            Placement::OneCpu => "1cpu",
            Placement::TwoCpus => "2cpu",
        }
    }

    /// The name in sentences.
    pub const fn title(self) -> &'static str {
        match self {
            Placement::OneCpu => "both ends on one CPU",
            Placement::TwoCpus => "each end on its own CPU",
        }
    }

    /// A CPU for each end, of those that this process may use.
    ///
    /// # Errors
    /// A sentence: there are not enough.
    pub fn cpus(self) -> Result<[usize; 2], String> {
        let allowed = cpu::allowed().map_err(|error| format!("cannot ask which CPUs are allowed: {error}"))?;
        match (self, allowed.as_slice()) {
            (Placement::OneCpu, [first, ..]) => Ok([*first, *first]),
            (Placement::TwoCpus, [first, second, ..]) => Ok([*first, *second]),
            _ => Err("this process may use only one CPU".into()),
        }
    }

    /// What an end that never sleeps does while it waits for the other.
    pub fn idle(self) -> fn() {
        match self {
            Placement::OneCpu => cpu::give_way,
            Placement::TwoCpus => std::hint::spin_loop,
        }
    }
}
