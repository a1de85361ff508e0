//! How the library is linked: as little as a loader can load.
//!
//! Every program of a run maps this file at its start, so each page that it makes the loader touch is paid for by every
//! `true` and `basename` of a shell script. All data is in one page, and there are few addresses in it; there are no start files,
//! no notes and no page of its own for read-only data. What runs as each program starts or starts another is in sections named
//! `.text.hot.millstream`, which the linker puts together: a forked child maps the library anew, sixteen pages at a time.

const LINK_ARGUMENTS: [&str; 10] = [
    // The other linker that rustc may choose keeps constants and code in separate mappings.
    "-fuse-ld=bfd",
    "-nostartfiles",
    "-Wl,-z,norelro",
    // Imports are bound when they are first called, see `glibc.rs`.
    "-Wl,-z,lazy",
    "-Wl,-z,noseparate-code",
    // Calls inside this library need no lookup, and reach it as those inside glibc do, whichever library interposes.
    "-Wl,-Bsymbolic",
    "-Wl,--hash-style=gnu",
    "-Wl,--build-id=none",
    // Unwind tables of precompiled parts of `core` name the personality routine. Nothing here unwinds (panic = abort),
    // and the name must be neither looked up in the program nor offered to it.
    "-Wl,--defsym=rust_eh_personality=0",
    "-Wl,--strip-all",
];

fn main() {
    for argument in LINK_ARGUMENTS {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
