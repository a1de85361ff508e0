//! The list of pipelines: the program's own, or a user's in the same format. `pipelines.txt` says what that is.

use std::collections::BTreeSet;

use super::generators::GENERATED;
use crate::programs::installed;

/// The program's own.
const OWN: &str = include_str!("pipelines.txt");

/// Pipelines, and what makes the data that they read.
#[derive(Clone, Debug, Default)]
pub struct Corpus {
    /// In the order of the list.
    pub pipelines: Vec<Pipeline>,
    pub(super) recipes: Vec<Recipe>,
}

/// A script that is measured.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// Lower-case letters, digits and hyphens.
    pub name: String,
    /// What kind of program it is about.
    pub class: String,
    needs: Vec<String>,
    pub(super) data: Vec<String>,
    pub(super) script: String,
}

/// A script that makes data.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    pub(super) name: String,
    needs: Vec<String>,
    pub(super) data: Vec<String>,
    pub(super) script: String,
}

/// A part of the list as it is written.
#[derive(Default)]
struct Section {
    is_data: bool,
    line: usize,
    name: String,
    class: String,
    needs: Vec<String>,
    data: Vec<String>,
    script: String,
}

impl Corpus {
    /// The program's own.
    ///
    /// # Panics
    /// If it has a mistake, for which a test looks.
    pub fn own() -> Corpus {
        Corpus::parse(OWN, Corpus::default()).expect("the program's own list has no mistake")
    }

    /// A user's, which may read the data of the program's own.
    ///
    /// # Errors
    /// A sentence with the line of a mistake.
    pub fn of(text: &str) -> Result<Corpus, String> {
        Corpus::parse(text, Corpus { pipelines: Vec::new(), ..Corpus::own() })
    }

    fn parse(text: &str, mut corpus: Corpus) -> Result<Corpus, String> {
        for section in sections(text)? {
            corpus.add(section)?;
        }
        if corpus.pipelines.is_empty() {
            return Err("there is no pipeline in it".into());
        }
        Ok(corpus)
    }

    fn add(&mut self, section: Section) -> Result<(), String> {
        let Section { is_data, line, name, class, needs, data, script } = section;
        if script.trim().is_empty() {
            return Err(format!("line {line}: '{name}' has no script"));
        }
        if let Some(unknown) = data.iter().find(|name| !self.is_data(name)) {
            return Err(format!("line {line}: '{name}' reads '{unknown}', which nothing above makes"));
        }
        let is_taken = if is_data { self.is_data(&name) } else { self.pipeline(&name).is_some() };
        if is_taken {
            return Err(format!("line {line}: '{name}' is there twice"));
        }
        if is_data {
            self.recipes.push(Recipe { name, needs, data, script });
        } else {
            self.pipelines.push(Pipeline { name, class, needs, data, script });
        }
        Ok(())
    }

    fn is_data(&self, name: &str) -> bool {
        GENERATED.iter().any(|(generated, _)| *generated == name) || self.recipe(name).is_some()
    }

    pub(super) fn recipe(&self, name: &str) -> Option<&Recipe> {
        self.recipes.iter().find(|recipe| recipe.name == name)
    }

    /// The pipeline of this name.
    pub fn pipeline(&self, name: &str) -> Option<&Pipeline> {
        self.pipelines.iter().find(|pipeline| pipeline.name == name)
    }

    /// The commands that this machine lacks for a pipeline and its data.
    pub fn lacks(&self, pipeline: &Pipeline) -> Vec<String> {
        let mut needs: BTreeSet<&str> = pipeline.needs.iter().map(String::as_str).collect();
        needs.insert("bash");
        let mut data: Vec<&str> = pipeline.data.iter().map(String::as_str).collect();
        while let Some(recipe) = data.pop().map(|name| self.recipe(name)) {
            let recipe = recipe.into_iter();
            for recipe in recipe {
                needs.extend(recipe.needs.iter().map(String::as_str));
                data.extend(recipe.data.iter().map(String::as_str));
            }
        }
        needs.into_iter().filter(|command| installed(command).is_none()).map(str::to_owned).collect()
    }
}

fn sections(text: &str) -> Result<Vec<Section>, String> {
    let mut sections: Vec<Section> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if let Some((is_data, name)) = heading(line) {
            sections.push(Section { is_data, line: number, name: name.into(), ..Section::default() });
            continue;
        }
        let is_before_script = sections.last().is_none_or(|section| section.script.is_empty());
        if is_before_script && (line.is_empty() || line.starts_with('#')) {
            continue;
        }
        let section = sections.last_mut().ok_or_else(|| format!("line {number}: before the first '[NAME]'"))?;
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        match line.split_once(": ").filter(|_| is_before_script) {
            Some(("class", class)) if !section.is_data => section.class = class.trim().into(),
            Some(("needs", commands)) => section.needs = words(commands),
            Some(("data", names)) => section.data = words(names),
            _ => {
                section.script += line;
                section.script.push('\n');
            }
        }
    }
    Ok(sections)
}

/// `[NAME]` or `[data NAME]`.
fn heading(line: &str) -> Option<(bool, &str)> {
    let inner = line.strip_prefix('[')?.strip_suffix(']')?;
    let (is_data, name) = inner.strip_prefix("data ").map_or((false, inner), |name| (true, name));
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (!name.is_empty() && name.bytes().all(is_name)).then_some((is_data, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_list_has_sixty_pipelines_of_many_classes() {
        let own = Corpus::own();
        assert!(own.pipelines.len() >= 60, "{}", own.pipelines.len());
        let classes: BTreeSet<&str> = own.pipelines.iter().map(|pipeline| pipeline.class.as_str()).collect();
        assert!(classes.len() >= 10 && !classes.contains(""), "{classes:?}");
    }

    #[test]
    fn user_list_may_read_own_data() {
        let text = "# mine\n[data two]\ndata: text\ncp \"$DATA/text\" \"$OUT\"\n\n[a-b]\nclass: x\nneeds: cat wc\n\
                    data: two text.gz\n# a comment, because the script has not begun\ncat | wc\n[not a heading]\n";
        let corpus = Corpus::of(text).unwrap();
        assert_eq!(corpus.pipelines.len(), 1);
        let pipeline = corpus.pipeline("a-b").unwrap();
        assert_eq!((&*pipeline.class, &*pipeline.script), ("x", "cat | wc\n[not a heading]\n"));
        assert_eq!(corpus.lacks(pipeline), [""; 0]);
    }

    #[test]
    fn lacks_includes_commands_of_data() {
        let text =
            "[data one]\nneeds: no-such-b\n:\n[data two]\ndata: one\n:\n[p]\nneeds: no-such-a cat\ndata: two\n:\n";
        let corpus = Corpus::of(text).unwrap();
        assert_eq!(corpus.lacks(&corpus.pipelines[0]), ["no-such-a", "no-such-b"]);
    }

    #[test]
    fn mistake_is_reported_with_line() {
        for (text, says) in [
            ("", "no pipeline"),
            ("cat\n", "line 1: before the first"),
            ("[a]\nclass: b\n", "line 1: 'a' has no script"),
            ("[a]\ncat\n[a]\ncat\n", "line 3: 'a' is there twice"),
            ("[a]\ndata: nothing\ncat\n", "line 1: 'a' reads 'nothing'"),
            ("[data text]\ncat\n", "line 1: 'text' is there twice"),
        ] {
            let error = Corpus::of(text).unwrap_err();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
