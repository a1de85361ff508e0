//! Cells by what they have in common, and what tells them apart.

use crate::cell::{Cell, Document};

/// The cells of a method, in their order.
pub(super) type Group<'a> = (&'a str, Vec<&'a Cell>);

pub(super) fn by_method(document: &Document) -> Vec<Group<'_>> {
    grouped(document.cells.iter(), |cell| &*cell.method)
}

/// Groups in the order in which each first appears.
pub(super) fn grouped<'a, K: PartialEq>(
    cells: impl IntoIterator<Item = &'a Cell>,
    key: impl Fn(&'a Cell) -> K,
) -> Vec<(K, Vec<&'a Cell>)> {
    let mut groups: Vec<(K, Vec<&Cell>)> = Vec::new();
    for cell in cells {
        let key = key(cell);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(cell),
            None => groups.push((key, vec![cell])),
        }
    }
    groups
}

/// The parameters that differ between the cells, first those that change least often from one cell to the next.
pub(super) fn varying<'a>(cells: &[&'a Cell]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, value) in cells.iter().flat_map(|cell| &cell.params) {
        if !names.contains(&&**name) && cells.iter().any(|cell| cell.params.get(name) != Some(value)) {
            names.push(name);
        }
    }
    let changes =
        |name: &&str| cells.windows(2).filter(|pair| pair[0].params.get(*name) != pair[1].params.get(*name)).count();
    names.sort_by_cached_key(changes);
    names
}
