//! Our own pipe, as a program that uses the library gets it.

use millstream_pipe::{Builder, WaitPolicy, Writer};

use super::{Ends, Transport, WriteEnd};
use crate::engine::placement::Placement;

/// A pipe whose ends wait in a certain way.
pub struct Millstream {
    name: &'static str,
    wait: WaitPolicy,
}

/// Nothing asked for.
pub static ADAPTIVE: Millstream = Millstream { name: "millstream", wait: WaitPolicy::Adaptive };

/// An end that has to wait sleeps at once: what a round trip costs without spinning.
pub static BLOCK: Millstream = Millstream { name: "millstream-block", wait: WaitPolicy::Block };

impl Transport for Millstream {
    fn name(&self) -> &'static str {
        self.name
    }

    fn connect(&self, _: Placement) -> Result<Ends, String> {
        let made = Builder::new().wait(self.wait).create();
        let (reader, writer) = made.map_err(|error| format!("cannot make a millstream pipe: {error}"))?;
        Ok(Ends { writer: Box::new(writer), reader: Box::new(reader) })
    }
}

impl WriteEnd for Writer {
    fn finish(self: Box<Self>) {}
}
