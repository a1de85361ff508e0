//! A view: how the bytes of a source are transformed on their way to a reader, and back from a writer.

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_net::{
    Call, InPlace, Input, Kind, Network, NetworkError, Options, Pull, Size, Stage, State, Work, check, run::Pour,
};
use millstream_transforms::ALL;

use crate::line::{self, SizeFrom, WriteNetwork, calls, network, stages};

/// Two networks, and what is known of them before a byte moves.
pub(crate) struct View {
    read: Network,
    /// `None`: the file cannot be written.
    write: Option<Network>,
    shape: Shape,
    size_from: SizeFrom,
    /// How long a command may hang.
    timeout: Option<Duration>,
    /// It shows the SHA-256 of what this one shows.
    digest_of: Option<Arc<View>>,
    /// What comes out is an archive, and its members are shown.
    is_archive: bool,
}

/// Bytes of a SHA-256 in hex, and the end of the line.
const DIGEST_BYTES: u64 = 65;

/// A transform in place.
pub(crate) struct Member {
    /// As it was written.
    pub(crate) text: String,
    pub(crate) transform: Box<dyn InPlace>,
}

/// What a read network does to offsets and sizes.
pub(crate) enum Shape {
    /// Every byte stays where it is and depends on nothing but itself and its place: any piece can be read and written.
    InPlace,
    /// A compressed format, and after it only transforms such as the above: read from any place that the format allows.
    Format(Format),
    /// As many bytes as these functions say, one after the other. Read from the beginning.
    Computed(Vec<fn(u64) -> u64>),
    /// The size is known at the end. Read from the beginning.
    Stream,
}

/// Compressed formats that are read from the middle, or that carry their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Gzip,
    Zstd,
    Xz,
    Lz4,
}

const FORMATS: [(&str, Format); 4] =
    [("gunzip", Format::Gzip), ("unzstd", Format::Zstd), ("unxz", Format::Xz), ("unlz4", Format::Lz4)];

/// Formats of which two files, one behind the other, are read as one: what reads them, and what writes them.
const CONCATENABLE: [(&str, &str); 3] = [("gunzip", "gzip"), ("unzstd", "zstd"), ("unxz", "xz")];

/// What one open file may use: the threads of a file system belong to all of its files.
const OPTIONS: Options = Options { memory: 64 << 20, threads: 1, timeout: None };

impl View {
    pub(crate) fn new(read: Network, write: WriteNetwork, size_from: SizeFrom) -> Result<View, String> {
        let write = match write {
            WriteNetwork::Inverse => inverse_of(&read)?,
            WriteNetwork::None => None,
            WriteNetwork::Given(network) => Some(network),
        };
        let mut shape = shape_of(&read)?;
        // What cannot be written back in place is written as a whole.
        if let (Shape::InPlace, Some(write)) = (&shape, &write)
            && !matches!(shape_of(write)?, Shape::InPlace)
        {
            shape = Shape::Computed(Vec::new());
        }
        Ok(View { read, write, shape, size_from, timeout: None, digest_of: None, is_archive: false })
    }

    /// The SHA-256 of what a view shows, as a line in hex. Its size is known before anything is read.
    pub(crate) fn digest_of(view: Arc<View>) -> View {
        View {
            read: view.read.clone(),
            write: None,
            shape: Shape::Computed(vec![|_| DIGEST_BYTES]),
            size_from: SizeFrom::Scan,
            timeout: view.timeout,
            digest_of: Some(view),
            is_archive: false,
        }
    }

    /// The same, as a directory of the members of what comes out.
    pub(crate) fn of_archive(self) -> View {
        View { is_archive: true, ..self }
    }

    pub(crate) fn is_archive(&self) -> bool {
        self.is_archive
    }

    /// The view whose digest it shows.
    pub(crate) fn is_digest_of(&self) -> Option<&Arc<View>> {
        self.digest_of.as_ref()
    }

    /// Whether a source of no bytes is a file of no bytes: a program has just made it, and written nothing. No format allows it.
    pub(crate) fn is_empty_when_source_is(&self) -> bool {
        self.can_be_written() || matches!(self.shape, Shape::Format(_))
    }

