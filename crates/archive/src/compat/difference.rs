use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use virtualize::{
    segments::{common_type, has_missing_value, number_type},
    zarr::{Array, DataType, NodePath, cf::missing::MISSING},
};

use super::signature::{ArraySignature, GROUP_TRANSFORM, OMITTED, Signature, TRANSFORM};
use crate::{
    Layout,
    compat::{
        roles::DimRole,
        signature::{Numbers, Stored},
    },
};

/// A difference between two files.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Difference {
    /// The array or group.
    pub path: NodePath,
    /// Such as `attribute scale_factor`, `chunk shape`, `data type`.
    pub what: String,
    /// The value of the first file.
    pub left: String,
    /// The value of the second file.
    pub right: String,
}

/// In one line: `/t2m: attribute scale_factor: 0.01 → 0.1`.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}: {}: {} → {}", self.path, self.what, self.left, self.right)
    }
}

impl Difference {
    /// Returns what the second file has, and the first one: `t2m has scale_factor 0.02 instead of 0.01`.
    pub(crate) fn sentence(&self) -> String {
        let Self { path, what, left, right } = self;
        let path = if path.is_empty() { "the root group" } else { path };
        match what.strip_prefix("attribute ") {
            _ if what == "array" && right == ABSENT => format!("{path} is missing"),
            _ if what == MAPPING && right == OMITTED => {
                format!("{path} cannot be referenced (virtualize inspect prints the reason)")
            }
            _ if what == MAPPING => format!("{path} can be referenced ({right}), but not in the other"),
            _ if what == "array" => format!("{path} is additional ({right})"),
            Some(name) if right == ABSENT => {
                format!("{path} lacks attribute {name}, which is {left} in the other")
            }
            Some(name) => format!("{path} has {name} {right} instead of {left}"),
            None if what == "values" && ![left, right].iter().any(|text| text.contains(", ")) => {
                format!("{path} is {right} instead of {left}")
            }
            None if left.is_empty() || right.is_empty() => format!("{path} has other {what}"),
            None => format!("{path} has {what} {right} instead of {left}"),
        }
    }
}

impl Difference {
    /// Returns whether files with this difference alone can be segments of one dataset.
    pub(crate) fn is_of_storage(&self) -> bool {
        const STORAGE: [&str; 8] = [
            "array",
            "attribute _FillValue",
            "attribute missing_value",
            "byte order",
            "chunk shape",
            "codecs",
            "data type",
            "fill value",
        ];
        STORAGE.contains(&self.what.as_str())
    }
}

/// What a file has instead of an array or attribute that it lacks.
const ABSENT: &str = "none";

/// What differs if a file has an array that references cannot express.
const MAPPING: &str = "mapping";

/// Returns the differences between two signatures, in order of path; none if the files can be combined.
pub(crate) fn differences(left: &Signature, right: &Signature) -> Vec<Difference> {
    let mut found = Differences::default();
    let none = BTreeMap::new();
    let groups: BTreeSet<&NodePath> = left.groups.keys().chain(right.groups.keys()).collect();
    for path in groups {
        let (one, other) = (left.groups.get(path), right.groups.get(path));
        found.attributes(path, one.unwrap_or(&none), other.unwrap_or(&none));
    }
    let arrays: BTreeSet<&NodePath> = left.arrays.keys().chain(right.arrays.keys()).collect();
    for path in arrays {
        match (left.arrays.get(path), right.arrays.get(path)) {
            (Some(one), Some(other)) if one.is_omitted() == other.is_omitted() => {
                found.arrays(path, one, other);
            }
            (one, other) => {
                // In the other file, it may be optional, or an overview.
                let [one, other] = [(one, left), (other, right)].map(|(array, own)| {
                    array.or_else(|| own.optional.get(path)).or_else(|| own.levels.get(path))
                });
                let described = |array: Option<&ArraySignature>| array.map_or(ABSENT.to_owned(), brief);
                let is_omitted = [one, other].into_iter().flatten().any(ArraySignature::is_omitted);
                let what = if is_omitted { MAPPING } else { "array" };
                found.add(path, what, described(one), described(other));
            }
        }
    }
    for (path, one) in &left.optional {
        if let Some(other) = right.optional.get(path) {
            found.arrays(path, one, other);
        }
    }
    let alike = left.core_digest() == right.core_digest();
    // A difference that can be resolved is reported only if there is no other.
    let settled = |one: &Difference| {
        alike && left.numbers.contains_key(&one.path) && numbers_agree(&one.path, &[left, right])
    };
    let mut reasons: Vec<Difference> = found.0.iter().filter(|one| !settled(one)).cloned().collect();
    if reasons.is_empty() && alike {
        reasons = storage(left, right);
    }
    if reasons.is_empty() { found.0 } else { reasons }
}

