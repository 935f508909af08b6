//! Sidecars: files next to a TIFF in which GDAL's GTiff driver finds nodata, packing, position and metadata. They are merged into
//! the file before it is mapped, in GDAL's order of priority: `.aux.xml`; metadata of ArcGIS
//! for the coordinate reference system; the file's tags; world file.
//!
//! What a catalogue declares of the bands, as in the STAC extension `raster`, applies where the file declares nothing, and must
//! agree with what the file declares.

use serde::Deserialize;
use virtualize_remedy::{Code, Remedy};
use virtualize_tiff::model::{File, GdalItem, Ifd, Pam, SampleFormat};
use virtualize_tiff::{parse_arcgis_code, parse_pam, parse_world_file};

use super::attributes::{declares, packing};
use super::crs::{EPSG_CODES, Heights};
use super::georeference::{RASTER_TYPE, transform_of};
use super::nodata::atof;
use crate::{Diagnostic, Severity};

/// ModelPixelScale.
const MODEL_PIXEL_SCALE: u16 = 33550;

/// Metadata of ERDAS IMAGINE. GDAL ignores it if there is an `.aux.xml`.
const ERDAS: SidecarKind = SidecarKind::Unread("has metadata, such as nodata and position,");

/// What a sidecar contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SidecarKind {
    /// Metadata of GDAL.
    Pam,
    /// Transformation.
    World,
    /// Coordinate reference system in metadata of ArcGIS. Most files of such a name are none.
    Arcgis,
    /// What is not read, as a clause.
    Unread(&'static str),
}

/// A sidecar that exists.
#[derive(Clone, PartialEq, Debug)]
pub struct Sidecar {
    /// Name of the file, without its folder.
    pub name: String,
    /// What it contains.
    pub kind: SidecarKind,
    /// Content, if its kind is read, or the reason why it could not be.
    pub content: Result<String, String>,
}

/// Returns the names of the sidecars that GDAL looks for, those of higher priority first. GDAL ignores the case of letters, or
/// tries lowercase and uppercase extensions in folders of many files.
pub fn sidecar_names(name: &str) -> Vec<(String, SidecarKind)> {
    const MASK: SidecarKind = SidecarKind::Unread("masks pixels");
    const OVERVIEWS: SidecarKind = SidecarKind::Unread("has overviews");
    const POSITION: SidecarKind = SidecarKind::Unread("positions the image");
    const RPC: SidecarKind = SidecarKind::Unread("has rational polynomials, which position the image");
    let appended = |suffix: &str, kind| (format!("{name}{suffix}"), kind);
    let mut names = vec![
        appended(".aux.xml", SidecarKind::Pam),
        appended(".aux", ERDAS),
        appended(".msk", MASK),
        appended(".ovr", OVERVIEWS),
    ];
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let mut letters = extension.chars();
    if let (Some(first), Some(last)) = (letters.next(), letters.next_back()) {
        let of_three = format!("{first}{last}w");
        for world in [of_three, format!("{extension}w"), "wld".to_owned()] {
            names.push((format!("{stem}.{world}"), SidecarKind::World));
        }
    }
    let replaced = |suffix: &str, kind| (format!("{stem}{suffix}"), kind);
    names.extend([
        replaced(".tab", POSITION),
        replaced(".aux", ERDAS),
        replaced(".xml", SidecarKind::Arcgis),
        replaced("_RPC.TXT", RPC),
        replaced("_rpc.txt", RPC),
        replaced(".RPB", RPC),
        replaced(".rpc", RPC),
    ]);
    // Pléiades: RPC_x.XML belongs to IMG_x.TIF, and to its tiles IMG_x_R1C1.TIF.
    if let Some((prefix, scene)) = stem.split_at_checked(4)
        && prefix.eq_ignore_ascii_case("IMG_")
    {
        let of_all = scene.rsplit_once("_R").filter(|(_, tile)| tile.contains('C')).map(|(scene, _)| scene);
        names.extend(
            [Some(scene), of_all].into_iter().flatten().map(|scene| (format!("RPC_{scene}.XML"), RPC)),
        );
    }
    names
}

