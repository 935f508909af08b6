//! The fill value policy of TIFF: nodata is both the fill value and the sentinel. Numbers that TIFF files store as text are read
//! as GDAL reads them.
//!
//! Sources in order of priority: the tag GDAL_NODATA (42113), or else a catalogue, then the items `_FillValue` and
//! `missing_value` of GDAL_METADATA (42112), which GDAL ignores. In Zarr v2, `fill_value` alone makes readers mask; in Zarr v3,
//! the attribute `_FillValue` does.

use std::collections::BTreeSet;

use half::f16;
use serde_json::{Map, Value};
use virtualize_remedy::Code;
use virtualize_tiff::model::{GdalItem, Ifd, SampleFormat};
use virtualize_zarr::cf::fill_value_attribute;
use virtualize_zarr::{DataType, FillValue, ZarrFormat};

use crate::report::number_json;
use crate::{Diagnostic, Error, FillDecision, FillPolicy, FillSource, Outcome, Result};

/// Metadata items that hold nodata, in order of priority after the tag.
const ITEMS: [&str; 2] = ["_FillValue", "missing_value"];

/// Maximum number of sources of an image that are considered.
const MAX_SOURCES: usize = 16;

/// Why a source is dropped whose value is not the one that is used.
const DIFFERS: &str = "differs from a source of higher priority";

/// The fill value of an image, and the attributes that follow from it.
#[derive(Debug)]
pub(super) struct Nodata {
    /// The decision.
    pub(super) decision: FillDecision,
    /// Attributes by which readers mask.
    pub(super) attributes: Map<String, Value>,
    /// Names of per-variable items (`name#_FillValue`) that only repeat the sentinel.
    pub(super) duplicates: BTreeSet<String>,
}

/// Inputs of the decision for one image.
pub(super) struct Question<'a> {
    pub(super) ifd: &'a Ifd,
    /// The image of which this one is an overview. Its nodata applies to overviews without the tag.
    pub(super) main: Option<&'a Ifd>,
    pub(super) data_type: &'a DataType,
    /// Path of the array, for diagnostics.
    pub(super) path: &'a str,
    pub(super) format: ZarrFormat,
    /// Whether the image has missing tiles.
    pub(super) is_sparse: bool,
}

impl<'a> Question<'a> {
    /// Decides the fill value.
    ///
    /// # Errors
    /// Zarr v2 cannot express nodata and the different value that GDAL gives missing tiles.
    pub(super) fn decide(&self, diagnostics: &mut Vec<Diagnostic>) -> Result<Nodata> {
        let mut warn =
            |code, message: String| diagnostics.push(Diagnostic::warning(code, self.path, message));
        let (sources, sentinel, background) = self.sources(&mut warn);
        let is_disputed = sources.iter().any(|source| source.outcome == Outcome::Dropped(DIFFERS.into()));
        let used = sources.iter().find(|source| source.outcome == Outcome::Used);
        if let Some(FillSource { origin, text, .. }) =
            used.filter(|used| is_disputed || used.origin.starts_with("item "))
        {
            let message = if is_disputed {
                let values: Vec<_> =
                    sources.iter().map(|source| format!("{} {:?}", source.origin, source.text)).collect();
                format!("nodata sources disagree: {}; {origin} is used", values.join(", "))
            } else {
                format!("{origin} is {text:?}, which is masked; GDAL ignores this item")
            };
            warn(Code::NodataDisagrees, message);
        }
        let mut attributes = Map::new();
        if let Some(text) = &self.ifd.gdal_nodata {
            attributes.insert("gdal_no_data".into(), text.as_str().into());
        }
        let mut duplicates = BTreeSet::new();
        if let Some(sentinel) = &sentinel {
            if self.format == ZarrFormat::V3
                && let Some(value) = fill_value_attribute::encode(sentinel, self.data_type)
            {
                attributes.insert("_FillValue".into(), value);
            }
            let is_kept = |source: &FillSource| !matches!(source.outcome, Outcome::Dropped(_));
            if sources.iter().any(|source| source.origin == origin_of("missing_value") && is_kept(source))
                && let Some(number) = number_json(self.data_type, sentinel).filter(Value::is_number)
            {
                attributes.insert("missing_value".into(), number);
            }
            for GdalItem { name, value, .. } in &self.ifd.gdal_metadata {
                if name.split_once('#').is_some_and(|(_, last)| ITEMS.contains(&last))
                    && let Some(value) = read_number(value, self.data_type, false).value
                    && self.is_same(&value, sentinel)
                {
                    duplicates.insert(name.clone());
                }
            }
        }
        // xarray opens no Zarr v2 array of structures with a fill value.
        let declared = sentinel
            .clone()
            .filter(|_| self.format == ZarrFormat::V3 || !matches!(self.data_type, DataType::Struct(_)));
        let zero = FillValue::zero(self.data_type);
        let shown = declared.as_ref().unwrap_or(&zero);
        let fill_value = match self.format {
            ZarrFormat::V2 if self.is_sparse && !self.is_same(shown, &background) => {
                return Err(Error::unsupported(
                    "missing tiles that GDAL reads as another value than nodata",
                    "Zarr v2 cannot express both",
                ));
            }
            ZarrFormat::V2 => declared,
            ZarrFormat::V3 if self.is_sparse => Some(background),
            ZarrFormat::V3 => Some(shown.clone()),
        };
        let decision = FillDecision { policy: FillPolicy("tiff-nodata"), sources, fill_value, sentinel };
        Ok(Nodata { decision, attributes, duplicates })
    }

