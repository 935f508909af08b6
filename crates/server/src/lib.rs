#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! [`app`] builds the service from a [`Config`]; [`serve`] runs it. The service never opens a file outside the allowed
//! prefixes, whether a client or another file names it (`virtualize_store::Allowed`). `app.rs` has all routes, the
//! scopes that they require, and the layers that every request passes. The service keeps no state but caches.
//!
//! Architecture invariant: this crate decides nothing about data. A response is the library's output, or its error. It
//! begins when everything that can fail has succeeded; otherwise it is cut off so that the client notices.

mod app;
mod auth;
mod budget;
mod config;
mod handlers;
mod listen;
mod metrics;
mod openapi;
mod page;
mod problem;
mod query;
mod respond;
mod sources;

pub use app::{Peer, app};
pub use config::{Config, ConfigError, LogFormat, Settings};
pub use handlers::health::check_health;
pub use listen::{Running, serve, start, start_logging};
pub use problem::Problem;
