//! Attributes on which values, or their positions, depend.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use virtualize::{
    ArrayValues,
    zarr::{
        Array, ChunkGrid, Codec, DataType, Endian, FillValue, Hierarchy, NodePath, ZarrFormat,
        cf::{
            attributes::{self, canonical, of_grid_mapping, of_group},
            missing::{MISSING, Sentinels},
        },
        greatest_common_divisor, node,
    },
};

use super::roles::{
    Axis, DimRole, Geometry, Levels, TINY, find, is_coordinate, is_copied, is_plain, length_along,
    may_be_copied, roles, time_arrays,
};
use crate::{
    Layout, Member,
    file::{fingerprint, groups},
    values::{
        Grid, Packing,
        calendar::{is_time, time_units},
        converted, elements, is_number, packing, transforms_agree,
    },
};

/// What must be equal in files that are combined.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Signature {
    /// Arrays that all files must have.
    pub(crate) arrays: BTreeMap<NodePath, ArraySignature>,
    /// Arrays that may be in some of the files only ([`Layout::optional`]). They are not part of the digest, since files
    /// without them agree with all others; those that have one must agree among themselves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) optional: BTreeMap<NodePath, ArraySignature>,
    /// Arrays of overviews, which are omitted if they disagree. They are not part of the digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) levels: BTreeMap<NodePath, ArraySignature>,
    /// Attributes of groups on which the positions of values depend, such as a coordinate reference system.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) groups: BTreeMap<NodePath, BTreeMap<String, Value>>,
    /// How the arrays that grow are stored: files that agree in all else are compatible if their parts form one grid.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) stored: BTreeMap<NodePath, Stored>,
    /// The numbers of coordinates and times: their types need not agree if one type holds all of them exactly.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) numbers: BTreeMap<NodePath, Numbers>,
    /// Coordinates that are the same in all files and evenly spaced: they need not agree to the last digit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) grids: BTreeMap<NodePath, Grid>,
}

/// The type of arrays and groups that are not mapped.
pub(super) const OMITTED: &str = "omitted";

/// What must be equal of an array.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ArraySignature {
    /// Type of an element, as Zarr names it.
    pub(crate) data_type: String,
    /// Names of the axes, slowest first.
    pub(crate) dimensions: Vec<Option<String>>,
    /// Size along each axis; `None` along those that grow.
    pub(crate) sizes: Vec<Option<u64>>,
    /// Chunk size along each axis: a number, a list if sizes vary, or null if any size will do. `None` altogether if the
    /// array is re-encoded, or comes from the first file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chunks: Option<Vec<Value>>,
    /// Codecs in the order of encoding, with all parameters that decoding depends on; `None` like [`Self::chunks`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) codecs: Option<Vec<String>>,
    /// Value of missing chunks, in the notation of Zarr v3; null if it is not defined.
    pub(crate) fill_value: Value,
    /// Attributes on which the meaning of values depends.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) attributes: BTreeMap<String, Value>,
    /// SHA-256 of the values of an array that comes from the first file, followed by some of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) values: Option<String>,
}

