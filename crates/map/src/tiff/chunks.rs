//! Chunks of an image: its strips and tiles, split or completed where a regular grid requires it.

use bytes::Bytes;
use virtualize_bytes::ByteRange;
use virtualize_zarr::{ChunkManifest, Codec, ReferencesBuilder, SourceId, greatest_common_divisor};

use super::compression::{Encoding, STORED_24, ShortStrip, words};
use super::image::Geometry;
use super::sample::Storage;
use crate::{
    ChunkContent, ElementTransform, Error, InlineTask, LercLayout, Piece, PieceBytes, Result, StoredChange,
};

/// Bytes of a chunk into which uncompressed strips are split, at most and approximately.
const BLOCK: u64 = 8 << 20;

/// The chunks of one array.
pub(super) struct Chunks {
    /// Rows of a chunk.
    pub(super) rows: u64,
    /// Whether the last chunk along the rows is shorter than the others.
    pub(super) short_end: bool,
    /// Codecs of the array, without `transpose`.
    pub(super) codecs: Vec<Codec>,
    /// Chunks that are stored in the file.
    pub(super) manifest: ChunkManifest,
    /// Chunks that have to be made.
    pub(super) tasks: Vec<InlineTask>,
}

/// Plans the chunks of one image.
pub(super) struct ChunkMaker<'a> {
    /// Path of the array.
    pub(super) path: &'a str,
    /// Axes of the array.
    pub(super) geometry: &'a Geometry,
    /// Encoding of strips and tiles.
    pub(super) encoding: Encoding<'a>,
    /// Size of the file in bytes.
    pub(super) file_size: u64,
    /// Whether a shorter last strip may be a shorter chunk.
    pub(super) rectilinear: bool,
    /// Maximum number of decoded bytes that may be inlined.
    pub(super) inline_limit: u64,
    /// Number of planes that follow each other, each with the strips or tiles of the image; 1 for a single image.
    pub(super) copies: u64,
}

/// Rows of a strip or tile that are one chunk, or the first rows of one: row-major position, stored range, number of rows.
struct Segment {
    position: u64,
    range: ByteRange,
    rows: u64,
}

/// The strips and tiles of an image. Those that are chunks as they are stored, which can be millions, are columns.
#[derive(Default)]
struct Segments {
    /// Chunks as they are stored.
    whole: ReferencesBuilder,
    /// Segments that must be completed, or encoded with other codecs.
    made: Vec<Segment>,
}

impl Segments {
    /// Adds a segment: as it is stored, if it is whole or chunks may be short.
    fn add(&mut self, segment: Segment, rows: u64, may_be_short: bool) {
        if segment.rows == rows || may_be_short {
            self.whole.push(segment.position, segment.range.start, segment.range.length)
        } else {
            self.made.push(segment)
        }
    }
}

