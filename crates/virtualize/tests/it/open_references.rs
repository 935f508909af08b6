//! References are opened as files are, and read with the same values.

use virtualize::{Error, Format, Options, open, read_array, write_folder};

use crate::oracle::{fixtures, opened, options};

/// The values of the originals are compared with h5py and tifffile elsewhere.
#[tokio::test]
async fn references_have_the_values_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(Format::ZARR3_JSON);
    let mut compared = 0;
    let hdf5 = fixtures("hdf5", &["h5", "nc"]);
    for (n, (path, _)) in hdf5.into_iter().chain(fixtures("tiff", &["tif"])).enumerate() {
        let Some(file) = opened(&path, &options) else { continue };
        let target = folder.path().join(format!("{n}.json")).display().to_string();
        if write_folder(&file, Format::ZARR3_JSON, &target, false, &options.store).await.is_err() {
            continue;
        }
        let references = match open(&target, &options).await {
            Ok(references) => references,
            Err(error) => panic!("{}: {error}", path.display()),
        };
        for (name, _) in file.hierarchy.arrays() {
            let Ok(expected) = read_array(&file, &name, &options.store).await else { continue };
            let values = read_array(&references, &name, &options.store).await;
            assert_eq!(values.unwrap(), expected, "{} {name}", path.display());
            compared += 1;
        }
    }
    assert!(compared > 500, "{compared}");
}

#[tokio::test]
async fn other_json_and_other_folders_are_not_references() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    std::fs::write(&path, "{\"zarr_format\": 2}").unwrap();
    let error = open(&path.display().to_string(), &Options::default()).await.unwrap_err();
    assert!(
        error.to_string().ends_with("a.json: it has neither .zgroup or .zarray nor zarr.json"),
        "{error}"
    );
    std::fs::write(&path, "{\"a\": 2}").unwrap();
    let error = open(&path.display().to_string(), &Options::default()).await.unwrap_err();
    assert!(matches!(error, Error::Format { .. }), "{error}");
    let error = open(&folder.path().display().to_string(), &Options::default()).await.unwrap_err();
    assert!(error.to_string().ends_with("a directory, expected a file"), "{error}");
}
