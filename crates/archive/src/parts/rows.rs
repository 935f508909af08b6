//! The files of a part as columns.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use parquet::{
    data_type::{ByteArray, ByteArrayType, Int64Type},
    file::{serialized_reader::SerializedRowGroupReader, writer::SerializedRowGroupWriter},
    schema::types::TypePtr,
};
use serde::Serialize;
use virtualize::{
    ErrorClass,
    zarr::{Source, ZarrFormat},
};

use super::{
    columns::{Columns, Group, Lists},
    items::{self, json, text, unsigned},
    sealed::{Fault, Part},
};
use crate::{
    Item,
    journal::{Content, Done, Failed, MemberRow, NodeRow, Outcome, class_name},
};

/// Columns whose equal values are stored once in a row group.
pub(super) const REPETITIVE: &[&str] = &[
    "properties",
    "class",
    "storage",
    "signature",
    "sources",
    "digests",
    "given",
    "warnings",
    "nodes.path",
    "nodes.document",
    "nodes.chunks",
    "values.path",
];

/// Returns the schema of a part.
pub(super) fn schema() -> Result<TypePtr, Fault> {
    super::schema(&format!(
        "message part {{
            required int64 position;
            {}
            optional binary opened (JSON);
            optional binary class (UTF8);
            optional binary error (UTF8);
            required int64 attempts;
            optional int64 milliseconds;
            optional int64 requests;
            optional int64 retries;
            optional int64 bytes;
            optional binary warnings (JSON);
            optional int64 zarr_format;
            optional binary storage (UTF8);
            optional binary signature (JSON);
            optional binary extent (JSON);
            optional binary sources (JSON);
            optional binary digests (JSON);
            optional binary given (JSON);
            repeated group nodes {{
                required binary path (UTF8);
                required binary document (JSON);
                required int64 count;
                required binary chunks;
            }}
            repeated group values {{
                required binary path (UTF8);
                required binary value;
            }}
        }}",
        items::SCHEMA
    ))
}

/// A file of a part.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PartRow {
    /// Position in the listing, from 0.
    pub(crate) position: u64,
    /// The file as it was listed.
    pub(crate) item: Item,
    /// How reading it ended.
    pub(crate) outcome: Outcome,
}

/// The file as it was opened, where that differs from the listing: size, entity tag, time of modification, and whether
/// the file was replaced after it was listed.
type Opened = (Option<u64>, Option<String>, Option<i64>, bool);
/// URL, entity tag, size and time of modification of a source.
type SourceParts = (String, Option<String>, u64, Option<i64>);

impl PartRow {
    /// Returns the failure, if the file could not be read.
    pub(crate) fn failure(&self) -> Option<&Failed> {
        match &self.outcome {
            Outcome::Failed(failed) => Some(failed),
            Outcome::Done(_) => None,
        }
    }

    /// Returns what was read.
    pub(crate) fn done(&self) -> Option<&Done> {
        match &self.outcome {
            Outcome::Done(done) => Some(done),
            Outcome::Failed(_) => None,
        }
    }

    /// Returns whether the file's store was not available.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.failure().is_some_and(|failed| failed.class == ErrorClass::Unavailable)
    }

    /// Returns the approximate size in bytes of what is not the same for most files.
    pub(super) fn size(&self) -> usize {
        let Some(member) = self.member() else { return 0 };
        let values = member.values.values().map(Bytes::len).sum::<usize>();
        values + member.nodes.iter().map(|node| node.chunks.len() + node.document.len() / 8).sum::<usize>()
    }

    fn member(&self) -> Option<&MemberRow> {
        match &self.done()?.record {
            Content::Member(member) => Some(member),
            Content::Written { .. } => None,
        }
    }

    fn opened(&self) -> Option<Opened> {
        let done = self.done()?;
        let Item { size, etag, modified, .. } = &done.opened;
        let as_listed = (*size, etag, *modified) == (self.item.size, &self.item.etag, self.item.modified);
        (!as_listed || done.replaced).then(|| (*size, etag.clone(), *modified, done.replaced))
    }

    /// Returns the sources, unless the file as it was opened is the only one.
    fn sources(&self) -> Option<Vec<SourceParts>> {
        let opened = &self.done()?.opened;
        let sources = &self.member()?.sources;
        let parts = |source: &Source| {
            let Source { url, etag, size, modified } = source.clone();
            (url, etag, size, modified)
        };
        (*sources != own_source(opened)).then(|| sources.iter().map(parts).collect())
    }
}

