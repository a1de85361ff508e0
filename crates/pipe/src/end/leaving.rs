//! How an end leaves: it is closed, or its descriptor goes to a process that uses the kernel's pipe alone.

use std::io;
use std::os::fd::OwnedFd;

use millstream_sys::memory;

use super::{End, Origin};
use crate::claim;
use crate::fifo::routes;

impl End {
    /// From now on the FIFO's end is nothing but a descriptor of the kernel's pipe.
    pub(crate) fn keep_to_kernel(&self) -> io::Result<()> {
        if let Some(company) = &self.pipe.company
            && let Some(link) = company.be_plain(self.fd())
        {
            routes::keep_to_kernel(self, link, company.access())?;
        }
        Ok(())
    }

    /// Exports the descriptor of a pipe that the kernel carries, or of a FIFO.
    pub(crate) fn into_plain_fd(mut self) -> io::Result<OwnedFd> {
        if let Some(company) = &self.pipe.company
            && let Some(link) = company.link_so_far()
        {
            routes::becomes_plain(&self, link, company.access())?;
        }
        // The new owner of the descriptor can do nothing about it.
        let _ = self.leave_company();
        Ok(self.fd.take().expect("an end has its descriptor until it is given away"))
    }

    /// Clones go on; so does a child process, which attaches again.
    fn leave_company(&self) -> io::Result<()> {
        if let Some(company) = &self.pipe.company
            && company.end_goes()
            && let Some(link) = company.link_so_far()
        {
            return routes::leave(self, link, company.access());
        }
        Ok(())
    }

    /// As dropping it, and reports whether the last bytes were lost.
    pub(crate) fn close(mut self) -> io::Result<()> {
        claim::give_back(&self);
        let outcome = self.leave_company();
        self.has_left = true;
        outcome
    }

    /// Whether this process or another has mapped the segment: until then its file is empty.
    fn is_ring_used(&self) -> bool {
        let is_used = |origin: &Origin| memory::length(&origin.file).is_ok_and(|length| length > 0);
        self.pipe.segment.get().is_some() || self.pipe.origin.as_ref().is_some_and(is_used)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        claim::give_back(self);
        if self.fd.is_some() && !self.has_left {
            // `close` reports it; a drop cannot.
            let _ = self.leave_company();
        }
        if let Some(fd) = self.fd.take() {
            // First closed, then told: a process that is told asks the kernel.
            drop(fd);
            if self.is_ring_used()
                && let Ok(Some(segment)) = self.segment()
            {
                segment.ring().note_close();
            }
        }
    }
}
