//! Instructions that a hook displaces, and how they are written elsewhere.
//!
//! Only what functions of the C library begin with is known: moves, stack operations, tests, system calls, calls and jumps. Any
//! other instruction is refused, and the function is not hooked.

/// No function's first instructions, until five bytes are full, are longer: four bytes, and one instruction of up to eleven.
pub(super) const WINDOW: usize = 16;
/// The least that a hook displaces.
const HOOK_BYTES: usize = 5;
/// A jump or a call that was near may become this much longer.
const ROOM: usize = 27;

/// Whole instructions, of at least [`HOOK_BYTES`] together.
pub(super) struct Displaced {
    from: usize,
    code: [u8; WINDOW],
    len: usize,
}

/// The instructions at an address, if all of them are known.
pub(super) fn at((from, code): (usize, [u8; WINDOW])) -> Option<Displaced> {
    let mut len = 0;
    while len < HOOK_BYTES {
        len += Instruction::first_of(code.get(len..)?)?.len;
    }
    Some(Displaced { from, code, len })
}

impl Displaced {
    /// Where the function goes on behind them.
    pub(super) fn end(&self) -> usize {
        self.from + self.len
    }

    /// The same code for another address, and its length. `None`: it cannot reach from there what it reaches here, or jumps
    /// into itself.
    pub(super) fn moved_to(&self, to: usize) -> Option<([u8; ROOM], usize)> {
        let (mut moved, mut len, mut at) = ([0; ROOM], 0, 0);
        while at < self.len {
            let instruction = Instruction::first_of(self.code.get(at..self.len)?)?;
            let bytes = self.code.get(at..at + instruction.len)?;
            let next = self.from + at + instruction.len;
            let (written, distance_at, target) = match instruction.reach {
                Reach::Nothing => (put(&mut moved, len, bytes)?, None, 0),
                Reach::Near(branch, distance) => {
                    let start = put(&mut moved, len, branch.bytes())?;
                    (put(&mut moved, start, &[0; 4])?, Some(start), next.wrapping_add_signed(distance as isize))
                }
                Reach::Memory { at: place } => {
                    let distance = i32::from_le_bytes(bytes.get(place..place + 4)?.try_into().ok()?);
                    let target = next.wrapping_add_signed(distance as isize);
                    (put(&mut moved, len, bytes)?, Some(len + place), target)
                }
            };
            if let Some(place) = distance_at {
                let is_own = (self.from..self.end()).contains(&target);
                let distance = i32::try_from((target as i64).wrapping_sub((to + written) as i64)).ok()?;
                put(&mut moved, place, &distance.to_le_bytes()).filter(|_| !is_own)?;
            }
            len = written;
            at += instruction.len;
        }
        Some((moved, len))
    }
}

/// Writes bytes; returns where they end.
fn put(room: &mut [u8], at: usize, bytes: &[u8]) -> Option<usize> {
    room.get_mut(at..at + bytes.len())?.copy_from_slice(bytes);
    Some(at + bytes.len())
}

/// What an instruction reaches by its distance from it.
#[derive(Clone, Copy)]
enum Reach {
    Nothing,
    /// Code.
    Near(Branch, i32),
    /// Data: its distance stands at this byte.
    Memory {
        at: usize,
    },
}

/// A branch, as it is written with a distance of 32 bits.
#[derive(Clone, Copy)]
enum Branch {
    Always([u8; 1]),
    If([u8; 2]),
}

impl Branch {
    fn bytes(&self) -> &[u8] {
        match self {
            Branch::Always(bytes) => bytes,
            Branch::If(bytes) => bytes,
        }
    }
}

struct Instruction {
    len: usize,
    reach: Reach,
}

impl Instruction {
    /// The first instruction of some code (Intel SDM volume 2, appendix A; AMD64 manual volume 3, appendix A).
    fn first_of(code: &[u8]) -> Option<Instruction> {
        let mut at = 0;
        let mut wide = false;
        loop {
            match *code.get(at)? {
                // Segment FS, repetition.
                0x64 | 0xf2 | 0xf3 => at += 1,
                0x40..=0x4f => {
                    wide = code[at] & 8 != 0;
                    at += 1;
                    break;
                }
                _ => break,
            }
        }
        let (opcode, rest) = (*code.get(at)?, at + 1);
        let near = |opcode: Branch, bytes: usize| {
            let distance = match *code.get(rest..rest + bytes)? {
                [a] => i32::from(a.cast_signed()),
                [a, b, c, d] => i32::from_le_bytes([a, b, c, d]),
                _ => return None,
            };
            Some(Instruction { len: rest + bytes, reach: Reach::Near(opcode, distance) })
        };
        let plain = |bytes: usize| Some(Instruction { len: rest + bytes, reach: Reach::Nothing });
        match opcode {
            0x50..=0x5f | 0x90 => plain(0),
            // Operations of the accumulator with a number; `push` of a number.
            0x05 | 0x0d | 0x25 | 0x2d | 0x35 | 0x3d | 0xa9 | 0x68 => plain(4),
            0x3c | 0xa8 | 0x6a => plain(1),
            0xb8..=0xbf => plain(if wide { 8 } else { 4 }),
            0x70..=0x7f => near(Branch::If([0x0f, opcode + 0x10]), 1),
            0xeb => near(Branch::Always([0xe9]), 1),
            0xe8 | 0xe9 => near(Branch::Always([opcode]), 4),
            0x00..=0x03
            | 0x08..=0x0b
            | 0x20..=0x23
            | 0x28..=0x2b
            | 0x30..=0x33
            | 0x38..=0x3b
            | 0x63
            | 0x84..=0x8b
            | 0x8d
            | 0xd1
            | 0xd3 => with_operand(code, rest, 0),
            0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => with_operand(code, rest, 1),
            0x69 | 0x81 | 0xc7 => with_operand(code, rest, 4),
            0x0f => Instruction::of_two_bytes(code, rest),
            _ => None,
        }
    }

    fn of_two_bytes(code: &[u8], at: usize) -> Option<Instruction> {
        let (opcode, rest) = (*code.get(at)?, at + 1);
        match opcode {
            // `syscall`
            0x05 => Some(Instruction { len: rest, reach: Reach::Nothing }),
            0x80..=0x8f => {
                let distance = i32::from_le_bytes(code.get(rest..rest + 4)?.try_into().ok()?);
                Some(Instruction { len: rest + 4, reach: Reach::Near(Branch::If([0x0f, opcode]), distance) })
            }
            // Moves of vectors, `nop` and `endbr64`, conditional and extending moves.
            0x10 | 0x11 | 0x1e | 0x1f | 0x28 | 0x29 | 0x40..=0x4f | 0xb6 | 0xb7 | 0xbe | 0xbf => {
                with_operand(code, rest, 0)
            }
            _ => None,
        }
    }
}

/// An instruction whose operand, register or memory, is described at `at`, with so many bytes of a number behind it.
fn with_operand(code: &[u8], at: usize, number: usize) -> Option<Instruction> {
    let described = *code.get(at)?;
    let (mode, base) = (described >> 6, described & 7);
    let mut len = at + 1;
    let mut reach = Reach::Nothing;
    if mode != 3 && base == 4 {
        let has_no_base = *code.get(len)? & 7 == 5;
        len += 1;
        if mode == 0 && has_no_base {
            len += 4;
        }
    }
    match (mode, base) {
        (0, 5) => {
            reach = Reach::Memory { at: len };
            len += 4;
        }
        (1, _) => len += 1,
        (2, _) => len += 4,
        _ => {}
    }
    len += number;
    (len <= code.len()).then_some(Instruction { len, reach })
}
