//! Chunks that skipped filters, with our own codecs: whatever filters, masks and lengths, each chunk is decoded by the filters
//! that it went through. A filter mask has bit *n* set if filter *n* was skipped (HDF5 File Format Specification, IV.A.2.n).

use virtualize_hdf5::model::{Filter, Layout};
use virtualize_zarr::{Array, ChunkEntry, Codec, ZarrFormat};

use super::{chunked, dataset, file, filter, int};
use crate::hdf5::map_file;
use crate::{MapOptions, Mapped};

/// Decoded bytes of a chunk, of two elements.
const BYTES: u64 = 8;

fn map_own(filters: Vec<Filter>, masks: &[u32], sizes: &[u32]) -> Mapped {
    let mut data = dataset(int(4, true), &[2 * masks.len() as u64]);
    data.filters = filters;
    let mut layout = chunked(&[2], &[masks.len() as u64], None, sizes);
    layout.chunks.filter_masks = (0..).zip(masks.iter().copied()).filter(|(_, mask)| *mask != 0).collect();
    data.layout = Layout::Chunked(layout);
    let source = virtualize_zarr::Source { url: "file:///f.h5".to_owned(), ..Default::default() };
    let options = MapOptions { own_codecs: true, format: ZarrFormat::V3, ..MapOptions::default() };
    map_file(&file(vec![("v", data)]), source, &options)
}

/// Returns the number of the filter of a codec.
fn id(codec: &Codec) -> u16 {
    match codec {
        Codec::Own(inner) => id(inner),
        Codec::Shuffle { .. } => 2,
        Codec::Zlib { .. } => 1,
        Codec::Fletcher32 => 3,
        other => panic!("{other:?}"),
    }
}

/// Returns the filters that a chain undoes in a chunk of this stored length, the first of the pipeline first.
fn undone(codecs: &[Codec], length: u64) -> Vec<u16> {
    let (mut length, mut all) = (Some(length), Vec::new());
    for codec in codecs.iter().rev().filter(|codec| !matches!(codec, Codec::Bytes { .. })) {
        match codec {
            Codec::Own(inner) if matches!(**inner, Codec::Optional { .. }) => {
                let Codec::Optional { size, codecs } = &**inner else { panic!() };
                if length != Some(*size) {
                    all.extend(codecs.iter().rev().map(id));
                }
                length = Some(*size);
            }
            other => {
                let id = id(other);
                all.push(id);
                length = match id {
                    3 => length.map(|length| length - 4),
                    1 => None,
                    _ => length,
                };
            }
        }
    }
    all.reverse();
    all
}

fn has_optional(array: &Array) -> bool {
    let is_optional =
        |codec: &Codec| matches!(codec, Codec::Own(inner) if matches!(**inner, Codec::Optional { .. }));
    array.codecs.iter().any(is_optional)
}

/// Checks each chunk; returns whether the array has an optional codec, and the number of its chunks that are made.
fn check(ids: &[u16], masks: &[u32], sizes: &[u32]) -> (bool, usize) {
    let parameters = |id: u16| if id == 2 { vec![4] } else { vec![6; usize::from(id == 1)] };
    let mapped = map_own(ids.iter().map(|id| filter(*id, &parameters(*id))).collect(), masks, sizes);
    let array = mapped.hierarchy.array("v").unwrap_or_else(|| panic!("{:?}", mapped.report.diagnostics));
    for (at, mask) in (0..).zip(masks) {
        let kept = ids.iter().enumerate().filter(|(n, _)| mask >> n & 1 == 0);
        let expected: Vec<u16> = kept.map(|(_, id)| *id).collect();
        let task = mapped.tasks.iter().find(|task| task.positions.contains(&at));
        let found = match (task, array.chunks.get(at)) {
            (Some(task), _) => task.content.pieces()[0].codecs.iter().map(id).collect(),
            (None, Some(ChunkEntry::Reference(chunk))) => undone(&array.codecs, chunk.length),
            other => panic!("{other:?}"),
        };
        assert_eq!(found, expected, "{ids:?} {masks:?} {sizes:?}, chunk {at}");
    }
    (has_optional(array), mapped.tasks.iter().map(|task| task.positions.len()).sum())
}

#[test]
fn optional_codecs_know_skipped_chunks_by_their_length() {
    for (ids, masks, sizes, expected) in [
        // Shuffle, then Deflate, which would lengthen the second chunk.
        (&[2, 1][..], &[0, 0b10, 0][..], &[5, 8, 5][..], (true, 0)),
        (&[2, 1], &[0, 0b11], &[5, 8], (true, 0)),
        (&[2, 1, 3], &[0, 0b10], &[9, 12], (true, 0)),
        (&[2, 1, 3], &[0, 0b110], &[9, 8], (true, 0)),
        (&[2, 1, 3], &[0b001, 0b011], &[9, 12], (true, 0)),
        (&[1, 3], &[0, 0b01], &[9, 12], (true, 0)),
        // A compressed chunk as long as a decoded one, and a skipped one of another length.
        (&[2, 1], &[0, 0, 0b10, 0b10], &[8, 5, 8, 8], (true, 1)),
        (&[2, 1], &[0, 0b10, 0b10], &[5, 8, 9], (true, 1)),
        // Three masks, of which one is neither.
        (&[2, 1, 3], &[0, 0b110, 0b110, 0b010], &[9, 8, 8, 12], (true, 1)),
        // Filters that some skipped are not next to each other.
        (&[2, 1, 3], &[0, 0b101], &[9, 9], (false, 1)),
        // A length after Deflate depends on content.
        (&[1, 2], &[0, 0b10], &[8, 8], (false, 1)),
        // All chunks alike.
        (&[2, 1], &[0b10, 0b10], &[8, 8], (false, 0)),
    ] {
        assert_eq!(check(ids, masks, sizes), expected, "{ids:?} {masks:?} {sizes:?}");
    }
}

#[test]
fn random_masks() {
    let random = &mut fastrand::Rng::with_seed(1);
    for _ in 0..500 {
        let mut ids = [1, 2, 3];
        random.shuffle(&mut ids);
        let ids = &ids[..random.usize(1..4)];
        let masks: Vec<u32> = (0..3).map(|_| random.u32(0..1 << ids.len()) & random.u32(..)).collect();
        let length = |mask: &u32| {
            let is_applied =
                |id: u16| ids.iter().zip(0..).any(|(other, n)| *other == id && mask >> n & 1 == 0);
            let bytes = if is_applied(1) { random.u32(5..10) } else { u32::try_from(BYTES).unwrap() };
            bytes + if is_applied(3) { 4 } else { 0 }
        };
        let sizes: Vec<u32> = masks.iter().map(length).collect();
        check(ids, &masks, &sizes);
    }
}
