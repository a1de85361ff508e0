//! The documents cannot drift from the program: links lead somewhere, shell sessions print what they show, and every
//! option is described.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Scratch, millstream, output, program};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn documents() -> Vec<(PathBuf, String)> {
    let (root, mut found) = (root(), Vec::new());
    for directory in [root.clone(), root.join("docs"), root.join("docs/design")] {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    assert!(found.len() >= 24, "{found:?}");
    found
}

/// Targets of `[text](target)` outside of code blocks.
fn links(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|part| part.split("](").skip(1)).filter_map(|rest| rest.split(')').next()).collect()
}

/// The anchor of a heading, as code hosts make it.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let kept = line.trim_start_matches('#').trim().to_lowercase();
            kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>().replace(' ', "-")
        })
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut checked = 0;
    for (path, text) in documents() {
        for link in links(&text) {
            if link.starts_with("https://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link}", path.display());
            if !anchor.is_empty() {
                let anchors = anchors(&fs::read_to_string(&target).unwrap());
                assert!(anchors.iter().any(|known| known == anchor), "{}: {link}: {anchors:?}", path.display());
            }
            checked += 1;
        }
    }
    assert!(checked > 10, "only {checked} links were found");
}

#[test]
fn site_has_every_page_once() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let mut listed: Vec<PathBuf> =
        links(&summary).iter().map(|link| root().join("docs").join(link).canonicalize().unwrap()).collect();
    let mut pages: Vec<PathBuf> = documents().into_iter().map(|(path, _)| path).collect();
    pages.retain(|path| !path.ends_with("SUMMARY.md"));
    listed.sort();
    pages.sort();
    assert_eq!(listed, pages);
}

/// Each `$ command` of a console block, with the lines that follow it.
fn sessions(text: &str) -> Vec<(String, Vec<String>)> {
    let mut sessions: Vec<(String, Vec<String>)> = Vec::new();
    let blocks = text.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("console\n"));
    for line in blocks.flat_map(str::lines) {
        match (line.strip_prefix("$ "), sessions.last_mut()) {
            (Some(command), _) => sessions.push((command.to_owned(), Vec::new())),
            (None, Some((_, shown))) => shown.push(line.to_owned()),
            (None, None) => panic!("output before a command: {line}"),
        }
    }
    sessions
}

/// `...` in a document stands for anything.
fn matches(shown: &str, line: &str) -> bool {
    let mut rest = line;
    let parts: Vec<&str> = shown.split("...").collect();
    for (index, part) in parts.iter().enumerate() {
        match rest.find(part) {
            Some(at) if index > 0 || at == 0 => rest = &rest[at + part.len()..],
            _ => return false,
        }
    }
    rest.is_empty() || shown.ends_with("...")
}

