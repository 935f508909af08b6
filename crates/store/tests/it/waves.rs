//! What is requested of a remote file: joined, merged and announced reads.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests")]

use crate::common::{Request, Response, Server, options};
use virtualize_bytes::{ByteRange, ReadRanges};
use virtualize_store::{StoreOptions, open};

const PAGE: u64 = 8 << 10;
const SIZE: u64 = 64 << 20;

/// Bytes by position, so that a range at the wrong place is noticed.
fn byte(at: u64) -> u8 {
    (at % 251) as u8
}

/// Serves ranges of a large file.
fn serve() -> Server {
    Server::start(|request: &Request| {
        let range = request.headers["range"].strip_prefix("bytes=").unwrap();
        let (first, last) = range.split_once('-').unwrap();
        let (first, last) = (first.parse::<u64>().unwrap(), last.parse::<u64>().unwrap().min(SIZE - 1));
        Response {
            status: 206,
            headers: vec![
                ("content-range", format!("bytes {first}-{last}/{SIZE}")),
                ("etag", "\"a\"".to_owned()),
            ],
            body: (first..=last).map(byte).collect(),
        }
    })
}

/// Returns the ranges of all requests but the first, which opens the file.
fn requested(server: &Server) -> Vec<(u64, u64)> {
    let range = |request: &Request| {
        let (first, last) = request.headers["range"].strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        (first.parse::<u64>().unwrap() / PAGE, (last.parse::<u64>().unwrap() + 1) / PAGE)
    };
    let mut ranges: Vec<_> = server.requests().iter().skip(1).map(range).collect();
    ranges.sort_unstable();
    ranges
}

/// Returns ranges of ten bytes in these pages.
fn in_pages(pages: &[u64]) -> Vec<ByteRange> {
    pages.iter().map(|page| ByteRange::new(page * PAGE + 100, 10)).collect()
}

async fn check(file: &dyn ReadRanges, pages: &[u64]) {
    let ranges = in_pages(pages);
    for (range, bytes) in ranges.iter().zip(file.read_ranges(&ranges).await.unwrap()) {
        assert!(bytes.iter().copied().eq((range.start..range.end()).map(byte)), "{range}");
    }
}

#[tokio::test]
async fn concurrent_reads_share_their_requests() {
    let server = serve();
    let file = open(&format!("{}/a.nc", server.url), &options()).await.unwrap();
    tokio::join!(check(&*file, &[1000, 3000]), check(&*file, &[1001, 3000]), check(&*file, &[5000]));
    assert_eq!(requested(&server), [(1000, 1002), (3000, 3001), (5000, 5001)]);
    assert_eq!(file.stats().requests, 4);
}

#[tokio::test]
async fn a_cancelled_read_does_not_stop_the_others() {
    let server = serve();
    let file = open(&format!("{}/a.nc", server.url), &options()).await.unwrap();
    let cancelled = async {
        let pages = in_pages(&[1000]);
        tokio::select! {
            biased;
            read = file.read_ranges(&pages) => panic!("{read:?}"),
            () = tokio::task::yield_now() => {}
        }
    };
    tokio::join!(cancelled, check(&*file, &[1000, 2000]));
    check(&*file, &[1000, 2000]).await;
    assert_eq!(requested(&server), [(1000, 1001), (2000, 2001)]);
}

#[tokio::test]
async fn announced_ranges_come_with_the_next_wave() {
    let server = serve();
    let file = open(&format!("{}/a.nc", server.url), &options()).await.unwrap();
    file.will_read(&in_pages(&[2000]));
    file.may_read(&in_pages(&[3000, 7_999]));
    assert!(requested(&server).is_empty(), "no request for announcements alone");
    check(&*file, &[1000]).await;
    let all = [(1000, 1001), (2000, 2001), (3000, 3001), (7_999, 8_000)];
    assert_eq!(requested(&server), all);
    check(&*file, &[2000, 3000, 7_999]).await;
    assert_eq!(requested(&server), all);
}

#[tokio::test]
async fn suggestions_beyond_the_allowance_are_ignored() {
    let server = serve();
    let file = open(&format!("{}/a.nc", server.url), &options()).await.unwrap();
    file.may_read(&[ByteRange::new(1000 * PAGE, 16 << 20)]);
    check(&*file, &[5000]).await;
    assert_eq!(requested(&server), [(5000, 5001)]);
}

#[tokio::test]
async fn announcements_fill_at_most_half_of_the_cache() {
    let server = serve();
    let options = StoreOptions { cache_bytes: 20 * PAGE, ..options() };
    let file = open(&format!("{}/a.nc", server.url), &options).await.unwrap();
    for _ in 0..2 {
        file.will_read(&[ByteRange::new(1000 * PAGE, u64::MAX)]);
    }
    check(&*file, &[5000]).await;
    assert_eq!(requested(&server), [(1000, 1010), (5000, 5001)]);
}

#[tokio::test]
async fn narrow_gaps_are_read() {
    let server = serve();
    let file = open(&format!("{}/a.nc", server.url), &options()).await.unwrap();
    let every_second: Vec<_> = (500..530).map(|page| page * 2).collect();
    check(&*file, &every_second).await;
    check(&*file, &[2000, 2006]).await;
    assert_eq!(requested(&server), [(1000, 1059), (2000, 2001), (2006, 2007)]);
}

/// Random reads, announcements and options: the bytes are always those of the file.
#[tokio::test]
async fn reads_return_the_bytes_of_the_file() {
    let server = serve();
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..3 {
        let cache_bytes = random.u64(0..4) * (1 << 20);
        let options = StoreOptions { cache_bytes, ..options() };
        let file = open(&format!("{}/a.nc", server.url), &options).await.unwrap();
        for _ in 0..6 {
            let mut pages =
                || (0..random.usize(1..20)).map(|_| random.u64(0..SIZE / PAGE)).collect::<Vec<_>>();
            let (first, second, announced) = (pages(), pages(), pages());
            file.will_read(&in_pages(&announced));
            file.may_read(&in_pages(&pages()));
            tokio::join!(check(&*file, &first), check(&*file, &second));
            check(&*file, &announced).await;
        }
    }
}
