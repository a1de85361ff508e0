//! Streams of lz4 that libFuzzer makes up.
#![no_main]

#[path = "../formats.rs"]
mod formats;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    formats::format(data, "lz4", "unlz4");
});
