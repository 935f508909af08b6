//! Changes of the token file and of the identity provider's keys, which take effect without a restart.

use std::{path::Path, sync::Arc, time::Duration};

use crate::{Config, jwks::REFRESH, stamp::Stamp};

/// Time between two looks at a file.
const LOOK: Duration = Duration::from_secs(1);

/// A file, of which each version is reported once it has stopped changing.
#[derive(Debug)]
struct Watched<'a> {
    file: &'a Path,
    /// The version that was read, and the one at the last look; `None` if there was no file.
    read: Option<Stamp>,
    seen: Option<Stamp>,
}

impl<'a> Watched<'a> {
    fn new(file: &'a Path) -> Self {
        let stamp = Stamp::of(file).ok();
        Self { file, read: stamp, seen: stamp }
    }

    /// Returns whether the file is to be read again. A file that is being written is left for the next look.
    fn has_changed(&mut self) -> bool {
        let stamp = Stamp::of(self.file).ok();
        let is_settled = std::mem::replace(&mut self.seen, stamp) == stamp;
        if is_settled && stamp != self.read {
            self.read = stamp;
            return true;
        }
        false
    }
}

/// Returns a future that reads the token file and the keys again when they change, and on SIGHUP. It never completes.
/// The handler of SIGHUP is installed at once: without one, the signal would end the process.
pub(crate) fn follow(config: Arc<Config>) -> impl Future<Output = ()> {
    let hangup = Hangup::new();
    async move { followed(&config, hangup).await }
}

async fn followed(config: &Config, mut hangup: Hangup) {
    let mut tokens = config.tokens.as_ref().map(|tokens| Watched::new(tokens.file()));
    let mut keys = config.jwt.as_ref().and_then(|jwt| jwt.keys.file()).map(Watched::new);
    let mut fetched = tokio::time::Instant::now();
    loop {
        let is_asked = tokio::select! {
            () = tokio::time::sleep(LOOK) => false,
            () = hangup.wait() => true,
        };
        if let Some(watched) = &mut tokens
            && (watched.has_changed() || is_asked)
            && let Some(tokens) = &config.tokens
        {
            tokens.reload();
        }
        let is_due = match &mut keys {
            Some(watched) => watched.has_changed(),
            None => fetched.elapsed() >= REFRESH,
        };
        if let Some(jwt) = config.jwt.as_ref().filter(|_| is_due || is_asked) {
            jwt.keys.refresh().await;
            fetched = tokio::time::Instant::now();
        }
    }
}

/// SIGHUP, where the system has it.
struct Hangup(#[cfg(unix)] Option<tokio::signal::unix::Signal>);

impl Hangup {
    #[cfg(unix)]
    fn new() -> Self {
        Self(tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok())
    }

    #[cfg(not(unix))]
    fn new() -> Self {
        Self()
    }

    async fn wait(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.0
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_reported_once_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens");
        std::fs::write(&file, "a").unwrap();
        let mut watched = Watched::new(&file);
        assert!(!watched.has_changed());
        std::fs::write(&file, "ab").unwrap();
        assert!(!watched.has_changed(), "it may still be changing");
        std::fs::write(&file, "abc").unwrap();
        assert!(!watched.has_changed(), "it is");
        assert!(watched.has_changed() && !watched.has_changed());
        // A file of the same size and time under another name replaces it.
        let (other, time) =
            (folder.path().join("other"), std::fs::metadata(&file).unwrap().modified().unwrap());
        std::fs::write(&other, "xyz").unwrap();
        std::fs::File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
        std::fs::rename(&other, &file).unwrap();
        assert!(!watched.has_changed() && watched.has_changed());
        std::fs::remove_file(&file).unwrap();
        assert!(!watched.has_changed() && watched.has_changed() && !watched.has_changed());
    }
}