/// Merges sidecars into a file. `sidecars` are in the order of [`sidecar_names`]; `most` is the maximum number of XML elements.
/// Returns a note on each sidecar that is read, and a warning of each one that GDAL reads but this function does not.
pub fn merge_sidecars(file: &mut File, sidecars: &[Sidecar], most: u64) -> Vec<Diagnostic> {
    let mut merge = Merge { file, most, has_points: false, diagnostics: Vec::new() };
    let has_pam = sidecars.iter().any(|sidecar| sidecar.kind == SidecarKind::Pam);
    for sidecar in sidecars.iter().filter(|sidecar| !has_pam || sidecar.kind != ERDAS) {
        let content = match (&sidecar.kind, &sidecar.content) {
            (SidecarKind::Unread(what), _) => {
                let what = format!("{what} for GDAL, but is not read");
                merge.report(Severity::Warning, sidecar, what);
                continue;
            }
            (SidecarKind::Arcgis, Err(_)) => continue,
            (_, Err(problem)) => {
                merge.report(Severity::Warning, sidecar, format!("could not be read: {problem}"));
                continue;
            }
            (_, Ok(content)) => content,
        };
        match sidecar.kind {
            SidecarKind::Pam => merge.pam(sidecar, content),
            SidecarKind::World => {
                // All images without a transformation have that of a world file.
                let has_transform =
                    |ifd: &Ifd| ifd.geo.as_ref().is_some_and(|geo| transform_of(geo).is_some());
                let images = merge.file.ifds.iter_mut().filter(|ifd| ifd.is_page() && !has_transform(ifd));
                let mut images = images.peekable();
                if images.peek().is_none() {
                    continue;
                }
                let Some(transform) = parse_world_file(content) else {
                    let problem = "is not a world file, and is not read";
                    merge.report(Severity::Warning, sidecar, problem);
                    continue;
                };
                images.for_each(|ifd| ifd.geo.get_or_insert_default().sidecar_transform = Some(transform));
                merge.share_position();
                merge.report(Severity::Info, sidecar, "is read: position");
                // GDAL has both, and the coordinate reference system of the points is theirs only.
                if std::mem::take(&mut merge.has_points)
                    && let Some(geo) = merge.file.ifds.first_mut().and_then(|main| main.geo.as_mut())
                {
                    geo.sidecar_srs = None;
                    let problem = "positions the image in another way than the control points of the .aux.xml, which are omitted";
                    merge.report(Severity::Warning, sidecar, problem);
                }
            }
            SidecarKind::Arcgis => {
                // GDAL prefers the coordinate reference system of ArcGIS to the GeoKeys.
                let Some(code) = parse_arcgis_code(content, most) else { continue };
                let has_srs = |ifd: &Ifd| ifd.geo.as_ref().is_some_and(|geo| geo.sidecar_srs.is_some());
                let images = merge.file.ifds.iter_mut().filter(|ifd| ifd.is_page() && !has_srs(ifd));
                let mut images = images.peekable();
                if images.peek().is_none() {
                    continue;
                }
                // Codes of ESRI's own systems are larger.
                let authority = if u64::from(code) > *EPSG_CODES.end() { "ESRI" } else { "EPSG" };
                let srs = format!("{authority}:{code}");
                images.for_each(|ifd| ifd.geo.get_or_insert_default().sidecar_srs = Some(srs.clone()));
                merge.share_position();
                merge.report(Severity::Info, sidecar, "is read: coordinate reference system");
            }
            SidecarKind::Unread(_) => {}
        }
    }
    merge.diagnostics
}

struct Merge<'a> {
    file: &'a mut File,
    most: u64,
    /// Whether the first image has the control points of an `.aux.xml`.
    has_points: bool,
    diagnostics: Vec<Diagnostic>,
}