    /// Reads all sources, the tag first. Also returns the first value, which is the sentinel, and the value of missing tiles,
    /// which GDAL takes from the tag only.
    fn sources(
        &self,
        warn: &mut impl FnMut(Code, String),
    ) -> (Vec<FillSource>, Option<FillValue>, FillValue) {
        let has_integer_parts = self
            .ifd
            .image
            .as_ref()
            .is_ok_and(|image| image.sample_format.first() == Some(&SampleFormat::ComplexInteger));
        let read = |text: &str| read_number(text, self.data_type, has_integer_parts);
        let (mut sources, mut sentinel) = (Vec::new(), None);
        let mut background = FillValue::zero(self.data_type);
        let of_image = |ifd: &'a Ifd| {
            let tag = ifd.gdal_nodata.as_ref().map(|text| (text, "tag GDAL_NODATA (42113)"));
            tag.or_else(|| ifd.declared_nodata.as_ref().map(|text| (text, "nodata of the catalogue")))
        };
        let inherited = || self.main.and_then(of_image);
        if let Some((text, origin)) =
            of_image(self.ifd).or_else(inherited).filter(|(text, _)| !text.is_empty())
        {
            let reading = read(text);
            let what = format!("{origin} is {text:?}");
            let json = |value: &FillValue| number_json(self.data_type, value).unwrap_or_default();
            let value = reading.value.as_ref().map(json).unwrap_or_default();
            let problem = format!("{what}, which no element of type {} can equal", self.data_type);
            // One warning is enough for an image and its overviews.
            let is_repeated = inherited().is_some_and(|(main, _)| main == text);
            let adjusted = match reading.remark.filter(|_| !is_repeated) {
                None => None,
                Some(Remark::Unrepresentable) => {
                    warn(Code::NodataDropped, format!("{problem}: nothing is masked, as in GDAL"));
                    None
                }
                Some(Remark::Adjusted) => Some(format!("{value} is masked, as in GDAL")),
                Some(Remark::GdalReads(gdal)) => {
                    let gdal = gdal.as_ref().map(json).unwrap_or_default();
                    Some(format!("{value} is masked, but GDAL masks {gdal}"))
                }
                Some(Remark::Inexact) => Some(format!(
                    "readers mask {value} only, but GDAL also masks numbers next to it, of which this text may be a rounded one"
                )),
            };
            adjusted.into_iter().for_each(|effect| warn(Code::NodataAdjusted, format!("{what}: {effect}")));
            if self.ifd.gdal_nodata.is_some() {
                background = reading.background;
            }
            let outcome = self.outcome(reading.value, &mut sentinel, problem);
            sources.push(FillSource { origin: origin.to_owned(), text: text.clone(), outcome });
        }
        for name in ITEMS {
            let items = self.ifd.gdal_metadata.iter();
            for item in items.filter(|item| item.domain.is_empty() && item.name == name) {
                let origin = origin_of(name);
                let text = item.value.trim_matches(|c: char| c.is_whitespace() || c == '\0');
                let is_known = |known: &FillSource| known.origin == origin && known.text == item.value;
                if text.is_empty() || sources.iter().any(is_known) || sources.len() >= MAX_SOURCES {
                    continue;
                }
                let reading = read(text);
                let value = reading.value.filter(|_| reading.remark != Some(Remark::Adjusted));
                let problem =
                    format!("{origin} is {text:?}, which is not a number of type {}", self.data_type);
                if value.is_none() {
                    warn(Code::NodataDropped, format!("{problem}: it is dropped"));
                }
                let outcome = self.outcome(value, &mut sentinel, problem);
                sources.push(FillSource { origin, text: item.value.clone(), outcome });
            }
        }
        (sources, sentinel, background)
    }

    /// Returns the outcome of a source with this value. The value becomes the sentinel if no earlier source has set it.
    fn outcome(
        &self,
        value: Option<FillValue>,
        sentinel: &mut Option<FillValue>,
        problem: String,
    ) -> Outcome {
        match (value, sentinel) {
            (None, _) => Outcome::Dropped(problem),
            (value, first @ None) => {
                *first = value;
                Outcome::Used
            }
            (Some(value), Some(sentinel)) if self.is_same(&value, sentinel) => Outcome::Kept,
            _ => Outcome::Dropped(DIFFERS.into()),
        }
    }

    /// Whether two values mask the same elements: NaN is equal to NaN, and 0 to -0.
    fn is_same(&self, a: &FillValue, b: &FillValue) -> bool {
        let number = |value: &FillValue| value.to_f64(self.data_type).filter(|_| self.data_type.is_float());
        match (number(a), number(b)) {
            (Some(a), Some(b)) => a == b || a.is_nan() && b.is_nan(),
            _ => a == b,
        }
    }
}

