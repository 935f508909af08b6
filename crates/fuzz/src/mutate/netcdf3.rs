//! The fields in the header of a NetCDF classic file.

use super::{Field, Format, Layout, Structure};

pub const FORMAT: Format = Format { layout, special: None, repair: |_, _| {} };

fn layout(bytes: &[u8]) -> Layout {
    let wide = bytes.get(3) == Some(&5);
    let offset = if wide || bytes.get(3) == Some(&2) { 8 } else { 4 };
    let layout = Layout { is_big_endian: true, ..Layout::default() };
    let mut reader = Reader { bytes, at: 3, count: if wide { 8 } else { 4 }, offset, layout };
    reader.header();
    reader.layout
}

/// Reads a header as far as it makes sense.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Width of counts and lengths.
    count: usize,
    offset: usize,
    layout: Layout,
}

impl Reader<'_> {
    fn header(&mut self) -> Option<()> {
        self.field(1)?;
        self.field(self.count)?;
        for _ in 0..self.list()? {
            self.structure(*b"dim ", |reader| {
                reader.name()?;
                reader.field(reader.count).map(drop)
            })?;
        }
        self.attributes()?;
        for _ in 0..self.list()? {
            self.structure(*b"var ", Self::variable)?;
        }
        Some(())
    }

    fn variable(&mut self) -> Option<()> {
        self.name()?;
        for _ in 0..self.field(self.count)?.min(64) {
            self.field(self.count)?;
        }
        self.attributes()?;
        self.field(4)?;
        self.field(self.count)?;
        self.field(self.offset).map(drop)
    }

    fn attributes(&mut self) -> Option<()> {
        for _ in 0..self.list()? {
            self.structure(*b"attr", |reader| {
                reader.name()?;
                let size = match reader.field(4)? {
                    1 | 2 | 7 => 1,
                    3 | 8 => 2,
                    4 | 5 | 9 => 4,
                    _ => 8,
                };
                let count = reader.field(reader.count)?;
                reader.skip(count.checked_mul(size)?)
            })?;
        }
        Some(())
    }

    /// Returns the number of entries of a list.
    fn list(&mut self) -> Option<u64> {
        self.field(4)?;
        Some(self.field(self.count)?.min(1000))
    }

    fn name(&mut self) -> Option<()> {
        let length = self.field(self.count)?;
        // Characters of names decide which entries are the same.
        self.layout.fields.push(Field { at: self.at, width: 1 });
        self.skip(length)
    }

    fn skip(&mut self, length: u64) -> Option<()> {
        let padded = usize::try_from(length.checked_next_multiple_of(4)?).ok()?;
        self.at = self.at.checked_add(padded).filter(|at| *at <= self.bytes.len())?;
        Some(())
    }

    fn field(&mut self, width: usize) -> Option<u64> {
        let field = Field { at: self.at, width };
        let value = field.get(self.bytes, true)?;
        self.layout.fields.push(field);
        self.at += width;
        Some(value)
    }

    fn structure(&mut self, kind: [u8; 4], read: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        let start = self.at;
        let complete = read(self);
        self.layout.structures.push(Structure { kind, range: start..self.at });
        complete
    }
}
