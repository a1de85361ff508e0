//! The writer's part of a single-copy transfer.

use millstream_ring::{LARGEST_OFFER, PIPE_BUF, Ring, Standing, Terms, WriteSide};
use millstream_sys::identity::Identity;
use millstream_sys::own_page::{OwnPage, WORDS};
use millstream_sys::{Errno, cpu, process_memory};

use super::clearing::tell_that_nothing_is_offered;
use super::descriptor::{Direct, OwnVoucher, drop_if_dead, own_identity, transfer_descriptor};
use crate::end::End;
use crate::error::broken;
use crate::parking::Parker;
use crate::policy::{DirectPolicy, Effort, FIRST_NAP, Look, longer};
use crate::writer::Writer;
use crate::writer::stop::Stop;

/// An offer of the calling thread, of bytes that it has borrowed until the offer is withdrawn.
#[derive(Debug)]
pub(crate) struct Offered<'b> {
    serial: u32,
    bytes: &'b [u8],
}

/// The largest ring with which an offer was measured to be faster than the ring. Larger ones, as the default is, hold
/// so much that both sides copy out of the cache and hardly wait (`docs/pipe.md`).
const SMALL_RING: usize = 64 << 10;

/// Whether to offer `rest` bytes of a write, which follow each other in memory, now that the ring is full.
pub(crate) fn pays(direct: &Direct, ring: &Ring<'_>, rest: usize) -> bool {
    match direct.policy {
        DirectPolicy::Never => false,
        DirectPolicy::Always => rest > PIPE_BUF,
        // On two CPUs the ring lets both sides copy at once, and a writer that waits for a reader to copy does nothing.
        DirectPolicy::Adaptive => {
            rest >= direct.least.max(PIPE_BUF + 1)
                && ring.capacity().is_ok_and(|capacity| capacity <= SMALL_RING)
                && ring.readers_cpu() == Some(cpu::current())
        }
    }
}

/// Offers what follows in the stream, if that pays and is possible. An end that does not block offers nothing.
#[cold]
pub(crate) fn open<'b>(
    end: &End,
    ring: &Ring<'_>,
    writers: &WriteSide<'_, Parker<'_>>,
    rest: &'b [u8],
) -> Option<Offered<'b>> {
    let bytes = &rest[..rest.len().min(LARGEST_OFFER)];
    if end.is_blocking() != Ok(true) {
        return None;
    }
    let serial = match writers.next_serial() {
        None if drop_if_dead(ring) == Ok(true) => writers.next_serial()?,
        serial => serial?,
    };
    let shadow = end.pipe.origin.as_ref()?.shadow;
    let mut page = end.pipe.direct.page.try_lock().ok()?;
    let own = own_descriptor_page(&mut page)?;
    let Identity { process, start } = own.identity;
    let address = bytes.as_ptr().expose_provenance() as u64;
    let terms = Terms { process, start, voucher: own.page.address(), address, len: bytes.len() as u32 };
    // No reader uses the last descriptor any more: `next_serial` says that its offer is settled.
    own.serial = serial;
    own.page.write(transfer_descriptor(shadow, serial, &terms));
    writers.note_cpu(cpu::current());
    if writers.offer(serial, terms) {
        return Some(Offered { serial, bytes });
    }
    own.page.write([0; WORDS]);
    None
}

/// The page of this process, which a forked child has copied but not for itself.
fn own_descriptor_page(kept: &mut Option<OwnVoucher>) -> Option<&mut OwnVoucher> {
    if kept.as_ref().is_none_or(|own| own.identity.process != millstream_sys::own_pid()) {
        let identity = own_identity()?;
        let page = match kept.take() {
            Some(own) => own.page,
            None => OwnPage::new().ok()?,
        };
        *kept = Some(OwnVoucher { page, identity, serial: 0 });
    }
    kept.as_mut()
}

/// Clears the transfer descriptor of this process, unless another thread has an offer of its own there by now.
fn clear_transfer_descriptor(end: &End, serial: u32) {
    if let Ok(mut kept) = end.pipe.direct.page.try_lock()
        && let Some(own) = kept.as_mut()
        && own.serial == serial
    {
        own.page.write([0; WORDS]);
    }
}

impl Writer {
    /// Waits until an offer is over, or there is a reason to stop waiting, and withdraws it. Returns how many bytes
    /// were taken, in any case.
    pub(crate) fn see_through(
        &self,
        ring: &Ring<'_>,
        offered: &Offered<'_>,
        was_seen: bool,
    ) -> (usize, Result<(), Stop>) {
        let &Offered { serial, bytes } = offered;
        let must_ring = ring.readers_wait() || ring.bell().is_watched_for_room();
        let told = if must_ring { self.raise_bell(ring, was_seen) } else { Ok(()) };
        let outcome = told.and_then(|()| self.wait_until_over(ring, serial));
        let withdrawn = ring.withdraw(serial, bytes.len());
        clear_transfer_descriptor(&self.end, serial);
        let taken = match withdrawn {
            Ok(taken) => taken,
            Err(error) => return (0, Err(broken(error).into())),
        };
        self.end.counters.was_taken_directly(taken);
        if taken == bytes.len() {
            return (taken, outcome);
        }
        if outcome.is_ok() {
            // Returned by a reader, or by a process that changes how the pipe works.
            if ring.offers_are_refused() {
                self.end.counters.was_refused_direct();
            }
            // An error that the kernel's pipe would have found: the writer's own memory ends here.
            let is_there = process_memory::is_readable_here(&bytes[taken..]);
            return (taken, if is_there { Ok(()) } else { Err(Errno::FAULT.into()) });
        }
        if !matches!(outcome, Err(Stop::NoReader)) {
            tell_that_nothing_is_offered(&self.end, ring);
        }
        (taken, outcome)
    }

    fn wait_until_over(&self, ring: &Ring<'_>, serial: u32) -> Result<(), Stop> {
        let mut nap = FIRST_NAP;
        loop {
            let Standing::Open(taken) = ring.standing(serial) else { return Ok(()) };
            // A writer whose sleep ended by a timeout without a change sleeps on.
            if nap == FIRST_NAP {
                let closes = ring.closes();
                let has_changed = || ring.standing(serial) != Standing::Open(taken) || ring.closes() != closes;
                let mut effort = Effort::default();
                let look = self.end.patience.look(ring.readers_cpu(), has_changed, &mut effort);
                self.end.counters.waited(effort);
                match look {
                    Look::Found if ring.standing(serial) != Standing::Open(taken) => continue,
                    Look::KeepLooking if self.end.is_blocking()? => {
                        self.ask_for_readers_now(ring)?;
                        continue;
                    }
                    Look::Found | Look::KeepLooking | Look::AskKernel => {}
                }
            }
            if !self.end.is_blocking()? {
                return Err(Errno::AGAIN.into());
            }
            let is_open = || matches!(ring.standing(serial), Standing::Open(_));
            if self.sleep_while(ring, is_open, nap)? {
                nap = longer(nap);
            }
        }
    }
}
