//! Builds coordinate arrays from file names, catalogues and attributes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{Hash, Hasher},
    sync::Arc,
};

use bytes::Bytes;
use serde_json::{Map, Value};
use smallvec::SmallVec;
use virtualize::{
    OptionName, Remedy, netcdf_default_fill,
    zarr::{
        Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, ZarrFormat,
        cf::{
            fill_value_attribute,
            missing::{MISSING, Sentinels, number},
        },
        node,
    },
};

use super::{Result, metadata::Growing};
use crate::{
    compat::{
        roles::{Axis, Geometry},
        signature::ChunkLayout,
    },
    error::Problem,
    values::{
        Given, Scalar, converted, index,
        variable::{self, Table, advance, is_variable, paste},
    },
};

/// Returns the coordinate array of a dimension; `None` if values are of several kinds.
pub(super) fn array(name: &str, mut given: Vec<Given>, format: ZarrFormat) -> Option<Array> {
    Given::unify(&mut given)?;
    let (units, calendar) = (given.first()?.units, given.first()?.calendar());
    let mut attributes = Map::new();
    for (key, value) in [("units", units), ("calendar", calendar)] {
        attributes.extend(value.map(|value| (key.to_owned(), Value::from(value))));
    }
    let mut array = of_axis(name, given.len(), DataType::Int64, attributes);
    let scalars: Vec<Scalar> = given.into_iter().map(|one| one.value).collect();
    fill(&mut array, &scalars)?;
    if format == ZarrFormat::V3 {
        array.fill_value = Some(FillValue::zero(&array.data_type));
    }
    Some(array)
}

/// Returns a variable of float64 along a dimension.
fn floats(dimension: &str, numbers: Vec<f64>, description: &str, format: ZarrFormat) -> Option<Array> {
    let attributes = [("long_name".to_owned(), description.into())].into_iter().collect();
    let mut array = of_axis(dimension, numbers.len(), DataType::Float64, attributes);
    array.fill_value = (format == ZarrFormat::V3).then(|| FillValue::zero(&array.data_type));
    set_inline_values(&mut array, numbers.into_iter().flat_map(f64::to_le_bytes).collect())?;
    Some(array)
}

/// Moves an attribute of packing from an array to a variable along a dimension, `numbers`. Returns the name of the variable, and
/// the variable.
pub(super) fn packing_variable(
    array: &mut Array,
    path: &str,
    attribute: &str,
    (dimension, numbers): (&str, Vec<f64>),
    format: ZarrFormat,
) -> Result<(String, Array)> {
    let description = format!("{attribute} of {}", node::name(path));
    let name = format!("{}_{attribute}", node::name(path));
    array.attributes.remove(attribute);
    array.attributes.insert(format!("{attribute}_variable"), name.as_str().into());
    let variable = floats(dimension, numbers, &description, format).ok_or(Problem::TOO_LARGE)?;
    Ok((name, variable))
}

/// Returns the error of files whose packing needs a name that an array has.
pub(super) fn name_is_taken(name: &str) -> Problem {
    Problem::new(format!("the files have an array of the name that its packing needs, {name}"))
}

/// Returns an array of one axis without values and codecs.
fn of_axis(dimension: &str, length: usize, data_type: DataType, attributes: Map<String, Value>) -> Array {
    let shape = vec![length as u64];
    Array {
        chunk_grid: ChunkGrid::Regular(shape.clone()),
        shape,
        data_type,
        fill_value: None,
        codecs: Vec::new(),
        dimension_names: vec![Some(dimension.to_owned())],
        attributes,
        chunks: ChunkManifest::default(),
    }
}

