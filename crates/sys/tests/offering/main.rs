//! Every order of steps in which a writer advertises memory, a reader finds it, and both make the exclusivity check.
//!
//! `docs/joining.md` has the protocol (2, and 5 and 6 of 3), `crates/preload/src/joined` the code: `offer.rs`,
//! `meet.rs`, `alone.rs`. The model in `tests/joining` has what follows; it begins where each end knows that no third
//! process has the pipe. This model searches for violations of that: a third process with an end of an attached pipe,
//! two ends that use different memory, two that could attach and wait for ever, a descriptor that stays open. Programs
//! fork before their hooks are active, open their end anew, close descriptors and reuse their numbers, become other
//! programs, send an end away, detach, end and are killed. The kernel reuses process numbers.
//!
//! Every check of the protocol is necessary: without any one of [`Without`] the search finds a violation.

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
fn no_third_process_has_an_end_of_an_attached_pipe() {
    for limits in [SEEN, Limits { acts: 3, kills: 1, ..SEEN }] {
        match search(limits, None) {
            Found::Nothing { states, joined } => assert!(states > 100_000 && joined > 1000, "{states} {joined}"),
            found => panic!("{found:#?}"),
        }
    }
}

#[test]
fn process_that_cannot_be_inspected_is_not_attached() {
    let Found::Nothing { states, joined: 0 } = search(UNSEEN, None) else { panic!("attached, or wrong") };
    assert!(states > 100_000, "{states}");
}

#[test]
fn search_fails_without_any_one_of_the_checks() {
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
    // Each search has one thread and takes seconds.
    thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(search_each))));
}

#[test]
fn uninterrupted_ends_attach() {
    let Found::Nothing { joined, .. } = search(Limits { acts: 0, ..SEEN }, None) else { panic!("wrong in itself") };
    assert!(joined > 0);
}
