//! Results that were kept: read again, or refused with what to do instead.

use std::path::Path;

use serde_json::Value;

use super::{Cell, Document, SCHEMA};

/// Numbers and words among the parameters without which cells of some methods have no place in a table.
const PLACES: [Place; 6] = [
    Place { methods: &["bw_pipe", "bw_unix", "bw_tcp"], numbers: &["transfer"], words: &[] },
    Place { methods: &["lat_pipe", "lat_fifo", "lat_unix"], numbers: &[], words: &["waiting"] },
    Place { methods: &["fifo_grid"], numbers: &["size", "messages"], words: &[] },
    Place { methods: &["lat_mem_rd"], numbers: &["size", "stride", "pages"], words: &["workload"] },
    Place { methods: &["increment"], numbers: &["stages", "size"], words: &[] },
    Place { methods: &["pipeflex"], numbers: &["transfer", "size"], words: &["workload"] },
];

struct Place {
    methods: &'static [&'static str],
    numbers: &'static [&'static str],
    words: &'static [&'static str],
}

impl Document {
    /// As [`from_json`](Self::from_json), of a file.
    ///
    /// # Errors
    /// A sentence: the file cannot be read, or what is wrong with it.
    pub fn from_file(path: &Path) -> Result<Document, String> {
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("cannot read '{}': {error}", path.display()))?;
        Document::from_json(&text).map_err(|why| format!("'{}' {why}", path.display()))
    }

    /// What `--json` wrote.
    ///
    /// # Errors
    /// A sentence without a subject, as in "is not JSON": the text is not JSON, is not the result of a measurement, is of
    /// another schema, or lacks something that its schema has or that its cells are shown by.
    pub fn from_json(text: &str) -> Result<Document, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
        let schema = value.get("schema").and_then(Value::as_str);
        match schema {
            Some(SCHEMA) => whole(value).map_err(|why| format!("is damaged: {why}")),
            Some(other) => Err(refusal(other)),
            None => Err("is not what 'millstream bench --json' writes: it names no schema".into()),
        }
    }
}

fn whole(value: Value) -> Result<Document, String> {
    let document: Document = serde_json::from_value(value).map_err(|error| error.to_string())?;
    for (index, cell) in document.cells.iter().enumerate() {
        if let Some((kind, name)) = missing(cell) {
            return Err(format!("cell {}, of {}, has no {kind} '{name}'", index + 1, cell.method));
        }
    }
    Ok(document)
}

/// A parameter that the cell should have.
fn missing(cell: &Cell) -> Option<(&'static str, &'static str)> {
    let place = PLACES.iter().find(|place| place.methods.contains(&&*cell.method))?;
    let has = |name: &str, is_right: fn(&Value) -> bool| cell.params.get(name).is_some_and(is_right);
    let number = place.numbers.iter().find(|name| !has(name, Value::is_number)).map(|name| ("number", *name));
    number.or_else(|| place.words.iter().find(|name| !has(name, Value::is_string)).map(|name| ("word", *name)))
}

fn refusal(schema: &str) -> String {
    let number = |schema: &str| schema.strip_prefix("millstream bench ")?.parse::<u64>().ok();
    let shown: String = schema.chars().take(40).collect();
    match (number(schema), number(SCHEMA)) {
        (Some(theirs), Some(ours)) if theirs > ours => {
            format!("was written by a newer millstream (schema '{shown}', this one reads '{SCHEMA}'); use that one")
        }
        (Some(_), _) => {
            format!("was written by an older millstream (schema '{shown}', this one reads '{SCHEMA}'); measure again")
        }
        (None, _) => format!("is not what 'millstream bench --json' writes: its schema is '{shown}', not '{SCHEMA}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> String {
        Document::from_json(text).unwrap_err()
    }

    #[test]
    fn what_was_written_is_read() {
        let text = serde_json::to_string(&Document::for_tests(Vec::new())).unwrap();
        assert_eq!(serde_json::to_string(&Document::from_json(&text).unwrap()).unwrap(), text);
    }

    #[test]
    fn what_cannot_be_read_says_what_to_do() {
        assert!(why("cells: 5").starts_with("is not JSON"));
        assert!(why("[1, 2]").contains("names no schema"));
        assert!(why(r#"{"schema": "millstream bench 3"}"#).contains("newer millstream"));
        assert!(why(r#"{"schema": "millstream bench 1"}"#).contains("measure again"));
        assert!(why(r#"{"schema": "hyperfine"}"#).contains("its schema is 'hyperfine'"));
        assert!(why(r#"{"schema": "millstream bench 2"}"#).starts_with("is damaged: missing field"));
    }

    #[test]
    fn a_cell_that_no_table_has_a_place_for_is_named() {
        let read = |method: &'static str, params: &[(&'static str, Value)]| {
            let cells = vec![Cell::new(method, "pipe", "1cpu", params.iter().cloned().collect(), "us")];
            Document::from_json(&serde_json::to_string(&Document::for_tests(cells)).unwrap()).map(|_| ())
        };
        for (method, params) in [
            ("bw_pipe", &[("transfer", Value::from(4096))][..]),
            ("lat_fifo", &[("waiting", "asleep".into())]),
            ("fifo_grid", &[("size", 64.into()), ("messages", 100.into())]),
            (
                "lat_mem_rd",
                &[("size", 1.into()), ("stride", 1.into()), ("pages", 1.into()), ("workload", "tlb".into())],
            ),
            ("increment", &[("stages", 8.into()), ("size", 4096.into())]),
            ("pipeflex", &[("size", 512.into()), ("transfer", 4096.into()), ("workload", "study".into())]),
        ] {
            assert_eq!(read(method, params), Ok(()));
            for index in 0..params.len() {
                let (name, mut others) = (params[index].0, params.to_vec());
                others.remove(index);
                let why = read(method, &others).unwrap_err();
                assert!(why.starts_with(&format!("is damaged: cell 1, of {method}, has no ")), "{why}");
                assert!(why.ends_with(&format!("'{name}'")), "{why}");
                others.push((name, Value::Null));
                assert_eq!(read(method, &others).unwrap_err(), why);
            }
        }
        assert_eq!(read("of_tomorrow", &[]), Ok(()));
    }
}