/// Describes an item of GDAL_METADATA as a source.
fn origin_of(item: &str) -> String {
    format!("item {item} of GDAL_METADATA (42112)")
}

/// Characters that C takes for white space.
const BLANKS: [char; 6] = [' ', '\t', '\n', '\x0b', '\x0c', '\r'];

/// A nodata text as a value of an array's type.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Reading {
    /// The value that is masked; `None` if no element can equal nodata.
    pub(super) value: Option<FillValue>,
    /// The value that GDAL gives missing tiles: nodata, rounded and limited to the type.
    pub(super) background: FillValue,
    /// What a user has to know about the value.
    pub(super) remark: Option<Remark>,
}

/// Difference between a nodata text and its value, or between the masks of GDAL and of Zarr readers.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Remark {
    /// No element can equal nodata.
    Unrepresentable,
    /// The value is not the number in the text, or the text is not a number; GDAL uses the value.
    Adjusted,
    /// The value is the number in the text, of which GDAL makes this one.
    GdalReads(Option<FillValue>),
    /// The writer may have rounded the text. GDAL then masks the rounded elements as well, and Zarr readers do not.
    Inexact,
}

/// A number of any type of samples.
#[derive(Clone, Copy, Debug)]
enum Number {
    Integer(i128),
    Float(f64),
}

