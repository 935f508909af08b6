//! The layout of a combined dataset: its dimensions, and the sources of coordinates.

use std::collections::{BTreeMap, BTreeSet};

use regex::{Captures, Regex};
use serde_json::{Map, Value};
use virtualize::{
    Code, Diagnostic, OptionName, Remedy, Severity, VirtualStore,
    options::value::InvalidValue,
    zarr::{Group, Hierarchy, Node, NodePath, node},
};
use virtualize_remedy::alternatives;

use crate::{
    Item,
    error::{CombineError, Problem},
    file::groups,
    values::{
        calendar::{Calendar, digits},
        day, time_value, value_or_time,
    },
};

/// Group of HDF-EOS5 files whose texts (StructMetadata, CoreMetadata) describe a single file. A combined dataset lacks them.
pub(crate) const FILE_TEXTS: &str = "HDFEOS INFORMATION";

type Result<T, E = Problem> = std::result::Result<T, E>;

/// Returns whether an attribute has references that select regions, such as `{"path": "/x", "selection": "hyperslab", …}`.
fn selects_region(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(selects_region),
        Value::Object(members) => {
            members.contains_key("path") && members.contains_key("selection")
                || members.values().any(selects_region)
        }
        _ => false,
    }
}

/// A dimension along which files are combined.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Along {
    /// An existing dimension: arrays that have it are concatenated along it.
    Concat(String),
    /// A new dimension: it becomes the first axis of data variables.
    Stack(String),
}

/// How files are combined. Arrays are given by name, by path, or as `*` for all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The dimensions, outermost first; empty for a scan that only groups files.
    pub along: Vec<Along>,
    /// Arrays that vary between files although they lack the dimensions: the combined arrays get them.
    pub concat_vars: BTreeSet<String>,
    /// Arrays without the dimensions that are taken from the first file, without comparison with the others.
    pub assume_equal: BTreeSet<String>,
    /// Arrays that may be missing from some files; their parts read as the fill value there.
    pub optional: BTreeSet<String>,
    /// Fill values of optional arrays that have none which means "missing", by name or path.
    pub fills: BTreeMap<String, Value>,
    /// Arrays that are omitted.
    pub dropped: BTreeSet<String>,
    /// Attribute that holds the coordinate along a dimension, by dimension: a name, or the path of a group or array and a name.
    /// The suffix `@day` rounds times down to the day.
    pub coordinate_attributes: BTreeMap<String, String>,
    /// Property of the STAC item that holds the coordinate along a dimension, by dimension. The suffix `@day` rounds times down
    /// to the day.
    pub coordinate_properties: BTreeMap<String, String>,
    /// Patterns of file names whose fields are coordinates along the dimensions of the same names.
    pub names: Vec<NamePattern>,
    /// Whether chunk sizes may vary along the dimensions (Zarr v3 extension `rectilinear`).
    pub rectilinear: bool,
    /// Maximum size in bytes of an array in a file for its values to be copied into the references when its chunks do
    /// not align with those of other files.
    pub inline_limit: u64,
}

impl Layout {
    /// Default of [`Layout::inline_limit`]: 64 KiB.
    pub const INLINE_LIMIT: u64 = 64 << 10;

    /// Returns the layout along these dimensions, with defaults for all else.
    pub fn along(along: Vec<Along>) -> Self {
        Self { along, ..Self::default() }
    }

    /// Returns the layout along new dimensions, outermost first, and along existing ones within them.
    pub(crate) fn of_dimensions(stacked: &[String], concatenated: &[String]) -> Self {
        let stacked = stacked.iter().cloned().map(Along::Stack);
        Self::along(stacked.chain(concatenated.iter().cloned().map(Along::Concat)).collect())
    }

    /// Returns whether a set of names includes an array: as `*`, by name, or by path, with or without a leading slash.
    pub(crate) fn has(names: &BTreeSet<String>, path: &str) -> bool {
        let name = node::name(path);
        ["*", path, name].iter().any(|known| names.contains(*known))
            || names.iter().any(|known| known.strip_prefix('/') == Some(path))
    }

