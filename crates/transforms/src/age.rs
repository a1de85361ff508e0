//! Encryption in the age format, version 1 (<https://age-encryption.org/v1>).
//!
//! ```text
//!   age-encryption.org/v1             the header: the key of the file, wrapped for each recipient
//!   -> X25519 SHARE
//!   WRAPPED-KEY
//!   --- MAC                           of everything above
//!   nonce  chunk  chunk  ... chunk    64 KiB each, with a tag; the last says that it is the last
//! ```
//!
//! Other crates implement the ciphers. The format around them is small, and implemented here.

mod armor;
mod header;
mod keys;
mod open;
mod payload;
mod random;
mod read;
mod seal;

use millstream_net::{Data, Entry, Size, Stage, words};

use crate::arguments;
use keys::{Identity, Keys, Passphrase, Recipient};
use open::Decrypt;
use seal::Encrypt;

/// Binary logarithms of the work that a passphrase costs: 2^N times 1 KiB of memory, at most 4 GiB.
const WORK: std::ops::RangeInclusive<u8> = 1..=22;

/// The work that age(1) does: about a second.
const WORK_USUAL: u8 = 18;

/// The most work that `unage` does by default: 1 GiB of memory.
const WORK_OPENED: u8 = 20;

/// `age`
pub(crate) static AGE: Entry = Entry {
    name: "age",
    usage: "age [-r RECIPIENT] [-R FILE] [-i FILE], each as often as wanted; or age [-w N] -p FILE, or -P VARIABLE",
    summary: "encrypted, as age(1) does: to recipients (age1..., a file of them, those of the identities in a file) or with a \
              passphrase from a file or an environment variable",
    takes: Data::Any,
    gives: Data::Format("age"),
    build: |arguments| {
        let said = Said::of(arguments, &["-r", "-R", "-i", "-p", "-P", "-w"])?;
        let inverse = said.inverse("unage", WORK_OPENED);
        let work = said.work.unwrap_or(WORK_USUAL);
        let stage = Stage::rewrite(Size::Unknown, Encrypt::new(said.keys()?, work));
        Ok(Stage { inverse, ..stage })
    },
};

/// `unage`
pub(crate) static UNAGE: Entry = Entry {
    name: "unage",
    usage: "unage -i FILE, as often as wanted; or unage [-w N] -p FILE, or -P VARIABLE",
    summary: "what was encrypted with age, also as armored text: with the identities in a file, or a passphrase from a file or an \
              environment variable",
    takes: Data::Format("age"),
    gives: Data::Any,
    build: |arguments| {
        let said = Said::of(arguments, &["-i", "-p", "-P", "-w"])?;
        let inverse = said.inverse("age", WORK_USUAL);
        let work = said.work.unwrap_or(WORK_OPENED);
        let stage = Stage::rewrite(Size::Unknown, Decrypt::new(said.keys()?, work));
        Ok(Stage { inverse, ..stage })
    },
};

/// The parsed arguments. Their files are read at once, so that errors in them are reported before a byte moves.
#[derive(Default)]
struct Said {
    recipients: Vec<Recipient>,
    identities: Vec<Identity>,
    passphrase: Option<Passphrase>,
    work: Option<u8>,
    /// The options that apply to the inverse too.
    shared: Vec<String>,
}

impl Said {
    fn of(arguments: &[String], known: &[&str]) -> Result<Said, String> {
        if arguments.iter().any(|word| keys::is_secret(word)) {
            return Err(
                "an identity is secret, and must not stand where other users can read it: put it into a file, and give \
                        that with -i"
                    .into(),
            );
        }
        let mut said = Said::default();
        let mut words = arguments.iter();
        while let Some(option) = words.next() {
            if !known.contains(&option.as_str()) {
                return Err(format!("'{option}' is no option of it"));
            }
            let value = words.next().ok_or_else(|| format!("a value has to follow '{option}'"))?;
            match option.as_str() {
                "-r" => said.recipients.push(Recipient::of(value).map_err(|what| format!("'{value}' {what}"))?),
                "-R" => said.recipients.append(&mut keys::recipients_in(value)?),
                "-i" => said.identities.append(&mut keys::identities_in(value)?),
                "-w" => said.work = Some(arguments::number("N", value, *WORK.start(), *WORK.end())?),
                _ if said.passphrase.is_some() => return Err("there can be one passphrase only".into()),
                "-p" => said.passphrase = Some(Passphrase::in_file(value)?),
                _ => said.passphrase = Some(Passphrase::in_variable(value)?),
            }
            if matches!(option.as_str(), "-i" | "-p" | "-P") {
                said.shared.extend([option.clone(), value.clone()]);
            }
        }
        Ok(said)
    }

    /// The transform of this name with the same keys, if they are known; `usual` is the work that it does by default.
    fn inverse(&self, name: &str, usual: u8) -> Option<String> {
        let mut line = vec![name.to_owned()];
        line.extend(self.work.filter(|&work| name == "unage" && work > usual).map(|work| format!("-w {work}")));
        line.extend(self.shared.iter().map(|word| words::quoted(word)));
        (!self.shared.is_empty()).then(|| line.join(" "))
    }

    fn keys(self) -> Result<Keys, String> {
        let has_people = !self.recipients.is_empty() || !self.identities.is_empty();
        match self.passphrase {
            Some(_) if has_people => Err("a passphrase cannot be combined with anything else".into()),
            Some(passphrase) => Ok(Keys::Passphrase(passphrase)),
            None if self.work.is_some() => Err("-w is the work that a passphrase costs, and there is none".into()),
            None if has_people => Ok(Keys::People { recipients: self.recipients, identities: self.identities }),
            None => Err("the keys are missing".into()),
        }
    }
}
