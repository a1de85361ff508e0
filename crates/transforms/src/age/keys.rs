//! Keys: recipients, their identities, passphrases. No error message contains a secret.

use std::fs::File;
use std::io::Read;

use bech32::primitives::decode::CheckedHrpstring;
use ed25519_compact::x25519::{PublicKey, SecretKey};
use zeroize::Zeroizing;

/// The most bytes of a file with keys or a passphrase.
const FILE_MAX: u64 = 1 << 20;

const RECIPIENT: &str = "age";
const IDENTITY: &str = "age-secret-key-";

/// The keys that encrypt or decrypt a file.
pub(super) enum Keys {
    People { recipients: Vec<Recipient>, identities: Vec<Identity> },
    Passphrase(Passphrase),
}

/// A point of the curve.
#[derive(Clone)]
pub(super) struct Recipient(pub(super) [u8; 32]);

impl Recipient {
    pub(super) fn of(text: &str) -> Result<Recipient, String> {
        match key(RECIPIENT, text) {
            Some(bytes) => Ok(Recipient(*bytes)),
            None if text.starts_with("ssh-") => {
                Err("is a key of SSH, which is not supported; see age-keygen(1)".into())
            }
            None => Err("is no recipient: one is age1 and 58 letters and digits, with no letter wrong".into()),
        }
    }
}

/// Secrets that the library wipes when they are dropped.
pub(super) struct Identity {
    pub(super) secret: SecretKey,
    pub(super) recipient: Recipient,
}

impl Identity {
    fn of(text: &str) -> Option<Identity> {
        let secret = SecretKey::new(*key(IDENTITY, text)?);
        let point = PublicKey::base_point().dh(&secret).ok()?;
        Some(Identity { secret, recipient: Recipient(*point) })
    }
}

/// Whether `word` looks like a secret key, which no message may show.
pub(super) fn is_secret(word: &str) -> bool {
    word.to_ascii_lowercase().contains(IDENTITY)
}

/// 32 bytes behind a prefix.
fn key(prefix: &str, text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let text = CheckedHrpstring::new::<bech32::Bech32>(text).ok()?;
    let mut bytes = Zeroizing::new([0; 32]);
    let is_key = text.hrp().lowercase_char_iter().eq(prefix.chars()) && text.byte_iter().len() == bytes.len();
    bytes.iter_mut().zip(text.byte_iter()).for_each(|(to, from)| *to = from);
    is_key.then_some(bytes)
}

/// The lines of a file that are no comments, with their numbers.
fn keys_in<T>(path: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    let content = content(path)?;
    let text = std::str::from_utf8(&content).map_err(|_| format!("'{path}' is no text with a key on each line"))?;
    let lines = text.lines().map(str::trim).zip(1..).filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let keys: Vec<T> = lines
        .map(|(line, number)| read(line).map_err(|what| format!("line {number} of '{path}' {what}")))
        .collect::<Result<_, _>>()?;
    if keys.is_empty() { Err(format!("'{path}' has no key in it")) } else { Ok(keys) }
}

pub(super) fn recipients_in(path: &str) -> Result<Vec<Recipient>, String> {
    keys_in(path, |line| match is_secret(line) {
        true => Err("is an identity, which is secret; a recipient begins with age1".into()),
        false => Recipient::of(line),
    })
}

pub(super) fn identities_in(path: &str) -> Result<Vec<Identity>, String> {
    keys_in(path, |line| {
        Identity::of(line).ok_or_else(|| {
            "is no identity that age-keygen(1) makes (AGE-SECRET-KEY-1...); keys of SSH, plug-ins and encrypted identities \
             are not supported"
                .into()
        })
    })
}

pub(super) struct Passphrase(Zeroizing<Vec<u8>>);

impl Passphrase {
    /// The only line of a file.
    pub(super) fn in_file(path: &str) -> Result<Passphrase, String> {
        let mut content = content(path)?;
        if content.ends_with(b"\n") {
            content.pop();
            if content.ends_with(b"\r") {
                content.pop();
            }
        }
        if content.contains(&b'\n') {
            return Err(format!("'{path}' has several lines, and a passphrase is one"));
        }
        Passphrase::of(content).ok_or_else(|| format!("the passphrase in '{path}' is empty"))
    }

    pub(super) fn in_variable(name: &str) -> Result<Passphrase, String> {
        let value = std::env::var_os(name).ok_or_else(|| format!("the environment variable '{name}' is not set"))?;
        Passphrase::of(Zeroizing::new(value.into_encoded_bytes()))
            .ok_or_else(|| format!("the environment variable '{name}' is empty"))
    }

    fn of(bytes: Zeroizing<Vec<u8>>) -> Option<Passphrase> {
        (!bytes.is_empty()).then_some(Passphrase(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Reads a regular file only, no pipe or device: a network is parsed more than once before it runs.
fn content(path: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    let unreadable = |error| format!("'{path}' cannot be read: {error}");
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(format!("'{path}' cannot be read: it is no regular file"));
    }
    let mut content = Zeroizing::new(Vec::new());
    File::open(path).and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut content)).map_err(unreadable)?;
    match content.len() as u64 {
        0..=FILE_MAX => Ok(content),
        _ => Err(format!("'{path}' has more than {FILE_MAX} bytes, too many for keys")),
    }
}