    /// Treats an array, given by name or path, differently from the others.
    pub(crate) fn treat(&mut self, name: &str, rule: &ArrayRule) {
        let names = match rule {
            ArrayRule::Vary => &mut self.concat_vars,
            ArrayRule::First => &mut self.assume_equal,
            ArrayRule::Optional(fill) => {
                self.fills.extend(fill.clone().map(|fill| (name.to_owned(), fill)));
                &mut self.optional
            }
            ArrayRule::Drop => &mut self.dropped,
        };
        names.insert(name.to_owned());
    }

    /// Returns the fill value that was chosen for an optional array.
    pub(crate) fn fill(&self, path: &str) -> Option<&Value> {
        let names = [path, &format!("/{path}"), node::name(path), "*"];
        names.iter().find_map(|name| self.fills.get(*name))
    }

    /// Removes from a file what the combined dataset does not have: dropped arrays, arrays that describe the file, and, with a
    /// warning, the regions that references select, whose coordinates are those of the file.
    pub(crate) fn drop_arrays(&self, store: &mut VirtualStore) {
        let is_part = |diagnostic: &&Diagnostic| diagnostic.code == Code::ReferencePart;
        let referring = store.report.diagnostics.iter().filter(is_part).map(|one| one.path.clone());
        let referring: Vec<NodePath> = referring.filter(|_| !self.along.is_empty()).collect();
        let mut selecting = Vec::new();
        for path in referring.iter().map(|path| path.trim_start_matches('/')) {
            let shape = store.hierarchy.array(path).map(|array| array.shape.clone());
            let (parent, name) = node::split(path);
            let Some(group) = store.hierarchy.root.group_mut(parent) else { continue };
            group.children.retain(|other, node| {
                let suffix = other.strip_prefix(name).and_then(|rest| rest.strip_prefix("_part"));
                let is_part = suffix.is_some_and(|rest| rest.bytes().all(|byte| byte == b'_'))
                    && matches!(node, Node::Array(array) if Some(&array.shape) == shape.as_ref());
                selecting.extend(is_part.then(|| (node::join(parent, other), String::new())));
                !is_part
            });
        }
        self.drop_within(&mut store.hierarchy.root, "", &mut selecting);
        store.report.diagnostics.extend(selecting.into_iter().map(|(path, attribute)| Diagnostic {
            severity: Severity::Warning,
            code: Code::ReferencePart,
            path: format!("/{path}"),
            message: format!("{attribute}omitted: it selects regions by the coordinates of its own file"),
            remedy: None,
        }));
        let texts = store.hierarchy.root.children.get_mut(FILE_TEXTS);
        if let (false, Some(Node::Group(texts))) = (self.along.is_empty(), texts) {
            let named = [&self.concat_vars, &self.assume_equal, &self.optional];
            let is_named = |name: &str| named.iter().any(|set| Self::has(set, &node::join(FILE_TEXTS, name)));
            texts.children.retain(|name, node| matches!(node, Node::Group(_)) || is_named(name));
        }
    }

    /// Removes dropped arrays, and attributes that select regions. Adds their paths and names.
    fn drop_within(&self, group: &mut Group, path: &str, selecting: &mut Vec<(NodePath, String)>) {
        let mut drop_attributes = |attributes: &mut Map<String, Value>, path: &str| {
            attributes.retain(|name, value| {
                let is_dropped = !self.along.is_empty() && selects_region(value);
                selecting.extend(is_dropped.then(|| (path.to_owned(), format!("attribute {name} "))));
                !is_dropped
            });
        };
        drop_attributes(&mut group.attributes, path);
        group.children.retain(|name, node| match node {
            Node::Array(array) => {
                let path = node::join(path, name);
                drop_attributes(&mut array.attributes, &path);
                !Self::has(&self.dropped, &path)
            }
            Node::Group(_) => true,
        });
        for (name, node) in &mut group.children {
            if let Node::Group(group) = node {
                self.drop_within(group, &node::join(path, name), selecting);
            }
        }
    }
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            along: Vec::new(),
            concat_vars: BTreeSet::new(),
            assume_equal: BTreeSet::new(),
            optional: BTreeSet::new(),
            fills: BTreeMap::new(),
            dropped: BTreeSet::new(),
            coordinate_attributes: BTreeMap::new(),
            coordinate_properties: BTreeMap::new(),
            names: Vec::new(),
            rectilinear: false,
            inline_limit: Self::INLINE_LIMIT,
        }
    }
}

