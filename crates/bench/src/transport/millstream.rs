//! Our own pipe, as a program that uses the library gets it.

use millstream_pipe::{Builder, DirectPolicy, WaitPolicy, Writer};

use super::ends::{Ends, Transport, WriteEnd};
use crate::engine::placement::Placement;

/// A pipe whose ends wait, and move bytes, in a certain way.
pub struct Millstream {
    name: &'static str,
    wait: WaitPolicy,
    direct: DirectPolicy,
}

const USUAL: Millstream = Millstream { name: "millstream", wait: WaitPolicy::Adaptive, direct: DirectPolicy::Adaptive };

/// Nothing asked for.
pub static ADAPTIVE: Millstream = USUAL;

/// Through the ring whatever happens.
pub static RING: Millstream = Millstream { name: "millstream-ring", direct: DirectPolicy::Never, ..USUAL };

/// Straight out of the writer's memory whenever it has to wait.
pub static DIRECT: Millstream = Millstream { name: "millstream-direct", direct: DirectPolicy::Always, ..USUAL };

/// An end that has to wait sleeps at once: what a round trip costs without spinning.
pub static BLOCK: Millstream = Millstream { name: "millstream-block", wait: WaitPolicy::Block, ..USUAL };

impl Transport for Millstream {
    fn name(&self) -> &'static str {
        self.name
    }

    fn connect(&self, _: Placement) -> Result<Ends, String> {
        let made = Builder::new().wait(self.wait).direct(self.direct).create();
        let (reader, writer) = made.map_err(|error| format!("cannot make a millstream pipe: {error}"))?;
        Ok(Ends { writer: Box::new(writer), reader: Box::new(reader) })
    }
}

impl WriteEnd for Writer {
    fn finish(self: Box<Self>) {}
}
