use std::io::{self, Write};

use crate::{arguments::Compare, exit::Failure, messages::printable};

/// Runs `virtualize diff A B`, which compares two reference sets or files.
pub(crate) async fn run(arguments: &Compare) -> Result<(), Failure> {
    let options = arguments.reading.options();
    let found =
        virtualize::compare(&arguments.first, &arguments.second, !arguments.ignore_urls, &options).await?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    for node in &found.nodes {
        writeln!(out, "{}", printable(&node.to_string()))?;
    }
    out.flush()?;
    if found.is_empty() { Ok(()) } else { Err(Failure::Found) }
}
