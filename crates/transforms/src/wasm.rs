//! Transforms that come as WebAssembly modules. `docs/wasm.md` has what a module exports.

mod sandbox;
mod stage;

use std::fs::File;
use std::io::Read;

use millstream_net::{Data, Entry, Size, Stage};

use crate::arguments;
use sandbox::{Limits, Sandbox};
use stage::{InPlaceModule, RewritingModule};

/// `wasm FILE`
pub(crate) static WASM: Entry = Entry {
    name: "wasm",
    usage: "wasm [fuel=N] [memory=SIZE] FILE [ARG...]",
    summary: "what a WebAssembly module does, which sees nothing but its arguments and the stream",
    takes: Data::Any,
    gives: Data::Any,
    build: |words| {
        let (limits, words) = limits(words)?;
        let [file, arguments @ ..] = words else { return Err("FILE is missing".into()) };
        build(file, arguments, limits).map_err(|what| format!("'{file}': {what}"))
    },
};

/// The most bytes of a file with a module.
const FILE_MAX: u64 = 16 << 20;

/// The options before the file, and the words behind them.
fn limits(mut words: &[String]) -> Result<(Limits, &[String]), String> {
    let mut limits = Limits { fuel: 1_000_000_000, memory: 16 << 20 };
    while let [option, rest @ ..] = words {
        if let Some(fuel) = option.strip_prefix("fuel=") {
            limits.fuel = arguments::number("fuel", fuel, 1, u64::MAX)?;
        } else if let Some(memory) = option.strip_prefix("memory=") {
            // At most 4 GiB, where a `usize` is larger.
            limits.memory = arguments::size("memory", memory, 64 << 10, 4 << 30)? as usize;
        } else {
            break;
        }
        words = rest;
    }
    Ok((limits, words))
}

fn build(file: &str, arguments: &[String], limits: Limits) -> Result<Stage, String> {
    let mut sandbox = Sandbox::new(&content(file)?, limits)?;
    sandbox.start(arguments)?;
    let stage = match (sandbox.exports("millstream_apply"), sandbox.exports("millstream_step")) {
        (true, false) => Stage::rewrite(Size::Same, InPlaceModule::new(sandbox)?),
        (false, true) => Stage::rewrite(Size::Unknown, RewritingModule::new(sandbox)?),
        (true, true) => {
            return Err("the module exports both millstream_apply and millstream_step; one is needed".into());
        }
        (false, false) => {
            return Err("the module exports neither millstream_apply nor millstream_step; one of them is needed".into());
        }
    };
    Ok(stage.keeping(limits.memory..=limits.memory))
}

/// Reads a regular file only. A pipe or a device might never end, and would be empty when the network is parsed again.
fn content(path: &str) -> Result<Vec<u8>, String> {
    let unreadable = |error| format!("cannot be read: {error}");
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err("cannot be read: it is no regular file".into());
    }
    let mut content = Vec::new();
    File::open(path).and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut content)).map_err(unreadable)?;
    if content.len() as u64 > FILE_MAX {
        return Err(format!("has more than {FILE_MAX} bytes, too many for a module"));
    }
    Ok(content)
}
