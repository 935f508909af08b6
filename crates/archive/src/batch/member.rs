//! Turns a file into a member of a combined dataset.

use virtualize::{Options, VirtualStore};

use crate::{
    Item, Layout, Member,
    compat::{Signature, wanted},
    journal::{MemberRow, Record},
    layout::given,
    plan::FileExtent,
    read::Failure,
};

/// Returns the journal's record of a file: its references, and the values that decide its place among the other files.
pub(super) async fn content(
    item: &Item,
    store: &VirtualStore,
    layout: &Layout,
    options: &Options,
) -> Result<Record, Failure> {
    let failed = |error: virtualize::Error| Failure::new(error, options.notation);
    let (row, hierarchy) = MemberRow::pack(store).map_err(failed)?;
    let read = wanted(&hierarchy, layout).read(store, &options.store).await;
    let (values, digests) = read.map_err(failed)?;
    let misfit = |error| Failure::of_layout(&error, options.notation);
    let given = given(item, layout).map_err(misfit)?;
    let member = Member { item: item.clone(), hierarchy, values, digests, given };
    let signature = Signature::of(&member, layout);
    let extent = FileExtent::of(&member, layout).map_err(misfit)?;
    let Member { values, digests, given, .. } = member;
    Ok(Record::Member(Box::new(MemberRow {
        storage: signature.storage_digest(),
        signature: text(&signature)?.into(),
        extent: text(&extent)?,
        values: values.into_iter().map(|(path, values)| (path, values.bytes)).collect(),
        digests,
        given,
        ..row
    })))
}

fn text(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::of_file(format!("journal: {error}")))
}
