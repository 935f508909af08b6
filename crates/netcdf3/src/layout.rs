//! Places of the data.
//!
//! ```text
//! data     = non_recs recs
//! non_recs = [vars ...]        each padded to 4 bytes, in the order of the header
//! recs     = [record ...]
//! record   = [varslab ...]     each padded to 4 bytes, unless there is a single record variable
//! ```

use virtualize_hdf5::model::Classic;

use crate::{Error, Result, model::Variable};

/// Returns the records of a file of `size` bytes, without its dimensions. `stated` is their number in the header; `None` if the file was written without
/// knowing its end (`STREAMING`).
///
/// # Errors
/// A record has more bytes than 64 bits can count.
pub(crate) fn records(variables: &[Variable], stated: Option<u64>, size: u64) -> Result<Classic> {
    let slabs = || variables.iter().filter(|variable| variable.is_record);
    let stride = match (slabs().next(), slabs().nth(1)) {
        (Some(only), None) => Some(only.size),
        _ => slabs().try_fold(0_u64, |sum, slab| sum.checked_add(padded(slab.size)?)),
    };
    let overflow = || Error::malformed("record", 0, "more bytes than 64 bits can count");
    let stride = stride.ok_or_else(overflow)?;
    let whole = |slab: &Variable| {
        let last = size.checked_sub(slab.begin).and_then(|bytes| bytes.checked_sub(slab.size));
        last.and_then(|bytes| bytes.checked_div(stride)).map_or(0, |records| records.saturating_add(1))
    };
    let records = stated.unwrap_or_else(|| slabs().map(whole).min().unwrap_or(0));
    Ok(Classic { dimensions: Vec::new(), records, stride, is_streamed: stated.is_none() })
}

/// Refuses variables that overlap the header, which ends at `end`, or each other. Like netCDF-C, requires that data are in the
/// order of the header, record variables after the others, and that only the last variable is larger than the sizes in the
/// header can be ("Note on vsize").
///
/// # Errors
/// There is such a variable.
pub(crate) fn check_order(version: u8, variables: &[Variable], end: u64) -> Result<()> {
    let (records, fixed): (Vec<_>, Vec<_>) = variables.iter().partition(|variable| variable.is_record);
    let most = match version {
        1 => 0x7FFF_FFFC,
        2 => 0xFFFF_FFFC,
        _ => 0x7FFF_FFFF_FFFF_FFFC,
    };
    let mut free = end;
    let mut large: Option<&Variable> = None;
    for variable in fixed.into_iter().chain(records) {
        if let Some(Variable { name, size, begin, .. }) = large {
            let problem =
                format!("\"{name}\" has {size} bytes, expected at most {most} before the last variable");
            return Err(Error::malformed("var", *begin, problem));
        }
        large = Some(variable).filter(|variable| variable.size > most);
        if variable.begin < free {
            let problem = format!(
                "the data of \"{}\" are at {:#x}, before the end of what precedes them ({free:#x})",
                variable.name, variable.begin
            );
            return Err(Error::malformed("var", variable.begin, problem));
        }
        let next = padded(variable.size).and_then(|bytes| variable.begin.checked_add(bytes));
        // Offsets are signed in netCDF-C.
        free = next.filter(|end| i64::try_from(*end).is_ok()).ok_or_else(|| {
            let problem = format!("the data of \"{}\" end past 63 bits", variable.name);
            Error::malformed("var", variable.begin, problem)
        })?;
    }
    Ok(())
}

fn padded(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CHAR;

    fn variable(begin: u64, size: u64, is_record: bool) -> Variable {
        let (name, datatype) = ("v".to_owned(), CHAR);
        Variable { name, dimensions: Vec::new(), attributes: Vec::new(), datatype, begin, size, is_record }
    }

    fn stride(variables: &[Variable]) -> u64 {
        records(variables, Some(1), 0).unwrap().stride
    }

    #[test]
    fn a_single_record_variable_is_not_padded() {
        assert_eq!(stride(&[variable(0, 3, true), variable(0, 5, false)]), 3);
        assert_eq!(stride(&[variable(0, 3, true), variable(0, 5, true)]), 12);
        assert_eq!(stride(&[variable(0, 5, false)]), 0);
        assert!(records(&[variable(0, u64::MAX, true), variable(0, 1, true)], Some(1), 0).is_err());
    }

    /// Two variables of 3 and 5 bytes: a record has 12. The padding after the last one may be missing.
    #[test]
    fn streamed_records_are_counted_if_they_are_whole() {
        let variables = [variable(100, 3, true), variable(104, 5, true)];
        for (size, count) in [(90, 0), (108, 0), (109, 1), (112, 1), (120, 1), (121, 2), (124, 2)] {
            let found = records(&variables, None, size).unwrap();
            assert_eq!((found.records, found.is_streamed), (count, true), "{size}");
        }
        assert_eq!(records(&[], None, 1 << 20).unwrap().records, 0);
    }

    #[test]
    fn overlapping_data_are_refused() {
        let check = |places: &[(u64, u64, bool)], end| {
            let variables: Vec<_> =
                places.iter().map(|(at, size, record)| variable(*at, *size, *record)).collect();
            check_order(2, &variables, end).is_ok()
        };
        assert!(check(&[(108, 4, true), (100, 5, false)], 100));
        assert!(!check(&[(100, 5, false)], 101), "the header");
        assert!(!check(&[(100, 5, false), (107, 1, false)], 100), "the padding before it");
        assert!(!check(&[(104, 4, false), (100, 4, false)], 100), "another order");
        assert!(!check(&[(100, 4, true), (104, 4, false)], 100), "a record before other data");
        assert!(!check(&[(1 << 63, u64::MAX >> 1, false), (u64::MAX, 9, false)], 100), "64 bits");
        assert!(!check(&[(100, (1 << 63) - 100, false)], 100), "63 bits");
        assert!(check(&[(100, (1 << 63) - 104, false)], 100));
    }

    #[test]
    fn only_the_last_variable_may_be_large() {
        let check = |version, sizes: &[(u64, bool)]| {
            let at = |n| (n as u64) << 40;
            let places = sizes.iter().enumerate();
            let variables: Vec<_> =
                places.map(|(n, (size, record))| variable(at(n), *size, *record)).collect();
            check_order(version, &variables, 0).is_ok()
        };
        for (version, most) in [(1, (1 << 31) - 4), (2, (1_u64 << 32) - 4)] {
            assert!(check(version, &[(most, false), (most + 1, false)]));
            assert!(check(version, &[(most, false), (most, true), (most + 1, true)]));
            assert!(!check(version, &[(most + 1, false), (1, false)]));
            assert!(!check(version, &[(most + 1, false), (1, true)]));
            assert!(!check(version, &[(1, false), (most + 1, true), (most + 1, true)]));
            assert!(check(5, &[(most + 1, false), (most + 1, false), (1, true)]));
        }
    }
}
