//! A directory that is mounted for a test, and unmounted whatever becomes of it.
#![allow(dead_code, reason = "each test program uses a part")]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::common::{self, Scratch, millstream};

/// How long a mount may take to appear, or to go, on a machine that is busy.
const LIMIT: Duration = Duration::from_secs(60);

/// Whether this process cannot mount on this system. Says so, and to `make test`, which counts it as skipped.
pub(crate) fn is_forbidden() -> bool {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let why = match (Path::new("/dev/fuse").exists(), is_root) {
        (true, true) => return false,
        (false, _) => "mount: there is no /dev/fuse",
        (true, false) => "mount: not root",
    };
    common::skip(why);
    true
}

pub(crate) struct Mounted {
    scratch: Scratch,
    /// `None`: it is in the background.
    daemon: Option<Child>,
}

impl Mounted {
    /// With one network, or none.
    pub(crate) fn new(network: &[&str]) -> Mounted {
        Mounted::started(&|scratch| {
            let mut command = millstream(["mount", "--foreground"]);
            command.arg(scratch.path("source")).arg(scratch.path("mount")).args(network);
            command
        })
    }

    /// With fewer descriptors than it asks for: root could have more, but for the capability.
    pub(crate) fn with_descriptors(most: u32) -> Mounted {
        Mounted::with_descriptors_and(most, &[])
    }

    /// The same with a network.
    pub(crate) fn with_descriptors_and(most: u32, network: &[&str]) -> Mounted {
        Mounted::started(&|scratch| {
            let mount = millstream(["mount", "--foreground"]);
            let mut command = Command::new("setpriv");
            command.args(["--bounding-set=-sys_resource", "sh", "-c"]);
            command
                .arg(format!("ulimit -n {most}; exec \"$0\" \"$@\""))
                .arg(mount.get_program())
                .args(mount.get_args());
            command.arg(scratch.path("source")).arg(scratch.path("mount")).args(network);
            command
        })
    }

    /// For all users.
    pub(crate) fn for_others(network: &[&str]) -> Mounted {
        Mounted::started(&|scratch| {
            let mut command = millstream(["mount", "--foreground", "--allow-other"]);
            command.arg(scratch.path("source")).arg(scratch.path("mount")).args(network);
            command
        })
    }

    /// The source has room for 1 MB.
    pub(crate) fn over_a_small_disk(network: &[&str]) -> Mounted {
        Mounted::started(&|scratch| {
            let mut disk = Command::new("mount");
            disk.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(scratch.path("source"));
            assert!(disk.status().unwrap().success());
            let mut command = millstream(["mount", "--foreground"]);
            command.arg(scratch.path("source")).arg(scratch.path("mount")).args(network);
            command
        })
    }

    pub(crate) fn with_rules(rules: &str) -> Mounted {
        Mounted::started(&|scratch| {
            fs::write(scratch.path("rules.toml"), rules).unwrap();
            let mut command = millstream(["mount", "--foreground"]);
            command.arg(scratch.path("source")).arg(scratch.path("mount"));
            command.arg("--rules").arg(scratch.path("rules.toml"));
            command
        })
    }

    /// Of a directory that outlives the mount.
    pub(crate) fn of_source(source: &Path, arguments: &[&str]) -> Mounted {
        Mounted::started(&|scratch| {
            let mut command = millstream(["mount", "--foreground"]);
            command.arg(source).arg(scratch.path("mount")).args(arguments);
            command
        })
    }

    pub(crate) fn in_background(network: &[&str]) -> Mounted {
        let scratch = prepared();
        let mut command = millstream(["mount"]);
        command.arg(scratch.path("source")).arg(scratch.path("mount")).args(network);
        let status = command.status().unwrap();
        assert!(status.success(), "{status}");
        let mounted = Mounted { scratch, daemon: None };
        assert!(mounted.is_there());
        mounted
    }

    fn started(command: &dyn Fn(&Scratch) -> Command) -> Mounted {
        let scratch = prepared();
        let mut command = command(&scratch);
        command.stderr(File::create(scratch.path("log")).unwrap());
        let mut mounted = Mounted { daemon: Some(command.spawn().unwrap()), scratch };
        let begun = Instant::now();
        while !mounted.is_there() {
            let ended = mounted.daemon.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none() && begun.elapsed() < LIMIT, "not mounted: {ended:?}: {}", mounted.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        mounted
    }

    pub(crate) fn is_there(&self) -> bool {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let point = self.scratch.path("mount");
        mounts.lines().any(|line| line.contains(point.to_str().unwrap()))
    }

    /// A file of the mount.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.scratch.path("mount").join(name)
    }

    /// A file of the source.
    pub(crate) fn source(&self, name: &str) -> PathBuf {
        self.scratch.path("source").join(name)
    }

    pub(crate) fn names(&self, directory: &str) -> Vec<String> {
        sorted(&self.at(directory))
    }

    pub(crate) fn source_names(&self) -> Vec<String> {
        sorted(&self.source(""))
    }

    /// What the daemon has said.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.scratch.path("log")).unwrap_or_default()
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.daemon.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Memory that the daemon has had at most.
    pub(crate) fn peak_kibibytes(&self) -> u64 {
        let pid = self.daemon.as_ref().unwrap().id();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Waits for the daemon's end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.daemon.as_mut().unwrap().try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < LIMIT, "the daemon does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // It may be unmounted already. Lazily: a test that fails may have files open.
        let unmount = Command::new("umount").args(["-l"]).arg(self.at("")).stderr(Stdio::null()).status();
        let _ = unmount;
        if let Some(daemon) = &mut self.daemon {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        // If it is a small disk.
        let _ = Command::new("umount").args(["-l"]).arg(self.source("")).stderr(Stdio::null()).status();
    }
}

fn prepared() -> Scratch {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("source")).unwrap();
    fs::create_dir_all(scratch.path("mount")).unwrap();
    scratch
}

fn sorted(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What a program writes that is fed these bytes.
pub(crate) fn piped(program: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
    let feeding = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap().unwrap();
    assert!(output.status.success(), "{program}: {}", output.status);
    output.stdout
}
