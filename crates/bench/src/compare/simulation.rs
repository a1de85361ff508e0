//! Tables of a known machine, to count how often a verdict is wrong: false alarms where nothing changed, and misses
//! where something did.

use std::collections::BTreeMap;

use super::*;
use crate::engine::launch::Launch;

const TRANSPORTS: [&str; 5] = ["pipe", "pipe-1m", "millstream", "spsc-bare", "memcpy-twice"];
const PLACEMENTS: [&str; 2] = ["1cpu", "2cpu"];
const TRANSFERS: [u64; 6] = [512, 2048, 4096, 8192, 16384, 65536];

/// What a machine does to measurements. All of it but the last is in logarithms, so 0.03 is 3 %.
#[derive(Clone, Copy)]
pub(super) struct Weather {
    /// One launch from another.
    spread: f64,
    /// A whole run from another, all transports of a placement alike.
    run: f64,
    /// From one round to the next, all transports of a placement alike, adding up.
    drift: f64,
    /// A whole run from another, each transport of a placement by itself.
    transport: f64,
    /// The same for each cell by itself.
    cell: f64,
    /// How many launches in a hundred of a cell lie in a slower hump, a fifth away; in every third cell.
    humps: usize,
    /// How many launches in a hundred take three times as long.
    wild: usize,
}

/// A quiet machine by the standards of shared ones.
const FAIR: Weather = Weather { spread: 0.025, run: 0.0, drift: 0.003, transport: 0.0, cell: 0.0, humps: 0, wild: 2 };

fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.below(1 << 30) as f64 / (1 << 30) as f64).sum::<f64>() - 6.0
}

/// A run with `launches` of each cell, `slowdown` in one transport.
pub(super) fn run(random: &mut Random, weather: &Weather, launches: usize, slowed: &str, slowdown: f64) -> Document {
    let mut cells = Vec::new();
    for placement in PLACEMENTS {
        let of_run = weather.run * normal(random);
        let of_transport = TRANSPORTS.map(|_| weather.transport * normal(random));
        for transfer in TRANSFERS {
            let mut now = of_run;
            let drift: Vec<f64> = (0..launches)
                .map(|_| {
                    now += weather.drift * normal(random);
                    now
                })
                .collect();
            let mut series = |slower: f64, humps: usize| -> Vec<f64> {
                let own = weather.cell * normal(random);
                drift
                    .iter()
                    .map(|drift| {
                        let hump = if random.below(100) < humps { 0.8_f64.ln() } else { 0.0 };
                        let wild = if random.below(100) < weather.wild { (1.0 / 3.0_f64).ln() } else { 0.0 };
                        1000.0 * (drift + own + weather.spread * normal(random) + hump + wild - slower).exp()
                    })
                    .collect()
            };
            let mut speeds = Vec::new();
            for (index, transport) in TRANSPORTS.into_iter().enumerate() {
                let slower = if transport == slowed { slowdown.ln() } else { 0.0 };
                let humps = if (index + transfer as usize / 512).is_multiple_of(3) { weather.humps } else { 0 };
                speeds.push(series(slower - of_transport[index], humps));
            }
            let twin = series(-of_transport[0], 0);
            let twins = Series { ours: speeds[0].clone(), theirs: Some(twin) };
            let noise = interval(&[vec![Series { ours: vec![1.0], theirs: None }], vec![twins]]);
            cells.extend(TRANSPORTS.iter().zip(&speeds).map(|(transport, speeds)| {
                let mut cell = Cell::new(
                    "bw_pipe",
                    *transport,
                    placement,
                    BTreeMap::from([("transfer", transfer.into())]),
                    "MB/s",
                );
                speeds.iter().for_each(|&speed| cell.add(Launch::of(speed)));
                (cell.valid, cell.median, cell.noise_ci95) = (true, Some(median(speeds)), Some(noise));
                cell.baseline = Some("pipe".into());
                cell
            }));
        }
    }
    Document::for_tests(cells)
}

fn compared(a: &Document, b: &Document, past: &[&Document]) -> Report {
    let side = |name: &str, run| Side { name: name.into(), runs: vec![run] };
    compare(&side("A", a), &side("B", b), past, false).unwrap()
}

