//! A FIFO, which any program can open: here `sort` writes into it, and this program reads.
//!
//! `cargo run -p millstream-pipe --example fifo`

use std::io::{self, BufRead, BufReader};
use std::process::Command;

use millstream_pipe::Fifo;

fn main() -> io::Result<()> {
    let path = std::env::temp_dir().join(format!("millstream-example-{}", std::process::id()));
    Fifo::create(&path, 0o600)?;
    let outcome = read_sorted(&path);
    // Ends that are open outlive the name.
    std::fs::remove_file(&path)?;
    outcome
}

fn read_sorted(path: &std::path::Path) -> io::Result<()> {
    let script = "printf '%s\\n' wheat oats rye | sort > \"$0\"";
    let mut child = Command::new("sh").args(["-c", script]).arg(path).spawn()?;
    // Waits until the writer has opened the FIFO too.
    for (number, line) in BufReader::new(Fifo::reader(path)?).lines().enumerate() {
        println!("{}: {}", number + 1, line?);
    }
    child.wait()?;
    Ok(())
}
