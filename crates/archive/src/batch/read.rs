//! What a run makes of one file.

use futures::future::{BoxFuture, FutureExt};
use virtualize::{ErrorClass, Options, VirtualStore};

use super::{each::Each, member};
use crate::{
    Item, Layout,
    engine::{Failure, Make},
    journal::Content,
};

/// What becomes of a file.
pub(super) enum Becomes {
    /// An output of its own.
    Each(Each),
    /// A member of a combined dataset.
    Member(Layout),
}

impl Make for Becomes {
    type Content = Content;

    fn make<'a>(
        &'a self,
        item: &'a Item,
        store: &'a mut VirtualStore,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Content, Failure>> {
        self.content(item, store, options).boxed()
    }
}

impl Becomes {
    async fn content(
        &self,
        item: &Item,
        store: &mut VirtualStore,
        options: &Options,
    ) -> Result<Content, Failure> {
        match self {
            Self::Each(each) => {
                let name = each.name(&item.url);
                let name = name.map_err(|error| Failure { class: ErrorClass::File, error })?;
                let written = each.write(store, name, options).await;
                written.map_err(|error| Failure::new(error, options.notation))
            }
            Self::Member(layout) => {
                let row = member::row(item, store, layout, options).await?;
                Ok(Content::Member(Box::new(row)))
            }
        }
    }
}
