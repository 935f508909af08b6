#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| virtualize_fuzz::gdal_metadata(data));