impl Merge<'_> {
    fn report(&mut self, severity: Severity, sidecar: &Sidecar, message: impl std::fmt::Display) {
        let message = format!("{} {message}", sidecar.name);
        self.diagnostics.push(Diagnostic::new(severity, Code::TiffSidecar, "", message));
    }

    /// Merges an `.aux.xml`, which describes the first image.
    fn pam(&mut self, sidecar: &Sidecar, content: &str) {
        let pam = match parse_pam(content, self.most) {
            Ok(pam) => pam,
            Err(problem) => {
                return self.report(Severity::Warning, sidecar, format!("could not be read: {problem}"));
            }
        };
        let Some(main) = self.file.ifds.first_mut() else { return };
        let mut used = Vec::new();
        let mut problems = Vec::new();
        nodata(main, &pam, &mut used, &mut problems);
        bands(main, &pam, &mut used);
        if !pam.items.is_empty() {
            used.push("metadata");
            pam.items.iter().for_each(|item| put(&mut main.gdal_metadata, item));
        }
        position(main, &pam, &mut used, &mut problems);
        if pam
            .bands
            .values()
            .any(|band| band.color.as_ref().is_some_and(|name| name.eq_ignore_ascii_case("alpha")))
        {
            problems
                .push("declares an alpha band, which masks pixels for GDAL, but is not applied".to_owned());
        }
        if pam.items.iter().any(|item| item.domain == "RPC") {
            problems.push("has rational polynomials, which are not read".to_owned());
        }
        if pam.has_subdatasets {
            problems.push("describes further images of the file, which is not read".to_owned());
        }
        self.has_points = used.contains(&"control points");
        if used.contains(&"position") || used.contains(&"coordinate reference system") {
            self.share_position();
        }
        if !used.is_empty() {
            self.report(Severity::Info, sidecar, format!("is read: {}", used.join(", ")));
        }
        for problem in problems {
            self.report(Severity::Warning, sidecar, problem);
        }
    }

    /// Lets overviews and masks have the position of the main image, at their scale.
    fn share_position(&mut self) {
        self.file.ifds.iter_mut().skip(1).filter(|ifd| !ifd.is_page()).for_each(|ifd| ifd.geo = None);
    }
}

/// Replaces the nodata value, if it is the same for all bands.
fn nodata(main: &mut Ifd, pam: &Pam, used: &mut Vec<&'static str>, problems: &mut Vec<String>) {
    let Ok(image) = &main.image else { return };
    let samples = u32::from(image.samples_per_pixel);
    let of_band = |sample| pam.bands.get(&sample).and_then(|band| band.nodata.as_ref());
    if (0..samples).all(|sample| of_band(sample).is_none()) {
        return;
    }
    let values: Vec<_> = (0..samples).map(|sample| of_band(sample).or(main.gdal_nodata.as_ref())).collect();
    let number = |text: &Option<&String>| text.and_then(|text| text.trim().parse::<f64>().ok());
    let same = |other: &&Option<&String>| {
        values.first().is_some_and(|first| {
            let (one, two) = (number(first), number(other));
            first == *other
                || one.is_some() && one == two
                || one.zip(two).is_some_and(|(a, b)| a.is_nan() && b.is_nan())
        })
    };
    if values.iter().all(|value| same(&value)) {
        main.gdal_nodata = values.first().copied().flatten().cloned();
        used.push("nodata");
    } else {
        let texts: Vec<&str> = values.iter().map(|text| text.map_or("none", String::as_str)).collect();
        problems.push(format!(
            "gives the bands different nodata values ({}), which an array cannot have: none is used, and missing tiles read as 0",
            texts.join(", ")
        ));
        main.gdal_nodata = None;
    }
}

/// Appends scale, offset, unit and description of the bands as items of GDAL_METADATA, of which the last counts.
fn bands(main: &mut Ifd, pam: &Pam, used: &mut Vec<&'static str>) {
    for (sample, band) in &pam.bands {
        if let Some((scale, offset)) = band.packing {
            // Scale and offset of heights, which are those of the third axis, would take precedence.
            main.tags.remove(&MODEL_PIXEL_SCALE);
            add(main, *sample, "scale", format!("{scale:?}"));
            add(main, *sample, "offset", format!("{offset:?}"));
        }
        for (role, text) in
            [("unittype", &band.unit), ("description", &band.description), ("colorinterp", &band.color)]
        {
            text.iter().for_each(|text| add(main, *sample, role, (*text).clone()));
        }
    }
    let any = |has: fn(&virtualize_tiff::model::PamBand) -> bool| pam.bands.values().any(has);
    used.extend(any(|band| band.packing.is_some()).then_some("scale and offset"));
    used.extend(any(|band| band.unit.is_some()).then_some("unit"));
    used.extend(any(|band| band.description.is_some()).then_some("description"));
}

