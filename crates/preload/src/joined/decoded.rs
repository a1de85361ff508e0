//! Whether bytes that read like a system call lie inside of other instructions of the program.
//!
//! Instructions of x86-64 have no alignment, but decoding falls into step: whichever byte it begins with, after a few instructions it is
//! at the beginnings of those that the program executes. So the code before the bytes is decoded from sixteen addresses in a row, of which
//! one at least is the beginning of an instruction, as none is longer than fifteen bytes. If none of these ways comes to the bytes in
//! question, the program does not either. (Intel SDM, volume 2, chapter 2 and appendix A, has the lengths.)

/// Ways begin so far before the bytes. The shorter one is for what begins behind data.
const DISTANCES: [usize; 2] = [72, 40];
/// An instruction has so many bytes at most.
pub(super) const LONGEST: usize = 15;

/// Whether the instruction at `here`, in code that can be read from `start` on, is none.
pub(super) fn is_inside_another(start: usize, here: usize) -> bool {
    here - start >= DISTANCES[0] + LONGEST
        && !loads_number(here)
        && DISTANCES.iter().all(|distance| (0..=LONGEST).all(|more| !comes_by(here - distance - more, here)))
}

/// Whether what stands before a call is the number of one: `mov eax, NUMBER`, `xor eax, eax`.
fn loads_number(here: usize) -> bool {
    byte(here - 5) == 0xb8
        || (byte(here - 6) == 0xc7 && byte(here - 5) == 0xc0)
        || [0x31, 0x33].contains(&byte(here - 2))
}

fn comes_by(from: usize, here: usize) -> bool {
    let mut at = from;
    while at < here {
        // A system call with prefixes is one.
        if (at..here).all(|place| is_prefix(byte(place))) {
            return true;
        }
        match length(at) {
            Length::Of(len) => at += len,
            // No program gets further.
            Length::Invalid => return false,
            Length::Unknown => return true,
        }
    }
    at == here
}

enum Length {
    Of(usize),
    Invalid,
    /// Of an extension that this table does not have.
    Unknown,
}

fn byte(at: usize) -> u8 {
    // SAFETY: code that the caller has found to be readable, no further behind the bytes in question than an instruction is long.
    unsafe { (at as *const u8).read() }
}

#[inline(never)]
fn is_legacy_prefix(byte: u8) -> bool {
    matches!(byte, 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3 | 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65)
}

fn is_prefix(byte: u8) -> bool {
    is_legacy_prefix(byte) || byte & 0xf0 == 0x40
}

/// What follows an opcode.
#[derive(Clone, Copy)]
struct Form {
    has_operand: bool,
    immediate: usize,
}

fn length(from: usize) -> Length {
    let (mut at, mut is_short, mut has_addresses_of_32, mut is_wide) = (from, false, false, false);
    loop {
        match byte(at) {
            0x66 => is_short = true,
            0x67 => has_addresses_of_32 = true,
            other if is_legacy_prefix(other) => {}
            _ => break,
        }
        at += 1;
        if at - from == LONGEST {
            return Length::Invalid;
        }
    }
    while byte(at) & 0xf0 == 0x40 {
        is_wide = byte(at) & 8 != 0;
        at += 1;
        if at - from == LONGEST {
            return Length::Invalid;
        }
    }
    let word = if is_short { 2 } else { 4 };
    let opcode = byte(at);
    at += 1;
    let form = match opcode {
        0x0f => match byte(at) {
            0x38 => {
                at += 2;
                Some(Form { has_operand: true, immediate: 0 })
            }
            0x3a => {
                at += 2;
                Some(Form { has_operand: true, immediate: 1 })
            }
            0x04 | 0x0a | 0x0c => return Length::Invalid,
            second => {
                at += 1;
                of_two(second)
            }
        },
        0xc5 => {
            at += 2;
            of_map(1, byte(at - 1))
        }
        0xc4 => {
            at += 3;
            of_map(byte(at - 3) & 0x1f, byte(at - 1))
        }
        0x62 => {
            at += 4;
            of_map(byte(at - 4) & 7, byte(at - 1))
        }
        0xa0..=0xa3 => Some(Form { has_operand: false, immediate: if has_addresses_of_32 { 4 } else { 8 } }),
        0xb8..=0xbf => Some(Form { has_operand: false, immediate: if is_wide { 8 } else { word } }),
        0xe8 | 0xe9 if is_short => None,
        0x06 | 0x07 | 0x0e | 0x16 | 0x17 | 0x1e | 0x1f | 0x27 | 0x2f | 0x37 | 0x3f | 0x60 | 0x61 | 0x82 | 0x9a
        | 0xce | 0xd4 | 0xd6 | 0xea => return Length::Invalid,
        0xd5 => None,
        // `pop`, or of another extension.
        0x8f if byte(at) & 0x38 != 0 => None,
        0xf6 => Some(Form { has_operand: true, immediate: usize::from(byte(at) & 0x30 == 0) }),
        0xf7 => Some(Form { has_operand: true, immediate: if byte(at) & 0x30 == 0 { word } else { 0 } }),
        _ => Some(of_one(opcode, word)),
    };
    let Some(form) = form else { return Length::Unknown };
    let operand = if form.has_operand { operand(at) } else { 0 };
    let len = at + operand + form.immediate - from;
    if len <= LONGEST { Length::Of(len) } else { Length::Invalid }
}

