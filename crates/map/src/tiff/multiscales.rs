//! The Zarr convention `multiscales`: the main image and its overviews as levels of one pyramid.

use serde_json::{Value, json};
use virtualize_tiff::model::{File, Ifd, Image};
use virtualize_zarr::{Hierarchy, node::join};

use super::{ARRAY, georeference::convention, group_path};

/// Lists the levels in the attributes of the root, if there are overviews.
pub(super) fn describe(file: &File, hierarchy: &mut Hierarchy) {
    let Some(main) = file.ifds.first() else { return };
    let Ok(image) = &main.image else { return };
    let overviews: Vec<_> = file
        .ifds
        .iter()
        .skip(1)
        .chain(&main.sub_ifds)
        .filter_map(|ifd| overview(ifd).map(|overview| (join(&group_path(ifd), ARRAY), overview)))
        .filter(|(path, _)| hierarchy.array(path).is_some())
        .collect();
    if overviews.is_empty() || hierarchy.array(ARRAY).is_none() {
        return;
    }
    let levels = overviews.into_iter().map(|(path, overview)| level(&path, image, overview));
    let layout: Vec<Value> = std::iter::once(json!({ "asset": ARRAY })).chain(levels).collect();
    let attributes = &mut hierarchy.root.attributes;
    attributes.insert("multiscales".into(), json!({ "layout": layout }));
    let conventions = attributes.entry("zarr_conventions").or_insert_with(|| json!([]));
    if let Value::Array(conventions) = conventions {
        conventions.push(convention("multiscales"));
    }
}

/// Returns the image of a directory that is a reduced one and not a mask.
pub(super) fn overview(ifd: &Ifd) -> Option<&Image> {
    ifd.image.as_ref().ok().filter(|image| image.subfile_type & 0b101 == 1)
}

/// Returns the entry of a level: how many pixels of the main image one of its pixels covers, along y and x.
fn level(path: &str, main: &Image, overview: &Image) -> Value {
    let scale = [main.height as f64 / overview.height as f64, main.width as f64 / overview.width as f64];
    json!({
        "asset": path,
        "derived_from": ARRAY,
        "transform": { "scale": scale, "translation": [0.0, 0.0] },
    })
}
