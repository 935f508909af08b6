use virtualize::zarr::{
    Array, ZarrFormat,
    readers::{Need, Verdict, readable_by},
};

/// Who decodes an array, for people: `zarr-python + imagecodecs; zarrs no (imagecodecs_lzw); …`.
pub(super) fn line(path: &str, array: &Array, format: ZarrFormat) -> String {
    let verdicts = readable_by(path, array, format).into_iter().map(|(reader, verdict)| match verdict {
        Verdict::Yes => reader.name().to_owned(),
        Verdict::Needs(needs) => format!("{reader} + {}", names(&needs).join(" + ")),
        Verdict::No(because) => format!("{reader} no ({because})"),
    });
    verdicts.collect::<Vec<_>>().join("; ")
}

fn names(needs: &[Need]) -> Vec<&'static str> {
    needs.iter().map(|need| need.name()).collect()
}
