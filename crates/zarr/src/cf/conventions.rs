//! The Zarr conventions `proj`, `spatial` and `multiscales`, revision 0.1
//! (<https://github.com/zarr-conventions>): the entries of `zarr_conventions`, and the attributes of regular grids.

use serde_json::{Map, Value, json};

use crate::{Group, Hierarchy, Node};

/// The attribute in which groups and arrays declare their conventions.
const DECLARED: &str = "zarr_conventions";

/// The attribute from which GDAL's Zarr driver reads the coordinate reference system of an array.
const GDAL_CRS: &str = "_CRS";

/// A convention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Convention {
    /// Coordinate reference systems.
    Proj,
    /// Positions of regular grids.
    Spatial,
    /// Levels of a pyramid.
    Multiscales,
}

impl Convention {
    const fn uuid(self) -> &'static str {
        match self {
            Self::Proj => "f17cb550-5864-4468-aeb7-f3180cfb622f",
            Self::Spatial => "689b58e2-cf7b-45e0-9fff-9cfc0883d6b4",
            Self::Multiscales => "d35379db-88df-4056-af3a-620245f8e347",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Proj => "proj",
            Self::Spatial => "spatial",
            Self::Multiscales => "multiscales",
        }
    }

    /// Returns whether an attribute belongs to the convention.
    fn has(self, attribute: &str) -> bool {
        match attribute.split_once(':') {
            Some((prefix, _)) => prefix == self.name() && self != Self::Multiscales,
            None => attribute == self.name() && self == Self::Multiscales,
        }
    }

    /// Adds the convention to those that a node declares.
    pub fn declare(self, attributes: &mut Map<String, Value>) {
        let description = match self {
            Self::Proj => "Coordinate reference system information for geospatial data",
            Self::Spatial => "Spatial coordinate information",
            Self::Multiscales => "Multiscale layout of zarr datasets",
        };
        let name = self.name();
        let entry = json!({
            "schema_url":
                format!("https://raw.githubusercontent.com/zarr-conventions/{name}/refs/tags/v0.1/schema.json"),
            "spec_url": format!("https://github.com/zarr-conventions/{name}/blob/v0.1/README.md"),
            "uuid": self.uuid(),
            "name": name,
            "description": description,
        });
        let declared = attributes.entry(DECLARED).or_insert_with(|| json!([]));
        if let Value::Array(declared) = declared
            && !declared.contains(&entry)
        {
            declared.push(entry);
        }
    }

    /// Removes the attributes of the convention from a node, and its declaration.
    pub fn withdraw(self, attributes: &mut Map<String, Value>) {
        let is_own = |entry: &Value| entry.get("uuid").and_then(Value::as_str) == Some(self.uuid());
        let Some(Value::Array(declared)) = attributes.get_mut(DECLARED) else { return };
        let count = declared.len();
        declared.retain(|entry| !is_own(entry));
        if declared.len() == count {
            return;
        }
        if declared.is_empty() {
            attributes.remove(DECLARED);
        }
        attributes.retain(|name, _| !self.has(name));
    }

    /// Returns whether a node declares the convention.
    pub fn is_declared(self, attributes: &Map<String, Value>) -> bool {
        let declared = attributes.get(DECLARED).and_then(Value::as_array);
        declared.is_some_and(|declared| {
            declared.iter().any(|entry| entry.get("uuid").and_then(Value::as_str) == Some(self.uuid()))
        })
    }
}

/// A coordinate reference system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Crs {
    /// Authority and code, such as `EPSG:32633`.
    Code(String),
    /// WKT 2 (ISO 19162).
    Wkt2(String),
}

impl Crs {
    /// Returns the system of a text: its code if it has one of EPSG, else the text if it is WKT 2. WKT 1 without a code has
    /// no place in the convention.
    pub fn of_wkt(wkt: &str) -> Option<Self> {
        let end: String = wkt.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_uppercase();
        let digits = |text: &str| {
            let code = text.trim_matches('"');
            (!code.is_empty() && code.bytes().all(|byte| byte.is_ascii_digit())).then(|| code.to_owned())
        };
        // The identifier of the whole system comes last, behind all its members.
        let code = end.strip_suffix("]]").and_then(|text| {
            let at = text.rfind('[')?;
            let (keyword, code) = text.split_at_checked(at)?;
            let code = code.strip_prefix("[\"EPSG\",").and_then(digits)?;
            (keyword.ends_with(",AUTHORITY") || keyword.ends_with(",ID")).then_some(code)
        });
        const WKT_2: [&str; 6] =
            ["GEOGCRS", "GEODCRS", "PROJCRS", "COMPOUNDCRS", "BOUNDCRS", "DERIVEDPROJCRS"];
        let is_wkt_2 = || {
            WKT_2.iter().any(|keyword| end.strip_prefix(keyword).is_some_and(|rest| rest.starts_with('[')))
        };
        match code {
            Some(code) if !end.starts_with("BOUNDCRS") => Some(Self::Code(format!("EPSG:{code}"))),
            _ => is_wkt_2().then(|| Self::Wkt2(wkt.to_owned())),
        }
    }

