//! What an HDF5 file says, as plain data. Nothing here knows Zarr, and nothing here does I/O.
//!
//! Objects are stored once, by address; links name them. A hard link that is its own ancestor is therefore possible:
//! whoever walks the tree keeps the addresses of the path it is on.

use std::collections::BTreeMap;

use bytes::Bytes;
use virtualize_bytes::{Address, ByteRange};

use crate::Error;

/// An open file.
#[derive(Clone, Debug)]
pub struct File {
    /// Version of the superblock, 0 to 3.
    pub superblock_version: u8,
    /// Where the superblock lies: the size of the user block, in bytes.
    pub base_address: Address,
    /// Bytes of an address in the file: 2, 4 or 8.
    pub offset_size: u8,
    /// Bytes of a length in the file: 2, 4 or 8.
    pub length_size: u8,
    /// Address of the root group in `objects`.
    pub root: Address,
    /// Every object reachable by hard links from the root group.
    pub objects: BTreeMap<Address, Object>,
    /// Text of the datasets `/HDFEOS INFORMATION/StructMetadata.0`, `.1` and on, which describes an HDF-EOS5 file.
    pub struct_metadata: Option<String>,
}

/// What lies at an object header.
#[derive(Clone, Debug)]
pub enum Object {
    /// A group.
    Group(Group),
    /// A dataset.
    Dataset(Box<Dataset>),
    /// A committed ("named") datatype.
    Datatype(Datatype),
    /// The object could not be read; the rest of the file stands.
    Unreadable(Error),
}

/// Group: links in the order of their names, or of their creation where the group tracks it.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Attributes in storage order (creation order where it is tracked).
    pub attributes: Vec<Attribute>,
    /// Attributes that exist but could not be read.
    pub unreadable_attributes: Vec<Error>,
    /// Links, in creation order where the group tracks it, else in order of name.
    pub links: Vec<Link>,
}

/// A named edge of a group.
#[derive(Clone, Debug)]
pub struct Link {
    /// Name in its group. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub name: String,
    /// Where it leads.
    pub target: LinkTarget,
}

/// Where a link leads.
#[derive(Clone, Debug)]
pub enum LinkTarget {
    /// An object of this file (a key of [`File::objects`]).
    Hard(Address),
    /// A path in this file, absolute or relative to the group that holds the link.
    Soft(String),
    /// An object of another file.
    External {
        /// File name as stored.
        file: String,
        /// Path of the object in that file.
        path: String,
    },
    /// A user-defined link class, 65 to 255.
    UserDefined(u8),
    /// The link exists but could not be read.
    Unreadable(Error),
}

/// A dataset: what its header says, and where its chunks lie.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Type of an element.
    pub datatype: Datatype,
    /// Whether the datatype is a committed one, and where it lies.
    pub committed_datatype: Option<Address>,
    /// Extent.
    pub dataspace: Dataspace,
    /// What unallocated elements read as.
    pub fill: FillMessage,
    /// Filters in the order in which they are applied on writing.
    pub filters: Vec<Filter>,
    /// Where the elements lie.
    pub layout: Layout,
    /// Attributes in storage order.
    pub attributes: Vec<Attribute>,
    /// Attributes that exist but could not be read.
    pub unreadable_attributes: Vec<Error>,
}

/// Dataspace message: the extent of a dataset or an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Dataspace {
    /// No elements.
    Null,
    /// One element, no dimensions.
    Scalar,
    /// An array.
    Simple {
        /// Current size, slowest axis first, in elements.
        shape: Vec<u64>,
        /// Largest size, `None` for unlimited; absent where the file does not say (then it is the current one).
        max_shape: Option<Vec<Option<u64>>>,
    },
}

impl Dataspace {
    /// Sizes, slowest axis first; empty for a scalar, `None` for a null dataspace.
    pub fn shape(&self) -> Option<&[u64]> {
        match self {
            Self::Null => None,
            Self::Scalar => Some(&[]),
            Self::Simple { shape, .. } => Some(shape),
        }
    }
}

