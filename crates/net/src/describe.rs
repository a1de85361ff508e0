//! What there is to know of transforms, for people.

use crate::catalogue::{Catalogue, find};
use crate::check;
use crate::error::NetworkError;
use crate::graph::Call;
use crate::transform::{Data, Kind, Size, Stage, State};

/// A line for each transform: its name, and what it does.
pub fn list(catalogue: Catalogue<'_>) -> String {
    let width = catalogue.iter().map(|transform| transform.name().chars().count()).max().unwrap_or(0);
    catalogue.iter().map(|transform| format!("{:width$}  {}\n", transform.name(), transform.summary())).collect()
}

/// What the transform of this name does and how it is used.
///
/// # Errors
/// [`NetworkError::Invalid`] if there is none, with the name that may have been meant.
pub fn doc(catalogue: Catalogue<'_>, name: &str) -> Result<String, NetworkError> {
    let without_arguments = check::build(&Call { name: name.into(), arguments: Vec::new() }, catalogue);
    let Some(transform) = find(catalogue, name) else {
        return without_arguments.map(|_| String::new());
    };
    let mut text = format!("{name}\n  {}\n\nused as:  {}\n", transform.summary(), transform.usage());
    text += &format!("input:    {}\noutput:   {}\n", data(transform.takes()), data(transform.gives()));
    // One that needs arguments says nothing of itself before it has them.
    if let Ok((_, stage)) = without_arguments {
        text += &format!("works:    {}\n", nature(&stage));
        text += &format!("inverse:  {}\n", stage.inverse.as_deref().unwrap_or("nothing"));
    }
    Ok(text)
}

/// What an edge carries, in a word.
pub fn data(data: Data) -> &'static str {
    match data {
        Data::Any => "bytes",
        Data::Text => "text",
        Data::Format(name) => name,
    }
}

/// How a transform works, in words.
fn nature(stage: &Stage) -> String {
    let how = match &stage.kind {
        Kind::InPlace(State::Stateless, _) => "in place, and needs nothing of the bytes before",
        Kind::InPlace(State::Positional, _) => "in place, and needs to know where it is in the stream",
        Kind::InPlace(State::Stateful, _) => "in place, on all bytes in order",
        Kind::Rewrite(_) => "from one buffer into another",
        Kind::Buffer(_) => "keeps bytes as they are, until what follows takes them",
        Kind::Exported(_) => "outside of this program",
    };
    let size = match stage.size {
        Size::Same => "as many bytes come out as go in",
        Size::Computed(_) => "how many bytes come out can be computed",
        Size::Unknown => "how many bytes come out is known at the end",
    };
    format!("{how}; {size}")
}
