//! The fill value policy of TIFF: nodata is both the fill value and the sentinel.
//!
//! Sources in order of priority: the tag GDAL_NODATA (42113), then the items `_FillValue` and `missing_value` of
//! GDAL_METADATA (42112). In Zarr v2, `fill_value` alone makes readers mask; in Zarr v3, the attribute `_FillValue` does.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use virtualize_remedy::Code;
use virtualize_tiff::model::{Ifd, SampleFormat};
use virtualize_zarr::{DataType, FillValue, ZarrFormat, cf::fill_value_attribute};

use super::number::{self, NotAValue};
use crate::{
    Diagnostic, Error, FillDecision, FillPolicy, FillSource, InvalidNodata, MapOptions, Outcome, Result,
    Severity, json_numbers::number_json,
};

/// Metadata items that hold nodata, in order of priority after the tag.
const ITEMS: [&str; 2] = ["_FillValue", "missing_value"];

/// Most sources of one image that are considered. Files have up to three.
const MOST_SOURCES: usize = 16;

/// Why a source is dropped whose value is not the one that is used.
const DIFFERS: &str = "differs from a source of higher priority";

/// The fill value of an image, and the attributes that follow from it.
#[derive(Debug)]
pub(super) struct Nodata {
    /// The decision.
    pub(super) decision: FillDecision,
    /// Attributes by which readers mask.
    pub(super) attributes: Map<String, Value>,
    /// A sentinel that is not the value of missing chunks: in Zarr v2, xarray opens no structures with a fill value; items
    /// of GDAL_METADATA are no nodata for GDAL, which shows missing tiles as 0; some texts are another number for GDAL.
    pub(super) undeclared: Option<FillValue>,
    /// Names of per-variable items (`name#_FillValue`) that only repeat the sentinel.
    pub(super) duplicates: BTreeSet<String>,
}

/// A source of nodata.
struct Candidate {
    name: String,
    origin: String,
    text: String,
    /// Its value of the data type.
    value: Option<FillValue>,
    /// Why the text itself is not a value of the data type.
    problem: Option<NotAValue>,
}

impl Candidate {
    fn new(name: &str, origin: String, text: &str, data_type: &DataType, action: InvalidNodata) -> Self {
        let parsed = number::parse(text, data_type);
        let problem = parsed.as_ref().err().copied();
        // GDAL knows the tag only.
        let is_adjusted = problem.is_some() && name.is_empty() && action == InvalidNodata::Gdal;
        let value = if is_adjusted { number::parse_as_gdal(text, data_type) } else { parsed.ok() };
        Self { name: name.to_owned(), origin, text: text.to_owned(), value, problem }
    }
}

/// Decides the fill value of an image's array. `path` is that of the array, for diagnostics.
///
/// # Errors
/// A source holds no value of the data type, and the options make that an error.
pub(super) fn decide(
    ifd: &Ifd,
    data_type: &DataType,
    path: &str,
    options: &MapOptions,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Nodata> {
    let candidates = candidates(ifd, data_type, options.invalid_nodata);
    check_values(&candidates, data_type, path, options, diagnostics)?;
    let winner = candidates.iter().position(|candidate| candidate.value.is_some());
    let sentinel = winner.and_then(|index| candidates.get(index)).and_then(|won| won.value.clone());
    let sources = sources(&candidates, winner, sentinel.as_ref(), data_type);
    report_disagreement(&sources, path, diagnostics);
    let attributes = attributes(ifd, &candidates, sentinel.as_ref(), data_type, options.format);
    let is_undeclared = options.format == ZarrFormat::V2 && matches!(data_type, DataType::Struct(_));
    let fill_value = match options.format {
        ZarrFormat::V2 => sentinel.clone().filter(|_| !is_undeclared),
        ZarrFormat::V3 => Some(sentinel.clone().unwrap_or_else(|| FillValue::zero(data_type))),
    };
    let duplicates = duplicates(ifd, sentinel.as_ref(), data_type);
    // GDAL fills missing tiles with the value of the tag only.
    let won = winner.and_then(|index| candidates.get(index));
    let is_item = won.is_some_and(|won| !won.name.is_empty());
    let is_plain = won.is_none_or(|won| number::is_plain(&won.text, data_type, has_integer_parts(ifd)));
    let differs = |value: &FillValue| (is_undeclared || is_item) && *value != FillValue::zero(data_type);
    let undeclared = sentinel.clone().filter(|value| differs(value) || !is_item && !is_plain);
    let decision = FillDecision { policy: FillPolicy("tiff-nodata"), sources, fill_value, sentinel };
    Ok(Nodata { decision, attributes, undeclared, duplicates })
}

/// Whether the samples are complex integers, which are shown as complex numbers.
fn has_integer_parts(ifd: &Ifd) -> bool {
    let image = ifd.image.as_ref();
    image.is_ok_and(|image| image.sample_format.first() == Some(&SampleFormat::ComplexInteger))
}

/// Whether two values mask the same elements: NaN is equal to NaN, and 0 to -0.
fn same(a: &FillValue, b: &FillValue, data_type: &DataType) -> bool {
    let number = |value: &FillValue| value.to_f64(data_type).filter(|_| data_type.is_float());
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a == b || a.is_nan() && b.is_nan(),
        _ => a == b,
    }
}

