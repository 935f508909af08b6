//! The service as its clients see it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod access;
mod answers;
mod common;
mod document;
mod folder;
mod hostile;
mod hostile_targets;
mod memory;
mod page;
mod sockets;
mod values;
