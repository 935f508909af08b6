//! What describes the whole: attributes of the extent, and the levels of images that are joined.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use virtualize::zarr::{NodePath, cf::conventions::Convention, node};

use super::{
    attributes::{MergedAttributes, OF_EXTENT},
    metadata::Finish,
};
use crate::{
    Along,
    compat::{
        DimRole,
        signature::{MOVED, band_axis},
    },
    error::{Note, Problem},
    layout::FILE_TEXTS,
};

impl Finish<'_, '_> {
    /// Drops attributes that describe one of several files, and reports arrays that do.
    pub(super) fn describe_whole(&mut self) {
        let has_texts = self.arrays.keys().any(|path| node::parent(path) == FILE_TEXTS);
        if self.groups.contains_key(FILE_TEXTS) && !has_texts {
            let text = "the texts that describe a single file are dropped";
            self.joiner.notes.insert(Note::new(FILE_TEXTS, text));
        }
        if self.joiner.set.blocks.len() < 2 {
            return;
        }
        let sizes = self.joiner.set.sizes.iter();
        let grown: BTreeSet<&str> = self.joiner.layout.along.iter().zip(sizes).filter_map(grown).collect();
        let of_group = |merged: &MergedAttributes| {
            let names = merged.dimensions();
            let names = names.iter().map(|name| self.joiner.levels.dimension(name));
            let any = |mut names: Box<dyn Iterator<Item = &str> + '_>| names.any(|name| grown.contains(name));
            if merged.dimensions().is_empty() {
                any(Box::new(MOVED.into_iter()))
            } else {
                any(Box::new(names))
            }
        };
        let moved: BTreeMap<NodePath, bool> =
            self.groups.iter().map(|(path, merged)| (path.clone(), of_group(merged))).collect();
        let is_moved = |group: &str| moved.get(group).copied().unwrap_or_default();
        for (path, merged) in &mut self.groups {
            let dropped = merged.describe_whole(is_moved(path));
            if is_moved(path) && dropped.iter().any(|name| OF_EXTENT.contains(&name.as_str())) {
                self.moved.insert(path.clone(), dropped);
            } else {
                self.joiner.notes.extend(note(path, dropped));
            }
        }
        for (path, growing) in &mut self.arrays {
            let mut dropped = growing.attributes.describe_whole(is_moved(node::parent(path)));
            let axis = band_axis(&growing.first);
            let dimension = growing.roles.iter().position(|role| axis.map(DimRole::Axis) == Some(*role));
            let sizes = dimension.and_then(|dimension| self.joiner.set.sizes.get(dimension));
            if let (Some(sizes), Some(bands)) = (sizes, axis.and_then(|axis| growing.first.shape.get(axis)))
                && sizes.len() > 1
            {
                dropped.extend(growing.attributes.describe_bands(*bands, sizes));
            }
            self.joiner.notes.extend(note(path, dropped));
        }
    }

    /// Removes the levels that cannot be joined, and lists the others.
    pub(super) fn list_levels(&mut self) {
        let groups = self.joiner.levels.groups.clone();
        for (group, level) in groups.iter().filter(|(group, level)| group == level) {
            if let Err(problem) = self.check_factor(group) {
                self.joiner.drop_level(level, problem);
            }
        }
        let dropped = self.joiner.dropped.clone();
        for (group, _) in groups.iter().filter(|(_, level)| dropped.contains_key(*level)) {
            let (parent, name) = node::split(group);
            if let Some(parent) = self.joiner.whole.root.group_mut(parent) {
                parent.children.remove(name);
            }
            self.chunks.remove_group(group);
            let prefix = format!("{group}/");
            self.joiner.notes.retain(|note| note.subject != *group && !note.subject.starts_with(&prefix));
        }
        for (level, problem) in dropped {
            self.joiner.notes.insert(Note::new(level, format!("overview omitted: {problem}")));
        }
        self.update_multiscales();
    }

