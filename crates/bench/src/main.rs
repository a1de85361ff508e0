//! `millstream-bench`: the program that `millstream bench` becomes.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    millstream_bench::command::main()
}
