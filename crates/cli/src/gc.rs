//! `millstream gc`: proves that nothing is left behind.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use millstream_pipe::live::Census;
use millstream_pipe::settings;
use millstream_sys::open_files;
use serde::Serialize;

use crate::{ps, terminal};
use millstream_command::failure::{self, Failure};

/// Shown below the options.
pub(crate) const EXAMPLES: &str = "\
Examples:
  millstream gc
  millstream gc --json

Nothing should ever be left: the memory of a pipe has no name and is gone with its last process,
however that ends. This command looks for memory without a pipe, and for files of millstream that
no process has open, in /dev/shm, $XDG_RUNTIME_DIR, $TMPDIR and beside the settings. It removes nothing.

Exit status: 0 if nothing is left behind, 1 if something is; 2 for wrong use;
  125 if /proc cannot be read.";

/// Something is left.
const LEFT: u8 = 1;

/// A process that ends, or closes a pipe, has its descriptors closed one after the other: what is left is left a while
/// later, too.
const WHILE: Duration = Duration::from_millis(200);

/// Options of `millstream gc`.
#[derive(Args)]
pub(crate) struct Options {
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

/// What was found. The field names are the JSON format, described in `docs/settings.md`.
#[derive(Serialize)]
struct Found {
    schema: &'static str,
    clean: bool,
    pipes: usize,
    unused: usize,
    segments: Vec<Segment>,
    files: Vec<String>,
    left_out: usize,
}

/// Memory of a pipe of which no process has an end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Segment {
    pipe: u64,
    memory: u64,
    pids: Vec<u32>,
}

/// Looks twice.
pub(crate) fn gc(options: &Options) -> Result<ExitCode, Failure> {
    let (first, first_files) = (ps::look()?, files());
    std::thread::sleep(WHILE);
    let (second, second_files) = (ps::look()?, files());
    let before = segments(&first);
    let segments: Vec<_> = segments(&second).into_iter().filter(|segment| before.contains(segment)).collect();
    // A file can have any name: the terminal obeys nothing of it, and JSON is text.
    let shown = |path: &PathBuf| path.to_string_lossy().escape_debug().to_string();
    let files: Vec<_> = second_files.intersection(&first_files).map(shown).collect();
    let found = Found {
        schema: "millstream gc 1",
        clean: segments.is_empty() && files.is_empty(),
        pipes: second.pipes.len() - segments.len(),
        unused: second.unused,
        segments,
        files,
        left_out: second.left_out,
    };
    let printed = failure::print(&if options.json { terminal::json(&found)? } else { found.text() })?;
    Ok(if found.clean { printed } else { ExitCode::from(LEFT) })
}

fn segments(census: &Census) -> Vec<Segment> {
    let without_ends = census.pipes.iter().filter(|pipe| pipe.ends.is_empty());
    let segment = |pipe: &millstream_pipe::live::LivePipe| Segment {
        pipe: pipe.number,
        memory: pipe.memory,
        pids: pipe.holders.clone(),
    };
    without_ends.map(segment).collect()
}

/// Files of ours, by their names, that no process has open.
fn files() -> BTreeSet<PathBuf> {
    let mut places = vec![(PathBuf::from("/dev/shm"), "millstream"), (std::env::temp_dir(), "millstream-")];
    if let Some(directory) = std::env::var_os("XDG_RUNTIME_DIR") {
        places.push((directory.into(), "millstream"));
    }
    for file in [Some(settings::system_file()), settings::user_file()].into_iter().flatten() {
        places.extend(file.parent().map(|directory| (directory.to_owned(), crate::ctl::UNFINISHED)));
    }
    let called = places.iter().flat_map(|(directory, prefix)| open_files::files_called(directory, prefix));
    // Directories are made by tests, and by programs that like the name.
    let mut found: BTreeSet<_> = called.filter(|path| !is_directory(path)).collect();
    if !found.is_empty() {
        let open = open_files::names();
        found.retain(|path| !open.contains(path));
    }
    found
}

fn is_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|status| status.is_dir())
}

impl Found {
    fn text(&self) -> String {
        let mut lines = Vec::new();
        for Segment { pipe, pids, .. } in &self.segments {
            let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
            lines.push(format!(
                "left behind: the memory of pipe {pipe}, of which no process has an end; it goes with process {}",
                pids.join(", ")
            ));
        }
        for file in &self.files {
            lines.push(format!("left behind: {file}, which no process has open; it can be removed"));
        }
        if self.clean {
            let in_use = match self.pipes {
                0 => "no pipe is".to_owned(),
                1 => "1 pipe is".to_owned(),
                count => format!("{count} pipes are"),
            };
            lines.push(format!("Nothing is left behind; {in_use} in use."));
        }
        if self.left_out > 0 {
            lines.push(format!("{} processes of other users were left out; root sees all.", self.left_out));
        }
        lines.into_iter().map(|line| line + "\n").collect()
    }
}
