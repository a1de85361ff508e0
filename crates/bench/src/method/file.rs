//! Files that are transformed by a mount, against the bare file system and against pipelines that do the same.
//!
//! ```text
//! sh -c 'gzip -dc text.gz | cat >/dev/null'     a pipeline of processes over the source
//! sh -c 'cat MNT/text >/dev/null'               one program over the mount, which the kernel has no pages of
//! ```
//!
//! What is timed is the whole command as a user waits for it. Sources are in the kernel's cache. Before each launch the kernel
//! is told to drop the pages of the mounted file, which it would read from its cache otherwise. In a rehearsal every
//! command prints what it has read, and all of a comparison have to print the same.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use millstream_sys::signals::{self, Held};

use super::increment::add_one;
use crate::engine::Comparison;
use crate::programs::installed;

mod place;
mod plan;
mod random;
mod rows;
mod setting;
mod side;
mod target;

use place::Place;
pub use plan::{NAME, Plan, Row};
pub use rows::{INCREMENTS, OPENED};
use setting::{Setting, locked};
pub use target::{Target, target};

/// What can be measured here, and what cannot.
pub struct Planned {
    /// The comparisons of all rows that can be measured.
    pub comparisons: Vec<Comparison>,
    /// A sentence for each that is left out.
    pub left_out: Vec<String>,
}

/// Makes the files and mounts them. From now on a signal that would end this process takes both away first. To be called before
/// other threads are started.
///
/// # Errors
/// A sentence: files cannot be made or mounted.
pub fn comparisons(plan: &Plan) -> Result<Planned, String> {
    if !Path::new("/dev/fuse").exists() {
        return Err("there is no /dev/fuse: nothing can be mounted".into());
    }
    let held = Arc::new(Held::hold());
    let place = Arc::new(Mutex::new(Place::new(plan.programs.millstream.clone(), Arc::clone(&held))?));
    remove_when_told(Arc::clone(&held), &place);
    let setting = Setting { plan, place: &place, left_out: RefCell::default() };
    let mut comparisons = Vec::new();
    for &row in &plan.rows {
        match row.needs().filter(|program| installed(program).is_none()) {
            Some(program) => {
                setting.left_out.borrow_mut().push(format!("left out: {}: {program} is not installed", row.name()));
            }
            None => comparisons.extend(comparisons_of(&setting, row)?),
        }
    }
    Ok(Planned { comparisons, left_out: setting.left_out.into_inner() })
}

fn comparisons_of(setting: &Setting<'_>, row: Row) -> Result<Vec<Comparison>, String> {
    match row {
        Row::Unbound => rows::unchanged(setting, row, None),
        Row::Identity => rows::unchanged(setting, row, Some("identity")),
        Row::Increment => INCREMENTS.iter().map(|&stages| rows::increment(setting, stages)).collect(),
        Row::Gunzip => rows::unpacked(setting, row, "gzip", "gz", "gunzip"),
        Row::Zstd => rows::unpacked(setting, row, "zstd", "zst", "unzstd"),
        Row::ZstdWrite => rows::packed(setting),
        Row::Open => OPENED.iter().map(|&stages| rows::opened(setting, stages)).collect(),
        Row::Tar => rows::tar(setting),
        Row::Archive => rows::archive(setting),
        Row::Encrypted => rows::encrypted(setting),
        Row::Random => random::comparisons(setting),
    }
}

/// Nothing stays mounted, whatever signal ends the measurement.
fn remove_when_told(held: Arc<Held>, place: &Arc<Mutex<Place>>) {
    let place = Arc::downgrade(place);
    thread::spawn(move || {
        loop {
            let signal = held.next().signal;
            if signals::ends_a_process(signal) {
                if let Some(place) = place.upgrade() {
                    locked(&place).remove();
                }
                signals::die_of(signal);
            } else if signals::OF_THE_TERMINAL.contains(&signal) {
                signals::raise_unblocked(signal);
            }
        }
    });
}

/// A stage of the pipelines: adds one to each byte of its input, with the loop of the transform.
///
/// # Errors
/// Those of reading and writing.
pub fn add(mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return output.flush(),
            Ok(count) => {
                add_one(&mut buffer[..count]);
                output.write_all(&buffer[..count])?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stage_adds_one_to_each_byte() {
        let mut output = Vec::new();
        add(&[0, 1, 255][..], &mut output).unwrap();
        assert_eq!(output, [1, 2, 0]);
    }
}
