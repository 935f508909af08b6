//! Prints the model of a file, one line per object: `dump FILE…`.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::{future::Future, task};

use virtualize_bytes::{Limits, MemorySource};
use virtualize_hdf5::model::{File, LinkTarget, Object};

fn main() {
    for path in std::env::args().skip(1) {
        let source = MemorySource(std::fs::read(&path).unwrap().into());
        let mut future = Box::pin(async move { virtualize_hdf5::read(&source, &Limits::default()).await });
        let task::Poll::Ready(file) =
            future.as_mut().poll(&mut task::Context::from_waker(task::Waker::noop()))
        else {
            return;
        };
        match file {
            Ok(file) => print_file(&path, &file),
            Err(error) => println!("{path}: {error}"),
        }
    }
}

fn print_file(path: &str, file: &File) {
    println!("{path}: superblock {} at {}", file.superblock_version, file.base_address);
    for (address, object) in &file.objects {
        match object {
            Object::Group(group) => {
                println!("{address} group");
                for link in &group.links {
                    match &link.target {
                        LinkTarget::Hard(target) => println!("  {:?} -> {target}", link.name),
                        other => println!("  {:?} -> {other:?}", link.name),
                    }
                }
                print_attributes(&group.attributes, &group.unreadable_attributes);
            }
            Object::Dataset(dataset) => {
                println!("{address} dataset {:?} {:?}", dataset.dataspace, dataset.datatype);
                println!("  {:?} {:?}", dataset.fill, dataset.filters);
                println!("  {:?}", dataset.layout);
                print_attributes(&dataset.attributes, &dataset.unreadable_attributes);
            }
            Object::Datatype(datatype) => println!("{address} datatype {datatype:?}"),
            Object::Unreadable(error) => println!("{address} unreadable: {error}"),
        }
    }
}

fn print_attributes(read: &[virtualize_hdf5::model::Attribute], unreadable: &[virtualize_hdf5::Error]) {
    for attribute in read {
        println!("  @{} {:?} {:?}", attribute.name, attribute.dataspace, attribute.elements);
    }
    unreadable.iter().for_each(|error| println!("  @ unreadable: {error}"));
}
