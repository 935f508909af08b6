//! Damaged and hostile files: precise errors, in bounded time and memory.

#![allow(clippy::cast_possible_truncation, reason = "small test data")]

use std::time::{Duration, Instant};

use crate::support::{
    ALL_KINDS, Builder, ascii, doubles, entry, gray, image_with, long, only_ifd, read_bytes, read_source,
    short,
};
use bytes::Bytes;
use virtualize_bytes::{Endian, Limits, MemorySource};
use virtualize_tiff::{Error, model::File};

/// A generous bound on the time of a test. Quadratic work would take hours.
const PATIENCE: Duration = Duration::from_secs(60);

fn chain_error(file: &File) -> String {
    file.chain_error.as_ref().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn rejects_other_formats() {
    assert!(matches!(read_bytes(b"\x89HDF\r\n\x1a\n".to_vec()), Err(Error::NotTiff)));
    assert!(matches!(read_bytes(Vec::new()), Err(Error::NotTiff)));
    assert!(matches!(read_bytes(b"II*\0".to_vec()), Err(Error::Truncated { .. })));
    let no_directory = read_bytes(b"II*\0\0\0\0\0".to_vec()).unwrap_err();
    assert_eq!(
        no_directory.to_string(),
        "header at 0x0: offset 0 of the first directory, expected a positive one"
    );
    let outside = read_bytes(b"II*\0\xff\0\0\0".to_vec()).unwrap_err();
    assert_eq!(
        outside.to_string(),
        "directory at 0xff: 2 bytes at 0xff needed, beyond the end of the file at 0x8"
    );
}

#[test]
fn cycles_end_the_chain() {
    for (endian, big) in ALL_KINDS {
        let mut builder = Builder::new(endian, big);
        let first = builder.directory(&gray(1, 1, 8));
        builder.directory(&gray(2, 2, 8));
        builder.link_to(first);
        let file = builder.read().unwrap();
        assert_eq!(file.ifds.len(), 2);
        assert!(chain_error(&file).contains("linked twice"));
    }
}

#[test]
fn cyclic_sub_ifds_are_recorded() {
    let mut builder = Builder::new(Endian::Little, false);
    let mut entries = gray(1, 1, 8);
    entries.push(long(330, &[8]));
    let at = builder.directory(&entries);
    assert_eq!(at, 8);
    let file = builder.read().unwrap();
    assert!(file.ifds[0].sub_ifds.is_empty());
    assert!(file.ifds[0].unreadable_sub_ifds[0].to_string().contains("directory at 0x8 is linked twice"));
}

#[test]
fn nesting_of_sub_ifds_is_limited() {
    let mut builder = Builder::new(Endian::Little, false);
    let mut inner = builder.detached(&gray(1, 1, 8));
    for _ in 0..1000 {
        let mut entries = gray(1, 1, 8);
        entries.push(long(330, &[inner]));
        inner = builder.detached(&entries);
    }
    builder.link_to(inner);
    let file = builder.read().unwrap();
    let (mut ifd, mut depth) = (&file.ifds[0], 0);
    while let Some(inner) = ifd.sub_ifds.first() {
        (ifd, depth) = (inner, depth + 1);
    }
    assert_eq!(depth, Limits::default().depth);
    assert!(ifd.unreadable_sub_ifds[0].to_string().contains("limit of 64 levels"));
}

#[test]
fn rejects_excessive_counts() {
    let error = |changes| image_with(changes).unwrap_err().to_string();
    assert!(error(vec![short(258, &[8]).claiming(u64::from(u32::MAX))]).contains("8589934590 bytes"));
    let many = vec![long(256, &[1 << 16]), short(322, &[1]), short(323, &[1])];
    assert!(error(many).contains("1 values, expected 262144"));
    let huge = vec![long(256, &[0xffff_ffff]), long(257, &[0xffff_ffff]), short(322, &[1]), short(323, &[1])];
    assert!(error(huge).contains("more than 200000000 pieces"));
    assert!(error(vec![short(278, &[0])]).contains("RowsPerStrip"));
    assert!(error(vec![short(322, &[0])]).contains("TileWidth"));
    assert!(error(vec![short(256, &[0])]).contains("ImageWidth"));
    assert!(error(vec![short(277, &[0])]).contains("SamplesPerPixel"));
    assert!(error(vec![short(277, &[2]), short(284, &[3])]).contains("3, expected 1 or 2"));
}

#[test]
fn accepts_tables_that_are_too_long() {
    let image = image_with(vec![long(273, &[8]).claiming(u64::from(u32::MAX))]).unwrap();
    assert_eq!(image.offsets.len(), 1);
}

#[test]
fn rejects_data_beyond_the_end_of_the_file() {
    let error = image_with(vec![long(273, &[1 << 20])]).unwrap_err().to_string();
    assert!(error.contains("16 bytes at 0x100000 needed, beyond the end of the file"), "{error}");
    let compressed = vec![short(259, &[8]), long(279, &[u64::from(u32::MAX)])];
    assert!(matches!(image_with(compressed), Err(Error::Truncated { .. })));
    let wrapping = vec![entry(273, 16, 8, &[u64::MAX - 3]), short(259, &[8])];
    assert!(matches!(image_with(wrapping), Err(Error::Truncated { .. })));
}

#[test]
fn an_xml_bomb_does_not_affect_the_image() {
    let bomb = "<!DOCTYPE b [<!ENTITY a \"aaaaaaaa\"><!ENTITY b \"&a;&a;\">]><GDALMetadata/>";
    let ifd = only_ifd(vec![ascii(42112, bomb)]);
    assert!(ifd.image.is_ok() && ifd.gdal_metadata.is_empty());
    assert!(ifd.unreadable_tags[0].to_string().contains("document type"));
}

#[test]
fn truncated_files_do_not_panic() {
    let whole = varied();
    for length in 0..whole.len() {
        let _ = read_bytes(whole[..length].to_vec());
    }
}

#[test]
fn overlapping_directories_take_bounded_time() {
    // Each directory has 0x0101 entries and starts one byte after the previous one, with 16 samples per byte.
    let mut bytes = b"II*\0\x08\0\0\0".to_vec();
    bytes.resize(1 << 20, 1);
    let start = Instant::now();
    let _ = read_bytes(bytes);
    assert!(start.elapsed() < PATIENCE);
}

#[test]
fn shared_tables_take_bounded_memory() {
    let mut builder = Builder::new(Endian::Little, false);
    let table = builder.data(&[1; 1 << 20]);
    for _ in 0..2000 {
        let at = builder.directory(&[
            short(256, &[1]),
            long(257, &[1 << 18]),
            short(278, &[1]),
            long(273, &[8]).claiming(1),
        ]);
        let entry = at as usize + 2 + 3 * 12;
        builder.bytes[entry + 4..][..4].copy_from_slice(&(1_u32 << 18).to_le_bytes());
        builder.bytes[entry + 8..][..4].copy_from_slice(&(table as u32).to_le_bytes());
    }
    let error = builder.read().unwrap_err().to_string();
    assert!(error.contains("metadata exceeds the limit"), "{error}");
}

#[test]
fn limits_are_enforced() {
    let mut builder = Builder::new(Endian::Little, false);
    for _ in 0..5 {
        builder.directory(&gray(1, 1, 8));
    }
    let limits = Limits { objects: 3, ..Limits::default() };
    let file = read_source(&MemorySource(Bytes::from(builder.bytes)), &limits).unwrap();
    assert_eq!((file.ifds.len(), chain_error(&file).contains("the limit of 3")), (3, true));
}

/// Builds a file with every kind of structure.
fn varied() -> Vec<u8> {
    let mut builder = Builder::new(Endian::Big, false);
    let sub = builder.detached(&gray(2, 2, 8));
    let mut entries = gray(4, 4, 8);
    entries.extend([
        long(330, &[sub]),
        short(338, &[1, 2]),
        doubles(33550, &[1.0, 1.0, 0.0]),
        short(34735, &[1, 1, 0, 2, 1024, 0, 1, 1, 1026, 34737, 4, 0]),
        ascii(34737, "abc|"),
        ascii(42112, "<GDALMetadata><Item name=\"a\" sample=\"0\">1 &amp;amp; 2</Item></GDALMetadata>"),
        ascii(42113, "-1"),
    ]);
    builder.directory(&entries);
    builder.directory(&[
        short(256, &[40]),
        short(257, &[20]),
        short(258, &[8, 8]),
        short(277, &[2]),
        short(284, &[2]),
        short(322, &[16]),
        short(323, &[16]),
        long(324, &[8; 12]),
        long(325, &[0; 12]),
    ]);
    builder.bytes
}

/// Deterministic, to make failures reproducible (Knuth's MMIX constants).
fn random(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

#[test]
fn mutated_files_take_bounded_time() {
    let (whole, mut state) = (varied(), 1_u64);
    let nasty = [0, 1, 2, 3, 0x7f, 0x80, 0xfe, 0xff];
    for round in 0..8_000 {
        let mut bytes = whole.clone();
        for _ in 0..=random(&mut state) % 4 {
            let (at, pick) = (random(&mut state) % bytes.len(), random(&mut state));
            bytes[at] = if pick % 2 == 0 { nasty[pick / 2 % nasty.len()] } else { (pick / 2) as u8 };
        }
        let one = Instant::now();
        let _ = read_bytes(bytes);
        assert!(one.elapsed() < PATIENCE, "round {round} takes too long");
    }
}
