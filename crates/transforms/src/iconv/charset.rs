//! The encodings by name.

use encoding_rs as whatwg;

use super::decoded::Decoded;
use super::double::Double;
use super::table::Table;
use super::unicode::{Order, Utf16, Utf32, utf8};

/// An encoding, with its state at a position of a text.
pub(super) struct Charset {
    name: &'static str,
    kind: Kind,
}

enum Kind {
    Utf8,
    Utf16(Utf16),
    Utf32(Utf32),
    Table(Table),
    Double(Double),
}

/// How an encoding of a name is implemented.
#[derive(Clone, Copy)]
enum Family {
    Utf8,
    Utf16(Order),
    Utf32(Order),
    Ascii,
    Latin1,
    /// The table of the standard; bytes without a character are errors.
    Table(&'static whatwg::Encoding),
    /// A table of Windows. Browsers decode its unassigned bytes to control characters; here they are errors.
    Windows(&'static whatwg::Encoding),
    /// Latin 5, which browsers decode as the encoding of Windows.
    Latin5,
    Double(&'static whatwg::Encoding),
}

/// Each encoding with its names in iconv(1). Messages use the first one.
static NAMES: &[(&[&str], Family)] = &[
    (&["UTF-8", "UTF8"], Family::Utf8),
    (&["UTF-16", "UTF16"], Family::Utf16(Order::Marked)),
    (&["UTF-16LE", "UTF16LE"], Family::Utf16(Order::Little)),
    (&["UTF-16BE", "UTF16BE"], Family::Utf16(Order::Big)),
    (&["UTF-32", "UTF32"], Family::Utf32(Order::Marked)),
    (&["UTF-32LE", "UTF32LE"], Family::Utf32(Order::Little)),
    (&["UTF-32BE", "UTF32BE"], Family::Utf32(Order::Big)),
    (&["ASCII", "US-ASCII"], Family::Ascii),
    (&["ISO-8859-1", "LATIN1", "ISO8859-1", "L1"], Family::Latin1),
    (&["ISO-8859-2", "LATIN2", "ISO8859-2", "L2"], Family::Table(whatwg::ISO_8859_2)),
    (&["ISO-8859-3", "LATIN3", "ISO8859-3", "L3"], Family::Table(whatwg::ISO_8859_3)),
    (&["ISO-8859-4", "LATIN4", "ISO8859-4", "L4"], Family::Table(whatwg::ISO_8859_4)),
    (&["ISO-8859-5", "CYRILLIC", "ISO8859-5"], Family::Table(whatwg::ISO_8859_5)),
    (&["ISO-8859-6", "ARABIC", "ISO8859-6"], Family::Table(whatwg::ISO_8859_6)),
    (&["ISO-8859-7", "GREEK", "ISO8859-7"], Family::Table(whatwg::ISO_8859_7)),
    (&["ISO-8859-8", "HEBREW", "ISO8859-8"], Family::Table(whatwg::ISO_8859_8)),
    (&["ISO-8859-9", "LATIN5", "ISO8859-9", "L5"], Family::Latin5),
    (&["ISO-8859-10", "LATIN6", "ISO8859-10", "L6"], Family::Table(whatwg::ISO_8859_10)),
    (&["ISO-8859-13", "LATIN7", "ISO8859-13", "L7"], Family::Table(whatwg::ISO_8859_13)),
    (&["ISO-8859-14", "LATIN8", "ISO8859-14", "L8"], Family::Table(whatwg::ISO_8859_14)),
    (&["ISO-8859-15", "LATIN-9", "ISO8859-15"], Family::Table(whatwg::ISO_8859_15)),
    (&["ISO-8859-16", "LATIN10", "ISO8859-16", "L10"], Family::Table(whatwg::ISO_8859_16)),
    (&["WINDOWS-1250", "CP1250"], Family::Windows(whatwg::WINDOWS_1250)),
    (&["WINDOWS-1251", "CP1251"], Family::Windows(whatwg::WINDOWS_1251)),
    (&["WINDOWS-1252", "CP1252"], Family::Windows(whatwg::WINDOWS_1252)),
    (&["WINDOWS-1253", "CP1253"], Family::Windows(whatwg::WINDOWS_1253)),
    (&["WINDOWS-1254", "CP1254"], Family::Windows(whatwg::WINDOWS_1254)),
    (&["WINDOWS-1256", "CP1256"], Family::Windows(whatwg::WINDOWS_1256)),
    (&["WINDOWS-1257", "CP1257"], Family::Windows(whatwg::WINDOWS_1257)),
    (&["CP874", "WINDOWS-874"], Family::Windows(whatwg::WINDOWS_874)),
    (&["KOI8-R"], Family::Table(whatwg::KOI8_R)),
    (&["CP866", "IBM866", "866"], Family::Table(whatwg::IBM866)),
    (&["EUC-JP", "EUCJP"], Family::Double(whatwg::EUC_JP)),
    (&["CP932", "WINDOWS-31J", "SHIFT_JIS", "SHIFT-JIS", "SJIS"], Family::Double(whatwg::SHIFT_JIS)),
    (&["CP949", "UHC", "EUC-KR", "EUCKR"], Family::Double(whatwg::EUC_KR)),
    (&["GBK", "CP936"], Family::Double(whatwg::GBK)),
    (&["GB18030"], Family::Double(whatwg::GB18030)),
    (&["BIG5", "BIG-5"], Family::Double(whatwg::BIG5)),
];

fn found(name: &str) -> Option<(&'static str, Family)> {
    let is_it = |known: &&'static str| known.eq_ignore_ascii_case(name);
    NAMES.iter().find(|(names, _)| names.iter().any(is_it)).map(|(names, family)| (names[0], *family))
}

/// The encoding of this name, at the beginning of a text.
///
/// # Errors
/// There is none of this name; the error lists the names.
pub(super) fn named(name: &str) -> Result<Charset, String> {
    let (name, family) = found(name).ok_or_else(|| {
        let known: Vec<&str> = NAMES.iter().map(|(names, _)| names[0]).collect();
        format!("no encoding '{name}' is known; there are {}", known.join(", "))
    })?;
    let kind = match family {
        Family::Utf8 => Kind::Utf8,
        Family::Utf16(order) => Kind::Utf16(Utf16::new(order)),
        Family::Utf32(order) => Kind::Utf32(Utf32::new(order)),
        Family::Ascii => Kind::Table(Table::of(|byte| byte.is_ascii().then_some(byte.into()))),
        Family::Latin1 => Kind::Table(Table::of(|byte| Some(byte.into()))),
        Family::Table(encoding) => Kind::Table(Table::of(|byte| single(encoding, byte))),
        Family::Windows(encoding) => {
            let is_assigned = |character: &char| !character.is_control() || character.is_ascii();
            Kind::Table(Table::of(|byte| single(encoding, byte).filter(is_assigned)))
        }
        Family::Latin5 => Kind::Table(Table::of(|byte| match byte {
            0x80..=0x9f => Some(byte.into()),
            _ => single(whatwg::WINDOWS_1254, byte),
        })),
        Family::Double(encoding) => Kind::Double(Double::new(encoding)),
    };
    Ok(Charset { name, kind })
}

/// Whether a text in this encoding may begin with a byte order mark.
pub(super) fn is_marked(name: &str) -> bool {
    matches!(found(name), Some((_, Family::Utf16(Order::Marked) | Family::Utf32(Order::Marked))))
}

/// The character that a single byte encodes.
fn single(encoding: &'static whatwg::Encoding, byte: u8) -> Option<char> {
    let text = encoding.decode_without_bom_handling_and_without_replacement(std::slice::from_ref(&byte))?;
    text.chars().next()
}

impl Charset {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Whether bytes below 128 always have their ASCII meaning.
    pub(super) fn has_ascii(&self) -> bool {
        !matches!(self.kind, Kind::Utf16(_) | Kind::Utf32(_))
    }

    /// Decodes the beginning of `bytes`, which are not empty.
    pub(super) fn decode(&mut self, bytes: &[u8]) -> Decoded {
        match &mut self.kind {
            Kind::Utf8 => utf8(bytes),
            Kind::Utf16(utf16) => utf16.decode(bytes),
            Kind::Utf32(utf32) => utf32.decode(bytes),
            Kind::Table(table) => table.decode(bytes[0]),
            Kind::Double(double) => double.decode(bytes),
        }
    }

    /// Writes a character; returns its length in bytes, or `None` if this encoding does not have it. At most eight
    /// bytes, of which a mark may be a part.
    pub(super) fn encode(&mut self, character: char, output: &mut [u8]) -> Option<usize> {
        match &mut self.kind {
            Kind::Utf8 => Some(character.encode_utf8(output).len()),
            Kind::Utf16(utf16) => Some(utf16.encode(character, output)),
            Kind::Utf32(utf32) => Some(utf32.encode(character, output)),
            Kind::Table(table) => {
                output[0] = table.encode(character)?;
                Some(1)
            }
            Kind::Double(double) => double.encode(character, output),
        }
    }
}
