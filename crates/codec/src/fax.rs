//! Adds rows to CCITT Group 3 data of two dimensions (ITU-T T.4), so that readers which expect a full chunk decode a shorter
//! one: libtiff ends the last strip of a file with a return to control, which decoders of further rows refuse.

use std::ops::Range;

use crate::{CodecFailure, corrupt};

const NAME: &str = "CCITT Group 3";
/// Zero bits of an end of line, before its one bit.
const ZEROS: usize = 11;

/// Appends copies of the first row, which is coded without reference to another one, up to `height` rows. A return to
/// control at the end is removed. The first `rows` rows decode as before.
///
/// # Errors
/// Data that do not start with an end of line, or whose first row refers to another one.
pub fn with_rows(bytes: &[u8], rows: u64, height: u64) -> Result<Vec<u8>, CodecFailure> {
    let bits: Vec<bool> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect();
    let first = end_of_line(&bits, 0).filter(|line| line.start == 0);
    let first = first.filter(|line| bits.get(line.end) == Some(&true));
    let first =
        first.ok_or_else(|| corrupt(NAME, "no end of line and tag bit of one dimension at the start"))?;
    let end = end_of_rows(&bits);
    // The zeros of the last code may precede those of the end of line.
    let row_end =
        end_of_line(&bits, first.end).map_or(end, |next| next.end.saturating_sub(ZEROS + 1).min(end));
    let row = bits.get(first.end..row_end).filter(|row| row.len() > 1);
    let row = row.ok_or_else(|| corrupt(NAME, "no codes of the first row"))?;
    let mut taller: Vec<bool> = bits.iter().take(end).copied().collect();
    for _ in rows..height {
        taller.extend([false; ZEROS]);
        taller.push(true);
        taller.extend(row);
    }
    Ok(taller
        .chunks(8)
        .map(|bits| bits.iter().zip((0..8).rev()).fold(0, |byte, (bit, at)| byte | u8::from(*bit) << at))
        .collect())
}

/// Returns the bits of the first end of line at or after `from`, with the zeros before it that fill up a row.
fn end_of_line(bits: &[bool], from: usize) -> Option<Range<usize>> {
    let mut start = from;
    for (at, bit) in bits.iter().enumerate().skip(from) {
        match bit {
            true if at - start >= ZEROS => return Some(start..at + 1),
            true => start = at + 1,
            false => {}
        }
    }
    None
}

/// Returns the end of the last row: ends of line with nothing but their tag bits after them are not rows.
fn end_of_rows(bits: &[bool]) -> usize {
    let mut end = bits.len();
    let is_end = |one: usize| {
        let zeros = one.checked_sub(ZEROS).and_then(|start| bits.get(start..one));
        bits.get(one) == Some(&true) && zeros.is_some_and(|zeros| !zeros.contains(&true))
    };
    loop {
        let Some(one) = bits.iter().take(end).rposition(|bit| *bit) else { return 0 };
        // The last one bit is that of an end of line, or of a tag after it.
        let Some(line) = [Some(one), one.checked_sub(1)].into_iter().flatten().find(|one| is_end(*one))
        else {
            return end;
        };
        end = line - ZEROS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seven rows of 64 pixels by libtiff, T4Options 1.
    const ROWS: &str = "0019c341c268002f800ce1a2101800b1800ce1a04c0059850019c34098";

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn rows_replace_the_return_to_control() {
        let rows = bytes(ROWS);
        let taller = with_rows(&rows, 7, 8).unwrap();
        // An end of line, the tag of one dimension, and the codes of the first row.
        assert_eq!(taller, [&rows[..], &bytes("0019c341c268")].concat());
        const LINE: &str = "000000000001";
        let ends =
            [LINE.repeat(6), format!("{LINE}1").repeat(6), format!("{LINE}0").repeat(6), LINE.to_owned()];
        for end in ends {
            let bits: Vec<u8> = end.bytes().map(|bit| bit - b'0').collect();
            let end = bits
                .chunks(8)
                .map(|bits| bits.iter().zip((0..8).rev()).map(|(bit, at)| bit << at).sum::<u8>());
            let all: Vec<u8> = rows.iter().copied().chain(end).collect();
            assert_eq!(with_rows(&all, 7, 8).unwrap(), taller, "{bits:?}");
        }
        assert_eq!(with_rows(&rows, 7, 7).unwrap(), rows);
    }

    #[test]
    fn other_data_are_refused() {
        for other in ["", "00", "9c341c", "0013c341c268", "0018"] {
            assert!(with_rows(&bytes(other), 1, 2).is_err(), "{other}");
        }
    }
}