impl ChunkMaker<'_> {
    /// Plans all chunks.
    ///
    /// # Errors
    /// The image is malformed or truncated, its encoding has no codecs, or chunks that have to be made exceed the inline limit.
    pub(super) fn make(&self) -> Result<Chunks> {
        let (image, geometry) = (self.encoding.image, self.geometry);
        let needed = product(&geometry.counts())?.saturating_mul(self.copies);
        let found = image.offsets.len().min(image.byte_counts.len()) as u64;
        if found < needed {
            let what = if geometry.tiled { "tiles" } else { "strips" };
            return Err(Error::malformed(what, format!("the file lists {found}, the image needs {needed}")));
        }
        let strip = geometry.segment[1];
        let has_short_strip = !geometry.tiled && !geometry.height.is_multiple_of(strip);
        let declarable =
            self.encoding.is_declarable()? && !(has_short_strip && self.encoding.is_never_encoded()?);
        let mut rows = strip;
        // Chunks of large strips of plain rows are smaller, so that readers need not fetch them whole.
        if declarable && !geometry.tiled && self.encoding.has_plain_rows() {
            let row_bytes = self.row_bytes()?;
            let strip_bytes = strip.saturating_mul(row_bytes);
            if strip_bytes > 2 * BLOCK && strip_bytes <= self.file_size {
                rows = divisor(strip, BLOCK / row_bytes, strip >= geometry.height);
            }
            let planes = product(&geometry.counts()[..2])?.saturating_mul(self.copies);
            if !self.rectilinear
                && !geometry.height.is_multiple_of(rows)
                && self.check_inline(planes, rows).is_err()
            {
                rows = greatest_common_divisor(strip, geometry.height);
            }
        }
        let stored = self.encoding.codecs(&geometry.stored_shape(rows))?;
        let uneven = !geometry.tiled && !geometry.height.is_multiple_of(rows);
        let short_end = self.rectilinear && declarable && uneven;
        let segments = self.segments(rows, declarable, short_end)?;
        if !declarable {
            return self.inlined(rows, &segments.made, stored);
        }
        let tasks = self.complete(&segments.made, rows)?;
        let references = segments.whole.finish(SourceId(0));
        let manifest = ChunkManifest { references, ..ChunkManifest::default() };
        Ok(Chunks { rows, short_end, codecs: stored, manifest, tasks })
    }

    fn row_bytes(&self) -> Result<u64> {
        self.encoding
            .row_bytes(self.geometry.segment[2], self.geometry.bands_of_a_segment())
            .ok_or_else(too_large)
    }

    /// Sorts strips and tiles by what becomes of them, each kind in order of position. If the grid may end short, a shorter
    /// last strip is a chunk as it is stored.
    fn segments(&self, rows: u64, declarable: bool, short_end: bool) -> Result<Segments> {
        let [_, _, down, across] = self.geometry.counts();
        let chunks_down = self.geometry.height.div_ceil(rows);
        let may_be_short = short_end || self.encoding.short_strip()? == ShortStrip::AsItIs;
        let mut segments = Segments::default();
        let image = self.encoding.image;
        let count = product(&self.geometry.counts())?.saturating_mul(self.copies);
        let stored = (0..count).zip(&image.offsets).zip(&image.byte_counts);
        for ((index, &offset), &length) in stored {
            // Strips and tiles without an offset or byte count are missing.
            if offset == 0 || length == 0 {
                continue;
            }
            let (plane, y, x) = (index / across / down, index / across % down, index % across);
            let strip_rows = self.geometry.rows_of(y);
            let first = plane.saturating_mul(chunks_down).saturating_add(y * self.geometry.segment[1] / rows);
            let position = first.saturating_mul(across).saturating_add(x);
            let range = self.range_of(index, offset, length, strip_rows)?;
            if !declarable {
                segments.made.push(Segment { position, range, rows: strip_rows });
            } else if strip_rows != rows && self.encoding.has_plain_rows() {
                for segment in self.blocks(first, range.start, strip_rows, rows)? {
                    segments.add(segment, rows, may_be_short);
                }
            } else {
                segments.add(Segment { position, range, rows: strip_rows }, rows, may_be_short);
            }
        }
        Ok(segments)
    }

    /// Splits a strip of plain rows into chunks. `first` is the position of the first one.
    fn blocks(
        &self,
        first: u64,
        offset: u64,
        strip_rows: u64,
        rows: u64,
    ) -> Result<impl Iterator<Item = Segment>> {
        let row_bytes = self.row_bytes()?;
        Ok((0..strip_rows.div_ceil(rows)).map(move |block| {
            let here = (strip_rows - block * rows).min(rows);
            let start = offset + block * rows * row_bytes;
            Segment { position: first + block, range: ByteRange::new(start, here * row_bytes), rows: here }
        }))
    }

    /// Returns the stored range of a strip or tile; for plain rows, only what the samples need.
    fn range_of(&self, index: u64, offset: u64, length: u64, rows: u64) -> Result<ByteRange> {
        let what = if self.geometry.tiled { "tile" } else { "strip" };
        let mut length = length;
        if self.encoding.has_plain_rows() {
            let needed = product(&[self.row_bytes()?, rows, self.geometry.segment[0]])?;
            if length < needed {
                let problem = format!("{length} bytes at {offset:#x}, its samples need {needed}");
                return Err(Error::malformed(format!("{what} {index}"), problem));
            }
            length = needed;
        }
        match offset.checked_add(length) {
            Some(end) if end <= self.file_size => Ok(ByteRange::new(offset, length)),
            end => Err(Error::truncated(
                &format!("{what} {index} at {offset:#x}"),
                end.unwrap_or(u64::MAX),
                self.file_size,
            )),
        }
    }

    /// Returns the tasks that complete short strips to chunks of `rows` rows.
    fn complete(&self, short: &[Segment], rows: u64) -> Result<Vec<InlineTask>> {
        if short.is_empty() {
            return Ok(Vec::new());
        }
        if self.encoding.short_strip()? == ShortStrip::Unreadable {
            return Err(Error::short_strip(
                self.geometry.height % rows,
                rows,
                &words(self.encoding.image).join(", "),
                self.encoding.format,
            ));
        }
        self.check_inline(short.len() as u64, rows)?;
        let change = |segment: &Segment| match self.encoding.short_strip() {
            Ok(ShortStrip::Taller) => Some(StoredChange::AddRows {
                width: self.geometry.segment[2],
                rows: segment.rows,
                height: rows,
            }),
            Ok(ShortStrip::Lerc) => Some(StoredChange::Lerc {
                layout: LercLayout {
                    rows: segment.rows,
                    columns: self.geometry.segment[2],
                    samples: self.geometry.bands_of_a_segment(),
                    has_alpha: self.encoding.has_alpha(),
                },
                height: rows,
            }),
            _ => None,
        };
        match short.iter().map(|segment| Some(self.changed(segment, change(segment)?))).collect() {
            Some(tasks) => Ok(tasks),
            None => self.tasks(short, rows),
        }
    }

    /// Returns the task of a chunk that stays encoded.
    fn changed(&self, segment: &Segment, change: StoredChange) -> InlineTask {
        let content = ChunkContent::Stored { source: SourceId(0), range: segment.range, change };
        InlineTask { array: self.path.to_owned(), positions: vec![segment.position], content }
    }

    fn tasks(&self, segments: &[Segment], rows: u64) -> Result<Vec<InlineTask>> {
        let task = |segment: &Segment| {
            let shape = self.geometry.stored_shape(segment.rows);
            let mut codecs = self.encoding.codecs(&shape)?;
            let mut range = segment.range;
            if self.encoding.has_remote_tables() {
                let (whole, codec) =
                    self.encoding.old_jpeg(range, self.geometry.segment[2], segment.rows, self.file_size)?;
                range = whole;
                codecs.push(codec);
            }
            let transform = match self.encoding.sample.storage {
                Storage::Reversed24 if !self.encoding.own_codecs => {
                    ElementTransform::Integer { stored: STORED_24, big_endian: false }
                }
                _ => ElementTransform::None,
            };
            let piece = Piece::whole(SourceId(0), PieceBytes::At(range), codecs, shape, transform);
            let element = usize::try_from(self.element_size()).map_err(|_| too_large())?;
            let content = ChunkContent::Assemble {
                shape: self.geometry.stored_shape(rows),
                background: Bytes::from(vec![0; element]),
                pieces: vec![piece],
            };
            Ok(InlineTask { array: self.path.to_owned(), positions: vec![segment.position], content })
        };
        segments.iter().map(task).collect()
    }

    /// Plans to make all chunks, because no reader decodes them as they are stored.
    fn inlined(&self, rows: u64, all: &[Segment], mut stored: Vec<Codec>) -> Result<Chunks> {
        if !self.encoding.is_decodable()? {
            let is_whole = all.iter().all(|segment| segment.rows == rows);
            if stored.pop() == Some(Codec::BitOrder)
                && self.encoding.is_fax()
                && (is_whole || self.encoding.short_strip()? == ShortStrip::AsItIs)
            {
                // They stay compressed.
                self.check_inline(all.len() as u64, rows)?;
                let reversed = |segment| self.changed(segment, StoredChange::ReverseBits);
                let (tasks, manifest) = (all.iter().map(reversed).collect(), ChunkManifest::default());
                return Ok(Chunks { rows, short_end: false, codecs: stored, manifest, tasks });
            }
            let scheme = words(self.encoding.image).join(", ");
            return Err(Error::unsupported(scheme, "no reader of this Zarr format decodes it"));
        }
        self.check_inline(all.len() as u64, rows)?;
        let tasks = self.tasks(all, rows)?;
        let numbers = stored.into_iter().filter(|codec| matches!(codec, Codec::Bytes { .. }));
        let codecs = numbers.chain([Codec::Zlib { level: 6 }]).collect();
        Ok(Chunks { rows, short_end: false, codecs, manifest: ChunkManifest::default(), tasks })
    }

    /// Refuses to inline more than the limit.
    fn check_inline(&self, chunks: u64, rows: u64) -> Result<()> {
        let element = self.element_size();
        let bytes =
            product(&self.geometry.stored_shape(rows))?.saturating_mul(element).saturating_mul(chunks);
        let limit = self.inline_limit;
        if bytes <= limit {
            return Ok(());
        }
        if self.encoding.sample.complex_parts(self.encoding.endian).is_some()
            && !self.encoding.is_declarable()?
        {
            return Err(Error::complex_integers(bytes, limit));
        }
        Err(Error::inline_limit(
            "readers do not decode its chunks as they are stored",
            &format!("{bytes} bytes"),
            limit,
        ))
    }

    fn element_size(&self) -> u64 {
        self.encoding.sample.data_type.size().unwrap_or(1)
    }
}