impl Along {
    /// Returns the name of the dimension.
    pub fn name(&self) -> &str {
        match self {
            Self::Concat(name) | Self::Stack(name) => name,
        }
    }
}

/// How an array is treated that is an exception.
#[derive(Clone, PartialEq, Debug)]
pub enum ArrayRule {
    /// It has the dimensions, so that it may differ between files.
    Vary,
    /// The array of the first file is taken, without comparison.
    First,
    /// Files may lack it. The number becomes its fill value if it has none that means "missing".
    Optional(Option<Value>),
    /// It is omitted.
    Drop,
}

impl std::fmt::Display for ArrayRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Vary => f.write_str("vary"),
            Self::First => f.write_str("first"),
            Self::Optional(None) => f.write_str("optional"),
            Self::Optional(Some(fill)) => {
                write!(f, "optional:{}", fill.as_str().unwrap_or(&fill.to_string()))
            }
            Self::Drop => f.write_str("drop"),
        }
    }
}

impl std::str::FromStr for ArrayRule {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        Ok(match text {
            "vary" => Self::Vary,
            "first" => Self::First,
            "optional" => Self::Optional(None),
            "drop" => Self::Drop,
            _ => match text.strip_prefix("optional:") {
                Some("nan" | "NaN") => Self::Optional(Some("NaN".into())),
                Some(fill) => match serde_json::from_str(fill) {
                    Ok(fill @ Value::Number(_)) => Self::Optional(Some(fill)),
                    _ => return Err(InvalidValue::expected("a number or NaN after optional:")),
                },
                None => {
                    let rules = ["vary", "first", "optional", "optional:VALUE", "drop"];
                    return Err(InvalidValue::one_of(text, &rules));
                }
            },
        })
    }
}

/// A pattern of file names with fields that are coordinates.
///
/// Example: `t2m_{time:%Y%m%d}_{member:d}.nc`. A field is `{name:type}`; `*` and `{}` match any text; everything else
/// is literal. Types are `d` (whole number), `f` (real number), `s` (any text, the default), and dates in the letters
/// of strftime (`%Y` `%m` `%d` `%j` `%H` `%M` `%S` `%y`), which become seconds since 1970-01-01. A date may be split
/// over several fields of one name: `{time:%Y}/{time:%m}/t2m_{time:%d}.nc`. Wildcards and fields do not match a slash,
/// unless a date format contains one. The pattern applies to the last segments of a path, as many as the pattern has.
///
/// A pattern with named groups, `(?<member>\d+)`, is a regular expression that is searched in the URL without its
/// query. The form of the matched text decides whether it becomes a whole number, a real number, a time or text.
///
/// ```
/// use serde_json::json;
/// use virtualize_archive::NamePattern;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pattern = NamePattern::new("t2m_{time:%Y%m%d}_{member:d}.nc")?;
/// let given = pattern.given("s3://bucket/era5/t2m_20200301_07.nc")?;
/// assert_eq!(given["time"], json!({"seconds since 1970-01-01": 1_583_020_800}));
/// assert_eq!(given["member"], 7);
/// assert!(pattern.given("s3://bucket/era5/index.html").is_err());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct NamePattern {
    pattern: String,
    regex: Regex,
    /// Type of each group of the expression; `None` for a regular expression, whose groups have names.
    parts: Option<Vec<Part>>,
}

/// A field of a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Part {
    name: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Int,
    Float,
    Text,
    /// A component of a date, by its letter.
    Date(char),
}

/// Suffix of a property or attribute whose times are rounded down to the day.
const BY_DAY: &str = "@day";

/// Maximum size of a compiled regular expression in bytes.
const MAX_PROGRAM: usize = 1 << 20;

impl PartialEq for NamePattern {
    fn eq(&self, other: &Self) -> bool {
        self.pattern == other.pattern
    }
}

impl Eq for NamePattern {}

impl std::fmt::Display for NamePattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.pattern)
    }
}

impl std::str::FromStr for NamePattern {
    type Err = CombineError;

    fn from_str(pattern: &str) -> Result<Self, CombineError> {
        Self::new(pattern)
    }
}

