//! `virtualize inspect FILE`: one description of the mapped file, printed as text for people or as JSON.

mod readers;
mod text;

use std::io::{self, Write};

use virtualize::{Notation, VirtualStore};

use crate::{arguments::Inspect, exit::Failure, messages};

/// Returns what `virtualize inspect` prints about a mapped file, with remedies in `notation`.
pub fn text(store: &VirtualStore, notation: Notation) -> String {
    let mut out = Vec::new();
    // Writing to memory does not fail.
    let _ = text::write(store, notation, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

pub(crate) async fn run(arguments: &Inspect) -> Result<(), Failure> {
    let options = arguments.input.options();
    let store = virtualize::open(arguments.input.file(), &options).await?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    if arguments.json {
        let described = virtualize::describe::store(&store, messages::FLAGS);
        serde_json::to_writer_pretty(&mut out, &described).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
    } else {
        text::write(&store, messages::FLAGS, &mut out)?;
    }
    Ok(out.flush()?)
}