/// Reads nodata of an image of type `data_type`: the number in the text if the type has it, otherwise what GDAL makes of it.
/// The text of a complex number is its real part, that of a structure its first field. `has_integer_parts` distinguishes
/// complex integers, which are mapped to complex numbers.
fn read_number(text: &str, data_type: &DataType, has_integer_parts: bool) -> Reading {
    let element = match data_type {
        DataType::Complex64 if has_integer_parts => DataType::Int16,
        DataType::Complex128 if has_integer_parts => DataType::Int32,
        DataType::Complex64 => DataType::Float32,
        DataType::Complex128 => DataType::Float64,
        DataType::Struct(fields) => fields.first().map_or(DataType::UInt8, |field| field.data_type.clone()),
        number => number.clone(),
    };
    let is_complex = matches!(data_type, DataType::Complex64 | DataType::Complex128);
    let raw = atof(text);
    let exact = exact_integer(text).filter(|exact| FillValue::from_i128(&element, *exact).exact().is_some());
    let (in_text, in_gdal, background) = if matches!(element, DataType::Int64 | DataType::UInt64) {
        let read = match (&element, leading_integer(text)) {
            // C's `strtoll`, limited to 64 bits.
            (DataType::Int64, integer) => integer.clamp(i64::MIN.into(), i64::MAX.into()),
            // C's `strtoull`: the magnitude is limited to 64 bits, and negated modulo 2⁶⁴.
            (_, integer) if integer.abs() > u64::MAX.into() => u64::MAX.into(),
            (_, integer) if integer < 0 => integer + (1 << 64),
            (_, integer) => integer,
        };
        (exact.map(Number::Integer), Some(Number::Integer(read)), Number::Integer(read))
    } else if element.is_integer() {
        let bits = element.size().and_then(|size| i32::try_from(size * 8).ok()).unwrap_or(8);
        let limit = |bits: i32, value: f64| {
            let signed = if element.is_signed_integer() { 2_f64.powi(bits - 1) } else { 0.0 };
            value.clamp(0.0 - signed, 2_f64.powi(bits) - 1.0 - signed)
        };
        // GDAL truncates nodata within the range of the type in which it compares: 32 bits for signed integers of 8 bits.
        let compared = if element == DataType::Int8 { 32 } else { bits };
        let masked = (limit(compared, raw) == raw).then_some(Number::Float(raw.trunc()));
        let rounded = if raw.is_nan() { 0.0 } else { limit(bits, raw).round() };
        (exact.map(Number::Integer), masked, Number::Float(rounded))
    } else {
        // 64-bit rasters often have the largest 32-bit float as nodata, in ten digits. GDAL reads these so for 32-bit ones.
        let max = f64::from(f32::MAX);
        let is_near_max = element == DataType::Float64 && (raw.abs() - max).abs() < 1e-10 * max;
        let near = if is_near_max { max.copysign(raw) } else { raw };
        let in_gdal = masked_float(near, &element, is_complex).map(Number::Float);
        let is_plain = text.trim_matches(BLANKS).parse::<f64>().is_ok();
        let in_text = special(text).map(Number::Float).or(in_gdal.filter(|_| is_plain));
        let rounded = match element {
            DataType::Float16 => f16::from_f64(near).into(),
            #[expect(clippy::cast_possible_truncation, reason = "rounds as GDAL does")]
            DataType::Float32 => f64::from(near as f32),
            _ => near,
        };
        (in_text, in_gdal, Number::Float(rounded))
    };
    let encode = |number: Number| encode(number, &element, data_type);
    let in_gdal = in_gdal.and_then(encode);
    let value = in_text.and_then(encode).or_else(|| in_gdal.clone());
    let remark = if value.is_none() {
        Some(Remark::Unrepresentable)
    } else if value != in_gdal {
        Some(Remark::GdalReads(in_gdal))
    } else if in_text.is_none() {
        Some(Remark::Adjusted)
    } else {
        is_inexact(text, raw, &element).then_some(Remark::Inexact)
    };
    let background = encode(background).unwrap_or_else(|| FillValue::zero(data_type));
    Reading { value, background, remark }
}

/// Reads the number at the start of a text like GDAL's `CPLAtofM`: the decimal point may be a comma, text after the number is
/// ignored, and text that does not start with a number is 0.
pub(super) fn atof(text: &str) -> f64 {
    let point = text.bytes().take(50).find(|byte| matches!(byte, b',' | b'.')).unwrap_or(b'.');
    let text = text.trim_matches(BLANKS);
    let starts = |word: &str| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    if ["-1.#QNAN", "-1.#IND", "1.#QNAN", "1.#SNAN"].iter().any(|word| text.starts_with(word)) {
        return f64::NAN;
    }
    if starts("-1.#INF") {
        return f64::NEG_INFINITY;
    }
    if starts("1.#INF") {
        return f64::INFINITY;
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    let starts = |word: &str| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let bytes = text.as_bytes();
    let is_at = |index: usize, any: &[u8]| bytes.get(index).is_some_and(|byte| any.contains(byte));
    let digits_from = |start: usize| (start..).find(|at| !is_at(*at, b"0123456789")).unwrap_or(start);
    let first = usize::from(is_at(0, b"-"));
    let whole = digits_from(first);
    let fraction = if is_at(whole, &[point]) { digits_from(whole + 1) } else { whole };
    let power = fraction + 1 + usize::from(is_at(fraction + 1, b"+-"));
    let has_exponent = is_at(fraction, b"eE") && digits_from(power) > power;
    let end = if has_exponent { digits_from(power) } else { fraction };
    let has_digits = whole > first || fraction > whole + 1;
    let decimal = text.get(..end).filter(|_| has_digits).map(|number| number.replace(',', ".").parse());
    match decimal {
        Some(Ok(number)) => number,
        _ if starts("-inf") => f64::NEG_INFINITY,
        _ if starts("inf") => f64::INFINITY,
        _ if starts("nan") => f64::NAN,
        _ => 0.0,
    }
}

/// Returns the integer at the start of a text, limited to 65 bits; 0 if there is none.
fn leading_integer(text: &str) -> i128 {
    let text = text.trim_start_matches(BLANKS);
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit);
    sign * digits.fold(0_i128, |value, digit| (value * 10 + i128::from(digit - b'0')).min(1 << 64))
}

