//! The structures of TIFF files, classic and BigTIFF, in both byte orders, and mutations that know their tags.

use fastrand::Rng;

use super::{Field, Format, Layout, Structure};

pub const FORMAT: Format = Format { layout, special: Some(special), repair: |_, _| {} };

/// Maximum number of directories, of their entries, and of the values of an entry.
const MAX_VALUES: usize = 64;

fn layout(bytes: &[u8]) -> Layout {
    let mut layout = Layout::default();
    let mut copy = bytes.to_vec();
    let Some(tiff) = Tiff::of(&mut copy) else { return layout };
    layout.is_big_endian = tiff.is_big_endian;
    let number = tiff.number();
    let mut push = |kind: [u8; 4], at: usize, widths: &[usize]| {
        let mut end = at;
        for width in widths {
            layout.fields.push(Field { at: end, width: *width });
            end += width;
        }
        layout.structures.push(Structure { kind, range: at..end });
    };
    for directory in tiff.directories() {
        push(*b"link", directory.link, &[number]);
        push(*b"head", directory.at, &[tiff.head_size()]);
        push(*b"link", directory.next, &[number]);
        for entry in directory.entries {
            push(*b"tag ", entry.at, &[2, 2, number, number]);
            let [low, high] = entry.tag.to_le_bytes();
            push([b'v', b':', low, high], entry.values, &vec![entry.size; entry.count.min(MAX_VALUES)]);
        }
    }
    layout.fields.sort_by_key(|field| field.at);
    layout
}

/// Changes the values of a tag, or inserts one.
fn special(bytes: &mut Vec<u8>, random: &mut Rng) {
    let Some(mut tiff) = Tiff::of(bytes) else { return };
    let directories = tiff.directories();
    let Some(directory) = random.choice(&directories) else { return };
    let Some(entry) = random.choice(&directory.entries) else { return };
    match random.u8(..16) {
        // A strip or tile is missing.
        0..2 => {
            let index = random.usize(..MAX_VALUES);
            for table in directory.entries.iter().filter(|entry| matches!(entry.tag, 273 | 279 | 324 | 325)) {
                tiff.set_value(table, index % table.count.max(1), 0);
            }
        }
        2..7 => tiff.insert(directory, random),
        _ if is_text(entry.tag) => {
            for (index, byte) in random_text(entry.tag, random).into_iter().take(entry.count).enumerate() {
                tiff.set_value(entry, index, byte.into());
            }
        }
        // One value, or all.
        _ => {
            let count = entry.count.clamp(1, MAX_VALUES);
            let index = random.usize(..count);
            let old = tiff.get(entry.values + index * entry.size, entry.size).unwrap_or(0);
            let value = likely_value(entry.tag, old, tiff.bytes.len(), random);
            for index in if random.bool() { 0..count } else { index..index + 1 } {
                tiff.set_value(entry, index, value);
            }
        }
    }
    if random.bool() {
        tiff.repair_byte_counts();
    }
}

/// A file and the form of its numbers.
struct Tiff<'a> {
    bytes: &'a mut Vec<u8>,
    is_big_endian: bool,
    is_big_tiff: bool,
}

/// Positions in a directory.
struct Directory {
    /// Of the offset that refers to the directory.
    link: usize,
    at: usize,
    entries: Vec<Entry>,
    /// Of the offset of the next directory.
    next: usize,
}

struct Entry {
    at: usize,
    tag: u16,
    count: usize,
    /// Position of the values, in the entry or elsewhere.
    values: usize,
    /// Size of a value in bytes.
    size: usize,
}

impl<'a> Tiff<'a> {
    fn of(bytes: &'a mut Vec<u8>) -> Option<Self> {
        let is_big_endian = bytes.first()? == &b'M';
        let mut tiff = Self { bytes, is_big_endian, is_big_tiff: false };
        tiff.is_big_tiff = tiff.get(2, 2)? == 43;
        Some(tiff)
    }

    /// Returns the size of offsets and counts in bytes.
    fn number(&self) -> usize {
        if self.is_big_tiff { 8 } else { 4 }
    }

    fn entry_size(&self) -> usize {
        4 + 2 * self.number()
    }

    fn head_size(&self) -> usize {
        if self.is_big_tiff { 8 } else { 2 }
    }

    fn get(&self, at: usize, width: usize) -> Option<u64> {
        Field { at, width }.get(self.bytes, self.is_big_endian)
    }

    /// Returns an offset that is stored in the file, if it is within the file.
    fn position(&self, at: usize) -> Option<usize> {
        usize::try_from(self.get(at, self.number())?).ok().filter(|at| *at < self.bytes.len())
    }

    /// Writes a number, unless its position is outside the file.
    fn put(&mut self, at: usize, width: usize, value: u64) {
        Field { at, width }.set(self.bytes, value, self.is_big_endian);
    }