/// Inlines scalars as strings, `int64` or `float64`: the first type that represents all of them.
fn fill(array: &mut Array, scalars: &[Scalar]) -> Option<()> {
    let texts = scalars.iter().map(|scalar| match scalar {
        Scalar::Text(text) => Some(text.to_string()),
        _ => None,
    });
    if let Some(texts) = texts.collect::<Option<Vec<_>>>() {
        array.data_type = DataType::String;
        let elements: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        return set_inline_elements(array, &elements, &[]);
    }
    let ints = scalars.iter().map(|scalar| scalar.to_i128().and_then(|int| i64::try_from(int).ok()));
    if let Some(ints) = ints.collect::<Option<Vec<_>>>() {
        return set_inline_values(array, ints.iter().flat_map(|int| int.to_le_bytes()).collect());
    }
    let floats = scalars.iter().map(|scalar| match scalar {
        Scalar::Float(float) => Some(*float),
        whole => match FillValue::from_i128(&DataType::Float64, whole.to_i128()?).exact()? {
            FillValue::Fixed(bytes) => bytes.as_ref().try_into().ok().map(f64::from_le_bytes),
            FillValue::Text(_) | FillValue::Variable(_) => None,
        },
    });
    let floats = floats.collect::<Option<Vec<_>>>()?;
    array.data_type = DataType::Float64;
    set_inline_values(array, floats.iter().flat_map(|float| float.to_le_bytes()).collect())
}

/// Maximum size in bytes of a chunk of inlined values, unless a single element of the slowest axis is larger.
const CHUNK: u64 = 1 << 20;

/// Assembles all values of an array, with `missing` where no file has a part. Values are row-major and little-endian;
/// each variable-length element is preceded by its length.
pub(super) fn whole(
    growing: &mut Growing<'_>,
    geometry: &Geometry,
    missing: &[u8],
    most: u64,
) -> Result<Vec<u8>> {
    if !is_variable(&growing.first.data_type) {
        let size = growing.first.data_type.size().ok_or(Problem::VALUE_SHAPE)?;
        if growing.pieces.kept() <= most
            && follow_each_other(growing, geometry, size)
            && let Some(values) = growing.pieces.take_values()
        {
            return Ok(values);
        }
        let values = |n| growing.pieces.values(n);
        return assembled((growing, geometry), missing, (size, most), values);
    }
    let missing = variable::join([missing]).ok_or(Problem::TOO_LARGE)?;
    let mut table = Table::default();
    let none = table.numbers(&missing);
    let numbers: HashMap<u32, Bytes> =
        growing.pieces.iter().filter_map(|n| Some((n, table.numbers(growing.pieces.values(n)?)))).collect();
    let values = |n| numbers.get(&n).map(|numbers| numbers.as_ref());
    let numbers = assembled((growing, geometry), &none, (8, most), values)?;
    let joined = table.elements(&numbers).and_then(variable::join).ok_or(Problem::VALUE_SHAPE)?;
    let bytes = joined.len() as u64;
    if bytes > most { Err(too_many(bytes, most)) } else { Ok(joined) }
}

fn too_many(bytes: u64, most: u64) -> Problem {
    Problem::new(format!("{bytes} bytes of values to inline, more than the limit of {most}"))
}

/// Returns whether the combined array consists of the values of all parts, one after the other.
fn follow_each_other(growing: &Growing<'_>, geometry: &Geometry, size: u64) -> bool {
    let Some((slowest, others)) = geometry.axes.split_first() else { return false };
    let is_whole = |n| {
        let form = growing.pieces.form(n)?;
        let (_, extent) = geometry.part(&growing.place_of(n))?;
        let shape = &form.layout.shape;
        let is_own = |(axis, n): (&Axis, &u64)| axis.own.map_or(*n == 1, |own| shape.get(own) == Some(n));
        let bytes = extent.iter().try_fold(size, |all, n| all.checked_mul(*n))?;
        Some(geometry.axes.iter().zip(&extent).all(is_own) && form.values == Some(bytes))
    };
    growing.pieces.len() == slowest.sizes.len()
        && others.iter().all(|axis| axis.dimension.is_none())
        && growing.pieces.iter().all(|n| is_whole(n) == Some(true))
}

/// Assembles elements of `size` bytes from the parts at their places.
fn assembled<'a>(
    (growing, geometry): (&Growing<'_>, &Geometry),
    missing: &[u8],
    (size, most): (u64, u64),
    values: impl Fn(u32) -> Option<&'a [u8]>,
) -> Result<Vec<u8>> {
    let shape = geometry.shape();
    let bytes = shape.iter().try_fold(size, |product, n| product.checked_mul(*n)).unwrap_or(u64::MAX);
    if bytes > most {
        return Err(too_many(bytes, most));
    }
    let count = usize::try_from(bytes / size.max(1)).map_err(|_| Problem::TOO_LARGE)?;
    let mut all = missing.repeat(count);
    for n in growing.pieces.iter() {
        let values = values(n).ok_or(Problem::VALUE_SHAPE)?;
        let own = growing.pieces.form(n).map(|form| form.layout.shape.as_slice()).unwrap_or_default();
        put(&mut all, geometry, &growing.place_of(n), (own, values), size).ok_or(Problem::VALUE_SHAPE)?;
    }
    Ok(all)
}

