//! The header before the chunks: the key of the file, wrapped for each recipient.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use chacha20poly1305::ChaCha20Poly1305;
use chacha20poly1305::aead::{AeadInOut, KeyInit};
use ed25519_compact::x25519::{PublicKey, SecretKey};
use hmac::{Hmac, Mac};
use millstream_net::TransformError;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::keys::{Keys, Passphrase, Recipient};
use super::payload::{FileKey, TAG, derived};
use super::random::random;

/// The first line.
pub(super) const INTRO: &[u8] = b"age-encryption.org/v1\n";

/// The beginning of the last line.
pub(super) const MARK: &[u8] = b"---";

pub(super) const X25519: &str = "X25519";
pub(super) const SCRYPT: &str = "scrypt";
const X25519_LABEL: &[u8] = b"age-encryption.org/v1/X25519";
const SCRYPT_LABEL: &[u8] = b"age-encryption.org/v1/scrypt";

/// Letters of a line of a body. The last line has fewer.
pub(super) const COLUMNS: usize = 64;

/// Bytes of a wrapped key.
pub(super) const WRAPPED: usize = 16 + TAG;

/// The header of a new file.
///
/// # Errors
/// There are no random numbers, or no file can be encrypted to a recipient.
pub(super) fn write(key: &FileKey, keys: &Keys, work: u8) -> Result<Vec<u8>, TransformError> {
    let mut text = Vec::from(INTRO);
    match keys {
        Keys::People { recipients, identities } => {
            for recipient in recipients.iter().chain(identities.iter().map(|identity| &identity.recipient)) {
                let secret = SecretKey::new(*random()?);
                let weak =
                    || TransformError::new("a recipient is no key: what is encrypted to it could be read without one");
                let share = *PublicKey::base_point().dh(&secret).ok().ok_or_else(weak)?;
                let wrapping = x25519(&secret, recipient, &share, recipient).ok_or_else(weak)?;
                put(&mut text, &[X25519, &STANDARD_NO_PAD.encode(share)], &wrapped(key, &wrapping));
            }
        }
        Keys::Passphrase(passphrase) => {
            let salt = random::<16>()?;
            let words = [SCRYPT, &STANDARD_NO_PAD.encode(*salt), &work.to_string()];
            put(&mut text, &words, &wrapped(key, &scrypt(passphrase, &*salt, work)));
        }
    }
    text.extend_from_slice(MARK);
    let code = STANDARD_NO_PAD.encode(mac(key, &text).finalize().into_bytes());
    text.push(b' ');
    text.extend_from_slice(code.as_bytes());
    text.push(b'\n');
    Ok(text)
}

/// Appends a stanza: its words, and its body, which fits on a line.
fn put(text: &mut Vec<u8>, words: &[&str], body: &[u8; WRAPPED]) {
    text.extend_from_slice(format!("-> {}\n{}\n", words.join(" "), STANDARD_NO_PAD.encode(body)).as_bytes());
}

/// The message authentication code of the header up to the mark, inclusive.
pub(super) fn mac(key: &FileKey, text: &[u8]) -> Hmac<Sha256> {
    let mac = Hmac::<Sha256>::new_from_slice(&*derived(&**key, &[], b"header"));
    let mut mac = mac.expect("a code takes keys of any length");
    mac.update(text);
    mac
}

/// The key that wraps the file's key, from a secret and a point: an ephemeral secret and a recipient, or an identity
/// and a share. `None` if it could be computed without a secret.
pub(super) fn x25519(
    secret: &SecretKey,
    point: &Recipient,
    share: &[u8; 32],
    recipient: &Recipient,
) -> Option<Zeroizing<[u8; 32]>> {
    let shared = PublicKey::new(point.0).dh(secret).ok()?;
    Some(derived(&*shared, &[&share[..], &recipient.0].concat(), X25519_LABEL))
}

/// The same from a passphrase. It takes 2^work times 1 KiB of memory, and the time to read that twice.
pub(super) fn scrypt(passphrase: &Passphrase, salt: &[u8], work: u8) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    let parameters = scrypt::Params::new(work, 8, 1).expect("the work is within bounds");
    let salt = [SCRYPT_LABEL, salt].concat();
    scrypt::scrypt(passphrase.bytes(), &salt, &parameters, &mut *key).expect("32 bytes are not too many");
    key
}

fn wrapped(key: &FileKey, wrapping: &Zeroizing<[u8; 32]>) -> [u8; WRAPPED] {
    let mut wrapped = [0; WRAPPED];
    let (text, place) = wrapped.split_at_mut(key.len());
    text.copy_from_slice(&**key);
    let cipher = ChaCha20Poly1305::new((&**wrapping).into());
    let tag = cipher.encrypt_inout_detached(&[0; 12].into(), &[], text.into()).expect("a key is not too long");
    place.copy_from_slice(&tag);
    wrapped
}

/// The file's key; `None` if it is wrapped with another key.
pub(super) fn unwrapped(wrapped: &[u8; WRAPPED], wrapping: &Zeroizing<[u8; 32]>) -> Option<FileKey> {
    let mut key = FileKey::default();
    let (text, tag) = wrapped.split_at(key.len());
    key.copy_from_slice(text);
    let cipher = ChaCha20Poly1305::new((&**wrapping).into());
    let tag = tag.try_into().ok()?;
    cipher.decrypt_inout_detached(&[0; 12].into(), &[], key.as_mut_slice().into(), &tag).ok()?;
    Some(key)
}
