//! The machine, the command, and how to do it again.

use super::blocks::paragraph;
use super::markup::{Element, element};
use super::words;
use crate::cell::Document;

/// The card of the machine and what was typed.
pub(super) fn section(document: &Document) -> Option<Element> {
    let machine = &document.machine;
    let caches: Vec<String> =
        levels(&machine.caches).map(|(level, bytes)| format!("L{level} {}", words::memory(bytes))).collect();
    let facts = [
        ("Processor", machine.cpu.clone()),
        ("CPUs it may use", machine.cpus.to_string()),
        ("Kernel", format!("Linux {}", machine.kernel)),
        ("Memory", words::memory(machine.memory)),
        ("Caches of one CPU", if caches.is_empty() { "not told".into() } else { caches.join(", ") }),
        ("Huge pages", machine.huge_pages.clone()),
        ("Hypervisor", if machine.is_virtual { "yes" } else { "none seen" }.into()),
        ("Began", crate::report::date::utc(document.began)),
        ("Took", words::duration(document.seconds)),
    ];
    let card = element("dl").class("card").children(
        facts
            .into_iter()
            .map(|(name, fact)| element("div").child(element("dt").text(name)).child(element("dd").text(fact))),
    );
    Some(element("div").child(card).child(element("h3").text("The exact command")).child(command(document)))
}

/// Levels of cache that are known, with their bytes.
pub(super) fn levels(caches: &[u64]) -> impl Iterator<Item = (usize, u64)> {
    caches.iter().take(8).enumerate().map(|(index, &bytes)| (index + 1, bytes)).filter(|(_, bytes)| *bytes > 0)
}

/// The last words of the page.
pub(super) fn again(document: &Document) -> Option<Element> {
    Some(
        element("div")
            .child(paragraph("The same measurement, on this machine or on yours:"))
            .child(command(document))
            .child(paragraph("And this page from the results that --json wrote, without measuring:"))
            .child(shell("millstream bench report RESULTS.json --html PAGE.html")),
    )
}

fn command(document: &Document) -> Element {
    match document.command.is_empty() {
        true => paragraph("The results do not say."),
        false => shell(&words::command_line(&document.command)),
    }
}

fn shell(command: &str) -> Element {
    let shown: String = command.chars().take(4000).collect();
    element("pre").with("tabindex", "0").child(element("code").text(shown))
}
