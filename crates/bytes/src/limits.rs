/// How much a reader believes of what a file says of itself. Every count is held against one of these before memory is
/// reserved for it, so that a damaged or hostile file costs bounded time and memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Groups, datasets and committed datatypes of a file; directories (IFDs) of a TIFF.
    pub objects: u64,
    /// Nesting: groups in groups, types in types, SubIFDs in SubIFDs, blocks under blocks.
    pub depth: u32,
    /// Chunks (strips, tiles) of all arrays together.
    pub chunks: u64,
    /// Bytes of one metadata structure (a header block, a heap block, a tag's value).
    pub structure_bytes: u64,
    /// Bytes of memory that one file, with those that it names, may take for its metadata: what is read, and what becomes
    /// of it (see [`crate::Budget`], which holds small files to less).
    pub metadata_bytes: u64,
    /// Attributes of one object; entries of one IFD.
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