impl Signature {
    /// Returns the signature of a file for a layout. The values of arrays that are invariant along all dimensions are those
    /// of [`Member::digests`]; an array that was not read equals no other.
    pub(crate) fn of(member: &Member, layout: &Layout) -> Self {
        let hierarchy = &member.hierarchy;
        let (mut roles, grid_mappings) = (roles(hierarchy, layout), grid_mappings(hierarchy));
        let times = time_arrays(hierarchy, layout.inline_limit);
        let levels = Levels::of(hierarchy);
        let lengths: Vec<u64> = layout.along.iter().map(|along| length_along(hierarchy, along)).collect();
        let mut signature = Self::default();
        for (path, array) in hierarchy.arrays() {
            let roles = roles.remove(&path).unwrap_or_default();
            let is_fixed = roles.iter().all(|role| *role == DimRole::Invariant);
            if is_fixed && Layout::has(&layout.assume_equal, &path) {
                continue;
            }
            let is_copied = is_copied(&path, array, &roles, times.contains(&path));
            let mut signed = ArraySignature::of(array, &roles, is_copied);
            let is_compared = is_fixed && !layout.along.is_empty();
            // The storage of an array does not matter if it is re-encoded or taken from the first file.
            if !is_copied && !is_compared {
                signed.chunks = Some(chunks(array, &roles, layout));
                signed.codecs = Some(codecs(array));
            }
            if grid_mappings.contains(&path) {
                signed.attributes = of_grid_mapping(&array.attributes, is_moved(hierarchy, layout));
            }
            if is_compared {
                let digest = member.digests.get(&path).cloned();
                let digest = digest.or_else(|| member.values.get(&path).map(fingerprint));
                signed.values = Some(digest.unwrap_or_else(|| format!("not read from {}", member.item.url)));
            }
            if levels.level(&path).is_some() {
                signature.levels.insert(path, signed);
                continue;
            }
            if Layout::has(&layout.optional, &path) {
                signature.optional.insert(path, signed);
                continue;
            }
            if !is_copied && !is_fixed {
                let stored = Stored::of(array, &roles, layout, codecs(array), &lengths);
                signature.stored.insert(path.clone(), stored);
            }
            let grid = member.grids.get(&path).filter(|_| is_compared && is_coordinate(&path, array));
            signature.grids.extend(grid.map(|grid| (path.clone(), *grid)));
            let values = member.values.get(&path).filter(|_| is_copied);
            let numbers =
                values.and_then(|values| Numbers::of(array, values, times.contains(&path), hierarchy.format));
            signature.numbers.extend(numbers.map(|numbers| (path.clone(), numbers)));
            signature.arrays.insert(path, signed);
        }
        for path in &member.omitted {
            // The further images of a TIFF file are in the groups 1, 2, …, and overviews need not be in all files.
            let is_image = path.split_once('/').is_some_and(|(group, _)| group.parse::<u32>().is_ok());
            let among = if is_image { &mut signature.levels } else { &mut signature.arrays };
            among.insert(path.clone(), ArraySignature::omitted());
        }
        let is_moved = is_moved(hierarchy, layout);
        for (path, group) in groups(hierarchy) {
            let attributes = of_group(&group.attributes, is_moved);
            if !attributes.is_empty() && !levels.groups.contains_key(&path) {
                signature.groups.insert(path, attributes);
            }
        }
        signature
    }

    /// Returns the signature that the file has with further rules for arrays, as far as this signature tells. `lengths` are the
    /// elements of the longest file along each dimension of the layout.
    pub(crate) fn relaxed(&self, layout: &Layout, lengths: &[u64]) -> Self {
        let mut relaxed = self.clone();
        for stored in relaxed.stored.values_mut() {
            if stored.bytes(lengths).is_some_and(|bytes| bytes <= layout.inline_limit) {
                stored.is_read = true;
            }
        }
        for (path, array) in &self.arrays {
            let is_compared = array.values.is_some();
            let is_omitted = Layout::has(&layout.dropped, path)
                || (is_compared && Layout::has(&layout.assume_equal, path));
            let is_optional = Layout::has(&layout.optional, path) && !array.is_omitted();
            if is_omitted || is_optional {
                relaxed.arrays.remove(path);
                relaxed.stored.remove(path);
                relaxed.numbers.remove(path);
            }
            let mut array = array.clone();
            if is_compared && Layout::has(&layout.concat_vars, path) {
                array.values = None;
                if array.are_times() {
                    array.attributes.insert("units".to_owned(), ANY_TIME.into());
                }
            }
            if relaxed.stored.get(path).is_some_and(|stored| stored.is_read) {
                array.chunks.iter_mut().flatten().for_each(|size| *size = Value::Null);
            }
            if is_optional && !is_omitted {
                relaxed.optional.insert(path.clone(), array);
            } else if !is_omitted {
                relaxed.arrays.insert(path.clone(), array);
            }
        }
        relaxed
    }

    /// Returns the SHA-256 of arrays and groups in hexadecimal: equal if and only if [`super::differences`] finds none,
    /// optional arrays aside.
    pub(crate) fn digest(&self) -> String {
        sha256(&(&self.arrays, &self.groups))
    }

    /// Returns the SHA-256 of all but optional arrays: [`Self::digest`] together with how arrays are stored.
    pub(crate) fn storage_digest(&self) -> String {
        sha256(&(&self.arrays, &self.groups, &self.stored, &self.numbers, &self.levels))
    }

