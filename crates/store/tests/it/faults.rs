//! Store failures: each is retried as often as configured or reported at once, and no byte is ever wrong.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

use std::time::{Duration, Instant};

use crate::common::{
    content,
    faulty::{Fault, Faulty, KEYS},
    run,
};
use futures::future::join_all;
use virtualize_bytes::{ByteRange, ReadErrorKind, ReadRanges};
use virtualize_store::{
    Access, Listed, Retries, Stats, StoreError, StoreOptions, list_page, open, open_listed,
};

/// Time after which a test counts as hung. It far exceeds any expected duration, since retry delays are random and
/// machines slow.
const LIMIT: Duration = Duration::from_secs(240);
/// Request timeout in tests of stalled servers; healthy servers respond sooner, even on busy machines.
const TIMEOUT: &str = "4s";
/// Duration for which a stalled server does not respond.
const STALL: Duration = Duration::from_secs(12);
const URL: &str = "s3://bucket/a.nc";
const SLOW_DOWN: Fault = Fault::Refused(503, "SlowDown", None);

fn options(server: &Faulty) -> StoreOptions {
    let endpoint = Some(server.url.clone());
    // Otherwise the number of requests depends on the measured bandwidth.
    // With one connection, the rest of a file is one part.
    let access = Access { anonymous: true, endpoint, ..Access::default() };
    StoreOptions { access, retries: 3, concurrency: 1, ..StoreOptions::default() }
}

/// Returns the timeout option for faults that stall.
fn patience(fault: &Fault) -> Vec<(String, String)> {
    let short = matches!(fault, Fault::Stalled(_) | Fault::StalledBody(..));
    if short { vec![("timeout".to_owned(), TIMEOUT.to_owned())] } else { Vec::new() }
}

fn within<T>(future: impl Future<Output = T>) -> T {
    run(async { tokio::time::timeout(LIMIT, future).await.expect("it hangs") })
}

/// Reads a file over S3 and over HTTP; returns its bytes and its counts.
async fn read(location: &str, options: &StoreOptions) -> Result<(Vec<u8>, Stats), StoreError> {
    let object = open(location, options).await?;
    let size = object.size();
    let ranges = [ByteRange::new(0, 1000), ByteRange::new(0, size)];
    let parts = object.read_ranges(&ranges).await.map_err(|error| StoreError::Unavailable {
        name: format!("{:?}", error.kind),
        reason: error.to_string(),
    })?;
    Ok((parts[1].to_vec(), object.stats()))
}

#[test]
fn what_passes_is_tried_again_until_it_goes_well() {
    let faults = [
        SLOW_DOWN,
        Fault::Refused(500, "InternalError", None),
        Fault::Refused(429, "TooManyRequests", None),
        Fault::Refused(408, "RequestTimeout", None),
        Fault::Reset,
        Fault::Closed,
        Fault::Garbage,
        Fault::Stalled(STALL),
        Fault::Truncated(0),
        Fault::Truncated(100_000),
        Fault::StalledBody(1000, STALL),
        Fault::Short(1),
    ];
    let cases = faults.iter().flat_map(|fault| [(fault, false), (fault, true)]);
    within(join_all(cases.map(async |(fault, web)| {
        let script = vec![fault.clone(), Fault::None, fault.clone()];
        let server = Faulty::start(content(), script, Fault::None);
        let mut options = options(&server);
        options.access.values = patience(fault);
        let location = if web { format!("{}/a.nc", server.url) } else { URL.to_owned() };
        options.access.endpoint = options.access.endpoint.filter(|_| !web);
        let (bytes, stats) = read(&location, &options).await.unwrap();
        assert!(bytes == content(), "{fault:?}: wrong bytes");
        assert_eq!(Retries { seconds: 0.0, ..stats.retries }, twice(fault), "{fault:?}");
        assert!(stats.retries.seconds >= 0.1, "{fault:?}: two waits of at least 50 ms");
        assert_eq!((stats.requests, stats.bytes >= content().len() as u64), (2, true), "{fault:?}");
        assert_eq!(options.traffic.stats(), stats, "{fault:?}: those of all files, of which there is one");
        assert_eq!(server.requests().len(), 4, "{fault:?}: first bytes, the rest, and each of them again");
    })));
}

