//! Reads the headers of a tar archive: old ones, POSIX (ustar, pax) and GNU. What the members contain is not read.
//!
//! The bytes come from a function that is asked for any piece, so members that are skipped cost nothing where the archive is not
//! compressed. Memory is bounded: an archive that is a few kilobytes compressed may have a name of gigabytes.
//!
//! # References
//! POSIX.1-2024, `pax`, "Extended Description"; the manual of GNU tar, "Basic Tar Format" and "Storing Sparse Files".

use rustix::fs::FileType;

use super::bytes::{BLOCK, Extent, ReadAt, Result, TarError, exactly, number, parsed, truncated};
use super::sparse;

/// Bytes of a name, or of all extended attributes of one member, at most.
const EXTENDED_MOST: u64 = 4 << 20;

/// No file is so long.
const OFFSET_MOST: u64 = 1 << 62;

/// Nor is any time further away.
const SECONDS_MOST: i64 = 1 << 40;

/// What a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Between its extents there are zeros.
    File {
        size: u64,
        extents: Vec<Extent>,
    },
    Directory,
    Symlink(Vec<u8>),
    /// Another name of an earlier member.
    HardLink(Vec<u8>),
    Special(FileType, (u32, u32)),
    /// The letter of its type is not known.
    Unknown(u8),
}

/// A member, as its headers say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) seconds: i64,
    pub(super) nanoseconds: u32,
}

/// How an archive ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With a block of zeros, as it has to.
    Marked,
    /// Behind a member.
    Unmarked,
}

/// Gives each member to `take`, in the order of the archive, until that says what is wrong.
pub(super) fn read(source: &mut ReadAt<'_>, take: &mut dyn FnMut(Member) -> Result<(), String>) -> Result<End> {
    let (mut offset, mut last_end) = (0, 0);
    let (mut global, mut own) = (Extended::default(), Extended::default());
    loop {
        let mut bytes = [0; BLOCK as usize];
        match source(offset, &mut bytes)? {
            0 => {
                check_has(source, last_end)?;
                return Ok(if offset == 0 { End::Marked } else { End::Unmarked });
            }
            count if count < bytes.len() => return Err(truncated(offset + count as u64)),
            _ if bytes == [0; BLOCK as usize] => return Ok(End::Marked),
            _ => {}
        }
        let header = Header { bytes: &bytes, offset };
        header.check_sum()?;
        let data = offset + BLOCK;
        let mut size = header.number(SIZE)?;
        match header.kind() {
            b'x' | b'X' => own.read_pax(&extended(source, data, size)?, offset)?,
            b'g' => global.read_pax(&extended(source, data, size)?, offset)?,
            b'L' => own.path = Some(text(&extended(source, data, size)?).to_vec()),
            b'K' => own.link = Some(text(&extended(source, data, size)?).to_vec()),
            kind => {
                let extended = std::mem::take(&mut own).over(&global);
                size = extended.size.unwrap_or(size);
                let (member, data_end) = member(source, &header, extended, size)?;
                // The label of a volume is no member.
                if kind != b'V' {
                    take(member).map_err(|what| TarError::at(offset, what))?;
                }
                last_end = data_end;
                offset = data_end.next_multiple_of(BLOCK);
                continue;
            }
        }
        last_end = data + size;
        offset = last_end.next_multiple_of(BLOCK);
    }
}

/// A member that is skipped may end behind the end of the archive.
fn check_has(source: &mut ReadAt<'_>, end: u64) -> Result<()> {
    match end.checked_sub(1) {
        Some(last) if source(last, &mut [0])? == 0 => Err(truncated(last)),
        _ => Ok(()),
    }
}

/// What is written for the next member, in a member of its own.
fn extended(source: &mut ReadAt<'_>, offset: u64, size: u64) -> Result<Vec<u8>> {
    if size > EXTENDED_MOST {
        return Err(TarError::at(
            offset,
            format!("a header of {size} bytes is too long (the most is {EXTENDED_MOST})"),
        ));
    }
    exactly(source, offset, size)
}

