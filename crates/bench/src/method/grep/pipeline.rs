//! One pipeline of unmodified programs, a CPU for each stage, and what was observed of it.
//!
//! It runs in a process of its own, so that the same launcher can be started bare or under `millstream run`: to both it
//! is what a shell is, a program that makes pipes and starts others.

use std::ffi::OsString;
use std::io;
use std::process::{Child, Command, Stdio};

use millstream_sys::process::{Pid, wait_unreaped};
use millstream_sys::{cpu, pipe};
use serde::{Deserialize, Serialize};

/// Stands between stages on the launcher's command line.
pub const SEPARATOR: &str = ",";

/// What was observed of a stage that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Its process number.
    pub pid: u32,
    /// The CPU that it last ran on; its affinity allowed no other.
    pub cpu: usize,
    /// Exit status; `None` if it died of a signal.
    pub exit_status: Option<i32>,
    /// Bytes that it read, from anything.
    pub bytes_read: u64,
    /// Bytes that it wrote, to anything.
    pub bytes_written: u64,
}

/// What was observed of a whole pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// What each pipe can hold, in bytes.
    pub pipe_bytes: Vec<usize>,
    /// The stages, in order.
    pub stages: Vec<Observation>,
}

/// Runs `stages` connected by pipes, each on its CPU, and waits for all. The first reads our standard input and the last
/// writes our standard output.
///
/// # Errors
/// What making pipes, setting affinities and starting programs answers; the stages that were started are then killed
/// and reaped. `InvalidInput` if a stage is empty or has no CPU.
pub fn run(stages: &[Vec<OsString>], cpus: &[usize]) -> io::Result<Report> {
    if stages.is_empty() || stages.len() != cpus.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "one CPU for each stage"));
    }
    let mut children = Children(Vec::with_capacity(stages.len()));
    let mut input = None;
    let mut pipe_bytes = Vec::with_capacity(stages.len());
    for (index, (stage, &cpu)) in stages.iter().zip(cpus).enumerate() {
        // The affinity goes to what is started from here on.
        cpu::restrict_to(&[cpu])?;
        let (program, arguments) = stage.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some(reader) = input.take() {
            command.stdin(reader);
        }
        if index + 1 < stages.len() {
            let (reader, writer) = pipe::create_for_others()?;
            pipe_bytes.push(pipe::capacity(&reader)?);
            input = Some(Stdio::from(reader));
            command.stdout(writer);
        }
        children.0.push(
            command.spawn().map_err(|error| {
                io::Error::new(error.kind(), format!("cannot start '{}': {error}", program.display()))
            })?,
        );
    }
    let stages = children.0.iter_mut().map(observe).collect::<io::Result<_>>()?;
    Ok(Report { pipe_bytes, stages })
}

/// Kills and reaps what is still running when the launcher gives up half-way.
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits for the end, reads where it ran, reaps. What a child has read and written is added to its parent's counters
/// when it is reaped (`proc(5)`); its own may not be read any more by then.
fn observe(child: &mut Child) -> io::Result<Observation> {
    let pid = child.id();
    wait_unreaped(Pid::from_child(child))?;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let before = Counters::now()?;
    let exit_status = child.wait()?.code();
    let after = Counters::now()?;
    let missing = || io::Error::other(format!("/proc/{pid}/stat does not tell the CPU"));
    Ok(Observation {
        pid,
        cpu: last_cpu(&stat).ok_or_else(missing)?,
        exit_status,
        bytes_read: (after.read - before.read).saturating_sub(before.size),
        bytes_written: after.written - before.written,
    })
}

/// What this process and its reaped children have read and written.
struct Counters {
    read: u64,
    written: u64,
    /// Bytes of the text that this was read from: the next reading counts them.
    size: u64,
}

impl Counters {
    fn now() -> io::Result<Counters> {
        let text = std::fs::read_to_string("/proc/self/io")?;
        let of = |name| counter(&text, name).ok_or_else(|| io::Error::other(format!("/proc/self/io has no {name}")));
        Ok(Counters { read: of("rchar")?, written: of("wchar")?, size: text.len() as u64 })
    }
}

/// Field 39 of `/proc/PID/stat`, counted behind the program's name, which may contain anything.
fn last_cpu(stat: &str) -> Option<usize> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_ascii_whitespace().nth(36)?.parse().ok()
}

/// A line of `/proc/PID/io`.
fn counter(lines: &str, name: &str) -> Option<u64> {
    lines.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(stages: &[&[&str]]) -> Vec<Vec<OsString>> {
        stages.iter().map(|stage| stage.iter().map(OsString::from).collect()).collect()
    }

    #[test]
    fn stages_run_where_they_were_put_and_their_bytes_are_known() {
        let all = cpu::allowed().unwrap();
        let (first, last) = (all[0], all[all.len() - 1]);
        let stages =
            words(&[&["head", "-c", "1000000", "/dev/zero"], &["cat"], &["sh", "-c", "cat >/dev/null; exit 3"]]);
        let report = std::thread::spawn(move || run(&stages, &[first, last, first])).join().unwrap().unwrap();
        let seen = report.stages;
        assert_eq!(report.pipe_bytes.len(), 2);
        assert_eq!(seen.iter().map(|stage| stage.cpu).collect::<Vec<_>>(), [first, last, first]);
        assert_eq!(seen.iter().map(|stage| stage.exit_status).collect::<Vec<_>>(), [Some(0), Some(0), Some(3)]);
        assert_eq!((seen[0].bytes_written, seen[1].bytes_written), (1_000_000, 1_000_000));
        assert!(seen[1].bytes_read >= 1_000_000);
    }

    #[test]
    fn a_stage_that_cannot_start_takes_the_others_with_it() {
        let stages = words(&[&["sleep", "1000"], &["/nonexistent/program"]]);
        let error = std::thread::spawn(move || {
            let cpu = cpu::allowed().unwrap()[0];
            run(&stages, &[cpu, cpu])
        });
        let error = error.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("/nonexistent/program"), "{error}");
    }

    #[test]
    fn a_program_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let mut fields = vec!["0"; 37];
        fields[36] = "5";
        assert_eq!(last_cpu(&format!("12 (a) b (c) {}", fields.join(" "))), Some(5));
    }
}
