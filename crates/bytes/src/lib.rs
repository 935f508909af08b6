#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! Architecture invariant: this crate does no I/O and does not panic, whatever the bytes.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod bits;
mod bounded;
mod budget;
mod cursor;
mod limits;
mod range;
mod source;

pub use bits::{BitReader, BitWriter};
pub use bounded::read_bounded;
pub use budget::Budget;
pub use cursor::{Cursor, Endian, NeedBytes};
pub use limits::Limits;
pub use range::{Address, ByteRange};
pub use source::{BoxFuture, Budgeted, Gate, MemorySource, ReadError, ReadErrorKind, ReadRanges};
