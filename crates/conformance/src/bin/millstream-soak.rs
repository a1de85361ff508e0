//! Soaks millstream's pipe. `make soak` runs it; the options help to find the cause of a failure.

use std::process::ExitCode;
use std::time::Duration;

use millstream_conformance::seed::seed;
use millstream_conformance::soak::{self, Fault, FaultKind, Soak};

const USAGE: &str = "\
usage: millstream-soak [--seconds N] [--lanes N] [--seed N] [--lives N] [--plan] [--plant KIND:EVERY]

  --seconds N          no life begins after that [600]
  --lanes N            how many at once [3]
  --seed N             the number of the first life [MILLSTREAM_SEED, or another each time]
  --lives N            at most so many lives in each lane
  --plan               shows what is to happen in these lives, and does nothing
  --plant KIND:EVERY   has writers make a mistake, lost, doubled or swapped, every so many bytes

Exit status: 0 if every byte was accounted for, 1 if not, 2 for wrong use.";

fn main() -> ExitCode {
    let (soak, is_shown_only) = match parse(std::env::args().skip(1)) {
        Ok(parsed) => parsed,
        Err(what) => {
            eprintln!("millstream-soak: {what}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if is_shown_only {
        print!("{}", soak::told(&soak));
        return ExitCode::SUCCESS;
    }
    println!("soak: seed {}, {} lanes, {} s", soak.seed, soak.lanes, soak.time.as_secs());
    if soak::run(&soak) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<(Soak, bool), String> {
    let mut soak = Soak { seed: 0, time: Duration::from_secs(600), lanes: 3, lives: 1_000_000, fault: None };
    let (mut given_seed, mut is_shown_only) = (None, false);
    while let Some(option) = arguments.next() {
        if option == "--plan" {
            is_shown_only = true;
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{option}: what to do is missing"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{option}: {value} is no number"));
        match &*option {
            "--seconds" => soak.time = Duration::from_secs(number()?),
            "--lanes" => soak.lanes = number()?.clamp(1, 64),
            "--seed" => given_seed = Some(number()?),
            "--lives" => soak.lives = number()?.min(1_000_000),
            "--plant" => soak.fault = Some(fault(&value)?),
            _ => return Err(format!("{option}: there is no such option")),
        }
    }
    soak.seed = given_seed.unwrap_or_else(seed);
    Ok((soak, is_shown_only))
}

fn fault(text: &str) -> Result<Fault, String> {
    let (kind, every) = text.split_once(':').ok_or("--plant: what, and every how many bytes?")?;
    let kind = match kind {
        "lost" => FaultKind::Lost,
        "doubled" => FaultKind::Doubled,
        "swapped" => FaultKind::Swapped,
        _ => return Err(format!("--plant: {kind} is none of lost, doubled, swapped")),
    };
    match every.parse() {
        Ok(every @ 2..) => Ok(Fault { kind, every }),
        _ => Err(format!("--plant: {every} is no number from 2 on")),
    }
}