/// Returns the file as its only source.
fn own_source(opened: &Item) -> Vec<Source> {
    let Item { url, size, etag, modified, .. } = opened.clone();
    size.map(|size| Source { url, etag, size, modified }).into_iter().collect()
}

/// Writes the columns of a row group.
pub(super) fn write(out: &mut SerializedRowGroupWriter<'_, Vec<u8>>, rows: &[PartRow]) -> Result<(), Fault> {
    let mut columns = Columns(out);
    let positions: Vec<i64> = rows.iter().map(|row| signed(row.position)).collect();
    columns.required::<Int64Type>(&positions)?;
    items::write(&mut columns, rows.iter().map(|row| &row.item))?;
    columns.optional::<ByteArrayType>(rows.iter().map(|row| row.opened().map(|opened| of_json(&opened))))?;
    let failures = rows.iter().map(PartRow::failure);
    columns.optional::<ByteArrayType>(failures.clone().map(|it| Some(class_name(it?.class).into())))?;
    columns.optional::<ByteArrayType>(failures.map(|it| Some(it?.error.as_str().into())))?;
    let attempts = |row: &PartRow| match &row.outcome {
        Outcome::Done(done) => i64::from(done.attempts),
        Outcome::Failed(failed) => i64::from(failed.attempts),
    };
    columns.required::<Int64Type>(&rows.iter().map(attempts).collect::<Vec<_>>())?;
    let done = rows.iter().map(PartRow::done);
    columns.optional::<Int64Type>(done.clone().map(|it| Some(milliseconds(it?.seconds))))?;
    columns.optional::<Int64Type>(done.clone().map(|it| Some(signed(it?.requests))))?;
    columns.optional::<Int64Type>(done.clone().map(|it| Some(signed(it?.retries))))?;
    columns.optional::<Int64Type>(done.clone().map(|it| Some(signed(it?.bytes))))?;
    let warnings = done.map(|it| Some(&it?.warnings).filter(|warnings| !warnings.is_empty()));
    columns.optional::<ByteArrayType>(warnings.map(|it| it.map(of_json)))?;
    write_members(&mut columns, rows)
}

/// Writes the columns of the records.
fn write_members(columns: &mut Columns<'_, '_>, rows: &[PartRow]) -> Result<(), Fault> {
    let members = rows.iter().map(PartRow::member);
    let format = |member: &MemberRow| match member.format {
        ZarrFormat::V2 => 2,
        ZarrFormat::V3 => 3,
    };
    columns.optional::<Int64Type>(members.clone().map(|it| it.map(format)))?;
    columns.optional::<ByteArrayType>(members.clone().map(|it| Some(it?.storage.as_str().into())))?;
    columns.optional::<ByteArrayType>(members.clone().map(|it| Some(it?.signature.as_ref().into())))?;
    columns.optional::<ByteArrayType>(members.clone().map(|it| Some(it?.extent.as_str().into())))?;
    columns.optional::<ByteArrayType>(rows.iter().map(|row| row.sources().map(|it| of_json(&it))))?;
    columns.optional::<ByteArrayType>(members.clone().map(|it| Some(of_json(&it?.digests))))?;
    columns.optional::<ByteArrayType>(members.clone().map(|it| Some(of_json(&it?.given))))?;
    let lengths: Vec<usize> = members.clone().map(|it| it.map_or(0, |it| it.nodes.len())).collect();
    let nodes = || members.clone().flatten().flat_map(|member| &member.nodes);
    let paths: Vec<ByteArray> = nodes().map(|node| node.path.as_str().into()).collect();
    columns.repeated::<ByteArrayType>(&paths, &lengths)?;
    let mut shared: HashMap<&str, ByteArray> = HashMap::new();
    let mut document = |text| shared.entry(text).or_insert_with(|| text.into()).clone();
    let documents: Vec<ByteArray> = nodes().map(|node| document(node.document.as_ref())).collect();
    columns.repeated::<ByteArrayType>(&documents, &lengths)?;
    let counts: Vec<i64> = nodes().map(|node| signed(node.count)).collect();
    columns.repeated::<Int64Type>(&counts, &lengths)?;
    let chunks: Vec<ByteArray> = nodes().map(|node| node.chunks.clone().into()).collect();
    columns.repeated::<ByteArrayType>(&chunks, &lengths)?;
    let lengths: Vec<usize> = members.clone().map(|it| it.map_or(0, |it| it.values.len())).collect();
    let values = || members.clone().flatten().flat_map(|member| &member.values);
    let paths: Vec<ByteArray> = values().map(|(path, _)| path.as_str().into()).collect();
    columns.repeated::<ByteArrayType>(&paths, &lengths)?;
    let values: Vec<ByteArray> = values().map(|(_, value)| value.clone().into()).collect();
    columns.repeated::<ByteArrayType>(&values, &lengths)
}