/// Copies the values of a part, given with its place and shape, into the combined array.
fn put(
    all: &mut [u8],
    geometry: &Geometry,
    place: &Place,
    (part, values): (&[u64], &[u8]),
    size: u64,
) -> Option<()> {
    let shape = geometry.shape();
    let (start, extent) = geometry.part(place)?;
    let own = geometry.axes.iter().map(|axis| axis.own.map_or(Some(1), |own| part.get(own).copied()));
    let own: Vec<u64> = own.collect::<Option<_>>()?;
    if own.iter().try_fold(size, |product, n| product.checked_mul(*n))? != values.len() as u64 {
        return None;
    }
    // Along new axes, values are repeated for each element of the part.
    let times: Vec<u64> =
        geometry.axes.iter().zip(&extent).map(|(axis, n)| if axis.own.is_none() { *n } else { 1 }).collect();
    if times.contains(&0) {
        return Some(());
    }
    let mut step = vec![0; times.len()];
    loop {
        let at: Vec<u64> = start.iter().zip(&step).map(|(start, step)| start + step).collect();
        paste(all, &shape, &at, values, &own, size)?;
        if !advance(&mut step, &times) {
            return Some(());
        }
    }
}

/// Inlines values into an array as uncompressed chunks of bounded size.
pub(super) fn set_inline_values(array: &mut Array, values: Vec<u8>) -> Option<()> {
    if is_variable(&array.data_type) {
        let fill = variable::fill(array);
        return set_inline_elements(array, &variable::split(&values).collect::<Vec<_>>(), &fill);
    }
    let size = array.data_type.size()?;
    let endian = (array.data_type.number_size() > 1).then_some(Endian::Little);
    array.codecs = vec![Codec::Bytes { endian }];
    let Some((rows, rest)) = array.shape.split_first() else {
        array.chunk_grid = ChunkGrid::Regular(Vec::new());
        array.chunks = ChunkManifest { references: Vec::new(), inline: [(0, values.into())].into() };
        return Some(());
    };
    let row = rest.iter().try_fold(size, |product, n| product.checked_mul(*n))?;
    let most = rows_per_chunk(row, *rows);
    let length = usize::try_from(most.checked_mul(row)?).ok()?;
    // The grid has one chunk along all other axes, hence positions equal indices along the first axis.
    let inline = padded_chunks(values.into(), length, 0);
    let chunk = std::iter::once(most).chain(rest.iter().map(|n| (*n).max(1))).collect();
    array.chunk_grid = ChunkGrid::Regular(chunk);
    array.chunks = ChunkManifest { references: Vec::new(), inline };
    Some(())
}

/// Divides values into chunks of a length in bytes, the last of which is padded with zeros. `first` is the position of the first.
pub(super) fn padded_chunks(values: Bytes, length: usize, first: u64) -> BTreeMap<u64, Bytes> {
    let chunk = |start: usize| {
        let chunk = values.slice(start..values.len().min(start.saturating_add(length)));
        if chunk.len() == length {
            return chunk;
        }
        let mut padded = chunk.to_vec();
        padded.resize(length, 0);
        padded.into()
    };
    (first..).zip((0..values.len()).step_by(length.max(1)).map(chunk)).collect()
}

/// Returns the length of chunks along the slowest axis, of which an element has `row` bytes.
pub(super) fn rows_per_chunk(row: u64, rows: u64) -> u64 {
    CHUNK.checked_div(row).unwrap_or(1).max(1).min(rows.max(1))
}

