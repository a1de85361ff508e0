//! Rules: which files are transformed, how, and under which names they appear.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::line::{SizeFrom, WriteNetwork, network};
use crate::pattern::{Pattern, Shape};
use crate::view::View;

/// The rules of a mount, in the order in which they are asked.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub(crate) rules: Vec<Rule>,
    generated: Vec<Generated>,
    /// Where indexes are kept for the next mount.
    pub(crate) index_cache: Option<PathBuf>,
}

/// A file that is not in the source: its bytes are what a network makes of nothing.
#[derive(Clone, Debug)]
struct Generated {
    /// Relative to the root.
    directory: Vec<u8>,
    name: Vec<u8>,
    view: Arc<View>,
}

/// A rule that was checked.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) pattern: Pattern,
    /// How the name appears. `None`: as it is.
    pub(crate) shown_as: Option<Shape>,
    pub(crate) view: Arc<View>,
    pub(crate) shows_source: bool,
}

/// The file of rules, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    index_cache: Option<PathBuf>,
    #[serde(default, rename = "rule")]
    rules: Vec<WrittenRule>,
    #[serde(default, rename = "generate")]
    generated: Vec<WrittenGenerated>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenGenerated {
    name: String,
    read: String,
    timeout: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRule {
    #[serde(rename = "match")]
    pattern: String,
    #[serde(rename = "as")]
    shown_as: Option<String>,
    read: Option<String>,
    write: Option<WriteWith>,
    size: Option<SizeFrom>,
    #[serde(default)]
    show_source: bool,
    timeout: Option<String>,
    #[serde(default)]
    digest: bool,
    archive: Option<ArchiveFormat>,
}

/// What kind of archive a file is whose members are shown.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ArchiveFormat {
    Tar,
}

/// `write = "gzip -9"`, or `write = false`.
#[derive(Deserialize)]
#[serde(untagged)]
enum WriteWith {
    Network(String),
    Allowed(bool),
}

/// The end of the names of digests.
const DIGEST_END: &str = ".digest";

/// First transforms of a read network, and the ends of the names of files that they are for.
const USUAL_ENDS: [(&str, &str); 6] =
    [("gunzip", ".gz"), ("unzstd", ".zst"), ("unxz", ".xz"), ("unlz4", ".lz4"), ("unbrotli", ".br"), ("unage", ".age")];

impl Rules {
    /// Reads a file of rules.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence with the name of the file.
    pub fn from_file(path: &Path) -> Result<Rules, String> {
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("cannot read '{}': {error}", path.display()))?;
        Rules::from_toml(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Reads rules as TOML.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn from_toml(text: &str) -> Result<Rules, String> {
        let written: Written = toml::from_str(text).map_err(|error| error.to_string().trim_end().replace('\n', " "))?;
        if written.rules.is_empty() && written.generated.is_empty() {
            return Err("there is no [[rule]] in it".into());
        }
        let checked = |(place, rule): (usize, WrittenRule)| {
            rule.checked().map_err(|error| format!("rule {}: {error}", place + 1))
        };
        let rules = written.rules.into_iter().enumerate().map(checked).collect::<Result<Vec<_>, _>>()?;
        let mut generated: Vec<Generated> = Vec::new();
        for (place, written) in written.generated.into_iter().enumerate() {
            let (number, name) = (place + 1, written.name.clone());
            let file = written.checked().map_err(|error| format!("generate {number}: {error}"))?;
            if generated.iter().any(|other| (&other.directory, &other.name) == (&file.directory, &file.name)) {
                return Err(format!("generate {number}: the name '{name}' is there twice"));
            }
            generated.push(file);
        }
        if let Some(path) = written.index_cache.as_ref().filter(|path| !path.is_absolute()) {
            return Err(format!(
                "index_cache = '{}' has to begin with '/': a mount has no directory of its own",
                path.display()
            ));
        }
        Ok(Rules { rules: rules.concat(), generated, index_cache: written.index_cache })
    }

    /// One rule for the whole directory, from its read network: files with the usual end of the format's name appear without
    /// it (`gunzip` is for `*.gz`); other networks are for all files.
    ///
    /// # Errors
    /// What is wrong with the network, as a sentence.
    pub fn from_line(read: &str) -> Result<Rules, String> {
        let first = read.split(['|', ' ']).find(|word| !word.is_empty()).unwrap_or_default();
        let end = USUAL_ENDS.iter().find(|(transform, _)| *transform == first).map(|(_, end)| *end);
        let rule = WrittenRule {
            pattern: format!("*{}", end.unwrap_or_default()),
            shown_as: end.map(|_| "*".into()),
            read: Some(read.into()),
            write: None,
            size: None,
            show_source: false,
            timeout: None,
            digest: false,
            archive: None,
        };
        Ok(Rules { rules: rule.checked()?, generated: Vec::new(), index_cache: None })
    }

    /// Whether anything depends on the directory.
    pub(crate) fn look_at_directories(&self) -> bool {
        !self.generated.is_empty() || self.rules.iter().any(|rule| rule.pattern.has_directory())
    }

    /// What gives the bytes of a file that is not in the source.
    pub(crate) fn generated(&self, directory: &[u8], name: &[u8]) -> Option<&Arc<View>> {
        let is_named = |file: &&Generated| file.directory == directory && file.name == name;
        self.generated.iter().find(is_named).map(|file| &file.view)
    }

    /// The names of such files in a directory.
    pub(crate) fn generated_in<'a>(&'a self, directory: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.generated.iter().filter(move |file| file.directory == directory).map(|file| file.name.as_slice())
    }

