//! Has it storm on a FIFO. `make storm` runs it; the options help to find the cause of a failure.

use std::process::ExitCode;
use std::time::Duration;

use millstream_conformance::seed::seed;
use millstream_conformance::storm::{self, Mistake, Storm};

const USAGE: &str = "\
usage: millstream-storm [--seconds N] [--seed N] [--side N] [--plain PERCENT]
                        [--kill never] [--plant KIND]

  --seconds N      how long processes come and go [120]
  --seed N         what happens follows from it [MILLSTREAM_SEED, or another each time]
  --side N         so many writers and so many readers at a time [64]
  --plain PERCENT  of them plain programs; if not given, now more and now fewer
  --kill never     kills no process; otherwise now more often and now less
  --plant KIND     makes a mistake: lost, doubled, swapped, torn, left

Exit status: 0 if every record was accounted for and nothing is left, 1 if not, 2 for wrong use.";

fn main() -> ExitCode {
    let storm = match parse(std::env::args().skip(1)) {
        Ok(storm) => storm,
        Err(what) => {
            eprintln!("millstream-storm: {what}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    println!(
        "storm: seed {}, {} writers and {} readers, {} s",
        storm.seed,
        storm.side,
        storm.side,
        storm.time.as_secs()
    );
    if storm::run(&storm) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Storm, String> {
    let time = Duration::from_secs(120);
    let mut storm = Storm { seed: 0, time, side: 64, plain_percent: None, kills: true, mistake: None };
    let mut given_seed = None;
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{option}: what to do is missing"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{option}: {value} is no number"));
        match &*option {
            "--seconds" => storm.time = Duration::from_secs(number()?),
            "--seed" => given_seed = Some(number()?),
            "--side" => storm.side = number()?.clamp(1, 1000) as usize,
            "--plain" => storm.plain_percent = Some(number()?.min(100) as usize),
            "--kill" if value == "never" => storm.kills = false,
            "--kill" => return Err(format!("--kill: {value} is not `never`")),
            "--plant" => storm.mistake = Some(mistake(&value)?),
            _ => return Err(format!("{option}: there is no such option")),
        }
    }
    storm.seed = given_seed.unwrap_or_else(seed);
    Ok(storm)
}

fn mistake(text: &str) -> Result<Mistake, String> {
    Ok(match text {
        "lost" => Mistake::Lost,
        "doubled" => Mistake::Doubled,
        "swapped" => Mistake::Swapped,
        "torn" => Mistake::Torn,
        "left" => Mistake::Left,
        _ => return Err(format!("--plant: {text} is none of lost, doubled, swapped, torn, left")),
    })
}
