#[cfg(feature = "icechunk")]
use virtualize::options::OutputFormat;
use virtualize::{convert, read_references};

use crate::{arguments::Translate, exit::Failure, messages, output, reading};

/// Runs `virtualize convert REFS`.
pub(crate) async fn run(arguments: &Translate) -> Result<(), Failure> {
    let options = arguments.reading.options();
    let format = arguments.output.format(arguments.format);
    output::check(&arguments.output, format)?;
    let converted = async {
        let store = read_references(&arguments.references, &options).await?;
        convert(store, format.zarr_format(), arguments.strict, &options.store).await
    };
    let mut store = reading::shown(converted, &options.store, arguments.quiet).await?;
    if !arguments.quiet {
        messages::warnings(store.name(), store.warnings());
    }
    #[cfg(feature = "icechunk")]
    if format == OutputFormat::Icechunk {
        virtualize::record_sources(&mut store, &options.store).await?;
    }
    store.relocate(&arguments.output.options.relocation(arguments.output.target.as_deref()))?;
    output::write(&store, &arguments.output, format, &options.store).await?;
    if !arguments.quiet {
        messages::reader_setup(&store);
    }
    Ok(())
}