    /// The same with a limit on how long its commands may hang.
    pub(crate) fn limited(self, timeout: Option<Duration>) -> Result<View, String> {
        if timeout.is_some() && !self.has_command() {
            return Err("'timeout' is for commands, and neither 'read' nor 'write' has one ('exec', 'python')".into());
        }
        Ok(View { timeout, ..self })
    }

    /// Whether any of its networks runs a command.
    pub(crate) fn has_command(&self) -> bool {
        let is_command = |stage: &Stage| matches!(stage.kind, Kind::Exported(_));
        let has_one = |network: &Network| stages(network).is_ok_and(|stages| stages.iter().any(is_command));
        has_one(&self.read) || self.write.as_ref().is_some_and(has_one)
    }

    fn options(&self, threads: usize) -> Options {
        Options { threads, timeout: self.timeout, ..OPTIONS }
    }

    /// The same with a further stage between it and the programs.
    pub(crate) fn pushed(&self, stage: &str) -> Result<View, String> {
        if self.digest_of.is_some() {
            return Err("no stage can be pushed on a digest".into());
        }
        let stage = network(stage)?;
        let read = concatenated(&self.read, &stage)?;
        let undone = inverse_of(&stage)?;
        let write = match (undone, &self.write) {
            (Some(undone), Some(write)) => WriteNetwork::Given(concatenated(&undone, write)?),
            _ => WriteNetwork::None,
        };
        Ok(View { timeout: self.timeout, ..View::new(read, write, self.size_from)? })
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn size_from(&self) -> SizeFrom {
        self.size_from
    }

    pub(crate) fn can_be_written(&self) -> bool {
        self.write.is_some()
    }

    /// Whether new content can be written behind the old one, compressed by itself.
    pub(crate) fn is_concatenable(&self) -> bool {
        let alone = |network: &Network| match &network.nodes[..] {
            [_, node, _] => match &node.work {
                Work::Transform(call) => Some(call.clone()),
                _ => None,
            },
            _ => None,
        };
        let (Some(read), Some(write)) = (alone(&self.read), self.write.as_ref().and_then(alone)) else { return false };
        // The seekable format has one table at its end.
        let is_seekable = write.arguments.iter().any(|argument| argument == "-s");
        CONCATENABLE.contains(&(read.name.as_str(), write.name.as_str())) && !is_seekable
    }

    /// The transforms of the read network, all in place.
    pub(crate) fn readers(&self) -> Result<Vec<Member>, NetworkError> {
        in_place(&self.read)
    }

    /// The transforms of the write network, all in place.
    pub(crate) fn writers(&self) -> Result<Vec<Member>, NetworkError> {
        self.write.as_ref().map_or(Ok(Vec::new()), in_place)
    }

    /// The transforms of the read network behind the format, all in place.
    pub(crate) fn readers_behind_format(&self) -> Result<Vec<Member>, NetworkError> {
        let mut readers = Vec::new();
        for call in calls(&self.read).skip(1) {
            push_in_place(&mut readers, call)?;
        }
        Ok(readers)
    }

    /// The first transform of the read network alone, over an input that begins where the format can be read from.
    pub(crate) fn pull_format(&self, input: Input) -> Result<Pull, NetworkError> {
        let first = calls(&self.read).next().map(|call| Work::Transform(call.clone()).to_line()).unwrap_or_default();
        let network = Network::from_line(&first).map_err(|error| NetworkError::Invalid(error.to_string()))?;
        Pull::new(&network, ALL, &self.options(OPTIONS.threads), input)
    }

    /// The whole read network over an input.
    pub(crate) fn pull(&self, input: Input) -> Result<Pull, NetworkError> {
        Pull::new(&self.read, ALL, &self.options(OPTIONS.threads), input)
    }

    /// The write network, into an output.
    pub(crate) fn pour(&self, output: Arc<Mutex<dyn Write + Send>>) -> Result<Pour, NetworkError> {
        let write =
            self.write.as_ref().ok_or_else(|| NetworkError::Invalid("nothing is known that undoes it".into()))?;
        Pour::new(write, ALL, &self.options(Options::default().threads), output)
    }

    /// The read network as a line, by which views of one source are told apart.
    pub(crate) fn line(&self) -> String {
        match self.digest_of {
            Some(_) => format!("{} | digest", self.read),
            None => self.read.to_string(),
        }
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("read", &self.read.to_string()).finish_non_exhaustive()
    }
}

/// One network behind the other.
fn concatenated(first: &Network, second: &Network) -> Result<Network, String> {
    let lines = [first, second].map(|network| {
        let words = calls(network).map(|call| Work::Transform(call.clone()).to_line());
        words.collect::<Vec<_>>().join(" | ")
    });
    network(&lines.join(" | "))
}

/// What undoes a network; `None` if one of its transforms cannot be undone.
fn inverse_of(network: &Network) -> Result<Option<Network>, String> {
    let inverse = network.inverse(|call| {
        let (_, stage) = check::build(call, ALL).map_err(|error| error.to_string())?;
        stage.inverse.ok_or_else(String::new)
    });
    inverse.ok().map(|line| line::network(&line)).transpose()
}

fn shape_of(network: &Network) -> Result<Shape, String> {
    let stages = stages(network)?;
    let format = calls(network).next().and_then(|call| FORMATS.iter().find(|(name, _)| *name == call.name));
    let is_in_place = |stage: &Stage| match &stage.kind {
        Kind::InPlace(state, _) => *state != State::Stateful,
        Kind::Buffer(_) => true,
        _ => false,
    };
    if stages.iter().all(is_in_place) {
        return Ok(Shape::InPlace);
    }
    if let Some((_, format)) = format
        && stages.iter().skip(1).all(is_in_place)
    {
        return Ok(Shape::Format(*format));
    }
    let mut sizes = Vec::new();
    for stage in &stages {
        match stage.size {
            Size::Same => {}
            Size::Computed(size) => sizes.push(size),
            _ => return Ok(Shape::Stream),
        }
    }
    Ok(Shape::Computed(sizes))
}

fn in_place(network: &Network) -> Result<Vec<Member>, NetworkError> {
    let mut transforms = Vec::new();
    for call in calls(network) {
        push_in_place(&mut transforms, call)?;
    }
    Ok(transforms)
}

fn push_in_place(transforms: &mut Vec<Member>, call: &Call) -> Result<(), NetworkError> {
    let (_, stage) = check::build(call, ALL)?;
    match stage.kind {
        Kind::InPlace(_, transform) => {
            transforms.push(Member { text: Work::Transform(call.clone()).to_line(), transform });
        }
        // It holds nothing back where bytes are asked for.
        Kind::Buffer(_) => {}
        _ => unreachable!("the shape of the network says that it is in place"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(read: &str) -> View {
        View::new(network(read).unwrap(), WriteNetwork::Inverse, SizeFrom::Scan).unwrap()
    }

    #[test]
    fn shapes_follow_from_the_transforms() {
        assert!(matches!(view("rot13 | increment").shape(), Shape::InPlace));
        assert!(matches!(view("gunzip | rot13").shape(), Shape::Format(Format::Gzip)));
        assert!(matches!(view("unzstd").shape(), Shape::Format(Format::Zstd)));
        assert!(matches!(view("gunzip | grep x").shape(), Shape::Stream));
        assert!(matches!(view("hex").shape(), Shape::Computed(_)));
    }

    #[test]
    fn inverse_is_the_write_network_if_there_is_one() {
        assert!(view("gunzip | rot13").can_be_written());
        assert!(!view("upper").can_be_written());
        assert!(!view("gunzip | upper").can_be_written());
    }

    #[test]
    fn only_formats_that_concatenate_are_appended_to() {
        assert!(view("gunzip").is_concatenable() && view("unzstd").is_concatenable() && view("unxz").is_concatenable());
        assert!(!view("gunzip | rot13").is_concatenable());
        assert!(!view("unzlib").is_concatenable());
    }

    #[test]
    fn pushed_stages_stand_before_the_programs() {
        let pushed = view("gunzip").pushed("rot13").unwrap();
        assert_eq!(pushed.line(), "gunzip | rot13");
        assert_eq!(pushed.write.unwrap().to_string(), "rot13 | gzip");
        assert!(view("gunzip").pushed("upper").unwrap().write.is_none());
        assert!(view("gunzip").pushed("nothing").unwrap_err().contains("no transform"));
    }
}
