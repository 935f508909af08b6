//! Content of an HDF5 file as plain data. This module does no I/O and knows nothing about Zarr. NetCDF classic files and
//! DMR++ sidecars are described by the same types.
//!
//! Objects are stored once, by address, and links refer to them. A hard link can therefore lead to one of its own
//! ancestors: code that walks the tree must keep track of the addresses on its path.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use virtualize_bytes::{Address, ByteRange};

use crate::Error;

/// An HDF5 file.
#[derive(Clone, Debug)]
pub struct File {
    /// Superblock version, 0 to 3.
    pub superblock_version: u8,
    /// Address of the superblock, which is the size of the user block in bytes.
    pub base_address: Address,
    /// End of the file, as the superblock declares it. Nothing past it is read.
    pub end: Address,
    /// Structures of the metadata cache image, by address. They replace the bytes of the file.
    pub cached: BTreeMap<u64, Bytes>,
    /// Size of an address in the file ("size of offsets"): 2, 4 or 8 bytes.
    pub offset_size: u8,
    /// Size of a length in the file ("size of lengths"): 2, 4 or 8 bytes.
    pub length_size: u8,
    /// Address of the root group, a key of `objects`.
    pub root: Address,
    /// Objects that hard links reach from the root group, by the address of their object headers.
    pub objects: BTreeMap<Address, Object>,
    /// Concatenated text of the datasets `/HDFEOS INFORMATION/StructMetadata.0`, `.1`, …, the metadata of an HDF-EOS5
    /// file.
    pub struct_metadata: Option<String>,
    /// What only NetCDF classic files have; `None` for HDF5.
    pub classic: Option<Classic>,
}

impl File {
    /// Returns a file of objects that do not come from an HDF5 file's own metadata. The root group has address 0.
    pub fn of_objects(objects: BTreeMap<Address, Object>) -> Self {
        Self {
            superblock_version: 0,
            base_address: Address(0),
            end: Address(u64::MAX),
            cached: BTreeMap::new(),
            offset_size: 8,
            length_size: 8,
            root: Address(0),
            objects,
            struct_metadata: None,
            classic: None,
        }
    }
}

/// Dimensions and records of a NetCDF classic file. Its attributes have no special names, and bytes past the end of the file
/// read as zero.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Classic {
    /// Dimensions, in the order of their ids.
    pub dimensions: Vec<Dimension>,
    /// Number of records.
    pub records: u64,
    /// Bytes from a record to the next.
    pub stride: u64,
    /// Whether the header does not state the number of records, which then follows from the size of the file.
    pub is_streamed: bool,
}

/// A dimension of a NetCDF classic file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dimension {
    /// Name.
    pub name: String,
    /// Length; the number of records for a record dimension.
    pub length: u64,
    /// Whether it is a record dimension.
    pub is_record: bool,
}

/// An object, identified by its object header.
#[derive(Clone, Debug)]
pub enum Object {
    /// A group.
    Group(Group),
    /// A dataset.
    Dataset(Box<Dataset>),
    /// A committed ("named") datatype.
    Datatype(Datatype),
    /// An object that could not be read. The rest of the file is unaffected.
    Unreadable(Error),
}

/// A group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Attributes in creation order if the group tracks it, else in storage order.
    pub attributes: Vec<Attribute>,
    /// Errors of attributes that could not be read.
    pub unreadable_attributes: Vec<Error>,
    /// Links in creation order if the group tracks it, else by name.
    pub links: Vec<Link>,
}

/// A link of a group.
#[derive(Clone, Debug)]
pub struct Link {
    /// Name. Invalid UTF-8 is replaced by U+FFFD.
    pub name: String,
    /// Target.
    pub target: LinkTarget,
}

/// Target of a link.
#[derive(Clone, Debug)]
pub enum LinkTarget {
    /// Hard link: the address of an object in this file, a key of [`File::objects`].
    Hard(Address),
    /// Soft link: a path in this file, absolute or relative to the group of the link.
    Soft(String),
    /// External link: an object in another file.
    External {
        /// File name as stored.
        file: String,
        /// Path of the object in that file, as stored.
        path: String,
    },
    /// User-defined link class, 65 to 255.
    UserDefined(u8),
    /// A link that could not be read.
    Unreadable(Error),
}

/// A dataset.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Datatype of an element.
    pub datatype: Datatype,
    /// Address of the committed datatype, if the dataset uses one.
    pub committed_datatype: Option<Address>,
    /// Dataspace.
    pub dataspace: Dataspace,
    /// Index into [`Classic::dimensions`] for each axis; `None` in HDF5, whose dimensions are attributes.
    pub dimensions: Option<Vec<usize>>,
    /// Fill value of unallocated elements.
    pub fill: FillMessage,
    /// Filters in the order in which a writer applies them.
    pub filters: Vec<Filter>,
    /// Location of the elements.
    pub layout: Layout,
    /// Attributes in creation order if the dataset tracks it, else in storage order.
    pub attributes: Vec<Attribute>,
    /// Errors of attributes that could not be read.
    pub unreadable_attributes: Vec<Error>,
}

