//! The instrument against another one: `lat_mem_rd` and a pointer chase in C, which was written apart and shares nothing
//! with it, walk through the same sizes in turns, and must see the same levels of cache.
//!
//! What is compared is two instruments, so a ratio is asserted and no time. Another program may disturb one of the two
//! for a whole series; then the series is taken again, a few times: an instrument that is wrong is wrong each time.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use millstream_bench::cell::Cell;
use millstream_bench::engine::placement::Placement;
use millstream_bench::engine::statistics::median;
use millstream_bench::engine::{self, Effort, Job, Launch};
use millstream_bench::machine::Machine;
use millstream_bench::method::lat_mem_rd::{self, Curve, LINE, PageSize, Pattern, Plan, Summary};

/// Walks through SIZE bytes of small pages on a CPU, one load a line in a random order, and prints the nanoseconds for a
/// load: the median of slices, since the machine may be busy. It shuffles the lines and links each to the next, where
/// ours draws the cycle itself; it walks with another loop; it has another source of random numbers.
const CHASE: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { LINE = 64, SLICES = 250, LOADS = 4000 };

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv) {
    size_t size = strtoull(argv[1], 0, 10), lines = size / LINE;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(atoi(argv[2]), &cpus);
    if (argc != 3 || sched_setaffinity(0, sizeof cpus, &cpus)) return 1;
    char *memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || madvise(memory, size, MADV_NOHUGEPAGE)) return 2;
    size_t *order = malloc(lines * sizeof *order);
    if (!order) return 3;
    for (size_t i = 0; i < lines; i++) order[i] = i;
    srandom(12345);
    for (size_t i = lines - 1; i > 0; i--) {
        size_t j = (((size_t)random() << 31) ^ random()) % (i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (size_t i = 0; i < lines; i++)
        *(void **)(memory + order[i] * LINE) = memory + order[(i + 1) % lines] * LINE;
    free(order);
    void **p = (void **)memory;
    for (int i = 0; i < SLICES * LOADS; i++) p = (void **)*p;
    double slice[SLICES];
    for (int s = 0; s < SLICES; s++) {
        double start = now();
        for (int i = 0; i < LOADS / 10; i++) {
            p = (void **)*p; p = (void **)*p; p = (void **)*p; p = (void **)*p; p = (void **)*p;
            p = (void **)*p; p = (void **)*p; p = (void **)*p; p = (void **)*p; p = (void **)*p;
        }
        slice[s] = (now() - start) / LOADS;
    }
    qsort(slice, SLICES, sizeof *slice, ascending);
    if (p == 0) return 4;
    printf("%f\n", slice[SLICES / 2]);
    return 0;
}
"#;

/// Launches of each instrument at each size.
const ROUNDS: usize = 7;

/// How often the whole is taken again before it fails.
const TRIES: usize = 6;

struct Chase {
    directory: PathBuf,
}

impl Chase {
    fn compile() -> Chase {
        let directory = std::env::temp_dir().join(format!("millstream-chase-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let chase = Chase { directory };
        let source = chase.directory.join("chase.c");
        fs::write(&source, CHASE).unwrap();
        let compiled = Command::new("cc").arg("-O1").arg(source).arg("-o").arg(chase.program()).status().unwrap();
        assert!(compiled.success(), "the C compiler refused the chase");
        chase
    }

    fn program(&self) -> PathBuf {
        self.directory.join("chase")
    }
}

impl Drop for Chase {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn run(program: &Path, size: usize) -> Result<Launch, String> {
    let [cpu, _] = Placement::OneCpu.cpus()?;
    let output = Command::new(program).args([size.to_string(), cpu.to_string()]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    printed.trim().parse().map(Launch::of).map_err(|_| format!("the chase failed: {output:?}"))
}

/// Well inside each level, and one that is in none: half of each private cache, a quarter of the shared one, and four
/// times that.
fn levels() -> Vec<usize> {
    let caches = Machine::this().caches;
    let (shared, private) = caches.split_last().unwrap_or((&0, &[]));
    let halves = private.iter().filter(|&&bytes| bytes > 0).map(|bytes| bytes / 2);
    let mut levels: Vec<usize> = halves.chain((*shared > 0).then_some(shared / 4)).map(|size| size as usize).collect();
    levels.push(lat_mem_rd::beyond_cache());
    assert!(levels.len() >= 3 && levels.is_sorted(), "the kernel does not tell this machine's caches: {levels:?}");
    levels.into_iter().map(|size| size / 4096 * 4096).collect()
}

/// The medians of the random walk, the sequential one and the chase, by size.
fn measure(chase: &Rc<Chase>) -> Curves {
    let curve = |pattern| Curve { pattern, stride: LINE, pages: PageSize::Small, sizes: levels() };
    let curves = [Pattern::Random, Pattern::Sequential].map(curve).to_vec();
    let plan = Plan { curves, seed: lat_mem_rd::SEED, summary: Summary::MedianSlice };
    let mut comparisons = lat_mem_rd::comparisons(&plan);
    for comparison in &mut comparisons {
        let size = comparison.jobs[0].cell.params["size"].as_u64().unwrap() as usize;
        let cell = Cell::new("lat_mem_rd", "c", "1cpu", BTreeMap::from([("size", size.into())]), "ns");
        let chase = Rc::clone(chase);
        comparison.jobs.push(Job::new(cell, move || run(&chase.program(), size)));
    }
    let mut seen = BTreeMap::new();
    for cells in engine::measure(comparisons, &Effort::exactly(ROUNDS), |_| ()).chunks(3) {
        assert!(cells.iter().all(|cell| cell.valid), "{cells:?}");
        assert_eq!((&*cells[0].params["workload"].to_string(), &*cells[2].transport), ("\"random\"", "c"));
        let size = cells[0].params["size"].as_u64().unwrap() as usize;
        seen.insert(size, [0, 1, 2].map(|index: usize| median(&cells[index].samples)));
    }
    seen
}

#[test]
fn the_random_curve_is_that_of_a_pointer_chase_in_c_and_the_sequential_one_stays_below() {
    let chase = Rc::new(Chase::compile());
    let mut log = Vec::new();
    for _ in 0..TRIES {
        let seen = measure(&chase);
        let is_good = is_agreed(&seen) && is_stair(&seen) && is_sequential_below(&seen);
        // Shown with --nocapture, and when the test fails.
        println!("random, sequential, C by size: {seen:?}");
        log.push(seen);
        if is_good {
            return;
        }
    }
    panic!("not once in {TRIES} tries did all of this hold together: {log:#?}");
}

type Curves = BTreeMap<usize, [f64; 3]>;

/// At every level.
fn is_agreed(seen: &Curves) -> bool {
    seen.values().all(|[random, _, c]| (random / c - 1.0).abs() <= 0.1)
}

/// Levels, not one number.
fn is_stair(seen: &Curves) -> bool {
    seen.values().zip(seen.values().skip(1)).all(|([lower, ..], [upper, ..])| lower < upper)
}

/// Beyond the private caches: within the first, both are what a hit costs.
fn is_sequential_below(seen: &Curves) -> bool {
    seen.values().skip(seen.len() - 2).all(|[random, sequential, _]| *sequential < 0.6 * random)
}
