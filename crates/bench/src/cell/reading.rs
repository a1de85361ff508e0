//! Results that were kept: read again, or refused with what to do instead.

use serde_json::Value;

use super::{Document, SCHEMA};

impl Document {
    /// What `--json` wrote.
    ///
    /// # Errors
    /// A sentence without a subject, as in "is not JSON": the text is not JSON, is not the result of a measurement, is of
    /// another schema, or lacks something that its schema has.
    pub fn from_json(text: &str) -> Result<Document, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
        let schema = value.get("schema").and_then(Value::as_str);
        match schema {
            Some(SCHEMA) => serde_json::from_value(value).map_err(|error| format!("is damaged: {error}")),
            Some(other) => Err(refusal(other)),
            None => Err("is not what 'millstream bench --json' writes: it names no schema".into()),
        }
    }
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
}
