//! The rows in which one command is timed: reading or writing files through the mount, and doing the same without it.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_sys::clock;

use super::plan::Row;
use super::setting::{BARE, OURS, PIPE, Setting};
use super::side::Side;
use crate::engine::{Comparison, Job, Launch};

/// libfuse's example of a file system that changes nothing.
pub(super) const PASSTHROUGH_LL: &str = "passthrough_ll";

/// Stages of `increment` that are measured.
pub const INCREMENTS: [usize; 5] = [1, 2, 4, 8, 16];

/// Stages of the files that are opened.
pub const OPENED: [usize; 4] = [0, 1, 5, 25];

/// How often a file is opened for one sample.
const OPENS: u32 = 500;

/// A text as it is.
pub(super) fn unchanged(setting: &Setting<'_>, row: Row, network: Option<&str>) -> Result<Vec<Comparison>, String> {
    let text = setting.place().text(setting.plan.size)?;
    let source = setting.place().source("plain")?;
    let mount = setting.place().mounted(&source, network)?;
    let mut sides = vec![Side::cat(BARE, text), Side::cat_mounted(OURS, mount.join("text"))];
    let mut baseline = BARE;
    if row == Row::Identity
        && let Some(point) = passed_through(setting, &source)
    {
        sides.push(Side::cat_mounted(PASSTHROUGH_LL, point.join("text")));
        baseline = PASSTHROUGH_LL;
    }
    Ok(vec![setting.comparison(row, None, baseline, sides)])
}

pub(super) fn increment(setting: &Setting<'_>, stages: usize) -> Result<Comparison, String> {
    let text = setting.place().text(setting.plan.size)?;
    let source = setting.place().source("plain")?;
    let mount = setting.place().mounted(&source, Some(&vec!["increment"; stages].join(" | ")))?;
    // The first stage reads the file itself.
    let adds = vec!["\"$PROGRAM\" add"; stages].join(" | ").replacen(" add", " add <\"$FILE\"", 1);
    let pipeline = |name, script: String| Side {
        environment: vec![("PROGRAM", setting.plan.programs.bench.clone())],
        ..Side::new(name, script, text.clone())
    };
    let sides = vec![
        pipeline(PIPE, format!("{adds} | cat")),
        // The pipeline without a program that reads it.
        pipeline("pipe-tight", adds.clone()),
        Side::cat_mounted(OURS, mount.join("text")),
    ];
    Ok(setting.comparison(Row::Increment, Some(stages), PIPE, sides))
}

pub(super) fn unpacked(
    setting: &Setting<'_>,
    row: Row,
    program: &'static str,
    end: &str,
    network: &str,
) -> Result<Vec<Comparison>, String> {
    let packed = setting.place().packed(setting.plan.size, program, end)?;
    let source = setting.place().source(end)?;
    let mount = setting.place().mounted(&source, Some(network))?;
    let alone = format!("{program} -dc \"$FILE\"");
    let sides = vec![
        Side::new(PIPE, format!("{alone} | cat"), packed.clone()),
        Side::new(program, alone, packed),
        Side::cat_mounted(OURS, mount.join("text")),
    ];
    // gzip(1) and zstd(1) are measured as they are used: the former mostly in pipelines.
    let baseline = if row == Row::Gunzip { PIPE } else { program };
    Ok(vec![setting.comparison(row, None, baseline, sides)])
}

pub(super) fn packed(setting: &Setting<'_>) -> Result<Vec<Comparison>, String> {
    let text = setting.place().text(setting.plan.size)?;
    let source = setting.place().source("written")?;
    let mount = setting.place().mounted(&source, Some("unzstd"))?;
    let side = |name, script: &str, output: PathBuf, written: PathBuf| Side {
        proof: Some("zstd -dc \"$WRITTEN\""),
        environment: vec![("OUTPUT", output), ("WRITTEN", written)],
        ..Side::new(name, script.into(), text.clone())
    };
    let (bare, ours) = (source.join("bare.zst"), source.join("text.zst"));
    let sides = vec![
        side(PIPE, "cat \"$FILE\" | zstd -qf -o \"$OUTPUT\"", bare.clone(), bare),
        side(OURS, "cat \"$FILE\" >\"$OUTPUT\"", mount.join("text"), ours),
    ];
    Ok(vec![setting.comparison(Row::ZstdWrite, None, PIPE, sides)])
}

