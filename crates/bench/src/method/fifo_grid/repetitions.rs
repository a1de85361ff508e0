//! What happens between the producer and the consumer of one launch.
//!
//! | pass | messages | consumer |
//! |---|---|---|
//! | first | as many as a repetition, at most 1000 | compares every byte |
//! | each repetition | the count | **is timed**; compares the stamp of each message, and the last one whole |
//! | last | one | compares every byte |
//!
//! Then the producer ends the stream, and the consumer must find it ended. A byte that is lost or doubled shifts every
//! stamp after it.

use std::io::Read;
use std::time::Duration;

use millstream_sys::clock;

use crate::engine::Launch;
use crate::method::baton::{Baton, SharedBaton};
use crate::method::messages::{Receiver, Sender};
use crate::transport::WriteEnd;

/// Enough to fill every pipe that is compared from its start to its end, or a few milliseconds.
const COMPARED_MESSAGES: u64 = 1000;

/// More than any repetition takes, with what is around it.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a launch repeats a cell: each repetition is a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repetitions {
    /// At most, from 1 to [`REPETITIONS_MAX`](super::REPETITIONS_MAX).
    pub most: usize,
    /// None but the first begins later than this after it, in milliseconds.
    pub milliseconds: u64,
}

impl Repetitions {
    /// Exactly so many.
    pub fn exactly(count: usize) -> Repetitions {
        Repetitions { most: count, milliseconds: u64::MAX / 1_000_000 }
    }

    /// How long a launch may take at most. One repetition may take all patience.
    pub(super) fn limit(self) -> Duration {
        PATIENCE.saturating_add(Duration::from_secs(self.most as u64))
    }
}

/// The producer's part: as many messages as the consumer asks for, until it asks for none.
pub(super) fn produce(end: Box<dyn WriteEnd>, mut baton: SharedBaton, size: usize) -> Result<(), String> {
    let mut sender = Sender::new(end, size);
    loop {
        match baton.await_go()? {
            0 => break,
            count => (0..count).try_for_each(|_| sender.send())?,
        }
    }
    sender.finish();
    Ok(())
}

/// The consumer's part; returns the microseconds of each repetition.
pub(super) fn consume(
    end: Box<dyn Read>,
    mut baton: SharedBaton,
    size: usize,
    count: u64,
    repetitions: Repetitions,
) -> Result<Launch, String> {
    let mut receiver = Receiver::new(end, size, size);
    compare(&mut receiver, &mut baton, size, count.min(COMPARED_MESSAGES))?;
    let budget_ns = repetitions.milliseconds.saturating_mul(1_000_000);
    let (begin, mut samples) = (clock::raw_nanoseconds(), Vec::with_capacity(repetitions.most));
    while samples.len() < repetitions.most && (samples.is_empty() || clock::raw_nanoseconds() - begin < budget_ns) {
        samples.push(time(&mut receiver, &mut baton, count)?);
    }
    compare(&mut receiver, &mut baton, size, 1)?;
    baton.go(0)?;
    receiver.expect_the_end()?;
    Ok(Launch { operations: count * samples.len() as u64, samples, ..Launch::default() })
}

/// Microseconds from letting the producer go to the last message.
fn time(receiver: &mut Receiver, baton: &mut SharedBaton, count: u64) -> Result<f64, String> {
    let start = baton.go(count)?;
    (0..count).try_for_each(|_| receiver.message())?;
    let nanoseconds = clock::raw_nanoseconds() - start;
    receiver.compare_body()?;
    Ok(nanoseconds.max(1) as f64 / 1e3)
}

