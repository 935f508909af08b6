//! Attributes of an image's array: the items of GDAL_METADATA, and tags under the names that GDAL gives them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use virtualize_remedy::Code;
use virtualize_tiff::model::{GdalItem, GeoKey, Ifd, Value as TagValue};
use virtualize_zarr::DataType;

use super::crs::Heights;
use super::image::Geometry;
use super::nodata::{Nodata, atof};
use crate::cf::packing::is_time_unit;
use crate::source_attribute::float_json;
use crate::{Diagnostic, Severity};

/// Names with a meaning to readers: attributes of CF and the NetCDF conventions that change or relate data, those of xarray
/// and rioxarray, and those written here. Text under such a name comes from any program, so that it gets the prefix `gdal_`.
/// So do names that start with [`RESERVED_PREFIXES`].
const RESERVED: [&str; 47] = [
    "actual_range",
    "add_offset",
    "ancillary_variables",
    "axis",
    "bounds",
    "calendar",
    "cell_measures",
    "climatology",
    "color_map",
    "compress",
    "coordinates",
    "crs",
    "dtype",
    "external_variables",
    "extra_samples",
    "fill_value",
    "flag_masks",
    "flag_meanings",
    "flag_values",
    "formula_terms",
    "gdal_no_data",
    "geometry",
    "grid_mapping",
    "instance_dimension",
    "leap_month",
    "leap_year",
    "long_name",
    "mask",
    "mask_of",
    "missing_value",
    "month_lengths",
    "multiscales",
    "nodata",
    "nodatavals",
    "node_coordinates",
    "node_count",
    "offsets",
    "photometric_interpretation",
    "positive",
    "sample_dimension",
    "scale_factor",
    "scales",
    "subfile_type",
    "transform",
    "units",
    "unittype",
    "zarr_conventions",
];

/// Starts of names with a meaning to readers (`_FillValue`, `_Unsigned`, `_ARRAY_DIMENSIONS`, `_NCZARR_ARRAY`) and to Zarr
/// conventions, and limits of valid values.
const RESERVED_PREFIXES: [&str; 5] = ["_", "spatial:", "proj:", "valid_", "units_"];

/// Tags that GDAL shows, with the names it gives them.
const TAGS: [(u16, &str); 14] = [
    (269, "TIFFTAG_DOCUMENTNAME"),
    (270, "TIFFTAG_IMAGEDESCRIPTION"),
    (280, "TIFFTAG_MINSAMPLEVALUE"),
    (281, "TIFFTAG_MAXSAMPLEVALUE"),
    (282, "TIFFTAG_XRESOLUTION"),
    (283, "TIFFTAG_YRESOLUTION"),
    (296, "TIFFTAG_RESOLUTIONUNIT"),
    (305, "TIFFTAG_SOFTWARE"),
    (306, "TIFFTAG_DATETIME"),
    (315, "TIFFTAG_ARTIST"),
    (316, "TIFFTAG_HOSTCOMPUTER"),
    (33432, "TIFFTAG_COPYRIGHT"),
    (50908, "TIFF_RSID"),
    (50909, "GEO_METADATA"),
];

/// Maximum number of colours of a palette, and of values of a tag, that are written.
const COLORS: usize = 256;

/// Inputs of the attributes of an image.
pub(super) struct Described<'a> {
    pub(super) ifd: &'a Ifd,
    /// The image of which this one is an overview. Its scale, offset and unit apply to overviews that declare none.
    pub(super) main: Option<&'a Ifd>,
    pub(super) geometry: &'a Geometry,
    pub(super) nodata: &'a Nodata,
    pub(super) data_type: &'a DataType,
    /// Path of the array, for diagnostics.
    pub(super) path: &'a str,
}

