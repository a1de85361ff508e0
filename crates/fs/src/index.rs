//! Where a compressed file can be read from, other than from its beginning.

mod bgzip;
mod found;
pub(crate) mod gzip;
mod inflate;
pub(crate) mod kept;
mod lz4;
mod xz;
mod zstd;

use std::fs::File;
use std::io;

pub(crate) use found::Index;

use crate::view::Format;

impl Index {
    /// Reads what the file says. A file that says nothing, or not all, has an empty index: it is then read from its beginning.
    ///
    /// # Errors
    /// What reading the file gives.
    pub(crate) fn of(format: Format, file: &File) -> io::Result<Index> {
        let index = match format {
            Format::Gzip => bgzip::index(file)?,
            Format::Zstd => zstd::index(file)?,
            Format::Xz => xz::index(file)?,
            Format::Lz4 => lz4::index(file)?,
        };
        Ok(index.unwrap_or_default())
    }
}
