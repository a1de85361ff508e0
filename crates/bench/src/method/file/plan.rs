//! What `millstream bench file` can measure.

use crate::programs::Programs;

/// The name in options and results.
pub const NAME: &str = "file";

/// The rows of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// A file without a view.
    Unbound,
    /// Every byte through the daemon, unchanged.
    Identity,
    /// One added to each byte, N times.
    Increment,
    /// A gzip file.
    Gunzip,
    /// A zstd file.
    Zstd,
    /// A new zstd file.
    ZstdWrite,
    /// Opening and closing.
    Open,
    /// Many small files.
    Tar,
    /// Small files in a compressed archive.
    Archive,
    /// An encrypted file.
    Encrypted,
    /// 4 KiB at random places of compressed files.
    Random,
}

impl Row {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Row; 11] = [
        Row::Unbound,
        Row::Identity,
        Row::Increment,
        Row::Gunzip,
        Row::Zstd,
        Row::ZstdWrite,
        Row::Open,
        Row::Tar,
        Row::Archive,
        Row::Encrypted,
        Row::Random,
    ];

    /// The name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Row::Unbound => "unbound",
            Row::Identity => "identity",
            Row::Increment => "increment",
            Row::Gunzip => "gunzip",
            Row::Zstd => "zstd",
            Row::ZstdWrite => "zstd-write",
            Row::Open => "open",
            Row::Tar => "tar",
            Row::Archive => "archive",
            Row::Encrypted => "encrypted",
            Row::Random => "random",
        }
    }

    /// The program without which there is nothing to compare with.
    pub(super) fn needs(self) -> Option<&'static str> {
        match self {
            Row::Unbound | Row::Identity | Row::Increment | Row::Open | Row::Random => None,
            Row::Gunzip => Some("gzip"),
            Row::Zstd | Row::ZstdWrite => Some("zstd"),
            Row::Tar | Row::Archive => Some("tar"),
            Row::Encrypted => Some("age"),
        }
    }
}

/// What to measure.
pub struct Plan {
    /// The one mounts, the other is a stage of the pipelines.
    pub programs: Programs,
    /// Which rows.
    pub rows: Vec<Row>,
    /// Bytes of the text that is read.
    pub size: usize,
    /// How many small files there are.
    pub files: usize,
}
