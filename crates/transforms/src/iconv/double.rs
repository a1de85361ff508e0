//! The encodings of East Asia, with one to four bytes for a character, as browsers read and write them.

use encoding_rs::{Decoder, EUC_JP, GB18030, GBK, SHIFT_JIS};
use encoding_rs::{DecoderResult, Encoder, EncoderResult, Encoding};

use super::decoded::Decoded;

pub(super) struct Double {
    encoding: &'static Encoding,
    decoder: Decoder,
    encoder: Encoder,
}

impl Double {
    pub(super) fn new(encoding: &'static Encoding) -> Double {
        Double { encoding, decoder: encoding.new_decoder_without_bom_handling(), encoder: encoding.new_encoder() }
    }

    /// The length of the character at the beginning of `bytes`, if these suffice to tell.
    fn len(&self, bytes: &[u8]) -> Option<usize> {
        let (first, second) = (bytes[0], bytes.get(1).copied());
        match first {
            0x00..0x80 => Some(1),
            0x8f if self.encoding == EUC_JP => Some(3),
            // Half-width characters have one byte.
            0xa0..=0xdf if self.encoding == SHIFT_JIS => Some(1),
            0x80 | 0xff => Some(1),
            _ if self.encoding == GBK || self.encoding == GB18030 => {
                second.map(|second| if second.is_ascii_digit() { 4 } else { 2 })
            }
            _ => Some(2),
        }
    }

    /// The decoder gets whole characters, so it never keeps the beginning of one.
    pub(super) fn decode(&mut self, bytes: &[u8]) -> Decoded {
        let Some(len) = self.len(bytes).filter(|len| *len <= bytes.len()) else { return Decoded::Begun };
        let mut text = [0; 16];
        let (result, _, written) = self.decoder.decode_to_utf8_without_replacement(&bytes[..len], &mut text, false);
        let text = std::str::from_utf8(&text[..written]).unwrap_or_default();
        let mut characters = text.chars();
        match (result, characters.next()) {
            (DecoderResult::InputEmpty, first @ Some(_)) => Decoded::Characters([first, characters.next()], len),
            _ => Decoded::Wrong,
        }
    }

    pub(super) fn encode(&mut self, character: char, output: &mut [u8]) -> Option<usize> {
        let mut text = [0; 4];
        let text = character.encode_utf8(&mut text);
        let (result, _, written) = self.encoder.encode_from_utf8_without_replacement(text, output, false);
        (result == EncoderResult::InputEmpty).then_some(written)
    }
}
