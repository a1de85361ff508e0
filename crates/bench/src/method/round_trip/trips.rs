//! What the two processes of one sample do.

use std::io::Read;
use std::time::Duration;

use millstream_sys::clock;

use super::sleeper::{Sleeper, times_slept};
use super::waiting::Waiting;
use crate::engine::Launch;
use crate::engine::statistics::median;
use crate::random::Random;
use crate::transport::{Buffers, WriteEnd};

/// Round trips before the first that counts, while running.
const WARM_UP_TRIPS: usize = 200;

/// How long a sample takes while running, about: long against an interrupt.
const RUNNING_NS: f64 = 10e6;

/// Bounds on the round trips of a sample while running.
const RUNNING_TRIPS: std::ops::RangeInclusive<usize> = 100..=10_000;

/// Round trips of a sample from sleep, and how many of them go before those that count.
const ASLEEP_TRIPS: usize = 45;
const ASLEEP_WARM_UP_TRIPS: usize = 4;

/// The pause before a round trip from sleep, drawn anew each time so that it does not keep step with a timer: more than
/// any end spins, less than it takes a CPU to fall into its deepest sleep.
const PAUSE_US: std::ops::Range<usize> = 300..1000;

/// Pauses until the other sleeps, at most: about two seconds, in which it has had a CPU however busy the machine is.
const PAUSES_MAX: usize = 3000;

/// The part of the process that asks; returns the microseconds of a round trip.
///
/// Running: the mean of one uninterrupted series, since reading the clock takes as long as a short trip. The disturbed
/// series of the odd interrupt is left to the median over the samples. Asleep: the median of trips that were each
/// timed, where reading the clock does not count and a late timer would pull a mean.
pub(super) fn ask(
    there: Box<dyn WriteEnd>,
    back: Box<dyn Read>,
    waiting: Waiting,
    answerer: &Sleeper,
) -> Result<Launch, String> {
    let letters = Buffers::of(&*there, 1);
    let mut asker = Asker { there, back, letters, sent: 0 };
    let launch = match waiting {
        Waiting::Running => asker.running()?,
        Waiting::Asleep => asker.asleep(answerer)?,
    };
    asker.finish()?;
    Ok(launch)
}

struct Asker {
    there: Box<dyn WriteEnd>,
    back: Box<dyn Read>,
    letters: Buffers,
    sent: u8,
}

impl Asker {
    fn running(&mut self) -> Result<Launch, String> {
        let estimate = self.series(WARM_UP_TRIPS)?;
        let trips = (RUNNING_NS / estimate) as usize;
        let nanoseconds = self.series(trips.clamp(*RUNNING_TRIPS.start(), *RUNNING_TRIPS.end()))?;
        Ok(Launch { warmup: vec![estimate / 1e3], ..Launch::of(nanoseconds / 1e3) })
    }

    fn asleep(&mut self, answerer: &Sleeper) -> Result<Launch, String> {
        let mut random = Random(clock::raw_nanoseconds());
        let mut microseconds = Vec::with_capacity(ASLEEP_TRIPS);
        for _ in 0..ASLEEP_TRIPS {
            let is_asleep = (0..PAUSES_MAX).any(|_| {
                let pause = PAUSE_US.start + random.below(PAUSE_US.len());
                std::thread::sleep(Duration::from_micros(pause as u64));
                answerer.is_asleep()
            });
            if !is_asleep {
                return Err("the other process does not fall asleep".into());
            }
            microseconds.push(self.series(1)? / 1e3);
        }
        let (warmup, timed) = microseconds.split_at(ASLEEP_WARM_UP_TRIPS);
        Ok(Launch { warmup: warmup.to_vec(), ..Launch::of(median(timed)) })
    }

    /// Nanoseconds for each of `trips`, one after the other.
    fn series(&mut self, trips: usize) -> Result<f64, String> {
        let start = clock::raw_nanoseconds();
        for _ in 0..trips {
            self.trip()?;
        }
        Ok((clock::raw_nanoseconds() - start).max(1) as f64 / trips as f64)
    }

    fn trip(&mut self) -> Result<(), String> {
        self.sent = self.sent.wrapping_add(1);
        let mut seen = [0];
        let letter = self.letters.next();
        letter.fill(self.sent);
        self.there.write_all(letter).map_err(|error| format!("cannot ask: {error}"))?;
        self.back.read_exact(&mut seen).map_err(|error| format!("no answer: {error}"))?;
        match seen[0] == answer_to(self.sent) {
            true => Ok(()),
            false => Err(format!("{} was answered with {} instead of {}", self.sent, seen[0], answer_to(self.sent))),
        }
    }

    fn finish(mut self) -> Result<(), String> {
        self.there.finish();
        match self.back.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err("an answer came to no question".into()),
            Err(error) => Err(format!("cannot read the end: {error}")),
        }
    }
}

/// The part of the process that answers, until the other ends it.
pub(super) fn answer(
    mut there: Box<dyn Read>,
    mut back: Box<dyn WriteEnd>,
    waiting: Waiting,
    answerer: &Sleeper,
) -> Result<(), String> {
    answerer.is_here();
    let slept_before = times_slept()?;
    let mut trips = 0;
    let (mut asked, mut letters) = ([0], Buffers::of(&*back, 1));
    while there.read(&mut asked).map_err(|error| format!("cannot hear: {error}"))? > 0 {
        let letter = letters.next();
        letter.fill(answer_to(asked[0]));
        back.write_all(letter).map_err(|error| format!("cannot answer: {error}"))?;
        trips += 1;
    }
    back.finish();
    let slept = times_slept()? - slept_before;
    match waiting {
        Waiting::Asleep if slept < trips => Err(format!("it slept only {slept} times in {trips} round trips")),
        _ => Ok(()),
    }
}

/// Not the question itself, so that nothing that reflects bytes passes for an answer.
fn answer_to(asked: u8) -> u8 {
    !asked
}
