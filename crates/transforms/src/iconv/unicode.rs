//! The encodings of Unicode.

use super::decoded::Decoded;

/// The order of the bytes of a code unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Big,
    Little,
    /// The order of the byte order mark U+FEFF at the beginning, which is no part of the text. Without a mark,
    /// little-endian.
    Marked,
}

const MARK: u32 = 0xfeff;

/// A character of UTF-8.
pub(super) fn utf8(bytes: &[u8]) -> Decoded {
    let len = match bytes[0] {
        0x00..0x80 => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Decoded::Wrong,
    };
    match std::str::from_utf8(&bytes[..len.min(bytes.len())]) {
        Ok(text) => text.chars().next().map_or(Decoded::Wrong, |character| Decoded::one(character, len)),
        Err(error) if error.error_len().is_none() => Decoded::Begun,
        Err(_) => Decoded::Wrong,
    }
}

pub(super) struct Utf16 {
    order: Order,
    is_marked: bool,
}

impl Utf16 {
    pub(super) fn new(order: Order) -> Utf16 {
        Utf16 { order, is_marked: order == Order::Marked }
    }

    pub(super) fn decode(&mut self, bytes: &[u8]) -> Decoded {
        let Some(&first) = bytes.first_chunk::<2>() else { return Decoded::Begun };
        if self.order == Order::Marked {
            self.order = if first == [0xfe, 0xff] { Order::Big } else { Order::Little };
            if u32::from(self.unit(first)) == MARK {
                return Decoded::Characters([None; 2], 2);
            }
        }
        let unit = self.unit(first);
        match unit {
            0xd800..0xdc00 => {
                let Some(&second) = bytes[2..].first_chunk::<2>() else { return Decoded::Begun };
                let pair = char::decode_utf16([unit, self.unit(second)]).next();
                pair.and_then(Result::ok).map_or(Decoded::Wrong, |character| Decoded::one(character, 4))
            }
            _ => char::from_u32(unit.into()).map_or(Decoded::Wrong, |character| Decoded::one(character, 2)),
        }
    }

    fn unit(&self, bytes: [u8; 2]) -> u16 {
        if self.order == Order::Big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    pub(super) fn encode(&mut self, character: char, output: &mut [u8]) -> usize {
        let mut len = 0;
        let mut put = |unit: u16, order| {
            let bytes = if order == Order::Big { unit.to_be_bytes() } else { unit.to_le_bytes() };
            output[len..len + 2].copy_from_slice(&bytes);
            len += 2;
        };
        if std::mem::take(&mut self.is_marked) {
            put(0xfeff, self.order);
        }
        character.encode_utf16(&mut [0; 2]).iter().for_each(|&unit| put(unit, self.order));
        len
    }
}

pub(super) struct Utf32 {
    order: Order,
    is_marked: bool,
}

impl Utf32 {
    pub(super) fn new(order: Order) -> Utf32 {
        Utf32 { order, is_marked: order == Order::Marked }
    }

    pub(super) fn decode(&mut self, bytes: &[u8]) -> Decoded {
        let Some(&unit) = bytes.first_chunk::<4>() else { return Decoded::Begun };
        if self.order == Order::Marked {
            self.order = if u32::from_be_bytes(unit) == MARK { Order::Big } else { Order::Little };
            if self.value(unit) == MARK {
                return Decoded::Characters([None; 2], 4);
            }
        }
        char::from_u32(self.value(unit)).map_or(Decoded::Wrong, |character| Decoded::one(character, 4))
    }

    fn value(&self, bytes: [u8; 4]) -> u32 {
        if self.order == Order::Big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    pub(super) fn encode(&mut self, character: char, output: &mut [u8]) -> usize {
        let bytes = |value: u32, order| if order == Order::Big { value.to_be_bytes() } else { value.to_le_bytes() };
        let mut len = 0;
        if std::mem::take(&mut self.is_marked) {
            output[..4].copy_from_slice(&bytes(MARK, self.order));
            len = 4;
        }
        output[len..len + 4].copy_from_slice(&bytes(character.into(), self.order));
        len + 4
    }
}
