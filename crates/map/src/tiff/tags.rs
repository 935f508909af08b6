//! Tags that could not be read, and tags that other programs interpret.

use virtualize_remedy::Code;
use virtualize_tiff::model::{Ifd, Image, SampleFormat, Value};

use crate::{Diagnostic, Error, Result, Severity};

/// Tags that determine the layout of the samples. A default in place of an unreadable one would be a guess.
const STRUCTURE: [u16; 18] =
    [256, 257, 258, 259, 266, 273, 277, 278, 279, 284, 317, 322, 323, 324, 325, 339, 347, 32997];

/// Tags from which GDAL takes nodata, packing, units and positions.
const INTERPRETED_BY_GDAL: [u16; 8] = [33550, 33922, 34264, 34735, 34736, 34737, 42112, 42113];

/// A tag that can change what some programs show.
struct Interpreted {
    tag: u16,
    name: &'static str,
    /// Values at which it changes nothing.
    inert: &'static [u64],
    effect: &'static str,
    /// A warning for tags that GDAL or tifffile interpret, a note for those of other programs.
    severity: Severity,
}

const ROTATES: &str = "programs for photographs rotate or mirror the image";
const RESPONSE: &str = "programs for prints convert the values to densities";
const CURVE: &str = "programs for photographs convert the values to other intensities";
const RAW: &str = "raw converters show other values, or fewer pixels";
const ORDER: &str = "raw converters show the pixels in another order";
const PLACES: &str = "it positions the image for the programs that wrote it";

/// The tags of [semantics-tiff.md](../../../../docs/semantics-tiff.md) that are reported.
const INTERPRETED: [Interpreted; 29] = [
    note(274, "Orientation", &[1], ROTATES),
    note(290, "GrayResponseUnit", &[], RESPONSE),
    note(291, "GrayResponseCurve", &[], RESPONSE),
    note(301, "TransferFunction", &[], CURVE),
    note(433, "Decode", &[], CURVE),
    note(559, "StripRowCounts", &[], "TIFF/FX readers divide the image into strips of other heights"),
    warning(32995, "Matteing", &[0], "GDAL takes the last band for alpha, which masks pixels"),
    warning(32996, "DataType", &[], "GDAL takes it for the type of the samples, in place of SampleFormat"),
    note(32956, "AffineTransformMat", &[], PLACES),
    warning(33445, "MDFileTag", &[], "tifffile shows squares of the values, times MDScalePixel"),
    note(33918, "IntergraphPacketData", &[], PLACES),
    note(33920, "IntergraphMatrix", &[], PLACES),
    note(34019, "RasterPadding", &[0], "TIFF/IT readers skip padding after each row"),
    note(34263, "JPLCartoIFD", &[], PLACES),
    warning(34362, "MM_Stamp", &[], "tifffile reads further axes of the series"),
    warning(
        43314,
        "NIHImageHeader",
        &[],
        "tifffile reads further images, and NIH Image calibrates the values",
    ),
    note(50712, "LinearizationTable", &[], RAW),
    note(50714, "BlackLevel", &[0], RAW),
    note(50715, "BlackLevelDeltaH", &[0], RAW),
    note(50716, "BlackLevelDeltaV", &[0], RAW),
    note(50717, "WhiteLevel", &[], RAW),
    note(50719, "DefaultCropOrigin", &[0], RAW),
    note(50829, "ActiveArea", &[], RAW),
    note(50975, "RowInterleaveFactor", &[1], ORDER),
    note(51008, "OpcodeList1", &[], RAW),
    note(51009, "OpcodeList2", &[], RAW),
    note(51022, "OpcodeList3", &[], RAW),
    note(52525, "ProfileGainTableMap", &[], RAW),
    note(52547, "ColumnInterleaveFactor", &[1], ORDER),
];

const fn note(tag: u16, name: &'static str, inert: &'static [u64], effect: &'static str) -> Interpreted {
    Interpreted { tag, name, inert, effect, severity: Severity::Info }
}

const fn warning(tag: u16, name: &'static str, inert: &'static [u64], effect: &'static str) -> Interpreted {
    Interpreted { tag, name, inert, effect, severity: Severity::Warning }
}

/// Reports unreadable tags, and tags that are not applied although other programs interpret them.
///
/// # Errors
/// An unreadable one determines the layout of the samples.
pub(super) fn check(ifd: &Ifd, image: &Image, path: &str, diagnostics: &mut Vec<Diagnostic>) -> Result<()> {
    let mut report = |severity, message| {
        let path = format!("/{path}");
        diagnostics.push(Diagnostic { severity, code: Code::TiffTag, path, message, remedy: None });
    };
    for error in &ifd.unreadable_tags {
        let structural = error.tag().is_some_and(|tag| STRUCTURE.contains(&tag));
        // libtiff and tifffile treat the strips that a short table lacks as missing; so does the reader.
        let is_short = matches!(error, virtualize_tiff::Error::ShortTable { .. });
        if structural && !is_short {
            return Err(Error::Tag(error.clone()));
        }
        let is_read = error.tag().is_some_and(|tag| INTERPRETED_BY_GDAL.contains(&tag));
        let severity = if structural || is_read { Severity::Warning } else { Severity::Info };
        report(severity, format!("a tag is incomplete: {error}"));
    }
    for Interpreted { tag, name, inert, effect, severity } in &INTERPRETED {
        let Some(value) = ifd.tags.get(tag) else { continue };
        let is_inert = match tag {
            32995 => numbers(value, |all| all == [0]) || image.samples_per_pixel < 2,
            32996 => numbers(value, |all| all.iter().all(|code| is_format(*code, image))),
            33445 => numbers(value, |all| !matches!(all, [2 | 128, ..])),
            _ => numbers(value, |all| all.iter().all(|number| inert.contains(number))),
        };
        if !is_inert {
            report(*severity, format!("tag {tag} ({name}) is not applied: {effect}"));
        }
    }
    Ok(())
}

/// Whether a value consists of whole numbers that satisfy a condition.
fn numbers(value: &Value, condition: impl Fn(&[u64]) -> bool) -> bool {
    let whole = |(numerator, denominator): &(u32, u32)| {
        numerator.checked_rem(*denominator).filter(|rest| *rest == 0)?;
        numerator.checked_div(*denominator).map(u64::from)
    };
    match value {
        Value::Unsigned(all) => condition(all),
        Value::Rational(all) => {
            all.iter().map(whole).collect::<Option<Vec<_>>>().is_some_and(|all| condition(&all))
        }
        Value::SignedRational(all) => all.iter().all(|(numerator, _)| *numerator == 0) && condition(&[0]),
        _ => false,
    }
}

/// Whether all samples have the format that a code of DataType means.
fn is_format(code: u64, image: &Image) -> bool {
    let format = match code {
        1 => SampleFormat::Signed,
        0 | 2 => SampleFormat::Unsigned,
        3 => SampleFormat::Float,
        _ => return false,
    };
    image.sample_format.iter().all(|other| *other == format)
}
