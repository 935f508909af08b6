use std::collections::{BTreeMap, BTreeSet};

use futures::future::try_join_all;
use serde_json::Value;
use virtualize::zarr::{Hierarchy, NodePath};
use virtualize::{ArrayValues, StoreOptions, VirtualStore, digest, read_array};

use crate::Item;

/// A file that was read.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    /// The file.
    pub item: Item,
    /// Its groups and arrays, with references to their chunks.
    pub hierarchy: Hierarchy,
    /// Decoded values of the arrays in [`Wanted::values`].
    pub values: BTreeMap<NodePath, ArrayValues>,
    /// SHA-256 of type, shape and decoded values, in hexadecimal, of the arrays in [`Wanted::digests`].
    pub digests: BTreeMap<NodePath, String>,
    /// Coordinates along dimensions from names, paths or catalogues, by dimension.
    pub given: BTreeMap<String, Value>,
}

/// Arrays of a file that must be read whole, because references to them are not enough.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Arrays whose values are needed: coordinates along the dimensions, and small arrays whose chunks may not fit.
    pub values: BTreeSet<NodePath>,
    /// Arrays that must be equal in all files, because they are invariant along a dimension.
    pub digests: BTreeSet<NodePath>,
}

/// [`Member::values`] and [`Member::digests`].
pub(crate) type Values = (BTreeMap<NodePath, ArrayValues>, BTreeMap<NodePath, String>);

impl Wanted {
    /// Reads the arrays.
    ///
    /// # Errors
    /// Arrays that cannot be read whole.
    pub(crate) async fn read(
        &self,
        store: &VirtualStore,
        options: &StoreOptions,
    ) -> Result<Values, virtualize::Error> {
        let read = self.values.union(&self.digests).map(|path| async move {
            let values = read_array(store, path, options).await?;
            Ok::<_, virtualize::Error>((path.clone(), values))
        });
        let read: BTreeMap<_, _> = try_join_all(read).await?.into_iter().collect();
        let digests = self.digests.iter().filter_map(|path| Some((path.clone(), digest(read.get(path)?))));
        let digests = digests.collect();
        let values = read.into_iter().filter(|(path, _)| self.values.contains(path)).collect();
        Ok((values, digests))
    }
}