    /// Returns the SHA-256 of what cannot be reconciled: all but how arrays are stored, types of numbers, and grids.
    pub(crate) fn core_digest(&self) -> String {
        let (mut arrays, mut groups) = (self.arrays.clone(), self.groups.clone());
        groups.values_mut().for_each(|attributes| drop(attributes.remove(GROUP_TRANSFORM)));
        for (path, array) in &mut arrays {
            (array.chunks, array.codecs) = (None, None);
            array.attributes.remove(TRANSFORM);
            if self.grids.contains_key(path) {
                array.values = None;
            }
            if let Some(numbers) = self.numbers.get(path) {
                "number".clone_into(&mut array.data_type);
                if numbers.are_times {
                    array.forget_missing();
                }
            }
        }
        let stored: BTreeMap<_, _> = self.stored.iter().map(|(path, stored)| (path, &stored.roles)).collect();
        sha256(&(&arrays, &groups, stored))
    }

    /// Returns whether an array, or a group that contains it, is in the file, but not in its hierarchy.
    pub(super) fn omits(&self, path: &str) -> bool {
        let is_omitted = |path: &str| {
            let found = self.arrays.get(path).or_else(|| self.levels.get(path));
            found.is_some_and(ArraySignature::is_omitted)
        };
        std::iter::successors(Some(path), |path| (!path.is_empty()).then(|| node::parent(path)))
            .any(is_omitted)
    }

    /// Returns whether the grids of two signatures with one core digest are equal but for rounding.
    pub(crate) fn grids_agree(&self, other: &Self) -> bool {
        let agree = |one: Option<&Value>, other: Option<&Value>| match (one, other) {
            (Some(one), Some(other)) => transforms_agree(one, other),
            (one, other) => one == other,
        };
        let coordinates = self.grids.iter().all(|(path, grid)| {
            let values = |signature: &Self| signature.arrays.get(path).map(|array| array.values.clone());
            let is_near = || other.grids.get(path).is_some_and(|other| grid.agrees(other));
            values(self) == values(other) || is_near()
        });
        let arrays = self.arrays.iter().all(|(path, array)| {
            let others = other.arrays.get(path).and_then(|array| array.attributes.get(TRANSFORM));
            agree(array.attributes.get(TRANSFORM), others)
        });
        let groups = self.groups.iter().all(|(path, attributes)| {
            let others = other.groups.get(path).and_then(|attributes| attributes.get(GROUP_TRANSFORM));
            agree(attributes.get(GROUP_TRANSFORM), others)
        });
        coordinates && arrays && groups
    }

    /// Returns whether an array has the same chunks and codecs in all files, as far as they must agree.
    pub(crate) fn is_stored_alike(path: &str, all: &[&Self]) -> bool {
        let mut all = all.iter().map(|one| one.arrays.get(path).map(|array| (&array.chunks, &array.codecs)));
        let first = all.next();
        all.all(|other| Some(other) == first)
    }

    /// Returns false if no arrangement of files makes the storage of two signatures compatible.
    pub(crate) fn may_share_storage(&self, other: &Self) -> bool {
        self.grids_agree(other)
            && self.stored.iter().all(|(path, stored)| {
                let Some(others) = other.stored.get(path) else { return false };
                (stored.is_read && others.is_read) || stored.codecs == others.codecs
            })
    }
}

impl ArraySignature {
    /// Returns what must agree of an array however it is stored: all but chunks, codecs and values.
    pub(super) fn of(array: &Array, roles: &[DimRole], is_copied: bool) -> Self {
        let grows = |axis: usize| roles.contains(&DimRole::Axis(axis));
        let mut attributes = of_array(array, is_copied);
        if band_axis(array).is_some_and(grows) {
            forget_bands(&mut attributes);
        }
        // Packing that differs becomes variables along a dimension.
        let varies = roles.iter().any(|role| *role != DimRole::Invariant);
        if !is_copied && varies && is_number(&array.data_type) && Packing::of(&array.attributes).is_some() {
            Packing::ATTRIBUTES.iter().for_each(|(name, ..)| drop(attributes.remove(*name)));
        }
        Self {
            data_type: type_name(&array.data_type),
            dimensions: array.dimension_names.clone(),
            sizes: array.shape.iter().enumerate().map(|(axis, n)| (!grows(axis)).then_some(*n)).collect(),
            chunks: None,
            codecs: None,
            fill_value: fill_value(array),
            attributes,
            values: None,
        }
    }

    /// Returns the signature of an array or group that the file has, but that references cannot express. It equals no array,
    /// and no file without the array.
    fn omitted() -> Self {
        Self { data_type: OMITTED.to_owned(), ..Self::default() }
    }

