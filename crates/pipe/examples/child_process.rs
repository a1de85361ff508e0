//! A pipe to a program and one back: `tr` knows nothing of this crate and gets plain descriptors.
//!
//! `cargo run -p millstream-pipe --example child_process [TEXT]`

use std::io::{self, Read, Write};
use std::process::Command;

use millstream_pipe::pipe;

fn main() -> io::Result<()> {
    let text = std::env::args().nth(1).unwrap_or_else(|| "grain".to_owned());
    let (childs_input, mut writer) = pipe()?;
    let (mut reader, childs_output) = pipe()?;
    let mut child = Command::new("tr")
        .args(["a-z", "A-Z"])
        .stdin(childs_input.into_fd()?)
        .stdout(childs_output.into_fd()?)
        .spawn()?;

    // From a thread of its own: a text longer than both pipes would stop the child, and then this program.
    let thread = std::thread::spawn(move || writer.write_all(text.as_bytes()));
    let mut answer = String::new();
    reader.read_to_string(&mut answer)?;
    thread.join().expect("the writer does not panic")?;
    let status = child.wait()?;
    println!("{answer} ({status})");
    Ok(())
}
