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
    /// Bytes of each level of cache of the first CPU, from the first level on; 0 where nobody says.
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

    /// Bytes of the largest cache, or what is common for one where nobody says.
    pub fn last_level_cache(&self) -> u64 {
        self.caches.iter().copied().max().filter(|&bytes| bytes > 0).unwrap_or(32 << 20)
    }
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Bytes of memory that could be had now without swapping; 0 where nobody says.
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
    fn what_the_kernel_prints_is_understood() {
        let meminfo = "MemTotal:       24696148 kB\nMemFree: 1 kB\nMemAvailable:    8 kB\n";
        assert_eq!((amount(meminfo, "MemTotal:"), amount(meminfo, "MemAvailable:")), (24_696_148 << 10, 8 << 10));
        assert_eq!(amount(meminfo, "SwapTotal:"), 0);
        assert_eq!((chosen("always [madvise] never"), chosen("")), ("madvise".into(), "unknown".into()));
        assert_eq!(caches(Path::new("/nonexistent")), [0; 0]);
    }
}
