//! The structures of an HDF5 file, found by their signatures; headers of version 1, which have none, by their form.
//!
//! Structures with a checksum end where a checksum is valid, so their sizes need not be known.

use std::ops::Range;

use super::{Field, Format, Layout, Structure};
use virtualize_hdf5::lookup3;

pub const FORMAT: Format = Format { layout, special: None, repair };

const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";

/// Longest structure whose checksum is looked for.
const MAX_CHECKED: usize = 2100;

/// Structures, whether they have a checksum, and the fields that follow the signature as widths; `o` is an address, `l` a
/// length, `w` the words of the rest.
const STRUCTURES: &[(&[u8; 4], bool, &str)] = &[
    (b"TREE", false, "112oow"),
    (b"SNOD", false, "112w"),
    (b"HEAP", false, "1111llo"),
    (b"GCOL", false, "1111lw"),
    (b"FRHP", true, "122141loloolllllllll2ll22o2"),
    (b"FHDB", false, "1ow"),
    (b"FHIB", true, "1ow"),
    (b"BTHD", true, "1142211o2l"),
    (b"BTIN", true, "11w"),
    (b"BTLF", true, "11w"),
    (b"FAHD", true, "1111lo"),
    (b"FADB", true, "11ow"),
    (b"EAHD", true, "11111111llllllo"),
    (b"EAIB", true, "11ow"),
    (b"EASB", true, "11ow"),
    (b"EADB", true, "11ow"),
    (b"SMTB", true, "w"),
    (b"SMLI", true, "w"),
    (b"OCHK", true, ""),
];

fn layout(bytes: &[u8]) -> Layout {
    let mut layout = Layout::default();
    // The widths of addresses and lengths.
    let mut sizes = (8, 8);
    if let Some((at, is_new)) = superblock(bytes) {
        let byte = |at: usize| usize::from(bytes.get(at).copied().unwrap_or(8)).clamp(1, 8);
        sizes = if is_new { (byte(at + 9), byte(at + 10)) } else { (byte(at + 13), byte(at + 14)) };
        let (end, fields) = match is_new {
            true => (at + 16 + 4 * sizes.0, "1111oooo"),
            false => (at + 24 + 6 * sizes.0 + 24, "1111111122144ooooooo44"),
        };
        layout.structures.push(Structure { kind: *b"\x89HDF", range: at..end.min(bytes.len()) });
        push_fields(&mut layout, fields, (at + 8, end), sizes);
    }
    let is_signature = |bytes: &[u8]| {
        bytes[0].is_ascii_uppercase()
            && (bytes == b"OHDR" || STRUCTURES.iter().any(|(signature, ..)| bytes == *signature))
    };
    let starts = (0..bytes.len().saturating_sub(4)).filter(|at| is_signature(&bytes[*at..*at + 4]));
    let starts: Vec<usize> = starts.chain([bytes.len()]).collect();
    for pair in starts.windows(2) {
        let (at, next) = (pair[0], pair[1].min(pair[0] + MAX_CHECKED));
        match STRUCTURES.iter().find(|(signature, ..)| bytes[at..].starts_with(*signature)) {
            Some((kind, has_checksum, fields)) => {
                let is_end = |end: &usize| {
                    let (content, stored) = bytes[at..*end].split_at(*end - at - 4);
                    stored == lookup3(content).to_le_bytes()
                };
                let end = if *has_checksum { (at + 10..=next).find(is_end) } else { None }.unwrap_or(next);
                layout.structures.push(Structure { kind: **kind, range: at..end });
                push_fields(&mut layout, fields, (at + 4, end), sizes);
                if *kind == b"FHDB" {
                    // The checksum of a block of a fractal heap is not at its end, and optional. Its place and the size of
                    // the block follow from the header of the heap; those of the files that libraries write are tried.
                    let ends = (8..13).map(|power| at + (1 << power)).filter(|end| *end <= bytes.len());
                    let blocks = ends
                        .flat_map(|end| (14..22).map(move |from| Block { range: at..end, at: at + from }));
                    layout.blocks.extend(
                        blocks.into_iter().find(|block| {
                            bytes[block.at..block.at + 4] == block.checksum(bytes).to_le_bytes()
                        }),
                    );
                }
                if *kind == b"OCHK" {
                    messages_2(bytes, at + 4..end.saturating_sub(4), false, &mut layout);
                }
            }
            // An object header of version 2.
            None => {
                let Some(chunk) = first_chunk(bytes, at) else { continue };
                layout.structures.push(Structure { kind: *b"OHDR", range: at..chunk.end + 4 });
                layout.fields.extend((at + 4..chunk.start).map(|at| Field { at, width: 1 }));
                messages_2(bytes, chunk, bytes[at + 5] & 4 != 0, &mut layout);
            }
        }
    }
    // Headers of version 1, if there is one at the address.
    for at in (0..bytes.len().saturating_sub(16)).step_by(8) {
        let end = at + 16 + number(bytes, at + 8, 4);
        let is_header = bytes[at..at + 2] == [1, 0]
            && (1..200).contains(&number(bytes, at + 2, 2))
            && number(bytes, at + 4, 4) <= 100
            && end <= bytes.len()
            && is_message_1(bytes, at + 16, end);
        if is_header {
            layout.structures.push(Structure { kind: *b"head", range: at..end });
            let fields = [(at, 1), (at + 2, 2), (at + 4, 4), (at + 8, 4)];
            layout.fields.extend(fields.map(|(at, width)| Field { at, width }));
            chunk_1(bytes, at + 16..end, &mut layout, 0);
        }
    }
    layout.fields.sort_by_key(|field| field.at);
    layout
}

