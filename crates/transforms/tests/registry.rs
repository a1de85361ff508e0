//! A program's own transforms beside those of millstream: everything that knows transforms by name knows them too.

use millstream_net::{
    Data, Network, Next, Options, Plan, Registry, Rewrite, Size, Stage, Step, Transform, TransformError, check, doc,
    explain, list, run,
};
use millstream_transforms::ALL;

/// `every N FROM`: keeps each Nth byte. It has a state of its own, which no table of constants could give it.
struct Every {
    least: usize,
}

impl Transform for Every {
    fn name(&self) -> &str {
        "every"
    }

    fn usage(&self) -> &str {
        "every N"
    }

    fn summary(&self) -> &str {
        "one byte of N"
    }

    fn gives(&self) -> Data {
        Data::Format("thinned")
    }

    fn build(&self, arguments: &[String]) -> Result<Stage, String> {
        let step = match arguments {
            [number] => number.parse().ok().filter(|step| *step >= self.least),
            _ => None,
        };
        let step = step.ok_or_else(|| format!("N is a number from {} on", self.least))?;
        Ok(Stage::rewrite(Size::Unknown, Thinning { step, left: 0 }))
    }
}

struct Thinning {
    step: usize,
    left: usize,
}

impl Rewrite for Thinning {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let (mut consumed, mut produced) = (0, 0);
        while consumed < input.len() && produced < output.len() {
            if self.left == 0 {
                if input[consumed] == b'!' {
                    return Err(TransformError::new("an exclamation mark").after(consumed));
                }
                output[produced] = input[consumed];
                produced += 1;
                self.left = self.step;
            }
            self.left -= 1;
            consumed += 1;
        }
        let next = if ends && consumed == input.len() { Next::Done } else { Next::More };
        Ok(Step { consumed, produced, next })
    }
}

fn with_every() -> Registry<'static> {
    let mut registry = Registry::of(ALL);
    registry.add(Every { least: 2 }).unwrap();
    registry
}

fn failure(line: &str) -> String {
    let network = Network::from_line(line).unwrap();
    run::in_memory(&network, &with_every().catalogue(), b"0123456!89", &Options::default()).unwrap_err().to_string()
}

#[test]
fn own_transforms_work_in_a_line_and_in_a_file() {
    let registry = with_every();
    let line = Network::from_line("increment | every 3 | hex | unhex | gzip | gunzip").unwrap();
    let table = Network::from_toml(&line.to_toml()).unwrap();
    for network in [line, table] {
        let output = run::in_memory(&network, &registry.catalogue(), b"0123456789", &Options::default());
        assert_eq!(output.unwrap(), b"147:");
    }
    let text = "[nodes.in]\nread = '-'\n[nodes.a]\nfrom = 'in'\ndo = 'every 2'\n[nodes.out]\nfrom = 'a'\nwrite = '-'\n\
                [[test]]\nname = 'half'\ninput.in = 'abcd'\noutput.out = 'ac'";
    let network = Network::from_toml(text).unwrap();
    assert_eq!(run::test(&network, &registry.catalogue(), &network.tests[0]), Ok(()));
}

#[test]
fn own_transforms_are_listed_and_described() {
    let registry = with_every();
    let list = list(&registry.catalogue());
    assert!(list.lines().count() == ALL.len() + 1 && list.ends_with("one byte of N\n"), "{list}");
    let page = doc(&registry.catalogue(), "every").unwrap();
    assert_eq!(page, "every\n  one byte of N\n\nused as:  every N\ninput:    bytes\noutput:   thinned\n");
    let catalogue = registry.catalogue();
    let network = Network::from_line("every 2").unwrap();
    let checked = check::check(&network, &catalogue).unwrap();
    let explained = explain(&checked, &Plan::of(&checked, &Options { threads: 2, ..Options::default() }).unwrap());
    assert!(explained.contains("every 2  one copy, into a buffer of its own, in a thread of its own"), "{explained}");
}

#[test]
fn errors_of_own_transforms_read_like_those_of_the_others() {
    for (line, error) in [
        ("evry 2", "there is no transform 'evry' (did you mean 'every'?)"),
        ("every", "every: N is a number from 2 on; it is used as: every N"),
        ("every 1", "every: N is a number from 2 on; it is used as: every N"),
        (
            "every 2 | gunzip",
            "between 'every' and 'gunzip': 'every' gives the format thinned, and 'gunzip' takes the format gzip",
        ),
        ("swab | every 3", "every 3: at byte 6 of its input: an exclamation mark"),
    ] {
        assert_eq!(failure(line), error);
    }
    assert!(Registry::of(ALL).add(Every { least: 0 }).is_ok());
    assert!(with_every().add(Every { least: 0 }).is_err());
}
