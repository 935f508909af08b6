//! Filters that only some chunks went through. The library stores a chunk unchanged where an optional filter fails, as
//! compressors do that would lengthen it, and partial chunks at the edges if the layout says so. The codec
//! `virtualize.optional` knows such chunks by their length.

use virtualize_bytes::ByteRange;
use virtualize_zarr::Codec;

use super::chunk_table::entries;
use super::chunked::Chunks;

/// Codecs for all chunks of an array, and those that they do not decode as they are stored.
pub(super) struct OptionalCodecs {
    pub(super) codecs: Vec<Codec>,
    /// Positions, ranges and filter masks of chunks whose length or filters contradict the codecs.
    pub(super) exceptions: Vec<(u64, ByteRange, u32)>,
}

impl Chunks<'_> {
    /// Returns codecs that tell chunks apart by their length; `None` where filters that some chunks skipped are not next to
    /// each other, or where a length depends on content.
    pub(super) fn optional_codecs(&self) -> Option<OptionalCodecs> {
        let table = &self.chunked.chunks;
        let relevant = self.pipeline.relevant();
        let masks = || entries(table).map(|(position, _)| self.mask(position, table) & relevant);
        let (base, most) = masks().fold((relevant, 0), |(base, most), mask| (base & mask, most | mask));
        let (codecs, skipped_length) = self.pipeline.optional(base, most & !base)?;
        let chunks = entries(table).map(|(position, range)| (position, range, self.mask(position, table)));
        let exceptions = chunks.filter(|(_, range, mask)| {
            let mask = mask & relevant;
            let is_expected = if mask == most { mask } else { base };
            mask != is_expected || (mask == most) != (range.length == skipped_length)
        });
        Some(OptionalCodecs { codecs, exceptions: exceptions.collect() })
    }
}
