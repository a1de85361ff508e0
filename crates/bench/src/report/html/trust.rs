//! What a reader must know before any number: what failed, how sure the rest is, and what disturbed it.

use super::blocks::{folded, paragraph};
use super::markup::{Element, element};
use super::words::{self, count, grouped, number, percent};
use crate::cell::{Cell, Document};
use crate::engine::statistics::median;

/// Failures that are listed; more of them say nothing new.
const LISTED: usize = 40;

/// How a fact is marked, with a sign and a colour.
#[derive(Clone, Copy, PartialEq)]
enum Mark {
    Good,
    Note,
    Bad,
}

impl Mark {
    fn class(self) -> &'static str {
        match self {
            Mark::Good => "good",
            Mark::Note => "note",
            Mark::Bad => "bad",
        }
    }

    fn sign(self) -> (&'static str, &'static str) {
        match self {
            Mark::Good => ("\u{2713}", "fine"),
            Mark::Note => ("!", "note"),
            Mark::Bad => ("\u{2715}", "failed"),
        }
    }
}

struct Fact {
    mark: Mark,
    name: &'static str,
    figure: String,
    says: String,
}

/// The banner and what failed.
pub(super) fn section(document: &Document) -> Option<Element> {
    let cells = &document.cells;
    let facts = [
        validity(cells),
        precision(cells),
        noise(cells),
        steal(cells),
        machine(document),
        outliers(cells),
        humps(cells),
    ];
    let invalid = cells.iter().filter(|cell| !cell.valid).count();
    let (mark, sentence) = match (cells.len(), invalid) {
        (0, _) => (Mark::Bad, "Nothing was measured.".to_owned()),
        (all, 0) => (Mark::Good, format!("{} passed {} checks.", all_of(all), if all == 1 { "its" } else { "their" })),
        (all, some) => (
            Mark::Bad,
            format!("{} of {} failed a check and show no number.", grouped(some as f64), count(all, "cell")),
        ),
    };
    let notes = facts.iter().flatten().filter(|fact| fact.mark == Mark::Note).count();
    let aside = match notes {
        0 => String::new(),
        1 => " One thing to keep in mind is marked below.".into(),
        _ => format!(" {notes} things to keep in mind are marked below."),
    };
    let banner = element("div")
        .class(format!("banner {}", mark.class()))
        .child(signed(mark))
        .child(element("p").child(element("strong").text(sentence)).text(aside));
    let facts = element("dl").class("facts").children(facts.into_iter().flatten().map(|fact| {
        element("div")
            .class(fact.mark.class())
            .child(element("dt").child(signed(fact.mark)).text(fact.name))
            .child(element("dd").child(element("b").text(fact.figure)).child(element("span").text(fact.says)))
    }));
    Some(element("div").child(banner).child(facts).children(failures(cells)))
}

fn all_of(number: usize) -> String {
    if number == 1 { "The one cell".into() } else { format!("All {}", count(number, "cell")) }
}

fn signed(mark: Mark) -> Element {
    let (sign, word) = mark.sign();
    element("span").class("sign").with("role", "img").with("aria-label", word).text(sign)
}

fn validity(cells: &[Cell]) -> Option<Fact> {
    let invalid = cells.iter().filter(|cell| !cell.valid).count();
    Some(Fact {
        mark: if invalid > 0 || cells.is_empty() { Mark::Bad } else { Mark::Good },
        name: "Checks",
        figure: format!("{} valid, {} not", grouped((cells.len() - invalid) as f64), grouped(invalid as f64)),
        says: "bytes, checksums, processes and CPUs were looked at in every run".into(),
    })
}

fn precision(cells: &[Cell]) -> Option<Fact> {
    let measured: Vec<&Cell> = cells.iter().filter(|cell| cell.valid).collect();
    let widths: Vec<f64> = measured.iter().filter_map(|cell| half_width(cell.ci95?, cell.median?)).collect();
    if widths.is_empty() {
        return None;
    }
    let converged = measured.iter().filter(|cell| cell.converged).count();
    let widest = widths.iter().copied().fold(0.0, f64::max);
    Some(Fact {
        mark: if widest > 0.1 { Mark::Note } else { Mark::Good },
        name: "Precision",
        figure: format!("\u{b1}{} typically", percent(median(&widths))),
        says: format!(
            "95 % intervals, the widest \u{b1}{}. {} of {} converged: ended because they were precise enough; \
             the others had a number of launches given, or ran out of time",
            percent(widest),
            grouped(converged as f64),
            grouped(measured.len() as f64)
        ),
    })
}