/// Register or address: the byte that tells, what it is computed of, and a distance.
fn operand(at: usize) -> usize {
    let tells = byte(at);
    let (mode, register) = (tells >> 6, tells & 7);
    let is_computed = mode != 3 && register == 4;
    let has_no_base = mode == 0 && (register == 5 || (is_computed && byte(at + 1) & 7 == 5));
    let distance = match mode {
        _ if has_no_base => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    1 + usize::from(is_computed) + distance
}

fn of_one(opcode: u8, word: usize) -> Form {
    let has_operand = match opcode {
        0x00..=0x3f => opcode & 7 < 4,
        0x63 | 0x69 | 0x6b | 0x80..=0x8f | 0xc0 | 0xc1 | 0xc6 | 0xc7 | 0xd0..=0xd3 | 0xd8..=0xdf | 0xfe | 0xff => true,
        _ => false,
    };
    let immediate = match opcode {
        0x00..=0x3f if opcode & 7 == 4 => 1,
        0x00..=0x3f if opcode & 7 == 5 => word,
        0x68 | 0x69 | 0x81 | 0xa9 | 0xc7 => word,
        0xe8 | 0xe9 => 4,
        0x6a
        | 0x6b
        | 0x70..=0x7f
        | 0x80
        | 0x83
        | 0xa8
        | 0xb0..=0xb7
        | 0xc0
        | 0xc1
        | 0xc6
        | 0xcd
        | 0xe0..=0xe7
        | 0xeb => 1,
        0xc2 | 0xca => 2,
        0xc8 => 3,
        _ => 0,
    };
    Form { has_operand, immediate }
}

fn of_two(second: u8) -> Option<Form> {
    Some(match second {
        0x24..=0x27 | 0x36 | 0x39 | 0x3b..=0x3f | 0x7a | 0x7b | 0xa6 | 0xa7 => return None,
        0x05..=0x09 | 0x0b | 0x0e | 0x30..=0x37 | 0x77 | 0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf => {
            Form { has_operand: false, immediate: 0 }
        }
        // Registers only.
        0x20..=0x23 => Form { has_operand: false, immediate: 1 },
        0x80..=0x8f => Form { has_operand: false, immediate: 4 },
        0x0f | 0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => Form { has_operand: true, immediate: 1 },
        _ => Form { has_operand: true, immediate: 0 },
    })
}

/// With the longer prefixes, which name the map of opcodes.
fn of_map(map: u8, opcode: u8) -> Option<Form> {
    match map {
        1 if opcode == 0x77 => Some(Form { has_operand: false, immediate: 0 }),
        1 => Some(Form { has_operand: true, immediate: matches!(opcode, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6).into() }),
        2 | 5 | 6 => Some(Form { has_operand: true, immediate: 0 }),
        3 => Some(Form { has_operand: true, immediate: 1 }),
        _ => None,
    }
}
