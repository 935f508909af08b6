use crate::{arguments::Convert, exit::Failure, messages, output};

/// Runs `virtualize FILE`.
pub(crate) async fn run(arguments: &Convert) -> Result<(), Failure> {
    let options = arguments.input.options();
    let format = arguments.input.format;
    output::check(&arguments.output, format)?;
    let mut store = virtualize::open(arguments.input.file(), &options).await?;
    messages::warnings(store.name(), store.warnings());
    store.relocate(&arguments.output.options.relocation(arguments.output.target.as_deref()))?;
    output::write(&store, &arguments.output, format, &options.store).await?;
    if arguments.stats {
        messages::line(&format!("stats: {}: {}", store.name(), store.stats()));
    }
    Ok(())
}
