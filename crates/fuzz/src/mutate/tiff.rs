//! Mutates TIFF files with knowledge of their directories: classic and BigTIFF, in both byte orders.

use fastrand::Rng;

use super::Field;

/// Largest number of directories and of entries that are looked at.
const MAX_VALUES: usize = 64;

/// Mutates the first `size` bytes of `data` in place, and returns the new size, at most `max_size`.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    super::in_place(data, size, max_size, seed, |bytes, _, random| change(bytes, random))
}

/// Changes a file in one to four ways.
fn change(bytes: &mut Vec<u8>, random: &mut Rng) {
    for _ in 0..random.usize(1..=4) {
        let Some(mut tiff) = Tiff::of(bytes) else { return };
        let directories = tiff.directories();
        let Some(directory) = random.choice(&directories) else { return };
        let Some(entry) = random.choice(&directory.entries).copied() else { return };
        match random.u32(0..24) {
            0..=6 => tiff.change_value(&entry, random),
            7 => tiff.put(entry.at + 2, 2, random.u64(0..20)),
            8 => tiff.put(
                entry.at + 4,
                tiff.number(),
                (entry.count as u64).wrapping_add(random.u64(0..5)).wrapping_sub(2),
            ),
            9 => tiff.rearrange(directory, random),
            10..=13 => tiff.insert(directory, random),
            14 => tiff.link(&directories, random),
            15..=16 => tiff.change_samples(directory, random),
            17..=19 => tiff.change_pieces(directory, random),
            20..=21 => tiff.damage(directory, random),
            22 => tiff.change_text(directory, random),
            _ => tiff.resize(random),
        }
        if random.bool() {
            repair_byte_counts(bytes);
        }
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

#[derive(Clone, Copy)]
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

    /// Returns a value of an entry.
    fn value(&self, entry: &Entry, index: usize) -> Option<u64> {
        self.get(entry.values + index * entry.size, entry.size)
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

    /// Sets one value of an entry, or all.
    fn change_value(&mut self, entry: &Entry, random: &mut Rng) {
        let index = random.usize(0..entry.count.clamp(1, MAX_VALUES));
        let old = self.value(entry, index).unwrap_or(0);
        let value = likely_value(entry.tag, old, self.bytes.len(), random);
        let all = random.u8(0..3) == 0;
        for index in if all { 0..entry.count.min(MAX_VALUES) } else { index..index + 1 } {
            self.set_value(entry, index, value);
        }
    }

    /// Swaps, duplicates or removes entries.
    fn rearrange(&mut self, directory: &Directory, random: &mut Rng) {
        let size = self.entry_size();
        let mut entry = || random.choice(&directory.entries);
        let (Some(one), Some(other), Some(last)) = (entry(), entry(), directory.entries.last()) else {
            return;
        };
        let end = last.at + size;
        if end > self.bytes.len() {
            return;
        }
        match random.u8(0..3) {
            0 => (0..size).for_each(|index| self.bytes.swap(one.at + index, other.at + index)),
            1 => self.bytes.copy_within(one.at..one.at + size, other.at),
            _ => {
                self.bytes.copy_within(one.at + size..end, one.at);
                let left = self.get(directory.at, self.head_size()).unwrap_or(1).saturating_sub(1);
                let next = self.get(directory.next, self.number()).unwrap_or(0);
                self.put(directory.at, self.head_size(), left);
                self.put(end - size, self.number(), next);
            }
        }
    }

    /// Replaces a directory by one at the end of the file that has a further entry.
    fn insert(&mut self, directory: &Directory, random: &mut Rng) {
        let (number, size) = (self.number(), self.entry_size());
        let tag = *random.choice(TAGS).expect("tags");
        let next = self.get(directory.next, number).unwrap_or(0);
        let mut entries: Vec<Vec<u8>> = directory
            .entries
            .iter()
            .filter_map(|entry| self.bytes.get(entry.at..entry.at + size).map(<[u8]>::to_vec))
            .collect();
        let place = directory.entries.iter().position(|entry| entry.tag >= tag).unwrap_or(entries.len());
        let place = if random.u8(0..8) == 0 { random.usize(0..=entries.len()) } else { place };
        entries.insert(place.min(entries.len()), self.new_entry(tag, random));
        let at = self.bytes.len();
        self.bytes.resize(at + self.head_size(), 0);
        self.put(at, self.head_size(), entries.len() as u64);
        self.bytes.extend(entries.concat());
        let end = self.bytes.len();
        self.bytes.resize(end + number, 0);
        self.put(end, number, next);
        self.put(directory.link, number, at as u64);
    }

    /// Returns an entry with likely values, which may be at the end of the file.
    fn new_entry(&mut self, tag: u16, random: &mut Rng) -> Vec<u8> {
        let (old, number) = (self.bytes.len(), self.number());
        let count = *random.choice(&[1, 1, 1, 1, 2, 3, 4, 9]).expect("counts");
        let (kind, size) =
            *random.choice(&[(3, 2), (3, 2), (4, 4), (1, 1), (16, 8), (12, 8), (5, 8)]).expect("types");
        let values: Vec<u64> = (0..count).map(|_| likely_value(tag, 1, old, random)).collect();
        let text = matches!(tag, 42112 | 42113).then(|| random_text(tag, random));
        let length = text.as_ref().map_or(count * size, Vec::len);
        let at = old + self.entry_size();
        self.bytes.resize(at + length.max(number), 0);
        match &text {
            Some(text) => self.bytes[at..at + length].copy_from_slice(text),
            None => (0..count).for_each(|index| self.put(at + index * size, size, values[index])),
        }
        self.put(old, 2, tag.into());
        self.put(old + 2, 2, if text.is_some() { 2 } else { kind });
        self.put(old + 4, self.number(), if text.is_some() { length } else { count } as u64);
        if length <= number {
            self.bytes.copy_within(at..at + number, old + 4 + number);
        } else {
            self.put(old + 4 + self.number(), self.number(), at as u64);
        }
        let entry = self.bytes[old..at].to_vec();
        if length <= number {
            self.bytes.truncate(old);
        }
        entry
    }

    /// Lets the chain continue elsewhere.
    fn link(&mut self, directories: &[Directory], random: &mut Rng) {
        let (Some(from), Some(to)) = (random.choice(directories), random.choice(directories)) else { return };
        let target = match random.u8(0..4) {
            0 => 0,
            1 => random.u64(0..=self.bytes.len() as u64),
            _ => to.at as u64,
        };
        self.put(from.next, self.number(), target);
    }

    /// Sets BitsPerSample and SampleFormat of all samples.
    fn change_samples(&mut self, directory: &Directory, random: &mut Rng) {
        let bits = *random.choice(&[1, 2, 4, 7, 8, 12, 16, 24, 31, 32, 64, 128]).expect("widths");
        let format = random.u64(1..=6);
        for entry in &directory.entries {
            let value = match entry.tag {
                258 => bits,
                339 => format,
                _ => continue,
            };
            for index in 0..entry.count.min(MAX_VALUES) {
                self.set_value(entry, index, value);
            }
        }
    }

    /// Exchanges, shifts or removes strips or tiles, or changes the size of one.
    fn change_pieces(&mut self, directory: &Directory, random: &mut Rng) {
        let tables = directory.entries.iter().filter(|entry| matches!(entry.tag, 273 | 279 | 324 | 325));
        let tables: Vec<Entry> = tables.copied().collect();
        let Some(table) = random.choice(&tables) else { return };
        let mut index = || random.usize(0..table.count.clamp(1, MAX_VALUES));
        let (one, other) = (index(), index());
        let (Some(first), Some(second)) = (self.value(table, one), self.value(table, other)) else { return };
        match random.u8(0..6) {
            0 => {
                self.set_value(table, one, second);
                self.set_value(table, other, first);
            }
            1 => self.set_value(table, one, second),
            2 => self.set_value(table, one, 0),
            3 => self.set_value(table, one, first.wrapping_add(random.u64(0..5)).wrapping_sub(2)),
            4 => self.set_value(table, one, random.u64(0..=self.bytes.len() as u64 + 8)),
            _ => tables.iter().for_each(|table| self.set_value(table, one, 0)),
        }
    }

    /// Changes a byte of a strip or tile.
    fn damage(&mut self, directory: &Directory, random: &mut Rng) {
        let Some(table) = directory.entries.iter().find(|entry| matches!(entry.tag, 273 | 324)) else {
            return;
        };
        let index = random.usize(0..table.count.clamp(1, MAX_VALUES));
        let Some(start) = self.value(table, index) else { return };
        let at = usize::try_from(start).unwrap_or(0).saturating_add(random.usize(0..64));
        if let Some(byte) = self.bytes.get_mut(at) {
            *byte = if random.bool() { random.u8(..) } else { *byte ^ (1 << random.u8(0..8)) };
        }
    }

    /// Writes a text that a reader interprets over another one, as far as there is space.
    fn change_text(&mut self, directory: &Directory, random: &mut Rng) {
        let Some(entry) = directory.entries.iter().find(|entry| matches!(entry.tag, 42112 | 42113)) else {
            return;
        };
        let text = random_text(entry.tag, random);
        for (index, byte) in text.iter().take(entry.count).enumerate() {
            self.put(entry.values + index, 1, (*byte).into());
        }
    }

    /// Truncates or extends the file.
    fn resize(&mut self, random: &mut Rng) {
        let length = self.bytes.len();
        match random.u8(0..3) {
            0 => self.bytes.truncate(random.usize(0..=length)),
            1 => self.bytes.truncate(length.saturating_sub(random.usize(0..16))),
            _ => self.bytes.extend(std::iter::repeat_with(|| random.u8(..)).take(16)),
        }
    }
}

/// Makes the byte counts of uncompressed strips and tiles those that libtiff expects, as far as their entries exist.
fn repair_byte_counts(bytes: &mut Vec<u8>) {
    let Some(mut tiff) = Tiff::of(bytes) else { return };
    for directory in tiff.directories() {
        let value = |tag: u16, default: u64| {
            let entry = directory.entries.iter().find(|entry| entry.tag == tag);
            entry.and_then(|entry| tiff.get(entry.values, entry.size)).unwrap_or(default).clamp(1, 1 << 16)
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
                tiff.set_value(entry, index, row * rows);
            }
        }
    }
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
