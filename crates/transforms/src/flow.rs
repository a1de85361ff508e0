//! The rate of a stream: transforms that limit it, smooth it or report it.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use millstream_net::{Data, Entry, InPlace, Next, Rewrite, Size, Stage, State, Step, TransformError};

use crate::arguments;
use crate::clock::{Clock, Monotonic};

/// `rate`
pub(crate) static RATE: Entry = Entry {
    name: "rate",
    usage: "rate BYTES, with K, M or G for 1024, 1024² or 1024³",
    summary: "at most so many bytes a second, in pieces of a twentieth of a second; what was not used is lost after a tenth",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        let bytes = arguments::size("BYTES", arguments::one("BYTES", arguments)?, 1, 1 << 50)?;
        Ok(Stage::rewrite(Size::Same, Rate::new(bytes, Monotonic::default())).with_inverse("identity"))
    },
};

/// Pieces of a second.
const PIECES: u64 = 20;

/// How much of a delay the stream may catch up.
const BACKLOG: Duration = Duration::from_millis(100);

struct Rate<C> {
    bytes_a_second: u64,
    clock: C,
    /// When the last byte that was passed on was due.
    due: Option<Duration>,
}

impl<C: Clock> Rate<C> {
    fn new(bytes_a_second: u64, clock: C) -> Rate<C> {
        Rate { bytes_a_second, clock, due: None }
    }

    /// Sleeps until `bytes` more may pass.
    fn await_turn(&mut self, bytes: usize) {
        let now = self.clock.now();
        let before = self.due.unwrap_or(now).max(now.saturating_sub(BACKLOG));
        let due = before + Duration::from_secs_f64(bytes as f64 / self.bytes_a_second as f64);
        if let Some(time) = due.checked_sub(now).filter(|time| !time.is_zero()) {
            self.clock.wait(time);
        }
        self.due = Some(due);
    }
}

impl<C: Clock> Rewrite for Rate<C> {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let most = usize::try_from(self.bytes_a_second / PIECES).unwrap_or(usize::MAX).max(1);
        let count = input.len().min(output.len()).min(most);
        if count > 0 {
            self.await_turn(count);
            output[..count].copy_from_slice(&input[..count]);
        }
        let next = if ends && count == input.len() { Next::Done } else { Next::More };
        Ok(Step { consumed: count, produced: count, next })
    }
}

/// `delay`
pub(crate) static DELAY: Entry = Entry {
    name: "delay",
    usage: "delay MILLISECONDS",
    summary: "waits before each piece of the stream, whose size is that of a buffer or of what was read",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        let milliseconds = arguments::number("MILLISECONDS", arguments::one("MILLISECONDS", arguments)?, 0, 3_600_000)?;
        let delay = Delay { time: Duration::from_millis(milliseconds), clock: Monotonic::default() };
        Ok(Stage::in_place(State::Stateful, delay).with_inverse("identity"))
    },
};

struct Delay<C> {
    time: Duration,
    clock: C,
}

impl<C: Clock> InPlace for Delay<C> {
    fn apply(&mut self, _offset: u64, _bytes: &mut [u8]) -> Result<(), TransformError> {
        self.clock.wait(self.time);
        Ok(())
    }
}

/// `buffer`
pub(crate) static BUFFER: Entry = Entry {
    name: "buffer",
    usage: "buffer SIZE, with K, M or G",
    summary: "keeps at most so much, so that what is above goes on while what is below is busy; in a thread of its own",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        let bytes = arguments::size("SIZE", arguments::one("SIZE", arguments)?, 1, 1 << 40)?;
        let bytes = usize::try_from(bytes).map_err(|_| "that is more than this machine can count")?;
        Ok(Stage::buffer(bytes).with_inverse("identity"))
    },
};

/// `progress`
pub(crate) static PROGRESS: Entry = Entry {
    name: "progress",
    usage: "progress [NAME]",
    summary: "tells on stderr how much has passed and how fast: on a terminal in one line, else every ten seconds, and at the end",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        let name = match arguments {
            [] => "progress",
            _ => arguments::one("NAME", arguments)?,
        };
        let is_terminal = std::io::stderr().is_terminal();
        let progress = Progress::new(name.into(), is_terminal, Monotonic::default(), std::io::stderr());
        Ok(Stage::in_place(State::Stateful, progress).with_inverse("identity"))
    },
};

struct Progress<C, W> {
    name: String,
    is_terminal: bool,
    clock: C,
    out: W,
    bytes: u64,
    /// When the first byte came, and when the last report was written.
    times: Option<(Duration, Duration)>,
}

impl<C: Clock, W: Write + Send> Progress<C, W> {
    fn new(name: String, is_terminal: bool, clock: C, out: W) -> Progress<C, W> {
        Progress { name, is_terminal, clock, out, bytes: 0, times: None }
    }

