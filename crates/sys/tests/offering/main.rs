//! Every order of steps in which the writer's offer and the reader find each other, and both prove that they are alone.
//!
//! `docs/joining.md` has the protocol (2, and 5 and 6 of 3), `crates/preload/src/joined` the code: `offer.rs`, `meet.rs`, `alone.rs`.
//! What comes then is the model in `tests/joining`, which begins where each side knows that nobody else is there. Here that is what is
//! looked for: an end of a joined pipe that a third process has, two sides that believe in different memory, two that could join and
//! wait for ever, a descriptor that stays open. Programs fork before their guards are up, open their end anew, close descriptors and
//! use their numbers again, become other programs, send an end away, give back, end and are killed; numbers of processes come again.
//!
//! The protocol has no look that could be spared: without any one of [`Without`] the search finds something.

mod process;
mod search;
mod world;

use std::sync::Mutex;
use std::thread;

use search::{Found, search};
use world::{Limits, Without};

const SEEN: Limits = Limits { acts: 4, kills: 0, has_unseen_reader: false };
const UNSEEN: Limits = Limits { has_unseen_reader: true, ..SEEN };

#[test]
fn nobody_else_has_an_end_of_a_joined_pipe() {
    for limits in [SEEN, Limits { acts: 3, kills: 1, ..SEEN }] {
        match search(limits, None) {
            Found::Nothing { states, joined } => assert!(states > 100_000 && joined > 1000, "{states} {joined}"),
            found => panic!("{found:#?}"),
        }
    }
}

#[test]
fn who_cannot_be_looked_at_is_not_joined() {
    let Found::Nothing { states, joined: 0 } = search(UNSEEN, None) else { panic!("joined, or wrong") };
    assert!(states > 100_000, "{states}");
}

#[test]
fn without_any_one_of_its_looks_it_fails() {
    let left = Mutex::new(Without::ALL.into_iter());
    let next = || left.lock().unwrap().next();
    let search_each = || {
        while let Some(without) = next() {
            let limits = if without == Without::Peer { UNSEEN } else { SEEN };
            match search(limits, Some(without)) {
                Found::Wrong { what, steps } => println!("without {without:?}: {what}, after {} steps", steps.len()),
                Found::Nothing { .. } => panic!("{without:?} is not needed"),
            }
        }
    };
    // Each search is one thread's, and takes seconds.
    thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(search_each))));
}

#[test]
fn what_nobody_interrupts_joins() {
    let Found::Nothing { joined, .. } = search(Limits { acts: 0, ..SEEN }, None) else { panic!("wrong in itself") };
    assert!(joined > 0);
}
