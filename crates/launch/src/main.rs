//! The program that is called `millstream`: it does the common part of `millstream run` itself, and becomes the whole
//! program (`crates/cli`, installed as `lib/millstream/millstream`) for everything else.
//!
//! A run of a pipeline of small programs is over in a millisecond or two, of which loading the whole program would take
//! half of one: its loader, the C library, twenty thousand relocations. This one has no loader and no C library, touches a
//! dozen pages, makes thirty system calls and becomes the command.
//!
//! It decides nothing by itself. What a run needs is computed by `crates/run`, as in the whole program. Whatever is not
//! the usual (other options, a run inside a run, preloads of the user's own, a command that cannot be executed, a
//! library that is not there) is left to the whole program, which begins anew and says what is wrong.

#![no_std]
#![no_main]
#![allow(unsafe_code)]

mod arguments;
mod command;
mod entry;
mod list;
mod memory;
mod place;
mod start;

use core::convert::Infallible;
use core::mem::MaybeUninit;

use millstream_sys::raw;

use place::{PathLine, Place, Room};
use start::Start;

/// What the whole program says when it could not do its own part.
const OWN_FAILURE: i32 = 125;

/// Becomes another program, or ends with a sentence on stderr.
fn launch(start: &Start) -> ! {
    let mut room: Room = [MaybeUninit::uninit(); _];
    let Some(place) = Place::look(&mut room) else {
        end(&[b"cannot find its own file: is /proc mounted?"]);
    };
    if let Some(request) = arguments::understand(start.arguments) {
        let _: Option<Infallible> = command::become_it(&request, start, &place);
    }
    become_the_whole_program(start, &place);
    end(&[
        b"its library is missing: there is no lib/millstream/millstream beside ",
        place.directory,
        b"; install millstream with 'make install', or build it with 'make build'",
    ])
}

/// Returns if it is not there.
fn become_the_whole_program(start: &Start, place: &Place<'_>) {
    for candidate in 0..place::CANDIDATES {
        let mut path = PathLine::new();
        if let Some(path) = place.existing(candidate, "millstream", &mut path) {
            // SAFETY: a C string, and the lists that the kernel gave to this process.
            let _ = unsafe {
                raw::execve(path.as_ptr(), start.arguments.as_ptr().cast(), start.environment.as_ptr().cast())
            };
        }
    }
}

fn end(sentence: &[&[u8]]) -> ! {
    let parts = [&[b"millstream: ".as_slice()], sentence, &[b"\n"]];
    parts.into_iter().flatten().for_each(|part| raw::say(part));
    raw::exit(OWN_FAILURE)
}