/// Dataspace of a dataset or an attribute (Dataspace message, 0x0001).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Dataspace {
    /// No elements.
    Null,
    /// One element, without dimensions.
    Scalar,
    /// An array.
    Simple {
        /// Current size in elements, slowest axis first.
        shape: Vec<u64>,
        /// Maximum size in elements, slowest axis first, `None` for an unlimited axis. Absent if not stored; it is then
        /// the current size.
        max_shape: Option<Vec<Option<u64>>>,
    },
}

impl Dataspace {
    /// Returns the shape, slowest axis first: empty for a scalar, `None` for a null dataspace.
    pub fn shape(&self) -> Option<&[u64]> {
        match self {
            Self::Null => None,
            Self::Scalar => Some(&[]),
            Self::Simple { shape, .. } => Some(shape),
        }
    }

    /// Returns the number of elements, 0 for a null dataspace. It saturates.
    pub fn elements(&self) -> u64 {
        self.shape().map_or(0, |shape| shape.iter().copied().fold(1, u64::saturating_mul))
    }
}

/// Datatype (Datatype message, 0x0003). Sizes and offsets are in bytes, bit offsets count from the least significant
/// bit.
#[derive(Clone, PartialEq, Debug)]
pub enum Datatype {
    /// Class 0, fixed-point.
    Integer(Integer),
    /// Class 1, floating-point.
    Float(Float),
    /// Class 2, time. The HDF5 library does not support it.
    Time {
        /// Size in bytes.
        size: u32,
        /// Byte order.
        order: ByteOrder,
    },
    /// Class 3, fixed-length string.
    String {
        /// Size in bytes, including a terminating NUL.
        size: u32,
        /// How shorter text is padded.
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
        /// Description by the writer.
        tag: String,
    },
    /// Class 6, compound.
    Compound {
        /// Size in bytes, including padding between members.
        size: u32,
        /// Members in storage order.
        members: Vec<Member>,
    },
    /// Class 7, reference.
    Reference {
        /// Size in bytes.
        size: u32,
        /// Kind of target.
        kind: ReferenceKind,
    },
    /// Class 8, enumeration.
    Enum {
        /// Integer type of the values.
        base: Box<Datatype>,
        /// Names and values. A value has the size and byte order of the base type.
        members: Vec<(String, Vec<u8>)>,
    },
    /// Class 9, variable-length sequence.
    Sequence {
        /// Size in bytes of the stored pointer to the global heap.
        size: u32,
        /// Datatype of an item.
        base: Box<Datatype>,
    },
    /// Class 9, variable-length string.
    VariableString {
        /// Size in bytes of the stored pointer to the global heap.
        size: u32,
        /// How the text ends.
        padding: StringPadding,
        /// Character set.
        charset: CharacterSet,
    },
    /// Class 10, array.
    Array {
        /// Datatype of an item.
        base: Box<Datatype>,
        /// Shape, slowest axis first.
        shape: Vec<u64>,
    },
    /// Class 11, complex (HDF5 2.0): real part, then imaginary part.
    Complex {
        /// Datatype of each part.
        base: Box<Datatype>,
    },
}

impl Datatype {
    /// Returns the size of a stored element in bytes; for variable-length types, that of the pointer. It saturates.
    pub fn size(&self) -> u64 {
        match self {
            Self::Integer(integer) | Self::Bitfield(integer) => integer.size.into(),
            Self::Float(float) => float.size.into(),
            Self::Time { size, .. }
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
    /// VAX: 16-bit words with the least significant byte first, the most significant word first.
    Vax,
}

/// Properties of an integer or a bit field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Integer {
    /// Size in bytes.
    pub size: u32,
    /// Byte order.
    pub order: ByteOrder,
    /// Whether the number is signed, in two's complement.
    pub signed: bool,
    /// Position of the least significant bit.
    pub bit_offset: u16,
    /// Number of significant bits.
    pub precision: u16,
}

impl Integer {
    /// Returns the type of an integer of `size` bytes, all of whose bits are significant.
    #[expect(clippy::cast_possible_truncation, reason = "at most 65535 bits")]
    pub const fn new(size: u32, signed: bool, order: ByteOrder) -> Self {
        Self { size, order, signed, bit_offset: 0, precision: size.saturating_mul(8) as u16 }
    }
}

/// Properties of a floating-point number. Positions count from the least significant bit of the stored element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Float {
    /// Size in bytes.
    pub size: u32,
    /// Byte order.
    pub order: ByteOrder,
    /// Position of the least significant bit of the number.
    pub bit_offset: u16,
    /// Number of significant bits.
    pub precision: u16,
    /// Position of the sign bit.
    pub sign_location: u8,
    /// Position of the exponent.
    pub exponent_location: u8,
    /// Size of the exponent in bits.
    pub exponent_size: u8,
    /// Position of the mantissa.
    pub mantissa_location: u8,
    /// Size of the mantissa in bits, without an implied bit.
    pub mantissa_size: u8,
    /// Exponent bias.
    pub exponent_bias: u32,
    /// Mantissa normalization: 0 none, 1 most significant bit always set, 2 most significant bit implied.
    pub normalization: u8,
}

