//! Pages of equal shape, type, chunks and codecs as one array along a new axis.

use virtualize_tiff::{
    model::{File, Ifd, Value as TagValue},
    ome_axes,
};
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, Lengths, Node, NodePath, References, SourceId,
};

use super::{ARRAY, coordinates, group_mut, group_path, join};
use crate::{ChunkContent, Diagnostic, InlineTask, MapOptions, Mapped, Severity};

/// Name of the new axis, and of the variable that says which images lie along it.
const AXIS: &str = "page";

/// Puts the pages that are like the main image into its array; the others stay what they are.
pub(super) fn stack(file: &File, mapped: &mut Mapped, options: &MapOptions) {
    let Some(first) = file.ifds.iter().find(|ifd| is_page(ifd, mapped)) else { return };
    let alike: Vec<&Ifd> = file.ifds.iter().filter(|ifd| is_like(ifd, first, mapped)).collect();
    let pages: Vec<&Array> = alike.iter().filter_map(|ifd| mapped.hierarchy.array(&path(ifd))).collect();
    let axes = axes(&alike, first, pages.first().copied());
    let Some(mut stacked) = (alike.len() > 1).then(|| join_pages(&pages, &axes)).flatten() else {
        mapped.report.diagnostics.push(note("no further page is like the first: nothing is stacked".into()));
        return;
    };
    let left_out: Vec<String> = different_attributes(&pages);
    let count: u64 = pages.first().map_or(1, |page| chunk_count(page));
    let others = file.ifds.iter().filter(|ifd| is_page(ifd, mapped)).count().saturating_sub(alike.len());
    move_tasks(&mut mapped.tasks, &alike, &path(first), count, axes.len());
    for page in alike.iter().skip(1) {
        remove(page, mapped);
    }
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        mapped
            .report
            .diagnostics
            .push(note(format!("attributes that differ between pages are left out: {names}")));
    }
    if others > 0 {
        mapped
            .report
            .diagnostics
            .push(note(format!("{others} pages that are unlike the first are not stacked")));
    }
    let Some(group) = group_mut(&mut mapped.hierarchy.root, &group_path(first)) else { return };
    if left_out.iter().any(|name| name == "long_name") {
        coordinates::remove_band_names(group, &mut stacked.attributes);
    }
    if axes.iter().any(|(name, _)| name == AXIS) {
        coordinates::add_numbers(group, AXIS, page_numbers(&alike), options);
    }
    group.children.insert(ARRAY.to_owned(), Node::Array(Box::new(stacked)));
}

/// The axes that pages lie along, slowest first: those of OME-XML where all pages are its planes, else one.
fn axes(pages: &[&Ifd], first: &Ifd, array: Option<&Array>) -> Vec<(String, u64)> {
    let one = vec![(AXIS.to_owned(), pages.len() as u64)];
    let in_order = pages.iter().enumerate().all(|(index, page)| page.path == [index]);
    let (Some(TagValue::Text(texts)), Ok(image), true) = (first.tags.get(&270), &first.image, in_order)
    else {
        return one;
    };
    let found = ome_axes(&texts.join("\0"), u64::from(image.samples_per_pixel)).unwrap_or_default();
    let named: Vec<(String, u64)> = found.into_iter().map(|(name, size)| (name.to_string(), size)).collect();
    let taken =
        |name: &String| array.is_some_and(|array| array.dimension_names.contains(&Some(name.clone())));
    let planes = named.iter().try_fold(1_u64, |product, (_, size)| product.checked_mul(*size));
    let fits = planes == Some(pages.len() as u64) && !named.iter().any(|(name, _)| taken(name));
    if fits { named } else { one }
}

fn page_numbers(pages: &[&Ifd]) -> Vec<u64> {
    pages.iter().filter_map(|ifd| ifd.path.first()).map(|index| *index as u64).collect()
}

fn path(ifd: &Ifd) -> NodePath {
    join(&group_path(ifd), ARRAY)
}

fn note(message: String) -> Diagnostic {
    Diagnostic { severity: Severity::Info, code: "tiff-stack", path: "/".into(), message, hint: None }
}

/// An image of the main chain that was mapped, and is neither an overview nor a mask.
fn is_page(ifd: &Ifd, mapped: &Mapped) -> bool {
    let whole = ifd.image.as_ref().is_ok_and(|image| image.subfile_type & 0b101 == 0);
    whole && mapped.hierarchy.array(&path(ifd)).is_some()
}

/// Whether one array can hold both: what it says of its elements must be true of all of them.
fn is_like(ifd: &Ifd, first: &Ifd, mapped: &Mapped) -> bool {
    const MEANING: [&str; 9] = [
        "_FillValue",
        "missing_value",
        "scale_factor",
        "add_offset",
        "scales",
        "offsets",
        "units",
        "photometric_interpretation",
        "color_map",
    ];
    let array = |ifd| mapped.hierarchy.array(&path(ifd));
    let (true, Some(one), Some(other)) = (is_page(ifd, mapped), array(ifd), array(first)) else {
        return false;
    };
    one.shape == other.shape
        && one.data_type == other.data_type
        && one.chunk_grid == other.chunk_grid
        && one.codecs == other.codecs
        && one.fill_value == other.fill_value
        && MEANING.iter().all(|name| one.attributes.get(*name) == other.attributes.get(*name))
        && ifd.geo == first.geo
}