    /// Returns whether the file has the array, but its hierarchy does not.
    pub(super) fn is_omitted(&self) -> bool {
        self.data_type == OMITTED
    }

    /// Returns whether values count from a reference time.
    pub(crate) fn are_times(&self) -> bool {
        self.attributes.get("units").and_then(Value::as_str).is_some_and(is_time)
    }

    /// Removes what means "missing", which need not agree in times that are converted.
    pub(super) fn forget_missing(&mut self) {
        self.fill_value = Value::Null;
        self.attributes.retain(|name, _| !MISSING.contains(&name.as_str()));
    }

    /// Marks what differs in another array as arbitrary, for the description of files that are combined.
    pub(crate) fn merge(&mut self, other: &Self) {
        if self.codecs != other.codecs {
            self.codecs = None;
        }
        if self.data_type != other.data_type
            && !self.data_type.split(" or ").any(|own| own == other.data_type)
        {
            self.data_type = format!("{} or {}", self.data_type, other.data_type);
        }
        if let (Some(own), Some(others)) = (&mut self.chunks, &other.chunks) {
            for (own, other) in own.iter_mut().zip(others) {
                if own != other {
                    *own = Value::Null;
                }
            }
        }
    }

    /// Returns what means "missing".
    pub(crate) fn missing(&self) -> (&Value, Vec<&Value>) {
        (&self.fill_value, MISSING.iter().filter_map(|name| self.attributes.get(*name)).collect())
    }
}

fn sha256(value: &impl Serialize) -> String {
    let text = serde_json::to_vec(value).unwrap_or_default();
    hex::encode(Sha256::digest(&text))
}

/// Returns the chunk sizes that must agree: not those along an axis where chunks can be sliced or copied, or may vary.
fn chunks(array: &Array, roles: &[DimRole], layout: &Layout) -> Vec<Value> {
    let is_copied = may_be_copied(array, roles, layout);
    let growing = roles.iter().filter(|role| matches!(role, DimRole::Axis(_))).count();
    let sizes: Vec<Value> = match &array.chunk_grid {
        ChunkGrid::Regular(sizes) => sizes.iter().copied().map(Value::from).collect(),
        ChunkGrid::Rectilinear(edges) => edges.iter().cloned().map(Value::from).collect(),
    };
    // Chunks of plain elements can be sliced that are contiguous along an axis which is the only one that grows.
    let can_be_sliced = |axis| match &array.chunk_grid {
        ChunkGrid::Regular(sizes) => {
            growing == 1 && is_plain(array) && sizes.iter().take(axis).all(|size| *size == 1)
        }
        ChunkGrid::Rectilinear(_) => false,
    };
    let may_differ = |axis| {
        is_copied || (roles.contains(&DimRole::Axis(axis)) && (layout.rectilinear || can_be_sliced(axis)))
    };
    let sizes = sizes.into_iter().enumerate();
    sizes.map(|(axis, size)| if may_differ(axis) { Value::Null } else { size }).collect()
}

/// The attribute of grid mappings that places an image.
pub(super) const TRANSFORM: &str = "GeoTransform";

/// The attribute of groups that does.
pub(super) const GROUP_TRANSFORM: &str = "spatial:transform";

/// Replaces the units of times that are converted, so that they are equal.
const ANY_TIME: &str = "<unit> since <date>";

/// Returns the attributes on which the meaning of an array's values depends. Times that are `converted` may count from any
/// reference time.
pub(super) fn of_array(array: &Array, converted: bool) -> BTreeMap<String, Value> {
    let mut declared = attributes::of_array(&array.attributes, array.data_type.is_float());
    let text = |name: &str| array.attributes.get(name).and_then(Value::as_str);
    if let Some((units, calendar)) = text("units").and_then(|units| time_units(units, text("calendar"))) {
        if converted {
            declared.insert("units".to_owned(), ANY_TIME.into());
        } else {
            declared.insert("units".to_owned(), units.into());
        }
        declared.insert("calendar".to_owned(), calendar.into());
    }
    declared
}

/// Dimensions along which images are placed side by side, unless the file names others. The last ones are those of HDF-EOS5.
pub(crate) const MOVED: [&str; 6] = ["x", "y", "lon", "lat", "XDim", "YDim"];

