//! The page for people at `/`: its files are embedded from `assets/`.

use std::sync::Arc;

use axum::routing::MethodRouter;

use crate::context::Context;

/// Routes of the page and of its files.
pub(crate) fn routes() -> Vec<(&'static str, MethodRouter<Arc<Context>>)> {
    Vec::new()
}
