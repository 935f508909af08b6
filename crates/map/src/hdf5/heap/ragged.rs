//! Sequences as contiguous ragged arrays (CF conventions, section 9.3.3).

use bytes::Bytes;
use virtualize_bytes::Budget;
use virtualize_hdf5::model::{
    ByteOrder, Dataset, Dataspace, Datatype, FillMessage, FillValue, Integer, Layout,
};

use super::{Flattened, HeapTask, HeapValues, NO_FILL};
use crate::{Error, Result};

/// Type of the row sizes.
const COUNT: Datatype = Datatype::Integer(Integer {
    size: 8,
    order: ByteOrder::Little,
    signed: true,
    bit_offset: 0,
    precision: 64,
});

/// Returns the items and the row sizes of sequences whose items have the type `base`.
pub(super) fn ragged(
    task: &HeapTask,
    base: &Datatype,
    values: &HeapValues,
    budget: &Budget<'_>,
) -> Result<Flattened> {
    let [rows] = values.values.as_slice() else {
        return Err(Error::malformed("sequence", "its pointers were not read"));
    };
    let rows = rows.split_last().map_or(&[][..], |(_, rows)| rows);
    let bytes = rows.iter().map(|row| row.len() as u64).fold(0, u64::saturating_add);
    task.take(Some(bytes), "sequences lie in the global heap", budget)?;
    let count = |row: &Bytes| (row.len() as u64).checked_div(base.size()).unwrap_or(0);
    let row_sizes: Vec<u8> = rows.iter().flat_map(|row| count(row).to_le_bytes()).collect();
    let total = rows.iter().map(count).fold(0, u64::saturating_add);
    let row_sizes = Dataset {
        // NetCDF shows sequences past the end of a short variable as empty.
        fill: FillMessage { value: FillValue::User(Bytes::from_static(&[0; 8])), ..NO_FILL },
        attributes: Vec::new(),
        unreadable_attributes: Vec::new(),
        ..task.stored_as(COUNT, row_sizes, FillValue::Default)
    };
    let values = Dataset {
        datatype: base.clone(),
        dataspace: Dataspace::Simple { shape: vec![total], max_shape: None },
        fill: NO_FILL,
        layout: Layout::Compact(rows.concat().into()),
        ..task.stored_as(COUNT, Vec::new(), FillValue::Default)
    };
    Ok(Flattened::Ragged { values: Box::new(values), row_sizes: Box::new(row_sizes) })
}