/// Returns whether files are adjacent in space: one of the layout's dimensions is one of the image's, or there are none.
pub(super) fn is_moved(hierarchy: &Hierarchy, layout: &Layout) -> bool {
    let declared = hierarchy.root.attributes.get("spatial:dimensions").and_then(Value::as_array);
    let is_spatial = |name: &str| match declared {
        Some(names) => names.iter().any(|other| other.as_str() == Some(name)),
        None => MOVED.contains(&name),
    };
    layout.along.is_empty() || layout.along.iter().any(|along| is_spatial(along.name()))
}

/// Returns the arrays that attributes `grid_mapping` name, or that describe a coordinate reference system themselves.
pub(super) fn grid_mappings(hierarchy: &Hierarchy) -> BTreeSet<NodePath> {
    let mut found = BTreeSet::new();
    for (path, array) in hierarchy.arrays() {
        let group = node::parent(&path);
        let named = array.attributes.get("grid_mapping").and_then(Value::as_str).unwrap_or_default();
        // `crs: x y` of the extended form; words that name coordinates are not grid mappings.
        let is_extended = named.contains(':');
        let words = named.split_whitespace().filter(|word| !is_extended || word.ends_with(':'));
        found.extend(words.filter_map(|word| find(hierarchy, group, word.trim_end_matches(':'))));
        if attributes::is_grid_mapping(&array.attributes) {
            found.insert(path);
        }
    }
    found
}

/// How an array that grows is stored in a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Stored {
    /// How it varies along each dimension of the layout.
    #[serde(rename = "places")]
    pub(crate) roles: Vec<DimRole>,
    /// Size along each axis; `None` along an axis that grows, if it equals the file's length of that dimension.
    pub(crate) shape: Vec<Option<u64>>,
    /// Chunk size along each axis; `None` if one chunk has all of the file's elements. `None` altogether if sizes vary.
    pub(crate) chunks: Option<Vec<Option<u64>>>,
    /// Codecs with all parameters that decoding depends on.
    pub(crate) codecs: Vec<String>,
    /// Size of an element in bytes; 0 if it varies.
    pub(crate) element: u64,
    /// Whether chunks are plain elements.
    pub(crate) is_plain: bool,
    /// Whether its values were read, so that they can be copied.
    pub(crate) is_read: bool,
}

impl Stored {
    /// Describes an array; `lengths` are the file's elements along each dimension of the layout.
    pub(super) fn of(
        array: &Array,
        roles: &[DimRole],
        layout: &Layout,
        codecs: Vec<String>,
        lengths: &[u64],
    ) -> Self {
        let is_read = may_be_copied(array, roles, layout);
        let dimension = |axis: usize| roles.iter().position(|role| *role == DimRole::Axis(axis));
        let length = |axis| dimension(axis).and_then(|dimension| lengths.get(dimension).copied());
        let shape = array.shape.iter().enumerate();
        let shape: Vec<_> = shape.map(|(axis, n)| (length(axis) != Some(*n)).then_some(*n)).collect();
        // Large compressed chunks as long as the file are described by their length, which others must share.
        let may_be_long = is_read || is_plain(array) || layout.rectilinear;
        let chunk = |(axis, (chunk, n)): (usize, (&u64, &u64))| {
            let is_all = may_be_long && dimension(axis).is_some() && chunk == n;
            (!is_all).then_some(*chunk)
        };
        let chunks = match &array.chunk_grid {
            ChunkGrid::Regular(sizes) => {
                Some(sizes.iter().zip(&array.shape).enumerate().map(chunk).collect())
            }
            ChunkGrid::Rectilinear(_) => None,
        };
        Self {
            roles: roles.to_vec(),
            shape,
            chunks,
            codecs,
            element: array.data_type.size().unwrap_or(0),
            is_plain: is_plain(array),
            is_read,
        }
    }

    /// Returns the size in bytes of the values that would be copied from a file of these lengths; `None` if they never are.
    pub(crate) fn bytes(&self, lengths: &[u64]) -> Option<u64> {
        let shape = self.chunk_layout(lengths, true)?.shape;
        let grows = |axis: usize| self.roles.contains(&DimRole::Axis(axis));
        let elements = |shape: &[u64]| shape.iter().try_fold(self.element, |all, n| all.checked_mul(*n));
        let others: Vec<u64> =
            shape.iter().enumerate().filter(|(axis, _)| !grows(*axis)).map(|(_, n)| *n).collect();
        let is_single = self.chunks.as_ref().is_some_and(|chunks| {
            chunks.iter().enumerate().all(|(axis, chunk)| !grows(axis) || *chunk == Some(1))
        });
        let is_copied = (0..shape.len()).any(grows) && (!is_single || elements(&others)? <= TINY);
        elements(&shape).filter(|bytes| is_copied && *bytes > 0)
    }

