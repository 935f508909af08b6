//! Which pixels are valid: one bit each, most significant first, in runs.

use super::{CodecFailure, bits::Input, broken, head::Head};

/// Ends the runs.
const END: i16 = i16::MIN;

/// One entry a pixel. A blob that is masked in part may leave its mask out: then it is that of the blob before.
pub(super) fn read(
    input: &mut Input<'_>,
    head: &Head,
    before: Option<Vec<bool>>,
) -> Result<Vec<bool>, CodecFailure> {
    let pixels = head.pixels().unwrap_or(0);
    let stored = input.count()?;
    let mut stored = Input(super::read(input, stored)?);
    let valid = if head.valid == 0 || head.valid == pixels {
        vec![head.valid > 0; pixels]
    } else if stored.0.is_empty() {
        before.ok_or_else(|| broken("masked pixels without a mask"))?
    } else {
        bits(&runs(&mut stored, pixels.div_ceil(8))?, pixels)
    };
    if valid.len() == pixels && valid.iter().filter(|valid| **valid).count() == head.valid {
        return Ok(valid);
    }
    Err(broken("a mask of other pixels than the header counts"))
}

fn runs(stored: &mut Input<'_>, length: usize) -> Result<Vec<u8>, CodecFailure> {
    let mut bytes = Vec::with_capacity(length);
    loop {
        let run = i16::from_le_bytes(stored.array()?);
        let count = usize::from(run.unsigned_abs());
        if run == END {
            break;
        }
        if count > length - bytes.len() {
            return Err(broken("a mask that is too long"));
        }
        if run > 0 {
            bytes.extend(super::read(stored, count)?);
        } else {
            let byte = stored.byte()?;
            bytes.extend(std::iter::repeat_n(byte, count));
        }
    }
    if bytes.len() == length { Ok(bytes) } else { Err(broken("a mask that is too short")) }
}

fn bits(bytes: &[u8], pixels: usize) -> Vec<bool> {
    let of_byte = |byte: &u8| {
        let byte = *byte;
        (0..8).map(move |bit| byte & (0x80 >> bit) != 0)
    };
    bytes.iter().flat_map(of_byte).take(pixels).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_copied_or_repeated() {
        // Two bytes as they are, one three times, the end.
        let stored = [2, 0, 0xf0, 0x0f, 0xfd, 0xff, 0xaa, 0x00, 0x80];
        assert_eq!(runs(&mut Input(&stored), 5).unwrap(), [0xf0, 0x0f, 0xaa, 0xaa, 0xaa]);
        assert!(runs(&mut Input(&stored), 4).is_err(), "too long");
        assert!(runs(&mut Input(&stored), 6).is_err(), "too short");
        assert_eq!(bits(&[0b1010_0000], 3), [true, false, true]);
    }
}