fn push_fields(
    layout: &mut Layout,
    fields: &str,
    (mut at, end): (usize, usize),
    (offset, length): (usize, usize),
) {
    for field in fields.bytes() {
        let width = match field {
            b'o' => offset,
            b'l' => length,
            b'w' => return words(layout, at, end),
            digit => usize::from(digit - b'0'),
        };
        layout.fields.push(Field { at, width });
        at += width;
    }
}

/// Adds the fields that a sequence of numbers of unknown widths may have.
fn words(layout: &mut Layout, start: usize, end: usize) {
    let end = end.min(start + 256);
    layout.fields.extend((start..end).step_by(2).map(|at| Field { at, width: 1 }));
    layout.fields.extend((start..end).step_by(4).map(|at| Field { at, width: 4 }));
    layout.fields.extend((start..end).step_by(8).map(|at| Field { at, width: 8 }));
}

/// Returns the address of the superblock, and whether its version is 2 or later.
fn superblock(bytes: &[u8]) -> Option<(usize, bool)> {
    let at = [0, 512, 1024, 2048, 4096]
        .into_iter()
        .find(|at| bytes.get(*at..).is_some_and(|rest| rest.starts_with(SIGNATURE)))?;
    Some((at, bytes.get(at + 8).is_some_and(|version| *version >= 2)))
}

/// Returns the range of the messages in an object header of version 2.
fn first_chunk(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let flags = *bytes.get(at + 5)?;
    let optional = if flags & 0x20 != 0 { 16 } else { 0 } + if flags & 0x10 != 0 { 4 } else { 0 };
    let size = Field { at: at + 6 + optional, width: 1 << (flags & 3) };
    let start = size.at + size.width;
    let end = start.checked_add(usize::try_from(size.get(bytes, false)?).ok()?)?;
    (end.checked_add(4)? <= bytes.len()).then_some(start..end)
}

/// Repairs the checksums of the structures that have moved or changed.
fn repair(bytes: &mut [u8], layout: &Layout) {
    let size = bytes.len();
    if let Some((at, is_new)) = superblock(bytes) {
        let width = usize::from(bytes.get(at + if is_new { 9 } else { 13 }).copied().unwrap_or(8)).min(8);
        // The end of file, too, in files of even size: truncated files are refused otherwise.
        if size % 2 == 0 {
            let end_of_file = Field { at: at + if is_new { 12 } else { 24 } + 2 * width, width };
            end_of_file.set(bytes, (size - at) as u64, false);
        }
        if is_new {
            write_checksum(bytes, at, at + 16 + 4 * width);
        }
    }
    for block in layout.blocks.iter().filter(|block| block.range.end <= size) {
        let checksum = block.checksum(bytes);
        bytes[block.at..block.at + 4].copy_from_slice(&checksum.to_le_bytes());
    }
    for structure in &layout.structures {
        if STRUCTURES.iter().any(|(kind, has_checksum, _)| **kind == structure.kind && *has_checksum) {
            write_checksum(bytes, structure.range.start, structure.range.end);
        } else if structure.kind == *b"OHDR"
            && let Some(chunk) = first_chunk(bytes, structure.range.start)
        {
            write_checksum(bytes, structure.range.start, chunk.end + 4);
        }
    }
}

/// A block of a fractal heap with a checksum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    range: Range<usize>,
    at: usize,
}