impl Float {
    /// Returns the type of an IEEE 754 number of 4 bytes, or else of 8.
    pub const fn ieee(is_single: bool, order: ByteOrder) -> Self {
        let (size, precision, exponent_size, mantissa_size, exponent_bias) =
            if is_single { (4, 32, 8, 23, 127) } else { (8, 64, 11, 52, 1023) };
        Self {
            size,
            order,
            bit_offset: 0,
            precision,
            sign_location: if is_single { 31 } else { 63 },
            exponent_location: mantissa_size,
            exponent_size,
            mantissa_location: 0,
            mantissa_size,
            exponent_bias,
            normalization: 2,
        }
    }
}

/// A member of a compound datatype.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    /// Name.
    pub name: String,
    /// Offset in the compound, in bytes.
    pub offset: u32,
    /// Datatype.
    pub datatype: Datatype,
}

/// Padding of a fixed-length string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StringPadding {
    /// Terminated by a NUL.
    NullTerminated,
    /// Padded with NULs.
    NullPadded,
    /// Padded with spaces.
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

/// Kind of reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReferenceKind {
    /// Type 0: address of an object.
    Object,
    /// Type 1: dataset region, in the global heap.
    Region,
    /// Types 2 to 4: object, dataset region and attribute references of HDF5 1.12.
    Standard(u8),
}

/// Fill value of a dataset: Fill Value message (0x0005) or, in old files, message 0x0004.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FillMessage {
    /// Version of message 0x0005, 1 to 3; 0 for message 0x0004, `None` without either.
    pub version: Option<u8>,
    /// When the fill value is written.
    pub write_time: FillTime,
    /// When space is allocated: 1 early, 2 late, 3 incremental; 0 if not stored.
    pub allocation_time: u8,
    /// Value.
    pub value: FillValue,
}

/// State of a fill value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FillValue {
    /// Declared undefined: the content of unallocated elements is unspecified.
    Undefined,
    /// Default of the library: zero bytes.
    Default,
    /// Default of NetCDF classic for the datatype (`NC_FILL_INT` and so on).
    NetcdfDefault,
    /// Stored bytes of one element.
    User(Bytes),
}

/// Fill value write time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FillTime {
    /// On allocation.
    Allocation,
    /// Never.
    Never,
    /// On allocation, if the user set a value.
    IfSet,
}

/// A filter of the pipeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    /// Filter identifier: 1 deflate, 2 shuffle, 3 fletcher32, 4 szip, 5 nbit, 6 scale-offset; from 256 on, registered
    /// with The HDF Group.
    pub id: u16,
    /// Name, if stored.
    pub name: Option<String>,
    /// Whether the filter is optional (flag bit 0): writing a chunk skips it if it fails.
    pub optional: bool,
    /// Client data values (`cd_values`).
    pub parameters: Vec<u32>,
}

/// Data layout of a dataset (Data Layout message, 0x0008).
#[derive(Clone, Debug)]
pub enum Layout {
    /// Compact: bytes in the object header.
    Compact(Bytes),
    /// Contiguous: one range, `None` if not allocated. It may be shorter than the dataspace requires.
    Contiguous(Option<ByteRange>),
    /// Records of NetCDF classic: the range of the first. The others follow at [`Classic::stride`].
    Records(ByteRange),
    /// Contiguous in external files, one segment after another.
    External(Vec<ExternalSegment>),
    /// Chunked.
    Chunked(Chunked),
    /// Virtual: mapped from other datasets.
    Virtual(Vec<VirtualMapping>),
    /// The layout message or the chunk index could not be read. The rest of the dataset is unaffected.
    Unreadable(Error),
}

/// A byte range in an external data file (External Data Files message, 0x0007).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExternalSegment {
    /// File name as stored.
    pub file: String,
    /// Offset of the first byte in that file.
    pub offset: u64,
    /// Number of bytes; `None` for unlimited.
    pub size: Option<u64>,
}