    /// The views of a source: the names under which it appears, and the rule for each.
    pub(crate) fn views_of<'a>(
        &'a self,
        directory: &'a [u8],
        source: &'a [u8],
    ) -> impl Iterator<Item = (Vec<u8>, &'a Rule)> {
        self.rules.iter().filter_map(move |rule| {
            let parts = rule.pattern.name().matched(source).filter(|_| rule.pattern.is_for(directory))?;
            let name = rule.shown_as.as_ref().map_or_else(|| source.into(), |shape| shape.filled(&parts));
            (!name.is_empty()).then_some((name, rule))
        })
    }

    /// The sources that could appear under a name, and the rule for each, in the order of the rules.
    pub(crate) fn sources_of<'a>(
        &'a self,
        directory: &'a [u8],
        name: &'a [u8],
    ) -> impl Iterator<Item = (Vec<u8>, &'a Rule)> {
        self.rules.iter().filter(move |rule| rule.pattern.is_for(directory)).filter_map(move |rule| {
            let source = match &rule.shown_as {
                Some(shape) => rule.pattern.name().filled(&shape.matched(name)?),
                None => rule.pattern.name().matched(name).map(|_| name.to_vec())?,
            };
            // What another rule shows of it does not count: this one has to show it so.
            let shows = |(shown, by): (Vec<u8>, &Rule)| shown == name && std::ptr::eq(by, rule);
            let is_shown = self.views_of(directory, &source).any(shows);
            is_shown.then_some((source, rule))
        })
    }

    /// Whether a source appears under its own name, untransformed.
    pub(crate) fn shows_source(&self, directory: &[u8], source: &[u8]) -> bool {
        self.views_of(directory, source).all(|(name, rule)| rule.shows_source && name != source)
    }
}

