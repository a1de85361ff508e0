//! Compiles the rivals that are C++; those that are Rust crates come with theirs.

#![allow(unsafe_code)]

fn main() {
    // Warnings about other people's code help nobody here.
    // SAFETY: this program has no other thread.
    unsafe { std::env::set_var("CXXFLAGS", "-w") };
    // libzmq of the version that the crate's name tells, as its own build does it.
    zeromq_src::Build::new().build();

    let mut boost = cc::Build::new();
    boost.cpp(true).std("c++14").file("src/boost_interprocess.cpp");
    if let Ok(directory) = std::env::var("BOOST_INCLUDEDIR") {
        boost.include(directory);
    }
    boost.compile("millstream_boost_interprocess");

    // Crates that do not tell it themselves.
    for (name, variable) in [("iceoryx2", "ICEORYX2_VERSION"), ("ipc-channel", "IPC_CHANNEL_VERSION")] {
        println!("cargo::rustc-env={variable}={}", locked_version(name));
    }
    println!("cargo::rerun-if-changed=Cargo.lock");
    println!("cargo::rerun-if-changed=src/boost_interprocess.cpp");
    println!("cargo::rerun-if-env-changed=BOOST_INCLUDEDIR");
}

/// The version of a crate in `Cargo.lock`.
fn locked_version(name: &str) -> String {
    let lock = std::fs::read_to_string("Cargo.lock").expect("cargo writes Cargo.lock before it builds");
    let mut lines = lock.lines().skip_while(|line| *line != format!("name = \"{name}\""));
    let version = lines.nth(1).and_then(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    version.expect("each package has a name, then a version").to_owned()
}
