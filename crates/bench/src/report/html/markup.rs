//! HTML and SVG that are well-formed whatever the strings in them are: every text and every attribute goes through one
//! escape, and nothing else makes markup.

use std::fmt::{Display, Write};

/// An element under construction.
pub(super) struct Element {
    name: &'static str,
    attributes: String,
    content: String,
}

/// An element without attributes and content.
pub(super) fn element(name: &'static str) -> Element {
    Element { name, attributes: String::new(), content: String::new() }
}

impl Element {
    /// Adds an attribute.
    pub(super) fn with(mut self, attribute: &'static str, value: impl Display) -> Element {
        // Writing to a string cannot fail, here and below.
        let _ = write!(self.attributes, " {attribute}=\"{}\"", escaped(&value.to_string()));
        self
    }

    /// Adds the attribute of that name.
    pub(super) fn class(self, value: impl Display) -> Element {
        self.with("class", value)
    }

    /// Adds text.
    pub(super) fn text(mut self, text: impl Display) -> Element {
        self.content += &escaped(&text.to_string());
        self
    }

    /// Adds an element.
    pub(super) fn child(mut self, child: Element) -> Element {
        child.write(&mut self.content);
        self
    }

    /// Adds elements.
    pub(super) fn children(self, children: impl IntoIterator<Item = Element>) -> Element {
        children.into_iter().fold(self, Element::child)
    }

    /// Adds what must not be escaped: a style sheet or a script of our own, or JSON made by [`data`].
    pub(super) fn verbatim(mut self, text: &str) -> Element {
        self.content += text;
        self
    }

    /// How many bytes it is so far, without its own tags.
    pub(super) fn len(&self) -> usize {
        self.content.len()
    }

    fn write(&self, to: &mut String) {
        let Element { name, attributes, content } = self;
        let _ = match (*name, content.is_empty()) {
            ("meta" | "br", _) => write!(to, "<{name}{attributes}>"),
            ("path" | "line" | "rect" | "circle", true) => write!(to, "<{name}{attributes}/>"),
            _ => write!(to, "<{name}{attributes}>{content}</{name}>"),
        };
    }
}

impl Display for Element {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        formatter.write_str(&text)
    }
}

/// Text that means itself. Control characters, and those that turn the direction of the text after them, are shown as
/// replaced: a file of results may come from any source.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            '\n' | '\t' => safe.push(character),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => safe.push('\u{fffd}'),
            _ if character.is_control() => safe.push('\u{fffd}'),
            _ => safe.push(character),
        }
    }
    safe
}

/// JSON that can stand in a script element that is not executed: no `<` that might end the element.
pub(super) fn data(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_text_stays_a_text() {
        let element = element("b").with("title", "\"><i>").text("</b><script>alert('1')</script>&\0\u{202e}");
        assert_eq!(
            element.to_string(),
            "<b title=\"&quot;&gt;&lt;i&gt;\">&lt;/b&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;\u{fffd}\u{fffd}</b>"
        );
    }

    #[test]
    fn json_cannot_end_its_element_and_stays_the_same() {
        let json = r#"{"a":"</script><!--"}"#;
        let safe = data(json);
        assert!(!safe.contains('<'));
        let (before, after): (serde_json::Value, serde_json::Value) =
            (serde_json::from_str(json).unwrap(), serde_json::from_str(&safe).unwrap());
        assert_eq!(before, after);
    }

    #[test]
    fn empty_shapes_close_themselves_and_other_elements_do_not() {
        let group = element("g").child(element("path").with("d", "M0 0")).child(element("td"));
        assert_eq!(group.to_string(), "<g><path d=\"M0 0\"/><td></td></g>");
    }
}
