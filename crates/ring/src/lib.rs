//! A byte ring in memory that processes share: positions, locks and wake-ups, without a system call.
//!
//! ```
//! # use millstream_ring::{Bytes, Geometry, Header, Parked, Parking, Ring, Whose};
//! # use core::{ptr::NonNull, sync::atomic::AtomicU32};
//! # struct OneThread;
//! # impl Parking for OneThread {
//! #     type Announced = ();
//! #     fn owner(&self) -> u32 { 1 }
//! #     fn announce(&self, _: &AtomicU32) {}
//! #     fn restore(&self, _: &AtomicU32, (): ()) {}
//! #     fn park(&self, _: &AtomicU32, _: u32, _: u32) -> Parked { Parked::GiveUp }
//! #     fn unpark_one(&self, _: &AtomicU32) {}
//! #     fn can_be_fenced(&self) -> bool { false }
//! #     fn prepare_to_own(&self) {}
//! #     fn wants_for_itself(&self) -> bool { false }
//! #     fn fence_everywhere(&self) {}
//! # }
//! # let parking = OneThread;
//! let (header, mut memory) = (Header::new(), vec![0_u8; 2 * 4096]);
//! // SAFETY: the memory outlives the ring.
//! let bytes = unsafe { Bytes::new(NonNull::from(&mut memory[..]).cast(), memory.len()) };
//! let ring = Ring::new(&header, bytes);
//! ring.found(Whose::default(), Geometry::of(4096).unwrap());
//!
//! let writers = ring.lock_writers(&parking)?;
//! writers.write(writers.room(5)?, [&b"hello"[..]].into_iter(), 0);
//! let (readers, mut text) = (ring.lock_readers(&parking)?, [0; 8]);
//! let count = readers.read(readers.waiting(8)?, [&mut text[..]].into_iter(), 0);
//! assert_eq!(&text[..count], b"hello");
//! # Ok::<(), millstream_ring::RingError>(())
//! ```
//!
//! Users of pipes want `millstream-pipe`, which gives the ring its memory, its way to sleep and the semantics of
//! `pipe(2)`. This crate holds what several processes do to shared words, and nothing else: no allocation, no system
//! call, no policy.
//!
//! In reading order: `header` lists the words. [`Ring`] moves bytes. `lock` excludes threads of one side from each
//! other and survives their death; `biased` makes that cheap for a side with one user. `claim` lets a process work in
//! place without a lock. [`Bell`] wakes the other side. [`Route`] is the state of a pipe: the ring or the kernel
//! carries the bytes. [`Offer`] leaves bytes in the memory of their writer, for single-copy transfer. [`Broadcast`] is
//! another ring, of which each of several readers gets every byte. [`channel`] is that of unmodified programs. [`Look`] is for processes that only observe. `sync`
//! is where atomics come from.
//!
//! # Edges
//! Each synchronisation has a name, which stands in the code at both of its ends. `docs/ordering.md` explains them.
//!
//! ```text
//! E1  WriteSide::publish    store write position, Release  <->  ReadSide::waiting   load, Acquire  bytes are in place
//! E2  ReadSide::consume     store read position, Release   <->  WriteSide::room     load, Acquire  place may be reused
//! E3  store position; SeqCst fence; load count of waiters  <->  store count; SeqCst fence; load position
//!                                                                                           no wake-up is lost
//! E4  announce lock word; take it (program order)          <->  the kernel, at death        no lock is held by the dead
//! E5  Guard::drop           swap 0, Release                <->  Lock::acquire  CAS, Acquire what the owner wrote
//! E6  Ring::found           store magic, Release           <->  Ring::check    load, Acquire the identity is complete
//! E7  Ring::set_route       store route, Release           <->  Ring::route    load, Acquire the ring as it was left
//! E8  store inside; load owner (program order)             <->  store owner; every CPU fences; load inside
//!                                                                                           never two inside
//! E9  WriteSide::offer      open the word, Release         <->  Ring::offer    load, Acquire the terms and the ring before
//! E10 Ring::take            count in the word, Release     <->  Ring::withdraw, Ring::standing  Acquire
//!                                                                                           the copy is complete
//! E11 Claims::end           swap 0, Release                <->  is_claimed      load, Acquire where the claim ended
//! E13 withdraw_monitor      store the word; then the kernel <->  `Ring::monitor`  load the word, the flags, the word again
//! E14 store position; SeqCst fence; load the waiter's word <->  store the word; SeqCst fence; load position
//!                                                                                           broadcast: no wake-up is lost
//! E15 BroadcastWriter::reserve  store, Release fence        <->  BroadcastReader::is_intact  Acquire fence, load
//!                                                                                           broadcast: no torn copy
//! E16 `channel`: exchange a word that the other side waits for  <->  exchange a word that says so; load the first
//!                                                                                           no side sleeps beside it
//! E17 Channel::freeze       set the top bits of both positions  <->  put, get   exchange a position
//!                                                                                           counted before, or never
//! E18 Channel::detach       store state, Release           <->  await_turn     exchange, Acquire  how far a drain was
//! E19 Channel::agree        exchange activation, Release   <->  has_agreed     exchange, Acquire  size and state
//! ```
#![no_std]

#[cfg(any(loom, test))]
extern crate std;

mod bell;
mod biased;
mod broadcast;
mod bytes;
pub mod channel;
mod claim;
mod error;
mod fifo;
mod geometry;
mod header;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod layout;
mod level;
mod lock;
#[cfg(not(loom))]
mod look;
mod lookout;
mod offer;
mod ring;
mod route;
mod sleeper;
mod splice;
pub mod sync;
mod whole;

pub use bell::{Bell, Shadow};
pub use broadcast::{
    BROADCAST_HEADER_BYTES, Broadcast, BroadcastHeader, BroadcastReader, BroadcastWriter, READERS_MAX, Received,
};
pub use bytes::Bytes;
#[cfg(not(loom))]
pub use bytes::Stretch;
pub use claim::{Claim, ClaimId, Claims};
pub use error::{ForeignError, ResizeError, RingError};
pub use geometry::{Extent, Geometry, MIN_BYTES};
pub use header::{HEADER_BYTES, Header, MAGIC, VERSION};
pub use level::Level;
pub use lock::{Guard, Lock, Parked, Parking};
#[cfg(not(loom))]
pub use look::{Look, Tallies};
pub use lookout::Lookout;
pub use offer::{LARGEST_OFFER, Offer, Standing, Terms};
pub use ring::{PIPE_BUF, ReadSide, Ring, Room, Waiting, Whose, WriteSide};
pub use route::Route;
