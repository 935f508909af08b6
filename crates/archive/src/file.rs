//! A file of an archive: as a listing has it, as it was read, and as datasets are joined from it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use virtualize::{
    ArrayValues, DeclaredBand, StoreOptions, VirtualStore, digest, read_array,
    zarr::{
        Array, ChunkManifest, DataType, Group, Hierarchy, Lengths, Node, NodePath, References, Source,
        SourceId, ZarrFormat, cf::attributes::canonical, node,
    },
};

use crate::{
    Result,
    error::{CombineError, Problem},
    values::{Grid, Scalar, elements, variable::is_variable},
};

/// A file of an archive, as a listing has it. What a listing does not say is not known before the file is opened.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Item {
    /// Absolute url; local files have the scheme `file`.
    pub url: String,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Entity tag.
    pub etag: Option<String>,
    /// Modification time, in milliseconds since 1970-01-01T00:00:00Z.
    pub modified: Option<i64>,
    /// What a catalogue says of it, such as the properties of a STAC item; empty for others.
    #[serde(default)]
    pub properties: Map<String, Value>,
}

/// Member of [`Item::properties`]: nodata, scale, offset and unit of each band, as STAC 1.0 has them.
pub(crate) const BANDS: &str = "raster:bands";

impl Item {
    /// Returns what the catalogue declares of the bands.
    ///
    /// # Errors
    /// Values of other types than the extension `raster` of STAC has.
    pub(crate) fn declared_bands(&self) -> Result<Vec<DeclaredBand>, CombineError> {
        let wrong = |text: String| CombineError::of(&self.url, Problem::new(format!("{BANDS}: {text}")));
        let band = |band: &Value| {
            let member = |name| band.get(name).filter(|value| !value.is_null());
            let number = |name| match member(name) {
                None => Ok(None),
                Some(value) => {
                    let number = value.as_f64().map(Some);
                    number.ok_or_else(|| wrong(format!("{name} is {value}, expected a number")))
                }
            };
            let nodata = match member("nodata") {
                None => None,
                Some(Value::String(text)) if text.parse::<f64>().is_ok() => Some(text.clone()),
                Some(value @ Value::Number(_)) => Some(canonical(value.clone()).to_string()),
                Some(value) => return Err(wrong(format!("nodata is {value}, expected a number"))),
            };
            let unit = member("unit").and_then(Value::as_str).map(str::to_owned);
            Ok(DeclaredBand { nodata, scale: number("scale")?, offset: number("offset")?, unit })
        };
        match self.properties.get(BANDS) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(bands)) => bands.iter().map(band).collect(),
            Some(other) => Err(wrong(format!("{other} is not an array"))),
        }
    }
}

/// A file that was read.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Member {
    /// The file.
    pub item: Item,
    /// Its groups and arrays, with references to their chunks.
    pub hierarchy: Hierarchy,
    /// Decoded values of the arrays in [`Wanted::values`].
    pub values: BTreeMap<NodePath, ArrayValues>,
    /// SHA-256 of type, shape and values, followed by some of the values, of the arrays in [`Wanted::digests`].
    pub digests: BTreeMap<NodePath, String>,
    /// Those of the arrays in [`Wanted::digests`] that are evenly spaced.
    pub grids: BTreeMap<NodePath, Grid>,
    /// Coordinates along dimensions from names, paths or catalogues, by dimension.
    pub given: BTreeMap<String, Value>,
    /// Arrays and groups that the file has, but that references cannot express. Known only when the file is read.
    pub omitted: BTreeSet<NodePath>,
}

/// Arrays of a file that must be read whole, because references to them are not enough.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wanted {
    /// Arrays whose values are needed: coordinates along the dimensions, and small arrays whose chunks may not fit.
    pub values: BTreeSet<NodePath>,
    /// Arrays that must be equal in all files, because they are invariant along a dimension.
    pub digests: BTreeSet<NodePath>,
}

/// [`Member::values`], [`Member::digests`] and [`Member::grids`].
pub(crate) type Values =
    (BTreeMap<NodePath, ArrayValues>, BTreeMap<NodePath, String>, BTreeMap<NodePath, Grid>);

impl Wanted {
    /// Reads the arrays.
    ///
    /// # Errors
    /// Arrays that cannot be read whole.
    pub(crate) async fn read(
        &self,
        store: &VirtualStore,
        options: &StoreOptions,
    ) -> Result<Values, virtualize::Error> {
        let read = self.values.union(&self.digests).map(|path| async move {
            let values = read_array(store, path, options).await?;
            Ok::<_, virtualize::Error>((path.clone(), values))
        });
        let read: BTreeMap<_, _> = try_join_all(read).await?.into_iter().collect();
        let digests =
            self.digests.iter().filter_map(|path| Some((path.clone(), fingerprint(read.get(path)?))));
        let digests = digests.collect();
        let grids = self.digests.iter().filter_map(|path| Some((path.clone(), Grid::of(read.get(path)?)?)));
        let grids = grids.collect();
        let values = read.into_iter().filter(|(path, _)| self.values.contains(path)).collect();
        Ok((values, digests, grids))
    }
}

/// Returns the SHA-256 of type, shape and values, and the first and last values for messages: `9f86… 70, 50, …, -70`.
pub(crate) fn fingerprint(values: &ArrayValues) -> String {
    let text = |one| match Scalar::of_element(one, &values.data_type)? {
        #[expect(clippy::cast_possible_truncation, reason = "the number was a float32")]
        Scalar::Float(number) if values.data_type == DataType::Float32 => Some((number as f32).to_string()),
        scalar => Some(scalar.to_string()),
    };
    let preview = || {
        let mut texts = elements(values)?.take(5).map(text).collect::<Option<Vec<_>>>()?;
        if texts.len() > 4 {
            texts.truncate(2);
            texts.extend(["…".to_owned(), text(elements(values)?.last()?)?]);
        }
        Some(texts.join(", "))
    };
    let preview: String = preview().unwrap_or_default().chars().take(LONGEST_PREVIEW).collect();
    format!("{} {preview}", digest(values))
}