/// Inlines variable-length elements into an array; the number of rows per chunk bounds the average chunk size.
fn set_inline_elements(array: &mut Array, elements: &[&[u8]], fill: &[u8]) -> Option<()> {
    let rows = array.shape.first().copied().unwrap_or(1).max(1);
    let row = array.shape.iter().skip(1).try_fold(1, |product: u64, n| product.checked_mul(*n))?;
    let bytes: u64 = elements.iter().map(|element| element.len() as u64 + 4).sum();
    let most = CHUNK.checked_div(bytes.div_ceil(rows)).unwrap_or(rows).clamp(1, rows);
    let length = usize::try_from(most.checked_mul(row)?).ok()?;
    let mut inline = BTreeMap::new();
    for (position, part) in elements.chunks(length.max(1)).enumerate() {
        let mut part = part.to_vec();
        part.resize(length, fill);
        let (chunk, codec) = variable::encoded(part.into_iter(), &array.data_type)?;
        array.codecs = vec![codec];
        inline.insert(position as u64, chunk);
    }
    let sizes = std::iter::once(most).chain(array.shape.iter().skip(1).map(|n| (*n).max(1)));
    array.chunk_grid = ChunkGrid::Regular(sizes.take(array.shape.len()).collect());
    array.chunks = ChunkManifest { references: Vec::new(), inline };
    Some(())
}

/// Makes missing chunks read as a missing value. Set `complete` if the files that have the array lack none of its
/// chunks, so that its fill value may change. `chosen` is the user's choice for an array without a missing value.
///
/// # Errors
/// An array without a missing value; an array whose missing chunks already read as valid data.
pub(super) fn prepare(
    array: &mut Array,
    format: ZarrFormat,
    complete: bool,
    chosen: Option<&Value>,
) -> Result<()> {
    let sentinels = Sentinels::of(array, format);
    if let Some(FillValue::Fixed(bytes)) = &array.fill_value
        && sentinels.is_missing(bytes)
    {
        return Ok(());
    }
    if complete {
        let nan = || FillValue::from_f64(&array.data_type, f64::NAN).value();
        let sentinel = sentinels.elements.first().map(|bytes: &Bytes| FillValue::Fixed(bytes.clone()));
        let is_float = array.data_type.is_float();
        if let Some(fill) = sentinel.or_else(|| if is_float { nan() } else { None }) {
            array.fill_value = Some(fill);
            return Ok(());
        }
    }
    if !complete {
        return Err(Problem::of(
            "gaps cannot be distinguished from values, since missing chunks of other files read as a value",
        ));
    }
    let Some(chosen) = chosen else {
        let text =
            "gaps cannot be distinguished from values, since the array has no value that means \"missing\"";
        let fill = netcdf_default_fill(&array.data_type);
        let Some(fill) = fill.and_then(|(_, fill)| fill.to_i128(&array.data_type)) else {
            return Err(Problem::of(text));
        };
        let rule = format!("optional:{fill}");
        return Err(Problem::of(text).with(Remedy::set(
            OptionName::Var,
            rule,
            "mark gaps with this or another value that does not occur in the data",
        )));
    };
    let fill = number(chosen, &array.data_type).map(FillValue::Fixed);
    let attribute = fill.as_ref().and_then(|fill| fill_value_attribute::encode(fill, &array.data_type));
    let (Some(fill), Some(attribute)) = (fill, attribute) else {
        return Err(Problem::new(format!("cannot represent the fill value {chosen} as {}", array.data_type)));
    };
    if format == ZarrFormat::V3 {
        array.attributes.insert("_FillValue".to_owned(), attribute);
    }
    array.fill_value = Some(fill);
    Ok(())
}

/// Converts the values of a copied array to one data type if files have several types, or several missing values that
/// do not occur in the data. Returns a note on the conversion.
///
/// # Errors
/// Missing values that occur in the data, values that were not read, and values that no single type represents exactly.
pub(super) fn unify_types(growing: &mut Growing<'_>, format: ZarrFormat) -> Result<Option<String>> {
    if growing.pieces.forms().all(|form| form.other.is_none()) {
        return Ok(None);
    }
    let usual = (growing.first.data_type.clone(), Sentinels::of(&growing.first, format));
    let types = types(growing, &usual)?;
    let candidates = candidates(&types, growing.are_times);
    let found = candidates.iter().find_map(|target| Some((target, exact(growing, &usual.0, target)?)));
    let names: BTreeSet<String> = types.iter().map(ToString::to_string).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let (target, (values, starts)) =
        found.ok_or_else(|| Problem::new(format!("no common dtype represents {names} exactly")))?;
    growing.pieces.set_values(values, starts, |form| {
        let own = type_of(form, &usual.0);
        if own != target {
            form.values = form.values.map(|bytes| bytes / size_of(own) as u64 * size_of(target) as u64);
        }
        form.other = None;
    });
    growing.first.data_type = target.clone();
    growing.first.fill_value = (format == ZarrFormat::V3).then(|| FillValue::zero(target));
    for name in MISSING {
        growing.attributes.kept.remove(name);
        growing.first.attributes.remove(name);
    }
    Ok((types.len() > 1).then(|| format!("files have types {names}: converted to {target}")))
}