    /// Sets a value of an entry.
    fn set_value(&mut self, entry: &Entry, index: usize, value: u64) {
        self.put(entry.values + index * entry.size, entry.size, value);
    }

    fn directories(&self) -> Vec<Directory> {
        let mut found: Vec<Directory> = Vec::new();
        let mut links = vec![if self.is_big_tiff { 8 } else { 4 }];
        while let Some(link) = links.pop().filter(|_| found.len() < MAX_VALUES) {
            let Some(directory) = self.directory(link) else { continue };
            if found.iter().any(|other| other.at == directory.at) {
                continue;
            }
            for entry in directory.entries.iter().filter(|entry| entry.tag == 330) {
                links.extend((0..entry.count.min(MAX_VALUES)).map(|index| entry.values + index * entry.size));
            }
            links.push(directory.next);
            found.push(directory);
        }
        found
    }

    fn directory(&self, link: usize) -> Option<Directory> {
        let at = self.position(link).filter(|at| *at != 0)?;
        let count = usize::try_from(self.get(at, self.head_size())?).ok()?.min(MAX_VALUES);
        let first = at + self.head_size();
        let entries = (0..count).map_while(|index| self.entry(first + index * self.entry_size())).collect();
        Some(Directory { link, at, entries, next: first + count * self.entry_size() })
    }

    fn entry(&self, at: usize) -> Option<Entry> {
        let size = match self.get(at + 2, 2)? {
            3 | 8 => 2,
            4 | 9 | 11 | 13 => 4,
            5 | 10 | 12 | 16 | 17 | 18 => 8,
            _ => 1,
        };
        let count = usize::try_from(self.get(at + 4, self.number())?).ok()?;
        let inline = at + 4 + self.number();
        let is_inline = count.saturating_mul(size) <= self.number();
        let values = if is_inline { inline } else { self.position(inline).unwrap_or(self.bytes.len()) };
        Some(Entry { at, tag: self.get(at, 2)? as u16, count, values, size })
    }

    /// Replaces a directory by one at the end of the file that has a further entry, with likely values.
    fn insert(&mut self, directory: &Directory, random: &mut Rng) {
        let (number, size) = (self.number(), self.entry_size());
        let tag = *random.choice(TAGS).expect("tags");
        let next = self.get(directory.next, number).unwrap_or(0);
        let mut entries: Vec<Vec<u8>> = directory
            .entries
            .iter()
            .filter_map(|entry| self.bytes.get(entry.at..entry.at + size).map(<[u8]>::to_vec))
            .collect();
        let (kind, width, values): (_, _, Vec<u64>) = if is_text(tag) {
            (2, 1, random_text(tag, random).into_iter().map(u64::from).collect())
        } else {
            let types = [(3, 2), (3, 2), (4, 4), (1, 1), (16, 8), (12, 8), (5, 8)];
            let (kind, width) = *random.choice(&types).expect("types");
            let count = *random.choice(&[1, 1, 1, 1, 2, 3, 4, 9]).expect("counts");
            (kind, width, (0..count).map(|_| likely_value(tag, 1, self.bytes.len(), random)).collect())
        };
        // The values, then the entry, which moves to the directory.
        let (at, length) = (self.bytes.len(), values.len() * width);
        let head = at + length.max(number);
        self.bytes.resize(head + size, 0);
        for (index, value) in values.iter().enumerate() {
            self.put(at + index * width, width, *value);
        }
        self.put(head, 2, tag.into());
        self.put(head + 2, 2, kind);
        self.put(head + 4, number, values.len() as u64);
        if length <= number {
            self.bytes.copy_within(at..at + number, head + 4 + number);
        } else {
            self.put(head + 4 + number, number, at as u64);
        }
        let entry = self.bytes.split_off(head);
        let place = directory.entries.iter().position(|entry| entry.tag >= tag).unwrap_or(entries.len());
        let place = if random.u8(0..8) == 0 { random.usize(0..=entries.len()) } else { place };
        entries.insert(place.min(entries.len()), entry);
        let at = self.bytes.len();
        self.bytes.resize(at + self.head_size(), 0);
        self.put(at, self.head_size(), entries.len() as u64);
        self.bytes.extend(entries.concat());
        let end = self.bytes.len();
        self.bytes.resize(end + number, 0);
        self.put(end, number, next);
        self.put(directory.link, number, at as u64);
    }

