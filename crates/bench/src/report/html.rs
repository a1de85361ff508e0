//! One page for people: everything about a run in a single file that needs no network, no script and no other program.
//!
//! The script that it has only enlarges charts. The page's own policy, checked by the browser, forbids every other script,
//! every other style sheet and every request. Results may come from any file, so whatever is in them is shown as text.

use serde_json::Value;

use crate::cell::Document;

mod blocks;
mod chart;
mod charts;
mod groups;
mod markup;
mod older;
mod policy;
mod raw;
mod setup;
mod spoken;
mod trust;
mod verdicts;
mod words;

use groups::by_method;
use markup::{Element, element};

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/zoom.js");

/// The page that shows a document. It is below 1 MB whatever the document is: what is too much is left out of it, and the
/// page says what and where it is.
pub fn render(document: &Document) -> String {
    let whole = document;
    let document = &legible(document);
    let methods = by_method(document);
    let names: Vec<&str> = methods.iter().map(|(method, _)| *method).collect();
    let title = match names.as_slice() {
        [] => "millstream bench".to_owned(),
        few if few.len() <= 3 => format!("millstream bench {}", few.join(", ")),
        many => format!("millstream bench, {} methods", many.len()),
    };
    let sections = [
        ("trust", "Can this be believed?", trust::section(document)),
        ("verdicts", "Verdicts", verdicts::section(&methods)),
        ("setup", "Machine and command", setup::section(document)),
        ("charts", "Charts", charts::section(document, &methods)),
        ("older", "Older figures, other hardware", older::section(&methods)),
        ("method", "How it was measured", spoken::section(&names)),
        ("raw", "Raw data", raw::section(whole, &methods)),
        ("again", "Measure it again", setup::again(document)),
    ];
    let shown: Vec<_> = sections.into_iter().filter_map(|(id, title, section)| Some((id, title, section?))).collect();
    let contents =
        shown.iter().map(|(id, title, _)| element("li").child(element("a").with("href", format!("#{id}")).text(title)));
    let contents = element("nav").with("aria-label", "Contents").child(element("ol").children(contents));
    let body = element("body")
        .child(element("a").class("skip").with("href", "#content").text("Skip to the content"))
        .child(header(document, &title))
        .child(contents)
        .child(element("main").with("id", "content").children(shown.into_iter().map(|(id, title, section)| {
            let heading = element("h2").with("id", format!("{id}-title")).text(title);
            element("section")
                .with("id", id)
                .with("aria-labelledby", format!("{id}-title"))
                .child(heading)
                .child(section)
        })))
        .child(footer(document))
        .child(element("script").verbatim(SCRIPT));
    format!("<!DOCTYPE html>\n<html lang=\"en\">{}{body}</html>\n", head(&title))
}

fn head(title: &str) -> Element {
    let meta = |name, content: &str| element("meta").with("name", name).with("content", content);
    element("head")
        .child(element("meta").with("charset", "utf-8"))
        .child(
            element("meta")
                .with("http-equiv", "Content-Security-Policy")
                .with("content", policy::policy(STYLE, SCRIPT)),
        )
        .child(meta("viewport", "width=device-width, initial-scale=1"))
        .child(meta("color-scheme", "light dark"))
        .child(meta("referrer", "no-referrer"))
        .child(element("title").text(title))
        .child(element("style").verbatim(STYLE))
}

fn header(document: &Document, title: &str) -> Element {
    let machine = &document.machine;
    let line = format!(
        "{}, {}, Linux {}. {}, in {}.",
        machine.cpu,
        words::count(machine.cpus, "CPU"),
        machine.kernel,
        crate::report::date::utc(document.began),
        words::duration(document.seconds)
    );
    element("header").child(element("h1").text(title)).child(element("p").text(line))
}

fn footer(document: &Document) -> Element {
    let text = format!("Made by millstream {} from a {} document.", env!("CARGO_PKG_VERSION"), document.schema);
    element("footer").child(element("p").text(text))
}

/// The document with names of a length that can be read: a file of results may hold any.
fn legible(document: &Document) -> Document {
    let mut document = document.clone();
    let machine = &mut document.machine;
    [&mut machine.cpu, &mut machine.kernel, &mut machine.huge_pages].into_iter().for_each(shorten);
    for cell in &mut document.cells {
        let names = [&mut cell.method, &mut cell.transport, &mut cell.placement, &mut cell.unit];
        names.into_iter().chain(&mut cell.baseline).for_each(|name| {
            if name.len() > LONGEST_NAME {
                shorten(name.to_mut());
            }
        });
        cell.why_invalid.iter_mut().for_each(shorten);
        if cell.params.values().any(|value| matches!(value, Value::String(word) if word.len() > LONGEST_NAME)) {
            cell.params.values_mut().for_each(|value| {
                if let Value::String(word) = value {
                    shorten(word)
                }
            });
        }
    }
    document
}

/// In bytes, of which characters have up to four.
const LONGEST_NAME: usize = 240;

fn shorten(text: &mut String) {
    if text.len() > LONGEST_NAME {
        text.truncate(text.floor_char_boundary(LONGEST_NAME));
        text.push('\u{2026}');
    }
}

#[cfg(test)]
mod tests;
