//! The table of verdicts: each ratio with its interval drawn over the noise.

use super::blocks::{Room, folded, paragraph, scrolling};
use super::chart::axis::Axis;
use super::chart::intervals::{bar, bar_scale};
use super::groups::{Group, grouped, varying};
use super::markup::{Element, element};
use super::words::{self, Unit, count, number, times};
use crate::cell::{Cell, Verdict};

/// Rows of a table that is shown unfolded, where there are several.
const MOST_ROWS: usize = 30;

/// Bytes for all tables together.
const ROOM: usize = 250_000;

/// A table for each method in which something is compared.
pub(super) fn section(methods: &[Group<'_>]) -> Option<Element> {
    let compared: Vec<&Cell> =
        methods.iter().flat_map(|(_, cells)| cells).copied().filter(|cell| is_compared(cell)).collect();
    let mut section = element("div");
    if compared.is_empty() {
        return Some(section.child(paragraph("Nothing here was compared with a baseline.")));
    }
    section = section.child(summary(&compared)).child(key());
    let mut room = Room(ROOM);
    for (method, cells) in methods {
        let (ours, others): (Vec<&Cell>, Vec<&Cell>) = cells
            .iter()
            .copied()
            .filter(|cell| is_compared(cell))
            .partition(|cell| cell.transport.starts_with("millstream"));
        if ours.is_empty() && others.is_empty() {
            continue;
        }
        section = section.child(element("h3").text(method));
        let axis = Axis::log(cells.iter().flat_map(|cell| extent(cell)).chain([0.8, 1.25]));
        let parameters = varying(cells);
        let mut table = |cells: &[&Cell], what: &str| {
            let unit = Unit::of(cells);
            let several = cells.iter().any(|cell| cell.transport != cells[0].transport);
            let mut left_out = cells.len();
            let bodies = grouped(cells.iter().copied(), |cell| &*cell.placement).into_iter().map(|(_, cells)| {
                let rows = cells.iter().map(|cell| row(cell, &parameters, several, &unit, &axis));
                let rows: Vec<Element> = rows.take_while(|row| room.take(row)).collect();
                left_out -= rows.len();
                element("tbody").children(rows)
            });
            let bodies: Vec<Element> = bodies.collect();
            let title = format!("{method}: {what} against {}", baselines(cells));
            let table = table(title, bodies, &parameters, several, &unit, &axis);
            element("div").child(table).children(
                (left_out > 0)
                    .then(|| paragraph(format!("{} left out to keep this page below 1 MB.", count(left_out, "row")))),
            )
        };
        section = match (ours.is_empty(), others.is_empty()) {
            (false, true) => section.child(unfolded(table(&ours, "millstream"), &ours, methods)),
            (true, _) => section.child(table(&others, "every transport")),
            (false, false) => section.child(unfolded(table(&ours, "millstream"), &ours, methods)).child(folded(
                format!("Other transports: {}", count(others.len(), "row")),
                [table(&others, "other transports")],
            )),
        };
    }
    Some(section)
}

/// A long table among others is folded, so that the others can be seen.
fn unfolded(table: Element, cells: &[&Cell], methods: &[Group<'_>]) -> Element {
    let of = |verdict| cells.iter().filter(|cell| cell.verdict == Some(verdict)).count();
    let [better, worse] = [Verdict::Better, Verdict::Worse].map(|verdict| words::grouped(of(verdict) as f64));
    match cells.len() > MOST_ROWS && methods.len() > 1 {
        true => folded(format!("{}: {better} better, {worse} worse", count(cells.len(), "row")), [table]),
        false => table,
    }
}

fn is_compared(cell: &Cell) -> bool {
    cell.baseline.as_ref().is_some_and(|baseline| *baseline != cell.transport)
}

fn extent(cell: &Cell) -> impl Iterator<Item = f64> + use<> {
    let bounds = [cell.ratio_ci95, cell.noise_ci95].into_iter().flatten().flatten();
    bounds.chain(cell.ratio).filter(|ratio| (1e-4..=1e6).contains(ratio)).collect::<Vec<_>>().into_iter()
}

/// How often each verdict was given, ours first.
fn summary(compared: &[&Cell]) -> Element {
    let ours: Vec<&Cell> = compared.iter().copied().filter(|cell| cell.transport.starts_with("millstream")).collect();
    let (counted, whose) = if ours.is_empty() { (compared, "all transports") } else { (&*ours, "millstream") };
    let verdicts =
        [Some(Verdict::Better), Some(Verdict::Same), Some(Verdict::Worse), Some(Verdict::Inconclusive), None];
    let tiles = verdicts.into_iter().filter_map(|verdict| {
        let number = counted.iter().filter(|cell| cell.verdict == verdict).count();
        let (class, sign, word) = spelled(verdict);
        (number > 0 || verdict == Some(Verdict::Worse)).then(|| {
            let sign = element("span").class("sign").with("aria-hidden", "true").text(sign);
            element("li")
                .class(format!("t-{class}"))
                .child(element("b").text(words::grouped(number as f64)))
                .child(sign)
                .text(word)
        })
    });
    element("div")
        .child(paragraph(format!(
            "{} of {whose} against the baseline of the same rounds:",
            count(counted.len(), "comparison")
        )))
        .child(element("ul").class("tiles").children(tiles))
}

fn key() -> Element {
    paragraph(
        "Each bar is the 95 % interval of how many times as fast; the shaded band is what the baseline shows against \
         itself. Better and worse need an interval that lies outside that band and more than 3 % away from 1.",
    )
    .class("key")
}

/// Class, sign and word of a verdict.
fn spelled(verdict: Option<Verdict>) -> (&'static str, &'static str, &'static str) {
    match verdict {
        Some(Verdict::Better) => ("better", "\u{25b2}", "better"),
        Some(Verdict::Same) => ("same", "=", "same"),
        Some(Verdict::Worse) => ("worse", "\u{25bc}", "worse"),
        Some(Verdict::Inconclusive) => ("inconclusive", "?", "inconclusive"),
        None => ("none", "\u{2715}", "no verdict"),
    }
}

fn baselines(cells: &[&Cell]) -> String {
    let mut names: Vec<&str> = cells.iter().filter_map(|cell| cell.baseline.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

fn table(title: String, bodies: Vec<Element>, parameters: &[&str], several: bool, unit: &Unit, axis: &Axis) -> Element {
    let mut columns: Vec<(&str, &str)> = parameters.iter().map(|name| ("", *name)).collect();
    if several {
        columns.push(("", "transport"));
    }
    columns.extend([("", "CPUs"), ("n", &unit.name), ("n", "ratio"), ("n", "95 % interval")]);
    let column = |class: &str| element("th").with("scope", "col").class(class);
    let drawn = column("drawn").child(element("span").class("hidden").text("interval drawn")).child(bar_scale(axis));
    let head = element("tr")
        .children(columns.into_iter().map(|(class, title)| column(class).text(title)))
        .child(drawn)
        .child(column("").text("verdict"));
    let table = element("table")
        .class("verdicts")
        .child(element("caption").text(&title))
        .child(element("thead").child(head))
        .children(bodies);
    scrolling(&title, table)
}

fn row(cell: &Cell, parameters: &[&str], several: bool, unit: &Unit, axis: &Axis) -> Element {
    let text = |text: String| element("td").text(text);
    let figure = |text: String| element("td").class("n").text(text);
    let (class, sign, word) = spelled(cell.verdict);
    let mut row = element("tr").children(
        parameters
            .iter()
            .map(|name| text(cell.params.get(*name).map_or("-".into(), |value| words::value(name, value)))),
    );
    if several {
        row = row.child(text(cell.transport.to_string()));
    }
    let humps = if cell.humps.is_some() { " \u{22c2}\u{22c2}" } else { "" };
    let median = cell.median.map_or("-".into(), |median| number(median * unit.factor));
    let interval = cell.ratio_ci95.map_or("-".into(), |[low, high]| format!("{} \u{2013} {}", bare(low), bare(high)));
    let word = match (cell.valid, cell.verdict) {
        (false, _) => "not valid",
        _ => word,
    };
    row.child(text(words::placement(&cell.placement).into()))
        .child(figure(format!("{median}{humps}")))
        .child(
            element("td")
                .class("n ratio")
                .child(element("span").class(format!("sign t-{class}")).with("aria-hidden", "true").text(sign))
                .text(cell.ratio.map_or("-".into(), times)),
        )
        .child(figure(interval))
        .child(element("td").class("drawn").child(bar(axis, cell.ratio, cell.ratio_ci95, cell.noise_ci95, class)))
        .child(element("td").class(format!("t-{class}")).text(word))
}

/// A ratio without its sign.
fn bare(ratio: f64) -> String {
    times(ratio).trim_end_matches('\u{d7}').to_owned()
}
