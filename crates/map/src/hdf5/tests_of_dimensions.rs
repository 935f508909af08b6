//! Dimensions by attributes of netCDF-4 and the HDF5 Dimension Scale Specification. Expected values follow h5netcdf 1.6.

use virtualize_bytes::Address;
use virtualize_hdf5::model::{Attribute, Dataset, Dataspace, Datatype, Element};
use virtualize_zarr::ZarrFormat;

use super::tests::{attribute, dataset, file, int, map, simple, text};
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
        let mut all = vec![("x", scale(&[3], ids[0].clone())), ("y", scale(&[2], ids[1].clone()))];
        let c = scale(
            &[2, 3],
            vec![integers("_Netcdf4Dimid", &[9]), integers("_Netcdf4Coordinates", coordinates)],
        );
        all.push(("c", c));
        names(&mapped(all), "c")
    };
    assert_eq!(of(&[None, None], &[1, 0]), ["y", "x"]);
    assert_eq!(of(&[Some(5), Some(4)], &[4, 5]), ["y", "x"]);
    assert_eq!(of(&[Some(5), None], &[1, 5]), ["y", "x"], "the second scale has number 1");
}

#[test]
fn unlimited_dimensions_are_as_long_as_their_longest_variable() {
    let lengths = |users: &[(u64, i128)]| {
        let long = variable(&[2, 6], &[None, None]);
        let mut short = variable(&[4], &[Some(1)]);
        short.layout =
            virtualize_hdf5::model::Layout::Chunked(super::tests::chunked(&[4], &[1], None, &[16]));
        let mapped = mapped(vec![("t", unlimited(3, users)), ("long", long), ("short", short)]);
        mapped.hierarchy.array("short").unwrap().shape[0]
    };
    assert_eq!(lengths(&[(2, 1), (3, 0)]), 6);
    assert_eq!(lengths(&[(2, 0), (3, 0)]), 4, "2 is shorter");
    assert_eq!(lengths(&[(2, 7), (9, 0), (3, -1)]), 4, "no such axes");
}

#[test]
fn axes_without_a_scale_are_numbered() {
    let labels = |labels: &[Option<u64>]| {
        let mapped = mapped(vec![
            ("x", scale(&[3], vec![])),
            ("y", scale(&[2], vec![])),
            ("v", variable(&[2, 3], labels)),
        ]);
        names(&mapped, "v")
    };
    assert_eq!(labels(&[Some(2), Some(1)]), ["y", "x"]);
    // h5netcdf finds scales of the sizes.
    for none in [&[Some(2), None][..], &[Some(2)], &[]] {
        assert_eq!(labels(none), ["y", "x"], "{none:?}");
    }
    let mut direct = variable(&[2, 3], &[]);
    let object = |at| Element::Object(Some(Address(at)));
    direct.attributes = vec![attribute("DIMENSION_LIST", int(8, false), vec![object(1), object(2)])];
    let scales = |v: Dataset| mapped(vec![("a", scale(&[2], vec![])), ("b", scale(&[3], vec![])), ("v", v)]);
    assert_eq!(names(&scales(direct), "v"), ["a", "b"], "references without a list");
    // A size that more axes of one variable have than there are scales.
    let square = dataset(int(4, true), &[3, 3]);
    assert_eq!(names(&scales(square), "v"), ["b", "phony_dim_0"]);
}

#[test]
fn a_variable_of_one_axis_may_be_named_as_a_dimension_above() {
    let mut plain = dataset(int(4, true), &[3]);
    plain.dataspace = simple(&[3]);
    let mapped = mapped(vec![("x", scale(&[3], vec![])), ("v", plain)]);
    assert_eq!((names(&mapped, "x"), names(&mapped, "v")), (vec!["x".to_owned()], vec!["x".to_owned()]));
}
