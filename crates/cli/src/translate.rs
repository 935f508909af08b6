use virtualize::{Format, convert, read_references};

#[cfg(feature = "icechunk")]
use crate::arguments::OutputFormat;
use crate::{arguments::Translate, exit::Failure, messages, output};

/// `virtualize convert REFS`.
pub(crate) async fn run(arguments: &Translate) -> Result<(), Failure> {
    let options = arguments.reading.options();
    let format = Format::from(arguments.format);
    output::check(&arguments.output, arguments.format)?;
    let store = read_references(&arguments.references, &options).await?;
    let mut store = convert(store, format.zarr_format(), arguments.strict, &options.store).await?;
    messages::warnings(store.name(), store.warnings());
    #[cfg(feature = "icechunk")]
    if arguments.format == OutputFormat::Icechunk {
        virtualize::record_sources(&mut store, &options.store).await?;
    }
    store.relocate(&arguments.output.relocation())?;
    output::write(&store, &arguments.output, arguments.format, &options.store).await
}
