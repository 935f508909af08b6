#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use virtualize_fuzz::{differential, mutate};

fuzz_target!(|data: &[u8]| differential::tiff(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::mutate(data, size, max_size, seed, &mutate::tiff::FORMAT)
});