/// Returns the coordinates from a file's name, attributes and STAC item, for [`crate::Member::given`].
///
/// # Errors
/// A name that does not match the pattern, fields that are not dimensions, and properties or attributes that a file lacks.
pub(crate) fn given(
    item: &Item,
    hierarchy: &Hierarchy,
    layout: &Layout,
) -> Result<BTreeMap<String, Value>, CombineError> {
    let wrong = |problem| CombineError::of(&item.url, problem);
    let mut given = BTreeMap::new();
    let is_dimension = |name: &str| layout.along.iter().any(|along| along.name() == name);
    for pattern in &layout.names {
        for (name, value) in pattern.given(&item.url)? {
            let option = || format!("pattern {pattern}");
            if !is_dimension(&name) {
                let existing = alternatives("dimensions", &name, layout.along.iter().map(Along::name));
                let text = format!(
                    "{name} is not a dimension of the layout{existing}; {{}} and * are parts without a name"
                );
                let effect = "join files along it, if they have that dimension";
                let remedy = Remedy::set(OptionName::ConcatDim, name.clone(), effect).or(Remedy::set(
                    OptionName::StackDim,
                    name,
                    "add it as a new dimension",
                ));
                return Err(CombineError::of(option(), Problem::new(text).with(remedy)));
            }
            if given.contains_key(&name) {
                return Err(CombineError::of(option(), two("values", &name)));
            }
            given.insert(name, value);
        }
    }
    let of_day = |name: &str, value: Value| {
        let not_a_time = || wrong(Problem::new(format!("{name} is {value}, which is not a time")));
        day(&value).ok_or_else(not_a_time)
    };
    for (dimension, source) in &layout.coordinate_properties {
        let property = source.strip_suffix(BY_DAY).unwrap_or(source);
        let value =
            item.properties.get(property).or_else(|| item.properties.get("properties")?.get(property));
        let value = value.ok_or_else(|| {
            let inner = item.properties.get("properties").and_then(Value::as_object);
            let names = item.properties.iter().chain(inner.into_iter().flatten());
            let existing = alternatives("properties", property, names.map(|(name, _)| name.as_str()));
            wrong(Problem::new(format!("no property {property}{existing}")))
        })?;
        let value = value_or_time(value);
        given.insert(dimension.clone(), if source == property { value } else { of_day(property, value)? });
    }
    for (dimension, source) in &layout.coordinate_attributes {
        let name = source.strip_suffix(BY_DAY).unwrap_or(source);
        let value = value_or_time(attribute(hierarchy, name).map_err(wrong)?);
        given.insert(dimension.clone(), if source == name { value } else { of_day(name, value)? });
    }
    Ok(given)
}

/// Returns the attribute with this path: that of a group, an array, or a member of an object. A name alone is that of the root,
/// or else the only one anywhere.
fn attribute<'a>(hierarchy: &'a Hierarchy, name: &str) -> Result<&'a Value> {
    let mut all = Vec::new();
    groups(hierarchy).into_iter().for_each(|(path, group)| add_object(&path, &group.attributes, &mut all));
    hierarchy.arrays().into_iter().for_each(|(path, array)| add_object(&path, &array.attributes, &mut all));
    let name = name.trim_start_matches('/');
    let is_named = |path: &str| path.strip_suffix(name).is_some_and(|rest| rest.ends_with('/'));
    let exact = all.iter().find(|(path, _)| path == name).map(|(_, value)| *value);
    let mut named = all.iter().filter(|(path, _)| is_named(path)).map(|(_, value)| *value);
    let Some(first) = exact.or_else(|| named.next()) else {
        let existing = alternatives("attributes", name, all.iter().map(|(path, _)| path.as_str()));
        return Err(Problem::new(format!("no attribute {name} that is a single value{existing}")));
    };
    if exact.is_none() && named.any(|other| other != first) {
        let paths: Vec<_> = all.iter().map(|(path, _)| path.as_str()).filter(|path| is_named(path)).collect();
        let remedy = Remedy::advice("give the path of one of them instead of the name");
        return Err(
            Problem::new(format!("several attributes {name} differ: {}", paths.join(", "))).with(remedy)
        );
    }
    Ok(first)
}

