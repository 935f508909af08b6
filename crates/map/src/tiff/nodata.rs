//! The fill value policy of TIFF: nodata is both the fill value and the sentinel.
//!
//! Sources in order of priority: the tag GDAL_NODATA (42113), or else a catalogue, then the items `_FillValue` and `missing_value` of
//! GDAL_METADATA (42112), which GDAL ignores. In Zarr v2, `fill_value` alone makes readers mask; in Zarr v3, the attribute
//! `_FillValue` does.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use virtualize_remedy::Code;
use virtualize_tiff::model::{Ifd, SampleFormat};
use virtualize_zarr::cf::fill_value_attribute;
use virtualize_zarr::{DataType, FillValue, ZarrFormat};

use super::number;
use super::number::Remark;
use crate::source_attribute::number_json;
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

/// A source of nodata.
struct Candidate {
    /// Name of the item; empty for the tag.
    name: &'static str,
    origin: String,
    text: String,
    /// Its value of the data type.
    value: Option<FillValue>,
    /// Why it has no value.
    problem: String,
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
        let (candidates, background) = self.candidates(&mut warn);
        let winner = candidates.iter().position(|candidate| candidate.value.is_some());
        let won = winner.and_then(|index| candidates.get(index));
        let sentinel = won.and_then(|won| won.value.clone());
        let sources = self.sources(&candidates, winner, sentinel.as_ref());
        let is_disputed = sources.iter().any(|source| source.outcome == Outcome::Dropped(DIFFERS.into()));
        if let Some(won) = won.filter(|won| is_disputed || !won.name.is_empty()) {
            let message = if is_disputed {
                let values: Vec<_> =
                    sources.iter().map(|source| format!("{} {:?}", source.origin, source.text)).collect();
                format!("nodata sources disagree: {}; {} is used", values.join(", "), won.origin)
            } else {
                let Candidate { origin, text, .. } = won;
                format!("{origin} is {text:?}, which is masked; GDAL ignores this item")
            };
            warn(Code::NodataDisagrees, message);
        }
        let attributes = self.attributes(&candidates, sentinel.as_ref());
        let duplicates = self.duplicates(sentinel.as_ref());
        // xarray opens no Zarr v2 array of structures with a fill value.
        let declared = sentinel
            .clone()
            .filter(|_| self.format == ZarrFormat::V3 || !matches!(self.data_type, DataType::Struct(_)));
        let zero = FillValue::zero(self.data_type);
        let shown = declared.as_ref().unwrap_or(&zero);
        let fill_value = match self.format {
            ZarrFormat::V2 if self.is_sparse && !self.is_same(shown, &background) => {
                return Err(Error::unsupported(
                    "missing tiles to which GDAL gives another value than nodata",
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

    /// Reads all sources, the tag first, and the value of missing tiles, which GDAL takes from the tag only.
    fn candidates(&self, warn: &mut impl FnMut(Code, String)) -> (Vec<Candidate>, FillValue) {
        let has_integer_parts = self
            .ifd
            .image
            .as_ref()
            .is_ok_and(|image| image.sample_format.first() == Some(&SampleFormat::ComplexInteger));
        let read = |text: &str| number::read(text, self.data_type, has_integer_parts);
        let mut candidates = Vec::new();
        let mut background = FillValue::zero(self.data_type);
        let sources = |ifd: &'a Ifd| {
            let tag = ifd.gdal_nodata.as_ref().map(|text| (text, "tag GDAL_NODATA (42113)"));
            tag.or_else(|| ifd.declared_nodata.as_ref().map(|text| (text, "nodata of the catalogue")))
        };
        let inherited = || self.main.and_then(sources);
        if let Some((text, origin)) =
            sources(self.ifd).or_else(inherited).filter(|(text, _)| !text.is_empty())
        {
            let reading = read(text);
            let origin = origin.to_owned();
            let what = format!("{origin} is {text:?}");
            let value = reading.value.as_ref().and_then(|value| self.json(value)).unwrap_or_default();
            let problem = format!("{what}, which no element of type {} can equal", self.data_type);
            // One warning is enough for an image and its overviews.
            let is_repeated = inherited().is_some_and(|(main, _)| main == text);
            match reading.remark.filter(|_| !is_repeated) {
                None => {}
                Some(Remark::Unrepresentable) => {
                    warn(Code::NodataDropped, format!("{problem}: nothing is masked, as in GDAL"));
                }
                Some(Remark::Adjusted) => {
                    warn(Code::NodataAdjusted, format!("{what}: {value} is masked, as in GDAL"))
                }
                Some(Remark::GdalReads(gdal)) => {
                    let gdal = gdal.and_then(|gdal| self.json(&gdal)).unwrap_or_default();
                    warn(Code::NodataAdjusted, format!("{what}: {value} is masked, but GDAL masks {gdal}"));
                }
                Some(Remark::Inexact) => warn(
                    Code::NodataAdjusted,
                    format!(
                        "{what}: readers mask {value} only, but GDAL also masks numbers next to it, of which this text may be a rounded one"
                    ),
                ),
            }
            if self.ifd.gdal_nodata.is_some() {
                background = reading.background;
            }
            candidates.push(Candidate {
                name: "",
                origin,
                text: text.clone(),
                value: reading.value,
                problem,
            });
        }
        for name in ITEMS {
            for item in
                self.ifd.gdal_metadata.iter().filter(|item| item.domain.is_empty() && item.name == name)
            {
                let text = item.value.trim_matches(|c: char| c.is_whitespace() || c == '\0');
                let is_known =
                    candidates.iter().any(|known: &Candidate| known.name == name && known.text == item.value);
                if text.is_empty() || is_known || candidates.len() >= MAX_SOURCES {
                    continue;
                }
                let origin = format!("item {name} of GDAL_METADATA (42112)");
                let reading = read(text);
                let value = reading.value.filter(|_| reading.remark != Some(Remark::Adjusted));
                let problem =
                    format!("{origin} is {text:?}, which is not a number of type {}", self.data_type);
                if value.is_none() {
                    warn(Code::NodataDropped, format!("{problem}: it is dropped"));
                }
                candidates.push(Candidate { name, origin, text: item.value.clone(), value, problem });
            }
        }
        (candidates, background)
    }

    fn sources(
        &self,
        candidates: &[Candidate],
        winner: Option<usize>,
        sentinel: Option<&FillValue>,
    ) -> Vec<FillSource> {
        let outcome = |index: usize, candidate: &Candidate| match (&candidate.value, sentinel) {
            (None, _) => Outcome::Dropped(candidate.problem.clone()),
            (Some(_), _) if winner == Some(index) => Outcome::Used,
            (Some(value), Some(sentinel)) if self.is_same(value, sentinel) => Outcome::Kept,
            _ => Outcome::Dropped(DIFFERS.into()),
        };
        let source = |(index, candidate): (usize, &Candidate)| FillSource {
            origin: candidate.origin.clone(),
            text: candidate.text.clone(),
            outcome: outcome(index, candidate),
        };
        candidates.iter().enumerate().map(source).collect()
    }

    /// Whether two values mask the same elements: NaN is equal to NaN, and 0 to -0.
    fn is_same(&self, a: &FillValue, b: &FillValue) -> bool {
        let number = |value: &FillValue| value.to_f64(self.data_type).filter(|_| self.data_type.is_float());
        match (number(a), number(b)) {
            (Some(a), Some(b)) => a == b || a.is_nan() && b.is_nan(),
            _ => a == b,
        }
    }

    fn json(&self, value: &FillValue) -> Option<Value> {
        number_json(self.data_type, value)
    }

    /// Returns the attributes by which readers mask, and the nodata text of GDAL.
    fn attributes(&self, candidates: &[Candidate], sentinel: Option<&FillValue>) -> Map<String, Value> {
        let mut attributes = Map::new();
        if let Some(text) = &self.ifd.gdal_nodata {
            attributes.insert("gdal_no_data".into(), text.as_str().into());
        }
        let Some(sentinel) = sentinel else { return attributes };
        if self.format == ZarrFormat::V3
            && let Some(value) = fill_value_attribute::encode(sentinel, self.data_type)
        {
            attributes.insert("_FillValue".into(), value);
        }
        let agrees = |candidate: &Candidate| {
            candidate.name == "missing_value"
                && candidate.value.as_ref().is_some_and(|value| self.is_same(value, sentinel))
        };
        if candidates.iter().any(agrees)
            && let Some(number) = self.json(sentinel).filter(Value::is_number)
        {
            attributes.insert("missing_value".into(), number);
        }
        attributes
    }

    fn duplicates(&self, sentinel: Option<&FillValue>) -> BTreeSet<String> {
        let Some(sentinel) = sentinel else { return BTreeSet::new() };
        let is_repeated = |name: &str, text: &str| {
            name.split_once('#').is_some_and(|(_, last)| ITEMS.contains(&last))
                && number::read(text, self.data_type, false)
                    .value
                    .is_some_and(|value| self.is_same(&value, sentinel))
        };
        let items = self.ifd.gdal_metadata.iter().filter(|item| is_repeated(&item.name, &item.value));
        items.map(|item| item.name.clone()).collect()
    }
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
        assert!(matches!(beside("1", "none"), Outcome::Dropped(why) if why.contains("not a number")));
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
