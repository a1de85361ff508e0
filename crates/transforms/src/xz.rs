//! xz.

use liblzma::stream::{Action, CONCATENATED, Check, Error, Status, Stream};
use millstream_net::{Data, Entry, Next, Rewrite, Size, Stage, Step, TransformError};

use crate::arguments;

/// The most memory that a stream may demand of its decoder: `xz -9` needs 65 MiB.
const MEMORY: u64 = 128 << 20;

/// `xz`
pub(crate) static XZ: Entry = Entry {
    name: "xz",
    usage: "xz [-0 ... -9]",
    summary: "compressed, as xz(1) does; -6 unless given",
    takes: Data::Any,
    gives: Data::Format("xz"),
    build: |arguments| {
        let level = arguments::level(arguments, 0, 9, 6)?;
        let stream = Stream::new_easy_encoder(level.unsigned_abs(), Check::Crc64);
        let stream = stream.map_err(|error| format!("xz cannot begin: {error}"))?;
        Ok(Stage::rewrite(Size::Unknown, Xz(stream)).with_inverse("unxz"))
    },
};

/// `unxz`
pub(crate) static UNXZ: Entry = Entry {
    name: "unxz",
    usage: "unxz",
    summary: "what was compressed with xz, also in several parts; at most 128 MiB of memory",
    takes: Data::Format("xz"),
    gives: Data::Any,
    build: |arguments| {
        arguments::none(arguments)?;
        let stream = Stream::new_stream_decoder(MEMORY, CONCATENATED);
        let stream = stream.map_err(|error| format!("xz cannot begin: {error}"))?;
        Ok(Stage::rewrite(Size::Unknown, Xz(stream)).with_inverse("xz"))
    },
};

struct Xz(Stream);

impl Rewrite for Xz {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        if input.is_empty() && !ends {
            return Ok(Step { consumed: 0, produced: 0, next: Next::More });
        }
        let (read, written) = (self.0.total_in(), self.0.total_out());
        let outcome = self.0.process(input, output, if ends { Action::Finish } else { Action::Run });
        let [consumed, produced] = [self.0.total_in() - read, self.0.total_out() - written].map(|count| count as usize);
        let fault = |what: String| Err(TransformError::new(what).after(consumed));
        match outcome {
            Ok(Status::StreamEnd) => Ok(Step { consumed, produced, next: Next::Done }),
            Ok(_) if consumed > 0 || produced > 0 => Ok(Step { consumed, produced, next: Next::More }),
            Ok(_) if ends && self.0.total_in() == 0 => fault("the xz stream is empty".into()),
            Ok(_) | Err(Error::NoCheck) if ends => fault("the xz stream ends too early: the file is truncated".into()),
            Ok(_) => Ok(Step { consumed, produced, next: Next::More }),
            Err(Error::MemLimit) => fault(format!("the xz stream asks for more than {MEMORY} bytes of memory")),
            Err(error) => fault(format!("the xz stream is corrupt: {error}")),
        }
    }
}