/// Returns the float that GDAL masks; `None` if it ignores nodata, or no element equals it.
#[expect(clippy::cast_possible_truncation, reason = "rounds as GDAL does")]
fn masked_float(number: f64, element: &DataType, is_complex: bool) -> Option<f64> {
    if *element == DataType::Float64 || !number.is_finite() {
        return Some(number);
    }
    let single = number as f32;
    if *element == DataType::Float32 && !is_complex {
        return Some(single.into());
    }
    if number.abs() > f32::MAX.into() {
        return None;
    }
    if is_complex {
        return Some(single.into());
    }
    let half = f16::from_f32(single).to_f32();
    // Numbers are equal if they differ by less than four units in the last place, and also if their sum overflows.
    let is_masked = half == single || (half - single).abs() < f32::EPSILON * (half + single).abs() * 2.0;
    is_masked.then_some(half.into())
}

/// Whether the writer may have rounded nodata, so that GDAL masks elements that do not equal it:
///
/// - 7 or 8 digits do not identify a 32-bit float, nor 7 to 16 a 64-bit one. Fewer digits are taken for the number itself.
/// - 64-bit elements may be converted 32-bit ones.
/// - Next to the largest float, GDAL masks all elements whose sum with nodata overflows.
#[expect(clippy::cast_possible_truncation, reason = "asks whether a 32-bit float has the number")]
fn is_inexact(text: &str, number: f64, element: &DataType) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).skip_while(|digit| *digit == b'0').count();
    let single = number as f32;
    let is_single = f64::from(single) == number;
    match element {
        _ if !number.is_finite() => false,
        DataType::Float32 => {
            let is_near_max = single.abs() > f32::MAX / 2.0 && single.abs() < f32::MAX;
            is_near_max || !is_single && single.is_finite() && (7..=8).contains(&digits)
        }
        DataType::Float64 if single.is_finite() => !is_single && single != 0.0,
        DataType::Float64 => {
            let is_near_max = number.abs() > f64::MAX / 2.0 && number.abs() < f64::MAX;
            is_near_max || (7..=16).contains(&digits)
        }
        _ => false,
    }
}

/// Encodes a number that is rounded to `element`; `None` if it is out of its range.
fn encode(number: Number, element: &DataType, data_type: &DataType) -> Option<FillValue> {
    let value = match number {
        Number::Integer(number) => FillValue::from_i128(element, number),
        Number::Float(number) => FillValue::from_f64(element, number),
    }
    .value()?;
    match (data_type, &value) {
        (DataType::Complex64 | DataType::Complex128, _) => {
            FillValue::from_f64(data_type, value.to_f64(element)?).value()
        }
        (DataType::Struct(_), FillValue::Fixed(bytes)) => {
            let mut bytes = bytes.to_vec();
            bytes.resize(usize::try_from(data_type.size()?).ok()?, 0);
            Some(FillValue::Fixed(bytes.into()))
        }
        _ => Some(value),
    }
}

/// Parses NaN and the infinities, also in the notations of Microsoft's C runtimes (`-1.#IND`, `1.#QNAN00`, `-nan(ind)`).
fn special(text: &str) -> Option<f64> {
    let lower = text.trim_matches(BLANKS).to_ascii_lowercase();
    let (sign, word) = match lower.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, lower.strip_prefix('+').unwrap_or(&lower)),
    };
    let word = match word.strip_prefix("1.#") {
        Some(rest) => rest.trim_end_matches(|c: char| c.is_ascii_digit()),
        None => word.split('(').next().unwrap_or(word),
    };
    match word {
        "inf" | "infinity" => Some(sign * f64::INFINITY),
        "nan" | "ind" | "qnan" | "snan" => Some(f64::NAN),
        _ => None,
    }
}

/// Parses an integer in decimal notation without a detour through floats: `-9999.0` and `1e3` are integers, `0.5` is not.
fn exact_integer(text: &str) -> Option<i128> {
    let text = text.trim_matches(BLANKS);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let significant = all.trim_end_matches('0');
    let zeros = (all.len() - significant.len()) as u64;
    let power = exponent.saturating_sub_unsigned(fraction.len() as u64).saturating_add_unsigned(zeros);
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    let factor = 10_i128.checked_pow(u32::try_from(power).ok()?)?;
    significant.parse::<i128>().ok()?.checked_mul(factor).map(|magnitude| sign * magnitude)
}