    /// Declares the system of a node by the convention `proj`.
    pub fn describe(&self, attributes: &mut Map<String, Value>) {
        let (name, text) = match self {
            Self::Code(code) => ("proj:code", code),
            Self::Wkt2(wkt) => ("proj:wkt2", wkt),
        };
        attributes.insert(name.to_owned(), text.clone().into());
        Convention::Proj.declare(attributes);
    }

    /// Declares the system of an array by the convention `proj`, and in the attribute that GDAL reads.
    pub fn describe_array(&self, attributes: &mut Map<String, Value>) {
        self.describe(attributes);
        attributes.insert(GDAL_CRS.into(), self.of_gdal());
    }

    /// Returns the system that a node declares.
    pub fn of(attributes: &Map<String, Value>) -> Option<Self> {
        let text = |name: &str| attributes.get(name).and_then(Value::as_str).map(str::to_owned);
        let is_declared = Convention::Proj.is_declared(attributes);
        let crs = || text("proj:code").map(Self::Code).or_else(|| text("proj:wkt2").map(Self::Wkt2));
        if is_declared { crs() } else { None }
    }

    /// Returns the value of `_CRS`.
    fn of_gdal(&self) -> Value {
        match self {
            Self::Code(code) => {
                let (authority, code) = code.split_once(':').unwrap_or(("EPSG", code));
                json!({ "url": format!("http://www.opengis.net/def/crs/{authority}/0/{code}") })
            }
            Self::Wkt2(wkt) => json!({ "wkt": wkt }),
        }
    }
}

/// A grid of cells of equal size.
#[derive(Clone, PartialEq, Debug)]
pub struct Grid {
    /// Names of the dimensions: y, then x.
    pub dimensions: [String; 2],
    /// Number of rows and columns.
    pub shape: [u64; 2],
    /// Coordinates of the outer corner of a cell by its column and row: x by column, by row, origin; then y.
    pub transform: [f64; 6],
}

impl Grid {
    /// Declares the position of a grid by the convention `spatial`.
    pub fn describe(&self, attributes: &mut Map<String, Value>) {
        attributes.insert("spatial:dimensions".into(), json!(self.dimensions));
        attributes.insert("spatial:shape".into(), json!(self.shape));
        attributes.insert("spatial:transform".into(), json!(self.transform));
        attributes.insert("spatial:registration".into(), "pixel".into());
        attributes.insert("spatial:bbox".into(), json!(self.bounds()));
        Convention::Spatial.declare(attributes);
    }

    /// Returns the bounding box: least x, least y, greatest x, greatest y.
    #[expect(clippy::cast_precision_loss, reason = "sizes of images")]
    fn bounds(&self) -> [f64; 4] {
        let [a, b, c, d, e, f] = self.transform;
        let [height, width] = self.shape.map(|size| size as f64);
        let corners = [(0.0, 0.0), (width, 0.0), (0.0, height), (width, height)];
        corners.map(|(column, row)| (c + column * a + row * b, f + column * d + row * e)).iter().fold(
            [f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY],
            |[west, south, east, north], (x, y)| [west.min(*x), south.min(*y), east.max(*x), north.max(*y)],
        )
    }
}

/// Repeats what groups declare by `proj` and `spatial` in the attributes of their arrays, where rio-tiler and GDAL look for
/// it, and in the levels of `multiscales`. Arrays qualify that have the spatial dimensions of their group. What arrays and
/// levels declared before is removed.
pub fn describe_members(hierarchy: &mut Hierarchy) {
    describe_arrays(&mut hierarchy.root);
    describe_levels(hierarchy);
}

/// Repeats the positions of arrays in the levels of `multiscales`.
pub fn describe_levels(hierarchy: &mut Hierarchy) {
    const OF_LEVELS: [&str; 2] = ["spatial:shape", "spatial:transform"];
    let attributes = &mut hierarchy.root.attributes;
    let Some(mut multiscales) = attributes.remove(Convention::Multiscales.name()) else { return };
    for level in multiscales.get_mut("layout").and_then(Value::as_array_mut).into_iter().flatten() {
        let Value::Object(level) = level else { continue };
        let array = level.get("asset").and_then(Value::as_str).and_then(|path| hierarchy.array(path));
        for name in OF_LEVELS {
            match array.and_then(|array| array.attributes.get(name)) {
                Some(value) => level.insert(name.to_owned(), value.clone()),
                None => level.remove(name),
            };
        }
    }
    hierarchy.root.attributes.insert(Convention::Multiscales.name().into(), multiscales);
}

