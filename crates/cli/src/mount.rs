//! `millstream mount`: a directory whose files are transformed while they are read and written.

mod daemon;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use millstream_fs::{Log, Mount, Options as MountOptions, Rules, Unmounter};
use millstream_sys::memory;
use millstream_sys::signals::{self, Held};

use crate::bytes;
use millstream_command::failure::{self, Failure};

/// Shown below the options.
pub(crate) const EXAMPLES: &str = "\
Examples:
  millstream mount logs /mnt 'gunzip'          logs/a.gz is /mnt/a, decompressed
  millstream mount logs /mnt 'gunzip | grep ERROR' --read-only
  millstream mount vault /mnt 'unage -i key'   what is written to /mnt is encrypted in vault
  millstream mount data /mnt --rules rules.toml
  umount /mnt                                  or: fusermount3 -u /mnt

rules.toml:
  [[rule]]
  match = \"*.gz\"        # which files
  as = \"*\"              # how they appear
  read = \"gunzip\"       # what their bytes go through; writes go through what undoes it

Exit status: 0 mounted, and in the foreground unmounted again; 2 wrong use, or rules that cannot work;
  125 the directory cannot be mounted.";

/// Options of `millstream mount`.
#[derive(Args)]
pub(crate) struct Options {
    /// The directory with the files
    #[arg(value_name = "SRC")]
    source: PathBuf,

    /// The directory in which they appear
    #[arg(value_name = "MNT")]
    mount_point: PathBuf,

    /// What the bytes of all files go through when they are read; gunzip, unzstd, unxz, unlz4, unbrotli and unage at the
    /// beginning are for files with the usual end of the name, which then appear without it
    #[arg(value_name = "NETWORK", conflicts_with = "rules")]
    network: Option<String>,

    /// Rules for several kinds of files, as TOML
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// Stay until it is unmounted, with messages on stderr instead of the system's log
    #[arg(long)]
    foreground: bool,

    /// No program can write
    #[arg(long)]
    read_only: bool,

    /// Let other users in, as far as the permissions of the files let them
    #[arg(long)]
    allow_other: bool,

    /// Read and write files that are not transformed in this process too, and not in the kernel alone
    #[arg(long)]
    no_passthrough: bool,

    /// Memory for transformed bytes that may be read again, in bytes, with K, M or G
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse, default_value = "32M")]
    cache: u64,

    /// Keep the indexes of gzip files in this directory, so that the next mount reads anywhere in them at once
    #[arg(long, value_name = "DIR")]
    index_cache: Option<PathBuf>,

    /// Bytes of that directory, at most, with K, M or G
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse, default_value = "1G")]
    index_cache_size: u64,

    /// Started by this command itself, in the background
    #[arg(long, hide = true)]
    as_daemon: bool,
}

/// Mounts, and serves.
pub(crate) fn mount(options: &Options) -> Result<ExitCode, Failure> {
    let rules = match (&options.network, &options.rules) {
        (Some(network), _) => Rules::from_line(network).map_err(Failure::usage)?,
        (None, Some(file)) => Rules::from_file(file).map_err(Failure::usage)?,
        (None, None) => Rules::default(),
    };
    if !options.foreground && !options.as_daemon {
        return daemon::start();
    }
    // Before there are other threads, which would be ended by a signal themselves.
    let held = Held::hold();
    report_panics();
    memory::share_heap();
    let mount_options = MountOptions {
        read_only: options.read_only,
        allow_other: options.allow_other,
        passthrough: !options.no_passthrough,
        cache_bytes: usize::try_from(options.cache).unwrap_or(usize::MAX),
        index_cache: options.index_cache.clone(),
        index_cache_bytes: options.index_cache_size,
        log: if options.as_daemon { Log::Syslog } else { Log::Stderr },
        ..MountOptions::default()
    };
    let mut mount = Mount::new(&options.source, &options.mount_point, rules, &mount_options).map_err(Failure::own)?;
    unmount_on_signals(held, mount.unmounter());
    if options.as_daemon {
        daemon::is_ready()?;
    }
    mount.serve().map_err(Failure::own)?;
    Ok(ExitCode::SUCCESS)
}

/// The first ends the mount as soon as no program has a file open; the second does not wait for them.
fn unmount_on_signals(held: Held, mut unmounter: Unmounter) {
    let wait = move || {
        let next = || while !signals::END_REQUESTS.contains(&held.next().signal) {};
        next();
        if let Err(error) = unmounter.unmount() {
            failure::warn(error);
        }
        next();
        unmounter.abandon();
    };
    // Without the thread, signals do nothing, and umount(8) still works.
    let _ = std::thread::Builder::new().name("signals".into()).spawn(wait);
}

/// A bug in a transform is an error of one call; the mount goes on.
fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.to_string().replace(":\n", ": ").replace('\n', " ");
        failure::warn(format!("this is a bug of millstream; please report it with what you did: {place}"));
    }));
}
