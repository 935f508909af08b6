use std::io::{self, Write};

use crate::{arguments::Compare, exit::Failure, messages::printable, reading};

/// Runs `virtualize diff A B`, which compares two reference sets or files.
pub(crate) async fn run(arguments: &Compare) -> Result<(), Failure> {
    let options = arguments.reading.options();
    let (first, second) = (&arguments.first, &arguments.second);
    let comparison = virtualize::compare(first, second, !arguments.ignore_urls, &options);
    let found = reading::shown(comparison, &options.store, false).await?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    for node in &found.nodes {
        writeln!(out, "{}", printable(&node.to_string()))?;
    }
    out.flush()?;
    if found.is_empty() { Ok(()) } else { Err(Failure::Found) }
}
