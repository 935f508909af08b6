//! Lines of Python that open what was written.

use virtualize::Format;

use super::Target;

/// Lines that open an output; of several groups the first.
pub(super) fn lines(target: &Target, output: &str, groups: &[String]) -> Option<String> {
    let group = groups.first().filter(|group| !group.is_empty());
    let group = group.map(|group| format!(", group={group:?}")).unwrap_or_default();
    #[cfg_attr(not(feature = "icechunk"), expect(irrefutable_let_patterns, reason = "Icechunk is the other"))]
    let Target::References(format) = target else { return None };
    Some(match format {
        Format::KerchunkJson | Format::KerchunkParquet { .. } => {
            format!("import xarray as xr\nds = xr.open_dataset({output:?}, engine=\"kerchunk\"{group})")
        }
        Format::Zarr3Json => format!(
            "import fsspec, xarray as xr, zarr.storage\n\
             fs = fsspec.filesystem(\"reference\", fo={output:?}, asynchronous=True)\n\
             store = zarr.storage.FsspecStore(fs, read_only=True, path=\"\")\n\
             ds = xr.open_dataset(store, engine=\"zarr\", consolidated=False{group})"
        ),
        Format::Zarr3 => {
            let references = format!("{}/references.json", output.trim_end_matches('/'));
            format!(
                "import fsspec, xarray as xr, zarr.storage\n\
                 fs = fsspec.filesystem(\"reference\", fo={references:?}, asynchronous=True)\n\
                 store = zarr.storage.FsspecStore(fs, read_only=True, path=\"\")\n\
                 ds = xr.open_dataset(store, engine=\"zarr\", consolidated=False{group})"
            )
        }
    })
}