/// A member, and where what it contains ends.
fn member(source: &mut ReadAt<'_>, header: &Header<'_>, extended: Extended, size: u64) -> Result<(Member, u64)> {
    let data = header.offset + BLOCK;
    let name = extended.path.unwrap_or_else(|| header.name());
    let link = || extended.link.unwrap_or_else(|| text(header.field(LINK)).to_vec());
    let device = |kind| Ok::<_, TarError>(Kind::Special(kind, (header.small(MAJOR)?, header.small(MINOR)?)));
    let (kind, end) = match header.kind() {
        b'0' | 0 | b'7' if name.ends_with(b"/") => (Kind::Directory, data),
        b'0' | 0 | b'7' if extended.sparse.is_some() => {
            let end = data_end(header, data, size)?;
            let layout = sparse::of_pax(source, extended.sparse.unwrap_or_default(), data, size)?;
            (Kind::File { size: layout.size, extents: layout.extents }, end)
        }
        b'0' | 0 | b'7' => {
            let whole = Extent { start: 0, len: size, source: data };
            let extents = if size > 0 { vec![whole] } else { Vec::new() };
            (Kind::File { size, extents }, data_end(header, data, size)?)
        }
        b'S' => {
            let layout = sparse::of_gnu(source, header.bytes, header.offset, size)?;
            (Kind::File { size: layout.size, extents: layout.extents }, data_end(header, layout.data, size)?)
        }
        b'1' => (Kind::HardLink(link()), data),
        b'2' => (Kind::Symlink(link()), data),
        b'3' => (device(FileType::CharacterDevice)?, data),
        b'4' => (device(FileType::BlockDevice)?, data),
        b'5' => (Kind::Directory, data),
        b'6' => (Kind::Special(FileType::Fifo, (0, 0)), data),
        // A directory of an incremental archive lists its names.
        b'D' => (Kind::Directory, data_end(header, data, size)?),
        b'M' => return Err(TarError::at(header.offset, "it is a part of an archive of several volumes")),
        other => (Kind::Unknown(other), data_end(header, data, size)?),
    };
    let (seconds, nanoseconds) = match extended.modified {
        Some(modified) => modified,
        None => (header.signed(MODIFIED)?, 0),
    };
    let seconds = seconds.clamp(-SECONDS_MOST, SECONDS_MOST);
    let mode = header.small(MODE)? & 0o7777;
    let user = extended.user.map_or_else(|| header.small(USER), Ok)?;
    let group = extended.group.map_or_else(|| header.small(GROUP), Ok)?;
    Ok((Member { name, kind, mode, user, group, seconds, nanoseconds }, end))
}

fn data_end(header: &Header<'_>, data: u64, size: u64) -> Result<u64> {
    let end = data.checked_add(size).filter(|&end| end < OFFSET_MOST);
    end.ok_or_else(|| TarError::at(header.offset, "the size of a member is corrupt"))
}

/// Where in a header something is, and of how many bytes.
type Field = (usize, usize);
const NAME: Field = (0, 100);
const MODE: Field = (100, 8);
const USER: Field = (108, 8);
const GROUP: Field = (116, 8);
const SIZE: Field = (124, 12);
const MODIFIED: Field = (136, 12);
const SUM: Field = (148, 8);
const KIND: usize = 156;
const LINK: Field = (157, 100);
const MAGIC: Field = (257, 6);
const MAJOR: Field = (329, 8);
const MINOR: Field = (337, 8);
const PREFIX: Field = (345, 155);

struct Header<'a> {
    bytes: &'a [u8; BLOCK as usize],
    offset: u64,
}

impl Header<'_> {
    fn field(&self, (start, len): Field) -> &[u8] {
        &self.bytes[start..start + len]
    }

    fn kind(&self) -> u8 {
        self.bytes[KIND]
    }

    /// The sum counts its own field as spaces. Some old programs have added the bytes as signed numbers.
    fn check_sum(&self) -> Result<()> {
        let is_own = |place: usize| (SUM.0..SUM.0 + SUM.1).contains(&place);
        let counted = |(place, &byte): (usize, &u8)| if is_own(place) { b' ' } else { byte };
        let bytes = || self.bytes.iter().enumerate().map(counted);
        let unsigned: i64 = bytes().map(i64::from).sum();
        let signed: i64 = bytes().map(|byte| i64::from(byte.cast_signed())).sum();
        match number(self.field(SUM)) {
            Some(sum) if sum == unsigned || sum == signed => Ok(()),
            _ if self.offset == 0 => Err(TarError::at(0, "it is no tar archive")),
            _ => Err(TarError::at(self.offset, "the archive is corrupt: the checksum of a header is wrong")),
        }
    }

    fn signed(&self, field: Field) -> Result<i64> {
        number(self.field(field)).ok_or_else(|| TarError::at(self.offset, "the archive is corrupt: a bad number"))
    }

    fn number(&self, field: Field) -> Result<u64> {
        let number = self.signed(field)?;
        u64::try_from(number).map_err(|_| TarError::at(self.offset, format!("a member of {number} bytes cannot be")))
    }

    /// Of numbers that are larger the system has no use.
    fn small(&self, field: Field) -> Result<u32> {
        self.signed(field).map(|number| number as u32)
    }

    /// POSIX has a field for the first part of a long name. GNU has other things there.
    fn name(&self) -> Vec<u8> {
        let name = text(self.field(NAME));
        let prefix = if self.field(MAGIC) == b"ustar\0" { text(self.field(PREFIX)) } else { &[] };
        match prefix {
            [] => name.to_vec(),
            prefix => [prefix, name].join(&b'/'),
        }
    }
}