/// Maximum length of the values in a [`fingerprint`], in characters.
const LONGEST_PREVIEW: usize = 100;

/// What is recorded of a file besides its chunks, with the nodes as `N`. Documents of the same text share one [`ParsedNode`].
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Head<N = HeadNode> {
    /// The file.
    pub(crate) item: Item,
    /// Zarr format of its documents.
    pub(crate) format: ZarrFormat,
    /// Its groups and arrays, parents before children; the first is the root.
    pub(crate) nodes: Vec<N>,
    /// Decoded values of the arrays in [`crate::Wanted::values`].
    pub(crate) values: BTreeMap<NodePath, Bytes>,
    /// [`fingerprint`] of the arrays in [`crate::Wanted::digests`].
    pub(crate) digests: BTreeMap<NodePath, String>,
    /// Coordinates along dimensions from names, paths or catalogues, by dimension.
    pub(crate) given: BTreeMap<String, Value>,
}

impl Head {
    /// Returns the groups and arrays without chunks. The values of arrays with elements of variable length are inline if
    /// they were read, and otherwise in some file, as far as [`crate::wanted`] can tell.
    pub(crate) fn hierarchy(&self) -> Hierarchy {
        let mut hierarchy = Hierarchy::new(self.format);
        for HeadNode { path, node, .. } in &self.nodes {
            let mut node = ParsedNode::clone(node);
            if let ParsedNode::Array(array) = &mut node
                && is_variable(&array.data_type)
            {
                array.chunks = match self.values.get(&**path) {
                    Some(values) => {
                        ChunkManifest { references: Vec::new(), inline: [(0, values.clone())].into() }
                    }
                    None => ChunkManifest::of(References {
                        source: SourceId(0),
                        positions: None,
                        offsets: vec![0].into(),
                        lengths: Lengths::Uniform(1),
                    }),
                };
            }
            // A node inside an array is omitted.
            let _ = node.put(&mut hierarchy, path);
        }
        hierarchy
    }
}

/// A group or array of a file.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct HeadNode {
    /// Its path.
    pub(crate) path: Arc<str>,
    /// Its metadata.
    pub(crate) node: Arc<ParsedNode>,
    /// Number of its chunks, inline ones included.
    pub(crate) count: u64,
}

/// A metadata document.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ParsedNode {
    /// The attributes of a group.
    Group(Map<String, Value>),
    /// An array, with an empty manifest.
    Array(Box<Array>),
}

impl ParsedNode {
    /// Parses the document of a node: `zarr.json`, or an object of `.zarray` or `.zgroup` and `.zattrs`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(document: &str, format: ZarrFormat) -> Result<Self, String> {
        let document: Value = serde_json::from_str(document).map_err(|error| error.to_string())?;
        let of = |name: &str| document.get(name).unwrap_or(&Value::Null);
        let array = match format {
            ZarrFormat::V2 if document.get(".zarray").is_none() => {
                return Ok(Self::Group(Group::from_document(of(".zattrs"), format).attributes));
            }
            ZarrFormat::V2 => Array::from_zarray(of(".zarray"), of(".zattrs")),
            ZarrFormat::V3 if of("node_type").as_str() == Some("group") => {
                return Ok(Self::Group(Group::from_document(&document, format).attributes));
            }
            ZarrFormat::V3 => Array::from_zarr_json(&document),
        };
        array.map(|read| Self::Array(Box::new(read.array))).map_err(|error| error.to_string())
    }

    /// Adds the node to a hierarchy, with the groups above it. Returns `None` if it is inside an array.
    pub(crate) fn put(self, hierarchy: &mut Hierarchy, path: &str) -> Option<()> {
        let root = &mut hierarchy.root;
        match self {
            Self::Group(attributes) => root.make_group(path)?.attributes = attributes,
            Self::Array(array) => {
                let (parent, name) = node::split(path);
                root.make_group(parent)?.children.insert(name.to_owned(), Node::Array(array));
            }
        }
        Some(())
    }
}

/// Returns all groups of a file by path, parents before children.
pub(crate) fn groups(hierarchy: &Hierarchy) -> Vec<(NodePath, &Group)> {
    let mut all = vec![(NodePath::new(), &hierarchy.root)];
    let mut at = 0;
    while let Some((path, group)) = all.get(at).cloned() {
        all.extend(group.children.iter().filter_map(|(name, node)| match node {
            Node::Group(child) => Some((node::join(&path, name), child)),
            Node::Array(_) => None,
        }));
        at += 1;
    }
    all
}

/// Chunks of an array of a file.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct FileChunks {
    /// The chunks. Their source IDs are indices into `sources`.
    pub(crate) chunks: ChunkManifest,
    /// The sources of all chunks of the file.
    pub(crate) sources: Arc<[Arc<Source>]>,
}

/// Supplies the files of a combined dataset, by row.
pub(crate) trait Members: Send {
    /// Returns the metadata of a file.
    ///
    /// # Errors
    /// A record that cannot be read.
    fn head(&mut self, row: u64) -> Result<Head>;

    /// Returns the chunks of an array of a file.
    ///
    /// # Errors
    /// A record that cannot be read.
    fn chunks(&mut self, row: u64, path: &str) -> Result<FileChunks>;
}