impl Described<'_> {
    /// Returns the attributes of the array, except for georeferencing.
    pub(super) fn attributes(&self, diagnostics: &mut Vec<Diagnostic>) -> Map<String, Value> {
        let Self { ifd, nodata, geometry, .. } = self;
        let mut attributes = Map::new();
        for (tag, name) in TAGS {
            if let Some(value) = ifd.tags.get(&tag).and_then(tag_json) {
                attributes.insert(name.into(), value);
            }
        }
        let raster_type = ifd.geo.as_ref().and_then(|geo| geo.keys.get(&1025));
        match raster_type {
            Some(GeoKey::Short(2)) => attributes.insert("AREA_OR_POINT".into(), "Point".into()),
            Some(_) => attributes.insert("AREA_OR_POINT".into(), "Area".into()),
            None => None,
        };
        add_colors(ifd, &mut attributes);
        let is_shown = |item: &&GdalItem| {
            let of_nodata =
                item.domain.is_empty() && matches!(item.name.as_str(), "_FillValue" | "missing_value");
            !of_nodata && !nodata.duplicates.contains(&item.name) && !is_role(item)
        };
        let items: Vec<&GdalItem> = ifd.gdal_metadata.iter().filter(is_shown).collect();
        add_items(&items, geometry, &mut attributes);
        let mut omit = |severity, message: String| {
            diagnostics.push(Diagnostic::new(severity, Code::AttributeOmitted, self.path, message));
        };
        if self.is_sign_changed() {
            let message = "item _Unsigned of GDAL_METADATA (42112) is not applied: GDAL ignores it, but rioxarray applies it with mask_and_scale=True";
            omit(Severity::Warning, message.to_owned());
        }
        let bands = self.geometry.bands;
        let of_dataset = |item: &&GdalItem| item.domain.is_empty() && item.sample.is_none();
        let mut of_dataset = self.ifd.gdal_metadata.iter().rev().filter(of_dataset);
        if let Some(item) = of_dataset.find(|item| item.name == "NODATA_VALUES")
            && item.value.split_ascii_whitespace().count() as u64 == bands
        {
            let message = "item NODATA_VALUES of GDAL_METADATA (42112) is not applied: GDAL masks the pixels in which each band has its value";
            omit(Severity::Warning, message.to_owned());
        }
        if let Some(map) = ifd.image.as_ref().ok().and_then(|image| image.color_map.as_ref())
            && map.len() / 3 > COLORS
        {
            let message =
                format!("ColorMap (320) of {} colors is omitted: the limit is {COLORS}", map.len() / 3);
            omit(Severity::Warning, message);
        }
        let texts = |role: &str| by_band(&self.ifd.gdal_metadata, role, bands);
        let is_declared = ["scale", "offset", "unittype"].iter().any(|role| declares(self.ifd, role));
        let inherited = self.main.filter(|_| !is_declared);
        let main = inherited.unwrap_or(self.ifd);
        let heights = Heights::of(main, bands);
        let main_texts = |role: &str| by_band(&main.gdal_metadata, role, bands);
        let names =
            [("long_name", texts("description"), None), ("units", main_texts("unittype"), heights.unit)];
        for (name, texts, default) in names {
            if default.is_none() && texts.iter().all(Option::is_none) {
                continue;
            }
            let text = |text: Option<String>| text.unwrap_or_else(|| default.unwrap_or_default().to_owned());
            let list: Vec<String> = texts.into_iter().map(text).collect();
            // xarray decodes such numbers, and masks those of a list of such units as times.
            let is_time = name == "units" && list.iter().any(|unit| is_time_unit(unit));
            let value = if bands == 1 { json!(list.first()) } else { json!(list) };
            if is_time && inherited.is_none() {
                omit(
                    Severity::Info,
                    format!(
                        "unit {value}: readers would decode the numbers to times, so that the unit is the attribute unittype"
                    ),
                );
            }
            attributes.insert(if is_time { "unittype" } else { name }.into(), value);
        }
        let (scales, offsets): (Vec<f64>, Vec<f64>) = packing(main, bands).into_iter().unzip();
        if scales.iter().chain(&offsets).all(|number| number.is_finite()) {
            add_packing(&scales, &offsets, &mut attributes);
        } else if inherited.is_none() {
            let message = "scale and offset are not applied: they are not finite";
            omit(Severity::Warning, message.to_owned());
        };
        attributes.extend(nodata.attributes.clone());
        attributes
    }

    /// Whether rioxarray reads integers of the other sign. It knows the items of the image and of the first band.
    fn is_sign_changed(&self) -> bool {
        let items = || {
            self.ifd.gdal_metadata.iter().filter(|item| item.domain.is_empty() && item.name == "_Unsigned")
        };
        let of_band = items().rfind(|item| item.sample == Some(0) && !is_role(item));
        let Some(item) = of_band.or_else(|| items().rfind(|item| item.sample.is_none())) else {
            return false;
        };
        self.data_type.is_integer() && self.data_type.is_signed_integer() == (item.value == "true")
    }
}

fn is_role(item: &GdalItem) -> bool {
    ["scale", "offset", "unittype", "description"].iter().any(|role| has_role(item, role))
}

