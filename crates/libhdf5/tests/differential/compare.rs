//! Compares two models.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use virtualize_bytes::Address;
use virtualize_hdf5::{
    Error,
    model::{
        Attribute, ChunkSizes, ChunkTable, Chunked, Dataset, Dataspace, Datatype, File, FillMessage,
        FillValue, Filter, Group, Layout, Link, Member, Object, ReferenceKind,
    },
};

/// A difference between the two readers.
#[derive(Debug)]
pub(crate) struct Difference {
    /// One of [`CLASSES`], or a failure of the process.
    pub(crate) class: &'static str,
    /// The affected object.
    pub(crate) place: String,
    /// The two results.
    pub(crate) detail: String,
}

/// Classes of differences.
pub(crate) const CLASSES: &[&str] = &[
    "ours refuses the file",
    "libhdf5 refuses the file",
    "superblock",
    "objects",
    "ours refuses the object",
    "libhdf5 refuses the object",
    "kind of object",
    "links",
    "datatype",
    "committed datatype",
    "dataspace",
    "extent of a virtual dataset",
    "fill value",
    "filters",
    "ours refuses attributes",
    "libhdf5 refuses attributes",
    "attribute names",
    "attribute type",
    "attribute value",
    "ours refuses the layout",
    "libhdf5 refuses the layout",
    "layout",
    "chunk layout",
    "chunks",
];

/// Compares the results of the two readers.
pub(crate) fn files(ours: &Result<File, Error>, theirs: &Result<File, Error>) -> Vec<Difference> {
    let mut found = Differences::default();
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => found.files(ours, theirs),
        (Err(error), Ok(_)) => found.note("ours refuses the file", error),
        (Ok(_), Err(error)) => found.note("libhdf5 refuses the file", error),
        (Err(_), Err(_)) => {}
    }
    found.found
}

#[derive(Default)]
struct Differences {
    found: Vec<Difference>,
    place: String,
}

impl Differences {
    fn note(&mut self, class: &'static str, detail: impl ToString) {
        self.found.push(Difference { class, place: self.place.clone(), detail: detail.to_string() });
    }

    fn same<T: Debug>(&mut self, class: &'static str, what: &str, ours: &T, theirs: &T) {
        // Compared as text, because NaN must equal NaN and -0 must not equal 0.
        let (ours, theirs) = (format!("{ours:?}"), format!("{theirs:?}"));
        if ours != theirs {
            self.note(class, format!("{what}: ours {ours:.1500}, libhdf5 {theirs:.1500}"));
        }
    }

    fn files(&mut self, ours: &File, theirs: &File) {
        let sizes = |file: &File| {
            (file.superblock_version, file.base_address, file.offset_size, file.length_size, file.root)
        };
        self.same("superblock", "version, base, sizes, root", &sizes(ours), &sizes(theirs));
        let addresses = |file: &File| file.objects.keys().copied().collect::<BTreeSet<Address>>();
        let (our_addresses, their_addresses) = (addresses(ours), addresses(theirs));
        let only = |one: &BTreeSet<Address>, other| one.difference(other).copied().collect::<Vec<_>>();
        self.same(
            "objects",
            "found by one reader only",
            &only(&our_addresses, &their_addresses),
            &only(&their_addresses, &our_addresses),
        );
        for (address, ours) in &ours.objects {
            if let Some(theirs) = theirs.objects.get(address) {
                self.place = format!("{address}");
                self.objects(ours, theirs);
            }
        }
    }

    fn objects(&mut self, ours: &Object, theirs: &Object) {
        match (ours, theirs) {
            (Object::Group(ours), Object::Group(theirs)) => self.groups(ours, theirs),
            (Object::Dataset(ours), Object::Dataset(theirs)) => self.datasets(ours, theirs),
            (Object::Datatype(ours), Object::Datatype(theirs)) => {
                self.same("datatype", "type", &plain(ours), &plain(theirs));
            }
            (Object::Unreadable(_), Object::Unreadable(_)) => {}
            (Object::Unreadable(error), _) => self.note("ours refuses the object", error),
            (_, Object::Unreadable(error)) => self.note("libhdf5 refuses the object", error),
            _ => self.note("kind of object", format!("ours {ours:.200?}, libhdf5 {theirs:.200?}")),
        }
    }