/// Adds the attributes that are single values.
fn add_object<'a>(path: &str, attributes: &'a Map<String, Value>, all: &mut Vec<(String, &'a Value)>) {
    for (name, value) in attributes {
        let path = node::join(path, name);
        match value {
            Value::Object(members) => add_object(&path, members, all),
            Value::String(_) | Value::Number(_) => all.push((path, value)),
            _ => {}
        }
    }
}

impl NamePattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// A pattern without a field, or one that is invalid.
    pub fn new(pattern: &str) -> Result<Self, CombineError> {
        let wrong = |problem| CombineError::of(format!("pattern {pattern}"), problem);
        let plain = pattern.contains("(?<") || pattern.contains("(?P<");
        let (expression, parts) = if plain {
            (pattern.to_owned(), None)
        } else {
            let (expression, parts) = expression(pattern).map_err(wrong)?;
            (expression, Some(parts))
        };
        let regex = regex::RegexBuilder::new(&expression).size_limit(MAX_PROGRAM).build();
        let regex = regex.map_err(|error| {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
            wrong(Problem::new(last.to_owned()))
        })?;
        let named = regex.capture_names().flatten().next().is_some();
        if parts.as_ref().map_or(!named, Vec::is_empty) {
            return Err(wrong(Problem::of("no part has a name")));
        }
        Ok(Self { pattern: pattern.to_owned(), regex, parts })
    }

    /// Finds a pattern that gives each of these files another coordinate along a dimension: a date, or a number.
    pub(crate) fn infer(dimension: &str, urls: &[String]) -> Option<Self> {
        let names: Vec<Vec<&str>> =
            urls.iter().map(|url| runs(url.rsplit('/').next()?)).collect::<Option<_>>()?;
        let first = names.first().filter(|_| names.len() > 1)?;
        if names.iter().any(|name| name.len() != first.len()) {
            return None;
        }
        let varies = |at: usize| names.iter().any(|name| name.get(at) != first.get(at));
        let all_are = |at: usize, is: &dyn Fn(&str) -> bool| {
            names.iter().all(|name| {
                name.get(at).is_some_and(|run| run.starts_with(|c: char| c.is_ascii_digit()) && is(run))
            })
        };
        let all = |at: usize, length: usize| all_are(at, &|run| run.len() == length);
        let mut candidates = Vec::new();
        for at in (0..first.len()).filter(|at| varies(*at)) {
            let time = |n: usize| if all(n, 6) { Some("%H%M%S") } else { all(n, 4).then_some("%H%M") };
            if all(at, 8) {
                candidates.push((at, "%Y%m%d", time(at + 2).map(|time| (at + 2, time))));
                candidates.push((at, "%Y%m%d", None));
            }
        }
        for at in (0..first.len()).filter(|at| varies(*at) && all_are(*at, &|_| true)) {
            candidates.push((at, "d", None));
        }
        candidates.into_iter().find_map(|(at, kind, time)| {
            let mut pattern = String::new();
            for (n, run) in first.iter().enumerate() {
                match time {
                    _ if n == at => pattern += &format!("{{{dimension}:{kind}}}"),
                    Some((other, kind)) if n == other => pattern += &format!("{{{dimension}:{kind}}}"),
                    _ if varies(n) => pattern.push('*'),
                    _ => pattern += run,
                }
            }
            let pattern = Self::new(&pattern.replace("**", "*")).ok()?;
            let given = urls.iter().map(|url| Some(pattern.given(url).ok()?.remove(dimension)?.to_string()));
            let given: BTreeSet<String> = given.collect::<Option<_>>()?;
            (given.len() == urls.len()).then_some(pattern)
        })
    }

    /// Returns the names of the fields.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = match &self.parts {
            Some(parts) => parts.iter().map(|part| part.name.clone()).collect(),
            None => self.regex.capture_names().flatten().map(str::to_owned).collect(),
        };
        names.sort();
        names.dedup();
        names
    }

    /// Returns the coordinates from the name of a file.
    ///
    /// # Errors
    /// A name that does not match, or without a valid date where the pattern has one.
    pub fn given(&self, url: &str) -> Result<BTreeMap<String, Value>, CombineError> {
        let wrong = |problem| CombineError::of(url, problem);
        let is_web = url.starts_with("http:") || url.starts_with("https:");
        let path = if is_web { url.split(['?', '#']).next().unwrap_or(url) } else { url };
        let found = self.regex.captures(path);
        let found = found.ok_or_else(|| wrong(Problem::new(format!("file name does not match {self}"))))?;
        let given = match &self.parts {
            Some(parts) => typed(parts, &found),
            None => Ok(by_looks(&self.regex, &found)),
        };
        given.map_err(wrong)
    }
}

