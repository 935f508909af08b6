//! The targets that compare with reference libraries, and the documented rules by which results differ.

use std::cell::RefCell;

use virtualize::Code;

use crate::{
    differential::{Difference, Kind, Rules, compare},
    oracle::{Oracle, Theirs},
};

/// Compares an HDF5 file with libhdf5.
pub fn hdf5(data: &[u8]) {
    thread_local!(static ORACLE: RefCell<Oracle> = RefCell::new(Oracle::new("hdf5.py")));
    ORACLE.with_borrow_mut(|oracle| compare(data, oracle, &HDF5));
}

/// Compares a NetCDF classic file with netCDF-C.
pub fn netcdf3(data: &[u8]) {
    thread_local!(static ORACLE: RefCell<Oracle> = RefCell::new(Oracle::new("netcdf3.py")));
    ORACLE.with_borrow_mut(|oracle| compare(data, oracle, &NETCDF3));
}

const HDF5: Rules = Rules { path: hdf5_path, allows: hdf5_allows };
const NETCDF3: Rules = Rules { path: netcdf3_path, allows: netcdf3_allows };

/// netCDF-C stores a variable that shares the name, but not the role, of a dimension as `_nc4_non_coord_NAME`.
fn hdf5_path(theirs: &Theirs) -> Option<String> {
    let shown = |name: &str| match name.strip_prefix("_nc4_non_coord_") {
        Some(rest) if !rest.is_empty() => rest.to_owned(),
        _ => name.to_owned(),
    };
    Some(theirs.path.split('/').map(shown).collect::<Vec<_>>().join("/"))
}

fn hdf5_allows(difference: &Difference<'_>) -> bool {
    let Difference { kind, theirs, .. } = difference;
    let error = theirs.and_then(|theirs| theirs.error.as_deref()).unwrap_or_default();
    let uncompared = theirs.and_then(|theirs| theirs.uncompared.as_deref());
    match kind {
        // F1 of docs/semantics.md: an undefined fill value is zero. libhdf5 reads nothing.
        Kind::Unreadable => error.contains("dataset doesn't exist, no data can be read"),
        // Dimensions without a variable are no arrays.
        Kind::Unreported => uncompared == Some("dimension"),
        // D3 of docs/semantics-hdf5.md.
        Kind::Shape => difference.has(Code::ArrayPadded),
        // Of two objects with one name, the last is shown.
        _ => difference.has(Code::NameCollision),
    }
}

fn netcdf3_path(theirs: &Theirs) -> Option<String> {
    Some(theirs.path.clone())
}

fn netcdf3_allows(difference: &Difference<'_>) -> bool {
    // R5 of docs/semantics-netcdf3.md: netCDF-C takes STREAMING as a number of records.
    difference.kind == Kind::Shape
        && difference.theirs.is_some_and(|theirs| theirs.shape.first() == Some(&u64::from(u32::MAX)))
}
