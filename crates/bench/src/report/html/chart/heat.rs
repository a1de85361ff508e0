//! A grid of ratios to a baseline, coloured by how far they lie from 1; each says its number too.

use super::{rect, svg, text};
use crate::cell::Verdict;
use crate::report::html::markup::{Element, element};
use crate::report::html::words::times;

/// The least ratio of each colour but the first, from much slower to much faster. The middle one is what lies within the
/// margin of a verdict.
const STEPS: [f64; 8] = [0.5, 0.8, 0.97, 1.03, 1.25, 2.0, 4.0, 8.0];

/// A field of the grid.
pub(crate) enum Field {
    /// How many times as fast, and whether that can be told.
    Ratio(f64, Option<Verdict>),
    /// It failed its checks.
    Invalid,
    /// It was not measured.
    Empty,
}

/// A grid.
pub(crate) struct Heat<'a> {
    pub(crate) title: &'a str,
    pub(crate) description: &'a str,
    pub(crate) columns: Vec<String>,
    pub(crate) column_title: &'a str,
    pub(crate) rows: Vec<(String, Vec<Field>)>,
    pub(crate) row_title: &'a str,
}

impl Heat<'_> {
    /// Draws it.
    pub(crate) fn draw(&self) -> Element {
        const LEFT: f64 = 58.0;
        const TOP: f64 = 40.0;
        const ROW: f64 = 30.0;
        let width = 440.0;
        let column = (width - LEFT - 4.0) / self.columns.len().max(1) as f64;
        let middle = |index: usize| LEFT + (index as f64 + 0.5) * column;
        let mut chart = svg(width, TOP + ROW * self.rows.len() as f64 + 6.0, self.title, self.description)
            .child(text(LEFT + 2.0, 13.0, "axis", self.column_title))
            .child(text(LEFT - 10.0, 32.0, "axis end", self.row_title));
        for (index, label) in self.columns.iter().enumerate() {
            chart = chart.child(text(middle(index), 32.0, "tick middle", label));
        }
        for (row, (label, fields)) in self.rows.iter().enumerate() {
            let top = TOP + ROW * row as f64;
            chart = chart.child(text(LEFT - 10.0, top + 19.0, "tick end", label));
            for (index, field) in fields.iter().enumerate() {
                let (class, figure) = look(field);
                let corner = [LEFT + index as f64 * column + 1.0, top + 1.0];
                chart = chart.child(rect(&class, corner, [column - 2.0, ROW - 2.0])).child(text(
                    middle(index),
                    top + 19.5,
                    &format!("field {class}"),
                    figure,
                ));
            }
        }
        chart
    }
}

fn look(field: &Field) -> (String, String) {
    match field {
        Field::Ratio(ratio, verdict) => {
            let doubt = if *verdict == Some(Verdict::Inconclusive) { " ?" } else { "" };
            (format!("h{}", step(*ratio)), format!("{}{doubt}", times(*ratio)))
        }
        Field::Invalid => ("hollow".into(), "not valid".into()),
        Field::Empty => ("hollow".into(), String::new()),
    }
}

fn step(ratio: f64) -> usize {
    STEPS.iter().filter(|&&least| ratio >= least).count()
}

/// What the colours stand for.
pub(crate) fn legend() -> Element {
    let item = |step: usize| {
        let says = match step {
            0 => format!("below {}", STEPS[0]),
            8 => format!("{} and above", STEPS[7]),
            _ => format!("{} \u{2013} {}", STEPS[step - 1], STEPS[step]),
        };
        let swatch = element("svg").with("viewBox", "0 0 18 12").with("aria-hidden", "true");
        element("li").child(swatch.child(rect(&format!("h{step}"), [0.0, 0.0], [18.0, 12.0]))).text(says)
    };
    element("ul").class("legend").children((0..=STEPS.len()).map(item))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_one_is_in_the_middle() {
        assert_eq!([0.1, 0.5, 0.9, 1.0, 1.1, 1.9, 3.0, 4.0, 99.0].map(step), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