/// Appends an item of a band that has a role.
fn add(main: &mut Ifd, sample: u32, role: &str, value: String) {
    let (name, role) = (role.to_uppercase(), Some(role.to_owned()));
    main.gdal_metadata.push(GdalItem { domain: String::new(), name, sample: Some(sample), role, value });
}

/// Appends an item, in place of one of the same name.
fn put(items: &mut Vec<GdalItem>, item: &GdalItem) {
    let same = |other: &&mut GdalItem| {
        other.role.is_none()
            && (&other.domain, other.sample) == (&item.domain, item.sample)
            && other.name.eq_ignore_ascii_case(&item.name)
    };
    match items.iter_mut().find(same) {
        Some(other) => other.value.clone_from(&item.value),
        None => items.push(item.clone()),
    }
}

fn position(main: &mut Ifd, pam: &Pam, used: &mut Vec<&'static str>, problems: &mut Vec<String>) {
    if pam.has_arcgis_points {
        problems.push("has control points of ArcGIS, which are not read".to_owned());
    }
    if pam.transform.is_none() && pam.srs.is_none() && pam.points.is_none() {
        return;
    }
    let geo = main.geo.get_or_insert_default();
    let mut srs = pam.srs.clone();
    if let Some(transform) = pam.transform {
        if transform_of(geo).is_none() && !geo.tie_points.is_empty() {
            problems.push(
                "positions the image in another way than the control points of the file, which are omitted"
                    .to_owned(),
            );
        }
        geo.sidecar_transform = Some(transform);
        used.push("position");
    }
    match &pam.points {
        Some(_) if transform_of(geo).is_some() => {
            problems.push("has control points besides a transformation, which are not read".to_owned());
        }
        Some(points) => {
            // GDAL counts these from the corners of pixels.
            geo.keys.remove(&RASTER_TYPE);
            geo.tie_points = points.points.iter().map(|[i, j, x, y, z]| [*i, *j, 0.0, *x, *y, *z]).collect();
            (geo.pixel_scale, geo.transformation) = (None, None);
            srs = Some(points.srs.clone().unwrap_or_default());
            used.push("control points");
        }
        None => {}
    }
    if let Some(srs) = srs {
        geo.keys.retain(|key, _| *key == RASTER_TYPE);
        geo.sidecar_srs = Some(srs);
        used.push("coordinate reference system");
    }
}

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

#[cfg(test)]
mod tests {
    use virtualize_bytes::Endian;
    use virtualize_tiff::model::{Geo, GeoKey};

    use super::*;
    use crate::tiff::crs::Crs;
    use crate::tiff::tests::ifd;
    use crate::tiff::tests::image;
    use crate::tiff::tests::item;