/// Returns the types of all parts. `usual` are type and missing values of the first file.
fn types(growing: &Growing<'_>, usual: &(DataType, Sentinels)) -> Result<Vec<DataType>> {
    let mut types = Vec::new();
    for n in growing.pieces.iter() {
        let other = growing.pieces.form(n).and_then(|form| form.other.as_deref());
        let (data_type, sentinels) = other.unwrap_or(usual);
        let values = growing.pieces.values(n).ok_or(Problem::NOT_READ)?;
        if values.chunks_exact(size_of(data_type)).any(|element| sentinels.is_missing(element)) {
            let url = growing.url_of(n);
            return Err(Problem::new(format!(
                "{url} has missing values, but the files disagree on dtype or fill value"
            )));
        }
        if !types.contains(data_type) {
            types.push(data_type.clone());
        }
    }
    Ok(types)
}

/// Returns the values of all parts in another type, and where those of each part start. Returns `None` if one is not
/// representable exactly.
fn exact(growing: &Growing<'_>, usual: &DataType, target: &DataType) -> Option<(Vec<u8>, Vec<u64>)> {
    let (mut all, mut starts) = (Vec::new(), Vec::new());
    for n in 0..u32::try_from(growing.pieces.len()).ok()? {
        starts.push(all.len() as u64);
        let (own, values) = (type_of(growing.pieces.form(n)?, usual), growing.pieces.values(n)?);
        if own == target {
            all.extend_from_slice(values);
            continue;
        }
        for element in values.chunks_exact(size_of(own)) {
            match converted(&FillValue::Fixed(Bytes::copy_from_slice(element)), own, target)? {
                FillValue::Fixed(bytes) => all.extend_from_slice(&bytes),
                FillValue::Text(_) | FillValue::Variable(_) => return None,
            }
        }
    }
    Some((all, starts))
}

fn type_of<'a>(form: &'a Form, usual: &'a DataType) -> &'a DataType {
    form.other.as_ref().map_or(usual, |other| &other.0)
}

/// Returns the size of an element in bytes, at least 1.
pub(super) fn size_of(data_type: &DataType) -> usize {
    data_type.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(1).max(1)
}

/// Returns candidate types in order of preference: NumPy's promotion rules, except that times prefer integers.
fn candidates(types: &[DataType], is_time: bool) -> Vec<DataType> {
    if let [only] = types {
        return vec![only.clone()];
    }
    let widest = || types.iter().max_by_key(|one| one.size()).cloned();
    let is_of_one_kind =
        types.iter().all(DataType::is_signed_integer) || types.iter().all(DataType::is_float);
    let is_whole = is_time || types.iter().all(DataType::is_integer);
    let wide = widest().filter(|_| is_of_one_kind);
    wide.into_iter().chain(is_whole.then_some(DataType::Int64)).chain([DataType::Float64]).collect()
}

/// Place of a part along each dimension of the layout; 0 along dimensions where the array is invariant.
pub(super) type Place = SmallVec<[u32; 2]>;

/// How an array is stored in a file, and how it differs from the first file's. Files share forms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Form {
    /// Shape and chunks.
    pub(super) layout: ChunkLayout,
    /// Size of the values in bytes, if they were read.
    pub(super) values: Option<u64>,
    /// Data type and missing values, if they differ from those of the first file.
    pub(super) other: Option<Arc<(DataType, Sentinels)>>,
    /// Whether no chunk is missing.
    pub(super) is_complete: bool,
}