/// Splits a name into runs of digits and other text; `None` if it has characters with a meaning in patterns.
fn runs(name: &str) -> Option<Vec<&str>> {
    if name.contains(['{', '}', '*', '?', '#', '(']) {
        return None;
    }
    let is_digit = |letter: char| letter.is_ascii_digit();
    let mut runs = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|letter| is_digit(letter) != is_digit(first)).unwrap_or(rest.len());
        let (run, tail) = rest.split_at(end);
        runs.push(run);
        rest = tail;
    }
    Some(runs)
}

fn two(what: &str, part: &str) -> Problem {
    Problem::new(format!("file name has two {what} of {part}"))
}

/// Translates a pattern into a regular expression and the types of its groups.
fn expression(pattern: &str) -> Result<(String, Vec<Part>)> {
    let mut expression = String::from("(?:^|/)");
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some(at) = rest.find(['{', '*']) {
        let (literal, tail) = rest.split_at(at);
        expression += &regex::escape(literal);
        if let Some(tail) = tail.strip_prefix('*') {
            expression += "[^/]*";
            rest = tail;
            continue;
        }
        let (inner, tail) =
            tail.trim_start_matches('{').split_once('}').ok_or(Problem::of("a brace is not closed"))?;
        expression += &part(inner, &mut parts)?;
        rest = tail;
    }
    expression += &regex::escape(rest);
    expression.push('$');
    Ok((expression, parts))
}

/// Translates a field into an expression, and appends its groups.
fn part(inner: &str, parts: &mut Vec<Part>) -> Result<String> {
    let (name, kind) = inner.split_once(':').unwrap_or((inner, "s"));
    if name.is_empty() || name == "_" {
        return Ok("[^/]*?".to_owned());
    }
    let mut add = |kind| parts.push(Part { name: name.to_owned(), kind });
    match kind {
        "d" => add(Kind::Int),
        "f" => add(Kind::Float),
        "s" => add(Kind::Text),
        _ => return date(name, kind, parts),
    }
    Ok(match kind {
        "d" => "([+-]?[0-9]+)",
        "f" => r"([+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)",
        _ => "([^/]+?)",
    }
    .to_owned())
}

/// Translates the date letters of a field into an expression with a group for each.
fn date(name: &str, format: &str, parts: &mut Vec<Part>) -> Result<String> {
    let mut expression = String::new();
    let mut letters = format.chars();
    let before = parts.len();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            expression += &regex::escape(letter.encode_utf8(&mut [0; 4]));
            continue;
        }
        let field = letters.next().ok_or(Problem::of("a date ends with %"))?;
        let length = match field {
            'Y' => 4,
            'm' | 'd' | 'H' | 'M' | 'S' | 'y' => 2,
            'j' => 3,
            '%' => {
                expression.push('%');
                continue;
            }
            field => {
                return Err(Problem::new(format!(
                    "unknown date directive %{field}; supported: %Y %y %m %d %j %H %M %S"
                )));
            }
        };
        expression += &format!("([0-9]{{{length}}})");
        parts.push(Part { name: name.to_owned(), kind: Kind::Date(field) });
    }
    if parts.len() == before {
        return Err(Problem::new(format!(
            "unknown field type {format:?}; expected d, f, s or a date format such as %Y%m%d"
        )));
    }
    Ok(expression)
}

