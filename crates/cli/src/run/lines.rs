//! `--unbuffered` for languages whose output does not go through the C library: told in their own variables, which their
//! children inherit. Programs that use stdio are the library's.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::environment::{set, value};
use super::library;

/// As `python -u`.
const PYTHON: &str = "PYTHONUNBUFFERED";
/// Options of Perl. The statement needs a module before it, which every perl has and which does nothing without arguments.
const PERL: (&str, &str) = ("PERL5OPT", "-Mvars;$|=1");
/// Options of Ruby, which takes no statement: a file has it.
const RUBY: &str = "RUBYOPT";
const RUBY_FILE: &str = "unbuffered.rb";

/// Has the programs that get this environment write at once.
pub(super) fn flush_in(environment: &mut Vec<CString>) {
    if value(environment, PYTHON).is_none_or(|value| value.is_empty()) {
        set(environment, PYTHON, Some("1".into()));
    }
    add_option(environment, PERL.0, PERL.1.into());
    if let Some(file) = library::beside(RUBY_FILE) {
        add_option(environment, RUBY, [OsStr::new("-r"), file.as_os_str()].into_iter().collect());
    }
}

/// Behind the user's own options; once, though this may be a run inside a run.
fn add_option(environment: &mut Vec<CString>, name: &str, option: OsString) {
    let present = value(environment, name).unwrap_or_default();
    let is_there = present.as_bytes().split(u8::is_ascii_whitespace).any(|word| word == option.as_bytes());
    if !is_there {
        let words = [present.as_bytes(), option.as_bytes()].join(&b' ');
        set(environment, name, Some(OsString::from_vec(words.trim_ascii_start().to_vec())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(texts: &[&str]) -> Vec<CString> {
        texts.iter().map(|text| CString::new(*text).unwrap()).collect()
    }

    #[test]
    fn options_of_the_user_stay_and_ours_stand_once() {
        let mut environment = entries(&["PERL5OPT=-w -Mstrict", "A=1"]);
        for _ in 0..2 {
            add_option(&mut environment, PERL.0, PERL.1.into());
            add_option(&mut environment, RUBY, "-r/a".into());
        }
        assert_eq!(environment, entries(&["PERL5OPT=-w -Mstrict -Mvars;$|=1", "A=1", "RUBYOPT=-r/a"]));
    }

    #[test]
    fn choice_of_the_user_for_python_stays() {
        for (before, after) in
            [("PYTHONUNBUFFERED=x", "PYTHONUNBUFFERED=x"), ("PYTHONUNBUFFERED=", "PYTHONUNBUFFERED=1")]
        {
            let mut environment = entries(&[before]);
            flush_in(&mut environment);
            assert_eq!(environment[0], *entries(&[after])[0], "{before}");
        }
    }
}
