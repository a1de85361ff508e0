//! Modules for tests: the templates, and small ones in C, built by the compilers that `scripts/setup test` installs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn templates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../templates").canonicalize().unwrap()
}

/// Where modules are built.
pub(crate) fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wasm");
        fs::create_dir_all(&path).unwrap();
        path
    })
}

/// A compiler that is missing fails the test that needs it, and says what to do.
fn run(command: &mut Command, needs: &str) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; install {needs}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}\nThis needs {needs}; 'scripts/setup test' installs it.");
}

/// One of the templates: `rot13` and `unhex` in C, `increment` and `hex` in Rust.
pub(crate) fn template(name: &str) -> String {
    static BUILT: OnceLock<()> = OnceLock::new();
    let cargo_directory = directory().join("cargo");
    BUILT.get_or_init(|| {
        let out = format!("OUT={}", directory().display());
        run(Command::new("make").arg("-C").arg(templates().join("wasm-c")).arg(out), "clang and lld");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "build",
            "--quiet",
            "--release",
            "--offline",
            "--target",
            "wasm32-unknown-unknown",
            "--lib",
            "--examples",
        ]);
        cargo.arg("--manifest-path").arg(templates().join("wasm-rust/Cargo.toml"));
        cargo.arg("--target-dir").arg(&cargo_directory);
        run(&mut cargo, "Rust's target wasm32-unknown-unknown");
    });
    let release = cargo_directory.join("wasm32-unknown-unknown/release");
    let path = match name {
        "increment" => release.join("increment.wasm"),
        "hex" => release.join("examples/hex.wasm"),
        _ => directory().join(format!("{name}.wasm")),
    };
    path.to_str().unwrap().into()
}

/// A module from C, with the header of the template.
pub(crate) fn from_c(source: &str) -> String {
    from_bare_c(&format!("#include \"millstream.h\"\n{source}"))
}

/// A module from C.
pub(crate) fn from_bare_c(source: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
    let (c, module) = (directory().join(format!("{name}.c")), directory().join(format!("{name}.wasm")));
    fs::write(&c, source).unwrap();
    let mut clang = Command::new("clang");
    clang.args(["--target=wasm32", "-O1", "-ffreestanding", "-nostdlib", "-Wl,--no-entry,--allow-undefined", "-I"]);
    run(clang.arg(templates().join("wasm-c")).arg("-o").arg(&module).arg(&c), "clang and lld");
    fs::remove_file(c).unwrap();
    module.to_str().unwrap().into()
}
