use virtualize::zarr::{
    Array, ZarrFormat,
    readers::{ChunkFacts, Compatibility, Need, compatibility},
};

/// Returns which readers decode an array, a line each: `zarr-python with imagecodecs`, `zarrs: no (imagecodecs_lzw)`.
pub(super) fn lines(path: &str, array: &Array, format: ZarrFormat) -> Vec<String> {
    let all = compatibility(path, array, ChunkFacts::of(array), format).into_iter().map(|(reader, found)| {
        match found {
            Compatibility::Yes => format!("{reader}: yes"),
            Compatibility::Needs(needs) => format!("{reader}: with {}", names(&needs).join(" and ")),
            Compatibility::No(because) => format!("{reader}: no ({because})"),
        }
    });
    all.collect()
}

fn names(needs: &[Need]) -> Vec<&'static str> {
    needs.iter().map(|need| need.name()).collect()
}
