//! What `top` shows of the pipelines, as lines that fit the width they are for.

use comfy_table::{CellAlignment, Table, presets};

use super::look::Look;
use crate::bytes;
use crate::watch::pipelines::Pipeline;
use crate::watch::verdict::{self, Evidence};

/// What the columns but that of names take at most, with the space between them.
const OTHER_COLUMNS: usize = 45;
/// Names are not cut to less.
const NAME: usize = 4;

/// One line. Its width is that of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    /// It stands out where that is wanted.
    pub(super) is_strong: bool,
}

impl Line {
    fn plain(text: impl Into<String>) -> Line {
        Line { text: text.into(), is_strong: false }
    }

    /// For a terminal, or for anything else.
    pub(super) fn shown(&self, has_styles: bool) -> String {
        if self.is_strong && has_styles { format!("\x1b[1m{}\x1b[0m", self.text) } else { self.text.clone() }
    }
}

/// The lines of each pipeline. None of them is longer than `columns`, if there is such a limit.
pub(super) fn blocks(look: &Look, columns: Option<usize>) -> Vec<Vec<Line>> {
    let pipelines = look.sample.pipelines();
    if pipelines.is_empty() {
        return vec![fitted(vec![Line::plain("no pipe goes from one program to another")], columns)];
    }
    pipelines.iter().map(|pipeline| fitted(block(look, pipeline, columns), columns)).collect()
}

/// All of them, an empty line between two, as a text.
pub(super) fn text(look: &Look, columns: Option<usize>, has_styles: bool) -> String {
    let block = |lines: &Vec<Line>| lines.iter().map(|line| line.shown(has_styles) + "\n").collect::<String>();
    blocks(look, columns).iter().map(block).collect::<Vec<String>>().join("\n")
}

fn block(look: &Look, pipeline: &Pipeline, columns: Option<usize>) -> Vec<Line> {
    let evidence = look.evidence(pipeline);
    let table = programs(look, pipeline, &evidence, columns).to_string();
    let mut lines: Vec<Line> = table.lines().map(|line| Line::plain(line.trim_end())).collect();
    if let Some(heading) = lines.first_mut() {
        heading.is_strong = true;
    }
    for (pipe, &inode) in evidence.pipes.iter().zip(&pipeline.pipes) {
        let between = format!("{} > {}", look.names(pipeline, &pipe.writers), look.names(pipeline, &pipe.readers));
        let rate = look.sample.rate(inode).map_or("-".into(), |rate| format!("{}/s", bytes::show(rate as u64)));
        let percent = |part: u32| 100 * part / pipe.looks.max(1);
        let (full, empty) = (percent(pipe.full), percent(pipe.empty));
        let waiting = look.waiting(inode).map(|(waiting, capacity)| {
            format!(", {} of {} wait", bytes::show(waiting as u64), bytes::show(capacity as u64))
        });
        let waiting = waiting.unwrap_or_default();
        let times = format!("full {full} %, empty {empty} % of the time");
        lines.push(Line::plain(format!("pipe {} ({between}): {rate}, {times}{waiting}", pipe.id)));
    }
    lines.push(Line { text: verdict::of(&evidence), is_strong: true });
    lines
}

fn programs(look: &Look, pipeline: &Pipeline, evidence: &Evidence, columns: Option<usize>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["PROGRAM", "PID", "CPU", "QUEUED", "READING", "WRITING"]);
    let name_room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(OTHER_COLUMNS).max(NAME));
    let share = |share: Option<f64>| share.map_or("-".into(), |share| format!("{:.0} %", share * 100.0));
    for (stage, &program) in evidence.stages.iter().zip(&pipeline.programs) {
        let program = &look.sample.seen.programs[program];
        let of_looks = |looks: u32| share(Some(f64::from(looks) / f64::from(stage.looks.max(1))));
        table.add_row([
            cut(&program.name, name_room),
            program.pid.to_string(),
            share(stage.computed),
            share(stage.queued),
            of_looks(stage.did.read),
            of_looks(stage.did.write),
        ]);
    }
    for column in 1..6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Text that is too long ends with a sign of it.
pub(super) fn cut(text: &str, columns: usize) -> String {
    match text.chars().count() > columns {
        true => text.chars().take(columns.saturating_sub(1)).chain(['~']).take(columns).collect(),
        false => text.to_owned(),
    }
}

/// Breaks what is too long between words, but rows of a table, which begin with a space; a longer word, or row, is cut.
fn fitted(lines: Vec<Line>, columns: Option<usize>) -> Vec<Line> {
    let Some(columns) = columns else { return lines };
    let is_row = |line: &Line| line.text.starts_with(' ');
    let broken = |line: Line| match is_row(&line) {
        true => vec![line],
        false => wrapped(&line.text, columns).into_iter().map(|text| Line { text, ..line.clone() }).collect(),
    };
    let lines = lines.into_iter().flat_map(broken);
    lines.map(|line| Line { text: cut(&line.text, columns), ..line }).collect()
}

/// Later lines begin with two spaces.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.trim_start().is_empty() && line.chars().count() + 1 + word.chars().count() > columns {
            lines.push(std::mem::replace(&mut line, "  ".into()));
        }
        if !line.trim_start().is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words() {
        let text = "pipe 1 (yes > gzip): 132.0 MiB/s, full 25 %, empty 45 % of the time";
        let lines = wrapped(text, 30);
        assert_eq!(lines, ["pipe 1 (yes > gzip): 132.0", "  MiB/s, full 25 %, empty 45 %", "  of the time"]);
        assert_eq!(wrapped("short", 30), ["short"]);
        assert_eq!(wrapped("averylongword and", 6), ["averylongword", "  and"]);
    }

    #[test]
    fn rows_and_words_that_are_too_long_are_cut() {
        let lines = vec![Line::plain(" a row of a table"), Line::plain("averylongword b")];
        let texts: Vec<String> = fitted(lines, Some(8)).into_iter().map(|line| line.text).collect();
        assert_eq!(texts, [" a row ~", "averylo~", "  b"]);
        assert_eq!((cut("abc", 3), cut("abcd", 3), cut("abcd", 0)), ("abc".into(), "ab~".into(), String::new()));
    }
}