    /// Checks that the pixels of a level cover whole pixels of each file: all files but the last are a multiple of its factor.
    fn check_factor(&self, group: &str) -> Result<(), Problem> {
        let Some(own) = self.joiner.sizes.get(group) else { return Ok(()) };
        for (n, (name, (own, main))) in
            self.names.iter().zip(own.iter().zip(&self.joiner.set.sizes)).enumerate()
        {
            let is_existing = matches!(self.joiner.layout.along.get(n), Some(Along::Concat(_)));
            let sizes: Vec<(u64, u64)> =
                own.iter().zip(main).filter_map(|(own, main)| Some(((*own)?, *main))).collect();
            let Some(((first_own, first), (last_own, last))) =
                sizes.first().copied().zip(sizes.last().copied()).filter(|_| is_existing && sizes.len() > 1)
            else {
                continue;
            };
            let factor = first.checked_div(first_own).unwrap_or(0);
            let others = sizes.split_last().map(|(_, others)| others).unwrap_or_default();
            let fits = others.iter().all(|(own, main)| own.checked_mul(factor) == Some(*main))
                && factor > 0
                && last.div_ceil(factor) == last_own;
            if !fits {
                let text = format!("the sizes of the files along {name} are not multiples of its pixels");
                return Err(Problem::new(text));
            }
        }
        Ok(())
    }

    /// Lists the main image and the levels in the attributes of the root, with the scales of the whole.
    fn update_multiscales(&mut self) {
        let whole = &self.joiner.whole;
        let layout = whole.root.attributes.get("multiscales").and_then(|it| it.get("layout")?.as_array());
        let Some(mut layout) = layout.cloned() else { return };
        let asset = |level: &Value| Some(whole.array(level.get("asset")?.as_str()?)?.shape.clone());
        layout.retain(|level| asset(level).is_some());
        let main = layout.first().and_then(asset).unwrap_or_default();
        let names = layout
            .first()
            .and_then(|it| Some(whole.array(it.get("asset")?.as_str()?)?.dimension_names.clone()));
        let axes: Vec<usize> = self
            .dimensions
            .iter()
            .filter_map(|name| names.as_ref()?.iter().position(|own| own.as_deref() == Some(name)))
            .collect();
        for level in layout.iter_mut().skip(1) {
            let Some(shape) = asset(level) else { continue };
            #[expect(clippy::cast_precision_loss, reason = "sizes of images")]
            let scale = |axis: &usize| Some(*main.get(*axis)? as f64 / *shape.get(*axis)? as f64);
            let scales: Option<Vec<f64>> = axes.iter().map(scale).collect();
            if let (Some(scales), Some(old)) =
                (scales.filter(|all| !all.is_empty()), level.pointer_mut("/transform/scale"))
            {
                *old = json!(scales);
            }
        }
        let attributes = &mut self.joiner.whole.root.attributes;
        if layout.len() > 1 {
            attributes.insert("multiscales".into(), json!({ "layout": layout }));
            return;
        }
        Convention::Multiscales.withdraw(attributes);
    }
}

/// Returns the name of an existing dimension along which several files follow each other.
fn grown<'a>((along, sizes): (&'a Along, &Vec<u64>)) -> Option<&'a str> {
    match along {
        Along::Concat(name) if sizes.len() > 1 => Some(name),
        _ => None,
    }
}

/// Returns a note on attributes that were dropped; of those that place images, the ones of the root stand for all.
pub(crate) fn note(path: &str, mut dropped: Vec<String>) -> Option<Note> {
    let subject = if path.is_empty() { "/" } else { path };
    dropped.retain(|name| path.is_empty() || !OF_EXTENT.contains(&name.as_str()));
    let text = format!("attributes that describe a single file are dropped: {}", dropped.join(", "));
    (!dropped.is_empty()).then(|| Note::new(subject, text))
}
