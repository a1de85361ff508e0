//! What others measured before, beside ours.

use super::blocks::{header_row, paragraph, scrolling};
use super::groups::Group;
use super::markup::{Element, element};
use super::words;
use crate::cell::Cell;
use crate::report::earlier::{Study, studies};

/// The tables that belong to the methods; `None` if there are none.
pub(super) fn section(methods: &[Group<'_>]) -> Option<Element> {
    let groups = methods.iter().map(|(method, cells)| (*method, cells, studies(method).collect::<Vec<_>>()));
    let groups: Vec<_> = groups.filter(|(_, _, studies)| !studies.is_empty()).collect();
    if groups.is_empty() {
        return None;
    }
    let note = paragraph(
        "Measured by others on the machines named, decades ago in most cases. Only shapes can be compared with the \
         figures above, never sizes. LP, ZC and LP+ZC are kernel patches: a larger pipe, a single copy, and both. Where \
         millstream stands beside them, it is its improvement over this machine's own kernel.",
    );
    Some(element("div").child(note).children(groups.into_iter().flat_map(|(method, cells, studies)| {
        let tables = element("div").class("pair").children(studies.into_iter().map(|study| table(study, cells)));
        [element("h3").text(method), tables]
    })))
}

fn table(study: &Study, cells: &[&Cell]) -> Element {
    let hardware = element("small").text(format!("Other hardware: {}", study.hardware));
    let caption = element("caption").text(study.title).child(hardware);
    let placements: Vec<&str> = study
        .ours
        .iter()
        .copied()
        .filter(|placement| study.rows.iter().any(|(label, _)| ours(cells, placement, label).is_some()))
        .collect();
    let columns =
        study.columns.iter().enumerate().map(|(index, title)| (if index == 0 { "" } else { "n" }, (*title).to_owned()));
    let added =
        placements.iter().map(|placement| ("n ours", format!("millstream here, {}", words::placement(placement))));
    let columns: Vec<(&str, String)> = columns.chain(added).collect();
    let rows = study.rows.iter().map(|(label, figures)| {
        let figure = |class: &'static str, text: String| element("td").class(class).text(text);
        let ours = placements.iter().map(|placement| {
            let improvement = ours(cells, placement, label).map(|ratio| ((ratio - 1.0) * 100.0).round());
            figure("n ours", improvement.map_or("-".into(), written))
        });
        element("tr")
            .child(element("th").with("scope", "row").text(label))
            .children(figures.iter().map(|value| figure("n", written(*value))))
            .children(ours)
    });
    let head = header_row(columns.iter().map(|(class, title)| (*class, title.as_str())));
    let table = element("table").child(caption).child(head).child(element("tbody").children(rows));
    scrolling(study.title, table)
}

/// How many times as fast ours is for the size that the row is about, or for grep where it is about that.
fn ours(cells: &[&Cell], placement: &str, label: &str) -> Option<f64> {
    let is_meant = |cell: &&&Cell| {
        let param = |name| cell.params.get(name).map(|value| words::value(name, value));
        let size = param("transfer").or_else(|| param("read"));
        let workload = param("workload");
        size.as_deref() == Some(label) || (workload.as_deref() == Some("grep") && label.starts_with("grep"))
    };
    let mut ours = cells.iter().filter(|cell| cell.transport == "millstream" && cell.placement == placement);
    ours.find(is_meant)?.ratio.filter(|ratio| ratio.is_finite())
}

/// As the study wrote it.
fn written(figure: f64) -> String {
    format!("{figure}").replace('-', "\u{2212}")
}