/// A datatype. Sizes and offsets are bytes; bit offsets count from the least significant bit.
#[derive(Clone, PartialEq, Debug)]
pub enum Datatype {
    /// Class 0, fixed-point.
    Integer(Integer),
    /// Class 1, floating-point.
    Float(Float),
    /// Class 2, time. No released library reads it.
    Time {
        /// Size in bytes.
        size: u32,
    },
    /// Class 3, fixed-length string.
    String {
        /// Size in bytes, the NUL included where there is one.
        size: u32,
        /// How shorter text fills its place.
        padding: StringPadding,
        /// Character set.
        charset: CharacterSet,
    },
    /// Class 4, bit field.
    Bitfield(Integer),
    /// Class 5, opaque.
    Opaque {
        /// Size in bytes.
        size: u32,
        /// What the writer calls it.
        tag: String,
    },
    /// Class 6, compound.
    Compound {
        /// Size in bytes, gaps included.
        size: u32,
        /// Members in storage order.
        members: Vec<Member>,
    },
    /// Class 7, reference.
    Reference {
        /// Size in bytes.
        size: u32,
        /// What it points at.
        kind: ReferenceKind,
    },
    /// Class 8, enumeration.
    Enum {
        /// Underlying integer type.
        base: Box<Datatype>,
        /// Names and their values, each as many bytes as the base type has, in its byte order.
        members: Vec<(String, Vec<u8>)>,
    },
    /// Class 9, variable-length sequence.
    Sequence {
        /// Size of the pointer into the global heap, in bytes.
        size: u32,
        /// Type of an item.
        base: Box<Datatype>,
    },
    /// Class 9, variable-length string.
    VariableString {
        /// Size of the pointer into the global heap, in bytes.
        size: u32,
        /// How it ends.
        padding: StringPadding,
        /// Character set.
        charset: CharacterSet,
    },
    /// Class 10, array.
    Array {
        /// Type of an item.
        base: Box<Datatype>,
        /// Sizes, slowest axis first.
        shape: Vec<u64>,
    },
    /// Class 11, complex (HDF5 2): real part, then imaginary part.
    Complex {
        /// Type of each part.
        base: Box<Datatype>,
    },
}

impl Datatype {
    /// Bytes of an element (of its pointer, where it is kept elsewhere); `u64::MAX` where 64 bits do not hold it.
    pub fn size(&self) -> u64 {
        match self {
            Self::Integer(integer) | Self::Bitfield(integer) => integer.size.into(),
            Self::Float(float) => float.size.into(),
            Self::Time { size }
            | Self::String { size, .. }
            | Self::Opaque { size, .. }
            | Self::Compound { size, .. }
            | Self::Reference { size, .. }
            | Self::Sequence { size, .. }
            | Self::VariableString { size, .. } => (*size).into(),
            Self::Enum { base, .. } => base.size(),
            Self::Array { base, shape } => shape.iter().copied().fold(base.size(), u64::saturating_mul),
            Self::Complex { base } => base.size().saturating_mul(2),
        }
    }
}

/// Byte order of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
    /// VAX: 16-bit words, least significant byte first, most significant word first.
    Vax,
}

/// Properties of an integer or a bit field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Integer {
    /// Size in bytes.
    pub size: u32,
    /// Byte order.
    pub order: ByteOrder,
    /// Two's complement.
    pub signed: bool,
    /// First significant bit.
    pub bit_offset: u16,
    /// How many bits are significant.
    pub precision: u16,
}

/// Properties of a floating-point number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Float {
    /// Size in bytes.
    pub size: u32,
    /// Byte order.
    pub order: ByteOrder,
    /// First significant bit.
    pub bit_offset: u16,
    /// How many bits are significant.
    pub precision: u16,
    /// Bit of the sign.
    pub sign_location: u8,
    /// First bit of the exponent.
    pub exponent_location: u8,
    /// Bits of the exponent.
    pub exponent_size: u8,
    /// First bit of the mantissa.
    pub mantissa_location: u8,
    /// Bits of the mantissa, an implied one not counted.
    pub mantissa_size: u8,
    /// What is added to the exponent.
    pub exponent_bias: u32,
    /// Mantissa normalization: 0 none, 1 always set, 2 implied.
    pub normalization: u8,
}

