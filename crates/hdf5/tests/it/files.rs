//! Reads the files in tests/files, which make.py wrote with the HDF5 library. It defines the expected values.

#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use virtualize_bytes::{BoxFuture, ByteRange, Limits, MemorySource, ReadError, ReadRanges};
use virtualize_hdf5::{
    decode_element,
    model::{
        Attribute, ChunkIndexKind, Dataset, Dataspace, Datatype, Element, File, FillValue, Group, Layout,
        LinkTarget, Object,
    },
    read, resolve_elements,
};

/// Returns the result of a future that reads from memory and is therefore always ready.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("memory never waits"),
    }
}

fn source(name: &str) -> MemorySource {
    let path = format!("{}/tests/files/{name}", env!("CARGO_MANIFEST_DIR"));
    MemorySource(std::fs::read(path).unwrap().into())
}

fn open(name: &str) -> File {
    ready(read(&source(name), &Limits::default())).unwrap()
}

fn object<'a>(file: &'a File, path: &str) -> &'a Object {
    let mut found = &file.objects[&file.root];
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let Object::Group(group) = found else { panic!("{name}: no group above") };
        let link = group.links.iter().find(|link| link.name == name).unwrap();
        let LinkTarget::Hard(address) = link.target else { panic!("{name}: {:?}", link.target) };
        found = &file.objects[&address];
    }
    found
}

fn group<'a>(file: &'a File, path: &str) -> &'a Group {
    match object(file, path) {
        Object::Group(group) => group,
        other => panic!("{path}: {other:?}"),
    }
}

fn dataset<'a>(file: &'a File, path: &str) -> &'a Dataset {
    match object(file, path) {
        Object::Dataset(dataset) => dataset,
        other => panic!("{path}: {other:?}"),
    }
}

fn elements<'a>(attributes: &'a [Attribute], name: &str) -> &'a [Element] {
    &attributes.iter().find(|attribute| attribute.name == name).unwrap().elements
}

fn text(text: &str) -> Element {
    Element::Text(text.into())
}

fn integers<const N: usize>(values: [i128; N]) -> Element {
    Element::List(values.map(Element::Integer).into())
}

fn check_common(file: &File) {
    let chunked = dataset(file, "g/chunked");
    assert_eq!(
        chunked.dataspace,
        Dataspace::Simple { shape: vec![10, 10], max_shape: Some(vec![None, Some(10)]) }
    );
    let filters: Vec<_> =
        chunked.filters.iter().map(|filter| (filter.id, filter.parameters.clone())).collect();
    assert_eq!(filters, [(2, vec![8]), (1, vec![4])]);
    let FillValue::User(fill) = &chunked.fill.value else { panic!("{:?}", chunked.fill) };
    assert_eq!(decode_element(&chunked.datatype, fill), Element::Float(-1.5));
    let Layout::Chunked(layout) = &chunked.layout else { panic!("{:?}", chunked.layout) };
    assert_eq!((&*layout.chunk_shape, &*layout.chunks.grid), (&[5, 4][..], &[2, 3][..]));
    assert_eq!(layout.chunks.addresses.len(), 6);
    assert_eq!(elements(&chunked.attributes, "text"), [text("variable")]);
    assert_eq!(elements(&chunked.attributes, "texts"), [text("a"), text(""), text("ccc")]);
    assert_eq!(elements(&chunked.attributes, "fixed"), [text("ab")]);
    let Element::Object(Some(target)) = elements(&chunked.attributes, "self")[0] else {
        panic!("no reference")
    };
    assert!(matches!(&file.objects[&target], Object::Dataset(d) if d.filters.len() == 2));

    let contiguous = dataset(file, "again");
    assert!(matches!(contiguous.layout, Layout::Contiguous(Some(range)) if range.length == 12));
    assert!(matches!(dataset(file, "g/empty").layout, Layout::Contiguous(None)));
    assert_eq!(dataset(file, "g/empty").fill.value, FillValue::Default);
    assert_eq!(dataset(file, "scalar").dataspace, Dataspace::Scalar);

    let root = group(file, "");
    assert_eq!(elements(&root.attributes, "sequences"), [integers([0, 1, 2]), integers([0])]);
    let inner = Element::Compound(vec![("s".into(), text("abc")), ("k".into(), integers([1, -2]))]);
    let pair = Element::Compound(vec![("x".into(), Element::Float(0.5)), ("n".into(), inner)]);
    assert_eq!(elements(&root.attributes, "pairs"), [pair]);
    assert_eq!(elements(&root.attributes, "flag"), [Element::Integer(1), Element::Integer(0)]);
    let target = |name: &str| &root.links.iter().find(|link| link.name == name).unwrap().target;
    assert!(matches!(target("soft"), LinkTarget::Soft(path) if path == "/g/chunked"));
    assert!(
        matches!(target("external"), LinkTarget::External { file, path } if file == "other.h5" && path == "/a")
    );
}

