//! Every order of steps of a writer and a reader that join a pipe in shared memory, use it, give it back and are killed.
//!
//! `docs/joining.md` has the protocol, `crates/preload/src/joined` the code. This is a model of that code: [`world`] has the
//! words that both share and the kernel's pipe, [`writer`], [`reader`] and [`retreat`] do what the functions named there do, one
//! access to what is shared for each step. The search visits every state of a small world. The code makes all these accesses
//! sequentially consistent, so their orders are all there is.
//!
//! The protocol has no look and no order that could be spared: without any one of [`Without`] the search finds a lost byte, a
//! byte that is none, or somebody who sleeps for ever.

mod reader;
mod retreat;
mod search;
mod world;
mod writer;

use search::{Found, search};
use world::{Limits, Without};

/// One byte through the kernel until they meet, and then a ring of one: full while the reader is elsewhere.
const SMALL: Limits =
    Limits { bytes: 4, ring: 1, gives_back: true, kills: true, polls: false, times_out: false, fails: false };
/// The same where the content cannot be moved at first.
const FAILS: Limits = Limits { fails: true, ..SMALL };
/// The same with a reader that polls.
const POLLS: Limits = Limits { polls: true, times_out: true, ..FAILS };

#[test]
fn no_byte_is_lost_and_nobody_sleeps_for_ever() {
    for limits in [SMALL, FAILS, Limits { bytes: 5, ring: 2, ..FAILS }, POLLS, Limits { ring: 2, ..POLLS }] {
        match search(limits, None) {
            Found::Nothing { states, joined } => assert!(states > 10_000 && joined > 1000, "{states} {joined}"),
            found => panic!("{found:#?}"),
        }
    }
}

#[test]
fn without_any_one_of_its_looks_it_fails() {
    for without in Without::ALL {
        match search(POLLS, Some(without)) {
            Found::Wrong { what, steps } => println!("without {without:?}: {what}, after {} steps", steps.len()),
            Found::Nothing { .. } => panic!("{without:?} is not needed"),
        }
    }
}

#[test]
fn what_nobody_interrupts_is_right_too() {
    // Otherwise the ways above could hide a sleep that only a kill or a giving back ends.
    let calm = Limits { ring: 2, gives_back: false, kills: false, ..SMALL };
    for limits in [calm, Limits { polls: true, ..calm }] {
        let Found::Nothing { joined, .. } = search(limits, None) else { panic!("{:#?}", search(limits, None)) };
        assert!(joined > 100, "{joined}");
    }
}
