//! The header is what cbindgen makes, compiles, and tells of the same functions as the list of symbol versions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn crate_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(crate_file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The names of functions in a text: `ms_` and what follows, up to an opening parenthesis.
fn functions_of(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != '(');
    words.filter(|word| word.starts_with("ms_")).filter_map(|word| word.split_once('(')).map(|(name, _)| name).collect()
}

/// With MILLSTREAM_WRITE_HEADER=1 it is written instead.
#[test]
fn committed_header_is_what_cbindgen_makes() {
    let config = cbindgen::Config::from_file(crate_file("cbindgen.toml")).unwrap();
    let bindings = cbindgen::generate_with_config(env!("CARGO_MANIFEST_DIR"), config).unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    // What Rust calls safety.
    let made = String::from_utf8(made).unwrap().replace(" * # Safety\n", " * Requires:\n");
    if std::env::var_os("MILLSTREAM_WRITE_HEADER").is_some_and(|value| value == "1") {
        std::fs::write(crate_file("include/millstream.h"), &made).unwrap();
    }
    assert_eq!(read("include/millstream.h"), made, "run 'MILLSTREAM_WRITE_HEADER=1 cargo test -p millstream-capi'");
}

#[test]
fn header_compiles_without_a_warning_as_c_and_cpp() {
    let include = crate_file("include");
    for (compiler, standard, language) in
        [("cc", "c99", "c"), ("cc", "c17", "c"), ("g++", "c++17", "c++"), ("g++", "c++20", "c++")]
    {
        let checked = Command::new(compiler)
            .args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"])
            .arg(format!("-std={standard}"))
            .args(["-x", language])
            .arg(include.join("millstream.h"))
            .output()
            .unwrap_or_else(|error| panic!("{compiler}: {error}"));
        assert!(checked.status.success(), "{compiler} -std={standard}: {}", String::from_utf8_lossy(&checked.stderr));
    }
}

#[test]
fn every_function_has_a_symbol_version() {
    let header = read("include/millstream.h");
    let map = read("libmillstream.map");
    let code: Vec<_> = header.lines().filter(|line| !line.trim_start().starts_with(['*', '/', '#'])).collect();
    let code = code.join("\n");
    let declared = functions_of(&code);
    assert!(declared.len() >= 31, "{declared:?}");
    let versioned: BTreeSet<_> = map.lines().filter_map(|line| line.trim().strip_suffix(';')).collect();
    let versioned: BTreeSet<_> = versioned.into_iter().filter(|name| name.starts_with("ms_")).collect();
    assert_eq!(declared, versioned);
}
