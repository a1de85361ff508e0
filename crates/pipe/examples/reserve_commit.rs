//! Records made and looked at in place: the writer reserves room and commits what it has filled, the reader peeks at
//! what waits and consumes whole records. (`in_place` measures what that saves.)
//!
//! `cargo run -p millstream-pipe --example reserve_commit [RECORDS]`

use std::io;
use std::thread;

use millstream_pipe::{Reader, Writer, pipe};

/// Bytes of a record: two numbers.
const RECORD: usize = 16;
/// Records that are made at once.
const BATCH: usize = 64;

fn main() -> io::Result<()> {
    let records =
        std::env::args().nth(1).map_or(Ok(100_000), |count| count.parse::<u64>()).map_err(io::Error::other)?;
    let (mut reader, mut writer) = pipe()?;
    let thread = thread::spawn(move || make(&mut writer, records));
    let (count, sum) = sum(&mut reader)?;
    thread.join().expect("the writer does not panic")?;
    println!("{count} records, sum {sum}");
    Ok(())
}

/// Record number n holds n and its square.
fn make(writer: &mut Writer, records: u64) -> io::Result<()> {
    let mut next = 0;
    while next < records {
        let batch = (records - next).min(BATCH as u64);
        let mut room = writer.reserve(batch as usize * RECORD)?;
        // A record may lie across the end of the first segment: the room is filled byte by byte, in order.
        let bytes = (next..next + batch).flat_map(record);
        let places = room.segments_mut().into_iter().flatten();
        let filled = places.zip(bytes).map(|(place, byte)| *place = byte).count();
        // Less room than was asked for holds fewer records.
        let whole = filled / RECORD;
        next += whole as u64;
        room.commit(whole * RECORD)?;
    }
    Ok(())
}

fn record(number: u64) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..8].copy_from_slice(&number.to_le_bytes());
    record[8..].copy_from_slice(&(number * number).to_le_bytes());
    record
}

/// How many records came, and the sum of their squares.
fn sum(reader: &mut Reader) -> io::Result<(u64, u128)> {
    let (mut count, mut sum, mut part) = (0, 0, Vec::with_capacity(RECORD));
    loop {
        let bytes = reader.borrow()?;
        if bytes.is_empty() {
            return Ok((count, sum));
        }
        for byte in bytes.segments().into_iter().flatten() {
            part.push(*byte);
            if part.len() == RECORD {
                sum += u128::from(u64::from_le_bytes(part[8..].try_into().expect("eight bytes")));
                count += 1;
                part.clear();
            }
        }
        let all = bytes.len();
        bytes.consume(all);
    }
}
