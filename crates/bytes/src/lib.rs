//! Bytes of a file whose content is not trusted: a checked cursor, addresses and lengths that do not mix, limits,
//! and the trait through which the readers ask for byte ranges.
//!
//! Architecture invariant: nothing here does I/O, and nothing here panics, whatever the bytes are.
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
