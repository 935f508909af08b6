#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! [`app`] builds the service from a [`Config`]; [`serve`] runs it. The service never opens a file outside the allowed
//! prefixes, whether a client or another file names it (`virtualize_store::Allowed`). The table of routes declares the
//! access that each route requires. Every request passes one guard, which checks in this order: host, token, rate,
//! bytes, scope, its turn in the queue, time.
//!
//! Architecture invariant: this crate decides nothing about data. A response is the library's output, or its error. It
//! begins when everything that can fail has succeeded; otherwise it is cut off so that the client notices.

mod api;
mod auth;
mod body;
mod budget;
mod bundle;
mod cache;
mod client;
mod conditional;
mod config;
mod context;
mod descriptors;
mod disk;
mod encode;
mod error;
mod folder;
mod follow;
mod guard;
mod health;
mod inspect;
mod jwks;
mod jwt;
mod layout;
mod listen;
mod logging;
mod many;
mod measured;
mod metrics;
mod openapi;
mod page;
mod plain;
mod problem;
mod query;
mod queue;
mod quota;
mod rate;
mod references;
mod rendered;
mod request_id;
mod routes;
mod settings;
mod shown;
mod sources;
mod stamp;
mod stream;
mod tick;
mod tokens;
mod values;
mod weight;
mod zarr;

use std::sync::Arc;

use axum::Router;

pub use config::Config;
pub use error::{ConfigError, TokenError};
pub use guard::Peer;
pub use health::check_health;
pub use listen::{Running, serve, start};
pub use logging::start as start_logging;
pub use problem::Problem;
pub use settings::{Settings, Size};

use context::Context;

/// Builds the service without a socket. Requests may carry a [`Peer`] as an extension.
///
/// # Errors
/// Fails if the cache folder cannot be used.
pub fn app(config: Config) -> Result<Router, ConfigError> {
    Ok(routes::router(Arc::new(Context::new(config)?)))
}