/// A file is opened and closed: one without stages against the bare file system, others against one without.
pub(super) fn opened(setting: &Setting<'_>, stages: usize) -> Result<Comparison, String> {
    let text = setting.place().text(setting.plan.size)?;
    let source = setting.place().source("plain")?;
    let unbound = setting.place().mounted(&source, None)?.join("text");
    let (baseline, other, own) = match stages {
        0 => (BARE, text, unbound),
        _ => {
            let network = vec!["identity"; stages].join(" | ");
            ("unbound", unbound, setting.place().mounted(&source, Some(&network))?.join("text"))
        }
    };
    let job = |transport, path: PathBuf| {
        let place = Arc::clone(setting.place);
        Job::new(setting.cell(Row::Open, Some(stages), transport, "us"), move || {
            let _until_measured = &place;
            open_and_close(&path)
        })
    };
    Ok(Comparison { baseline: Some(baseline), rehearsals: 1, jobs: vec![job(baseline, other), job(OURS, own)] })
}

pub(super) fn tar(setting: &Setting<'_>) -> Result<Vec<Comparison>, String> {
    let directory = setting.place().small_files(setting.plan.files)?;
    let mount = setting.place().mounted(&directory, Some("identity"))?;
    // To /dev/null tar(1) would write without reading the files.
    let script = "tar -c --sort=name -C \"$FILE\" . | cat";
    let mut sides = vec![Side::new(BARE, script.into(), directory.clone()), Side::mounted(OURS, script.into(), mount)];
    let mut baseline = BARE;
    if let Some(point) = passed_through(setting, &directory) {
        sides.push(Side::mounted(PASSTHROUGH_LL, script.into(), point));
        baseline = PASSTHROUGH_LL;
    }
    Ok(vec![setting.comparison(Row::Tar, None, baseline, sides)])
}

/// Where libfuse's example shows a directory.
fn passed_through(setting: &Setting<'_>, source: &Path) -> Option<PathBuf> {
    setting.rival(PASSTHROUGH_LL, |program| {
        let option = format!("source={}", source.display());
        setting.place().mounted_by(program, source, &["-f".as_ref(), "-o".as_ref(), option.as_ref()])
    })
}

/// The members of a compressed archive, one after the other. The image of squashfuse has the same files, compressed alike.
pub(super) fn archive(setting: &Setting<'_>) -> Result<Vec<Comparison>, String> {
    let archive = setting.place().archive(setting.plan.files)?;
    let mount = setting.place().mounted_archives(&archive)?;
    let script = "cd \"$FILE\"; find . -type f | sort | xargs cat";
    let mut sides = vec![
        Side::new(PIPE, "gzip -dc \"$FILE\" | tar -xO".into(), archive.clone()),
        Side::mounted(OURS, script.into(), mount),
    ];
    let options: [(&'static str, &[&OsStr]); 2] = [
        ("ratarmount", &["-f".as_ref(), "--index-file".as_ref(), ":memory:".as_ref(), archive.as_ref()]),
        ("fuse-archive", &["-f".as_ref(), archive.as_ref()]),
    ];
    for (name, options) in options {
        let point = setting.rival(name, |program| setting.place().mounted_by(program, &archive, options));
        sides.extend(point.map(|point| Side::mounted(name, script.into(), point)));
    }
    let point = setting.rival("squashfuse", |program| {
        let image = setting.place().image(setting.plan.files)?;
        setting.place().mounted_by(program, &image, &["-f".as_ref(), image.as_ref()])
    });
    sides.extend(point.map(|point| Side::mounted("squashfuse", script.into(), point)));
    Ok(vec![setting.comparison(Row::Archive, None, PIPE, sides)])
}

/// A text that is encrypted on disk.
pub(super) fn encrypted(setting: &Setting<'_>) -> Result<Vec<Comparison>, String> {
    let (key, encrypted) = setting.place().encrypted(setting.plan.size)?;
    let source = setting.place().source("age")?;
    let network = format!("unage -i {}", key.display());
    let mount = setting.place().mounted(&source, Some(&network))?;
    let mut sides = vec![
        Side {
            environment: vec![("KEY", key)],
            ..Side::new(PIPE, "age -d -i \"$KEY\" \"$FILE\" | cat".into(), encrypted)
        },
        Side::cat_mounted(OURS, mount.join("text")),
    ];
    let text = setting.rival("gocryptfs", |program| setting.place().gocryptfs(program, setting.plan.size));
    sides.extend(text.map(|text| Side::cat_mounted("gocryptfs", text)));
    Ok(vec![setting.comparison(Row::Encrypted, None, PIPE, sides)])
}

/// Microseconds of opening a file and closing it.
fn open_and_close(path: &Path) -> Result<Launch, String> {
    let start = clock::raw_nanoseconds();
    for _ in 0..OPENS {
        File::open(path).map_err(|error| format!("cannot open '{}': {error}", path.display()))?;
    }
    let nanoseconds = clock::raw_nanoseconds() - start;
    Ok(Launch { operations: OPENS.into(), ..Launch::of(nanoseconds as f64 / 1e3 / f64::from(OPENS)) })
}