/// Whether an item has a role. GDAL ignores the case of roles, and only bands have any; it skips items about the file.
fn has_role(item: &GdalItem, role: &str) -> bool {
    !item.domain.eq_ignore_ascii_case("IMAGE_STRUCTURE")
        && item.sample.is_some()
        && item.role.as_ref().is_some_and(|found| found.eq_ignore_ascii_case(role))
}

fn tag_json(value: &TagValue) -> Option<Value> {
    match value {
        TagValue::Text(texts) => Some(texts.join("\n").into()),
        TagValue::Unsigned(numbers) => one_or_all(numbers.iter().map(|number| Value::from(*number))),
        TagValue::Signed(numbers) => one_or_all(numbers.iter().map(|number| Value::from(*number))),
        TagValue::Float(numbers) => one_or_all(numbers.iter().map(|number| float_json(*number))),
        TagValue::Rational(ratios) => {
            one_or_all(ratios.iter().map(|(n, d)| float_json(f64::from(*n) / f64::from(*d))))
        }
        TagValue::SignedRational(ratios) => {
            one_or_all(ratios.iter().map(|(n, d)| float_json(f64::from(*n) / f64::from(*d))))
        }
        TagValue::Bytes(_) => None,
    }
}

fn one_or_all(values: impl Iterator<Item = Value>) -> Option<Value> {
    let mut values: Vec<Value> = values.take(COLORS).collect();
    if values.len() == 1 { values.pop() } else { (!values.is_empty()).then(|| values.into()) }
}

fn add_colors(ifd: &Ifd, attributes: &mut Map<String, Value>) {
    let Ok(image) = &ifd.image else { return };
    if let Some(name) = subfile_type(image.subfile_type) {
        attributes.insert("subfile_type".into(), name.into());
    }
    if let Some(name) = image.photometric.and_then(photometric) {
        attributes.insert("photometric_interpretation".into(), name.into());
    }
    if !image.extra_samples.is_empty() {
        let names: Vec<&str> = image
            .extra_samples
            .iter()
            .map(|code| match *code {
                0 => "unspecified",
                1 => "associated alpha",
                2 => "unassociated alpha",
                _ => "unknown",
            })
            .collect();
        attributes.insert("extra_samples".into(), json!(names));
    }
    let Some(map) = &image.color_map else { return };
    let count = map.len() / 3;
    if count == 0 || count > COLORS {
        return;
    }
    let channels: Vec<&[u16]> = map.chunks_exact(count).collect();
    attributes.insert(
        "color_map".into(),
        json!({ "red": channels.first(), "green": channels.get(1), "blue": channels.get(2) }),
    );
}

/// Returns the kind of a directory (NewSubfileType); `None` for a full image.
fn subfile_type(bits: u32) -> Option<&'static str> {
    match bits & 0b111 {
        0 => None,
        1 | 3 => Some("reduced image"),
        2 => Some("page"),
        bits if bits & 1 == 0 => Some("transparency mask"),
        _ => Some("transparency mask of a reduced image"),
    }
}

/// Returns the name of a PhotometricInterpretation.
pub(super) fn photometric(code: u16) -> Option<&'static str> {
    Some(match code {
        0 => "WhiteIsZero",
        1 => "BlackIsZero",
        2 => "RGB",
        3 => "RGB Palette",
        4 => "Transparency mask",
        5 => "CMYK",
        6 => "YCbCr",
        8 => "CIELab",
        9 => "ICCLab",
        10 => "ITULab",
        32803 => "CFA",
        32844 => "LogL",
        32845 => "LogLuv",
        34892 => "LinearRaw",
        _ => return None,
    })
}

/// Adds the items of the default domain under their names, those of another domain as an object under the domain's name.
/// Items of the whole dataset come before those of bands; items of bands that do not exist are skipped.
fn add_items(items: &[&GdalItem], geometry: &Geometry, attributes: &mut Map<String, Value>) {
    let bands = geometry.bands;
    let of_all = items.iter().filter(|item| item.sample.is_none());
    let of_bands = items.iter().filter(|item| item.sample.is_some_and(|band| u64::from(band) < bands));
    let whole: BTreeSet<(&str, &str)> =
        of_all.clone().map(|item| (item.domain.as_str(), item.name.as_str())).collect();
    let (plain, of_domains): (Vec<&GdalItem>, Vec<_>) =
        of_all.chain(of_bands).partition(|item| item.domain.is_empty());
    for item in plain {
        put(attributes, &free_name(&item.name), item, &whole, bands);
    }
    let taken: BTreeSet<String> = attributes.keys().cloned().collect();
    for item in of_domains {
        let domain = free_name(&item.domain);
        let domain = if taken.contains(&domain) { format!("gdal_{domain}") } else { domain };
        let group = attributes.entry(domain).or_insert_with(|| json!({}));
        if let Value::Object(group) = group {
            put(group, &item.name, item, &whole, bands);
        }
    }
}

