//! A gate can stop the opening of a file at any step, and never changes the result of a completed one.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use virtualize::{Error, Gate, Options, ReadError, ReadErrorKind};

/// Gate that permits a number of steps.
#[derive(Debug)]
struct Few(AtomicU64);

impl Gate for Few {
    fn pass(&self, _: u64) -> Result<(), ReadError> {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| ReadError::new(ReadErrorKind::Unavailable, "closed"))
    }
}

#[tokio::test]
async fn what_passes_is_whole() {
    for name in ["hdf5/chunked.h5", "hdf5/filters.h5", "hdf5/layouts.h5", "hdf5/links_odd.h5", "tiff/cog.tif"]
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
        let path = path.display().to_string();
        let mut options = Options::default();
        options.map.follow_external = true;
        let whole = virtualize::open(&path, &options).await.unwrap();
        let mut times = 0;
        loop {
            let gate: Arc<dyn Gate> = Arc::new(Few(AtomicU64::new(times)));
            let options = Options { gate: Some(gate), ..options.clone() };
            match virtualize::open(&path, &options).await {
                Ok(store) => {
                    assert_eq!(format!("{:?}", store.hierarchy), format!("{:?}", whole.hierarchy), "{name}");
                    break;
                }
                Err(error) => assert!(matches!(error, Error::Read(_)), "{error}"),
            }
            times += 1;
        }
        assert!(times > 3, "{name}: {times}");
    }
}
