//! A forked child: the pipes of its parent are none of its own.

use millstream_sys::fate::Fate;

use super::end::{READER, WRITER};
use super::held::Held;
use super::own_process::{is_own_process, mark_own_process};
use super::{guard, offer, robust};

/// At the first call of the child that comes to this library.
pub(super) fn begin_as_child() {
    let _held = Held::all();
    // Another thread may have been here.
    if !is_own_process() {
        forget_parents();
        // What it begins from now on is its own.
        mark_own_process();
    }
}

/// In a forked child: the memory of its parent's pipes is not there.
fn forget_parents() {
    offer::forget_offer_of_parent();
    for end in [&WRITER, &READER] {
        if end.channel().is_some() {
            if end.is_reader() {
                robust::leave();
            }
            end.tally.tell(Fate::Forked);
        }
        end.forget();
    }
    guard::lift();
}
