#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| virtualize_fuzz::images(data));