impl WrittenRule {
    /// The rule for the files, and that for their digests, as far as both are asked for.
    fn checked(self) -> Result<Vec<Rule>, String> {
        let pattern = Pattern::new(&self.pattern)?;
        let shown_as = self.shown_as.as_deref().map(Shape::new).transpose()?;
        if let Some(shape) = &shown_as {
            let name = pattern.name();
            if !shape.can_be_filled() || !name.can_be_filled() {
                return Err(format!("with 'as', only stars can be in the pattern '{}'", self.pattern));
            }
            if shape.stars() != name.stars() {
                return Err(format!(
                    "as = '{}' needs as many stars as the pattern '{}'",
                    self.shown_as.unwrap_or_default(),
                    self.pattern
                ));
            }
        }
        let write = match &self.write {
            None | Some(WriteWith::Allowed(true)) => WriteNetwork::Inverse,
            Some(WriteWith::Allowed(false)) => WriteNetwork::None,
            Some(WriteWith::Network(line)) => WriteNetwork::Given(network(line)?),
        };
        let timeout = self.timeout.as_deref().map(duration).transpose()?;
        let read = match &self.read {
            Some(read) => network(read)?,
            None if self.digest || self.archive.is_some() => network("identity")?,
            None => return Err("'read' is missing: the network that the bytes go through".into()),
        };
        if let Some(ArchiveFormat::Tar) = self.archive {
            self.check_archive()?;
            let view = View::new(read, WriteNetwork::None, SizeFrom::Scan)?.limited(timeout)?.of_archive();
            return Ok(vec![Rule { pattern, shown_as, view: Arc::new(view), shows_source: self.show_source }]);
        }
        let view = Arc::new(View::new(read, write, self.size.unwrap_or_default())?.limited(timeout)?);
        let mut rules = Vec::new();
        if self.digest {
            let name = shown_as.as_ref().unwrap_or(pattern.name());
            if !name.can_be_filled() {
                return Err(format!("with 'digest', only stars can be in the pattern '{}'", self.pattern));
            }
            let shown_as = Some(name.with_end(DIGEST_END)?);
            let view = Arc::new(View::digest_of(Arc::clone(&view)));
            rules.push(Rule { pattern: pattern.clone(), shown_as, view, shows_source: true });
        }
        if self.read.is_some() {
            rules.insert(0, Rule { pattern, shown_as, view, shows_source: self.show_source });
        }
        Ok(rules)
    }
}

impl WrittenRule {
    /// The members of an archive are as it says.
    fn check_archive(&self) -> Result<(), String> {
        let is_written = !matches!(self.write, None | Some(WriteWith::Allowed(false)));
        for (is_given, key, why) in [
            (is_written, "write", "the members of an archive cannot be changed"),
            (self.size.is_some(), "size", "the archive says how large its members are"),
            (self.digest, "digest", "an archive appears as a directory"),
        ] {
            if is_given {
                return Err(format!("'{key}' cannot be used with 'archive': {why}"));
            }
        }
        Ok(())
    }
}

impl WrittenGenerated {
    fn checked(self) -> Result<Generated, String> {
        let name = self.name.trim_start_matches('/');
        let is_file = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
        if !name.split('/').all(is_file) {
            return Err(format!("name = '{}' is no name of a file (use 'now' or 'status/now', say)", self.name));
        }
        let (directory, name) = name.rsplit_once('/').unwrap_or(("", name));
        let timeout = self.timeout.as_deref().map(duration).transpose()?;
        let view = View::new(network(&self.read)?, WriteNetwork::None, SizeFrom::Unknown)?.limited(timeout)?;
        Ok(Generated { directory: directory.into(), name: name.into(), view: Arc::new(view) })
    }
}

