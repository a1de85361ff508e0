//! What one launch gave: new processes, from their start to their end.

use serde::{Deserialize, Serialize};

/// Everything that one launch measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Launch {
    /// Samples from before it was warm: recorded, in no figure.
    pub warmup: Vec<f64>,
    /// Samples that count.
    pub samples: Vec<f64>,
    /// How many operations the samples are made of: what one is depends on the method. 0 where the method does not count them.
    #[serde(default)]
    pub operations: u64,
    /// What else happened meanwhile.
    pub telemetry: Telemetry,
}

impl Launch {
    /// A launch that gave one sample.
    pub fn of(sample: f64) -> Launch {
        Launch { samples: vec![sample], ..Launch::default() }
    }
}

/// What the kernel counted for all processes of a launch, from the start of each one's part to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Telemetry {
    /// The process of each part.
    pub pids: Vec<u32>,
    /// Where each ran at its end.
    pub cpus: Vec<usize>,
    /// How often one gave up the CPU by itself, and how often it was taken away.
    pub voluntary_switches: u64,
    /// See [`voluntary_switches`](Self::voluntary_switches).
    pub involuntary_switches: u64,
    /// How often one was moved to another CPU.
    pub migrations: u64,
    /// Pages that had to be mapped, and those that had to be read from a disk.
    pub minor_faults: u64,
    /// See [`minor_faults`](Self::minor_faults).
    pub major_faults: u64,
    /// Hundredths of a second for which the hypervisor gave the CPUs of the launch to other machines.
    pub steal_ticks: u64,
}

impl Telemetry {
    /// Puts the parts of a launch together. Parts on one CPU see the same stolen time, and the most that one saw counts.
    pub(crate) fn join(&mut self, part: Telemetry) {
        self.pids.extend(part.pids);
        self.cpus.extend(part.cpus);
        self.voluntary_switches += part.voluntary_switches;
        self.involuntary_switches += part.involuntary_switches;
        self.migrations += part.migrations;
        self.minor_faults += part.minor_faults;
        self.major_faults += part.major_faults;
        self.steal_ticks = self.steal_ticks.max(part.steal_ticks);
    }
}

/// The kernel's counters at the start of a part.
pub(crate) struct Watch {
    cpu: usize,
    before: Counters,
}

#[derive(Clone, Copy)]
struct Counters {
    usage: millstream_sys::usage::Usage,
    migrations: u64,
    steal_ticks: u64,
}

impl Watch {
    /// Begins, in the process and on the CPU of the part.
    pub(crate) fn start(cpu: usize) -> Watch {
        Watch { cpu, before: Counters::now(cpu) }
    }

    /// What has been counted since.
    pub(crate) fn stop(self) -> Telemetry {
        let (before, after) = (self.before, Counters::now(self.cpu));
        Telemetry {
            pids: vec![std::process::id()],
            cpus: vec![millstream_sys::cpu::current() as usize],
            voluntary_switches: after.usage.voluntary_switches - before.usage.voluntary_switches,
            involuntary_switches: after.usage.involuntary_switches - before.usage.involuntary_switches,
            migrations: after.migrations.saturating_sub(before.migrations),
            minor_faults: after.usage.minor_faults - before.usage.minor_faults,
            major_faults: after.usage.major_faults - before.usage.major_faults,
            steal_ticks: after.steal_ticks.saturating_sub(before.steal_ticks),
        }
    }
}

impl Counters {
    fn now(cpu: usize) -> Counters {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Counters {
            usage: millstream_sys::usage::so_far(),
            // A kernel without scheduler statistics tells no migrations, and 0 is what is seen of them.
            migrations: migrations(&read("/proc/thread-self/sched")).unwrap_or(0),
            steal_ticks: steal_ticks(&read("/proc/stat"), cpu).unwrap_or(0),
        }
    }
}

/// `se.nr_migrations` of `/proc/PID/sched`.
fn migrations(sched: &str) -> Option<u64> {
    let line = sched.lines().find(|line| line.starts_with("se.nr_migrations"))?;
    line.rsplit_once(':')?.1.trim().parse().ok()
}

/// The eighth number of the CPU's line in `/proc/stat` (`proc(5)`).
fn steal_ticks(stat: &str, cpu: usize) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")))?;
    line.split_ascii_whitespace().nth(7)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_in_what_the_kernel_prints() {
        let sched = "name (12, #threads: 1)\n-----\nse.nr_migrations       :         3\nnr_switches : 9\n";
        assert_eq!((migrations(sched), migrations("")), (Some(3), None));
        let stat = "cpu  1 2 3 4 5 6 7 80 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu10 1 2 3 4 5 6 7 9 0 0\n";
        assert_eq!((steal_ticks(stat, 0), steal_ticks(stat, 10), steal_ticks(stat, 1)), (Some(8), Some(9), None));
    }

    #[test]
    fn a_part_that_sleeps_and_touches_memory_is_seen_doing_so() {
        let watch = Watch::start(0);
        std::thread::sleep(std::time::Duration::from_millis(1));
        std::hint::black_box(vec![1_u8; 8 << 20]);
        let seen = watch.stop();
        assert!(seen.voluntary_switches >= 1 && seen.minor_faults >= 1, "{seen:?}");
        assert_eq!(seen.pids, [std::process::id()]);
    }
}