/// The part of an array in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Index of the file among the set's blocks.
    pub(super) block: u32,
    /// Index of its form.
    pub(super) form: u32,
    /// Index of its units; 0 for those of the first file.
    pub(super) units: u32,
}

/// The parts of an array.
#[derive(Debug)]
pub(super) struct Pieces {
    /// In the order in which they were added.
    pub(super) list: Vec<Piece>,
    /// Indices into `list` by place. `None` if the order of the list is that of the places.
    by_place: Option<BTreeMap<Place, u32>>,
    forms: Interned<Form>,
    /// Distinct units; the first stands for those of the first file.
    units: Interned<str>,
    /// Values of all parts, one after the other.
    values: Vec<u8>,
    /// Where the values of each part start; empty if no part has values.
    starts: Vec<u64>,
    /// Whether values are no longer kept.
    pub(super) are_dropped: bool,
    /// Digests of the values, where several files may have the same part.
    digests: BTreeMap<u32, String>,
    /// Number of chunks in all files.
    chunks: u64,
}

/// Distinct values, each with an index.
#[derive(Debug)]
struct Interned<T: ?Sized> {
    list: Vec<Arc<T>>,
    of: HashMap<Arc<T>, u32>,
}

impl<T: ?Sized> Default for Interned<T> {
    fn default() -> Self {
        Self { list: Vec::new(), of: HashMap::new() }
    }
}

impl<T: Eq + Hash + ?Sized> Interned<T> {
    /// Returns the index of a value, which is added if it is new. Returns `None` if there are too many.
    fn intern(&mut self, value: &T, share: impl FnOnce(&T) -> Arc<T>) -> Option<u32> {
        if let Some(known) = self.of.get(value) {
            return Some(*known);
        }
        let (new, value) = (u32::try_from(self.list.len()).ok()?, share(value));
        self.list.push(Arc::clone(&value));
        self.of.insert(value, new);
        Some(new)
    }
}

impl Hash for Form {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let sentinels = self.other.as_ref().map(|other| &other.1.elements);
        (&self.layout, self.values, self.is_complete, sentinels).hash(state);
    }
}

impl Form {
    /// Returns the number of chunks along each axis in the file.
    pub(super) fn counts(&self) -> Vec<u64> {
        let ChunkLayout { shape, chunk, .. } = &self.layout;
        let chunk = chunk.as_ref().unwrap_or(shape);
        shape.iter().zip(chunk).map(|(n, c)| n.div_ceil((*c).max(1))).collect()
    }
}

impl Pieces {
    /// Creates an empty list. Set `in_order` if parts are added in order of place, each place once.
    pub(super) fn new(in_order: bool) -> Self {
        Self {
            list: Vec::new(),
            by_place: (!in_order).then(BTreeMap::new),
            forms: Interned::default(),
            units: Interned { list: vec!["".into()], of: HashMap::new() },
            values: Vec::new(),
            starts: Vec::new(),
            are_dropped: false,
            digests: BTreeMap::new(),
            chunks: 0,
        }
    }

    /// Returns the number of parts.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the number of chunks in all files.
    pub(super) fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Returns a part.
    pub(super) fn get(&self, n: u32) -> Option<&Piece> {
        self.list.get(index(n))
    }