    fn merged(sidecars: &[(&str, &str)], change: impl Fn(&mut Ifd)) -> (Ifd, Vec<String>) {
        let mut first = ifd(image(4, 4, 2, 8));
        change(&mut first);
        let mut file = File { endian: Endian::Little, big: false, ifds: vec![first], chain_error: None };
        let names = sidecar_names("a.tif");
        let sidecars: Vec<Sidecar> = sidecars
            .iter()
            .map(|(name, content)| {
                let (_, kind) = names.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).unwrap();
                Sidecar { name: (*name).to_owned(), kind: *kind, content: Ok((*content).to_owned()) }
            })
            .collect();
        let messages = merge_sidecars(&mut file, &sidecars, 99);
        let messages = messages
            .into_iter()
            .map(|diagnostic| format!("{:?} {}", diagnostic.severity, diagnostic.message));
        (file.ifds.remove(0), messages.collect())
    }

    fn pam(content: &str) -> (Ifd, Vec<String>) {
        let content = format!("<PAMDataset>{content}</PAMDataset>");
        merged(&[("a.tif.aux.xml", &content)], |ifd| {
            ifd.gdal_nodata = Some("5".to_owned());
            ifd.gdal_metadata = vec![item("A", "1")];
        })
    }

    #[test]
    fn bands_must_agree_on_nodata() {
        let band = |number: u8, value: &str| {
            format!("<PAMRasterBand band='{number}'><NoDataValue>{value}</NoDataValue></PAMRasterBand>")
        };
        let nodata = |content: &str| {
            let (ifd, messages) = pam(content);
            (ifd.gdal_nodata, messages.iter().any(|line| line.starts_with("Warning")))
        };
        assert_eq!(nodata(&(band(1, "7") + &band(2, "7.0"))), (Some("7".to_owned()), false));
        assert_eq!(
            nodata(&band(2, "5")),
            (Some("5".to_owned()), false),
            "the file's value applies to band 1"
        );
        assert_eq!(nodata(&band(1, "7")), (None, true));
        assert_eq!(nodata(&band(3, "7")), (Some("5".to_owned()), false), "no such band");
    }

    #[test]
    fn items_replace_those_of_the_file() {
        let (ifd, messages) = pam(
            "<Metadata><MDI key='a'>2</MDI><MDI key='B'>3</MDI></Metadata><PAMRasterBand band='2'><Scale>2</Scale></PAMRasterBand>",
        );
        let items: Vec<_> =
            ifd.gdal_metadata.iter().map(|item| (&*item.name, &*item.value, item.sample)).collect();
        assert_eq!(
            items,
            [("A", "2", None), ("SCALE", "2.0", Some(1)), ("OFFSET", "0.0", Some(1)), ("B", "3", None)]
        );
        assert_eq!(messages, ["Info a.tif.aux.xml is read: scale and offset, metadata"]);
    }

    #[test]
    fn tags_take_precedence_over_world_files_only() {
        let world = "1\n0\n0\n-1\n100\n200\n";
        let pam = "<PAMDataset><GeoTransform>9,1,0,9,0,-1</GeoTransform></PAMDataset>";
        let has_tags = |ifd: &mut Ifd| {
            ifd.geo = Some(Geo { transformation: Some([1.0; 16]), ..Geo::default() });
        };
        let of = |sidecars: &[(&str, &str)], change: &dyn Fn(&mut Ifd)| {
            merged(sidecars, change).0.geo.and_then(|geo| geo.sidecar_transform).map(|numbers| numbers[0])
        };
        assert_eq!(of(&[("a.tfw", world)], &|_| {}), Some(99.5));
        assert_eq!(of(&[("a.tfw", "junk"), ("a.wld", world)], &|_| {}), Some(99.5));
        assert_eq!(of(&[("a.tfw", world)], &has_tags), None);
        assert_eq!(of(&[("a.tif.aux.xml", pam), ("a.tfw", world)], &has_tags), Some(9.0));
    }

    /// GDAL has the transformation without a coordinate reference system, and the points with theirs.
    #[test]
    fn world_files_replace_control_points_of_pam() {
        let pam = "<PAMDataset><GCPList Projection='EPSG:4326'><GCP Pixel='1' Line='2' X='3' Y='4'/></GCPList></PAMDataset>";
        let (ifd, messages) = merged(&[("a.tif.aux.xml", pam), ("a.tfw", "1\n0\n0\n-1\n100\n200\n")], |_| {});
        let geo = ifd.geo.unwrap();
        assert_eq!((geo.sidecar_transform.map(|numbers| numbers[0]), geo.sidecar_srs), (Some(99.5), None));
        assert!(messages.iter().any(|line| line.starts_with("Warning a.tfw ")), "{messages:?}");
    }

    #[test]
    fn systems_of_arcgis_take_precedence_over_keys() {
        let xml = "<metadata><refSysInfo><RefSystem><refSysID><identCode code='32634'/></refSysID></RefSystem></refSysInfo></metadata>";
        let keys = |ifd: &mut Ifd| {
            let keys = [(1024, 1), (3072, 32633)].map(|(id, code)| (id, GeoKey::Short(code)));
            ifd.geo = Some(Geo { keys: keys.into(), ..Geo::default() });
        };
        let srs = |sidecars: &[(&str, &str)]| merged(sidecars, keys).0.geo.and_then(|geo| geo.sidecar_srs);
        assert_eq!(srs(&[("a.xml", xml)]).as_deref(), Some("EPSG:32634"));
        let pam = "<PAMDataset><SRS>EPSG:4326</SRS></PAMDataset>";
        assert_eq!(srs(&[("a.tif.aux.xml", pam), ("a.xml", xml)]).as_deref(), Some("EPSG:4326"));
    }

    #[test]
    fn what_is_not_read_is_reported() {
        for name in ["a.tif.msk", "a.tif.ovr", "a.tab", "a_rpc.txt", "a.RPB", "a.rpc"] {
            let (_, messages) = merged(&[(name, "")], |_| {});
            assert!(
                messages.len() == 1 && messages[0].starts_with(&format!("Warning {name}")),
                "{messages:?}"
            );
        }
        for content in [
            "<Subdataset/>",
            "<Metadata domain='RPC'><MDI key='LINE_OFF'>1</MDI></Metadata>",
            "<PAMRasterBand band='1'><ColorInterp>Alpha</ColorInterp></PAMRasterBand>",
            "<GeoTransform>1 2 3 4 5 6</GeoTransform>",
            "<GeoTransform>9,1,0,9,0,-1</GeoTransform><GCPList><GCP Pixel='1' Line='2' X='3' Y='4'/></GCPList>",
        ] {
            assert!(pam(content).1.iter().any(|line| line.starts_with("Warning")), "{content}");
        }
    }

    #[test]
    fn names_are_those_of_gdal() {
        let worlds = |name: &str| {
            let names = sidecar_names(name).into_iter().filter(|(_, kind)| *kind == SidecarKind::World);
            names.map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(worlds("a.b.tif"), ["a.b.tfw", "a.b.tifw", "a.b.wld"]);
        assert_eq!(worlds("a.tiff"), ["a.tfw", "a.tiffw", "a.wld"]);
        assert!(worlds("scene").is_empty() && worlds("scene.t").is_empty());
        let has = |name: &str, sidecar: &str| sidecar_names(name).iter().any(|(name, _)| name == sidecar);
        assert!(has("IMG_PHR1A_P_001.TIF", "RPC_PHR1A_P_001.XML"));
        assert!(has("IMG_PHR1A_P_001_R1C2.TIF", "RPC_PHR1A_P_001.XML"));
    }

    #[test]
    fn systems_are_wkt_or_codes() {
        let shown = |text: &str| {
            let crs = Crs::of(&Geo { sidecar_srs: Some(text.to_owned()), ..Geo::default() });
            let text =
                |name: &str| crs.attributes().get(name).and_then(|value| value.as_str().map(str::to_owned));
            (text("spatial_ref"), text("crs_wkt"), crs.problem.is_some(), crs.is_in_degrees)
        };
        let code = |text: &str| Some(text.to_owned());
        assert_eq!(shown("epsg:4326"), (code("EPSG:4326"), None, false, true));
        assert_eq!(shown("EPSG:32633"), (code("EPSG:32633"), None, false, false));
        assert_eq!(shown("EPSG:4326+5773"), (code("EPSG:4326+5773"), None, false, false));
        assert_eq!(shown("ESRI:54009"), (code("ESRI:54009"), None, false, false));
        let wkt = r#"GEOGCS["a]",UNIT["Degree",0.0174532925199433]]"#;
        assert_eq!(shown(wkt), (None, code(wkt), false, true));
        assert_eq!(shown(&format!("ESRI::{wkt}")), (None, code(wkt), false, true));
        let grads = r#"GEOGCRS["a",PRIMEM["Greenwich",0,ANGLEUNIT["degree",0.0174532925199433]],ANGLEUNIT["grad",0.0157079632679489]]"#;
        assert_eq!(shown(grads), (None, code(grads), false, false));
        for text in
            ["", "nonsense", "4326", "+proj=utm +zone=33", "PROJCS[broken", "urn:ogc:def:crs:EPSG::4326"]
        {
            assert_eq!(shown(text), (None, None, true, false), "{text}");
        }
    }
}
