//! The manual pages and the header tell of the same functions, arguments, constants and errors, and every page can be shown.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn crate_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn header() -> String {
    std::fs::read_to_string(crate_file("include/millstream.h")).unwrap()
}

/// A function of the header.
struct Function {
    /// Its declaration, without white space.
    declaration: String,
    /// What is said about it.
    says: String,
}

/// The functions of the header, by name.
fn functions() -> BTreeMap<String, Function> {
    let header = header();
    // The types come before this.
    let (_, code) = header.split_once("extern \"C\" {").unwrap();
    let mut found = BTreeMap::new();
    for part in code.split("/**").skip(1) {
        let (says, rest) = part.split_once("*/").unwrap();
        let (declaration, _) = rest.split_once(';').unwrap();
        let declaration = compact(&format!("{declaration};"));
        let name = name_of(&declaration);
        found.insert(name, Function { declaration, says: says.to_owned() });
    }
    assert!(found.len() >= 31, "{:?}", found.keys());
    found
}

/// A declaration as it is compared: the manual leaves out 'struct' where the header has a name for the type.
fn compact(declaration: &str) -> String {
    let plain = declaration.replace("struct ms_", "ms_");
    plain.chars().filter(|letter| !letter.is_whitespace()).collect()
}

fn name_of(declaration: &str) -> String {
    let (before, _) = declaration.split_once('(').unwrap();
    let from = before.find("ms_").unwrap();
    before[from..].to_owned()
}

/// The pages of functions by file name, with their text.
fn pages() -> BTreeMap<String, String> {
    let listed = std::fs::read_dir(crate_file("man")).unwrap().map(|entry| entry.unwrap().path());
    let sources = listed.filter(|path| path.extension().is_some_and(|extension| extension == "3"));
    sources
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(&path).unwrap()))
        .collect()
}

/// Those that are no link to another.
fn whole_pages() -> BTreeMap<String, String> {
    pages().into_iter().filter(|(_, text)| !text.starts_with(".so ")).collect()
}

/// The lines of a section, up to the next.
fn section<'t>(page: &'t str, name: &str) -> Vec<&'t str> {
    let heading = format!(".SH {name}");
    page.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with(".SH ")).collect()
}

/// The functions that a page names at its head.
fn names(page: &str) -> Vec<String> {
    let line = section(page, "NAME").concat();
    let (names, _) = line.split_once(r" \- ").unwrap();
    names.split(", ").map(str::to_owned).collect()
}

/// The declarations of a page, without white space.
fn synopsis(page: &str) -> BTreeSet<String> {
    let lines = section(page, "SYNOPSIS");
    let lines = lines.iter().filter_map(|line| line.strip_prefix(".BI ")).map(|line| words(line).concat());
    let text = lines.collect::<Vec<_>>().join(" ");
    text.split_inclusive(';').map(compact).collect()
}

/// The words of a request of roff, of which some are quoted.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('"').enumerate();
    parts.map(|(index, part)| if index % 2 == 0 { part.replace(' ', "") } else { part.to_owned() }).collect()
}

/// Words of capitals that begin so, as 'MS_NONBLOCK' and 'EAGAIN'.
fn constants<'t>(text: &'t str, prefix: &str) -> BTreeSet<&'t str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let is_constant = |word: &&str| {
        word.len() > prefix.len()
            && word.starts_with(prefix)
            && !word.contains(|letter: char| letter.is_ascii_lowercase())
    };
    words.filter(is_constant).collect()
}

