//! Single-copy transfer: a reader copies straight out of the memory of a writer that blocks, one copy instead of two.
//!
//! The protocol is `offer.rs` of the ring. Here is what it needs of the system:
//!
//! - [`offering`]: a writer that finds the ring full offers the rest of its buffer and waits.
//!
//! - [`taking`]: a reader that finds the ring empty copies from there (`process_vm_readv(2)`) and commits.
//!
//! # How a reader checks a transfer
//!
//! An offer, the record that starts a transfer, lies in memory that others can write. One of them could name any
//! process that the reader may look into, also the reader itself, and bring bytes into the stream that it has no
//! right to. So a writer says once more what it offers, in a page that only its own process can write (`own_page.rs`
//! of `sys`): the *transfer descriptor*. The reader asks the kernel once for each process whether there is such a
//! page. It copies the descriptor in the same system call as the bytes: both come from one memory. A process that
//! executed another program has no descriptor any more. When an offer is over, its writer takes the descriptor back,
//! so that no process can offer once more in its name. After the copy the reader asks the kernel whether the process
//! still lives: a process number that was reused is not believed. Only then is the copy committed.
//!
//! A reader that is not allowed to look there, or does not find what it should, returns the offer to the writer.
//! Everything at this pipe goes through the ring from then on.

pub(crate) mod clearing;
pub(crate) mod descriptor;
pub(crate) mod offering;
pub(crate) mod taking;