/// What stands before the first zero.
fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// What extended headers say of a member.
#[derive(Clone, Debug, Default)]
struct Extended {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    user: Option<u32>,
    group: Option<u32>,
    modified: Option<(i64, u32)>,
    sparse: Option<sparse::Pax>,
}

impl Extended {
    /// The same, with what is said for all members where it says nothing.
    fn over(self, global: &Extended) -> Extended {
        Extended {
            path: self.path.or_else(|| global.path.clone()),
            link: self.link.or_else(|| global.link.clone()),
            size: self.size.or(global.size),
            user: self.user.or(global.user),
            group: self.group.or(global.group),
            modified: self.modified.or(global.modified),
            sparse: self.sparse,
        }
    }

    /// Records as `17 path=some/name\n`: the number is that of all bytes of the record.
    fn read_pax(&mut self, records: &[u8], offset: u64) -> Result<()> {
        let corrupt = || TarError::at(offset, "the archive is corrupt: a bad extended header");
        let mut rest = records;
        while !rest.is_empty() && rest[0] != 0 {
            let space = rest.iter().position(|&byte| byte == b' ').ok_or_else(corrupt)?;
            let len: usize = parsed(&rest[..space]).ok_or_else(corrupt)?;
            let record = rest.get(space + 1..len).ok_or_else(corrupt)?;
            let record = record.strip_suffix(b"\n").ok_or_else(corrupt)?;
            let equals = record.iter().position(|&byte| byte == b'=').ok_or_else(corrupt)?;
            self.note(&record[..equals], &record[equals + 1..]).ok_or_else(corrupt)?;
            rest = &rest[len..];
        }
        Ok(())
    }

    fn note(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            // It says that nothing is said.
            _ if value.is_empty() => {}
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link = Some(value.to_vec()),
            b"size" => self.size = Some(parsed(value)?),
            b"uid" => self.user = Some(parsed(value)?),
            b"gid" => self.group = Some(parsed(value)?),
            b"mtime" => self.modified = Some(time(value)?),
            _ => {
                if let Some(key) = key.strip_prefix(b"GNU.sparse.") {
                    if key == b"name" {
                        self.path = Some(value.to_vec());
                    }
                    return self.sparse.get_or_insert_default().note(key, value);
                }
            }
        }
        Some(())
    }
}

/// Seconds with a fraction, which may be negative.
fn time(value: &[u8]) -> Option<(i64, u32)> {
    let text = std::str::from_utf8(value).ok()?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanoseconds: u32 = digits.parse().ok()?;
    let seconds: i64 = seconds.parse().ok()?;
    match (text.starts_with('-'), nanoseconds) {
        (true, 1..) => Some((seconds.checked_sub(1)?, 1_000_000_000 - nanoseconds)),
        _ => Some((seconds, nanoseconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_in_bytes() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   644 \0"), Some(0o644));
        assert_eq!(number(b"\0\0\0\0"), Some(0));
        assert_eq!(number(b"00008\0"), None);
        assert_eq!(number(b"\x80\0\0\0\0\0\0\x02\0\0\0\0"), Some(2 << 32));
        assert_eq!(number(b"\xff\xff\xff\xff\xff\xff\xff\xfe"), Some(-2));
        assert_eq!(number(b"\x80\xff\xff\xff\xff\xff\xff\xff\xff"), None);
    }

    #[test]
    fn times_have_fractions_and_signs() {
        assert_eq!(time(b"12"), Some((12, 0)));
        assert_eq!(time(b"12.5"), Some((12, 500_000_000)));
        assert_eq!(time(b"-1.25"), Some((-2, 750_000_000)));
        assert_eq!(time(b"-0.25"), Some((-1, 750_000_000)));
        assert_eq!(time(b"12.123456789123"), Some((12, 123_456_789)));
        assert_eq!(time(b"x"), None);
    }

    #[test]
    fn extended_records_are_counted_in_bytes() {
        let read = |records: &[u8]| {
            let mut extended = Extended::default();
            extended.read_pax(records, 0).map(|()| extended)
        };
        let extended = read(b"14 path=a=b\nc\n11 size=12\n16 comment=none\n").unwrap();
        assert_eq!((extended.path.as_deref(), extended.size), (Some(&b"a=b\nc"[..]), Some(12)));
        for wrong in [&b"99 path=a\n"[..], b"x path=a\n", b"8 path=a\n", b"7 path\n", b"11 size=1x\n", b"3 a"] {
            assert!(read(wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
        }
    }
}