    /// Returns the part of the array in a file that has these lengths along the dimensions of the layout. Returns `None`
    /// if a length is missing.
    pub(crate) fn chunk_layout(&self, lengths: &[u64], fits: bool) -> Option<ChunkLayout> {
        let length = |axis: usize| {
            let dimension = self.roles.iter().position(|role| *role == DimRole::Axis(axis))?;
            lengths.get(dimension).copied()
        };
        let shape = self.shape.iter().enumerate().map(|(axis, n)| n.or_else(|| length(axis)));
        let shape: Vec<u64> = shape.collect::<Option<_>>()?;
        let chunk = self
            .chunks
            .as_ref()
            .map(|chunks| chunks.iter().zip(&shape).map(|(chunk, n)| chunk.unwrap_or(*n)).collect());
        Some(ChunkLayout { shape, chunk, fits, is_read: self.is_read })
    }
}

/// Returns whether the chunks of two arrays of one type are decoded alike.
pub(crate) fn decode_alike(one: &Array, other: &Array) -> bool {
    one.codecs == other.codecs || codecs(one) == codecs(other)
}

/// Attributes of images with an item for each band.
pub(crate) const BY_BAND: [&str; 6] =
    ["extra_samples", "long_name", "offsets", "scales", "units", "unittype"];

/// Returns the axis of the bands of an image.
pub(crate) fn band_axis(array: &Array) -> Option<usize> {
    array.dimension_names.iter().position(|name| name.as_deref() == Some("band"))
}

/// Makes attributes of images that are joined along their bands independent of the number of bands.
fn forget_bands(attributes: &mut BTreeMap<String, Value>) {
    for name in BY_BAND {
        let Some(Value::Array(items)) = attributes.get(name) else { continue };
        let Some(first) = items.first().filter(|first| items.iter().all(|item| item == *first)).cloned()
        else {
            continue;
        };
        if name == "extra_samples" && first == "unspecified" {
            attributes.remove(name);
        } else {
            attributes.insert(name.to_owned(), first);
        }
    }
    // Of images with three bands, which writers take for colours.
    if let Some(photometric) = attributes.get_mut("photometric_interpretation").filter(|it| *it == "RGB") {
        *photometric = "BlackIsZero".into();
    }
}

/// Returns the type as Zarr names it; structures with all their fields.
pub(super) fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Struct(_) => data_type
            .to_v2(Endian::Little)
            .map_or_else(|_| format!("{data_type:?}"), |v2| format!("struct {v2}")),
        other => other.to_string(),
    }
}

/// Returns the fill value in the notation of Zarr v3; null if it is not defined.
pub(super) fn fill_value(array: &Array) -> Value {
    let declared = |fill: &FillValue| {
        fill.to_json(&array.data_type, ZarrFormat::V3).unwrap_or_else(|_| format!("{fill:?}").into())
    };
    canonical(array.fill_value.as_ref().map_or(Value::Null, declared))
}

/// Returns the codecs without parameters that only an encoder needs.
pub(super) fn codecs(array: &Array) -> Vec<String> {
    let plain = array.data_type.number_size() == 1 && !matches!(array.data_type, DataType::Struct(_));
    array.codecs.iter().map(|codec| describe(codec, plain)).collect()
}

/// Describes a codec.
fn describe(codec: &Codec, plain: bool) -> String {
    match codec {
        codec if codec.is_self_describing() => codec.name().unwrap_or_default().to_owned(),
        Codec::Bytes { endian } if plain || endian.is_none() => "bytes".to_owned(),
        Codec::Bytes { endian: Some(Endian::Big) } => "bytes (big-endian)".to_owned(),
        Codec::Bytes { endian: Some(Endian::Little) } => "bytes (little-endian)".to_owned(),
        Codec::Shuffle { element_size } => format!("shuffle ({element_size} bytes)"),
        other => document(other),
    }
}