fn different_attributes(pages: &[&Array]) -> Vec<String> {
    let Some((first, others)) = pages.split_first() else { return Vec::new() };
    let names = first.attributes.keys().chain(others.iter().flat_map(|page| page.attributes.keys()));
    let mut different: Vec<String> = names
        .filter(|name| others.iter().any(|page| page.attributes.get(*name) != first.attributes.get(*name)))
        .cloned()
        .collect();
    different.sort();
    different.dedup();
    different
}

fn chunk_count(page: &Array) -> u64 {
    page.chunk_grid.counts(&page.shape).iter().fold(1, |product: u64, count| product.saturating_mul(*count))
}

/// One array of all pages, which lie along `axes`; `None` where its chunks cannot be counted.
fn join_pages(pages: &[&Array], axes: &[(String, u64)]) -> Option<Array> {
    let mut array = (*pages.first()?).clone();
    let different = different_attributes(pages);
    array.attributes.retain(|name, _| !different.contains(name));
    array.chunks = join_chunks(pages, chunk_count(&array))?;
    for (name, size) in axes.iter().rev() {
        array.shape.insert(0, *size);
        array.dimension_names.insert(0, Some(name.clone()));
        match &mut array.chunk_grid {
            ChunkGrid::Regular(chunk) => chunk.insert(0, 1),
            ChunkGrid::Rectilinear(edges) => edges.insert(0, vec![1; usize::try_from(*size).ok()?]),
        }
        array.codecs.iter_mut().for_each(with_an_axis);
    }
    Some(array)
}

fn join_chunks(pages: &[&Array], count: u64) -> Option<ChunkManifest> {
    let (mut positions, mut offsets, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    let mut inline = std::collections::BTreeMap::new();
    for (page, number) in pages.iter().zip(0_u64..) {
        let start = number.checked_mul(count)?;
        for (position, place) in page.chunks.references.iter().flat_map(References::iter) {
            positions.push(start.checked_add(position)?);
            offsets.push(place.offset);
            lengths.push(place.length);
        }
        for (position, content) in &page.chunks.inline {
            inline.insert(start.checked_add(*position)?, content.clone());
        }
    }
    let first = lengths.first().copied().unwrap_or(0);
    let lengths = if lengths.iter().all(|length| *length == first) {
        Lengths::Uniform(first)
    } else {
        Lengths::Each(lengths.into_iter().map(u32::try_from).collect::<Result<_, _>>().ok()?)
    };
    let references = References { source: SourceId(0), positions: Some(positions), offsets, lengths };
    Some(ChunkManifest { references: vec![references], inline })
}

/// The codec for chunks with one more axis, of length 1, in front.
fn with_an_axis(codec: &mut Codec) {
    match codec {
        Codec::Transpose { order } => {
            *order = std::iter::once(0).chain(order.iter().map(|axis| axis.saturating_add(1))).collect();
        }
        Codec::Delta { shape, .. } | Codec::FloatPredictor { shape, .. } => shape.insert(0, 1),
        _ => {}
    }
}

/// Chunks of pages that are made become chunks of the array at `target`, whose pages have `count` chunks each and lie
/// along so many `axes`.
fn move_tasks(tasks: &mut [InlineTask], pages: &[&Ifd], target: &str, count: u64, axes: usize) {
    let starts: std::collections::BTreeMap<NodePath, u64> = pages
        .iter()
        .map(|page| path(page))
        .zip((0_u64..).map(|number| number.saturating_mul(count)))
        .collect();
    for task in tasks {
        let Some(start) = starts.get(&task.array) else { continue };
        target.clone_into(&mut task.array);
        task.positions.iter_mut().for_each(|position| *position = position.saturating_add(*start));
        for _ in 0..axes {
            add_an_axis(&mut task.content);
        }
    }
}

fn add_an_axis(content: &mut ChunkContent) {
    let ChunkContent::Assemble { shape, pieces, .. } = content else { return };
    shape.insert(0, 1);
    for piece in pieces {
        piece.shape.insert(0, 1);
        piece.extent.insert(0, 1);
        piece.from.insert(0, 0);
        piece.to.insert(0, 0);
        piece.codecs.iter_mut().for_each(with_an_axis);
    }
}

/// Takes away the group of a page, but for the groups of its SubIFDs.
fn remove(page: &Ifd, mapped: &mut Mapped) {
    mapped.report.arrays.remove(&path(page));
    let name = group_path(page);
    let Some(group) = group_mut(&mut mapped.hierarchy.root, &name) else { return };
    group.children.retain(|_, node| matches!(node, Node::Group(_)));
    group.attributes.clear();
    if group.children.is_empty() {
        mapped.hierarchy.root.children.remove(&name);
    }
}
