//! References over HTTP: any file that is allowed, as references or as a Zarr v3 store, for pipelines and for people.
//!
//! [`app`] makes the service of a [`Config`]; [`serve`] listens. What is not allowed by prefix is not reached, whoever
//! names it (`virtualize_store::Allowed`): the table of routes says which scope each needs, and every request passes one
//! guard, in this order: name of the host, token, rate, scope, requests at once (of the client, and of all), time.
//!
//! Architecture invariant: nothing is decided here about data; answers are what the library made, or its refusal. An
//! answer is begun when all that can fail has been done, or is cut off so that the client sees it.

mod api;
mod auth;
mod body;
mod budget;
mod bundle;
mod client;
mod conditional;
mod config;
mod context;
mod descriptors;
mod disk;
mod encode;
mod error;
mod guard;
mod health;
mod inspect;
mod jobs;
mod layout;
mod listen;
mod logging;
mod metrics;
mod openapi;
mod page;
mod plain;
mod problem;
mod query;
mod quota;
mod rate;
mod references;
mod rendered;
mod request_id;
mod routes;
mod settings;
mod sources;
mod stream;
mod tick;
mod weight;
mod zarr;

use std::sync::Arc;

use axum::Router;

pub use config::Config;
pub use error::{ConfigError, TokenError};
pub use guard::Peer;
pub use listen::{Running, serve, start};
pub use logging::start as start_logging;
pub use problem::Problem;
pub use settings::{Settings, Size};

use context::Context;

/// The service, without a socket. Requests may carry a [`Peer`] as an extension.
///
/// # Errors
/// A cache folder that cannot be used.
pub fn app(config: Config) -> Result<Router, ConfigError> {
    Ok(routes::router(Arc::new(Context::new(config)?)))
}
