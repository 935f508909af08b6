//! Georeferencing of HDF-EOS5 grids: axes and a grid mapping from the definition of the grid in StructMetadata.
//!
//! Keys and defaults are those of the HDF-EOS library, projections and their parameters those of the General Cartographic
//! Transformation Package (GCTP), on which it is based. Both are interpreted as GDAL does, with exceptions in
//! [`Grid::geodetic_keys`].

use std::collections::BTreeMap;

use virtualize_remedy::Code;
use virtualize_tiff::model::{Geo, GeoKey};
use virtualize_zarr::{Group, Node, node::join};

use super::Mapper;
use super::tree::Place;
use crate::report::{SourceAttribute, SourceValue};
use crate::tiff::georeference::{GRID_MAPPING, add_grid};

/// Names of the dimensions of a grid.
const X: &str = "XDim";
const Y: &str = "YDim";

/// GCTP projections with their method in GeoTIFF. Their parameters have the same positions.
const METHODS: [(&str, u16); 13] = [
    ("HE5_GCTP_ALBERS", 11),
    ("HE5_GCTP_LAMCC", 8),
    ("HE5_GCTP_MERCAT", 7),
    ("HE5_GCTP_PS", 15),
    ("HE5_GCTP_POLYC", 22),
    ("HE5_GCTP_TM", 1),
    ("HE5_GCTP_STEREO", 14),
    ("HE5_GCTP_LAMAZ", 10),
    ("HE5_GCTP_AZMEQD", 12),
    ("HE5_GCTP_GNOMON", 19),
    ("HE5_GCTP_ORTHO", 21),
    ("HE5_GCTP_SNSOID", 24),
    ("HE5_GCTP_ROBIN", 23),
];

/// The definition of a grid: values of StructMetadata by key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Grid(pub(super) BTreeMap<String, String>);

impl Grid {
    /// Keys that define a grid, next to its dimensions and fields.
    pub(super) const KEYS: [&str; 7] = [
        "UpperLeftPointMtrs",
        "LowerRightMtrs",
        "GridOrigin",
        "Projection",
        "ProjParams",
        "SphereCode",
        "ZoneCode",
    ];

    /// Returns size and position of a grid of `[columns, rows]`, and its coordinate reference system in GeoTIFF's terms.
    ///
    /// # Errors
    /// The key that prevents it, and why.
    fn geo(&self, [columns, rows]: [u64; 2]) -> Result<Geo, String> {
        let origin = self.0.get("GridOrigin").map_or("HE5_HDFE_GD_UL", String::as_str);
        if origin != "HE5_HDFE_GD_UL" {
            return Err(format!("GridOrigin is {origin}, not HE5_HDFE_GD_UL"));
        }
        let projection = self.0.get("Projection").map_or("missing", String::as_str);
        let is_geographic = projection == "HE5_GCTP_GEO";
        let corner = |key| match self.numbers(key)?.as_slice() {
            [x, y] if is_geographic => Ok([degrees(key, *x)?, degrees(key, *y)?]),
            [x, y] => Ok([*x, *y]),
            other => Err(format!("{key} has {} numbers, not 2", other.len())),
        };
        let ([left, upper], [right, lower]) = (corner("UpperLeftPointMtrs")?, corner("LowerRightMtrs")?);
        #[expect(clippy::cast_precision_loss, reason = "sizes of images")]
        let (width, height) = ((right - left) / columns as f64, (lower - upper) / rows as f64);
        if !(width > 0.0 && height != 0.0 && height.is_finite()) {
            return Err(format!("its corners ({left}, {upper}) and ({right}, {lower}) span no grid"));
        }
        let mut keys = if is_geographic {
            let latitudes = -90.0..=90.0;
            if !(latitudes.contains(&upper) && latitudes.contains(&lower)) {
                return Err(format!("its latitudes {upper} and {lower} are out of range"));
            }
            Keys::new()
        } else if projection == "HE5_GCTP_UTM" {
            self.zone()?
        } else {
            let method = METHODS.iter().find(|(name, _)| *name == projection);
            let (_, method) = *method.ok_or_else(|| format!("Projection is {projection}"))?;
            let parameters = self.numbers("ProjParams")?;
            let number = |at: usize| parameters.get(at).copied().unwrap_or_default();
            let angle = |at| degrees("ProjParams", number(at));
            let mut keys: Keys =
                [(3072, USER_DEFINED), (3074, USER_DEFINED), (3075, GeoKey::Short(method)), (3076, METRE)]
                    .into();
            let mut set = |id, value| keys.insert(id, GeoKey::Double(vec![value]));
            if matches!(method, 8 | 11) {
                set(3078, angle(2)?);
                set(3079, angle(3)?);
            }
            if method == 1 {
                set(3092, number(2));
            }
            set(3080, angle(4)?);
            set(3081, angle(5)?);
            set(3082, number(6));
            set(3083, number(7));
            keys
        };
        keys.extend(self.geodetic_keys(is_geographic)?);
        if !keys.is_empty() {
            keys.insert(1024, GeoKey::Short(if is_geographic { 2 } else { 1 }));
        }
        Ok(Geo { sidecar_transform: Some([left, width, 0.0, upper, 0.0, height]), keys, ..Geo::default() })
    }