/// Returns the differences in storage between two signatures that agree in all else.
fn storage(left: &Signature, right: &Signature) -> Vec<Difference> {
    let shown = |stored: &Stored| {
        let axis = |size: &Option<u64>| size.map_or("all".to_owned(), |size| size.to_string());
        let chunks =
            stored.chunks.as_ref().map(|sizes| sizes.iter().map(axis).collect::<Vec<_>>().join(", "));
        let read = if stored.is_read { "small enough to be copied" } else { "not copied" };
        format!(
            "({}) in {}, {read}",
            chunks.unwrap_or_else(|| "several".to_owned()),
            stored.codecs.join(", ")
        )
    };
    let one = |(path, stored): (&NodePath, &Stored)| {
        let other = right.stored.get(path).filter(|other| *other != stored)?;
        let (left, right) = (shown(stored), shown(other));
        Some(Difference { path: path.clone(), what: "chunk shape".to_owned(), left, right })
    };
    left.stored.iter().filter_map(one).collect()
}

/// `float32 (time, lat 73, lon 144), chunks (1, 73, 144)`.
impl fmt::Display for ArraySignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&brief(self))?;
        if self.chunks.is_some() { write!(f, ", chunks {}", chunks(self)) } else { Ok(()) }
    }
}

/// `float32 (time, lat 73, lon 144)`.
fn brief(array: &ArraySignature) -> String {
    if array.is_omitted() {
        return OMITTED.to_owned();
    }
    format!("{} {}", array.data_type, axes(array))
}

fn axes(array: &ArraySignature) -> String {
    let axis = |(name, size): (&Option<String>, &Option<u64>)| match (name, size) {
        (Some(name), Some(size)) => format!("{name} {size}"),
        (Some(name), None) => name.clone(),
        (None, Some(size)) => size.to_string(),
        (None, None) => "?".to_owned(),
    };
    format!("({})", array.dimensions.iter().zip(&array.sizes).map(axis).collect::<Vec<_>>().join(", "))
}

/// Collects differences.
#[derive(Default)]
struct Differences(Vec<Difference>);

impl Differences {
    fn add(&mut self, path: &str, what: impl Into<String>, left: String, right: String) {
        self.0.push(Difference { path: path.to_owned(), what: what.into(), left, right });
    }

    fn arrays(&mut self, path: &str, left: &ArraySignature, right: &ArraySignature) {
        if left.data_type != right.data_type {
            self.add(path, "data type", left.data_type.clone(), right.data_type.clone());
        }
        if left.dimensions != right.dimensions {
            self.add(path, "dimensions", axes(left), axes(right));
        } else if left.sizes != right.sizes {
            self.add(path, "sizes", axes(left), axes(right));
        }
        if left.chunks != right.chunks {
            self.add(path, "chunk shape", chunks(left), chunks(right));
        }
        if let (Some(one), Some(other)) = (&left.codecs, &right.codecs)
            && one != other
        {
            match byte_orders(one, other) {
                Some((one, other)) => self.add(path, "byte order", one, other),
                None => self.add(path, "codecs", one.join(", "), other.join(", ")),
            }
        }
        if left.fill_value != right.fill_value {
            let (one, other) = sides(Some(&left.fill_value), Some(&right.fill_value));
            self.add(path, "fill value", one, other);
        }
        self.attributes(path, &left.attributes, &right.attributes);
        // Values of other types or sizes are different anyway.
        let alike = left.data_type == right.data_type && left.sizes == right.sizes;
        if left.values != right.values && alike {
            let described =
                |array: &ArraySignature| match array.values.as_deref().map(|text| text.split_once(' ')) {
                    Some(Some((digest, preview))) if digest.len() == 64 => preview.to_owned(),
                    Some(_) => array.values.clone().unwrap_or_default(),
                    None => "not compared".to_owned(),
                };
            let (left, right) = (described(left), described(right));
            // Where the first and last values are equal, others differ.
            let other = if left == right {
                format!("other values between {right}").replace(", …, ", " and ")
            } else {
                right
            };
            self.add(path, "values", left, other);
        }
    }