#[test]
fn old_format_behind_a_user_block() {
    let file = open("old.h5");
    assert_eq!((file.superblock_version, file.base_address.0), (0, 512));
    check_common(&file);
    let names: Vec<_> = group(&file, "").links.iter().map(|link| &*link.name).collect();
    assert_eq!(names, ["again", "external", "g", "scalar", "soft"], "by name");
    let Layout::Chunked(layout) = &dataset(&file, "g/chunked").layout else { panic!("chunked") };
    assert_eq!(layout.index, ChunkIndexKind::BTree1);
}

#[test]
fn latest_format_with_dense_storage() {
    let file = open("latest.h5");
    assert_eq!((file.superblock_version, file.base_address.0), (3, 0));
    check_common(&file);
    let names: Vec<_> = group(&file, "").links.iter().map(|link| &*link.name).collect();
    assert_eq!(&names[..4], ["g", "scalar", "soft", "external"], "by creation order");
    let many = group(&file, "many");
    assert_eq!((many.links.len(), many.attributes.len()), (12, 12));
    for i in 0..12_u8 {
        assert_eq!(many.links[usize::from(i)].name, format!("link{i:02}"));
        let value = elements(&many.attributes, &format!("attribute{i:02}"));
        assert_eq!(value, [Element::Float(f64::from(i) * 1.5)]);
    }
    let typed = dataset(&file, "typed");
    let committed = &file.objects[&typed.committed_datatype.unwrap()];
    assert!(matches!(committed, Object::Datatype(datatype) if *datatype == typed.datatype));
    let index = |path: &str| match &dataset(&file, path).layout {
        Layout::Chunked(layout) => (layout.index, layout.chunks.addresses.len()),
        other => panic!("{other:?}"),
    };
    assert_eq!(index("g/chunked"), (ChunkIndexKind::ExtensibleArray, 6));
    assert_eq!(index("fixed"), (ChunkIndexKind::FixedArray, 15));
    assert_eq!(index("rows"), (ChunkIndexKind::BTree2, 3));
}

#[test]
fn variable_length_elements_of_a_dataset() {
    let source = source("latest.h5");
    let file = open("latest.h5");
    let root = group(&file, "");
    let sequences = root.attributes.iter().find(|attribute| attribute.name == "sequences").unwrap();
    assert!(matches!(sequences.datatype, Datatype::Sequence { size: 16, .. }));
    let nothing = [0; 16];
    let found = ready(resolve_elements(&source, &Limits::default(), &file, &sequences.datatype, &nothing));
    assert_eq!(found.unwrap(), [Element::List(Vec::new())]);
    let cut =
        ready(resolve_elements(&source, &Limits::default(), &file, &sequences.datatype, &nothing[..15]));
    assert!(cut.is_err());
}

#[test]
fn rejects_truncated_files() {
    for name in ["old.h5", "latest.h5"] {
        let whole = source(name).0;
        for length in [0, 7, 100, 600, whole.len() - 1] {
            let error = ready(read(&MemorySource(whole.slice(..length)), &Limits::default())).unwrap_err();
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}

/// A file whose reads each take one poll. Concurrent reads share it, so the number of polls is that of round trips.
struct Remote(MemorySource);

impl ReadRanges for Remote {
    fn read_ranges<'a>(&'a self, ranges: &'a [ByteRange]) -> BoxFuture<'a, Result<Vec<Bytes>, ReadError>> {
        Box::pin(async move {
            let mut polled = false;
            poll_fn(|_| if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending })
                .await;
            self.0.read_ranges(ranges).await
        })
    }

    fn size(&self) -> u64 {
        self.0.size()
    }
}

/// The superblock follows a user block of 128 KiB, so the first read of 64 KiB contains no metadata.
#[test]
fn independent_reads_share_a_round_trip() {
    const MOVED: usize = 128 << 10;
    let mut moved = vec![0; MOVED];
    moved.extend(&source("old.h5").0[512..]);
    let length = moved.len() as u64;
    moved[MOVED + 24..][..8].copy_from_slice(&(MOVED as u64).to_le_bytes());
    moved[MOVED + 40..][..8].copy_from_slice(&length.to_le_bytes());
    let source = Remote(MemorySource(moved.into()));
    let limits = Limits::default();
    let mut future = pin!(read(&source, &limits));
    let mut context = Context::from_waker(Waker::noop());
    let mut waits = 0;
    while future.as_mut().poll(&mut context).is_pending() {
        waits += 1;
    }
    assert_eq!(waits, 10);
}
