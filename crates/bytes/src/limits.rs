/// Upper bounds on counts and sizes in untrusted input. A reader checks every count against them before it allocates, so that
/// a damaged or hostile file costs bounded time and memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Groups, datasets and committed datatypes in an HDF5 file; directories (IFDs) in a TIFF file.
    pub objects: u64,
    /// Nesting depth of datatypes, SubIFDs, indirect blocks and trees. Groups may be nested 256 deep, whatever the limit.
    pub depth: u32,
    /// Chunks, strips and tiles of all arrays together.
    pub chunks: u64,
    /// Size in bytes of one metadata structure, such as an object header block, a heap block or the value of a tag.
    pub structure_bytes: u64,
    /// Memory in bytes for the metadata of one file and the files that it refers to, as read and as parsed.
    /// [`crate::Budget`] allows less for small files.
    pub metadata_bytes: u64,
    /// Attributes of one HDF5 object; entries of one IFD.
    pub attributes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            objects: 1_000_000,
            depth: 64,
            chunks: 200_000_000,
            structure_bytes: 1 << 30,
            metadata_bytes: 16 << 30,
            attributes: 1_000_000,
        }
    }
}
