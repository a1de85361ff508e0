//! How the program is linked: without a loader and without the C library, at whatever address the kernel chooses.
//!
//! A loader would first map the C library and relocate everything; what is here needs neither, and relocates itself
//! (`src/entry.rs`).

const LINK_ARGUMENTS: [&str; 9] = [
    "-fuse-ld=bfd",
    "-nostartfiles",
    "-nodefaultlibs",
    "-Wl,--no-dynamic-linker",
    "-Wl,-z,norelro",
    // All code and constants in one mapping: fewer pages to touch.
    "-Wl,-z,noseparate-code",
    "-Wl,--build-id=none",
    // Unwind tables of precompiled parts of `core` name the personality routine. Nothing here unwinds (panic = abort).
    "-Wl,--defsym=rust_eh_personality=0",
    "-Wl,--strip-all",
];

fn main() {
    for argument in LINK_ARGUMENTS {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
