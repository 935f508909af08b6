//! Filters that only some chunks went through. The library stores a chunk unchanged where an optional filter fails, as
//! compressors do that would lengthen it, and partial chunks at the edges if the layout says so. The codec
//! `virtualize.optional` knows such chunks by their length.

use virtualize_zarr::Codec;

use super::chunk_table::entries;
use super::chunked::Chunks;

impl Chunks<'_> {
    /// Returns the codecs of all chunks, where chunks went through two sets of filters at most and their lengths say which.
    pub(super) fn codecs_of_all(&self) -> Option<Vec<Codec>> {
        let table = &self.chunked.chunks;
        let relevant = self.pipeline.relevant();
        let masks = || entries(table).map(|(position, _)| self.mask(position, table) & relevant);
        let (base, most) = masks().fold((relevant, 0), |(base, most), mask| (base & mask, most | mask));
        let (codecs, skipped_length) = self.pipeline.optional(base, most & !base)?;
        let is_known = |(position, range): (u64, virtualize_bytes::ByteRange)| {
            let mask = self.mask(position, table) & relevant;
            (mask == base || mask == most) && (mask == most) == (range.length == skipped_length)
        };
        entries(table).all(is_known).then_some(codecs)
    }
}
