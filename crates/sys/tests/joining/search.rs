//! Visits every world that the first can lead to. Checks that each is right and can still reach an end.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use crate::world::{Limits, Next, Without, World};
use crate::{reader, writer};

#[derive(Debug)]
pub(crate) enum Found {
    /// Nothing wrong in `states` worlds; in `joined` of them the pipe was attached.
    Nothing { states: usize, joined: usize },
    /// A world that is wrong, with the steps that lead there.
    Wrong { what: &'static str, steps: Vec<World> },
}

pub(crate) fn search(limits: Limits, without: Option<Without>) -> Found {
    let first = World::new(limits);
    let mut places = HashMap::from([(first.clone(), 0)]);
    let (mut worlds, mut came_from, mut led_here) = (vec![first], vec![None], vec![Vec::new()]);
    let steps_to = |worlds: &[World], came_from: &[Option<usize>], place: usize| -> Vec<World> {
        let mut steps: Vec<_> =
            std::iter::successors(Some(place), |&at| came_from[at]).map(|at: usize| worlds[at].clone()).collect();
        steps.reverse();
        steps
    };
    let mut ends = Vec::new();
    let mut at = 0;
    while at < worlds.len() {
        let world = worlds[at].clone();
        if let Some(what) = wrong(&world, without) {
            return Found::Wrong { what, steps: steps_to(&worlds, &came_from, at) };
        }
        if has_ended(&world) {
            ends.push(at);
        }
        let goes_on = [writer::step(&world, without), reader::step(&world, without)].concat();
        let next =
            goes_on.into_iter().map(|next| (next, true)).chain(kills(&world).into_iter().map(|next| (next, false)));
        for (next, is_progress) in next {
            let place = match places.entry(next) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(unknown) => {
                    worlds.push(unknown.key().clone());
                    came_from.push(Some(at));
                    led_here.push(Vec::new());
                    *unknown.insert(worlds.len() - 1)
                }
            };
            // Progress of one end must not depend on a kill of the other.
            if is_progress {
                led_here[place].push(at);
            }
        }
        at += 1;
    }
    match first_without_end(&led_here, ends) {
        Some(place) => Found::Wrong { what: "a waiter sleeps for ever", steps: steps_to(&worlds, &came_from, place) },
        None => Found::Nothing { states: worlds.len(), joined: worlds.iter().filter(|world| world.was_joined).count() },
    }
}

fn has_ended(world: &World) -> bool {
    world.writer.has_ended() && world.reader.has_ended()
}

fn wrong(world: &World, without: Option<Without>) -> Option<&'static str> {
    if world.reader.at == reader::At::Ended && world.got != world.told {
        return Some("the stream has ended before its last byte");
    }
    let is_held_back = world.writer.at == writer::At::Idle && !reader_gets_all(world, without);
    world.wrong.or(is_held_back.then_some("a byte does not arrive before the writer's next step"))
}

/// Whether the reader receives every byte that was written while the writer does nothing. A wake-up that comes only
/// with the next byte is a lost one.
fn reader_gets_all(world: &World, without: Option<Without>) -> bool {
    let (mut open, mut seen) = (vec![world.clone()], HashSet::new());
    while let Some(world) = open.pop() {
        if world.got == world.told || !world.has_reader {
            return true;
        }
        if seen.insert(world.clone()) {
            open.extend(reader::step(&world, without));
        }
    }
    false
}

/// The worlds in which one end is killed.
fn kills(world: &World) -> Next {
    let mut all = Vec::new();
    if world.may_kill && !world.writer.has_ended() {
        let mut next = World { may_kill: false, has_writer: false, ..world.clone() };
        next.writer.at = writer::At::Dead;
        all.push(next);
    }
    if world.may_kill && !world.reader.has_ended() {
        // The kernel marks the futex word of the writer before it closes the read end.
        let mut next = World { may_kill: false, space_gone: true, ..world.clone() };
        next.reader.at = reader::At::Dying;
        next.writer.woken_at_space();
        all.push(next);
    }
    all
}

/// A world from which no end can be reached.
fn first_without_end(led_here: &[Vec<usize>], ends: Vec<usize>) -> Option<usize> {
    let mut reaches_end = vec![false; led_here.len()];
    let mut open = ends;
    while let Some(place) = open.pop() {
        if !std::mem::replace(&mut reaches_end[place], true) {
            open.extend(&led_here[place]);
        }
    }
    reaches_end.iter().position(|&reaches| !reaches)
}