    /// Returns the first part in order of place.
    pub(super) fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// Iterates over the parts in order of place.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let in_order = self.by_place.is_none().then(|| 0..u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        let others = self.by_place.iter().flat_map(|by_place| by_place.values().copied());
        in_order.into_iter().flatten().chain(others)
    }

    /// Returns the part at a place. If parts were added in order of place, `order` compares a part's block with it.
    pub(super) fn find(&self, place: &Place, order: impl Fn(u32) -> std::cmp::Ordering) -> Option<u32> {
        match &self.by_place {
            Some(by_place) => by_place.get(place).copied(),
            None => {
                let found = self.list.binary_search_by(|piece| order(piece.block)).ok()?;
                u32::try_from(found).ok()
            }
        }
    }

    /// Returns the form of a part.
    pub(super) fn form(&self, n: u32) -> Option<&Form> {
        self.forms.list.get(index(self.get(n)?.form)).map(Arc::as_ref)
    }

    /// Returns the forms that occur, that of the first part first. One may occur twice.
    pub(super) fn forms(&self) -> impl Iterator<Item = &Form> {
        self.first().and_then(|first| self.form(first)).into_iter().chain(self.all_forms())
    }

    /// Returns all forms by their index.
    pub(super) fn all_forms(&self) -> impl Iterator<Item = &Form> {
        self.forms.list.iter().map(Arc::as_ref)
    }

    /// Returns the values of a part, if they were read and kept.
    pub(super) fn values(&self, n: u32) -> Option<&[u8]> {
        let size = usize::try_from(self.form(n)?.values?).ok()?;
        let start = usize::try_from(*self.starts.get(index(n))?).ok()?;
        self.values.get(start..start.checked_add(size)?)
    }

    /// Returns the units of a part, if they differ from those of the first file.
    pub(super) fn units(&self, n: u32) -> Option<&str> {
        let units = self.get(n)?.units;
        (units > 0).then(|| self.units.list.get(index(units))).flatten().map(AsRef::as_ref)
    }

    /// Returns whether some part has other units than the first file.
    pub(super) fn have_other_units(&self) -> bool {
        self.list.iter().any(|piece| piece.units > 0)
    }

    /// Returns the digest of a part.
    pub(super) fn digest(&self, n: u32) -> Option<&str> {
        self.digests.get(&n).map(String::as_str)
    }

    /// Returns the index of units.
    pub(super) fn intern_units(&mut self, units: Option<&str>) -> Option<u32> {
        units.map_or(Some(0), |units| self.units.intern(units, |units| Arc::from(units)))
    }

    /// Returns the index of a form, which is added if it is new.
    pub(super) fn intern(&mut self, form: &Form) -> Option<u32> {
        self.forms.intern(form, |form| Arc::new(form.clone()))
    }

    /// Adds the part of a block with the indices of its form and units. Returns `None` if there are too many.
    pub(super) fn push(
        &mut self,
        place: impl FnOnce() -> Place,
        (block, form, units): (u32, u32, u32),
        values: Option<&[u8]>,
        (digest, chunks): (Option<&str>, u64),
    ) -> Option<()> {
        let new = u32::try_from(self.list.len()).ok()?;
        if let Some(by_place) = &mut self.by_place {
            by_place.insert(place(), new);
            self.digests.extend(digest.map(|digest| (new, digest.to_owned())));
        }
        if values.is_some() || !self.starts.is_empty() {
            self.starts.resize(self.list.len(), 0);
            self.starts.push(self.values.len() as u64);
            self.values.extend_from_slice(values.unwrap_or_default());
        }
        self.chunks = self.chunks.checked_add(chunks)?;
        self.list.push(Piece { block, form, units });
        Some(())
    }

    /// Takes the values of all parts, one after the other, if they are in this order in memory and nothing else is.
    pub(super) fn take_values(&mut self) -> Option<Vec<u8>> {
        let mut end = 0_u64;
        for n in self.iter() {
            if self.starts.get(index(n)) != Some(&end) {
                return None;
            }
            end = end.checked_add(self.form(n)?.values?)?;
        }
        (end == self.kept()).then(|| std::mem::take(&mut self.values))
    }

    /// Returns the size of all values in bytes.
    pub(super) fn kept(&self) -> u64 {
        self.values.len() as u64
    }

    /// Stops keeping values, and forgets those of all parts.
    pub(super) fn drop_values(&mut self) {
        (self.values, self.starts, self.are_dropped) = (Vec::new(), Vec::new(), true);
        self.change_forms(|form| {
            form.values = None;
            form.layout.is_read = false;
        });
    }

    /// Replaces the values of all parts, given in the order in which these were added, and changes the forms accordingly.
    pub(super) fn set_values(&mut self, values: Vec<u8>, starts: Vec<u64>, change: impl Fn(&mut Form)) {
        (self.values, self.starts) = (values, starts);
        self.change_forms(change);
    }

    fn change_forms(&mut self, change: impl Fn(&mut Form)) {
        self.forms.of.clear();
        for (n, form) in (0..).zip(&mut self.forms.list) {
            change(Arc::make_mut(form));
            self.forms.of.entry(Arc::clone(form)).or_insert(n);
        }
    }
}
