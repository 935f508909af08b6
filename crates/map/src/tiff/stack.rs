//! Stacking of pages ([`MapOptions::stack`]): images of the main chain that are alike become one array along a new axis.

use virtualize_remedy::Code;
use virtualize_tiff::model::{File, Ifd};
use virtualize_zarr::Array;

use super::{
    coordinates, group_path,
    join::{Move, chunk_count, different_attributes, is_like, join, move_tasks, path, put, remove},
};
use crate::{Diagnostic, MapOptions, Mapped, Severity};

/// Name of the new axis, and of the variable with the numbers of the pages along it.
const AXIS: &str = "page";

/// Joins the pages that are like the first one into its array. Other pages remain groups of their own.
pub(super) fn stack(file: &File, mapped: &mut Mapped, options: &MapOptions) {
    let Some(first) = file.ifds.iter().find(|ifd| is_page(ifd, mapped)) else { return };
    let alike: Vec<&Ifd> = file.ifds.iter().filter(|ifd| is_like_first(ifd, first, mapped)).collect();
    let pages: Vec<&Array> = alike.iter().filter_map(|ifd| mapped.hierarchy.array(&path(ifd))).collect();
    let axes = [(AXIS.to_owned(), alike.len() as u64)];
    let members: Vec<_> = pages.iter().map(|page| Some((*page, Default::default()))).collect();
    let joined = pages.first().filter(|_| alike.len() > 1).and_then(|model| join(model, &members, &axes));
    let Some(mut stacked) = joined else {
        mapped.report.diagnostics.push(note("no further page is like the first: nothing is stacked".into()));
        return;
    };
    let left_out: Vec<String> = different_attributes(&pages);
    stacked.attributes.retain(|name, _| !left_out.contains(name));
    let count: u64 = pages.first().map_or(1, |page| chunk_count(page));
    let others = file.ifds.iter().filter(|ifd| is_page(ifd, mapped)).count().saturating_sub(alike.len());
    let target = path(first);
    let to =
        |number: u64| Move { target: target.clone(), start: number.saturating_mul(count), axes: axes.len() };
    let moves = alike.iter().zip(0..).map(|(page, number)| (path(page), to(number))).collect();
    move_tasks(&mut mapped.tasks, &moves);
    for page in alike.iter().skip(1) {
        remove(page, mapped);
    }
    report(&left_out, others, mapped);
    let Some(group) = mapped.hierarchy.root.make_group(&group_path(first)) else { return };
    if left_out.iter().any(|name| name == "long_name") {
        coordinates::remove_band_names(group, &mut stacked.attributes);
    }
    coordinates::add_numbers(group, AXIS, page_numbers(&alike), options);
    put(stacked, first, mapped);
}

fn report(left_out: &[String], others: usize, mapped: &mut Mapped) {
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        let text = format!("attributes that differ between pages are left out: {names}");
        mapped.report.diagnostics.push(note(text));
    }
    if others > 0 {
        let text = format!("{others} pages that are unlike the first are not stacked");
        mapped.report.diagnostics.push(note(text));
    }
}

fn page_numbers(pages: &[&Ifd]) -> Vec<u64> {
    pages.iter().filter_map(|ifd| ifd.path.first()).map(|index| *index as u64).collect()
}

fn note(message: String) -> Diagnostic {
    Diagnostic { severity: Severity::Info, code: Code::TiffStack, path: "/".into(), message, remedy: None }
}

/// Whether a directory was mapped to an array, and is neither an overview nor a mask.
fn is_page(ifd: &Ifd, mapped: &Mapped) -> bool {
    let whole = ifd.image.as_ref().is_ok_and(|image| image.subfile_type & 0b101 == 0);
    whole && mapped.hierarchy.array(&path(ifd)).is_some()
}

fn is_like_first(ifd: &Ifd, first: &Ifd, mapped: &Mapped) -> bool {
    let array = |ifd| mapped.hierarchy.array(&path(ifd));
    let (true, Some(one), Some(other)) = (is_page(ifd, mapped), array(ifd), array(first)) else {
        return false;
    };
    is_like(one, other) && ifd.geo == first.geo
}