/// A time as it is written: `500ms`, `30s`, `5m`, `1h`.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    let total = number.parse::<u64>().ok().and_then(|number| number.checked_mul(milliseconds));
    match total {
        Some(total @ 1..) => Ok(Duration::from_millis(total)),
        _ => Err(format!("timeout = '{text}' is no time; write it as '500ms', '30s', '5m' or '1h'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn views(rules: &Rules, source: &str) -> Vec<String> {
        rules.views_of(b"", source.as_bytes()).map(|(name, _)| String::from_utf8(name).unwrap()).collect()
    }

    fn sources(rules: &Rules, name: &str) -> Vec<String> {
        rules.sources_of(b"", name.as_bytes()).map(|(name, _)| String::from_utf8(name).unwrap()).collect()
    }

    #[test]
    fn line_is_for_the_usual_names() {
        let rules = Rules::from_line("gunzip | upper").unwrap();
        assert_eq!(views(&rules, "a.gz"), ["a"]);
        assert_eq!(views(&rules, "a.txt"), [""; 0]);
        assert_eq!(sources(&rules, "a"), ["a.gz"]);
        assert!(!rules.shows_source(b"", b"a.gz") && rules.shows_source(b"", b"a.txt"));
        let rules = Rules::from_line("rot13").unwrap();
        assert_eq!(views(&rules, "a.gz"), ["a.gz"]);
        assert_eq!(sources(&rules, "a.gz"), ["a.gz"]);
        assert!(!rules.shows_source(b"", b"a.gz"));
    }

    #[test]
    fn one_source_has_many_views() {
        let rules = Rules::from_toml(
            "[[rule]]\nmatch = '*.txt'\nas = '*.upper'\nread = 'upper'\nshow_source = true\n\
             [[rule]]\nmatch = '*.txt'\nas = '*.rot13'\nread = 'rot13'\nshow_source = true\n",
        )
        .unwrap();
        assert_eq!(views(&rules, "a.txt"), ["a.upper", "a.rot13"]);
        assert_eq!(sources(&rules, "a.rot13"), ["a.txt"]);
        assert_eq!(sources(&rules, "a.txt"), [""; 0]);
        assert!(rules.shows_source(b"", b"a.txt"));
    }

    #[test]
    fn digest_stands_beside_the_view_or_the_file() {
        let rules = Rules::from_toml("[[rule]]\nmatch='*.gz'\nas='*'\nread='gunzip'\ndigest=true\n").unwrap();
        assert_eq!(views(&rules, "a.gz"), ["a", "a.digest"]);
        assert_eq!(sources(&rules, "a.digest"), ["a.digest.gz", "a.gz"]);
        assert!(!rules.shows_source(b"", b"a.gz"));
        let rules = Rules::from_toml("[[rule]]\nmatch='*.iso'\ndigest=true\n").unwrap();
        assert_eq!(views(&rules, "a.iso"), ["a.iso.digest"]);
        assert!(rules.shows_source(b"", b"a.iso"));
    }

    #[test]
    fn wrong_rules_are_told_with_their_number() {
        let wrong = |toml: &str| Rules::from_toml(toml).unwrap_err();
        assert!(wrong("").contains("no [[rule]]"));
        assert!(wrong("[[rule]]\nmatch='*'\nread='gunzap'\n").starts_with("rule 1: 'gunzap': there is no transform"));
        assert!(wrong("[[rule]]\nmatch='*.gz'\nas='x'\nread='gunzip'\n").contains("as many stars"));
        assert!(wrong("[[rule]]\nmatch='*'\nread='read a | upper'\n").contains("names a file"));
        assert!(wrong("[[rule]]\nmatch='*'\nread='sha256 sum'\n").contains("writes a file of its own"));
        assert!(wrong("[[rule]]\nmatch='*'\nread='upper'\nzise='scan'\n").contains("zise"));
        assert!(wrong("[[rule]]\nmatch='*'\nread='upper'\nsize='never'\n").contains("never"));
        assert!(wrong("[[rule]]\nmatch='*'\nread='upper'\ntimeout='1s'\n").contains("is for commands"));
        assert!(wrong("[[rule]]\nmatch='*'\n").contains("'read' is missing"));
        assert!(wrong("[[rule]]\nmatch='?'\ndigest=true\n").contains("only stars"));
        let archive = |more: &str| wrong(&format!("[[rule]]\nmatch='*.tar'\narchive='tar'\n{more}\n"));
        assert!(archive("write='gzip'").contains("'write' cannot be used with 'archive'"));
        assert!(archive("size='scan'").contains("'size' cannot be used with 'archive'"));
        assert!(archive("digest=true").contains("'digest' cannot be used with 'archive'"));
        assert!(wrong("[[rule]]\nmatch='*'\narchive='zip'\n").contains("zip"));
        assert!(wrong("index_cache='x'\n[[rule]]\nmatch='*'\nread='upper'\n").contains("'x' has to begin with '/'"));
        for name in ["", "/", "a/", "../a", "a//b", "."] {
            let error = wrong(&format!("[[generate]]\nname='{name}'\nread='exec date'\n"));
            assert!(error.starts_with("generate 1: name = ") && error.contains("is no name of a file"), "{error}");
        }
        let twice = "[[generate]]\nname='a'\nread='exec date'\n".repeat(2);
        assert!(wrong(&twice).starts_with("generate 2: the name 'a' is there twice"));
        for time in ["30", "s", "0s", "-1s", "1d", "99999999999999999999s"] {
            let error = wrong(&format!("[[rule]]\nmatch='*'\nread='exec cat'\ntimeout='{time}'\n"));
            assert!(error.contains(&format!("timeout = '{time}' is no time")), "{error}");
        }
    }
}
