//! The machine that was measured: what tells it from others, and what the figures depend on.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// What tells one machine from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// As the kernel calls the processor.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cpus: usize,
    /// Release of the kernel.
    pub kernel: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of each level of cache of the first CPU, from the first level on; 0 where the kernel does not say.
    pub caches: Vec<u64>,
    /// The setting of transparent huge pages.
    pub huge_pages: String,
    /// Whether a hypervisor runs underneath.
    pub is_virtual: bool,
}

impl Machine {
    /// This one.
    pub fn this() -> Machine {
        let cpuinfo = read("/proc/cpuinfo");
        let cpu = cpuinfo.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim()));
        let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
        Machine {
            cpu: cpu.unwrap_or("unknown").to_owned(),
            cpus: millstream_sys::cpu::allowed().map_or(0, |cpus| cpus.len()),
            kernel: read("/proc/sys/kernel/osrelease"),
            memory: amount(&read("/proc/meminfo"), "MemTotal:"),
            caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            huge_pages: chosen(&read("/sys/kernel/mm/transparent_hugepage/enabled")),
            is_virtual: flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"),
        }
    }

    /// What figures of two runs must have in common to be compared: 16 hexadecimal digits of the processor, how many CPUs
    /// this process may use, the first two numbers of the kernel's release, the memory in steps of 1 GiB, the caches, and
    /// whether a hypervisor runs underneath.
    ///
    /// The kernel's patch level is left out, because those change every week and seldom the speed of a pipe, and so is
    /// the exact size of the memory, of which each boot keeps another part to itself. The setting of huge pages can be
    /// changed by hand at any time; methods that depend on it check the pages that they got.
    pub fn fingerprint(&self) -> String {
        let version: Vec<&str> = self.kernel.split(['.', '-']).take(2).collect();
        let gibibytes = (self.memory + (1 << 29)) >> 30;
        let Machine { cpu, cpus, caches, is_virtual, .. } = self;
        let text = format!("{cpu}\n{cpus}\n{}\n{gibibytes}\n{caches:?}\n{is_virtual}", version.join("."));
        format!("{:016x}", fnv(text.as_bytes()))
    }

    /// Bytes of the largest cache, or a common size where the kernel does not say.
    pub fn last_level_cache(&self) -> u64 {
        self.caches.iter().copied().max().filter(|&bytes| bytes > 0).unwrap_or(32 << 20)
    }
}

/// FNV-1a of 64 bits (Fowler, Noll and Vo; RFC 9923): the same in every version of every program, which the standard
/// library's hash is not.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Bytes of memory that could be had now without swapping; 0 where the kernel does not say.
pub fn available_memory() -> u64 {
    amount(&read("/proc/meminfo"), "MemAvailable:")
}

/// A line of `/proc/meminfo`, in bytes.
fn amount(meminfo: &str, name: &str) -> u64 {
    let kibibytes = meminfo.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));
    kibibytes.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// What the kernel says of each cache that holds data.
fn caches(directory: &Path) -> Vec<u64> {
    let mut sizes = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let read = |name| read(entry.path().join(name));
        let level: Option<usize> = read("level").parse().ok();
        let kibibytes: Option<u64> = read("size").strip_suffix('K').and_then(|count| count.parse().ok());
        if let (Some(level @ 1..=8), Some(kibibytes), true) = (level, kibibytes, read("type") != "Instruction") {
            sizes.resize(sizes.len().max(level), 0);
            sizes[level - 1] = kibibytes * 1024;
        }
    }
    sizes
}

/// The word in brackets.
fn chosen(setting: &str) -> String {
    let behind = setting.split_once('[').map_or("", |(_, behind)| behind);
    behind.split_once(']').map_or("unknown", |(word, _)| word).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_name_memory_and_cpus() {
        let machine = Machine::this();
        assert!(machine.memory > 1 << 20 && machine.cpus > 0 && !machine.kernel.is_empty(), "{machine:?}");
        assert!(machine.last_level_cache() > 0);
        assert!((1..machine.memory).contains(&available_memory()));
    }

    #[test]
    fn a_machine_keeps_its_fingerprint_until_something_that_matters_changes() {
        assert_eq!((fnv(b""), fnv(b"foobar")), (0xcbf2_9ce4_8422_2325, 0x8594_4171_f739_67e8));
        let machine = Machine {
            cpu: "Some CPU".into(),
            cpus: 2,
            kernel: "6.18.44-1-amd64".into(),
            memory: 8 << 30,
            caches: vec![32 << 10, 1 << 20],
            huge_pages: "madvise".into(),
            is_virtual: true,
        };
        let same = [
            Machine { kernel: "6.18.9".into(), ..machine.clone() },
            Machine { memory: (8 << 30) - (90 << 20), ..machine.clone() },
            Machine { huge_pages: "always".into(), ..machine.clone() },
        ];
        let other = [
            Machine { cpu: "Other CPU".into(), ..machine.clone() },
            Machine { cpus: 4, ..machine.clone() },
            Machine { kernel: "6.1.44".into(), ..machine.clone() },
            Machine { memory: 16 << 30, ..machine.clone() },
            Machine { caches: vec![32 << 10], ..machine.clone() },
            Machine { is_virtual: false, ..machine.clone() },
        ];
        assert!(same.iter().all(|same| same.fingerprint() == machine.fingerprint()));
        assert!(other.iter().all(|other| other.fingerprint() != machine.fingerprint()));
        // Written into histories: it must not change with the program.
        assert_eq!(machine.fingerprint().len(), 16);
    }

    #[test]
    fn what_the_kernel_prints_is_understood() {
        let meminfo = "MemTotal:       24696148 kB\nMemFree: 1 kB\nMemAvailable:    8 kB\n";
        assert_eq!((amount(meminfo, "MemTotal:"), amount(meminfo, "MemAvailable:")), (24_696_148 << 10, 8 << 10));
        assert_eq!(amount(meminfo, "SwapTotal:"), 0);
        assert_eq!((chosen("always [madvise] never"), chosen("")), ("madvise".into(), "unknown".into()));
        assert_eq!(caches(Path::new("/nonexistent")), [0; 0]);
    }
}
