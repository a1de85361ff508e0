//! A ring whose header, and what is done to it, libFuzzer makes up.
#![no_main]

#[path = "../abuse.rs"]
mod abuse;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    abuse::abuse(data);
});
