//! Every order of steps of a writer and a reader that attach, use the ring, detach and are killed.
//!
//! `docs/joining.md` has the protocol; `crates/ring/src/channel` and `crates/preload/src/joined` have the code. This is a model of that code: [`world`]
//! has the words that both ends share and the backing pipe. [`writer`], [`reader`] and [`retreat`] do what the
//! functions named there do; each step is one access to shared state. The search visits every state of a small world.
//! The code makes all these accesses sequentially consistent, so no other orders exist.
//!
//! Every check and every order of the protocol is necessary. Without any one of [`Without`] the search finds a lost
//! byte, a byte that is none, or a waiter that sleeps for ever.

mod reader;
mod retreat;
mod search;
mod world;
mod writer;

use search::{Found, search};
use world::{Limits, Without};

/// One byte fits into the backing pipe, and one into the ring: both are full while the reader does something else.
const SMALL: Limits =
    Limits { bytes: 4, ring: 1, gives_back: true, kills: true, polls: false, times_out: false, fails: false };
/// The same, but the first flush to the kernel fails.
const FAILS: Limits = Limits { fails: true, ..SMALL };
/// The same with a reader that polls.
const POLLS: Limits = Limits { polls: true, times_out: true, ..FAILS };

#[test]
fn no_byte_is_lost_and_no_waiter_sleeps_for_ever() {
    for limits in [SMALL, FAILS, Limits { bytes: 5, ring: 2, ..FAILS }, POLLS, Limits { ring: 2, ..POLLS }] {
        match search(limits, None) {
            Found::Nothing { states, joined } => assert!(states > 10_000 && joined > 1000, "{states} {joined}"),
            found => panic!("{found:#?}"),
        }
    }
}

#[test]
fn search_fails_without_any_one_of_the_checks() {
    for without in Without::ALL {
        match search(POLLS, Some(without)) {
            Found::Wrong { what, steps } => println!("without {without:?}: {what}, after {} steps", steps.len()),
            Found::Nothing { .. } => panic!("{without:?} is not needed"),
        }
    }
}

#[test]
fn uninterrupted_ends_do_not_sleep_for_ever() {
    // The cases above could hide a sleep that only a kill or a detach ends.
    let calm = Limits { ring: 2, gives_back: false, kills: false, ..SMALL };
    for limits in [calm, Limits { polls: true, ..calm }] {
        let Found::Nothing { joined, .. } = search(limits, None) else { panic!("{:#?}", search(limits, None)) };
        assert!(joined > 100, "{joined}");
    }
}