fn candidates(ifd: &Ifd, data_type: &DataType, action: InvalidNodata) -> Vec<Candidate> {
    let tag = ifd.gdal_nodata.iter().map(|text| ("", "tag GDAL_NODATA (42113)".to_owned(), text));
    let items = ITEMS.iter().flat_map(|name| {
        ifd.gdal_metadata
            .iter()
            .filter(move |item| item.domain.is_empty() && item.name == *name)
            .map(move |item| (*name, format!("item {name} of GDAL_METADATA (42112)"), &item.value))
    });
    let mut found: Vec<Candidate> = Vec::new();
    for (name, origin, text) in tag.chain(items) {
        let blank = text.trim_matches(|c: char| c.is_whitespace() || c == '\0').is_empty();
        let known = found.iter().any(|known: &Candidate| known.name == name && known.text == *text);
        if !blank && !known && found.len() < MOST_SOURCES {
            found.push(Candidate::new(name, origin, text, data_type, action));
        }
    }
    found
}

fn check_values(
    candidates: &[Candidate],
    data_type: &DataType,
    path: &str,
    options: &MapOptions,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<()> {
    for candidate in candidates {
        let Some(why) = candidate.problem else { continue };
        let error = invalid(candidate, why, data_type);
        if options.invalid_nodata == InvalidNodata::Error {
            return Err(error);
        }
        let (code, action) = match candidate.value.as_ref().and_then(|value| json(value, data_type)) {
            Some(value) => (Code::NodataAdjusted, format!("{value} is used, as in GDAL")),
            None => (Code::NodataDropped, "it is dropped".to_owned()),
        };
        diagnostics.push(Diagnostic {
            severity: Severity::Warning,
            code,
            path: format!("/{path}"),
            message: format!("{error}; {action}"),
            remedy: None,
        });
    }
    Ok(())
}

fn json(value: &FillValue, data_type: &DataType) -> Option<Value> {
    match value {
        FillValue::Fixed(bytes) => number_json(data_type, bytes),
        FillValue::Text(_) | FillValue::Variable(_) => None,
    }
}

fn invalid(candidate: &Candidate, why: NotAValue, data_type: &DataType) -> Error {
    let problem = match why {
        NotAValue::NotANumber => "is no number".to_owned(),
        NotAValue::OutOfRange => format!("is no value of type {data_type}"),
    };
    Error::InvalidNodata { origin: candidate.origin.clone(), text: candidate.text.clone(), problem }
}

fn sources(
    candidates: &[Candidate],
    winner: Option<usize>,
    sentinel: Option<&FillValue>,
    data_type: &DataType,
) -> Vec<FillSource> {
    let outcome = |index: usize, candidate: &Candidate| match (&candidate.value, sentinel) {
        (None, _) => {
            let why = candidate.problem.unwrap_or(NotAValue::NotANumber);
            Outcome::Dropped(invalid(candidate, why, data_type).to_string())
        }
        (Some(_), _) if winner == Some(index) => Outcome::Used,
        (Some(value), Some(sentinel)) if same(value, sentinel, data_type) => Outcome::Kept,
        _ => Outcome::Dropped(DIFFERS.into()),
    };
    let source = |(index, candidate): (usize, &Candidate)| FillSource {
        origin: candidate.origin.clone(),
        text: candidate.text.clone(),
        outcome: outcome(index, candidate),
    };
    candidates.iter().enumerate().map(source).collect()
}

fn report_disagreement(sources: &[FillSource], path: &str, diagnostics: &mut Vec<Diagnostic>) {
    let Some(used) = sources.iter().find(|source| source.outcome == Outcome::Used) else { return };
    if !sources.iter().any(|source| source.outcome == Outcome::Dropped(DIFFERS.into())) {
        return;
    }
    let values: Vec<_> =
        sources.iter().map(|source| format!("{} {:?}", source.origin, source.text)).collect();
    diagnostics.push(Diagnostic {
        severity: Severity::Warning,
        code: Code::NodataDisagrees,
        path: format!("/{path}"),
        message: format!("nodata sources disagree: {}; {} is used", values.join(", "), used.origin),
        remedy: None,
    });
}

/// Returns the attributes by which readers mask, and the nodata text of GDAL.
fn attributes(
    ifd: &Ifd,
    candidates: &[Candidate],
    sentinel: Option<&FillValue>,
    data_type: &DataType,
    format: ZarrFormat,
) -> Map<String, Value> {
    let mut attributes = Map::new();
    if let Some(text) = &ifd.gdal_nodata {
        attributes.insert("gdal_no_data".into(), text.trim_end_matches('\0').into());
    }
    let Some(sentinel) = sentinel else { return attributes };
    if format == ZarrFormat::V3
        && let Some(value) = fill_value_attribute::encode(sentinel, data_type)
    {
        attributes.insert("_FillValue".into(), value);
    }
    let agrees = |candidate: &&Candidate| {
        candidate.name == "missing_value"
            && candidate.value.as_ref().is_some_and(|value| same(value, sentinel, data_type))
    };
    if candidates.iter().any(|candidate| agrees(&candidate))
        && let Some(number) = json(sentinel, data_type).filter(Value::is_number)
    {
        attributes.insert("missing_value".into(), number);
    }
    attributes
}

fn duplicates(ifd: &Ifd, sentinel: Option<&FillValue>, data_type: &DataType) -> BTreeSet<String> {
    let Some(sentinel) = sentinel else { return BTreeSet::new() };
    let is_repeated = |name: &str, text: &str| {
        name.split_once('#').is_some_and(|(_, last)| ITEMS.contains(&last))
            && number::parse(text, data_type).is_ok_and(|value| same(&value, sentinel, data_type))
    };
    let items = ifd.gdal_metadata.iter().filter(|item| is_repeated(&item.name, &item.value));
    items.map(|item| item.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use virtualize_zarr::{Endian, Field};

    use super::*;
    use crate::tiff::tests::{ifd, image, item};

    fn decided(
        tag: Option<&str>,
        items: &[(&str, &str)],
        data_type: &DataType,
        format: ZarrFormat,
    ) -> (Nodata, Vec<String>) {
        let mut ifd = ifd(image(4, 4, 1, 2));
        ifd.gdal_nodata = tag.map(Into::into);
        ifd.gdal_metadata = items.iter().map(|(name, value)| item(name, value)).collect();
        let options = MapOptions { format, invalid_nodata: InvalidNodata::Warn, ..MapOptions::default() };
        let mut diagnostics = Vec::new();
        let nodata = decide(&ifd, data_type, "v", &options, &mut diagnostics).unwrap();
        (nodata, diagnostics.into_iter().map(|diagnostic| diagnostic.message).collect())
    }

    /// Returns the outcome of an item `missing_value` beside the tag.
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
        assert!(matches!(beside("1", "none"), Outcome::Dropped(why) if why.contains("is no number")));
    }

    #[test]
    fn the_source_that_is_used_is_named() {
        let (_, told) = decided(Some("1"), &[("missing_value", "2")], &DataType::UInt8, ZarrFormat::V3);
        assert!(told[0].ends_with("tag GDAL_NODATA (42113) is used"), "{told:?}");
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
            MOST_SOURCES
        );
    }

    /// xarray opens no Zarr v2 array of structures that has a fill value.
    #[test]
    fn structures_declare_their_fill_value_in_v3_only() {
        let field = |name: &str| Field {
            name: name.to_owned(),
            data_type: DataType::UInt8,
            endian: Endian::Little,
            shape: Vec::new(),
        };
        let pair = DataType::Struct(vec![field("a"), field("b")]);
        let found = |text: &str, format| {
            let (nodata, _) = decided(Some(text), &[], &pair, format);
            (nodata.decision.fill_value, nodata.undeclared)
        };
        let value = |bytes: &'static [u8]| Some(FillValue::Fixed(bytes::Bytes::from_static(bytes)));
        assert_eq!(found("5", ZarrFormat::V2), (None, value(&[5, 0])));
        assert_eq!(found("0", ZarrFormat::V2), (None, None));
        assert_eq!(found("5", ZarrFormat::V3), (value(&[5, 0]), None));
    }
}
