//! Networks as TOML that libFuzzer makes up.
#![no_main]

#[path = "../formats.rs"]
mod formats;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    formats::file(data);
});