/// Reads a row group. Texts that many files have are shared, also with other row groups.
pub(super) fn read(
    rows: usize,
    reader: &SerializedRowGroupReader<'_, Part>,
    shared: &mut HashMap<Bytes, Arc<str>>,
) -> Result<Vec<PartRow>, Fault> {
    let group = Group { rows, reader };
    let items = items::read(&group)?;
    let positions = group.required::<Int64Type>("position")?;
    let outcomes = outcomes(&group, &items, members(&group, shared)?)?;
    let row = |((position, item), outcome)| {
        Ok(PartRow { position: unsigned("position", position)?, item, outcome })
    };
    positions.into_iter().zip(items).zip(outcomes).map(row).collect()
}

fn outcomes(group: &Group<'_>, items: &[Item], members: Vec<Option<Member>>) -> Result<Vec<Outcome>, Fault> {
    let (opened, attempts) =
        (group.optional::<ByteArrayType>("opened")?, group.required::<Int64Type>("attempts")?);
    let (classes, errors) =
        (group.optional::<ByteArrayType>("class")?, group.optional::<ByteArrayType>("error")?);
    let times = group.optional::<Int64Type>("milliseconds")?;
    let (requests, retries) =
        (group.optional::<Int64Type>("requests")?, group.optional::<Int64Type>("retries")?);
    let bytes = group.optional::<Int64Type>("bytes")?;
    let warnings = group.optional::<ByteArrayType>("warnings")?;
    let mut outcomes = Vec::with_capacity(items.len());
    let done = times.into_iter().zip(requests).zip(retries).zip(bytes).zip(warnings).zip(opened).zip(members);
    let failed = classes.into_iter().zip(errors).zip(attempts);
    for ((item, ((class, error), attempts)), done) in items.iter().zip(failed).zip(done) {
        let ((((((time, requests), retries), bytes), warnings), opened), member) = done;
        let attempts = unsigned("attempts", attempts)?;
        let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
        let Some((member, sources)) = member else {
            let error = error.map(|error| text("error", &error)).transpose()?.unwrap_or_default();
            let class = class_of(&class.ok_or_else(|| missing("class"))?)?;
            outcomes.push(Outcome::Failed(Failed { attempts, class, error }));
            continue;
        };
        if class.is_some() {
            return Err(Fault::Column {
                name: "class",
                reason: "a failure of a file that was read".to_owned(),
            });
        }
        let (opened, replaced) = opened_of(item, opened.as_ref())?;
        let member = with_sources(member, &opened, sources.as_ref())?;
        outcomes.push(Outcome::Done(Box::new(Done {
            opened,
            replaced,
            attempts,
            seconds: seconds(time.ok_or_else(|| missing("milliseconds"))?),
            requests: unsigned("requests", requests.ok_or_else(|| missing("requests"))?)?,
            retries: unsigned("retries", retries.ok_or_else(|| missing("retries"))?)?,
            bytes: unsigned("bytes", bytes.ok_or_else(|| missing("bytes"))?)?,
            warnings: warnings.map_or(Ok(Vec::new()), |warnings| json("warnings", &warnings))?,
            record: Content::Member(Box::new(member)),
        })));
    }
    Ok(outcomes)
}