#[test]
fn every_shell_session_prints_what_it_shows() {
    let path = format!("{}:{}", Path::new(program()).parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut ran = 0;
    for (document, text) in documents() {
        let scratch = Scratch::new();
        std::os::unix::fs::symlink(root().join("templates"), scratch.path("templates")).unwrap();
        for (command, shown) in sessions(&text) {
            let seen = output(
                Command::new("bash")
                    .args(["-c", &command])
                    .current_dir(scratch.path(""))
                    .env("PATH", &path)
                    .env("SHELL", "/bin/bash")
                    .env("XDG_CACHE_HOME", scratch.path("cache"))
                    .env("XDG_DATA_HOME", scratch.path("data"))
                    .env("XDG_CONFIG_HOME", scratch.path("config"))
                    .env_remove("LD_PRELOAD"),
            );
            let printed: Vec<&str> = seen.stdout.lines().chain(seen.stderr.lines()).collect();
            let is_same =
                printed.len() == shown.len() && shown.iter().zip(&printed).all(|(shown, line)| matches(shown, line));
            assert!(is_same, "{}: $ {command}\nshown: {shown:#?}\nprinted: {printed:#?}", document.display());
            ran += 1;
        }
    }
    assert!(ran >= 8, "only {ran} commands were found");
}

#[test]
fn every_option_is_described() {
    for (command, document) in [
        (&["run"][..], "docs/run.md"),
        (&["ctl"], "docs/settings.md"),
        (&["ps"], "docs/settings.md"),
        (&["gc"], "docs/settings.md"),
        (&["fifo", "open"], "docs/fifo.md"),
        (&["fifo", "read"], "docs/fifo.md"),
        (&["fifo", "write"], "docs/fifo.md"),
        (&["net"], "docs/networks.md"),
        (&["net", "run"], "docs/networks.md"),
        (&["mount"], "docs/mount.md"),
        (&["mounts"], "docs/mount.md"),
        (&["link"], "docs/mount.md"),
        (&["bench"], "docs/benchmarks.md"),
        (&["bench", "grep"], "docs/benchmarks.md"),
        (&["bench", "bw_pipe"], "docs/benchmarks.md"),
        (&["bench", "bw_unix"], "docs/benchmarks.md"),
        (&["bench", "bw_tcp"], "docs/benchmarks.md"),
        (&["bench", "lat_pipe"], "docs/benchmarks.md"),
        (&["bench", "lat_fifo"], "docs/benchmarks.md"),
        (&["bench", "lat_unix"], "docs/benchmarks.md"),
        (&["bench", "lat_mem_rd"], "docs/benchmarks.md"),
        (&["bench", "bw_file_rd"], "docs/benchmarks.md"),
        (&["bench", "bw_mmap_rd"], "docs/benchmarks.md"),
        (&["bench", "memcpy"], "docs/benchmarks.md"),
        (&["bench", "cache_to_cache"], "docs/benchmarks.md"),
        (&["bench", "pipeflex"], "docs/benchmarks.md"),
        (&["bench", "fifo_grid"], "docs/benchmarks.md"),
        (&["bench", "increment"], "docs/benchmarks.md"),
        (&["bench", "file"], "docs/benchmarks.md"),
        (&["bench", "seeds"], "docs/benchmarks.md"),
        (&["bench", "history"], "docs/benchmarks.md"),
        (&["bench", "compare"], "docs/benchmarks.md"),
    ] {
        let help = output(&mut millstream([command, &["--help"]].concat())).stdout;
        let text = fs::read_to_string(root().join(document)).unwrap();
        let lines_of_options = help.lines().filter(|line| line.trim().starts_with('-'));
        let options: Vec<&str> = lines_of_options
            .flat_map(|line| line.split(|c: char| c.is_whitespace() || "[]=,".contains(c)))
            .filter(|word| word.starts_with("--") && *word != "--help")
            .collect();
        assert!(!options.is_empty(), "{help}");
        for option in options {
            let words = text.split(|c: char| !c.is_alphanumeric() && c != '-');
            assert!(words.clone().any(|word| word == option), "{document} does not mention {option}");
        }
    }
}

#[test]
fn manual_pages_use_the_words_of_the_glossary() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("pages")).unwrap();
    let seen = output(millstream(["man", "--all"]).arg(scratch.path("pages")));
    assert_eq!(seen.code, Some(0), "{seen:?}");
    let pages = fs::read_dir(scratch.path("pages")).unwrap().map(|page| page.unwrap().path());
    let pages: Vec<PathBuf> = pages.collect();
    assert!(pages.len() >= 16, "{pages:?}");
    let seen = output(Command::new(root().join("scripts/check-words")).args(pages));
    assert_eq!(seen.code, Some(0), "{seen:?}");
}

/// What `make check-figures` runs, over a copy.
#[test]
fn figures_that_differ_from_their_data_are_an_error() {
    let scratch = Scratch::new();
    for part in ["scripts", "bench", "docs", "README.md"] {
        let copied = Command::new("cp").arg("-r").arg(root().join(part)).arg(scratch.path("")).status().unwrap();
        assert!(copied.success());
    }
    let run = |arguments: &[&str]| output(Command::new(scratch.path("scripts/make-figures")).args(arguments));
    assert_eq!(run(&["--check"]).code, Some(0));
    let page = scratch.path("docs/benchmarks.md");
    let agreed = fs::read_to_string(&page).unwrap();
    fs::write(&page, agreed.replacen("GB/s, each end", "MB/s, each end", 1)).unwrap();
    let seen = run(&["--check"]);
    assert!(seen.code == Some(1) && seen.stderr.contains("docs/benchmarks.md:"), "{seen:?}");
    assert!(seen.stderr.contains("does not agree with bench/results"), "{seen:?}");
    assert_eq!(run(&[]).code, Some(0));
    assert_eq!(fs::read_to_string(&page).unwrap(), agreed);
    for (wrong, sentence) in [
        (agreed.replace(" bw_pipe 2cpu -->", " bw_pope -->"), "there is no table 'bw_pope'"),
        (agreed.replace("<!-- figures: ", "<!-- figures: no-such-"), "which is no directory of bench/results"),
        (agreed.replacen("<!-- end of figures -->", "", 1), "a block of figures does not end"),
        (agreed.replace("<!-- figures: ", "<!-- formerly: "), "blocks of figures were found"),
    ] {
        fs::write(&page, wrong).unwrap();
        let seen = run(&["--check"]);
        assert!(seen.code == Some(1) && seen.stderr.contains(sentence), "{sentence}: {seen:?}");
    }
    let seen = run(&["--add", "somewhere", &scratch.file("x.json", r#"{"schema": "other"}"#)]);
    assert!(seen.code == Some(1) && seen.stderr.contains("is no result of 'millstream bench'"), "{seen:?}");
}

#[test]
fn the_readme_names_both_commands_and_the_licences_are_there() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains("make demo") && readme.contains("make test"));
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(fs::metadata(root().join(licence)).unwrap().len() > 1000);
    }
}