/// A member of a compound.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    /// Name.
    pub name: String,
    /// Offset in the compound, in bytes.
    pub offset: u32,
    /// Type.
    pub datatype: Datatype,
}

/// How a string fills its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StringPadding {
    /// Ends at the first NUL.
    NullTerminated,
    /// Filled with NULs.
    NullPadded,
    /// Filled with blanks.
    SpacePadded,
}

/// Character set of a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CharacterSet {
    /// US-ASCII.
    Ascii,
    /// UTF-8.
    Utf8,
}

/// What a reference points at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReferenceKind {
    /// Type 0: the address of an object.
    Object,
    /// Type 1: a dataset region in the global heap.
    Region,
    /// Types 2 to 4: the references of HDF5 1.12 (object, region, attribute).
    Standard(u8),
}

/// The fill value message (0x0005, before the old 0x0004).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FillMessage {
    /// Version of message 0x0005 (1 to 3), 0 for the old message, `None` where the header has neither.
    pub version: Option<u8>,
    /// When it is written.
    pub write_time: FillTime,
    /// When space for the data is allocated: 1 early, 2 late, 3 incremental; 0 where the file does not say.
    pub allocation_time: u8,
    /// The value.
    pub value: FillValue,
}

/// The three states of a fill value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FillValue {
    /// The writer said that there is none.
    Undefined,
    /// The library's default: zero bytes.
    Default,
    /// The stored bytes of one element.
    User(Bytes),
}

/// When the fill value is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FillTime {
    /// On allocation.
    Allocation,
    /// Never.
    Never,
    /// On allocation if the user set a value.
    IfSet,
}

/// One filter of a pipeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    /// Registered identifier: 1 deflate, 2 shuffle, 3 fletcher32, 4 szip, 5 nbit, 6 scale-offset, then registered ones.
    pub id: u16,
    /// Name, where the file has it.
    pub name: Option<String>,
    /// A chunk may lack it (flag bit 0).
    pub optional: bool,
    /// Client data ("cd_values").
    pub parameters: Vec<u32>,
}

/// Where the elements of a dataset lie.
#[derive(Clone, Debug)]
pub enum Layout {
    /// In the object header.
    Compact(Bytes),
    /// One run of bytes; `None` where it was never allocated. The run may be shorter than the extent needs.
    Contiguous(Option<ByteRange>),
    /// In other files, one run after the other.
    External(Vec<ExternalSegment>),
    /// In chunks.
    Chunked(Chunked),
    /// In other datasets.
    Virtual(Vec<VirtualMapping>),
    /// The layout could not be read, or the chunk index is damaged; the rest of the dataset stands.
    Unreadable(Error),
}

/// A run of bytes in an external raw data file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExternalSegment {
    /// File name as stored.
    pub file: String,
    /// First byte in that file.
    pub offset: u64,
    /// How many bytes belong to the dataset; `None` for unlimited.
    pub size: Option<u64>,
}

/// Chunked layout.
#[derive(Clone, Debug)]
pub struct Chunked {
    /// Shape of a chunk in elements, slowest axis first (without the element-size "dimension" of old layout messages).
    pub chunk_shape: Vec<u64>,
    /// How the chunks are indexed.
    pub index: ChunkIndexKind,
    /// Chunks that stick out of the extent are stored unfiltered (layout flag DONT_FILTER_PARTIAL_BOUND_CHUNKS).
    pub unfiltered_edges: bool,
    /// The allocated chunks.
    pub chunks: ChunkTable,
}

/// The seven chunk indexes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkIndexKind {
    /// Version-1 B-tree.
    BTree1,
    /// Single chunk.
    Single,
    /// Implicit.
    Implicit,
    /// Fixed array.
    FixedArray,
    /// Extensible array.
    ExtensibleArray,
    /// Version-2 B-tree.
    BTree2,
}

