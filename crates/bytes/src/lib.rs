//! Access to untrusted files: a bounds-checked cursor, types for addresses and lengths, limits and a memory budget, and the
//! trait through which readers request byte ranges.
//!
//! Architecture invariant: this crate does no I/O and does not panic, whatever the bytes.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod budget;
mod cursor;
mod limits;
mod range;
mod source;

pub use budget::Budget;
pub use cursor::{Cursor, Endian, NeedBytes};
pub use limits::Limits;
pub use range::{Address, ByteLength, ByteRange};
pub use source::{BoxFuture, Budgeted, Gate, MemorySource, ReadError, ReadErrorKind, ReadRanges};
