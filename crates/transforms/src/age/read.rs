//! Reads a header: its stanzas, and the key of the file, which one of them holds.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hmac::Mac;

use super::header::{self, COLUMNS, INTRO, MARK, SCRYPT, WRAPPED, X25519};
use super::keys::{Identity, Keys, Passphrase, Recipient};
use super::payload::FileKey;

/// An error at a byte of the file.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) what: String,
    pub(super) at: u64,
}

impl Wrong {
    pub(super) fn new(what: impl Into<String>, at: u64) -> Wrong {
        Wrong { what: what.into(), at }
    }
}

fn corrupt(what: &str, at: usize) -> Wrong {
    Wrong::new(format!("the header of the age file is corrupt: {what}"), at as u64)
}

struct Stanza<'a> {
    words: Vec<&'a str>,
    body: Vec<u8>,
    /// Where it begins.
    at: usize,
}

/// The key of a file from its whole header.
pub(super) fn key_of(header: &[u8], keys: &Keys, work_max: u8) -> Result<FileKey, Wrong> {
    let (stanzas, mark, code) = parsed(header)?;
    let key = match keys {
        Keys::Passphrase(passphrase) => with_passphrase(&stanzas, passphrase, work_max)?,
        Keys::People { identities, .. } => with_identities(&stanzas, identities)?,
    };
    let is_whole = header::mac(&key, &header[..mark + MARK.len()]).verify_slice(&code).is_ok();
    if is_whole { Ok(key) } else { Err(corrupt("it is not the one that was written with this key", mark)) }
}

fn decoded(letters: &str) -> Option<Vec<u8>> {
    STANDARD_NO_PAD.decode(letters).ok()
}

/// The stanzas, the position of the last line, and the code in it.
fn parsed(header: &[u8]) -> Result<(Vec<Stanza<'_>>, usize, Vec<u8>), Wrong> {
    let (mut at, mut stanzas): (usize, Vec<Stanza<'_>>) = (INTRO.len(), Vec::new());
    // Whether more lines of the last stanza follow.
    let mut is_open = false;
    for line in header[at..].split_inclusive(|&byte| byte == b'\n') {
        let wrong = |what| corrupt(what, at);
        let text = line.strip_suffix(b"\n").filter(|text| text.iter().all(|&byte| (b' '..=b'~').contains(&byte)));
        let text = text.and_then(|text| std::str::from_utf8(text).ok());
        let text = text.ok_or_else(|| wrong("this line has bytes that no header has"))?;
        match (is_open, text.strip_prefix("-> "), text.strip_prefix("--- ")) {
            (true, ..) => {
                let stanza = stanzas.last_mut().expect("one is open");
                let body = decoded(text).filter(|_| text.len() <= COLUMNS);
                stanza.body.extend(body.ok_or_else(|| wrong("this line is no base64 without padding"))?);
                is_open = text.len() == COLUMNS;
            }
            (false, Some(words), _) => {
                let words: Vec<&str> = words.split(' ').collect();
                if words.iter().any(|word| word.is_empty()) {
                    return Err(wrong("words are separated by one space"));
                }
                stanzas.push(Stanza { words, body: Vec::new(), at });
                is_open = true;
            }
            (false, None, Some(code)) if !stanzas.is_empty() => {
                let code = decoded(code).filter(|code| code.len() == 32);
                return Ok((stanzas, at, code.ok_or_else(|| wrong("there is no authentication code"))?));
            }
            (false, ..) => return Err(wrong("a recipient or the end of the header has to follow")),
        }
        at += line.len();
    }
    Err(corrupt("it has no end", at))
}

impl Stanza<'_> {
    fn wrapped(&self) -> Result<[u8; WRAPPED], Wrong> {
        self.body.as_slice().try_into().map_err(|_| corrupt("a wrapped key does not have 32 bytes", self.at))
    }

    fn word<const N: usize>(&self, place: usize) -> Result<[u8; N], Wrong> {
        let word = self.words.get(place).and_then(|word| decoded(word)?.try_into().ok());
        word.ok_or_else(|| {
            corrupt(&format!("a stanza {} does not have the words that it has to have", self.words[0]), self.at)
        })
    }

    fn expect_words(&self, count: usize) -> Result<(), Wrong> {
        match self.words.len() == count {
            true => Ok(()),
            false => Err(corrupt(&format!("a stanza {} has {count} words", self.words[0]), self.at)),
        }
    }
}

fn with_passphrase(stanzas: &[Stanza<'_>], passphrase: &Passphrase, work_max: u8) -> Result<FileKey, Wrong> {
    let Some(stanza) = stanzas.iter().find(|stanza| stanza.words[0] == SCRYPT) else {
        return Err(Wrong::new(
            "the file was encrypted to recipients, not with a passphrase: -i FILE names an identity",
            0,
        ));
    };
    if stanzas.len() > 1 {
        return Err(corrupt("a passphrase stands beside other recipients", stanza.at));
    }
    stanza.expect_words(3)?;
    let (salt, wrapped, text) = (stanza.word::<16>(1)?, stanza.wrapped()?, stanza.words[2]);
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let work = text.parse::<u8>().ok().filter(|_| is_number);
    let work = work.ok_or_else(|| corrupt("the work that the passphrase costs is no small number", stanza.at))?;
    if work > work_max {
        return Err(Wrong::new(
            format!(
                "the passphrase costs 2^{work} times 1 KiB of memory, and 2^{work_max} are allowed; -w N allows up to 2^22"
            ),
            stanza.at as u64,
        ));
    }
    let key = header::unwrapped(&wrapped, &header::scrypt(passphrase, &salt, work));
    key.ok_or_else(|| {
        Wrong::new("the passphrase is another, or the header of the age file is corrupt", stanza.at as u64)
    })
}

fn with_identities(stanzas: &[Stanza<'_>], identities: &[Identity]) -> Result<FileKey, Wrong> {
    if stanzas.iter().any(|stanza| stanza.words[0] == SCRYPT) {
        let what = "the file was encrypted with a passphrase: -p FILE or -P VARIABLE names it";
        return Err(Wrong::new(what, 0));
    }
    let ours: Vec<&Stanza<'_>> = stanzas.iter().filter(|stanza| stanza.words[0] == X25519).collect();
    for stanza in &ours {
        stanza.expect_words(2)?;
        let (share, wrapped) = (stanza.word::<32>(1)?, stanza.wrapped()?);
        for Identity { secret, recipient } in identities {
            let wrapping = header::x25519(secret, &Recipient(share), &share, recipient);
            let wrapping = wrapping.ok_or_else(|| corrupt("a share that is no key", stanza.at))?;
            if let Some(key) = header::unwrapped(&wrapped, &wrapping) {
                return Ok(key);
            }
        }
    }
    let (known, all) = (ours.len(), stanzas.len());
    Err(Wrong::new(
        format!(
            "the file was encrypted to others: of its {all} recipients {known} are of the kind that is supported, X25519, and none \
             of the {} identities is one of these",
            identities.len()
        ),
        0,
    ))
}