/// The allocated chunks of a dataset, as columns in ascending order of position. Chunks outside the current extent
/// are not listed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChunkTable {
    /// How many chunks lie along each axis, slowest first: the extent divided by the chunk shape, rounded up.
    pub grid: Vec<u64>,
    /// Row-major position of each chunk in `grid`, ascending. `None`: all positions, in order.
    pub positions: Option<Vec<u64>>,
    /// First byte of each chunk in the file.
    pub addresses: Vec<u64>,
    /// Stored size of each chunk.
    pub sizes: ChunkSizes,
    /// Filter masks that are not zero, by row-major position: bit *n* set means that filter *n* was skipped.
    pub filter_masks: BTreeMap<u64, u32>,
}

/// Stored sizes of chunks in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChunkSizes {
    /// The same for all (unfiltered chunks).
    Uniform(u64),
    /// One for each chunk.
    Each(Vec<u32>),
}

impl Default for ChunkSizes {
    fn default() -> Self {
        Self::Uniform(0)
    }
}

/// One mapping of a virtual dataset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VirtualMapping {
    /// Source file as stored ("." for this file); may hold printf-style `%b`.
    pub file: String,
    /// Source dataset as stored; may hold `%b`.
    pub dataset: String,
    /// Which elements of the source.
    pub source: Selection,
    /// Which elements of the virtual dataset.
    pub destination: Selection,
}

/// A selection of a dataspace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Selection {
    /// Nothing.
    None,
    /// Everything.
    All,
    /// A regular hyperslab, one entry an axis, slowest first. `None` in count or block stands for unlimited.
    Regular(Vec<Slab>),
    /// A regular hyperslab whose unlimited axis ends after so many elements along it, as the sources of a virtual dataset
    /// have them. No file says so.
    Clipped {
        /// One entry an axis, slowest first; one has no end of its own.
        slabs: Vec<Slab>,
        /// How many elements it has along that axis.
        elements: u64,
    },
    /// Irregular hyperslab: blocks as (first, last) corners, inclusive.
    Blocks(Vec<(Vec<u64>, Vec<u64>)>),
    /// Points.
    Points(Vec<Vec<u64>>),
}

/// A regular hyperslab along one axis, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slab {
    /// First element.
    pub start: u64,
    /// From block to block.
    pub stride: u64,
    /// Blocks; `None` for unlimited.
    pub count: Option<u64>,
    /// Elements of a block; `None` for unlimited.
    pub block: Option<u64>,
}

/// An attribute with its value.
#[derive(Clone, PartialEq, Debug)]
pub struct Attribute {
    /// Name.
    pub name: String,
    /// Type of an element.
    pub datatype: Datatype,
    /// Extent.
    pub dataspace: Dataspace,
    /// Elements in row-major order; variable-length ones are already fetched from the heap.
    pub elements: Vec<Element>,
}

/// One decoded element of an attribute, a fill value or a variable-length dataset.
#[derive(Clone, PartialEq, Debug)]
pub enum Element {
    /// Integer, bit field or enumeration: its value.
    Integer(i128),
    /// Floating-point number of at most 64 bits: its exact value.
    Float(f64),
    /// Complex number of two such.
    Complex(f64, f64),
    /// Text, without its padding. Bytes that are not UTF-8 make it [`Element::Bytes`].
    Text(String),
    /// Opaque data, or text in no known encoding.
    Bytes(Vec<u8>),
    /// Members of a compound by name, in storage order.
    Compound(Vec<(String, Element)>),
    /// Items of an array type (row-major) or a variable-length sequence.
    List(Vec<Element>),
    /// Object reference: the address of its target, `None` for a null reference.
    Object(Option<Address>),
    /// Reference to a part of a dataset: its address, and which elements.
    Region(Address, Selection),
    /// Reference to an attribute: the address of its object, and its name.
    Attribute(Address, String),
    /// What has no value that we know: its type's name (time, references into other files, floats over 64 bits, VAX floats).
    Unknown(&'static str),
}