/// Chunked layout.
#[derive(Clone, Debug)]
pub struct Chunked {
    /// Chunk shape in elements, slowest axis first, without the trailing element size of old layout messages.
    pub chunk_shape: Vec<u64>,
    /// Chunk index.
    pub index: ChunkIndexKind,
    /// Whether chunks that exceed the extent are stored unfiltered (flag DONT_FILTER_PARTIAL_BOUND_CHUNKS).
    pub unfiltered_edges: bool,
    /// Allocated chunks.
    pub chunks: ChunkTable,
}

/// Chunk index types.
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

/// Allocated chunks of a dataset as columns, ordered by position. Chunks outside of the current extent are omitted. Columns
/// are shared, not copied.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChunkTable {
    /// Number of chunks along each axis, slowest axis first: the extent divided by the chunk shape, rounded up.
    pub grid: Vec<u64>,
    /// Row-major position of each chunk in `grid`, ascending; `None` if every chunk is allocated.
    pub positions: Option<Arc<Vec<u64>>>,
    /// Address of each chunk.
    pub addresses: Arc<Vec<u64>>,
    /// Stored size of each chunk.
    pub sizes: ChunkSizes,
    /// Nonzero filter masks by row-major position. Bit *n* is set if filter *n* was skipped.
    pub filter_masks: BTreeMap<u64, u32>,
}

/// Stored sizes of chunks, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChunkSizes {
    /// Size of every chunk, if they are unfiltered.
    Uniform(u64),
    /// Size of each chunk.
    Each(Arc<Vec<u32>>),
}

impl Default for ChunkSizes {
    fn default() -> Self {
        Self::Uniform(0)
    }
}

/// A mapping of a virtual dataset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VirtualMapping {
    /// Source file name as stored ("." for this file). It may contain the block number `%b`.
    pub file: String,
    /// Source dataset path as stored. It may contain `%b`.
    pub dataset: String,
    /// Selected elements of the source dataset.
    pub source: Selection,
    /// Selected elements of the virtual dataset.
    pub destination: Selection,
}

/// Selection of elements of a dataspace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Selection {
    /// No elements.
    None,
    /// All elements.
    All,
    /// Regular hyperslab, one entry per axis, slowest first.
    Regular(Vec<Slab>),
    /// Regular hyperslab whose unlimited axis is clipped to the extent of a source dataset. It is derived, never
    /// stored.
    Clipped {
        /// One entry per axis, slowest first; one of them is unlimited.
        slabs: Vec<Slab>,
        /// Number of selected elements along the unlimited axis.
        elements: u64,
    },
    /// Irregular hyperslab: blocks as (first, last) corners, both inclusive.
    Blocks(Vec<(Vec<u64>, Vec<u64>)>),
    /// Coordinates of points.
    Points(Vec<Vec<u64>>),
}

/// A regular hyperslab along one axis, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slab {
    /// First element.
    pub start: u64,
    /// Distance between the starts of consecutive blocks.
    pub stride: u64,
    /// Number of blocks; `None` for unlimited.
    pub count: Option<u64>,
    /// Size of a block; `None` for unlimited.
    pub block: Option<u64>,
}

/// An attribute and its value.
#[derive(Clone, PartialEq, Debug)]
pub struct Attribute {
    /// Name.
    pub name: String,
    /// Datatype of an element.
    pub datatype: Datatype,
    /// Dataspace.
    pub dataspace: Dataspace,
    /// Elements in row-major order. Variable-length elements are resolved.
    pub elements: Vec<Element>,
}

/// A decoded element.
#[derive(Clone, PartialEq, Debug)]
pub enum Element {
    /// Value of an integer, a bit field or an enumeration.
    Integer(i128),
    /// Exact value of a floating-point number.
    Float(f64),
    /// Real and imaginary part of a complex number, each of at most 64 bits.
    Complex(f64, f64),
    /// Text without its padding. Text in invalid UTF-8 becomes [`Element::Bytes`].
    Text(String),
    /// Opaque data, or text in an unknown encoding.
    Bytes(Vec<u8>),
    /// Members of a compound by name, in storage order.
    Compound(Vec<(String, Element)>),
    /// Items of an array (row-major) or of a variable-length sequence.
    List(Vec<Element>),
    /// Object reference: the target address, `None` for a null reference.
    Object(Option<Address>),
    /// Dataset region reference: the address of the dataset, and the selected elements.
    Region(Address, Selection),
    /// Attribute reference: the address of the object, and the name of the attribute.
    Attribute(Address, String),
    /// Element without a supported value, with a description of its type: time, references to other files,
    /// floating-point numbers over 64 bits, VAX numbers.
    Unknown(&'static str),
}
