//! The messages of object headers.

use std::ops::Range;

use super::words;
use crate::mutate::{Field, Layout, Structure};

/// The messages of a header of version 2.
pub fn version_2(bytes: &[u8], chunk: Range<usize>, has_order: bool, layout: &mut Layout) {
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

/// A header of version 1, if there is one at this address.
pub fn version_1(bytes: &[u8], at: usize, layout: &mut Layout) {
    let number = |at, width| (Field { at, width }).get(bytes, false).unwrap_or(0) as usize;
    if bytes[at..at + 2] != [1, 0] || !(1..200).contains(&number(at + 2, 2)) || number(at + 4, 4) > 100 {
        return;
    }
    let end = at + 16 + number(at + 8, 4);
    if end > bytes.len() || !is_message_1(bytes, at + 16, end) {
        return;
    }
    layout.structures.push(Structure { kind: *b"head", range: at..end });
    layout
        .fields
        .extend([(at, 1), (at + 2, 2), (at + 4, 4), (at + 8, 4)].map(|(at, width)| Field { at, width }));
    chunk_1(bytes, at + 16..end, layout, 0);
}

fn is_message_1(bytes: &[u8], at: usize, end: usize) -> bool {
    let number = |at, width| (Field { at, width }).get(bytes, false).unwrap_or(0) as usize;
    at + 8 <= end && number(at, 2) <= 0x18 && at + 8 + number(at + 2, 2) <= end
}

/// The messages of one block of a header of version 1, and of the blocks that continue it.
fn chunk_1(bytes: &[u8], chunk: Range<usize>, layout: &mut Layout, depth: usize) {
    let number = |at, width| (Field { at, width }).get(bytes, false).unwrap_or(0) as usize;
    let mut at = chunk.start;
    while is_message_1(bytes, at, chunk.end) {
        let (kind, end) = (number(at, 2), at + 8 + number(at + 2, 2));
        layout.fields.extend([(at, 2), (at + 2, 2), (at + 4, 1)].map(|(at, width)| Field { at, width }));
        message(bytes, kind as u16, at + 8..end, layout);
        let (start, length) = (number(at + 8, 8), number(at + 16, 8));
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
