//! Turns a file into a member of a combined dataset.

use virtualize::{Options, VirtualStore};

use crate::{
    Item, Layout, Member,
    compat::{Signature, wanted},
    journal::{Content, MemberRow, pack_hierarchy, pack_values},
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
) -> Result<Content, Failure> {
    let failed = |error: virtualize::Error| Failure::new(error, options.notation);
    let (packed, hierarchy) = pack_hierarchy(&store.hierarchy, store.name()).map_err(failed)?;
    let read = wanted(&hierarchy, layout).read(store, &options.store).await;
    let (values, digests) = read.map_err(failed)?;
    let packed_values = pack_values(&values, store.name()).map_err(failed)?;
    let misfit = |error| Failure::of_layout(&error, options.notation);
    let given = given(item, layout).map_err(misfit)?;
    let sources = hierarchy.sources.clone();
    let member = Member { item: item.clone(), hierarchy, values, digests, given };
    let signature = Signature::of(&member, layout);
    let extent = FileExtent::of(&member, layout).map_err(misfit)?;
    Ok(Content::Member(Box::new(MemberRow {
        signature_digest: signature.storage_digest(),
        signature: text(&signature)?,
        brief: text(&extent)?,
        hierarchy: packed,
        sources,
        values: packed_values,
        digests: member.digests,
        given: member.given,
    })))
}

fn text(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::of_file(format!("journal: {error}")))
}