    fn attributes(&mut self, path: &str, left: &BTreeMap<String, Value>, right: &BTreeMap<String, Value>) {
        let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
        for name in names {
            let (one, other) = (left.get(name), right.get(name));
            if one != other {
                let (left, right) = sides(one, other);
                self.add(path, format!("attribute {name}"), left, right);
            }
        }
    }
}

/// Returns the byte orders of two lists of codecs that differ in nothing else, as those of NetCDF-3 and NetCDF-4 files do.
fn byte_orders(one: &[String], other: &[String]) -> Option<(String, String)> {
    let order = |codec: &str| ["big-endian", "little-endian"].into_iter().find(|order| codec.contains(order));
    let mut differing = one.iter().zip(other).filter(|(one, other)| one != other);
    let (left, right) = differing.next()?;
    let is_only = one.len() == other.len() && differing.next().is_none();
    let (left, right) = (order(left)?.to_owned(), order(right)?.to_owned());
    (is_only && left != right).then_some((left, right))
}

fn chunks(array: &ArraySignature) -> String {
    let Some(sizes) = &array.chunks else { return "any, its values are copied".to_owned() };
    let axis = |size: &Value| if size.is_null() { "any".to_owned() } else { size.to_string() };
    format!("({})", sizes.iter().map(axis).collect::<Vec<_>>().join(", "))
}

/// Describes two values. Numbers that are almost equal are described with the types that they seem to have had.
fn sides(left: Option<&Value>, right: Option<&Value>) -> (String, String) {
    let described = |value: Option<&Value>| match value {
        None | Some(Value::Null) => ABSENT.to_owned(),
        Some(value) => value.to_string(),
    };
    if let (Some(one), Some(other)) = (left.and_then(Value::as_f64), right.and_then(Value::as_f64))
        && (one - other).abs() <= one.abs().max(other.abs()) * 1e-6
    {
        return (typed(one), typed(other));
    }
    (described(left), described(right))
}

/// Describes a number: as float32 if it is the shortest decimal of one.
fn typed(number: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "compared with the original")]
    let single = number as f32;
    let (short, long) = (single.to_string(), number.to_string());
    if f64::from(single) == number && short.len() < long.len() {
        format!("{short} as float32 ({long})")
    } else if f64::from(single) == number {
        long
    } else {
        format!("{long} as float64")
    }
}

/// Returns whether copied numbers have one type, or can be converted to one.
pub(crate) fn numbers_agree(path: &str, kinds: &[&Signature]) -> bool {
    let all = kinds.iter().map(|kind| Some((kind.arrays.get(path)?, kind.numbers.get(path)?)));
    let Some(all) = all.collect::<Option<Vec<_>>>() else { return false };
    let Some((first, _)) = all.first() else { return true };
    let is_same_type = all.iter().all(|(array, _)| array.data_type == first.data_type);
    if is_same_type && all.iter().all(|(array, _)| array.missing() == first.missing()) {
        return true;
    }
    let masks = |(array, numbers): &(&ArraySignature, &Numbers)| {
        numbers.any_missing
            || (numbers.has_sentinel && !numbers.are_times && !array.data_type.starts_with("float"))
    };
    if all.iter().any(masks) {
        return false;
    }
    let numbers = || all.iter().map(|(_, numbers)| numbers);
    is_same_type || numbers().all(|numbers| numbers.are_whole) || numbers().all(|numbers| numbers.are_float)
}

/// What conversion reconciles between the parts of one array.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Conversion {
    /// The values are copied.
    pub(crate) is_copied: bool,
    /// The values are numbers, which are brought to one type.
    pub(crate) of_numbers: bool,
    /// The values are times, none of which is missing.
    pub(crate) of_times: bool,
}

/// Returns the first difference between an array in two files that no conversion reconciles. With `only_shape`, types,
/// dimensions and sizes are compared, and nothing else.
pub(crate) fn disagreement(
    arrays: [&Array; 2],
    roles: &[DimRole],
    conversion: Conversion,
    only_shape: bool,
) -> Option<Difference> {
    let [left, right] = arrays.map(|array| {
        let mut signature = ArraySignature::of(array, roles, conversion.is_copied);
        if conversion.of_numbers {
            "number".clone_into(&mut signature.data_type);
        }
        if conversion.of_times || only_shape {
            signature.forget_missing();
        }
        if only_shape {
            signature.attributes.clear();
        }
        signature
    });
    let mut found = Differences::default();
    found.arrays("", &left, &right);
    found.0.into_iter().next()
}

