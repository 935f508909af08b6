use virtualize::options::OutputFormat;

use crate::{arguments::Convert, exit::Failure, messages, output, reading};

/// Runs `virtualize FILE`.
pub(crate) async fn run(arguments: &Convert) -> Result<(), Failure> {
    let format = arguments.format();
    let options = arguments.input.mapping.options(format.zarr_format());
    output::check(&arguments.output, format)?;
    let opening = virtualize::open(arguments.input.file(), &options);
    let mut store = reading::shown(opening, &options.store, arguments.quiet).await?;
    if !arguments.quiet {
        messages::warnings(store.name(), store.warnings());
    }
    if matches!(format, OutputFormat::References(_)) {
        store.compress_inlined();
    }
    store.relocate(&arguments.output.options.relocation(arguments.output.target.as_deref()))?;
    output::write(&store, &arguments.output, format, &options.store).await?;
    if !arguments.quiet {
        messages::reader_setup(&store);
    }
    if arguments.stats {
        messages::line(&format!("stats: {}: {}", store.name(), store.stats()));
    }
    Ok(())
}
