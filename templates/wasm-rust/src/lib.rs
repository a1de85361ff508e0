//! A transform in place, with an argument: N added to each byte, modulo 256; 1 unless given.

mod millstream;

use millstream::{InPlace, TransformError, in_place};

struct Increment {
    step: u8,
}

impl InPlace for Increment {
    fn new(arguments: &[&str]) -> Result<Increment, String> {
        let step = match arguments {
            [] => 1,
            [number] => number.parse().map_err(|_| format!("N is a number from 0 to 255, not '{number}'"))?,
            [_, second, ..] => return Err(format!("'{second}' means nothing here")),
        };
        Ok(Increment { step })
    }

    fn apply(&mut self, _offset: u64, bytes: &mut [u8]) -> Result<(), TransformError> {
        bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(self.step));
        Ok(())
    }
}

in_place!(Increment);
