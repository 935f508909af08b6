//! Infers the dimension along which files are combined.

use std::collections::{BTreeMap, BTreeSet};

use virtualize::{
    OptionName, Options, Remedy, open,
    zarr::{Array, NodePath, node},
};

use super::{Batch, options::dimensions_of};
use crate::{
    Along, Error, Item, Journal, Layout, Result,
    compat::is_coordinate,
    event::{Event, Events},
    file::Wanted,
    list::Input,
    values::{Grid, calendar::is_time},
};

/// A coordinate variable: an array named like its only dimension.
struct Coordinate {
    units: Option<String>,
    digest: Option<String>,
    grid: Option<Grid>,
}

impl Coordinate {
    /// Returns whether two coordinates are equal but for rounding.
    fn agrees(&self, other: &Self) -> bool {
        let grids = || self.grid.zip(other.grid);
        self.units == other.units
            && (self.digest == other.digest || grids().is_some_and(|(one, other)| one.agrees(&other)))
    }
}

impl Batch {
    /// Returns the batch with the dimensions of its journal or, on the first run, with the one along which the coordinates of
    /// the first and the last file differ. If all agree, or there is one file, that is the time dimension.
    pub(super) async fn with_dimensions(&self, events: &Events) -> Result<Self> {
        let path = self.journal_path();
        let mut recorded = None;
        if !self.run.restart && path.exists() {
            let journal = Journal::open_read_only(&path, &path)?;
            recorded = if journal.is_used()? { dimensions_of(&journal.options()?) } else { None };
        }
        let along = match recorded {
            Some(along) => along,
            None => vec![Along::Concat(self.inferred(events).await?)],
        };
        Ok(Self { layout: Layout { along, ..self.layout.clone() }, ..self.clone() })
    }

    async fn inferred(&self, events: &Events) -> Result<String> {
        let remedy =
            Remedy::turn_on(OptionName::ConcatDim, "join the files along a dimension that they have")
                .or(Remedy::turn_on(OptionName::StackDim, "add a new dimension"))
                .or(Remedy::turn_on(OptionName::Each, "write one output per file"));
        let refuse = |reason: &str| {
            Error::usage(&format!("no dimension to combine files along{reason}"), Some(remedy.clone()))
        };
        // Standard input cannot be listed twice, and the files of catalogues have their times there.
        if !self.inputs.iter().all(|input| matches!(input, Input::Files(_))) {
            return Err(refuse(""));
        }
        let (mut first, mut last): (Option<Item>, Option<Item>) = (None, None);
        self.for_each_listed(events, |items| {
            for item in items {
                match &first {
                    None => first = Some(item),
                    Some(_) => last = Some(item),
                }
            }
            Ok(())
        })
        .await?;
        let Some(first) = first else { return Err(refuse("")) };
        let unread = |error: virtualize::Error| refuse(&format!(": {error}"));
        let of_first = coordinates(&first, &self.layout, &self.options).await.map_err(unread)?;
        let of_last = match &last {
            Some(last) => coordinates(last, &self.layout, &self.options).await.map_err(unread)?,
            None => BTreeMap::new(),
        };
        let differs = |(path, one): &(&NodePath, &Coordinate)| {
            of_last.get(*path).is_some_and(|other| !one.agrees(other))
        };
        let is_of_time = |(_, one): &(&NodePath, &Coordinate)| one.units.as_deref().is_some_and(is_time);
        let names = |found: Vec<(&NodePath, &Coordinate)>| -> BTreeSet<String> {
            found.into_iter().map(|(path, _)| node::name(path).to_owned()).collect()
        };
        let mut found = names(of_first.iter().filter(differs).collect());
        let mut reason = "the only coordinate that differs";
        if found.is_empty() {
            found = names(of_first.iter().filter(is_of_time).collect());
            reason = "the time dimension";
        }
        let list = found.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        match found.len() {
            0 => Err(refuse("")),
            1 => {
                let text = format!("the files are combined along {list}, {reason}");
                events.tell(Event::Note { text });
                Ok(list)
            }
            _ => {
                let message = format!("no single dimension to combine files along: {list} differ");
                let options = found.into_iter().map(|name| (OptionName::ConcatDim, Some(name))).collect();
                let all = Remedy::Together { options, effect: "combine them along each of these".into() };
                let each = Remedy::turn_on(OptionName::Each, "write one output per file");
                Err(Error::usage(&message, all.or(each)))
            }
        }
    }
}

/// Reads the coordinate variables of a file.
async fn coordinates(
    item: &Item,
    layout: &Layout,
    options: &Options,
) -> Result<BTreeMap<NodePath, Coordinate>, virtualize::Error> {
    let options = options.for_file();
    let mut store = open(&item.url, &options).await?;
    layout.drop_arrays(&mut store);
    let mut arrays = store.hierarchy.arrays();
    arrays.retain(|(path, array)| is_coordinate(path, array));
    let digests = arrays.iter().map(|(path, _)| path.clone()).collect();
    let (_, mut digests, mut grids) =
        Wanted { digests, ..Wanted::default() }.read(&store, &options.store).await?;
    let coordinate = |(path, array): (NodePath, &Array)| {
        let units = array.attributes.get("units").and_then(|units| units.as_str()).map(str::to_owned);
        let coordinate = Coordinate { units, digest: digests.remove(&path), grid: grids.remove(&path) };
        (path, coordinate)
    };
    Ok(arrays.into_iter().map(coordinate).collect())
}
