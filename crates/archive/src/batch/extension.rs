//! Extends an output by new files that follow all others, without looking at these again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use virtualize::{from_text, to_text, zarr::Hierarchy};

use super::combined::{Chain, Combination, Rows, parse_extent};
use crate::{
    Error, Journal, Layout,
    error::CombineError,
    join::{self, JoinedChunks, collect, combine},
    journal::{JournalError, Planned},
    plan::{FileExtent, Files, Known, PlanOptions, PlannedEra, plan},
};

/// Maximum number of new files. More are combined with all others, one part of the dataset after the other.
const MAX_FILES: usize = 1000;

/// What is known of an output without its files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Tail {
    /// Digest of the files and options, see [`Chain`].
    pub(super) digest: String,
    /// Number of files.
    pub(super) files: u64,
    /// Digest of the options.
    options: String,
    /// Storage digest of all files.
    storage: String,
    /// Row of the first file in order, and its extent.
    first: (i64, FileExtent),
    /// The same of the last one.
    last: (i64, FileExtent),
    /// The dataset without its chunks, see [`join::tail`]: references as JSON.
    hierarchy: String,
    /// The last row of the journal that the dataset includes.
    #[serde(skip)]
    through: i64,
}

/// An output that is extended.
pub(super) struct Extension {
    /// The whole dataset, with its new and changed chunks alone.
    pub(super) hierarchy: Hierarchy,
    /// Rows of the new files.
    pub(super) rows: Vec<i64>,
    /// Rows and runs of the new files in order of place.
    pub(super) order: Vec<(i64, i64)>,
    /// What is known of the output then.
    pub(super) tail: Tail,
}

/// What a journal knows of an output and of the files that follow those of the output.
pub(super) struct Grown {
    pub(super) tail: Tail,
    rows: Vec<Planned>,
}

impl Grown {
    /// Returns what is known of an output; `None` unless its files and options are those of when it was written.
    pub(super) fn of(journal: &Journal, output: &str, options: &Chain) -> Result<Option<Self>, Error> {
        let Some((through, state)) = journal.tail(output)? else { return Ok(None) };
        let Ok(tail) = serde_json::from_slice::<Tail>(&state) else { return Ok(None) };
        if tail.options != options.digest() {
            return Ok(None);
        }
        Ok(Some(Self { tail: Tail { through, ..tail }, rows: journal.rows_after(through)? }))
    }

    /// Returns whether files were added.
    pub(super) fn is_more(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Extends the output; `None` if all files have to be combined.
    pub(super) fn extend(
        self,
        journal: &Arc<Mutex<Journal>>,
        layout: &Layout,
        options: &PlanOptions,
        cancel: &CancellationToken,
    ) -> Result<Option<Extension>, Error> {
        let Self { tail, rows } = self;
        let is_same = rows.iter().all(|row| *row.storage == *tail.storage);
        if rows.is_empty() || rows.len() > MAX_FILES || !is_same {
            return Ok(None);
        }
        let Some(arranged) = Arranged::new(&tail, &rows, &locked(journal), layout) else { return Ok(None) };
        let joined = arranged.join(&tail, (journal, cancel), layout, options)?;
        let Some(Joined { hierarchy, tail: new_tail }) = joined else { return Ok(None) };
        let Some(mut digest) = Chain::parse(&tail.digest) else { return Ok(None) };
        rows.iter().for_each(|row| digest.add(row.id, row.run));
        let run = |id| rows.iter().find(|row| row.id == id).map(|row| (id, row.run));
        let after = Tail {
            digest: digest.digest(),
            files: tail.files.saturating_add(rows.len() as u64),
            last: arranged.last(),
            hierarchy: new_tail,
            through: rows.iter().map(|row| row.id).fold(tail.through, i64::max),
            ..tail.clone()
        };
        Ok(Some(Extension {
            hierarchy,
            order: arranged.new_ids().filter_map(run).collect(),
            rows: rows.iter().map(|row| row.id).collect(),
            tail: after,
        }))
    }
}

impl Tail {
    /// Describes a combined dataset; `None` if it cannot be extended.
    pub(super) fn of(
        combination: &Combination,
        hierarchy: &Hierarchy,
        journal: &Journal,
    ) -> Result<Option<Self>, Error> {
        let Combination { plan, layout, ids, .. } = combination;
        let ([era], [_]) = (plan.eras.as_slice(), layout.along.as_slice()) else { return Ok(None) };
        let is_whole =
            era.blocks.len() == ids.len() && era.blocks.iter().all(|block| block.selection.is_none());
        let (Some(storage), true, true) = (&combination.storage, is_whole, layout.optional.is_empty()) else {
            return Ok(None);
        };
        let end = |block: Option<&crate::plan::Block>| {
            let id = block.and_then(|block| super::combined::id_of(ids, block.row));
            let id = id.ok_or(CombineError::Nothing)?;
            let extent = journal.extent(id)?;
            Ok::<_, Error>((id, parse_extent(journal, id, &extent)?))
        };
        let (first, last) = (end(era.blocks.first())?, end(era.blocks.last())?);
        let Some(hierarchy) = text_of(&join::tail(hierarchy)) else { return Ok(None) };
        Ok(Some(Self {
            digest: combination.digest.clone(),
            files: ids.len() as u64,
            options: combination.options_digest.clone(),
            storage: storage.clone(),
            first,
            last,
            hierarchy,
            through: ids.iter().copied().max().unwrap_or(0),
        }))
    }

