//! The smallest program: one thread writes, another reads until the end of the stream.
//!
//! `cargo run -p millstream-pipe --example hello`

use std::io::{self, Read, Write};
use std::thread;

fn main() -> io::Result<()> {
    let (mut reader, mut writer) = millstream_pipe::pipe()?;
    let thread = thread::spawn(move || writer.write_all(b"hello from the other end\n"));

    // The writer is gone with its thread, which ends the stream.
    let mut text = String::new();
    reader.read_to_string(&mut text)?;
    thread.join().expect("the writer does not panic")?;
    print!("{text}");
    Ok(())
}