/// Returns the counts of a fault that occurred twice.
fn twice(fault: &Fault) -> Retries {
    let none = Retries::default();
    match fault {
        Fault::Refused(429 | 503, ..) => Retries { throttled: 2, ..none },
        Fault::Refused(408, ..) | Fault::Stalled(_) | Fault::StalledBody(..) => {
            Retries { timeout: 2, ..none }
        }
        Fault::Refused(..) => Retries { server: 2, ..none },
        _ => Retries { connection: 2, ..none },
    }
}

#[test]
fn what_does_not_pass_is_reported_after_the_tries() {
    let cases = [
        (SLOW_DOWN, "503 Service Unavailable: SlowDown: Said by SlowDown."),
        (Fault::Reset, ""),
        (Fault::Closed, ""),
        (Fault::Stalled(STALL), "timed out"),
        (Fault::Truncated(5), "ended early"),
        (Fault::StalledBody(5, STALL), "ended early"),
        (Fault::Short(5), "expected"),
    ];
    within(join_all(cases.map(async |(fault, expected)| {
        let server = Faulty::start(content(), vec![], fault.clone());
        let mut options = options(&server);
        options.access.values = patience(&fault);
        let error = open(URL, &options).await.unwrap_err();
        let stats = options.traffic.stats();
        assert_eq!(
            (stats.requests, stats.retries.all()),
            (1, 3),
            "{fault:?}: those of files that fail count"
        );
        let text = error.to_string();
        assert_eq!(error.kind(), ReadErrorKind::Unavailable, "{fault:?}: {text}");
        assert!(
            text.starts_with(URL) && text.contains(expected) && text.ends_with("(tried 4 times)"),
            "{text}"
        );
        assert!(!text.contains('\n') && !text.contains('<'), "{text}");
        assert_eq!(server.requests().len(), 4, "{fault:?}");
    })));
}

#[test]
fn tries_end_when_their_time_is_over() {
    let server = Faulty::start(content(), vec![], SLOW_DOWN);
    let options =
        StoreOptions { retries: 1000, retry_timeout: Duration::from_millis(500), ..options(&server) };
    assert_eq!(within(open(URL, &options)).unwrap_err().kind(), ReadErrorKind::Unavailable);
    // The delay is at least 50 ms and doubles with each retry.
    assert!((2..10).contains(&server.requests().len()));
    let none = StoreOptions { retries: 0, ..options };
    let before = server.requests().len();
    assert!(!within(open(URL, &none)).unwrap_err().to_string().contains("tried"));
    assert_eq!(server.requests().len(), before + 1);
}

#[test]
fn a_server_that_wants_to_be_left_alone_is() {
    let server = Faulty::start(content(), vec![Fault::Refused(429, "TooMany", Some(1))], Fault::None);
    let start = Instant::now();
    within(open(URL, &options(&server))).unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
    let server = Faulty::start(content(), vec![], Fault::Refused(503, "SlowDown", Some(3600)));
    within(open(URL, &options(&server))).unwrap_err();
    assert_eq!(server.requests().len(), 1, "an hour is longer than all tries may take");
}

#[test]
fn expired_credentials_are_reported_at_once() {
    for (status, code) in [(403, "ExpiredToken"), (400, "ExpiredToken"), (400, "TokenRefreshRequired")] {
        let server = Faulty::start(content(), vec![], Fault::Refused(status, code, None));
        let error = within(open(URL, &options(&server))).unwrap_err();
        assert_eq!(error.kind(), ReadErrorKind::Unavailable, "new ones may come: {error}");
        assert_eq!(
            error.to_string(),
            format!("{URL}: access denied: the credentials expired ({code}); requested anonymously")
        );
        assert!(format!("{:?}", error.remedy()).contains("session token"));
        assert_eq!(server.requests().len(), 1);
    }
    let server = Faulty::start(content(), vec![], Fault::Refused(403, "AccessDenied", None));
    let error = within(open(URL, &options(&server))).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{URL}: access denied: 403 Forbidden: AccessDenied: Said by AccessDenied.; requested anonymously"
        )
    );
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_range_that_was_not_requested_is_refused() {
    let server = Faulty::start(content(), vec![], Fault::Shifted(16));
    let error = within(open(URL, &options(&server))).unwrap_err();
    assert_eq!(error.kind(), ReadErrorKind::Unavailable, "{error}");
    assert_eq!(server.requests().len(), 1);
}