/// Returns name and configuration, with members in order.
fn document(codec: &Codec) -> String {
    let Ok(declared) = codec.to_v3().or_else(|_| codec.to_v2()) else { return format!("{codec:?}") };
    let name = ["name", "id"].iter().find_map(|key| declared.get(key)?.as_str()).unwrap_or_default();
    let configuration = canonical(declared.get("configuration").cloned().unwrap_or(Value::Null));
    match configuration.as_object() {
        Some(members) if !members.is_empty() => format!("{name} {configuration}"),
        _ => name.to_owned(),
    }
}

/// What is known of the numbers of a coordinate, or of times, in addition to their type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Numbers {
    /// They are times, or bounds of times.
    pub(crate) are_times: bool,
    /// A stored value means "missing".
    pub(crate) has_sentinel: bool,
    /// Some are missing.
    pub(crate) any_missing: bool,
    /// All are whole, and within 64 bits.
    pub(crate) are_whole: bool,
    /// All are exact as binary64.
    pub(crate) are_float: bool,
}

impl Numbers {
    /// `None` if the values are not numbers, or not the stored ones.
    pub(super) fn of(
        array: &Array,
        values: &ArrayValues,
        are_times: bool,
        format: ZarrFormat,
    ) -> Option<Self> {
        let data_type = &values.data_type;
        if !is_number(data_type) || packing(&array.attributes).is_some() {
            return None;
        }
        let sentinels = Sentinels::of(array, format);
        let has_sentinel = !sentinels.elements.is_empty();
        let mut found =
            Self { are_times, has_sentinel, any_missing: false, are_whole: true, are_float: true };
        for element in elements(values)? {
            if sentinels.is_missing(element) {
                found.any_missing = true;
                continue;
            }
            let number = FillValue::Fixed(values.bytes.slice_ref(element));
            found.are_whole &= converted(&number, data_type, &DataType::Int64).is_some();
            found.are_float &= converted(&number, data_type, &DataType::Float64).is_some();
        }
        Some(found)
    }
}

/// How a combined array is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Storage {
    /// As copies of its values.
    Copied,
    /// As the files' chunks, all of this shape.
    Regular(Vec<u64>),
    /// As slices of the files' chunks along one axis.
    Sliced {
        /// Axis of the files' array.
        axis: usize,
        /// Elements of a slice along it: a divisor of all chunk sizes, and of the lengths of all files but the last.
        step: u64,
    },
    /// As the files' chunks, whose sizes vary along the axes that grow.
    Rectilinear,
}

/// Maximum number of slices of one array.
const MAX_SLICES: u64 = 20_000_000;

/// How the part of an array in a file is stored.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ChunkLayout {
    /// Shape in the file.
    pub(crate) shape: Vec<u64>,
    /// Chunk shape in the file; `None` if chunk sizes vary.
    pub(crate) chunk: Option<Vec<u64>>,
    /// Whether codecs and fill value are those of the first file.
    pub(crate) fits: bool,
    /// Whether its values were read, so that they can be copied.
    pub(crate) is_read: bool,
}

/// An array of all files, as far as storage is concerned.
#[derive(Debug)]
pub(crate) struct ArrayParts<'a> {
    /// Whether its values are always copied.
    pub(crate) always_copied: bool,
    /// Whether chunks are plain elements of a fixed size.
    pub(crate) is_plain: bool,
    /// How the parts are stored: each layout that occurs, at least once; that of the first part first.
    pub(crate) layouts: Vec<&'a ChunkLayout>,
}

/// Why parts cannot be stored as one array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Misfit {
    /// Values that have to be copied were not read.
    NotRead,
    /// Codecs or fill values differ.
    Codecs,
    /// The chunks cannot form one grid.
    Chunks,
}

impl ChunkLayout {
    /// Returns the chunk size along an axis.
    pub(crate) fn chunk_along(&self, axis: usize) -> Option<u64> {
        self.chunk.as_ref()?.get(axis).copied()
    }
}

