//! Pages of the size that was asked for, or the reason why not: the kernel may give others without a word.

use std::fs;
use std::ops::Range;

use millstream_sys::pages::{HUGE_BYTES, Pages};

/// How large the pages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSize {
    /// 4 KiB.
    Small,
    /// 2 MiB.
    Huge,
}

impl PageSize {
    /// Both, in the order in which they are shown.
    pub const ALL: [PageSize; 2] = [PageSize::Small, PageSize::Huge];

    /// In results.
    pub fn bytes(self) -> usize {
        match self {
            PageSize::Small => 4096,
            PageSize::Huge => HUGE_BYTES,
        }
    }

    /// The name in options.
    pub fn name(self) -> &'static str {
        match self {
            PageSize::Small => "4k",
            PageSize::Huge => "2m",
        }
    }

    /// Asks for them, before anything is touched.
    pub(super) fn prepare(self, memory: &mut Pages) -> Result<(), String> {
        let asked = memory.prefer_huge(self == PageSize::Huge);
        if self == PageSize::Small {
            // A kernel that does not know huge pages gives small ones.
            return Ok(());
        }
        asked.map_err(|error| format!("this kernel has no transparent huge pages: {error}"))?;
        memory.bytes_mut().fill(0);
        if huge_bytes(memory.addresses())? < memory.len() {
            // If that fails too, the check says what there is.
            let _ = memory.collapse();
        }
        Ok(())
    }

    /// Whether all of `addresses`, which have been touched, are in such pages.
    pub(super) fn check(self, addresses: Range<usize>) -> Result<(), String> {
        let (all, huge) = (addresses.len(), huge_bytes(addresses)?);
        match self {
            PageSize::Small if huge == 0 => Ok(()),
            PageSize::Huge if huge == all => Ok(()),
            _ => {
                let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
                let [huge, all] = [huge, all].map(|bytes| bytes >> 10);
                Err(format!(
                    "{huge} of {all} KiB are in pages of 2 MiB; /sys/kernel/mm/transparent_hugepage/enabled says {}",
                    setting.trim()
                ))
            }
        }
    }
}

/// How many bytes of `addresses`, a mapping by itself, are in huge pages.
fn huge_bytes(addresses: Range<usize>) -> Result<usize, String> {
    let smaps =
        fs::read_to_string("/proc/self/smaps").map_err(|error| format!("cannot read /proc/self/smaps: {error}"))?;
    huge_bytes_in(&smaps, &addresses).ok_or_else(|| "/proc/self/smaps does not tell the size of its pages".into())
}

/// `AnonHugePages` of the mapping with exactly these addresses (`proc_pid_smaps(5)`).
fn huge_bytes_in(smaps: &str, addresses: &Range<usize>) -> Option<usize> {
    let heading = format!("{:x}-{:x} ", addresses.start, addresses.end);
    let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&heading)).skip(1);
    let line = lines.by_ref().take_while(|line| !is_heading(line)).find_map(|line| line.strip_prefix("AnonHugePages:"));
    Some(line?.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()? * 1024)
}

/// Fields begin with a capital letter, headings with an address in lower case.
fn is_heading(line: &str) -> bool {
    !line.starts_with(|first: char| first.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_of_the_right_mapping_is_read() {
        let smaps = "1000-3000 rw-p 00000000 00:00 0\nRss: 8 kB\nAnonHugePages:    16 kB\nVmFlags: rd\n\
            3000-5000 rw-p 00000000 00:00 0\nRss: 8 kB\nAnonHugePages:    2048 kB\n5000-6000 r--p 0 00:00 0\nRss: 0 kB\n";
        assert_eq!(huge_bytes_in(smaps, &(0x3000..0x5000)), Some(2 << 20));
        assert_eq!(huge_bytes_in(smaps, &(0x1000..0x3000)), Some(16 << 10));
        assert_eq!(huge_bytes_in(smaps, &(0x5000..0x6000)), None);
        assert_eq!(huge_bytes_in(smaps, &(0x1000..0x5000)), None);
    }

    #[test]
    fn small_pages_are_small_and_are_not_taken_for_huge_ones() {
        let mut memory = Pages::reserve(8 << 20).unwrap();
        PageSize::Small.prepare(&mut memory).unwrap();
        memory.bytes_mut().fill(1);
        PageSize::Small.check(memory.addresses()).unwrap();
        let why = PageSize::Huge.check(memory.addresses()).unwrap_err();
        assert!(why.starts_with("0 of 8192 KiB are in pages of 2 MiB"), "{why}");
    }
}
