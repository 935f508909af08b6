//! Dimensions by attributes of netCDF-4 and the HDF5 Dimension Scale Specification. Expected values follow h5netcdf 1.6.

use virtualize_bytes::Address;
use virtualize_hdf5::model::{Attribute, Dataset, Dataspace, Datatype, Element};
use virtualize_zarr::ZarrFormat;

use super::{attribute, dataset, file, int, map, text};
use crate::Mapped;

fn integers(name: &str, values: &[i128]) -> Attribute {
    attribute(name, int(4, true), values.iter().map(|value| Element::Integer(*value)).collect())
}

/// A scale with these attributes.
fn scale(shape: &[u64], mut attributes: Vec<Attribute>) -> Dataset {
    attributes.push(text("CLASS", "DIMENSION_SCALE"));
    Dataset { attributes, ..dataset(int(4, true), shape) }
}

fn unlimited(length: u64, users: &[(u64, i128)]) -> Dataset {
    let user = |(at, axis): &(u64, i128)| {
        let object = Element::Object(Some(Address(*at)));
        Element::Compound(vec![
            ("dataset".to_owned(), object),
            ("dimension".to_owned(), Element::Integer(*axis)),
        ])
    };
    let list = attribute("REFERENCE_LIST", int(4, true), users.iter().map(user).collect());
    let dataspace = Dataspace::Simple { shape: vec![length], max_shape: Some(vec![None]) };
    Dataset { dataspace, ..scale(&[length], vec![list]) }
}

/// A variable whose axes have the scales at these addresses.
fn variable(shape: &[u64], labels: &[Option<u64>]) -> Dataset {
    let sequence = Datatype::Sequence { size: 16, base: Box::new(int(8, false)) };
    let label =
        |at: &Option<u64>| Element::List(at.iter().map(|at| Element::Object(Some(Address(*at)))).collect());
    let list = attribute("DIMENSION_LIST", sequence, labels.iter().map(label).collect());
    Dataset { attributes: vec![list], ..dataset(int(4, true), shape) }
}

fn mapped(datasets: Vec<(&str, Dataset)>) -> Mapped {
    map(&file(datasets), ZarrFormat::V3)
}

fn names(mapped: &Mapped, path: &str) -> Vec<String> {
    mapped.hierarchy.array(path).unwrap().dimension_names.iter().flatten().cloned().collect()
}

#[test]
fn scales_have_the_number_of_netcdf_or_of_their_order() {
    let of = |ids: &[Option<i128>], coordinates: &[i128]| {
        let ids: Vec<Vec<Attribute>> =
            ids.iter().map(|id| id.iter().map(|id| integers("_Netcdf4Dimid", &[*id])).collect()).collect();
        let own = vec![integers("_Netcdf4Dimid", &[9]), integers("_Netcdf4Coordinates", coordinates)];
        let all = vec![
            ("x", scale(&[3], ids[0].clone())),
            ("y", scale(&[3], ids[1].clone())),
            ("c", scale(&[3, 3], own)),
        ];
        names(&mapped(all), "c")
    };
    assert_eq!(of(&[None, None], &[1, 0]), ["y", "x"]);
    assert_eq!(of(&[Some(5), Some(4)], &[4, 5]), ["y", "x"]);
    assert_eq!(of(&[Some(5), None], &[1, 5]), ["y", "x"], "the second scale has number 1");
    assert_eq!(of(&[None, None], &[1]), ["x", "y"], "one number for two axes");
}

#[test]
fn unlimited_dimensions_are_as_long_as_their_longest_variable() {
    let lengths = |users: &[(u64, i128)]| {
        let long = variable(&[2, 6], &[None, None]);
        let mut short = variable(&[4], &[Some(1)]);
        short.layout =
            virtualize_hdf5::model::Layout::Chunked(crate::hdf5::tests::chunked(&[4], &[1], None, &[16]));
        let mapped = mapped(vec![("t", unlimited(3, users)), ("long", long), ("short", short)]);
        mapped.hierarchy.array("short").unwrap().shape[0]
    };
    assert_eq!(lengths(&[(2, 1), (3, 0)]), 6);
    assert_eq!(lengths(&[(2, 0), (3, 0)]), 4, "2 is shorter");
    assert_eq!(lengths(&[(2, 7), (9, 0), (3, -1)]), 4, "no such axes");
}

#[test]
fn axes_have_their_scale_or_one_of_their_size() {
    let names_of = |v: Dataset| {
        let all = vec![("x", scale(&[3], vec![])), ("y", scale(&[3], vec![])), ("v", v)];
        names(&mapped(all), "v")
    };
    assert_eq!(names_of(variable(&[3, 3], &[Some(2), Some(1)])), ["y", "x"]);
    for none in [&[Some(2), None][..], &[Some(2)], &[]] {
        assert_eq!(names_of(variable(&[3, 3], none)), ["x", "y"], "{none:?}");
    }
    let object = |at| Element::Object(Some(Address(at)));
    let mut direct = variable(&[3, 3], &[]);
    direct.attributes = vec![attribute("DIMENSION_LIST", int(8, false), vec![object(2), object(1)])];
    assert_eq!(names_of(direct), ["y", "x"], "references without a list");
    // A scale is along itself.
    let scales = mapped(vec![("x", scale(&[3], vec![])), ("y", scale(&[3], vec![]))]);
    assert_eq!(names(&scales, "y"), ["y"]);
}

/// More axes of one size in a variable than there are scales, and a size without a scale.
#[test]
fn axes_without_a_scale_are_numbered() {
    let plain = |shape: &[u64]| dataset(int(4, true), shape);
    let mapped = mapped(vec![("b", scale(&[3], vec![])), ("v", plain(&[3, 3])), ("w", plain(&[4]))]);
    assert_eq!(names(&mapped, "v"), ["b", "phony_dim_0"]);
    assert_eq!(names(&mapped, "w"), ["phony_dim_1"]);
}
