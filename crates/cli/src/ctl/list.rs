//! Settings for people and for programs.

use comfy_table::{CellAlignment, Table, presets};
use millstream_pipe::settings::{self, Entry, Kind, Name, Report, SettingError, Source};
use serde::Serialize;

use crate::terminal;
use millstream_command::failure::Failure;

/// The settings in `names`, or all, and what is wrong with what they come from.
pub(super) fn render(report: &Report, names: &[Name], json: bool) -> Result<(String, Vec<SettingError>), Failure> {
    let is_meant = |name: &Name| names.is_empty() || names.contains(name);
    let entries: Vec<_> = report.entries.iter().filter(|entry| is_meant(&entry.name)).collect();
    let text = match (json, names) {
        (true, _) => terminal::json(&Settings::of(report, &entries))?,
        (false, []) => table(&entries),
        (false, _) => entries.into_iter().map(at_length).collect(),
    };
    Ok((text, report.errors.clone()))
}

fn table(entries: &[&Entry]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["setting", "value", "from", "allowed", "at most"]);
    for entry in entries {
        let setting = entry.name.setting();
        let limit = entry.limit.as_ref().map_or("-".into(), |limit| setting.kind.show(limit.value));
        table.add_row([
            setting.name.to_owned(),
            entry.shown(),
            entry.source.to_string(),
            setting.kind.to_string(),
            limit,
        ]);
    }
    if let Some(column) = table.column_mut(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = terminal::with_heading(&table.to_string());
    text += "\n";
    for (whose, path) in [("system", Some(settings::system_file())), ("user", settings::user_file())] {
        let Some(path) = path else { continue };
        let is_there = if path.exists() { "" } else { " (not there)" };
        text += &format!("{whose}: {}{is_there}\n", path.display());
    }
    text + "'millstream ctl NAME' tells what a setting means.\n"
}

fn at_length(entry: &Entry) -> String {
    let setting = entry.name.setting();
    let limit = entry
        .limit
        .as_ref()
        .map_or(String::new(), |limit| format!("  at most   {} ({})\n", setting.kind.show(limit.value), limit.source));
    format!(
        "{} = {}\n  {}\n  from      {}\n  default   {}\n  allowed   {}\n{limit}  variable  {}\n",
        setting.name,
        entry.shown(),
        setting.meaning,
        entry.source,
        setting.kind.show(setting.default),
        setting.kind,
        entry.name.variable(),
    )
}

/// The field names are the JSON format, described in `docs/settings.md`.
#[derive(Serialize)]
struct Settings {
    schema: &'static str,
    system_file: String,
    user_file: Option<String>,
    settings: Vec<Setting>,
    complaints: Vec<Said>,
}

#[derive(Serialize)]
struct Setting {
    name: &'static str,
    /// A number, or one of `choices`.
    value: Value,
    unit: &'static str,
    source: Place,
    default: Value,
    least: Option<u64>,
    most: Option<u64>,
    choices: Option<&'static [&'static str]>,
    limit: Option<Limit>,
    variable: String,
    meaning: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Value {
    Number(u64),
    Word(String),
}

#[derive(Serialize)]
struct Place {
    /// `default`, `file` or `environment`.
    kind: &'static str,
    file: Option<String>,
    line: Option<usize>,
    variable: Option<String>,
}

#[derive(Serialize)]
struct Limit {
    value: u64,
    source: Place,
}

#[derive(Serialize)]
struct Said {
    source: Place,
    says: String,
}

impl Settings {
    fn of(report: &Report, entries: &[&Entry]) -> Settings {
        let complaints = report.errors.iter();
        Settings {
            schema: "millstream ctl 1",
            system_file: settings::system_file().display().to_string(),
            user_file: settings::user_file().map(|path| path.display().to_string()),
            settings: entries.iter().map(|entry| Setting::of(entry)).collect(),
            complaints: complaints
                .map(|said| Said { source: Place::of(&said.source), says: said.says.clone() })
                .collect(),
        }
    }
}

impl Setting {
    fn of(entry: &Entry) -> Setting {
        let setting = entry.name.setting();
        let value = |value| match setting.kind {
            Kind::Choice(_) => Value::Word(setting.kind.show(value)),
            _ => Value::Number(value),
        };
        let range = setting.kind.range();
        Setting {
            name: setting.name,
            value: value(entry.value),
            unit: setting.kind.unit(),
            source: Place::of(&entry.source),
            default: value(setting.default),
            least: range.map(|(least, _)| least),
            most: range.map(|(_, most)| most),
            choices: match setting.kind {
                Kind::Choice(words) => Some(words),
                _ => None,
            },
            limit: entry.limit.as_ref().map(|limit| Limit { value: limit.value, source: Place::of(&limit.source) }),
            variable: entry.name.variable(),
            meaning: setting.meaning,
        }
    }
}

impl Place {
    fn of(source: &Source) -> Place {
        let nowhere = Place { kind: "default", file: None, line: None, variable: None };
        match source {
            Source::File { path, line } => {
                Place { kind: "file", file: Some(path.display().to_string()), line: Some(*line), ..nowhere }
            }
            Source::Environment(variable) => Place { kind: "environment", variable: Some(variable.clone()), ..nowhere },
            _ => nowhere,
        }
    }
}
