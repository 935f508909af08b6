use virtualize::{Format, convert, read_references};

#[cfg(feature = "icechunk")]
use crate::arguments::OutputFormat;
use crate::{
    arguments::Translate,
    convert::{print, usage},
    exit::Failure,
    messages,
};

/// `virtualize convert REFS`.
pub(crate) async fn run(arguments: &Translate) -> Result<(), Failure> {
    let options = arguments.reading.options();
    let format = Format::from(arguments.format);
    usage(arguments.output.as_deref(), arguments.relative, arguments.format)?;
    let store = read_references(&arguments.references, &options).await?;
    let mut store = convert(store, format.zarr_format(), arguments.strict)?;
    messages::warnings(store.name(), store.warnings());
    #[cfg(feature = "icechunk")]
    if arguments.format == OutputFormat::Icechunk {
        virtualize::record_sources(&mut store, &options.store).await?;
    }
    store.relocate(&arguments.relocation())?;
    match arguments.output.as_deref() {
        #[cfg(feature = "icechunk")]
        Some(target) if arguments.format == OutputFormat::Icechunk => {
            let commit = arguments.icechunk.options(store.name());
            crate::convert::commit(&store, target, &commit, &options.store).await
        }
        Some(target) if format.is_several_files() => {
            let overwrite = arguments.overwrite;
            Ok(virtualize::write_folder(&store, format, target, overwrite, &options.store).await?)
        }
        Some(target) if target != "-" => Ok(virtualize::write(&store, format, target, &options.store).await?),
        _ => print(&store, format),
    }
}