/// A record, and the text of its sources.
type Member = (MemberRow, Option<ByteArray>);

/// Reads the records, without sources; `None` for files that could not be read.
fn members(group: &Group<'_>, shared: &mut HashMap<Bytes, Arc<str>>) -> Result<Vec<Option<Member>>, Fault> {
    let formats = group.optional::<Int64Type>("zarr_format")?;
    let (storages, signatures) =
        (group.optional::<ByteArrayType>("storage")?, group.optional::<ByteArrayType>("signature")?);
    let (extents, sources) =
        (group.optional::<ByteArrayType>("extent")?, group.optional::<ByteArrayType>("sources")?);
    let (digests, given) =
        (group.optional::<ByteArrayType>("digests")?, group.optional::<ByteArrayType>("given")?);
    let mut signature_texts = share("signature", signatures.iter().flatten(), shared)?.into_iter();
    let nodes = nodes(group, shared)?;
    let values = values(group)?;
    let mut digests_of = Parsed::new("digests");
    let mut given_of = Parsed::new("given");
    let mut members = Vec::with_capacity(group.rows);
    let texts = storages.into_iter().zip(signatures).zip(extents).zip(sources).zip(digests).zip(given);
    for (((format, texts), nodes), values) in formats.into_iter().zip(texts).zip(nodes).zip(values) {
        let (((((storage, signature), extent), sources), digests), given) = texts;
        let signature = signature.as_ref().and_then(|_| signature_texts.next());
        let Some(format) = format else {
            members.push(None);
            continue;
        };
        let member = MemberRow {
            storage: text("storage", &storage.ok_or_else(|| missing("storage"))?)?,
            signature: signature.ok_or_else(|| missing("signature"))?,
            extent: text("extent", &extent.ok_or_else(|| missing("extent"))?)?,
            format: format_of(format)?,
            nodes,
            sources: Vec::new(),
            values,
            digests: digests_of.parse(digests)?,
            given: given_of.parse(given)?,
        };
        members.push(Some((member, sources)));
    }
    Ok(members)
}

fn nodes(group: &Group<'_>, shared: &mut HashMap<Bytes, Arc<str>>) -> Result<Vec<Vec<NodeRow>>, Fault> {
    let Lists { lengths, values: paths } = group.repeated::<ByteArrayType>("nodes.path")?;
    let documents = group.repeated::<ByteArrayType>("nodes.document")?;
    let counts = group.repeated::<Int64Type>("nodes.count")?;
    let chunks = group.repeated::<ByteArrayType>("nodes.chunks")?;
    let same = documents.lengths == lengths && counts.lengths == lengths && chunks.lengths == lengths;
    if !same {
        return Err(Fault::Column { name: "nodes", reason: "lists of different lengths".to_owned() });
    }
    let documents = share("nodes.document", documents.values.iter(), shared)?;
    let columns = paths.iter().zip(documents).zip(&counts.values).zip(&chunks.values);
    let mut all = columns.map(|(((path, document), count), chunks)| {
        Ok(NodeRow {
            path: text("nodes.path", path)?,
            document,
            chunks: chunks.data().to_vec(),
            count: unsigned("nodes.count", *count)?,
        })
    });
    lengths.into_iter().map(|length| all.by_ref().take(length).collect()).collect()
}

fn values(group: &Group<'_>) -> Result<Vec<BTreeMapOfBytes>, Fault> {
    let Lists { lengths, values: paths } = group.repeated::<ByteArrayType>("values.path")?;
    let values = group.repeated::<ByteArrayType>("values.value")?;
    if values.lengths != lengths {
        return Err(Fault::Column { name: "values", reason: "lists of different lengths".to_owned() });
    }
    let columns = paths.iter().zip(&values.values);
    // A copy: the value's own buffer is a whole page.
    let one = |(path, value): (&ByteArray, &ByteArray)| {
        Ok((text("values.path", path)?, Bytes::copy_from_slice(value.data())))
    };
    let mut all = columns.map(one);
    lengths.into_iter().map(|length| all.by_ref().take(length).collect()).collect()
}