    fn groups(&mut self, ours: &Group, theirs: &Group) {
        let targets = |links: &[Link]| {
            links
                .iter()
                .map(|link| (link.name.clone(), format!("{:?}", link.target)))
                .collect::<BTreeMap<_, _>>()
        };
        let (our_links, their_links) = (targets(&ours.links), targets(&theirs.links));
        let only = |one: &BTreeMap<String, String>, other: &BTreeMap<String, String>| {
            let differs = |(name, target): &(&String, &String)| other.get(*name) != Some(*target);
            one.iter().filter(differs).map(|(name, target)| format!("{name} -> {target}")).collect::<Vec<_>>()
        };
        self.same("links", "links", &only(&our_links, &their_links), &only(&their_links, &our_links));
        let order = |links: &[Link]| links.iter().map(|link| link.name.clone()).collect::<Vec<_>>();
        if our_links == their_links {
            self.same("links", "order", &order(&ours.links), &order(&theirs.links));
        }
        self.attributes(
            (&ours.attributes, &ours.unreadable_attributes),
            (&theirs.attributes, &theirs.unreadable_attributes),
        );
    }

    fn attributes(&mut self, ours: (&[Attribute], &[Error]), theirs: (&[Attribute], &[Error])) {
        if let (Some(error), None) = (ours.1.first(), theirs.1.first()) {
            self.note("ours refuses attributes", error);
        }
        if let (None, Some(error)) = (ours.1.first(), theirs.1.first()) {
            self.note("libhdf5 refuses attributes", error);
        }
        let by_name = |attributes: &[Attribute]| {
            attributes.iter().map(|one| (one.name.clone(), one.clone())).collect::<BTreeMap<_, _>>()
        };
        let (our_names, their_names) = (by_name(ours.0), by_name(theirs.0));
        if ours.1.is_empty() && theirs.1.is_empty() {
            let names =
                |attributes: &BTreeMap<String, Attribute>| attributes.keys().cloned().collect::<Vec<_>>();
            self.same("attribute names", "names", &names(&our_names), &names(&their_names));
        }
        for (name, ours) in &our_names {
            let Some(theirs) = their_names.get(name) else { continue };
            self.same("attribute type", name, &plain(&ours.datatype), &plain(&theirs.datatype));
            self.same("attribute type", name, &extent(&ours.dataspace).0, &extent(&theirs.dataspace).0);
            if !has_references_to_parts(&ours.datatype) {
                self.same("attribute value", name, &ours.elements, &theirs.elements);
            }
        }
    }

    fn datasets(&mut self, ours: &Dataset, theirs: &Dataset) {
        self.same("datatype", "type", &plain(&ours.datatype), &plain(&theirs.datatype));
        self.same("committed datatype", "address", &ours.committed_datatype, &theirs.committed_datatype);
        let class = match ours.layout {
            Layout::Virtual(_) => "extent of a virtual dataset",
            _ => "dataspace",
        };
        self.same(class, "extent", &extent(&ours.dataspace), &extent(&theirs.dataspace));
        let points = matches!(ours.datatype, Datatype::VariableString { .. } | Datatype::Sequence { .. });
        self.fills(&ours.fill, &theirs.fill, points);
        self.filters(&ours.filters, &theirs.filters);
        self.attributes(
            (&ours.attributes, &ours.unreadable_attributes),
            (&theirs.attributes, &theirs.unreadable_attributes),
        );
        self.layouts(&ours.layout, &theirs.layout);
    }

    fn fills(&mut self, ours: &FillMessage, theirs: &FillMessage, points: bool) {
        match (&ours.value, &theirs.value) {
            // The library returns no bytes for elements with pointers.
            (FillValue::User(_), FillValue::User(bytes)) if bytes.is_empty() || points => {}
            (ours, theirs) => self.same("fill value", "value", ours, theirs),
        }
        if ours.version.is_some_and(|version| version > 0) {
            self.same("fill value", "write time", &ours.write_time, &theirs.write_time);
            self.same("fill value", "allocation time", &ours.allocation_time, &theirs.allocation_time);
        }
    }

    fn filters(&mut self, ours: &[Filter], theirs: &[Filter]) {
        // The library supplies names that are not stored.
        let named = |(ours, theirs): (&Filter, &Filter)| Filter {
            name: ours.name.as_ref().and(theirs.name.clone()),
            ..theirs.clone()
        };
        let theirs = match ours.len() == theirs.len() {
            true => ours.iter().zip(theirs).map(named).collect(),
            false => theirs.to_vec(),
        };
        self.same("filters", "pipeline", &ours.to_vec(), &theirs);
    }

