//! Structures with text of variable length, and with references, as structures with text of fixed length.

use bytes::Bytes;
use virtualize_bytes::Budget;
use virtualize_hdf5::model::{
    CharacterSet, Datatype, FillValue, Layout, Member, ReferenceKind, StringPadding,
};

use super::{Flattened, HeapTask, HeapValues};
use crate::hdf5::plan::item_type;
use crate::hdf5::structures::{array_as_compound, array_items};
use crate::{Error, Result};

const WHY: &str = "text of variable length in structures becomes as long as the longest";

/// Whether elements of a dataset point at values in the global heap that its type or shape depends on.
pub(in crate::hdf5) fn holds_pointers(datatype: &Datatype) -> bool {
    match item_type(datatype) {
        Datatype::Sequence { .. } => true,
        Datatype::Compound { members, .. } => members.iter().any(|member| is_pointer(&member.datatype)),
        _ => false,
    }
}

/// Whether a member is, or contains, a pointer to text.
fn is_pointer(datatype: &Datatype) -> bool {
    match datatype {
        Datatype::VariableString { .. } => true,
        // Text has no room for the part that other references select.
        Datatype::Reference { kind: ReferenceKind::Object | ReferenceKind::Standard(2), .. } => true,
        Datatype::Compound { members, .. } => members.iter().any(|member| is_pointer(&member.datatype)),
        Datatype::Array { base, .. } => is_pointer(base),
        _ => false,
    }
}

/// Returns the pointers of a structure, as (offset, type).
pub(super) fn pointers(datatype: &Datatype, offset: u32) -> Vec<(u32, &Datatype)> {
    match datatype {
        Datatype::Compound { members, .. } => members
            .iter()
            .flat_map(|member| pointers(&member.datatype, offset.saturating_add(member.offset)))
            .collect(),
        Datatype::Array { base, shape } if is_pointer(base) => {
            let size = u32::try_from(base.size()).unwrap_or(u32::MAX);
            let items = u32::try_from(array_items(shape).unwrap_or(0)).unwrap_or(0);
            (0..items).flat_map(|n| pointers(base, offset.saturating_add(n.saturating_mul(size)))).collect()
        }
        pointer if is_pointer(pointer) => vec![(offset, pointer)],
        _ => Vec::new(),
    }
}

/// Where bytes of a flat element come from.
enum Part {
    /// Bytes of the stored element: (offset, size).
    Stored(usize, usize),
    /// Text of the next pointer, padded with NULs to this size.
    Text(usize),
}

/// The layout of a flat element.
#[derive(Default)]
struct Flat {
    parts: Vec<Part>,
    /// Bytes so far.
    size: u32,
}

impl Flat {
    /// Appends a datatype stored at `offset`, and returns its flat type. `longest` has the size of each text.
    fn push(
        &mut self,
        datatype: &Datatype,
        offset: u32,
        longest: &mut dyn Iterator<Item = u32>,
    ) -> Result<Datatype> {
        if !is_pointer(datatype) {
            let size = u32::try_from(datatype.size()).map_err(|_| TOO_LARGE)?;
            self.append(Part::Stored(index(offset)?, index(size)?), size)?;
            return Ok(datatype.clone());
        }
        if let Datatype::Array { base, shape } = datatype {
            return self.push(&array_as_compound(base, shape)?, offset, longest);
        }
        let Datatype::Compound { members, .. } = datatype else {
            let size = longest.next().unwrap_or(1);
            self.append(Part::Text(index(size)?), size)?;
            let charset = CharacterSet::Utf8;
            return Ok(Datatype::String { size, padding: StringPadding::NullPadded, charset });
        };
        let start = self.size;
        let flat = |member: &Member| {
            let at = self.size - start;
            let from = offset.checked_add(member.offset).ok_or(TOO_LARGE)?;
            let datatype = self.push(&member.datatype, from, longest)?;
            Ok(Member { name: member.name.clone(), offset: at, datatype })
        };
        let members = members.iter().map(flat).collect::<Result<Vec<_>>>()?;
        Ok(Datatype::Compound { size: self.size - start, members })
    }

    fn append(&mut self, part: Part, size: u32) -> Result<()> {
        self.parts.push(part);
        self.size = self.size.checked_add(size).ok_or(TOO_LARGE)?;
        Ok(())
    }

    /// Appends a flat element to `out`. `texts` are those of its pointers.
    fn write<'a>(
        &self,
        stored: &[u8],
        mut texts: impl Iterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        for part in &self.parts {
            match part {
                Part::Stored(from, size) => out.extend_from_slice(stored.get(*from..)?.get(..*size)?),
                Part::Text(size) => {
                    let text = texts.next()?;
                    out.extend_from_slice(text);
                    out.resize(out.len().checked_add(size.checked_sub(text.len())?)?, 0);
                }
            }
        }
        Some(())
    }
}

const TOO_LARGE: Error = Error::Overflow("the compound datatype");

fn index(number: u32) -> Result<usize> {
    usize::try_from(number).map_err(|_| TOO_LARGE)
}

/// Returns text as libhdf5 does: its first NUL ends it.
fn text(value: &Bytes) -> &[u8] {
    value.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Returns the dataset with each text padded to the longest one at its place.
pub(super) fn structures(task: &HeapTask, values: &HeapValues, budget: &Budget<'_>) -> Result<Flattened> {
    let item = item_type(&task.dataset.datatype);
    let longest = values.values.iter().map(|texts| {
        let longest = texts.iter().map(|value| text(value).len()).max().unwrap_or(0);
        u32::try_from(longest.max(1)).map_err(|_| TOO_LARGE)
    });
    let longest: Vec<u32> = longest.collect::<Result<_>>()?;
    let mut flat = Flat::default();
    let flat_type = flat.push(item, 0, &mut longest.into_iter())?;
    let stored_size = usize::try_from(item.size()).unwrap_or(usize::MAX).max(1);
    let count = values.elements.len() / stored_size;
    task.take((count as u64).checked_mul(flat.size.into()), WHY, budget)?;
    let mut elements = Vec::with_capacity(count.saturating_mul(index(flat.size)?));
    for (row, stored) in values.elements.chunks_exact(stored_size).enumerate() {
        let texts = values.values.iter().filter_map(|texts| texts.get(row).map(text));
        flat.write(stored, texts, &mut elements)
            .ok_or_else(|| Error::malformed("compound", "members past its end"))?;
    }
    let fill = elements.split_off(elements.len().saturating_sub(index(flat.size)?));
    let items = item_count(&task.dataset.datatype);
    let fill = match &task.dataset.fill.value {
        FillValue::User(_) => FillValue::User(fill.repeat(usize::try_from(items).unwrap_or(0)).into()),
        other => other.clone(),
    };
    let is_unwritten = task.content.pieces().is_empty();
    let mut dataset = task.stored_as(flat_type, elements, fill);
    if is_unwritten {
        dataset.layout = Layout::Contiguous(None);
    }
    Ok(Flattened::Structures(Box::new(dataset)))
}

/// Returns the items of an element of a (nested) array type; 1 for other types.
fn item_count(datatype: &Datatype) -> u64 {
    match datatype {
        Datatype::Array { base, shape } => shape.iter().copied().fold(item_count(base), u64::saturating_mul),
        _ => 1,
    }
}