#[cfg(test)]
mod tests {
    use virtualize_zarr::Endian;
    use virtualize_zarr::Field;

    use super::*;
    use crate::tiff::tests::ifd;
    use crate::tiff::tests::image;
    use crate::tiff::tests::item;

    fn decided(
        tag: Option<&str>,
        items: &[(&str, &str)],
        data_type: &DataType,
        format: ZarrFormat,
    ) -> (Nodata, Vec<String>) {
        let mut ifd = ifd(image(4, 4, 1, 2));
        ifd.gdal_nodata = tag.map(Into::into);
        ifd.gdal_metadata = items.iter().map(|(name, value)| item(name, value)).collect();
        let mut diagnostics = Vec::new();
        let question = Question { ifd: &ifd, main: None, data_type, path: "v", format, is_sparse: false };
        let nodata = question.decide(&mut diagnostics).unwrap();
        (nodata, diagnostics.into_iter().map(|diagnostic| diagnostic.message).collect())
    }

    /// Returns the outcome of an item `missing_value` in addition to the tag.
    fn beside(tag: &str, value: &str) -> Outcome {
        let (nodata, _) = decided(Some(tag), &[("missing_value", value)], &DataType::Float32, ZarrFormat::V3);
        nodata.decision.sources[1].outcome.clone()
    }

    #[test]
    fn sources_agree_if_they_mask_the_same_elements() {
        for (tag, value) in [("nan", "-nan"), ("0", "-0.0"), ("1", "1.0")] {
            assert_eq!(beside(tag, value), Outcome::Kept, "{tag} {value}");
        }
        for (tag, value) in [("nan", "1"), ("1", "nan"), ("1", "2")] {
            assert_eq!(beside(tag, value), Outcome::Dropped(DIFFERS.into()), "{tag} {value}");
        }
        assert!(matches!(beside("1", "none"), Outcome::Dropped(why) if why.contains("not a number")));
    }

    #[test]
    fn the_source_that_is_used_is_named() {
        let (_, messages) = decided(Some("1"), &[("missing_value", "2")], &DataType::UInt8, ZarrFormat::V3);
        assert!(messages[0].ends_with("tag GDAL_NODATA (42113) is used"), "{messages:?}");
    }

    #[test]
    fn blank_and_repeated_sources_are_none_and_their_number_is_limited() {
        let count = |items: &[(&str, &str)]| {
            decided(None, items, &DataType::UInt8, ZarrFormat::V3).0.decision.sources.len()
        };
        assert_eq!(count(&[("_FillValue", " "), ("_FillValue", "\0"), ("missing_value", "")]), 0);
        assert_eq!(
            count(&[("_FillValue", "1"), ("_FillValue", "1"), ("_FillValue", "2"), ("missing_value", "1")]),
            3
        );
        let texts: Vec<String> = (0..20).map(|n: u8| n.to_string()).collect();
        assert_eq!(
            count(&texts.iter().map(|text| ("_FillValue", text.as_str())).collect::<Vec<_>>()),
            MAX_SOURCES
        );
    }

    /// xarray opens no Zarr v2 array of structures that has a fill value.
    #[test]
    fn missing_tiles_have_the_value_of_gdal_or_are_refused() {
        let field = |name: &str| Field {
            name: name.to_owned(),
            data_type: DataType::UInt8,
            endian: Endian::Little,
            shape: Vec::new(),
        };
        let pair = DataType::Struct(vec![field("a"), field("b")]);
        let sparse = |text: &str, data_type: &DataType, format| {
            let mut ifd = ifd(image(4, 4, 1, 2));
            ifd.gdal_nodata = Some(text.into());
            let question = Question { ifd: &ifd, main: None, data_type, path: "v", format, is_sparse: true };
            question.decide(&mut Vec::new()).map(|nodata| match nodata.decision.fill_value {
                Some(FillValue::Fixed(bytes)) => bytes.to_vec(),
                _ => Vec::new(),
            })
        };
        for (text, data_type, v2, v3) in [
            ("5", &pair, None, vec![5, 0]),
            ("0", &pair, Some(vec![]), vec![0, 0]),
            ("5", &DataType::UInt8, Some(vec![5]), vec![5]),
            ("300", &DataType::UInt8, None, vec![255]),
            ("-1", &DataType::UInt8, Some(vec![]), vec![0]),
            ("3.9", &DataType::UInt8, None, vec![4]),
        ] {
            assert_eq!(sparse(text, data_type, ZarrFormat::V2).ok(), v2, "{text} {data_type}");
            assert_eq!(sparse(text, data_type, ZarrFormat::V3).ok(), Some(v3), "{text} {data_type}");
        }
    }