impl ArrayParts<'_> {
    /// Decides how the array is stored; chunk sizes may vary if `rectilinear`.
    ///
    /// # Errors
    /// Parts that cannot be stored as one array.
    pub(crate) fn storage(&self, geometry: &Geometry, rectilinear: bool) -> Result<Storage, Misfit> {
        let is_read = self.all(|part| part.is_read);
        if self.always_copied {
            return if is_read { Ok(Storage::Copied) } else { Err(Misfit::NotRead) };
        }
        if let Some(chunk) = self.regular(geometry) {
            return Ok(Storage::Regular(chunk));
        }
        if is_read {
            return Ok(Storage::Copied);
        }
        if !self.all(|part| part.fits) {
            return Err(Misfit::Codecs);
        }
        if rectilinear && self.fits_rectilinear(geometry) {
            return Ok(Storage::Rectilinear);
        }
        self.sliced(geometry).ok_or(Misfit::Chunks)
    }

    fn all(&self, is: impl Fn(&ChunkLayout) -> bool) -> bool {
        self.layouts.iter().all(|part| is(part))
    }

    fn first(&self) -> Option<&ChunkLayout> {
        self.layouts.first().copied()
    }

    /// Returns the chunk shape that all files share, if each file but the last along each axis is a whole number of chunks.
    fn regular(&self, geometry: &Geometry) -> Option<Vec<u64>> {
        let chunk = self.first()?.chunk.as_deref()?;
        let is_same = self.all(|part| part.fits && part.chunk.as_deref() == Some(chunk));
        let is_whole = geometry.axes.iter().all(|axis| {
            let size = axis.own.and_then(|own| chunk.get(own)).copied().unwrap_or(1).max(1);
            all_but_last(axis).all(|n| n % size == 0)
        });
        (is_same && is_whole).then(|| chunk.to_vec())
    }

    /// Returns whether chunks hold plain elements, so that a slice along the axis is one run of bytes.
    fn is_run(&self, axis: usize) -> bool {
        let is_slowest = |chunk: &[u64]| chunk.iter().take(axis).all(|n| *n == 1);
        self.is_plain && self.all(|part| part.chunk.as_deref().is_some_and(is_slowest))
    }

    /// Returns whether chunks agree along all axes but one of the files' array.
    fn agree_except(&self, axis: usize) -> bool {
        let Some(first) = self.first().and_then(|part| part.chunk.as_deref()) else { return false };
        self.all(|part| {
            part.chunk.as_ref().is_some_and(|chunk| {
                let mut pairs = chunk.iter().zip(first).enumerate();
                chunk.len() == first.len()
                    && chunk.iter().all(|n| *n > 0)
                    && pairs.all(|(n, (left, right))| n == axis || left == right)
            })
        })
    }

    /// Returns the largest slices into which all chunks can be divided.
    fn sliced(&self, geometry: &Geometry) -> Option<Storage> {
        let axis = growing_axis(geometry)?;
        let own = axis.own?;
        if !self.is_run(own) || !self.agree_except(own) {
            return None;
        }
        let chunks = self.layouts.iter().filter_map(|part| part.chunk_along(own));
        let step = chunks.chain(all_but_last(axis)).fold(0, greatest_common_divisor);
        if step == 0 || axis.total / step > MAX_SLICES {
            return None;
        }
        Some(Storage::Sliced { axis: own, step })
    }

    /// Returns whether each chunk has the shape that a varying grid gives it, or can be referred to as if it had.
    fn fits_rectilinear(&self, geometry: &Geometry) -> bool {
        let Some((axis, own)) = growing_axis(geometry).and_then(|axis| Some((axis, axis.own?))) else {
            return false;
        };
        let is_whole = |part: &ChunkLayout| {
            let sizes = part.shape.get(own).zip(part.chunk_along(own));
            sizes.is_some_and(|(n, chunk)| chunk > 0 && n % chunk == 0)
        };
        let size = |own| self.first().and_then(|part| part.chunk_along(own));
        let is_divided = |other: &Axis| {
            let is_along =
                |at| at == own || size(at).is_some_and(|size| size > 0 && other.total.is_multiple_of(size));
            other.own.is_none_or(is_along)
        };
        let is_run = axis.own.is_some_and(|own| self.is_run(own));
        self.agree_except(own)
            && geometry.axes.iter().all(is_divided)
            && self.all(|part| part.fits && (is_run || is_whole(part)))
    }
}

fn all_but_last(axis: &Axis) -> impl Iterator<Item = u64> + '_ {
    axis.sizes.iter().take(axis.sizes.len().saturating_sub(1)).copied()
}

/// Returns the axis of the files' array that grows, if there is only one.
fn growing_axis(geometry: &Geometry) -> Option<&Axis> {
    let mut growing = geometry.axes.iter().filter(|axis| axis.own.is_some() && axis.dimension.is_some());
    let axis = growing.next()?;
    growing.next().is_none().then_some(axis)
}