fn compare(receiver: &mut Receiver, baton: &mut SharedBaton, size: usize, count: u64) -> Result<(), String> {
    baton.go(count)?;
    let wanted = receiver.bytes() + count * size as u64;
    while receiver.bytes() < wanted {
        if receiver.some_compared()? == 0 {
            return Err(format!("the stream ended after {} bytes", receiver.bytes()));
        }
    }
    match receiver.bytes() {
        seen if seen == wanted => Ok(()),
        seen => Err(format!("{seen} bytes came where {wanted} had been written")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::crew::{self, Post};
    use crate::engine::placement::Placement;
    use crate::method::messages::faulty::{Fault, Faulty, changed, doubled, killed, lost};
    use crate::transport::{Ends, Transport, kernel_pipe};

    const SIZE: usize = 64;
    const COUNT: u64 = 200;

    /// Two repetitions of 200 messages of 64 bytes, after 200 that are compared.
    fn launch(at: u64, fault: Fault) -> Result<Launch, String> {
        launch_within(Duration::from_secs(60), at, fault)
    }

    fn launch_within(limit: Duration, at: u64, fault: Fault) -> Result<Launch, String> {
        let Ends { writer, reader } = kernel_pipe::DEFAULT.connect(Placement::OneCpu)?;
        let baton = SharedBaton::new(Placement::OneCpu.idle()).unwrap();
        let cpu = Placement::OneCpu.cpus()?[0];
        let posts = [Post { name: "producer", cpu }, Post { name: "consumer", cpu }];
        crew::run_within(limit, &posts, move |index| match index {
            0 => {
                drop(reader);
                produce(Box::new(Faulty { inner: writer, at, fault, position: 0 }), baton, SIZE).map(|()| None)
            }
            _ => {
                drop(writer);
                consume(reader, baton, SIZE, COUNT, Repetitions::exactly(2)).map(Some)
            }
        })
    }

    const PASS_BYTES: u64 = SIZE as u64 * COUNT;

    #[test]
    fn a_stream_without_fault_gives_every_repetition() {
        let seen = launch(u64::MAX, changed).unwrap();
        assert_eq!((seen.samples.len(), seen.operations), (2, 2 * COUNT));
    }

    #[test]
    fn a_changed_byte_is_found_where_bytes_are_compared() {
        let last_body = 2 * PASS_BYTES - 3;
        for at in [0, 5000, PASS_BYTES + 64, last_body, 3 * PASS_BYTES + 40] {
            let why = launch(at, changed).unwrap_err();
            assert!(why.contains("the consumer: ") && why.contains("is wrong"), "{at}: {why}");
        }
    }

    #[test]
    fn a_doubled_byte_anywhere_is_found() {
        for at in [5000, PASS_BYTES + 5001, 3 * PASS_BYTES - 1] {
            let why = launch(at, doubled).unwrap_err();
            assert!(why.contains("is wrong") || why.contains("had been written"), "{at}: {why}");
        }
    }

    #[test]
    fn a_lost_byte_gives_no_figure() {
        for at in [5000, PASS_BYTES + 5001, 3 * PASS_BYTES - 1] {
            let why = launch_within(Duration::from_secs(3), at, lost).unwrap_err();
            assert!(why.contains("is wrong") || why.contains("said nothing"), "{at}: {why}");
        }
    }

    #[test]
    fn a_producer_that_dies_is_named() {
        let why = launch(PASS_BYTES + 1000, killed).unwrap_err();
        assert!(why.contains("the producer was killed by signal 9"), "{why}");
    }

    #[test]
    fn a_launch_that_has_no_time_still_gives_one_repetition() {
        assert!(Repetitions::exactly(20).limit() > PATIENCE);
        let cpu = Placement::OneCpu.cpus().unwrap()[0];
        let Ends { writer, reader } = kernel_pipe::DEFAULT.connect(Placement::OneCpu).unwrap();
        let baton = SharedBaton::new(Placement::OneCpu.idle()).unwrap();
        let posts = [Post { name: "producer", cpu }, Post { name: "consumer", cpu }];
        let seen = crew::run(&posts, move |index| match index {
            0 => produce(writer, baton, SIZE).map(|()| None),
            _ => {
                drop(writer);
                consume(reader, baton, SIZE, COUNT, Repetitions { most: 20, milliseconds: 0 }).map(Some)
            }
        });
        assert_eq!(seen.unwrap().samples.len(), 1);
    }
}