    /// Stores the tail of an output that was published.
    pub(super) fn store(&self, journal: &Journal, output: &str) -> Result<(), Error> {
        let state = serde_json::to_vec(self).map_err(|error| JournalError::Failed {
            path: journal.path().to_owned(),
            reason: format!("tail: {error}"),
        })?;
        Ok(journal.set_tail(output, self.through, &state)?)
    }
}

/// Returns a tail as text, if it comes back from that.
fn text_of(tail: &Hierarchy) -> Option<String> {
    let text = to_text(tail, "tail").ok()?;
    let back = from_text(&text, &[], "tail").ok()?;
    (back == *tail).then(|| String::from_utf8(text).ok())?
}

fn locked(journal: &Mutex<Journal>) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A dataset that was extended, with its new and changed chunks, and the text of its tail.
struct Joined {
    hierarchy: Hierarchy,
    tail: String,
}

/// The first and the last file of an output, and the new files, in order.
struct Arranged {
    era: PlannedEra,
    /// The first and the last file alone.
    known: PlannedEra,
    /// Rows and extents of the files of the era.
    files: Vec<(i64, FileExtent)>,
}

impl Arranged {
    /// Arranges the files; `None` unless the new ones follow.
    fn new(tail: &Tail, rows: &[Planned], journal: &Journal, layout: &Layout) -> Option<Self> {
        let mut files = vec![tail.first.clone()];
        if tail.last.0 != tail.first.0 {
            files.push(tail.last.clone());
        }
        let count = files.len();
        for row in rows {
            files.push((row.id, serde_json::from_str(&row.extent).ok()?));
        }
        let mut planned = Files::default();
        let kind = planned.kind(&tail.storage, String::new);
        files.iter().for_each(|(_, extent)| planned.push(kind, extent.clone()));
        let id = |row: u64| files.get(usize::try_from(row).ok()?).map(|(id, _)| *id);
        let url = |row| id(row).and_then(|id| journal.url(id).ok()).unwrap_or_default();
        let known = Known { url: &url, ..Known::nothing() };
        let mut plan = plan(planned, &known, layout, &PlanOptions::default()).ok()?;
        let era = plan.eras.pop().filter(|_| plan.eras.is_empty() && plan.left_out.is_empty())?;
        let follows = (0..).zip(era.blocks.iter().take(count)).all(|(row, block)| block.row == row);
        if !follows || era.blocks.len() != files.len() {
            return None;
        }
        let blocks = era.blocks.iter().take(count).cloned().collect();
        let sizes = era.sizes.iter().map(|sizes| sizes.iter().take(count).copied().collect()).collect();
        let known = PlannedEra { blocks, sizes, ..era.clone() };
        Some(Self { era, known, files })
    }

    /// Joins the files, and extends the dataset by what the new ones add.
    fn join(
        &self,
        tail: &Tail,
        (journal, cancel): (&Arc<Mutex<Journal>>, &CancellationToken),
        layout: &Layout,
        options: &PlanOptions,
    ) -> Result<Option<Joined>, Error> {
        let Ok(before) = from_text(tail.hierarchy.as_bytes(), &[], "tail") else { return Ok(None) };
        let ids: Vec<i64> = self.files.iter().map(|(id, _)| *id).collect();
        let mut members = Rows::new(journal, &ids, std::slice::from_ref(&self.era), cancel);
        let mut step = || Ok::<_, Error>(());
        let known = combine(&self.known, layout, options, &mut members, &mut step);
        let joined = combine(&self.era, layout, options, &mut members, &mut step);
        // If the files cannot be joined, joining all reports why.
        let (Ok(known), Ok(joined)) = (known, joined) else { return Ok(None) };
        let extended = join::extend(&before, &known.hierarchy, &joined.hierarchy, options.most_inline);
        let Some(extended) = extended else { return Ok(None) };
        let Some(tail) = text_of(&extended.tail()) else { return Ok(None) };
        let mut chunks = extended.chunks(JoinedChunks::new(members, joined.chunks));
        // Reading the chunks of all files reports why that fails.
        let hierarchy = collect(extended.hierarchy.clone(), &mut chunks).ok();
        Ok(hierarchy.map(|hierarchy| Joined { hierarchy, tail }))
    }

    /// Returns row and extent of the last file.
    fn last(&self) -> (i64, FileExtent) {
        let row = self.era.blocks.last().and_then(|block| usize::try_from(block.row).ok());
        let last = row.and_then(|row| self.files.get(row)).or(self.files.last());
        last.cloned().unwrap_or_else(|| (0, FileExtent::new(Vec::new())))
    }

    /// Returns the rows of the new files in order.
    fn new_ids(&self) -> impl Iterator<Item = i64> + '_ {
        let new = self.era.blocks.iter().skip(self.known.blocks.len());
        new.filter_map(|block| self.files.get(usize::try_from(block.row).ok()?).map(|(id, _)| *id))
    }
}
