//! What is done with bytes that somebody made up: they are decoded, whole and in pieces, and packed and unpacked.

use millstream_net::{Network, Options, check, run};
use millstream_transforms::ALL;

/// What is looked at of the output: a few bytes may stand for gigabytes.
const MOST: usize = 1 << 20;

/// Bytes for a pair of stages, of which the second undoes the first. The first byte says how the others are cut.
#[allow(dead_code, reason = "not every target is about a format")]
pub(crate) fn format(data: &[u8], pack: &str, unpack: &str) {
    let Some((&cut, data)) = data.split_first() else { return };
    let cut = usize::from(cut) + 1;
    let whole = run(&format!("{unpack} | head -c {MOST}"), data);
    let pieces = run(&format!("short {cut} | {unpack} | head -c {MOST}"), data);
    let is_cut_off = |outcome: &Result<Vec<u8>, String>| outcome.as_ref().is_ok_and(|bytes| bytes.len() == MOST);
    // Where the rest is not looked at, an error in it may be found or not.
    if !is_cut_off(&whole) && !is_cut_off(&pieces) {
        match (whole, pieces) {
            (Ok(whole), Ok(pieces)) => assert!(whole == pieces, "in pieces of {cut} something else comes out"),
            (Err(_), Err(_)) => {}
            (whole, pieces) => panic!("in pieces of {cut}: {:?}, whole: {:?}", pieces.err(), whole.err()),
        }
    }
    let packed = run(&format!("short {cut} | {pack}"), data).unwrap_or_else(|error| panic!("{error}"));
    let unpacked = run(unpack, &packed).unwrap_or_else(|error| panic!("{error}"));
    assert!(unpacked == data, "other bytes come back");
}

fn run(line: &str, input: &[u8]) -> Result<Vec<u8>, String> {
    let network = Network::from_line(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let options = Options { memory: 32 << 12, threads: 1, timeout: None };
    run::in_memory(&network, ALL, input, &options).map_err(|failure| failure.to_string())
}

/// Files in the age format, as any other format, and good ones of which one byte is changed: no change is missed.
#[allow(dead_code, reason = "not every target is about age")]
pub(crate) fn age(data: &[u8]) {
    let keys = scratch("keys", b"AGE-SECRET-KEY-1PWHTX27V0G4SE8WEUYMMQRU35P2DM8NHNF4Q4W22XXK9RHN3NDAQKNZH0A");
    let (pack, unpack) = (format!("age -i {keys}"), format!("unage -i {keys}"));
    format(data, &pack, &unpack);
    let Some((&[high, low, change], text)) = data.split_first_chunk() else { return };
    let mut packed = run(&pack, text).unwrap_or_else(|error| panic!("{error}"));
    let place = usize::from(u16::from_be_bytes([high, low])) % packed.len();
    packed[place] ^= change;
    let unpacked = run(&unpack, &packed);
    assert_eq!(unpacked.is_ok(), change == 0, "byte {place} of {} was changed by {change}", packed.len());
}

/// A WebAssembly module, which may do what it likes within its bounds, and does it twice in the same way.
#[allow(dead_code, reason = "most targets are about formats")]
pub(crate) fn module(data: &[u8]) {
    let file = scratch("module", data);
    let line = format!("wasm fuel=20000 memory=1M {file} | head -c {MOST}");
    let input: Vec<u8> = b"6162 63\nText 7a\n".repeat(500);
    assert!(run(&line, &input) == run(&line, &input), "the same module does something else the second time");
}

/// A file that this thread writes again and again.
fn scratch(name: &str, content: &[u8]) -> String {
    let thread = std::thread::current().id();
    let path = std::env::temp_dir().join(format!("millstream-fuzz-{}-{thread:?}-{name}", std::process::id()));
    let path = path.display().to_string().replace(['(', ')'], "");
    std::fs::write(&path, content).unwrap_or_else(|error| panic!("{path}: {error}"));
    path
}

/// A text for the grammar of a line: what can be read is printed so that it reads the same, in both notations.
#[allow(dead_code, reason = "most targets are about formats")]
pub(crate) fn line(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(network) = Network::from_line(text) else { return };
    let printed = network.to_string();
    assert_eq!(Network::from_line(&printed).as_ref(), Ok(&network), "{printed:?}");
    prints_back(&network);
}

/// The same for a file: networks that are no lines, and tests.
#[allow(dead_code, reason = "most targets are about formats")]
pub(crate) fn file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(network) = Network::from_toml(text) else { return };
    prints_back(&network);
}

fn prints_back(network: &Network) {
    let printed = network.to_toml();
    assert_eq!(Network::from_toml(&printed).as_ref(), Ok(network), "{printed}");
    // Whatever it finds, it finds it without a panic.
    let _ = check::check(network, ALL);
}