fn other() -> &'static [u8] {
    static OTHER: std::sync::LazyLock<Vec<u8>> =
        std::sync::LazyLock::new(|| content().iter().map(|byte| byte ^ 0xFF).collect());
    &OTHER
}

#[test]
fn a_file_that_is_replaced_is_never_mixed() {
    let replaced = |script| {
        let server = Faulty::start(content(), script, Fault::None);
        let result = within(read(URL, &options(&server)));
        (result, server.requests().len())
    };
    let (result, requests) = replaced(vec![Fault::None, Fault::Replaced(other())]);
    assert!(result.unwrap_err().to_string().contains("changed while it was read"));
    assert_eq!(requests, 2, "another try would not help");
    let (result, requests) = replaced(vec![Fault::None, Fault::TruncatedAndReplaced(100_000, other())]);
    assert!(result.unwrap_err().to_string().contains("changed while it was read"));
    assert_eq!(requests, 3);
    let (result, _) = replaced(vec![Fault::TruncatedAndReplaced(100_000, other())]);
    assert!(result.unwrap().0 == other(), "it was not open yet: all of it is the new one");
    let server = Faulty::start(content(), vec![Fault::TruncatedAndReplaced(100_000, other())], Fault::None);
    let listed =
        Listed { size: Some(content().len() as u64), etag: Some("one".to_owned()), ..Listed::of(URL) };
    let error = within(open_listed(&listed, &options(&server))).unwrap_err();
    assert_eq!((error.kind(), server.requests().len()), (ReadErrorKind::Changed, 2));
}

#[test]
fn listings_are_tried_again_too() {
    let script = vec![SLOW_DOWN, Fault::Reset, Fault::None, Fault::Truncated(30), Fault::Closed];
    let server = Faulty::start(content(), script, Fault::None);
    let options = options(&server);
    within(async {
        let first = list_page("s3://bucket/", true, None, &options).await.unwrap();
        let second = list_page("s3://bucket/", true, first.next.as_deref(), &options).await.unwrap();
        let files =
            first.files.iter().chain(&second.files).map(|file| file.url.trim_start_matches("s3://bucket/"));
        assert_eq!(files.collect::<Vec<_>>(), KEYS);
        assert_eq!(second.next, None);
    });
    assert_eq!(server.requests().len(), 6);
    let stats = options.traffic.stats();
    assert_eq!((stats.requests, stats.listings, stats.retries.all()), (2, 2, 4));
    assert_eq!((stats.retries.throttled, stats.retries.connection), (1, 3));
    let server = Faulty::start(content(), vec![], SLOW_DOWN);
    let error = within(list_page("s3://bucket/", true, None, &self::options(&server))).unwrap_err();
    assert!(
        error.to_string().contains("SlowDown") && error.to_string().ends_with("(tried 4 times)"),
        "{error}"
    );
    let server = Faulty::start(content(), vec![], Fault::Refused(403, "ExpiredToken", None));
    let error = within(list_page("s3://bucket/", true, None, &self::options(&server))).unwrap_err();
    assert_eq!(error.kind(), ReadErrorKind::Unavailable, "{error}");
}

#[test]
fn many_files_in_a_storm_of_faults() {
    let bad = [SLOW_DOWN, Fault::Reset, Fault::Truncated(9), Fault::Short(7), Fault::Closed];
    let mut state = 7_u32;
    let script = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Half of the requests fail.
        bad.get((state >> 16) as usize % (2 * bad.len())).cloned().unwrap_or(Fault::None)
    });
    let script: Vec<_> = script.take(150).collect();
    let server = Faulty::start(content(), script, Fault::None);
    let options = StoreOptions { retries: 20, concurrency: 8, ..options(&server) };
    let read_one = async |n: usize| {
        let listed =
            Listed { size: Some(content().len() as u64), ..Listed::of(format!("s3://bucket/{n}.nc")) };
        let object =
            open_listed(&listed, &StoreOptions { small_file: 1 << (10 + n % 11), ..options.clone() }).await?;
        let parts = object.read_ranges(&[ByteRange::new(0, object.size())]).await.unwrap();
        assert!(parts[0] == content(), "wrong bytes");
        Ok::<_, StoreError>(object.stats().retries.all())
    };
    let retries: Vec<_> = within(join_all((0..40).map(read_one))).into_iter().map(Result::unwrap).collect();
    assert!(retries.iter().sum::<u64>() > 40, "{retries:?}");
}
