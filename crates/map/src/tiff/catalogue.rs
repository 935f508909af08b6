//! What a catalogue declares of the bands of a TIFF: nodata, scale, offset and unit, as in the STAC extension `raster`. It applies
//! where the file declares nothing, and must agree with what the file declares.

use serde::Deserialize;
use virtualize_remedy::{Code, Remedy};
use virtualize_tiff::model::{File, Ifd, SampleFormat};

use super::attributes::{declares, packing};
use super::crs::Heights;
use super::number::atof;
use super::sidecars::add;
use crate::Diagnostic;

/// What a catalogue declares of a band.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeclaredBand {
    /// Nodata, as the text of a number.
    pub nodata: Option<String>,
    /// Scale.
    pub scale: Option<f64>,
    /// Offset.
    pub offset: Option<f64>,
    /// Unit.
    pub unit: Option<String>,
}

/// Merges what a catalogue declares into the first image of a file, before it is mapped. One band stands for all. Returns an
/// error for each contradiction.
pub fn merge_declared(file: &mut File, bands: &[DeclaredBand]) -> Vec<Diagnostic> {
    let Some(main) = file.ifds.first_mut() else { return Vec::new() };
    let Ok(image) = &main.image else { return Vec::new() };
    let (samples, is_float) =
        (usize::from(image.samples_per_pixel), image.sample_format.first() == Some(&SampleFormat::Float));
    let bands = match bands {
        [] => return Vec::new(),
        [band] => vec![band; samples],
        bands if bands.len() == samples => bands.iter().collect(),
        bands => {
            return vec![contradiction(&format!(
                "the catalogue describes {} bands, but the file has {samples}",
                bands.len()
            ))];
        }
    };
    let mut problems = Vec::new();
    problems.extend(merge_nodata(main, &bands, is_float));
    problems.extend(merge_packing(main, &bands));
    let has_unit = declares(main, "unittype") || Heights::of(main, bands.len() as u64).unit.is_some();
    for (sample, unit) in (0..).zip(&bands).filter_map(|(n, band)| Some((n, band.unit.clone()?))) {
        if !has_unit {
            add(main, sample, "unittype", unit);
        }
    }
    problems.iter().map(|problem| contradiction(problem)).collect()
}

fn contradiction(problem: &str) -> Diagnostic {
    let remedy = Remedy::advice("correct the catalogue, or list the files without it");
    Diagnostic::error(Code::Combine, "band_data", problem.to_owned()).with(remedy)
}

/// Returns why nodata cannot be that of the catalogue.
fn merge_nodata(main: &mut Ifd, bands: &[&DeclaredBand], is_float: bool) -> Option<String> {
    let mut declared = bands.iter().filter_map(|band| band.nodata.as_ref());
    let first = declared.next()?;
    let is_same = |one: &str, other: &str| {
        let (one, other) = (atof(one), atof(other));
        #[expect(clippy::cast_possible_truncation, reason = "writers round to the type of the pixels")]
        let is_rounded = || is_float && one as f32 == other as f32;
        one == other || (one.is_nan() && other.is_nan()) || is_rounded()
    };
    let own = main.gdal_nodata.as_deref().filter(|text| !text.is_empty());
    if let Some(other) = declared.find(|other| !is_same(first, other)) {
        return Some(format!("the catalogue declares nodata {first} and {other}, but an array has one"));
    }
    match own {
        Some(own) if is_same(own, first) => None,
        Some(own) => Some(format!("nodata is {own} in the file, but {first} in the catalogue")),
        None if bands.iter().any(|band| band.nodata.is_none()) => {
            Some(format!("the catalogue declares nodata {first} for some of the bands, but an array has one"))
        }
        None => {
            main.declared_nodata = Some(first.clone());
            None
        }
    }
}

/// Returns why scale and offset cannot be those of the catalogue.
fn merge_packing(main: &mut Ifd, bands: &[&DeclaredBand]) -> Option<String> {
    let count = bands.len() as u64;
    let is_declared =
        declares(main, "scale") || declares(main, "offset") || Heights::of(main, count).packing.is_some();
    let own = packing(main, count);
    #[expect(clippy::cast_possible_truncation, reason = "writers round to binary32")]
    let differs = |own: f64, declared: Option<f64>| declared.is_some_and(|it| own as f32 != it as f32);
    for (sample, (band, (scale, offset))) in (0..).zip(bands.iter().zip(own)) {
        let (by_catalogue, by_offset) = (band.scale, band.offset);
        for (name, own, declared) in [("scale", scale, by_catalogue), ("offset", offset, by_offset)] {
            if is_declared && differs(own, declared) {
                let declared = declared.unwrap_or_default();
                return Some(format!("{name} is {own} in the file, but {declared} in the catalogue"));
            }
        }
        if !is_declared && (by_catalogue.is_some() || by_offset.is_some()) {
            add(main, sample, "scale", format!("{:?}", by_catalogue.unwrap_or(1.0)));
            add(main, sample, "offset", format!("{:?}", by_offset.unwrap_or(0.0)));
        }
    }
    None
}
