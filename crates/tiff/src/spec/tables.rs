//! The tables of strips or tiles: StripOffsets, StripByteCounts, TileOffsets and TileByteCounts (TIFF 6.0, sections 3
//! and 15).

use virtualize_bytes::ByteRange;

use super::{byte_counts, fields::Fields, tag};
use crate::{
    Error, Structure,
    model::{Cut, Image},
};

/// Number of offsets that a table may lack.
const MAX_MISSING: usize = 100_000;

/// Moves the tables from `fields` to `image`, which has `pieces` strips or tiles, in a file of `size` bytes.
pub(crate) fn fill(
    image: &mut Image,
    fields: &mut Fields,
    pieces: usize,
    size: u64,
    warnings: &mut Vec<Error>,
) -> Result<(), Error> {
    let tags = Tags::of(image.cut);
    image.offsets = offsets(fields, tags, pieces, warnings)?;
    let stored = take(fields, tags.byte_counts)?;
    match stored.len() {
        0 => check_absent(image, fields, tags.byte_counts)?,
        found => warn_if_short(fields, tags.byte_counts, found, pieces, warnings),
    }
    check_start(image, &stored, fields)?;
    (image.byte_counts, image.derived_byte_counts) = byte_counts::resolve(image, stored, size);
    Ok(())
}

/// Tags of both tables, the standard one first: some writers store the tables of tiles under the tags of strips.
#[derive(Clone, Copy)]
struct Tags {
    offsets: [u16; 2],
    byte_counts: [u16; 2],
}

impl Tags {
    fn of(cut: Cut) -> Self {
        let strips = Self {
            offsets: [tag::STRIP_OFFSETS, tag::TILE_OFFSETS],
            byte_counts: [tag::STRIP_BYTE_COUNTS, tag::TILE_BYTE_COUNTS],
        };
        match cut {
            Cut::Strips { .. } => strips,
            Cut::Tiles { .. } => {
                let ([a, b], [c, d]) = (strips.offsets, strips.byte_counts);
                Self { offsets: [b, a], byte_counts: [d, c] }
            }
        }
    }
}

/// Returns the table under either tag. libtiff reads the last one of two, tifffile that of the usual tag.
fn take(fields: &mut Fields, [usual, other]: [u16; 2]) -> Result<Vec<u64>, Error> {
    let (table, second) = (fields.take_unsigned(usual)?, fields.take_unsigned(other)?);
    match (table.is_empty(), second.is_empty()) {
        (true, _) => Ok(second),
        (false, true) => Ok(table),
        (false, false) if table == second => Ok(table),
        _ => Err(fields.malformed(other, format!("contradicts {}", tag::name(usual)))),
    }
}

/// Returns one offset per strip or tile. Like other readers, treats those that the table lacks as 0: missing.
fn offsets(
    fields: &mut Fields,
    tags: Tags,
    pieces: usize,
    warnings: &mut Vec<Error>,
) -> Result<Vec<u64>, Error> {
    let [tag, _] = tags.offsets;
    let mut offsets = take(fields, tags.offsets)?;
    if offsets.is_empty() {
        return Err(fields.missing(tag));
    }
    let stored = offsets.len();
    if pieces.saturating_sub(stored) > MAX_MISSING {
        return Err(fields.malformed(tag, format!("{stored} values, expected {pieces}")));
    }
    warn_if_short(fields, tags.offsets, stored, pieces, warnings);
    offsets.resize(pieces, 0);
    Ok(offsets)
}

fn warn_if_short(
    fields: &Fields,
    [tag, _]: [u16; 2],
    stored: usize,
    pieces: usize,
    warnings: &mut Vec<Error>,
) {
    if stored < pieces {
        let structure = Structure::Tag(tag);
        warnings.push(Error::ShortTable { structure, offset: fields.offset, stored, pieces });
    }
}

/// Rejects images without byte counts if a plane has several strips or tiles, as libtiff does.
fn check_absent(image: &Image, fields: &Fields, [tag, _]: [u16; 2]) -> Result<(), Error> {
    let planes = if image.planar { usize::from(image.samples_per_pixel) } else { 1 };
    if image.offsets.len() > planes { Err(fields.missing(tag)) } else { Ok(()) }
}

/// Rejects an offset of 0, or one that the table lacks, with a byte count other than 0, or without a table of byte counts:
/// GDAL would read samples in the file header.
fn check_start(image: &Image, stored: &[u64], fields: &Fields) -> Result<(), Error> {
    let is_read = |index: usize| stored.is_empty() || stored.get(index).is_some_and(|count| *count != 0);
    match image.offsets.iter().enumerate().find(|(index, offset)| **offset == 0 && is_read(*index)) {
        Some((index, _)) => {
            let [tag, _] = Tags::of(image.cut).offsets;
            let size = stored.get(index).map_or("unknown size".to_owned(), |count| format!("{count} bytes"));
            Err(fields.malformed(tag, format!("0 for piece {index} of {size}, expected a positive offset")))
        }
        None => Ok(()),
    }
}

/// Rejects strips and tiles beyond the end of the file.
pub(crate) fn check_end(image: &Image, size: u64, offset: u64) -> Result<(), Error> {
    let mut ranges = image.offsets.iter().zip(&image.byte_counts);
    let past = |&(&start, &length): &(&u64, &u64)| {
        start != 0 && length != 0 && start.checked_add(length).is_none_or(|end| end > size)
    };
    match ranges.find(past) {
        Some((&start, &length)) => {
            Err(Error::truncated("strip or tile", offset, ByteRange::new(start, length), size))
        }
        None => Ok(()),
    }
}