/// How many of some pairs of runs have a cell in which `wanted` is said, and of how many cells it is said in all.
fn said(pairs: usize, weather: &Weather, past: usize, slowdown: f64, wanted: Verdict) -> (usize, usize) {
    let (mut tables, mut cells) = (0, 0);
    for seed in 0..pairs {
        let mut random = Random(1 + seed as u64);
        let past: Vec<Document> = (0..past).map(|_| run(&mut random, weather, 11, "", 1.0)).collect();
        let a = run(&mut random, weather, 11, "millstream", 1.0);
        let b = run(&mut random, weather, 11, "millstream", slowdown);
        let past: Vec<&Document> = past.iter().chain([&a]).collect();
        let report = compared(&a, &b, &past);
        assert_eq!((report.changes.len(), report.only_in_a.len()), (60, 0));
        let count = report.changes.iter().filter(|change| change.verdict == Some(wanted)).count();
        (tables, cells) = (tables + usize::from(count > 0), cells + count);
    }
    (tables, cells)
}

#[test]
fn a_table_in_which_nothing_changed_is_called_worse_in_one_of_a_hundred_at_most() {
    let (pairs, mut tables_in_all) = (200, 0);
    let weathers = [
        ("fair", FAIR),
        ("noisy", Weather { spread: 0.10, drift: 0.02, wild: 10, ..FAIR }),
        ("drifting", Weather { run: 0.7, drift: 0.05, ..FAIR }),
        ("shifty", Weather { run: 0.3, cell: 0.02, ..FAIR }),
        ("humped", Weather { humps: 40, ..FAIR }),
    ];
    for (name, weather) in weathers {
        let (tables, cells) = said(pairs, &weather, 0, 1.0, Verdict::Worse);
        println!("{name}: worse in {tables} of {pairs} tables, {cells} cells");
        assert!(tables <= pairs / 40, "{name}: worse in {tables} of {pairs} tables, {cells} cells");
        tables_in_all += tables;
    }
    assert!(tables_in_all <= pairs * weathers.len() / 100, "worse in {tables_in_all} tables");
}

/// A machine on which a transport is slower in one run and faster in the next cannot be told from one that changed, by
/// two runs alone. The history tells.
#[test]
fn a_machine_that_treats_transports_differently_from_run_to_run_is_known_by_its_history() {
    let moody = Weather { run: 0.3, transport: 0.05, ..FAIR };
    let shifty = Weather { run: 0.3, cell: 0.03, ..FAIR };
    let pairs = 100;
    for (name, weather) in [("moody", moody), ("shiftier", shifty)] {
        let (without, _) = said(pairs, &weather, 0, 1.0, Verdict::Worse);
        let (with, _) = said(pairs, &weather, 12, 1.0, Verdict::Worse);
        println!("{name}: worse in {without} of {pairs} tables without a history, in {with} with one");
        assert!(with <= pairs / 50, "{name}: {without} without a history, {with} with one");
    }
}

/// By a cell of the slowed transport in nearly every table, and by many of its twelve cells if the machine is fair.
#[test]
fn a_tenth_lost_by_one_transport_is_found() {
    let pairs = 50;
    for (name, weather, least) in [
        ("2 %", Weather { spread: 0.02, ..FAIR }, 0.6),
        ("2.5 %", FAIR, 0.35),
        ("3 %", Weather { spread: 0.03, ..FAIR }, 0.2),
        ("drifting by a factor of two", Weather { run: 0.7, drift: 0.02, ..FAIR }, 0.0),
    ] {
        let (tables, cells) = said(pairs, &weather, 0, 1.1, Verdict::Worse);
        println!("{name}: worse in {tables} of {pairs} tables, {cells} of {} cells", 12 * pairs);
        let least_tables = if least > 0.0 { 45 } else { 20 };
        assert!(tables >= least_tables && cells as f64 >= least * 12.0 * pairs as f64, "{name}: {tables}, {cells}");
    }
}

#[test]
fn with_a_history_that_shows_how_far_runs_lie_apart_a_restless_cell_is_believed_less() {
    let restless = Weather { cell: 0.05, transport: 0.0, ..FAIR };
    let mut random = Random(11);
    let past: Vec<Document> = (0..8).map(|_| run(&mut random, &restless, 11, "", 1.0)).collect();
    let past: Vec<&Document> = past.iter().collect();
    let last = run(&mut random, &restless, 11, "millstream", 1.1);
    let report = compared(past[7], &last, &past);
    let bands = report.changes.iter().filter_map(|change| change.band?.runs);
    let typical = median(&bands.collect::<Vec<_>>());
    // Four standard deviations of a difference of two runs, with 0.05 for the baseline and for the cell in each: 49 %.
    assert!((0.25..0.75).contains(&typical), "{typical}");
}
