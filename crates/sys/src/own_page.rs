//! A page that only its process can write, and that others can recognise as such.
//!
//! Any process may have written what lies in shared memory. Only the process itself can have written what lies in this
//! page: the kernel's list of its mappings (`/proc/PID/maps`) shows the page, and no other process can put one there.
#![allow(unsafe_code)]

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};

use crate::Errno;

/// The name of the page's file. The file holds only zeros, is mapped privately, and no process keeps it open.
const NAME: &str = "millstream-offers";

const BYTES: usize = 4096;

/// Words in the page.
pub const WORDS: usize = 8;

/// Such a page of the calling process; a child gets a copy, of which the same holds.
#[derive(Debug)]
pub struct OwnPage(NonNull<[AtomicU64; WORDS]>);

// SAFETY: an address range, which belongs to no thread, of atomic integers.
unsafe impl Send for OwnPage {}
// SAFETY: as above.
unsafe impl Sync for OwnPage {}

impl OwnPage {
    /// A new one, of zeros.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn new() -> Result<OwnPage, Errno> {
        let file = rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, BYTES as u64)?;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(ptr::null_mut(), BYTES, protection, MapFlags::PRIVATE, &file, 0)?
        };
        NonNull::new(start.cast()).map(OwnPage).ok_or(Errno::NOMEM)
    }

    /// Where it is.
    pub fn address(&self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    /// Writes its words, for other processes to copy. A concurrent copy may contain some new words and some old ones.
    pub fn write(&self, words: [u64; WORDS]) {
        // SAFETY: mapped as long as `self` lives, aligned to a page, and longer than the words.
        let page = unsafe { self.0.as_ref() };
        page.iter().zip(words).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
    }
}

impl Drop for OwnPage {
    fn drop(&mut self) {
        // SAFETY: ours, and with `self` the last user of the addresses is gone.
        let _ = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), BYTES) };
    }
}

/// Whether `process` has such a page at `address`.
///
/// # Errors
/// `EACCES`: not allowed to look into that process. `ENOENT`, `ESRCH`: no such process, or `/proc` is not mounted.
pub fn is_at(process: u32, address: u64) -> Result<bool, Errno> {
    let maps = std::fs::read(std::format!("/proc/{process}/maps"));
    let maps = maps.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let name = std::format!("/memfd:{NAME} (deleted)");
    let is_such = |line: &[u8]| {
        let line = core::str::from_utf8(line).ok()?;
        // Addresses, permissions, offset, device, inode, name.
        let (mut fields, path) = (line.split_ascii_whitespace(), line.get(line.find('/')?..)?);
        let start = fields.next()?.split('-').next()?;
        let is_private = fields.next()? == "rw-p";
        Some(u64::from_str_radix(start, 16) == Ok(address) && is_private && path == name)
    };
    Ok(maps.split(|&byte| byte == b'\n').any(|line| is_such(line) == Some(true)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, PoisonError};

    /// A test may get its page at the address that the page of another had: one at a time.
    static TURN: Mutex<()> = Mutex::new(());

    #[test]
    fn page_is_recognised_only_at_its_address_and_while_mapped() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let me = crate::own_pid();
        let (page, other) = (OwnPage::new().unwrap(), std::vec![0_u8; 8192]);
        page.write([1; WORDS]);
        assert_eq!(is_at(me, page.address()), Ok(true));
        assert_eq!(is_at(me, page.address() + 8), Ok(false));
        let elsewhere = other.as_ptr().expose_provenance() as u64 & !4095;
        assert_eq!(is_at(me, elsewhere), Ok(false));
        let gone = page.address();
        drop(page);
        assert_eq!(is_at(me, gone), Ok(false));
        assert_eq!(is_at(0, gone), Err(Errno::NOENT));
    }

    #[test]
    fn words_of_the_page_can_be_copied() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let page = OwnPage::new().unwrap();
        page.write([7, 0, 0, 0, 0, 0, 0, 9]);
        let mut bytes = [0; 8 * WORDS];
        assert_eq!(crate::process_memory::read(crate::own_pid(), page.address(), &mut bytes), Ok(64));
        assert_eq!((bytes[0], bytes[56], bytes.iter().filter(|&&byte| byte != 0).count()), (7, 9, 2));
    }
}
