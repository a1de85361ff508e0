//! What several parts of the page are made of.

use super::markup::{Element, element};

/// Bytes that a part of the page may still take. The parts together are below 1 MB.
pub(super) struct Room(pub(super) usize);

impl Room {
    /// Takes what an element needs, if that is left; if not, nothing that comes later fits.
    pub(super) fn take(&mut self, element: &Element) -> bool {
        let left = self.0.checked_sub(element.len() + 100);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

/// A paragraph.
pub(super) fn paragraph(text: impl std::fmt::Display) -> Element {
    element("p").text(text)
}

/// A table that scrolls by itself where the page is narrow.
pub(super) fn scrolling(label: &str, table: Element) -> Element {
    element("div").class("box").with("role", "region").with("aria-label", label).with("tabindex", "0").child(table)
}

pub(super) fn header_row<'a>(columns: impl IntoIterator<Item = (&'a str, &'a str)>) -> Element {
    let cells = columns.into_iter().map(|(class, title)| element("th").with("scope", "col").class(class).text(title));
    element("thead").child(element("tr").children(cells))
}

pub(super) fn folded(summary: impl std::fmt::Display, content: impl IntoIterator<Item = Element>) -> Element {
    element("details").child(element("summary").text(summary)).children(content)
}
