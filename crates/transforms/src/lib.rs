//! The transforms that come with millstream's networks.
//!
//! ```
//! use millstream_net::{Network, Options, run};
//!
//! let network = Network::from_line("gzip | gunzip | grep -v b | upper")?;
//! let output = run::in_memory(&network, millstream_transforms::ALL, b"a\nb\nc\n", &Options::default())?;
//! assert_eq!(output, b"A\nC\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! One file for each family; [`ALL`] lists them. Formats come from the crates that know them, through the calls that read from
//! one slice and write to another, so that no byte is copied on the way.
#![forbid(unsafe_code)]
// A later version may add cases.
#![warn(clippy::exhaustive_enums)]

mod age;
mod arguments;
mod brotli;
mod bytes;
mod clock;
mod count;
mod cut;
mod digest;
mod ends;
mod exec;
mod faults;
mod flow;
mod grep;
mod gzip;
mod hex;
mod iconv;
mod kept;
mod letters;
mod lines;
mod lz4;
mod parallel;
mod pending;
mod python;
mod radix64;
mod wasm;
mod xz;
mod zstd;

use millstream_net::Transform;

/// By itself, for a program that needs no other and is to carry no format.
pub use bytes::INCREMENT;

/// Every transform, by the name under which a network finds it.
pub static ALL: &[&dyn Transform] = &[
    &bytes::IDENTITY,
    &bytes::INCREMENT,
    &bytes::XOR,
    &bytes::SWAB,
    &letters::ROT13,
    &letters::UPPER,
    &letters::LOWER,
    &letters::TR,
    &hex::HEX,
    &hex::UNHEX,
    &radix64::BASE64,
    &radix64::UNBASE64,
    &iconv::ICONV,
    &gzip::GZIP,
    &gzip::GUNZIP,
    &gzip::ZLIB,
    &gzip::UNZLIB,
    &zstd::ZSTD,
    &zstd::UNZSTD,
    &xz::XZ,
    &xz::UNXZ,
    &lz4::LZ4,
    &lz4::UNLZ4,
    &brotli::BROTLI,
    &brotli::UNBROTLI,
    &age::AGE,
    &age::UNAGE,
    &digest::SHA256,
    &digest::BLAKE3,
    &digest::CRC32,
    &grep::GREP,
    &ends::HEAD,
    &ends::TAIL,
    &cut::CUT,
    &count::COUNT,
    &flow::RATE,
    &flow::DELAY,
    &flow::BUFFER,
    &flow::PROGRESS,
    &wasm::WASM,
    &exec::EXEC,
    &parallel::PARALLEL,
    &python::PYTHON,
    &faults::ERROR,
    &faults::SHORT,
    &faults::CORRUPT,
    &faults::TRUNCATE,
];