    /// Returns the keys of a UTM zone. Southern zones are negative.
    fn zone(&self) -> Result<Keys, String> {
        let zone = self.number("ZoneCode")?.unwrap_or(0.0);
        let number = (1_u16..=60).find(|number| f64::from(*number) == zone.abs());
        let number = number.ok_or_else(|| format!("ZoneCode is {zone}, not a UTM zone"))?;
        let (code, projection) = if zone > 0.0 { (32600, 16000) } else { (32700, 16100) };
        if self.number("SphereCode")? == Some(12.0) {
            return Ok([(3072, GeoKey::Short(code + number))].into());
        }
        Ok([(3072, USER_DEFINED), (3074, GeoKey::Short(projection + number)), (3076, METRE)].into())
    }

    /// Returns the keys of the geodetic system: WGS 84, or an ellipsoid by a code or by its axes.
    ///
    /// Differences from GDAL: a geographic grid without a code has no system, where GDAL reports a sphere of 6,370,997 m; a
    /// negative second parameter is the square of the eccentricity as in GCTP, where GDAL reports a sphere; GDAL takes
    /// unknown codes for WGS 84.
    fn geodetic_keys(&self, is_geographic: bool) -> Result<Keys, String> {
        let code = self.number("SphereCode")?.unwrap_or(-1.0);
        let ellipsoid = |code| Ok([(2048, USER_DEFINED), (2056, GeoKey::Short(code))].into());
        let axes = |major: f64, minor: f64| {
            let number = |value| GeoKey::Double(vec![value]);
            Ok([(2048, USER_DEFINED), (2057, number(major)), (2058, number(minor))].into())
        };
        const SPHERE: f64 = 6_370_997.0;
        let known = [(0.0, 7008), (5.0, 7043), (8.0, 7019)];
        if let Some((_, epsg)) = known.iter().find(|(known, _)| *known == code) {
            return ellipsoid(*epsg);
        } else if code == 12.0 {
            return Ok([(2048, GeoKey::Short(4326))].into());
        } else if code == 19.0 {
            return axes(SPHERE, SPHERE);
        } else if code >= 0.0 {
            return Err(format!("SphereCode is {code}"));
        } else if is_geographic {
            return Ok(Keys::new());
        }
        let parameters = self.numbers("ProjParams")?;
        let [major, second] = [0, 1].map(|at| parameters.get(at).copied().unwrap_or_default().abs());
        match (major, second) {
            (0.0, 0.0) => axes(SPHERE, SPHERE),
            (0.0, _) => ellipsoid(7008),
            (_, 0.0) => axes(major, major),
            (_, ..=1.0) => axes(major, major * (1.0 - second).sqrt()),
            _ => axes(major, second),
        }
    }

    fn number(&self, key: &str) -> Result<Option<f64>, String> {
        Ok(self.numbers(key)?.first().copied())
    }

    /// Returns the numbers of a key; none if it is missing.
    fn numbers(&self, key: &str) -> Result<Vec<f64>, String> {
        let Some(text) = self.0.get(key) else { return Ok(Vec::new()) };
        let numbers = text.trim_matches(['(', ')']).split(',').map(|number| number.trim().parse());
        let numbers: Result<Vec<f64>, _> = numbers.collect();
        let finite = numbers.ok().filter(|numbers| numbers.iter().all(|number| number.is_finite()));
        finite.ok_or_else(|| format!("{key} is {text}"))
    }
}

type Keys = BTreeMap<u16, GeoKey>;
const USER_DEFINED: GeoKey = GeoKey::Short(32767);
const METRE: GeoKey = GeoKey::Short(9001);

/// Converts an angle that is packed as DDDMMMSSS.SS: degrees, minutes and seconds.
fn degrees(key: &str, packed: f64) -> Result<f64, String> {
    let size = packed.abs();
    let (whole, minutes) = ((size / 1e6).floor(), (size % 1e6 / 1e3).floor());
    let seconds = size - whole * 1e6 - minutes * 1e3;
    if whole > 360.0 || minutes >= 60.0 || seconds >= 60.0 {
        return Err(format!("{key} has {packed}, which is not packed degrees, minutes and seconds"));
    }
    Ok((whole + minutes / 60.0 + seconds / 3600.0).copysign(packed))
}