impl Block {
    fn checksum(&self, bytes: &[u8]) -> u32 {
        let mut block = bytes[self.range.clone()].to_vec();
        let at = self.at - self.range.start;
        block[at..at + 4].fill(0);
        lookup3(&block)
    }
}

fn write_checksum(bytes: &mut [u8], start: usize, end: usize) {
    if let Some(structure) = bytes.get_mut(start..end)
        && let Some((content, stored)) = structure.split_last_chunk_mut::<4>()
    {
        *stored = lookup3(content).to_le_bytes();
    }
}

// The messages of object headers.

/// Returns a little-endian number; 0 past the end of the file.
fn number(bytes: &[u8], at: usize, width: usize) -> usize {
    (Field { at, width }).get(bytes, false).unwrap_or(0) as usize
}

/// The messages of a header of version 2.
fn messages_2(bytes: &[u8], chunk: Range<usize>, has_order: bool, layout: &mut Layout) {
    let head = if has_order { 6 } else { 4 };
    let mut at = chunk.start;
    while at + head <= chunk.end {
        let Some(size) = (Field { at: at + 1, width: 2 }).get(bytes, false) else { return };
        let end = at + head + size as usize;
        if end > chunk.end {
            return;
        }
        layout.fields.extend([(at, 1), (at + 1, 2), (at + 3, 1)].map(|(at, width)| Field { at, width }));
        message(bytes, u16::from(bytes[at]), at + head..end, layout);
        at = end;
    }
}

fn is_message_1(bytes: &[u8], at: usize, end: usize) -> bool {
    at + 8 <= end && number(bytes, at, 2) <= 0x18 && at + 8 + number(bytes, at + 2, 2) <= end
}

/// The messages of one block of a header of version 1, and of the blocks that continue it.
fn chunk_1(bytes: &[u8], chunk: Range<usize>, layout: &mut Layout, depth: usize) {
    let mut at = chunk.start;
    while is_message_1(bytes, at, chunk.end) {
        let (kind, end) = (number(bytes, at, 2), at + 8 + number(bytes, at + 2, 2));
        layout.fields.extend([(at, 2), (at + 2, 2), (at + 4, 1)].map(|(at, width)| Field { at, width }));
        message(bytes, kind as u16, at + 8..end, layout);
        let (start, length) = (number(bytes, at + 8, 8), number(bytes, at + 16, 8));
        if kind == 0x10 && depth < 4 && start < bytes.len() && length <= bytes.len() - start {
            chunk_1(bytes, start..start + length, layout, depth + 1);
        }
        at = end;
    }
}

/// The content of a message. Widths follow from its type where the numbers are not aligned.
fn message(bytes: &[u8], kind: u16, body: Range<usize>, layout: &mut Layout) {
    let at = body.start;
    let size = body.len() as u16;
    layout
        .structures
        .push(Structure { kind: [b'm', kind as u8, size as u8, (size >> 8) as u8], range: body.clone() });
    layout.fields.extend(body.clone().take(4).map(|at| Field { at, width: 1 }));
    let own: &[(usize, usize)] = match (kind, bytes.get(at).copied().unwrap_or(0)) {
        (1, 1) => &[(8, 8), (16, 8), (24, 8), (32, 8)],
        (1, 2) => &[(4, 8), (12, 8), (20, 8), (28, 8)],
        (3, _) => &[(4, 4), (8, 2), (10, 2), (12, 1), (13, 1), (14, 1), (15, 1), (16, 4)],
        (5, 3) => &[(2, 4), (6, 1), (6, 2), (6, 4), (6, 8)],
        (5, _) => &[(4, 4), (8, 1), (8, 2), (8, 4), (8, 8)],
        (8, 3) => &[(2, 2), (2, 8), (10, 8), (3, 8), (11, 4), (15, 4), (19, 4), (23, 4)],
        (8, 4 | 5) => {
            &[(2, 8), (10, 8), (4, 1), (5, 1), (6, 1), (7, 1), (8, 1), (9, 1), (10, 1), (8, 8), (9, 8)]
        }
        (0xb, 1) => &[(8, 2), (10, 2), (12, 2), (14, 2)],
        (0xb, _) => &[(2, 2), (4, 2), (6, 2), (8, 4), (12, 4)],
        (0xc, _) => &[(2, 2), (4, 2), (6, 2)],
        _ => &[],
    };
    let own = own.iter().filter(|(from, width)| from + width <= body.len());
    layout.fields.extend(own.map(|(from, width)| Field { at: at + from, width: *width }));
    words(layout, at + 4.min(body.len()), body.end);
}