/// Converts the matched text of each field to its type, and assembles dates from their components.
fn typed(parts: &[Part], found: &Captures<'_>) -> Result<BTreeMap<String, Value>> {
    let mut given: BTreeMap<String, Value> = BTreeMap::new();
    let mut dates: BTreeMap<&str, BTreeMap<char, i64>> = BTreeMap::new();
    for (n, part) in parts.iter().enumerate() {
        let text = found.get(n + 1).map_or("", |part| part.as_str());
        let wrong = |part: &str| Problem::new(format!("cannot parse {text:?} as {part}"));
        let Kind::Date(field) = part.kind else {
            let value = value(text, part.kind).ok_or_else(|| wrong(&part.name))?;
            let before = given.insert(part.name.clone(), value.clone());
            if before.is_some_and(|before| before != value) {
                return Err(two("values", &part.name));
            }
            continue;
        };
        let number = digits(text).ok_or_else(|| wrong("date"))?;
        let before = dates.entry(part.name.as_str()).or_default().insert(field, number);
        if before.is_some_and(|before| before != number) {
            return Err(two("dates", &part.name));
        }
    }
    for (name, fields) in dates {
        let invalid = || Problem::new(format!("{name}: not a valid calendar date"));
        let seconds = seconds(&fields).ok_or_else(invalid)?;
        given.insert(name.to_owned(), time_value(seconds));
    }
    Ok(given)
}

fn value(text: &str, kind: Kind) -> Option<Value> {
    match kind {
        Kind::Int => text.trim_start_matches('+').parse::<i64>().ok().map(Value::from),
        Kind::Float => text.parse().ok().and_then(serde_json::Number::from_f64).map(Value::Number),
        Kind::Text | Kind::Date(_) => Some(text.into()),
    }
}

/// Converts the named groups of a regular expression: to a number or a time if the text is one, else to text.
fn by_looks(regex: &Regex, found: &Captures<'_>) -> BTreeMap<String, Value> {
    let one = |name: &str| {
        let text = found.name(name)?.as_str();
        // An integer of more than 64 bits stays text: as a float, it could equal another one.
        let is_whole = text.trim_start_matches(['+', '-']).bytes().all(|byte| byte.is_ascii_digit());
        let float = || value(text, Kind::Float).filter(|_| !is_whole);
        let number = value(text, Kind::Int).or_else(float);
        Some((name.to_owned(), number.unwrap_or_else(|| value_or_time(&text.into()))))
    };
    regex.capture_names().flatten().filter_map(one).collect()
}

