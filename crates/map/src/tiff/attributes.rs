//! Attributes of an image's array: the items of GDAL_METADATA, and tags under the names that GDAL gives them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use virtualize_remedy::Code;
use virtualize_tiff::model::{GdalItem, GeoKey, Ifd, Image, Value as TagValue};
use virtualize_zarr::DataType;

use super::crs::Heights;
use super::georeference::RASTER_TYPE;
use super::image::Geometry;
use super::nodata::{Nodata, atof};
use crate::cf::packing::is_time_unit;
use crate::report::float_json;
use crate::{Diagnostic, Severity};

/// Names with a meaning to readers: attributes of CF and the NetCDF conventions that change or relate data, those of xarray
/// and rioxarray, and those written here. Text under such a name comes from any program, so that it gets the prefix `gdal_`.
/// So do names that start with [`RESERVED_PREFIXES`].
const RESERVED: &str = "\
    actual_range add_offset ancillary_variables axis bounds calendar cell_measures climatology color_map \
    compress coordinates crs dtype external_variables extra_samples fill_value flag_masks flag_meanings \
    flag_values formula_terms gdal_no_data geometry grid_mapping instance_dimension leap_month leap_year \
    long_name mask mask_of missing_value month_lengths multiscales nodata nodatavals node_coordinates \
    node_count offsets photometric_interpretation positive sample_dimension scale_factor scales \
    subfile_type transform units unittype zarr_conventions";

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
        let Self { ifd, .. } = self;
        let mut attributes = self.stored();
        let mut omit = |severity, message: String| {
            diagnostics.push(Diagnostic::new(severity, Code::AttributeOmitted, self.path, message));
        };
        // rioxarray knows the items of the image and of the first band.
        let unsigned =
            || ifd.gdal_metadata.iter().filter(|item| item.domain.is_empty() && item.name == "_Unsigned");
        let of_band = unsigned().rfind(|item| item.sample == Some(0) && !is_role(item));
        if let Some(item) = of_band.or_else(|| unsigned().rfind(|item| item.sample.is_none()))
            && self.data_type.is_integer()
            && self.data_type.is_signed_integer() == (item.value == "true")
        {
            let message = "item _Unsigned of GDAL_METADATA (42112) is not applied: GDAL ignores it, but rioxarray applies it with mask_and_scale=True";
            omit(Severity::Warning, message.to_owned());
        }
        let bands = self.geometry.bands;
        let of_dataset = |item: &&GdalItem| item.domain.is_empty() && item.sample.is_none();
        let mut of_dataset = ifd.gdal_metadata.iter().rev().filter(of_dataset);
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
        let is_declared = ["scale", "offset", "unittype"].iter().any(|role| declares(ifd, role));
        let inherited = self.main.filter(|_| !is_declared);
        let main = inherited.unwrap_or(ifd);
        let unit = Heights::of(main, bands).unit;
        for (name, of, role, default) in
            [("long_name", *ifd, "description", None), ("units", main, "unittype", unit)]
        {
            let texts = by_band(&of.gdal_metadata, role, bands);
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
        let packing = packing(main, bands);
        if !packing.iter().all(|(scale, offset)| scale.is_finite() && offset.is_finite()) {
            if inherited.is_none() {
                omit(Severity::Warning, "scale and offset are not applied: they are not finite".to_owned());
            }
        } else if packing.iter().any(|band| *band != (1.0, 0.0))
            && let Some((scale, offset)) = packing.first()
        {
            if packing.iter().all(|band| band == &(*scale, *offset)) {
                attributes.insert("scale_factor".into(), float_json(*scale));
                attributes.insert("add_offset".into(), float_json(*offset));
            } else {
                // Readers do not apply these.
                attributes
                    .insert("scales".into(), packing.iter().map(|(scale, _)| float_json(*scale)).collect());
                attributes.insert(
                    "offsets".into(),
                    packing.iter().map(|(_, offset)| float_json(*offset)).collect(),
                );
            }
        }
        attributes.extend(self.nodata.attributes.clone());
        attributes
    }

    /// Returns the attributes of tags and items that are not interpreted.
    fn stored(&self) -> Map<String, Value> {
        let mut attributes = Map::new();
        for (tag, name) in TAGS {
            let mut values: Vec<Value> = match self.ifd.tags.get(&tag) {
                Some(TagValue::Text(texts)) => vec![texts.join("\n").into()],
                Some(TagValue::Unsigned(numbers)) => numbers.iter().take(COLORS).map(|n| json!(n)).collect(),
                Some(TagValue::Signed(numbers)) => numbers.iter().take(COLORS).map(|n| json!(n)).collect(),
                Some(TagValue::Float(numbers)) => {
                    numbers.iter().take(COLORS).copied().map(float_json).collect()
                }
                Some(TagValue::Rational(ratios)) => {
                    let ratio = |(n, d): &(u32, u32)| float_json(f64::from(*n) / f64::from(*d));
                    ratios.iter().take(COLORS).map(ratio).collect()
                }
                Some(TagValue::SignedRational(ratios)) => {
                    let ratio = |(n, d): &(i32, i32)| float_json(f64::from(*n) / f64::from(*d));
                    ratios.iter().take(COLORS).map(ratio).collect()
                }
                Some(TagValue::Bytes(_)) | None => Vec::new(),
            };
            let value = if values.len() > 1 { Some(values.into()) } else { values.pop() };
            attributes.extend(value.map(|value| (name.to_owned(), value)));
        }
        let raster_type = self.ifd.geo.as_ref().and_then(|geo| geo.keys.get(&RASTER_TYPE));
        let names = raster_type.map(|key| if *key == GeoKey::Short(2) { "Point" } else { "Area" });
        attributes.extend(names.map(|name| ("AREA_OR_POINT".to_owned(), name.into())));
        if let Ok(image) = &self.ifd.image {
            add_colors(image, &mut attributes);
        }
        let is_shown = |item: &&GdalItem| {
            let of_nodata =
                item.domain.is_empty() && matches!(item.name.as_str(), "_FillValue" | "missing_value");
            !of_nodata && !self.nodata.duplicates.contains(&item.name) && !is_role(item)
        };
        // Items of the default domain have their names, those of another domain are an object under the domain's name. Items of
        // the whole dataset come before those of bands; items of bands that do not exist are skipped.
        let bands = self.geometry.bands;
        let items = self.ifd.gdal_metadata.iter().filter(is_shown);
        let of_all = items.clone().filter(|item| item.sample.is_none());
        let of_bands = items.filter(|item| item.sample.is_some_and(|band| u64::from(band) < bands));
        let whole: BTreeSet<(&str, &str)> =
            of_all.clone().map(|item| (item.domain.as_str(), item.name.as_str())).collect();
        let (plain, of_domains): (Vec<&GdalItem>, Vec<_>) =
            of_all.chain(of_bands).partition(|item| item.domain.is_empty());
        for item in plain {
            put(&mut attributes, &free_name(&item.name), item, &whole, bands);
        }
        let taken: BTreeSet<String> = attributes.keys().cloned().collect();
        for item in of_domains {
            let domain = free_name(&item.domain);
            let domain = if taken.contains(&domain) { format!("gdal_{domain}") } else { domain };
            if let Value::Object(group) = attributes.entry(domain).or_insert_with(|| json!({})) {
                put(group, &item.name, item, &whole, bands);
            }
        }
        attributes
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

/// Adds the attributes of tags that say what an image shows.
fn add_colors(image: &Image, attributes: &mut Map<String, Value>) {
    let subfile_type = match image.subfile_type & 0b111 {
        0 => None,
        1 | 3 => Some("reduced image"),
        2 => Some("page"),
        4 | 6 => Some("transparency mask"),
        _ => Some("transparency mask of a reduced image"),
    };
    let photometric = image.photometric.and_then(photometric);
    let named = [("subfile_type", subfile_type), ("photometric_interpretation", photometric)];
    let named = named.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.into())));
    attributes.extend(named);
    if !image.extra_samples.is_empty() {
        const KINDS: [&str; 3] = ["unspecified", "associated alpha", "unassociated alpha"];
        let kind = |code: &u16| *KINDS.get(usize::from(*code)).unwrap_or(&"unknown");
        attributes.insert("extra_samples".into(), image.extra_samples.iter().map(kind).collect());
    }
    let Some(map) = &image.color_map else { return };
    let count = map.len() / 3;
    if (1..=COLORS).contains(&count) {
        let channels: Vec<&[u16]> = map.chunks_exact(count).collect();
        let map = json!({ "red": channels.first(), "green": channels.get(1), "blue": channels.get(2) });
        attributes.insert("color_map".into(), map);
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

fn free_name(name: &str) -> String {
    let is_reserved = RESERVED.split(' ').any(|reserved| reserved == name)
        || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
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
