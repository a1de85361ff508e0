//! What the process that answers does when it is asked.

use crate::transport::Transport;

/// What both processes do before a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// They have just finished the one before.
    Running,
    /// The one that answers sleeps.
    Asleep,
}

impl Waiting {
    /// Both, in the order in which they are shown.
    pub const ALL: [Waiting; 2] = [Waiting::Running, Waiting::Asleep];

    /// The name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Waiting::Running => "running",
            Waiting::Asleep => "asleep",
        }
    }

    /// What never sleeps is not found asleep.
    pub(super) fn is_for(self, transport: &dyn Transport) -> bool {
        self == Waiting::Running || transport.sleeps()
    }
}
