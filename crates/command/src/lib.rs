//! What `millstream` and `millstream-bench` have in common: how they fail, and how people write numbers of bytes.
//!
//! ```
//! use millstream_command::bytes;
//!
//! assert_eq!(bytes::parse("64K"), Ok(65_536));
//! assert_eq!(bytes::show(3 << 19), "1.5 MiB");
//! ```
#![forbid(unsafe_code)]

pub mod bytes;
pub mod failure;