/// Returns a date in seconds since 1970-01-01; missing components default to their first value.
fn seconds(fields: &BTreeMap<char, i64>) -> Option<i64> {
    let field = |letter, other| fields.get(&letter).copied().unwrap_or(other);
    // As in POSIX, two-digit years are 1969 to 2068.
    let short = fields.get(&'y').map(|year| if *year < 69 { 2000 + year } else { 1900 + year });
    let year = fields.get(&'Y').copied().or(short)?;
    let day = match fields.get(&'j') {
        Some(0) => return None,
        Some(of_year) => {
            let (first, next) =
                (Calendar::Gregorian.day(year, 1, 1)?, Calendar::Gregorian.day(year + 1, 1, 1)?);
            Some(first + of_year - 1).filter(|day| *day < next)?
        }
        None => Calendar::Gregorian.day(year, field('m', 1), field('d', 1))?,
    };
    let (hour, minute, second) = (field('H', 0), field('M', 0), field('S', 0));
    let sane = hour < 24 && minute < 60 && second < 60;
    let epoch = Calendar::Gregorian.day(1970, 1, 1)?;
    sane.then_some((day - epoch) * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use virtualize::zarr::ZarrFormat;

    use super::*;

    fn given(pattern: &str, url: &str) -> Result<Value, String> {
        let pattern = NamePattern::new(pattern).map_err(|error| error.to_string())?;
        let given = pattern.given(url).map_err(|error| error.to_string())?;
        Ok(serde_json::to_value(given).unwrap())
    }

    #[test]
    fn parts_have_types() {
        let url = "file:///a/b/run-3_tas_1.50_x.nc";
        assert_eq!(
            given("run{n:d}_{what}_{level:f}_*.nc", url).unwrap(),
            json!({"n": -3, "what": "tas", "level": 1.5})
        );
        assert_eq!(given(r"/(?<group>\w+)/run-(?<n>\d+)", url).unwrap(), json!({"group": "b", "n": 3}));
        let long = "20200301123456789012";
        assert_eq!(
            given(r"x(?<id>\d+)", &format!("s3://b/x{long}")).unwrap(),
            json!({"id": long}),
            "more than 64 bits"
        );
        assert!(given("run{n:d}.nc", url).unwrap_err().contains("does not match run{n:d}.nc"));
        assert_eq!(given("x_{m}.nc", "file:///b/x_a#b.nc").unwrap(), json!({"m": "a#b"}));
        assert_eq!(given("x_{m:d}.nc", "https://b/x_1.nc?key=2#3").unwrap(), json!({"m": 1}));
    }

    #[test]
    fn patterns_are_inferred_from_the_parts_of_names_that_differ() {
        let inferred = |names: &[&str]| {
            let urls: Vec<String> = names.iter().map(|name| format!("s3://b/{name}")).collect();
            NamePattern::infer("t", &urls).map(|pattern| pattern.to_string())
        };
        assert_eq!(inferred(&["g9.nc", "g10.nc"]).as_deref(), Some("g{t:d}.nc"));
        assert_eq!(
            inferred(&["x_20200131_v1.nc", "x_20200201_v1.nc"]).as_deref(),
            Some("x_{t:%Y%m%d}_v1.nc")
        );
        let granules =
            ["S_20200101T120000_20200101T130000_007.nc", "S_20200101T130000_20200101T140000_008.nc"];
        let expected = "S_20200101T*_20200101T*_{t:d}.nc";
        let first = "S_20200101T{t:d}_20200101T*_*.nc";
        assert!([expected, first].contains(&inferred(&granules).unwrap().as_str()));
        let hours = ["a_20200101T000000.nc", "a_20200101T060000.nc", "a_20200102T000000.nc"];
        assert_eq!(inferred(&hours).as_deref(), Some("a_{t:%Y%m%d}T{t:%H%M%S}.nc"));
        assert_eq!(inferred(&["2019/a.nc", "2020/a.nc"]), None);
        assert_eq!(inferred(&["a1.nc", "b_1_2.nc"]), None);
    }

    #[test]
    fn dates_may_be_spread() {
        let day = time_value(1_593_734_529);
        assert_eq!(given("OR_s{t:%Y%j%H%M%S}*.nc", "s3://b/OR_s20201850002092_e1.nc").unwrap()["t"], day);
        assert_eq!(
            given("{t:%Y}/{t:%m}/x_{t:%d}.nc", "s3://b/2020/02/x_29.nc").unwrap()["t"],
            time_value(1_582_934_400)
        );
        assert!(given("x_{t:%Y%m%d}.nc", "x_20190229.nc").unwrap_err().contains("not a valid calendar date"));
    }

    #[test]
    fn patterns_that_cannot_be_are_refused() {
        for (pattern, what) in [
            ("a.nc", "no part has a name"),
            ("{a:x}", "unknown field type \"x\""),
            ("{a:%Q}", "unknown date directive %Q"),
            ("{a", "not closed"),
            ("(?<a>[", "unclosed character class"),
        ] {
            let error = NamePattern::new(pattern).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn attributes_are_found_by_name_and_path() {
        let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
        let mut add = |path: &str, attributes: Value| {
            let group = hierarchy.root.make_group(path).unwrap();
            group.attributes = attributes.as_object().unwrap().clone();
        };
        add("", json!({ "title": "t", "cycle": 7, "list": [1, 2] }));
        add("g", json!({ "cycle": 8, "start": "2020-01-15", "IMAGERY": { "time": "2020:01:15 10:20:30" } }));
        add("h", json!({ "start": "2020-01-16", "same": 1 }));
        add("i", json!({ "same": 1 }));
        let of = |name: &str| attribute(&hierarchy, name).cloned().map_err(|problem| problem.to_string());
        assert_eq!(of("cycle"), Ok(json!(7)), "that of the root comes first");
        for (name, value) in [
            ("g/cycle", json!(8)),
            ("/g/start", json!("2020-01-15")),
            ("time", json!("2020:01:15 10:20:30")),
            ("IMAGERY/time", json!("2020:01:15 10:20:30")),
            ("same", json!(1)),
        ] {
            assert_eq!(of(name), Ok(value), "{name}");
        }
        assert!(of("start").unwrap_err().contains("several attributes start differ: g/start, h/start"));
        assert!(of("list").unwrap_err().contains("no attribute list that is a single value"));
        assert!(of("art").unwrap_err().contains("no attribute art"));
    }
}