    #[test]
    fn overviews_without_the_tag_have_the_nodata_of_the_main_image() {
        let (mut main, overview) = (ifd(image(4, 4, 1, 2)), ifd(image(4, 4, 1, 2)));
        main.gdal_nodata = Some("7".into());
        let question = Question {
            ifd: &overview,
            main: Some(&main),
            data_type: &DataType::UInt8,
            path: "v",
            format: ZarrFormat::V3,
            is_sparse: false,
        };
        let nodata = question.decide(&mut Vec::new()).unwrap();
        assert_eq!(nodata.decision.sentinel, FillValue::from_i128(&DataType::UInt8, 7).exact());
        assert_eq!(nodata.attributes.get("_FillValue"), Some(&7.into()));
    }
}

#[cfg(test)]
mod number_tests {
    use super::*;

    fn value(text: &str, data_type: &DataType) -> Option<f64> {
        let read = read_number(text, data_type, false).value?;
        read.to_f64(data_type)
    }

    fn remark(text: &str, data_type: &DataType) -> Option<Remark> {
        read_number(text, data_type, false).remark
    }

    /// `rasterio.open(file).scales` with GDAL 3.12 for these texts of a scale.
    #[test]
    fn numbers_start_a_text_as_in_gdal() {
        for (text, number) in [
            ("0.01", 0.01),
            ("0,01", 0.01),
            ("0.01 m", 0.01),
            (" +7", 7.0),
            ("1,5.2", 1.5),
            ("1.5,2", 1.5),
            ("1e", 1.0),
            ("15e-1x", 1.5),
            ("1e+2x", 100.0),
            (".", 0.0),
            ("-.5", -0.5),
            ("5.", 5.0),
            ("++5", 0.0),
            ("+-5", -5.0),
            ("0x10", 0.0),
            ("none", 0.0),
            ("-nan", 0.0),
            ("1.#IND", 1.0),
            ("1e400", f64::INFINITY),
            ("-INFINITY", f64::NEG_INFINITY),
            ("-1.#inf", f64::NEG_INFINITY),
            ("", 0.0),
        ] {
            assert_eq!(atof(text), number, "{text:?}");
        }
        for text in ["nan", "NaNs", "+nan", "-1.#IND00", "1.#QNAN", "1.#SNAN"] {
            assert!(atof(text).is_nan(), "{text:?}");
        }
    }

    #[test]
    fn integers_are_exact_to_64_bits() {
        for (text, data_type, number) in [
            ("18446744073709551615", DataType::UInt64, u64::MAX.into()),
            ("-9223372036854775808", DataType::Int64, i64::MIN.into()),
            ("9007199254740993", DataType::Int64, 9_007_199_254_740_993),
            (" -9999.0", DataType::Int16, -9999),
            ("1.5e1", DataType::UInt8, 15),
            ("0.000", DataType::UInt8, 0),
        ] {
            let reading = read_number(text, &data_type, false);
            assert_eq!(reading.value.and_then(|value| value.to_i128(&data_type)), Some(number), "{text}");
            assert_eq!(reading.remark, None, "{text}");
        }
    }