    fn layouts(&mut self, ours: &Layout, theirs: &Layout) {
        match (ours, theirs) {
            (Layout::Unreadable(_), Layout::Unreadable(_)) => {}
            (Layout::Unreadable(error), _) => self.note("ours refuses the layout", error),
            (_, Layout::Unreadable(error)) => self.note("libhdf5 refuses the layout", error),
            (Layout::Chunked(ours), Layout::Chunked(theirs)) => self.chunked(ours, theirs),
            (ours, theirs) => self.same("layout", "layout", ours, theirs),
        }
    }

    fn chunked(&mut self, ours: &Chunked, theirs: &Chunked) {
        let layout =
            |chunked: &Chunked| (chunked.chunk_shape.clone(), chunked.index, chunked.unfiltered_edges);
        self.same("chunk layout", "shape, index, unfiltered edges", &layout(ours), &layout(theirs));
        self.same("chunk layout", "grid", &ours.chunks.grid, &theirs.chunks.grid);
        let (ours, theirs) = (chunks(&ours.chunks), chunks(&theirs.chunks));
        let only = |one: &BTreeMap<u64, _>, other: &BTreeMap<u64, _>| {
            let differs = |(position, chunk): &(&u64, &(u64, u64, u32))| other.get(*position) != Some(*chunk);
            one.iter()
                .filter(differs)
                .map(|(position, chunk)| (*position, *chunk))
                .take(3)
                .collect::<Vec<_>>()
        };
        self.same("chunks", "position, (address, size, mask)", &only(&ours, &theirs), &only(&theirs, &ours));
        self.same("chunks", "count", &ours.len(), &theirs.len());
    }
}

/// Returns address, size and mask of each chunk by position.
fn chunks(table: &ChunkTable) -> BTreeMap<u64, (u64, u64, u32)> {
    let size = |index: usize| match &table.sizes {
        ChunkSizes::Uniform(size) => *size,
        ChunkSizes::Each(sizes) => sizes[index].into(),
    };
    let chunk = |(index, address): (usize, &u64)| {
        let position = table.positions.as_ref().map_or(index as u64, |positions| positions[index]);
        let mask = table.filter_masks.get(&position).copied().unwrap_or(0);
        (position, (*address, size(index), mask))
    };
    table.addresses.iter().enumerate().map(chunk).collect()
}

/// Returns shape and maximum shape. The library always reports the latter.
fn extent(dataspace: &Dataspace) -> (Option<Vec<u64>>, Option<Vec<Option<u64>>>) {
    let shape = dataspace.shape().map(<[u64]>::to_vec);
    let max = match dataspace {
        Dataspace::Simple { max_shape: Some(max), .. } => Some(max.clone()),
        _ => shape.clone().map(|shape| shape.into_iter().map(Some).collect()),
    };
    (shape, max)
}

/// Removes what the library does not report: kind and stored size of references of HDF5 1.12.
fn plain(datatype: &Datatype) -> Datatype {
    match datatype.clone() {
        Datatype::Reference { kind: ReferenceKind::Standard(_), .. } => {
            Datatype::Reference { size: 0, kind: ReferenceKind::Standard(2) }
        }
        Datatype::Compound { size, members } => plain_compound(size, members),
        Datatype::Array { base, shape } => Datatype::Array { base: Box::new(plain(&base)), shape },
        Datatype::Sequence { size, base } => Datatype::Sequence { size, base: Box::new(plain(&base)) },
        other => other,
    }
}

/// Removes references that the other reader does not resolve.
fn has_references_to_parts(datatype: &Datatype) -> bool {
    match datatype {
        Datatype::Reference { kind, .. } => *kind != ReferenceKind::Object,
        Datatype::Compound { members, .. } => {
            members.iter().any(|member| has_references_to_parts(&member.datatype))
        }
        Datatype::Array { base, .. } | Datatype::Sequence { base, .. } => has_references_to_parts(base),
        _ => false,
    }
}

fn plain_compound(size: u32, mut members: Vec<Member>) -> Datatype {
    members.sort_by_key(|member| member.offset);
    let plain_members: Vec<_> =
        members.iter().map(|member| Member { datatype: plain(&member.datatype), ..member.clone() }).collect();
    if plain_members == members {
        return Datatype::Compound { size, members };
    }
    let moved = plain_members.into_iter().map(|member| Member { offset: 0, ..member });
    Datatype::Compound { size: 0, members: moved.collect() }
}