fn product(factors: &[u64]) -> Result<u64> {
    factors.iter().try_fold(1_u64, |product, factor| product.checked_mul(*factor)).ok_or_else(too_large)
}

fn too_large() -> Error {
    Error::overflow("the image")
}

/// Returns the largest number of rows up to `most` that divides a strip, and the whole strip if all divisors are far smaller.
/// If no strip follows (`rest_allowed`) and no divisor is at least half of `most`, returns `most`, which leaves a remainder.
/// The number of divisions is proportional to the chunks of the strip.
fn divisor(strip: u64, most: u64, rest_allowed: bool) -> u64 {
    /// Largest ratio of `most` to the divisor.
    const MAX_RATIO: u64 = 64;
    const TRIES: usize = 1 << 16;
    let most = most.clamp(1, strip);
    let fewest = strip.div_ceil(most);
    let ratio = if rest_allowed { 2 } else { MAX_RATIO };
    let divides = |chunks: &u64| strip.is_multiple_of(*chunks);
    match (fewest..=fewest.saturating_mul(ratio).min(strip)).take(TRIES).find(divides) {
        Some(chunks) => strip / chunks,
        None if rest_allowed => most,
        None => strip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 97 and 131,071 are prime.
    #[test]
    fn blocks_divide_strips_or_leave_a_rest() {
        assert_eq!((divisor(100, 30, false), divisor(100, 30, true)), (25, 25));
        assert_eq!((divisor(97, 10, false), divisor(97, 10, true)), (1, 10));
        assert_eq!((divisor(131_071, 70_000, false), divisor(131_071, 70_000, true)), (131_071, 70_000));
        assert_eq!(
            (divisor(u64::MAX, 1, false), divisor(u64::MAX - 58, u64::MAX / 3, true)),
            (1, u64::MAX / 3)
        );
    }
}