fn free_name(name: &str) -> String {
    let is_reserved =
        RESERVED.contains(&name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    if is_reserved { format!("gdal_{name}") } else { name.to_owned() }
}

/// Inserts an item. Items of one band among several become an object by the band's number, from 1; its name is
/// `NAME_by_band` if the whole image has an item of the same name. `whole` are the domains and names of those.
fn put(
    target: &mut Map<String, Value>,
    name: &str,
    item: &GdalItem,
    whole: &BTreeSet<(&str, &str)>,
    bands: u64,
) {
    let number = || item.value.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    let value = match number() {
        Some(number) if item.name.starts_with("STATISTICS_") => float_json(number),
        _ => item.value.clone().into(),
    };
    let is_other = bands > 1 && target.get(name).is_some_and(|value| !value.is_object());
    let is_taken = is_other || whole.contains(&(item.domain.as_str(), item.name.as_str()));
    let Some(band) = item.sample.filter(|_| bands > 1 || is_taken) else {
        target.insert(name.to_owned(), value);
        return;
    };
    let name = if is_taken { format!("{name}_by_band") } else { name.to_owned() };
    let by_band = target.entry(name).or_insert_with(|| json!({}));
    if let Value::Object(by_band) = by_band {
        by_band.insert((u64::from(band) + 1).to_string(), value);
    }
}

/// Adds `scale_factor` and `add_offset` if all bands agree; else `scales` and `offsets` by band, which readers do not apply.
fn add_packing(scales: &[f64], offsets: &[f64], attributes: &mut Map<String, Value>) {
    let identity = scales.iter().all(|scale| *scale == 1.0) && offsets.iter().all(|offset| *offset == 0.0);
    let (Some(scale), Some(offset)) = (scales.first(), offsets.first()) else { return };
    if identity {
        return;
    }
    if scales.iter().all(|other| other == scale) && offsets.iter().all(|other| other == offset) {
        attributes.insert("scale_factor".into(), float_json(*scale));
        attributes.insert("add_offset".into(), float_json(*offset));
    } else {
        attributes.insert("scales".into(), scales.iter().copied().map(float_json).collect());
        attributes.insert("offsets".into(), offsets.iter().copied().map(float_json).collect());
    }
}

/// Returns scale and offset of each band, or those of heights, which have one band.
pub(super) fn packing(ifd: &Ifd, bands: u64) -> Vec<(f64, f64)> {
    if let Some(packing) = Heights::of(ifd, bands).packing {
        return vec![packing];
    }
    let number = |text: Option<String>, default| text.map_or(default, |text| atof(&text));
    let [scales, offsets] = ["scale", "offset"].map(|role| by_band(&ifd.gdal_metadata, role, bands));
    scales.into_iter().zip(offsets).map(|(scale, offset)| (number(scale, 1.0), number(offset, 0.0))).collect()
}

/// Returns whether an image declares a role for any band.
pub(super) fn declares(ifd: &Ifd, role: &str) -> bool {
    ifd.gdal_metadata.iter().any(|item| has_role(item, role))
}

/// Returns the descriptions of the bands, empty for bands without one; `None` if no band has one.
pub(super) fn band_names(items: &[GdalItem], bands: u64) -> Option<Vec<String>> {
    let names: Vec<String> =
        by_band(items, "description", bands).into_iter().map(Option::unwrap_or_default).collect();
    names.iter().any(|name| !name.is_empty()).then_some(names)
}

/// Returns the texts of a role by band. Of several for one band, the last counts.
fn by_band(items: &[GdalItem], role: &str, bands: u64) -> Vec<Option<String>> {
    let of_role = items.iter().filter(|item| has_role(item, role));
    let texts: BTreeMap<u64, &str> =
        of_role.filter_map(|item| item.sample.map(|band| (u64::from(band), item.value.as_str()))).collect();
    (0..bands).map(|band| texts.get(&band).map(|text| (*text).to_owned())).collect()
}
