//! Digests of the stream, which passes unchanged.

use std::io::Write;

use millstream_net::{Data, Entry, InPlace, Stage, State, TransformError};
use sha2::Digest;

/// `sha256`
pub(crate) static SHA256: Entry = Entry {
    name: "sha256",
    usage: "sha256 [FILE | =HEX]",
    summary: "SHA-256 of what passes: on stderr, in FILE, or compared with HEX, which stops the network if it differs",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| stage("sha256", sha2::Sha256::new(), arguments),
};

/// `blake3`
pub(crate) static BLAKE3: Entry = Entry {
    name: "blake3",
    usage: "blake3 [FILE | =HEX]",
    summary: "BLAKE3 of what passes, as for sha256",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| stage("blake3", blake3::Hasher::new(), arguments),
};

/// `crc32`
pub(crate) static CRC32: Entry = Entry {
    name: "crc32",
    usage: "crc32 [FILE | =HEX]",
    summary: "CRC-32 (that of gzip) of what passes, as for sha256; finds accidents, not forgeries",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| stage("crc32", crc32fast::Hasher::new(), arguments),
};

/// An algorithm for a digest.
trait Sum: Send {
    fn add(&mut self, bytes: &[u8]);
    fn total(&self) -> Vec<u8>;
}

impl Sum for sha2::Sha256 {
    fn add(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }

    fn total(&self) -> Vec<u8> {
        self.clone().finalize().to_vec()
    }
}

impl Sum for blake3::Hasher {
    fn add(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }

    fn total(&self) -> Vec<u8> {
        self.finalize().as_bytes().to_vec()
    }
}

impl Sum for crc32fast::Hasher {
    fn add(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }

    fn total(&self) -> Vec<u8> {
        self.clone().finalize().to_be_bytes().to_vec()
    }
}

/// Where the digest goes.
enum Told {
    Stderr,
    /// To a file, which the runner writes.
    File,
    Expected(String),
}

struct Passing<S> {
    name: &'static str,
    sum: S,
    told: Told,
}

fn stage(name: &'static str, sum: impl Sum + 'static, arguments: &[String]) -> Result<Stage, String> {
    let mut beside = None;
    let told = match arguments {
        [] => Told::Stderr,
        [word] => match word.strip_prefix('=') {
            Some(digits) => {
                let (bytes, expected) = (sum.total().len(), crate::hex::decoded(digits));
                if expected.is_none_or(|expected| expected.len() != bytes) {
                    return Err(format!("a digest of {name} is {} hexadecimal digits", 2 * bytes));
                }
                Told::Expected(digits.to_ascii_lowercase())
            }
            None => {
                beside = Some(word.into());
                Told::File
            }
        },
        [_, second, ..] => return Err(format!("'{second}' means nothing here")),
    };
    let stage = Stage::in_place(State::Stateful, Passing { name, sum, told }).with_inverse("identity");
    Ok(Stage { beside, ..stage })
}

impl<S: Sum> InPlace for Passing<S> {
    fn apply(&mut self, _offset: u64, bytes: &mut [u8]) -> Result<(), TransformError> {
        self.sum.add(bytes);
        Ok(())
    }

    fn finish_early(&mut self) -> Result<(), TransformError> {
        match &self.told {
            Told::Expected(_) => {
                Err(TransformError::new("the stream was not read to its end, so its digest cannot be compared"))
            }
            Told::Stderr | Told::File => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), TransformError> {
        let (name, found) = (self.name, crate::hex::encoded(&self.sum.total()));
        match &self.told {
            Told::Stderr => writeln!(std::io::stderr(), "{name} {found}").map_err(|error| {
                TransformError::new(format!("the digest cannot be written to the standard error: {error}"))
            }),
            Told::File => Ok(()),
            Told::Expected(expected) if *expected == found => Ok(()),
            Told::Expected(expected) => Err(TransformError::new(format!("the {name} is {found}, not {expected}"))),
        }
    }

    fn written_beside(&mut self) -> Vec<u8> {
        format!("{}\n", crate::hex::encoded(&self.sum.total())).into_bytes()
    }
}