    /// Makes the byte counts of uncompressed strips and tiles those that libtiff expects, as far as their entries exist.
    fn repair_byte_counts(&mut self) {
        for directory in self.directories() {
            let value = |tag: u16, default: u64| {
                let entry = directory.entries.iter().find(|entry| entry.tag == tag);
                entry
                    .and_then(|entry| self.get(entry.values, entry.size))
                    .unwrap_or(default)
                    .clamp(1, 1 << 16)
            };
            let planar = value(284, 1) == 2;
            let samples = if planar { 1 } else { value(277, 1) };
            let width = value(322, value(256, 1));
            let row = (width * samples * value(258, 1)).div_ceil(8);
            let (height, rows) = (value(257, 1), value(323, value(278, u64::MAX)));
            let is_tiled = directory.entries.iter().any(|entry| entry.tag == 323);
            if value(259, 1) != 1 {
                continue;
            }
            let strips = height.div_ceil(rows);
            for entry in directory.entries.iter().filter(|entry| matches!(entry.tag, 279 | 325)) {
                for index in 0..entry.count.min(MAX_VALUES) {
                    let last = !is_tiled && (index as u64 + 1).is_multiple_of(strips);
                    let rows = if last { height - rows * (strips - 1) } else { rows };
                    self.set_value(entry, index, row * rows);
                }
            }
        }
    }
}

fn is_text(tag: u16) -> bool {
    matches!(tag, 42112 | 42113)
}

/// Tags that `insert` adds.
const TAGS: &[u16] = &[
    254, 255, 258, 259, 262, 266, 277, 278, 279, 284, 292, 293, 317, 320, 322, 323, 330, 338, 339, 347, 529,
    530, 532, 32997, 32998, 33550, 33922, 34264, 34735, 42112, 42113, 50674,
];

/// Returns a value that a reader may expect in a tag, or one next to its limits.
fn likely_value(tag: u16, old: u64, length: usize, random: &mut Rng) -> u64 {
    let likely: &[u64] = match tag {
        254 => &[0, 1, 2, 4, 5],
        255 | 266 | 284 => &[1, 2, 3],
        256 | 257 => &[1, 2, 3, 5, 8, 15, 16, 17, 20, 31, 33, 48, 64],
        258 => &[1, 2, 4, 7, 8, 9, 12, 16, 17, 24, 31, 32, 64, 128],
        259 => &[
            1, 2, 3, 4, 5, 6, 7, 8, 32766, 32771, 32773, 32809, 32909, 32946, 34661, 34676, 34677, 34887,
            34925, 50000,
        ],
        262 => &[0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 32844, 32845],
        277 => &[1, 2, 3, 4, 5],
        278 => &[1, 2, 3, 5, 7, 8, 16, 33, u32::MAX as u64],
        292 | 293 => &[0, 1, 2, 4, 5],
        317 => &[0, 1, 2, 3, 4],
        322 | 323 => &[16, 32, 48, 64, 8, 17],
        338 => &[0, 1, 2, 3],
        339 => &[1, 2, 3, 4, 5, 6],
        530 => &[1, 2, 4],
        32997 | 32998 => &[0, 1, 2],
        50674 => &[0, 1, 2, 4],
        33550 | 33922 | 34264 => {
            &[0, 0x3ff0_0000_0000_0000, 0x4024_0000_0000_0000, 0x7ff8_0000_0000_0000, u64::MAX]
        }
        _ => &[0, 1, 2, 255],
    };
    match random.u8(0..8) {
        0 => old.wrapping_add(1),
        1 => old.wrapping_sub(1),
        2 => *random
            .choice(&[0, 1, 255, 256, 65535, 65536, u32::MAX as u64, u64::MAX, length as u64])
            .expect("values"),
        _ => *random.choice(likely).expect("values"),
    }
}

/// Returns GDAL_NODATA or GDAL_METADATA.
fn random_text(tag: u16, random: &mut Rng) -> Vec<u8> {
    let nodata: &[&str] = &[
        "0",
        "1",
        "-1",
        "7",
        "255",
        "256",
        "nan",
        "-nan",
        "inf",
        "-9999",
        "1.5",
        "1e400",
        "65535",
        "4294967295",
        "18446744073709551615",
        "-9223372036854775808",
        "3.4028234663852886e+38",
        "0x10",
        "1,5",
        " 3 ",
        "",
    ];
    let items: &[&str] = &[
        "<GDALMetadata><Item name=\"a\">b</Item></GDALMetadata>",
        "<GDALMetadata><Item name=\"SCALE\" sample=\"0\" role=\"scale\">2</Item></GDALMetadata>",
        "<GDALMetadata><Item name=\"NBITS\" domain=\"IMAGE_STRUCTURE\">3</Item></GDALMetadata>",
        "<GDALMetadata><Item name=\"d\" sample=\"1\" role=\"description\">&lt;</Item>",
    ];
    let mut text =
        random.choice(if tag == 42113 { nodata } else { items }).expect("texts").as_bytes().to_vec();
    text.push(0);
    text
}