fn describe_arrays(group: &mut Group) {
    let Group { attributes: of_group, children, .. } = group;
    let crs = Crs::of(of_group);
    let is_placed = Convention::Spatial.is_declared(of_group);
    let member = |name: &str| of_group.get(name).and_then(Value::as_array);
    let names: Vec<&str> =
        member("spatial:dimensions").into_iter().flatten().filter_map(Value::as_str).collect();
    let sizes: Vec<u64> = member("spatial:shape").into_iter().flatten().filter_map(Value::as_u64).collect();
    for node in children.values_mut() {
        let array = match node {
            Node::Array(array) => array,
            Node::Group(inner) => {
                describe_arrays(inner);
                continue;
            }
        };
        if Convention::Spatial.is_declared(&array.attributes) {
            Convention::Spatial.withdraw(&mut array.attributes);
            Convention::Proj.withdraw(&mut array.attributes);
            array.attributes.remove(GDAL_CRS);
        }
        let size = |name: &str| {
            let at = array.dimension_names.iter().position(|own| own.as_deref() == Some(name))?;
            array.shape.get(at).copied()
        };
        let own: Vec<Option<u64>> = names.iter().map(|name| size(name)).collect();
        if !is_placed || names.len() != 2 || own != sizes.iter().copied().map(Some).collect::<Vec<_>>() {
            continue;
        }
        let attributes = of_group.iter().filter(|(name, _)| Convention::Spatial.has(name));
        array.attributes.extend(attributes.map(|(name, value)| (name.clone(), value.clone())));
        if let Some(crs) = &crs {
            crs.describe_array(&mut array.attributes);
        }
        Convention::Spatial.declare(&mut array.attributes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WKT 1 and WKT 2 end with the identifier of the whole system; identifiers of its members have further brackets.
    #[test]
    fn identifiers_of_members_are_not_those_of_systems() {
        let code = |code: &str| Some(Crs::Code(code.to_owned()));
        let wkt = |wkt: &str| Some(Crs::Wkt2(wkt.to_owned()));
        let geographic = r#"GEOGCRS["x",DATUM["y",ELLIPSOID["z",1,2]],CS[ellipsoidal,2],ANGLEUNIT["degree",0.0174,ID["EPSG",9122]]]"#;
        let bound = r#"BOUNDCRS[SOURCECRS[GEOGCRS["x"]],TARGETCRS[GEOGCRS["y"]],ID["EPSG",1]]"#;
        for (text, expected) in [
            (r#"GEOGCS["x",DATUM["y"],AUTHORITY["EPSG","4326"]]"#, code("EPSG:4326")),
            ("PROJCRS[\"x\",\n  ID[\"EPSG\", 32633]\n]", code("EPSG:32633")),
            (r#"PROJCRS["x",ID["ESRI",102003]]"#, wkt(r#"PROJCRS["x",ID["ESRI",102003]]"#)),
            (geographic, wkt(geographic)),
            (bound, wkt(bound)),
            (r#"PROJCS["x",UNIT["metre",1]]"#, None),
            (r#"PROJCS["x",UNIT["metre",1,AUTHORITY["EPSG","9001"]]]"#, None),
            (r#"LOCAL_CS["x"]"#, None),
        ] {
            assert_eq!(Crs::of_wkt(text), expected, "{text}");
        }
    }

    #[test]
    fn withdrawn_conventions_leave_no_trace() {
        let mut attributes = Map::new();
        attributes.insert("spatial:own".into(), json!(1));
        let others = attributes.clone();
        Convention::Spatial.withdraw(&mut attributes);
        assert_eq!(attributes, others, "nothing was declared");
        let grid = Grid {
            dimensions: ["y", "x"].map(str::to_owned),
            shape: [2, 3],
            transform: [1.0, 0.0, 0.0, 0.0, -1.0, 2.0],
        };
        grid.describe(&mut attributes);
        grid.describe(&mut attributes);
        Crs::Code("EPSG:32633".into()).describe_array(&mut attributes);
        assert_eq!(attributes["zarr_conventions"].as_array().unwrap().len(), 2);
        assert_eq!(attributes["spatial:bbox"], json!([0.0, 0.0, 3.0, 2.0]));
        assert_eq!(Crs::of(&attributes), Some(Crs::Code("EPSG:32633".into())));
        Convention::Spatial.withdraw(&mut attributes);
        assert!(!attributes.keys().any(|name| name.starts_with("spatial:")));
        Convention::Proj.withdraw(&mut attributes);
        assert_eq!(attributes.keys().collect::<Vec<_>>(), ["_CRS"]);
    }
}