impl Mapper<'_> {
    /// Adds axes and grid mapping to the group of the fields of an HDF-EOS5 grid, and refers its fields to them. Objects of
    /// the file with these names take precedence.
    pub(super) fn place_grid(&mut self, place: &Place<'_>, group: &mut Group) {
        let path = place.path;
        let Some(grid) = path.strip_suffix("/Data Fields").and_then(|path| self.fields.grids.get(path))
        else {
            return;
        };
        let size = |node: &Node, name: &str| match node {
            Node::Array(array) => {
                let mut axes = array.dimension_names.iter().zip(&array.shape);
                axes.find(|(own, _)| own.as_deref() == Some(name)).map(|(_, size)| *size)
            }
            Node::Group(_) => None,
        };
        let sizes = |node: &Node| Some([size(node, X)?, size(node, Y)?]);
        let Some(whole) = group.children.values().find_map(sizes) else { return };
        let is_taken = |name| group.children.contains_key(name);
        if is_taken(GRID_MAPPING) {
            return;
        }
        let axes_exist = [X, Y]
            .iter()
            .any(|name| is_taken(name) || place.scopes.iter().any(|dimensions| dimensions.defines(name)));
        let added = grid.geo(whole).and_then(|geo| {
            let bytes = whole.iter().fold(0_u64, |sum, size| sum.saturating_add(size.saturating_mul(8)));
            self.take("axes of grids", bytes.min(self.options.inline_limit))
                .map_err(|error| error.to_string())?;
            let axes = [(X, whole[0]), (Y, whole[1])];
            add_grid(group, &geo, (!axes_exist).then_some(axes), self.options)
        });
        if let Err(problem) = added {
            let message = format!("the grid has no coordinates: {problem}");
            return self.report.info(Code::HdfEosGrid, path, message);
        }
        for (name, node) in &mut group.children {
            if sizes(node) != Some(whole) {
                continue;
            }
            let Node::Array(array) = node else { continue };
            for attribute in ["grid_mapping", "coordinates"] {
                if array.attributes.contains_key(attribute) {
                    continue;
                }
                array.attributes.insert(attribute.to_owned(), GRID_MAPPING.into());
                if let Some(kept) = self.report.attributes.get_mut(&join(path, name)) {
                    let elements = vec![GRID_MAPPING.as_bytes().to_vec()];
                    let value =
                        SourceValue::Text { length: None, is_utf8: false, shape: Some(Vec::new()), elements };
                    kept.push(SourceAttribute { name: attribute.to_owned(), value });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use virtualize_bytes::Address;
    use virtualize_hdf5::model::{Group as SourceGroup, Link, LinkTarget, Object};
    use virtualize_zarr::{Source, ZarrFormat};

    use super::*;
    use crate::MapOptions;
    use crate::hdf5::map_file;
    use crate::hdf5::tests::{dataset, int, text};

    /// GCTP: DDDMMMSSS.SS.
    #[test]
    fn angles_are_packed() {
        for (packed, expected) in
            [(-117_038_028.8, -117.641_333_333_333_33), (15_030.0, 0.258_333_333_333_333_35), (0.0, 0.0)]
        {
            assert!((degrees("a", packed).unwrap() - expected).abs() < 1e-12, "{packed}");
        }
        for packed in [117_500_000.0, 60.0, 361_000_000.0, 60_000.0] {
            degrees("a", packed).unwrap_err();
        }
    }

    fn group(links: &[(&str, u64)]) -> Object {
        let link =
            |(name, at): &(&str, u64)| Link { name: (*name).into(), target: LinkTarget::Hard(Address(*at)) };
        Object::Group(SourceGroup { links: links.iter().map(link).collect(), ..SourceGroup::default() })
    }

    /// The Python package shows these, not those of the metadata.
    #[test]
    fn fields_refer_to_their_grid_mapping_in_source_attributes() {
        let mut field = dataset(int(2, true), &[5, 6]);
        field.attributes.push(text("coordinates", "a b"));
        let groups = ["HDFEOS", "GRIDS", "G", "Data Fields", "v"].into_iter().zip(1..);
        let mut objects: BTreeMap<_, _> =
            (0..).zip(groups).map(|(at, link)| (Address(at), group(&[link]))).collect();
        objects.insert(Address(5), Object::Dataset(Box::new(field)));
        let mut file = virtualize_hdf5::model::File::of_objects(objects);
        file.struct_metadata = Some(
            "GROUP=GridStructure\nGridName=\"G\"\nXDim=6\nYDim=5\nUpperLeftPointMtrs=(0,10)\nLowerRightMtrs=(12,0)\n\
             Projection=HE5_GCTP_UTM\nZoneCode=-33\nSphereCode=12\nOBJECT=DataField_1\nDataFieldName=\"v\"\n\
             DimList=(\"YDim\",\"XDim\")\n"
                .into(),
        );
        let options = MapOptions { source_attributes: true, format: ZarrFormat::V3, ..MapOptions::default() };
        let mapped = map_file(&file, Source::default(), &options);
        let path = "HDFEOS/GRIDS/G/Data Fields";
        let added = mapped.report.attributes.get(&join(path, "v")).unwrap();
        assert_eq!(
            added.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
            ["coordinates", "grid_mapping"]
        );
        let array = |name| mapped.hierarchy.array(&join(path, name)).unwrap();
        assert_eq!(array("v").attributes.get("coordinates").unwrap(), "a b");
        assert_eq!(array("spatial_ref").attributes.get("spatial_ref").unwrap(), "EPSG:32733");
        assert_eq!((array("XDim").shape.as_slice(), array("YDim").shape.as_slice()), (&[6][..], &[5][..]));
    }
}
