//! `libmillstream`: millstream's pipes for C, and for every language that can call C.
//!
//! The functions are those of `<millstream.h>`, which cbindgen makes of this crate; `docs/c.md` explains them. Each translates
//! its arguments, calls [`millstream_pipe`], and translates what that returns: -1 and `errno` instead of an error. There is no
//! state but that of the handles.
//!
//! In reading order: `errors` has the numbers of `errno`, `broadcast_ends` and `descriptor` what is behind a handle besides
//! pipes. `handle` is what a pointer to a reader or writer leads to, `options` what `ms_pipe` is told. `make` makes and opens
//! pipes, `transfer` reads and writes, `in_place` does so without a copy. `broadcast` is for several readers that see the same,
//! `control` is the rest.
#![allow(non_camel_case_types, reason = "the names of C")]
#![allow(unsafe_code, reason = "pointers from C")]
#![deny(unsafe_op_in_unsafe_fn)]

mod broadcast;
mod broadcast_ends;
mod control;
mod descriptor;
mod errors;
mod handle;
mod in_place;
mod make;
mod options;
mod transfer;

pub use broadcast::{ms_add_reader, ms_attach_broadcast, ms_broadcast, ms_lost, ms_reader_count};
pub use control::*;
pub use errors::*;
pub use handle::{ms_end, ms_reader, ms_writer};
pub use in_place::*;
pub use make::*;
pub use options::*;
pub use transfer::*;
