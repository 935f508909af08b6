use crate::{arguments::Inspect, exit::Failure};

/// `virtualize inspect FILE`.
pub(crate) async fn run(arguments: &Inspect) -> Result<(), Failure> {
    let options = arguments.input.options();
    let store = virtualize::open(arguments.input.file(), &options).await?;
    let _ = (store, arguments.json);
    Ok(())
}
