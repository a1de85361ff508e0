//! Visits every world that the first can lead to.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::process::{self, Process, Stage};
use crate::world::{Limits, PROCESSES, Without, World};

#[derive(Debug)]
pub(crate) enum Found {
    /// Nothing wrong in `states` worlds; in `joined` of them the pipe was attached.
    Nothing { states: usize, joined: usize },
    /// A world that is wrong, with the steps that lead there.
    Wrong { what: &'static str, steps: Vec<World> },
}

pub(crate) fn search(limits: Limits, without: Option<Without>) -> Found {
    let first = World::new(limits);
    let mut places = HashMap::from([(first.clone(), 0_usize)]);
    let (mut worlds, mut came_from, mut led_here) = (vec![first], vec![usize::MAX], vec![Vec::new()]);
    let steps_to = |worlds: &[World], came_from: &[usize], place: usize| -> Vec<World> {
        let before = |&at: &usize| Some(came_from[at]).filter(|&from| from != usize::MAX);
        let mut steps: Vec<_> = std::iter::successors(Some(place), before).map(|at| worlds[at].clone()).collect();
        steps.reverse();
        steps
    };
    let mut at = 0;
    while at < worlds.len() {
        let world = worlds[at].clone();
        if let Some(what) = wrong(&world) {
            return Found::Wrong { what, steps: steps_to(&worlds, &came_from, at) };
        }
        for (next, is_progress) in next(&world, without) {
            let place = match places.entry(next) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(unknown) => {
                    worlds.push(unknown.key().clone());
                    came_from.push(at);
                    led_here.push(Vec::new());
                    *unknown.insert(worlds.len() - 1)
                }
            };
            // Progress of one process must not depend on a kill or another act of a second one.
            if is_progress {
                led_here[place].push(at as u32);
            }
        }
        at += 1;
    }
    match first_without_end(&worlds, &led_here) {
        Some(place) => Found::Wrong {
            what: "two ends that could attach wait for ever",
            steps: steps_to(&worlds, &came_from, place),
        },
        None => {
            Found::Nothing { states: worlds.len(), joined: worlds.iter().filter(|world| world.is_attached()).count() }
        }
    }
}

/// Every world that one step leads to, and whether it is a step of the protocol.
fn next(world: &World, without: Option<Without>) -> Vec<(World, bool)> {
    let mut all = Vec::new();
    for pid in 0..PROCESSES {
        all.extend(process::step(world, pid, without).into_iter().map(|next| (next, true)));
        if world.acts > 0 {
            let acts = process::acts(world, pid, without).into_iter();
            all.extend(acts.map(|next| (World { acts: world.acts - 1, ..next }, false)));
        }
        if world.kills > 0 {
            let killed = process::kill(world, pid).into_iter();
            all.extend(killed.map(|next| (World { kills: world.kills - 1, ..next }, false)));
        }
    }
    all
}

fn wrong(world: &World) -> Option<&'static str> {
    let ring = |process: &Process| process.stage == Stage::Ring;
    let (joined, others): (Vec<_>, Vec<_>) = world.all().partition(|(_, process)| ring(process));
    let holds = |process: &Process| process.end.is_some() || process.other.is_some();
    if !joined.is_empty() && others.iter().any(|(_, process)| holds(process)) {
        return Some("a third process has an end of an attached pipe");
    }
    if joined.iter().any(|(_, process)| process.other.is_some() || process.slot != joined[0].1.slot) || joined.len() > 2
    {
        return Some("the two ends use different memory");
    }
    let ready = |is_writer: bool| {
        world.all().filter(move |(_, process)| process.is_writer == is_writer && process.stage >= Stage::Ready)
    };
    if ready(false).any(|(pid, one)| ready(false).any(|(other, two)| pid < other && one.slot == two.slot)) {
        return Some("two readers have one memory");
    }
    if world.all().any(|(_, process)| process.leaves_something()) {
        return Some("a descriptor of advertised memory stays open");
    }
    world.wrong
}

/// Whether both ends of one slot want to attach, and no third process has the pipe.
fn could_attach(world: &World) -> bool {
    let wants = |is_writer: bool| {
        world.all().find(move |(_, process)| {
            process.is_writer == is_writer
                && matches!(process.stage, Stage::Wants | Stage::Ready)
                && process.end.is_some()
        })
    };
    let (Some((_, writer)), Some((_, reader))) = (wants(true), wants(false)) else { return false };
    let are_alone = world.all().filter(|(_, process)| process.end.is_some() || process.other.is_some()).count() == 2;
    are_alone && writer.slot == reader.slot && !writer.is_unseen && !reader.is_unseen
}

/// A world in which two ends could attach, and from which they neither do nor give up.
fn first_without_end(worlds: &[World], led_here: &[Vec<u32>]) -> Option<usize> {
    let mut reaches_end = vec![false; worlds.len()];
    let mut open: Vec<_> = (0..worlds.len()).filter(|&at| !could_attach(&worlds[at])).collect();
    while let Some(place) = open.pop() {
        if !std::mem::replace(&mut reaches_end[place], true) {
            open.extend(led_here[place].iter().map(|&at| at as usize));
        }
    }
    reaches_end.iter().position(|&reaches| !reaches)
}