    /// rasterio 1.5 with GDAL 3.12: `dataset_mask()` of files with these texts.
    #[test]
    fn what_is_not_a_number_of_the_type_is_that_of_gdal() {
        for (text, number) in [
            ("0.5", 0.0),
            ("3.9", 3.0),
            ("none", 0.0),
            ("12abc", 12.0),
            ("0x10", 0.0),
            ("1,5", 1.0),
            ("5 6", 5.0),
        ] {
            assert_eq!(value(text, &DataType::UInt8), Some(number), "{text}");
            assert_eq!(remark(text, &DataType::UInt8), Some(Remark::Adjusted), "{text}");
        }
        for text in ["nan", "inf", "256", "-1", "-0.5", "255.5", "1e40", "-9999, -9999", "1e999999999999"] {
            assert_eq!(value(text, &DataType::UInt8), None, "{text}");
            assert_eq!(remark(text, &DataType::UInt8), Some(Remark::Unrepresentable), "{text}");
        }
        for (text, data_type, number) in [
            ("-128.5", DataType::Int8, Some(-128.0)),
            ("-500", DataType::Int8, None),
            ("-32768.5", DataType::Int16, None),
            ("none", DataType::Float32, Some(0.0)),
            ("1,5", DataType::Float32, Some(1.5)),
            ("1e40", DataType::Float32, Some(f64::INFINITY)),
            ("9223372036854775808", DataType::Int64, Some(2_f64.powi(63))),
            ("-1e400", DataType::Int64, Some(-1.0)),
            ("nan", DataType::UInt64, Some(0.0)),
            ("-1", DataType::UInt64, Some(2_f64.powi(64))),
            ("-18446744073709551615", DataType::UInt64, Some(1.0)),
            ("-18446744073709551616", DataType::UInt64, Some(2_f64.powi(64))),
        ] {
            assert_eq!(value(text, &data_type), number, "{text}");
        }
        assert_eq!(read_number("1e40", &DataType::Complex64, false).value, None);
        assert_eq!(read_number("40000", &DataType::Complex64, true).value, None);
    }

    /// GDAL masks only what equals nodata as a 32-bit float.
    #[test]
    fn half_precision_has_only_numbers_of_its_own() {
        for (text, number) in [
            ("-32768", Some(-32768.0)),
            ("0.09997558593", Some(0.099_975_585_937_5)),
            ("inf", Some(f64::INFINITY)),
        ] {
            assert_eq!(value(text, &DataType::Float16), number, "{text}");
        }
        for text in ["-32767", "-9999", "0.1", "65520", "1e400"] {
            let number = if text == "1e400" { Some(f64::INFINITY) } else { None };
            assert_eq!(value(text, &DataType::Float16), number, "{text}");
        }
    }

    #[test]
    fn texts_that_gdal_misreads_keep_their_meaning() {
        for text in ["-nan", "1.#IND", "-1.#SNAN", "-nan(ind)"] {
            assert!(value(text, &DataType::Float32).is_some_and(f64::is_nan), "{text}");
            assert!(matches!(remark(text, &DataType::Float32), Some(Remark::GdalReads(Some(_)))), "{text}");
        }
        assert_eq!(value("1e2", &DataType::Int64), Some(100.0));
        let one = FillValue::from_i128(&DataType::Int64, 1).exact();
        assert_eq!(remark("1e2", &DataType::Int64), Some(Remark::GdalReads(one)));
    }

    #[test]
    fn missing_tiles_have_the_nearest_number_of_the_type() {
        let background =
            |text, data_type: DataType| read_number(text, &data_type, false).background.to_f64(&data_type);
        for (text, data_type, number) in [
            ("300", DataType::UInt8, 255.0),
            ("-1", DataType::UInt8, 0.0),
            ("3.5", DataType::UInt8, 4.0),
            ("-2.5", DataType::Int16, -3.0),
            ("nan", DataType::Int32, 0.0),
            ("1e2", DataType::Int64, 1.0),
            ("-nan", DataType::Float32, 0.0),
            ("-32767", DataType::Float16, -32768.0),
        ] {
            assert_eq!(background(text, data_type), Some(number), "{text}");
        }
    }

    /// GDAL masks pixels that differ from these texts in late digits.
    #[test]
    fn rounded_texts_are_recognized() {
        for (text, is_single, is_double) in [
            ("-9999", false, false),
            ("0.1", false, true),
            ("1e20", false, true),
            ("0.3333333", true, true),
            ("0.333333333", false, true),
            ("-3.4028234663852886e+38", false, false),
            ("-3.40282346638529e+38", false, true),
            ("-3.4e38", true, true),
            ("-3.40282306073709652508e+38", true, false),
            ("-1.7976931348623157e308", false, false),
            ("-1.797693e308", false, true),
            ("1e300", false, false),
            ("nan", false, false),
            ("0", false, false),
        ] {
            let is_inexact = |data_type| remark(text, &data_type) == Some(Remark::Inexact);
            assert_eq!(is_inexact(DataType::Float32), is_single, "{text} as float32");
            assert_eq!(is_inexact(DataType::Float64), is_double, "{text} as float64");
        }
        assert_eq!(value("-3.40282346638529e+38", &DataType::Float64), Some(f64::from(f32::MIN)));
    }
}