#[test]
fn every_function_has_a_page_of_its_name() {
    let pages = pages();
    let declared = functions();
    let expected: Vec<_> = declared.keys().map(|name| format!("{name}.3")).collect();
    assert_eq!(pages.keys().collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    for (file, text) in &pages {
        let Some(target) = text.strip_prefix(".so man3/") else { continue };
        let page = pages.get(target.trim_end()).unwrap_or_else(|| panic!("{file} leads to {target}"));
        let name = file.trim_end_matches(".3").to_owned();
        assert!(names(page).contains(&name), "{target} does not name {name}");
    }
}

#[test]
fn synopsis_of_each_page_is_what_the_header_declares() {
    let declared = functions();
    let mut shown = 0;
    for (file, page) in whole_pages() {
        let named = names(&page);
        assert_eq!(format!("{}.3", named[0]), file, "the first name is the page's");
        let expected: BTreeSet<_> = named.iter().map(|name| declared[name].declaration.clone()).collect();
        assert_eq!(synopsis(&page), expected, "{file}");
        shown += named.len();
    }
    assert_eq!(shown, declared.len());
}

#[test]
fn pages_have_all_errors_and_constants_of_the_header() {
    let declared = functions();
    for (file, page) in whole_pages() {
        let listed = constants(&page, "E");
        for name in names(&page) {
            let told = constants(&declared[&name].says, "E");
            assert!(told.is_subset(&listed), "{file}: {:?} of {name} are missing", told.difference(&listed));
        }
    }
    let header = header();
    // But for the name of a page, in capitals at its head.
    let all: String = whole_pages().values().map(|page| page.split_once(".SH NAME").unwrap().1).collect();
    let (here, there) = (constants(&header, "MS_"), constants(&all, "MS_"));
    assert!(there.is_subset(&here), "not in the header: {:?}", there.difference(&here));
    assert!(here.len() >= 12, "{here:?}");
    let missing: Vec<_> = here.difference(&there).collect();
    assert!(missing.is_empty(), "on no page: {missing:?}");
}

#[test]
fn pages_have_the_members_of_structures_and_lead_to_each_other() {
    let header = header();
    for (name, file) in [("ms_options", "ms_pipe.3"), ("ms_statistics", "ms_stats.3")] {
        let page = &whole_pages()[file];
        let members = |text: &str| {
            let (_, rest) = text.split_once(&format!("typedef struct {name} {{")).unwrap();
            let (inside, _) = rest.split_once('}').unwrap();
            let code = inside.lines().map(str::trim).filter(|line| line.ends_with(';'));
            code.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(members(page), members(&header), "{file}");
        for member in members(page) {
            let member = member.split(' ').nth(1).unwrap().trim_end_matches(';').to_owned();
            assert!(page.contains(&format!(".TP\n.I {member}\n")), "{file} does not explain '{member}'");
        }
    }
    let overview = std::fs::read_to_string(crate_file("man/millstream.7")).unwrap();
    for (file, page) in whole_pages() {
        let name = file.trim_end_matches(".3");
        assert!(overview.contains(&format!(".TP\n.BR {name} (3)\n")), "millstream.7 does not lead to {name}");
        assert!(section(&page, "SEE ALSO").iter().any(|line| line.starts_with(".BR millstream (7)")), "{file}");
        let version = format!("\"millstream {}\"", env!("CARGO_PKG_VERSION"));
        assert!(page.lines().any(|line| line.starts_with(".TH ") && line.contains(&version)), "{file}");
        // Of references to our own functions each has a page.
        for word in page.split(['\n', ',']).filter_map(|line| line.strip_prefix(".BR ms_")) {
            let Some((name, _)) = word.split_once(" (") else { continue };
            assert!(crate_file(&format!("man/ms_{name}.3")).exists(), "{file}: ms_{name}");
        }
    }
}

#[test]
fn pages_are_shown_without_a_warning() {
    // Links are shown as they are installed: tests/library.rs.
    let whole = whole_pages().into_keys().chain(["millstream.7".into()]);
    for page in whole.map(|file| crate_file("man").join(file)) {
        let made = Command::new("groff").args(["-man", "-Tutf8", "-ww", "-z", "-rCHECKSTYLE=3"]).arg(&page).output();
        let made = made.unwrap_or_else(|error| panic!("groff: {error}"));
        let says = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success() && says.is_empty(), "{}: {says}", page.display());
    }
}
