//! Summarizes one file for a scan.

use virtualize::{Options, VirtualStore};

use super::groups::Seen;
use crate::{
    Along, Item, Layout, Member,
    compat::{is_coordinate, wanted},
    layout::given,
    read::Failure,
    values::calendar::is_time,
};

/// Summary of a file, and the dimension inferred from it.
pub(crate) type Looked = (Seen, Option<String>);

/// Returns the summary of a file. With `guesses`, adds the file's time dimension to the layout, if there is one.
pub(crate) async fn look(
    item: &Item,
    store: &VirtualStore,
    options: &Options,
    mut layout: Layout,
    guesses: bool,
) -> Result<Looked, Failure> {
    let guessed = if guesses { dimension_of_time(store) } else { None };
    layout.along.extend(guessed.clone().map(Along::Concat));
    let read = wanted(&store.hierarchy, &layout).read(store, &options.store).await;
    let (values, digests) = read.map_err(|error| Failure::new(error, options.notation))?;
    let given = given(item, &layout).map_err(|error| Failure::of_layout(&error, options.notation))?;
    let item = item.clone();
    let member = Member { item, hierarchy: store.hierarchy.clone(), values, digests, given };
    Ok((Seen::of(&member, &layout), guessed))
}

/// Returns the time dimension of a file: the first coordinate, nearest to the root, whose units have a reference time.
fn dimension_of_time(store: &VirtualStore) -> Option<String> {
    let arrays = store.hierarchy.arrays().into_iter();
    let times = arrays.filter(|(path, array)| {
        let units = array.attributes.get("units").and_then(|units| units.as_str());
        is_coordinate(path, array) && units.is_some_and(is_time)
    });
    let first = times.min_by_key(|(path, _)| path.matches('/').count());
    first.and_then(|(_, array)| array.dimension_names.first().cloned().flatten())
}