/// Half an interval over its middle.
fn half_width([low, high]: [f64; 2], middle: f64) -> Option<f64> {
    let share = ((high - low) / 2.0 / middle).abs();
    share.is_finite().then_some(share)
}

fn noise(cells: &[Cell]) -> Option<Fact> {
    let bands: Vec<[f64; 2]> = cells.iter().filter_map(|cell| cell.noise_ci95).collect();
    let away = |[low, high]: [f64; 2]| (1.0 - low).abs().max((high - 1.0).abs());
    let reach: Vec<f64> = bands.into_iter().map(away).filter(|reach| reach.is_finite()).collect();
    if reach.is_empty() {
        return None;
    }
    let worst = reach.iter().copied().fold(0.0, f64::max);
    Some(Fact {
        mark: if median(&reach) > 0.1 { Mark::Note } else { Mark::Good },
        name: "Noise",
        figure: format!("\u{b1}{} typically", percent(median(&reach))),
        says: format!(
            "how far the baseline measured twice differs from itself; \u{b1}{} at worst. No ratio within it is believed",
            percent(worst)
        ),
    })
}

fn steal(cells: &[Cell]) -> Option<Fact> {
    let launches = || cells.iter().flat_map(|cell| &cell.launches);
    let hit = launches().filter(|launch| launch.telemetry.steal_ticks > 0).count();
    let seconds = launches().map(|launch| launch.telemetry.steal_ticks as f64).sum::<f64>() / 100.0;
    let share = hit as f64 / launches().count() as f64;
    (launches().count() > 0).then(|| Fact {
        mark: if share > 0.01 { Mark::Note } else { Mark::Good },
        name: "Stolen time",
        figure: format!("{} s", number(seconds)),
        says: format!(
            "the hypervisor gave the CPUs to other machines in {} of {}",
            grouped(hit as f64),
            words::count(launches().count(), "launch").replace("launchs", "launches")
        ),
    })
}

fn machine(document: &Document) -> Option<Fact> {
    let is_virtual = document.machine.is_virtual;
    Some(Fact {
        mark: if is_virtual { Mark::Note } else { Mark::Good },
        name: "Machine",
        figure: if is_virtual { "virtual" } else { "physical" }.into(),
        says: match is_virtual {
            true => "other guests may disturb it, and absolute times drift; compare only cells of one run",
            false => "no hypervisor was seen",
        }
        .into(),
    })
}

fn outliers(cells: &[Cell]) -> Option<Fact> {
    let valid = || cells.iter().filter(|cell| cell.valid);
    let (marked, all) =
        valid().fold((0, 0), |(marked, all), cell| (marked + cell.outliers.len(), all + cell.samples.len()));
    (all > 0).then(|| Fact {
        mark: if marked * 10 > all { Mark::Note } else { Mark::Good },
        name: "Outliers",
        figure: format!("{} of {}", grouped(marked as f64), count(all, "sample")),
        says: "marked, and counted all the same: a few do not move a median".into(),
    })
}

fn humps(cells: &[Cell]) -> Option<Fact> {
    let two = cells.iter().filter(|cell| cell.valid && cell.humps.is_some()).count();
    cells.iter().any(|cell| cell.valid).then(|| Fact {
        mark: if two > 0 { Mark::Note } else { Mark::Good },
        name: "Two humps",
        figure: if two == 0 { "none".into() } else { count(two, "cell") },
        says: match two {
            0 => "every cell's samples gather in one place",
            _ => "their samples gather in two places, so their median tells half of it; \u{22c2}\u{22c2} in the tables",
        }
        .into(),
    })
}

/// Which cells failed, and why.
fn failures(cells: &[Cell]) -> Option<Element> {
    let failed: Vec<&Cell> = cells.iter().filter(|cell| !cell.valid).collect();
    if failed.is_empty() {
        return None;
    }
    let item = |cell: &&Cell| {
        let names: Vec<&str> = cell.params.keys().map(|name| &**name).collect();
        let what = format!("{} over {}, {}", cell.method, cell.transport, words::placement(&cell.placement));
        let params = words::params(cell, &names);
        let why = cell.why_invalid.as_deref().unwrap_or("no run was counted");
        element("li")
            .child(element("b").text(what))
            .text(if params.is_empty() { ": ".into() } else { format!(", {params}: ") })
            .text(why)
    };
    let list = element("ul").class("failures").children(failed.iter().take(LISTED).map(item));
    let more =
        (failed.len() > LISTED).then(|| paragraph(format!("And {} more.", grouped((failed.len() - LISTED) as f64))));
    Some(match failed.len() {
        1..=5 => element("div").child(element("h3").text("What failed")).child(list),
        many => folded(format!("What failed: {} cells", grouped(many as f64)), [list]).children(more),
    })
}
