//! Every shared word of the header by name, for tests and tools that need single words.
//!
//! A field without an entry does not compile: each list destructures its whole struct.

use core::mem::offset_of;

use crate::biased::BiasedLock;
use crate::header::{BellWords, Header, Identity, OfferWords, Published, Side, State, Tally};

/// One shared word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The cache line in which it lies, by the name of its field.
    pub line: &'static str,
    /// The name of its own field.
    pub name: &'static str,
    /// From the beginning of the segment.
    pub offset: usize,
    /// 4 or 8.
    pub bytes: usize,
}

/// The words of one struct at `$at`, and the fields that are lists of their own.
macro_rules! words {
    ($line:ident at $at:expr, $struct:ident { $($field:ident),+ } $(without { $($list:ident),+ })?) => {{
        const fn bytes<S, F>(_: fn(&S) -> &F) -> usize {
            size_of::<F>()
        }
        // Without `..`: a new field must be named in the list.
        let _: fn(&$struct) = |$struct { $($field: _),+ $(, $($list: _),+)? }| {};
        &[$(Word {
            line: stringify!($line),
            name: stringify!($field),
            offset: $at + offset_of!($struct, $field),
            bytes: bytes(|words: &$struct| &words.$field),
        }),+]
    }};
}

/// A list of the line `$line`, that begins within it at `$within`.
macro_rules! line {
    ($line:ident + $within:expr, $($words:tt)+) => {
        words!($line at offset_of!(Header, $line) + $within, $($words)+)
    };
}

const LISTS: [&[Word]; 11] = {
    // As above: a new line must be listed.
    let _: fn(&Header) =
        |Header { identity: _, state: _, write_pos: _, writers: _, read_pos: _, readers: _, bell: _, offer: _ }| {};
    [
        line!(
            identity + 0,
            Identity { magic, version, bank_bytes, shadow_device, shadow_inode, pid_namespace, bell_inode }
        ),
        line!(
            state + 0,
            State {
                geometry,
                route,
                readers_waiting,
                writers_waiting,
                watched,
                closes,
                given,
                returned,
                attended,
                kernel_only,
                giving_back,
                strangers_at,
                strangers,
                lookout,
                lookout_pages,
                lookout_wanted,
                writers_deferring
            }
        ),
        line!(write_pos + 0, Published { position, cpu }),
        line!(writers + offset_of!(Side, lock), BiasedLock { shared, inside, owner, last, uses, returns }),
        line!(writers + 0, Side { peer_position, own_position, own_cpu, claim, claims, peer_cpu } without { lock }),
        line!(read_pos + 0, Published { position, cpu }),
        line!(readers + offset_of!(Side, lock), BiasedLock { shared, inside, owner, last, uses, returns }),
        line!(readers + 0, Side { peer_position, own_position, own_cpu, claim, claims, peer_cpu } without { lock }),
        line!(bell + 0, BellWords { lock, bytes, rung_at, sleeper, quiet_put, quiet_taken } without { tally }),
        line!(bell + offset_of!(BellWords, tally), Tally { reader_sleeps, writer_sleeps, reader_wakes, writer_wakes }),
        line!(offer + 0, OfferWords { word, address, voucher, start, process, len, refused }),
    ]
};

/// All words, line by line.
pub fn layout() -> impl Iterator<Item = Word> + Clone {
    LISTS.into_iter().flatten().copied()
}

/// Where the word `line`.`name` begins.
///
/// # Panics
/// If there is no such word.
pub fn offset(line: &str, name: &str) -> u64 {
    let found = layout().find(|word| word.line == line && word.name == name);
    found.unwrap_or_else(|| panic!("no shared word '{line}.{name}'")).offset as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_aligned_apart_and_inside_the_header() {
        let mut covered = [false; size_of::<Header>()];
        for word in layout() {
            assert!(word.bytes == 4 || word.bytes == 8, "{word:?} is not one word");
            assert!(word.offset.is_multiple_of(word.bytes), "{word:?}");
            for byte in &mut covered[word.offset..word.offset + word.bytes] {
                assert!(!core::mem::replace(byte, true), "{word:?} overlaps another");
            }
        }
    }

    #[test]
    fn every_byte_that_no_word_covers_is_padding() {
        let lists = size_of::<Identity>()
            + size_of::<State>()
            + 2 * (size_of::<Published>() + size_of::<Side>())
            + size_of::<BellWords>()
            + size_of::<OfferWords>();
        // Four bytes end `Published` twice, `State` twice (before `giving_back` and at its end) and `OfferWords` once.
        let padding = 4 * (2 + 2 + 1) + (size_of::<BellWords>() - 44);
        let covered: usize = layout().map(|word| word.bytes).sum();
        assert_eq!(covered + padding, lists);
    }
}
