use virtualize::zarr::{
    Array, ZarrFormat,
    readers::{ChunkFacts, Compatibility, Need, compatibility},
};

/// Returns the readers that decode an array, on one line: `zarr-python + imagecodecs; zarrs no (imagecodecs_lzw); …`.
pub(super) fn line(path: &str, array: &Array, format: ZarrFormat) -> String {
    let all = compatibility(path, array, ChunkFacts::of(array), format).into_iter().map(|(reader, found)| {
        match found {
            Compatibility::Yes => reader.name().to_owned(),
            Compatibility::Needs(needs) => format!("{reader} + {}", names(&needs).join(" + ")),
            Compatibility::No(because) => format!("{reader} no ({because})"),
        }
    });
    all.collect::<Vec<_>>().join("; ")
}

fn names(needs: &[Need]) -> Vec<&'static str> {
    needs.iter().map(|need| need.name()).collect()
}