    fn tell(&mut self, is_last: bool) {
        let now = self.clock.now();
        let seconds = (now - self.times.map_or(now, |(first, _)| first)).as_secs_f64();
        let rate = if seconds > 0.0 { self.bytes as f64 / seconds / 1e6 } else { 0.0 };
        let (before, after) = match (self.is_terminal, is_last) {
            (true, false) => ("\r\x1b[K", ""),
            (true, true) => ("\r\x1b[K", "\n"),
            (false, _) => ("", "\n"),
        };
        let line = format!("{before}{}: {} bytes in {seconds:.1} s, {rate:.1} MB/s{after}", self.name, self.bytes);
        // A terminal that is gone ends the reports, not the network.
        let _ = self.out.write_all(line.as_bytes()).and_then(|()| self.out.flush());
    }
}

impl<C: Clock, W: Write + Send> InPlace for Progress<C, W> {
    fn apply(&mut self, _offset: u64, bytes: &mut [u8]) -> Result<(), TransformError> {
        self.bytes += bytes.len() as u64;
        let now = self.clock.now();
        let (first, last) = self.times.unwrap_or((now, now));
        let pause = if self.is_terminal { Duration::from_millis(200) } else { Duration::from_secs(10) };
        let is_due = now - last >= pause;
        self.times = Some((first, if is_due { now } else { last }));
        if is_due {
            self.tell(false);
        }
        Ok(())
    }

    fn finish_early(&mut self) -> Result<(), TransformError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), TransformError> {
        self.tell(true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::tests::Virtual;
    use std::sync::{Arc, Mutex};

    /// Passes bytes, checks that all come out, and returns the number of pieces.
    fn pass(rate: &mut Rate<Virtual>, bytes: usize) -> usize {
        let (input, mut output) = (vec![7; bytes], vec![0; 4096]);
        let (mut consumed, mut pieces) = (0, 0);
        while consumed < bytes {
            let step = rate.step(&input[consumed..], &mut output, false).unwrap();
            assert!(step.consumed == step.produced && step.consumed > 0);
            (consumed, pieces) = (consumed + step.consumed, pieces + 1);
        }
        pieces
    }

    #[test]
    fn a_rate_takes_as_long_as_its_bytes_and_waits_for_each_piece() {
        let clock = Virtual::default();
        let mut rate = Rate::new(1000, clock.clone());
        assert_eq!(pass(&mut rate, 3000), 60, "pieces of 50 bytes");
        assert_eq!(clock.now().as_millis(), 3000);
        assert_eq!(clock.0.lock().unwrap().1, [Duration::from_millis(50); 60]);
    }

    #[test]
    fn rate_may_be_one_byte_a_second_or_more_than_any_machine_has() {
        let clock = Virtual::default();
        assert_eq!(pass(&mut Rate::new(1, clock.clone()), 3), 3);
        assert_eq!(clock.now().as_secs(), 3);
        let clock = Virtual::default();
        assert_eq!(pass(&mut Rate::new(1 << 50, clock.clone()), 100_000), 25, "buffers");
        assert!(clock.now() < Duration::from_millis(1));
    }

    #[test]
    fn a_stream_that_was_late_catches_up_a_tenth_of_a_second_only() {
        let clock = Virtual::default();
        let mut rate = Rate::new(1000, clock.clone());
        pass(&mut rate, 100);
        clock.pass(Duration::from_secs(50));
        let before = clock.now();
        pass(&mut rate, 1000);
        assert_eq!((clock.now() - before).as_millis(), 900);
    }

    #[test]
    fn a_delay_waits_once_for_each_piece() {
        let clock = Virtual::default();
        let mut delay = Delay { time: Duration::from_millis(30), clock: clock.clone() };
        (0..3).for_each(|_| delay.apply(0, &mut [0; 10]).unwrap());
        assert_eq!(clock.0.lock().unwrap().1, [Duration::from_millis(30); 3]);
    }

    #[derive(Clone, Default)]
    struct Said(Arc<Mutex<Vec<u8>>>);

    impl Write for Said {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// A piece of 1000 bytes each tenth of a second for so many seconds.
    fn told(is_terminal: bool, seconds: u64) -> String {
        let (clock, said) = (Virtual::default(), Said::default());
        let mut progress = Progress::new("copy".into(), is_terminal, clock.clone(), said.clone());
        for piece in 0..=10 * seconds {
            if piece > 0 {
                clock.pass(Duration::from_millis(100));
            }
            progress.apply(0, &mut [0; 1000]).unwrap();
        }
        progress.finish().unwrap();
        let said = said.0.lock().unwrap();
        String::from_utf8(said.clone()).unwrap()
    }

    #[test]
    fn progress_is_a_line_for_ten_seconds_and_one_at_the_end() {
        let said = told(false, 25);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(
            lines,
            [
                "copy: 101000 bytes in 10.0 s, 0.0 MB/s",
                "copy: 201000 bytes in 20.0 s, 0.0 MB/s",
                "copy: 251000 bytes in 25.0 s, 0.0 MB/s"
            ]
        );
    }

    #[test]
    fn on_a_terminal_it_is_one_line_drawn_again() {
        let said = told(true, 2);
        assert_eq!((said.matches('\r').count(), said.matches('\n').count()), (11, 1), "{said:?}");
        assert!(said.ends_with("copy: 21000 bytes in 2.0 s, 0.0 MB/s\n"), "{said:?}");
    }
}