/// Types that the elements of arrays are converted to, by path.
pub(crate) type Conversions = BTreeMap<NodePath, DataType>;

/// Returns how files of several signatures can be segments of one dataset: their arrays have the same dimensions, sizes and
/// meaning, and types that one type holds exactly.
///
/// # Errors
/// They cannot: the path of an array that prevents it, or `None` for groups and overviews.
pub(crate) fn form_segments(all: &[&Signature], layout: &Layout) -> Result<Conversions, Option<NodePath>> {
    let (first, others) = all.split_first().ok_or(None)?;
    let groups = |one: &Signature| {
        let mut groups = one.groups.clone();
        groups.values_mut().for_each(|attributes| drop(attributes.remove(GROUP_TRANSFORM)));
        groups.retain(|_, attributes| !attributes.is_empty());
        groups
    };
    let agree = |other: &&Signature| {
        other.levels.is_empty() && groups(first) == groups(other) && first.grids_agree(other)
    };
    if !first.levels.is_empty() || !others.iter().all(agree) {
        return Err(None);
    }
    let paths: BTreeSet<&NodePath> =
        all.iter().flat_map(|one| one.arrays.keys().chain(one.optional.keys())).collect();
    let mut conversions = Conversions::new();
    for path in paths {
        let target = one_array(path, all, layout).ok_or_else(|| Some(path.clone()))?;
        conversions.extend(target.map(|data_type| (path.clone(), data_type)));
    }
    Ok(conversions)
}

/// Returns the type that the elements of an array are converted to, if they are; `None` if the arrays cannot be one.
fn one_array(path: &NodePath, all: &[&Signature], layout: &Layout) -> Option<Option<DataType>> {
    let found = all.iter().filter_map(|one| {
        let array = one.arrays.get(path).or_else(|| one.optional.get(path))?;
        Some((*one, array))
    });
    let found: Vec<(&Signature, &ArraySignature)> = found.collect();
    let Some(((leading, first), others)) = found.split_first() else { return Some(None) };
    // Where a file has the array, it must not read as missing.
    if found.iter().any(|(_, array)| !array.is_omitted()) && all.iter().any(|one| one.omits(path)) {
        return None;
    }
    let meaning = |array: &ArraySignature| {
        let mut attributes = array.attributes.clone();
        attributes.retain(|name, _| !MISSING.contains(&name.as_str()) && name != TRANSFORM);
        attributes
    };
    let missing = |array: &ArraySignature| {
        MISSING.map(|name| array.attributes.get(name).cloned().unwrap_or(Value::Null))
    };
    let is_alike = others.iter().all(|(signature, other)| {
        let roles = |signature: &Signature| signature.stored.get(path).map(|stored| stored.roles.clone());
        let is_near = leading
            .grids
            .get(path)
            .zip(signature.grids.get(path))
            .is_some_and(|(one, other)| one.agrees(other));
        other.dimensions == first.dimensions
            && other.sizes == first.sizes
            && meaning(other) == meaning(first)
            && (other.values == first.values || is_near)
            && roles(leading) == roles(signature)
    });
    if !is_alike {
        return None;
    }
    // Numbers that are copied are converted to one type when they are written.
    if found.iter().all(|(signature, _)| signature.numbers.contains_key(path)) {
        return (found.len() == all.len() && numbers_agree(path, all)).then_some(None);
    }
    let is_fixed = first.values.is_some();
    let same_type = others.iter().all(|(_, other)| other.data_type == first.data_type);
    let same_missing = others.iter().all(|(_, other)| missing(other) == missing(first));
    let is_everywhere = found.len() == all.len();
    if same_type && same_missing && (is_everywhere || is_fixed) {
        return Some(None);
    }
    let types =
        found.iter().map(|(_, array)| number_type(&array.data_type)).collect::<Option<Vec<DataType>>>();
    let Some(types) = types else {
        let can_be_missing = has_missing_value(&first.data_type);
        return (same_type && same_missing && can_be_missing).then_some(None);
    };
    let is_given = Layout::has(&layout.optional, path) && layout.fill(path).is_some();
    let has_sentinel = is_given || missing(first).iter().any(|value| !value.is_null());
    let is_float = types.iter().all(DataType::is_float);
    if same_type && same_missing && (has_sentinel || is_float) {
        return Some(None);
    }
    let can_be_converted = !is_fixed && !first.attributes.contains_key("_Unsigned");
    common_type(&types, has_sentinel || !same_missing || !is_everywhere)
        .filter(|_| can_be_converted)
        .map(Some)
}