type BTreeMapOfBytes = std::collections::BTreeMap<virtualize::zarr::NodePath, Bytes>;

/// Parses a column of JSON; equal texts that follow each other only once.
struct Parsed<T> {
    name: &'static str,
    last: Option<(ByteArray, T)>,
}

impl<T: Clone + serde::de::DeserializeOwned> Parsed<T> {
    fn new(name: &'static str) -> Self {
        Self { name, last: None }
    }

    fn parse(&mut self, value: Option<ByteArray>) -> Result<T, Fault> {
        let value = value.ok_or_else(|| missing(self.name))?;
        if let Some((last, parsed)) = &self.last
            && *last == value
        {
            return Ok(parsed.clone());
        }
        let parsed: T = json(self.name, &value)?;
        self.last = Some((value, parsed.clone()));
        Ok(parsed)
    }
}

/// Returns the texts of a column, the same one for equal values.
fn share<'a>(
    name: &'static str,
    values: impl Iterator<Item = &'a ByteArray>,
    shared: &mut HashMap<Bytes, Arc<str>>,
) -> Result<Vec<Arc<str>>, Fault> {
    // Values from a dictionary share their bytes, which need not be hashed then. All values live until the end.
    let mut seen: HashMap<(*const u8, usize), Arc<str>> = HashMap::new();
    let mut texts = Vec::new();
    for value in values {
        let place = (value.data().as_ptr(), value.len());
        if let Some(text) = seen.get(&place) {
            texts.push(Arc::clone(text));
            continue;
        }
        let shared_text = match shared.get(value.data()) {
            Some(text) => Arc::clone(text),
            None => {
                let text: Arc<str> = text(name, value)?.into();
                shared.insert(Bytes::copy_from_slice(value.data()), Arc::clone(&text));
                text
            }
        };
        seen.insert(place, Arc::clone(&shared_text));
        texts.push(shared_text);
    }
    Ok(texts)
}

fn opened_of(item: &Item, opened: Option<&ByteArray>) -> Result<(Item, bool), Fault> {
    let Some(opened) = opened else { return Ok((item.clone(), false)) };
    let (size, etag, modified, replaced): Opened = json("opened", opened)?;
    Ok((Item { size, etag, modified, ..item.clone() }, replaced))
}

fn with_sources(member: MemberRow, opened: &Item, sources: Option<&ByteArray>) -> Result<MemberRow, Fault> {
    let Some(sources) = sources else { return Ok(MemberRow { sources: own_source(opened), ..member }) };
    let parts: Vec<SourceParts> = json("sources", sources)?;
    let source = |(url, etag, size, modified)| Source { url, etag, size, modified };
    Ok(MemberRow { sources: parts.into_iter().map(source).collect(), ..member })
}

fn format_of(number: i64) -> Result<ZarrFormat, Fault> {
    match number {
        2 => Ok(ZarrFormat::V2),
        3 => Ok(ZarrFormat::V3),
        _ => Err(Fault::Column { name: "zarr_format", reason: format!("{number}, expected 2 or 3") }),
    }
}

fn class_of(name: &ByteArray) -> Result<ErrorClass, Fault> {
    use ErrorClass::{BrokenPipe, Changed, Conflict, Denied, File, NotFound, Unavailable, Usage};
    let all = [Usage, Conflict, NotFound, Denied, Changed, Unavailable, File, BrokenPipe];
    let found = all.into_iter().find(|class| class_name(*class).as_bytes() == name.data());
    found.ok_or_else(|| Fault::Column { name: "class", reason: "unknown".to_owned() })
}

fn of_json(value: &impl Serialize) -> ByteArray {
    // Text and numbers have a representation in JSON.
    serde_json::to_vec(value).unwrap_or_default().into()
}

fn missing(name: &'static str) -> Fault {
    Fault::Column { name, reason: "null for a file that was read".to_owned() }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn milliseconds(seconds: f64) -> i64 {
    let milliseconds = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default().as_millis();
    i64::try_from(milliseconds).unwrap_or(i64::MAX)
}

fn seconds(milliseconds: i64) -> f64 {
    std::time::Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0)).as_secs_f64()
}
