//! `ListObjectsV2`.

use std::{
    collections::{BTreeSet, HashMap},
    fs::{self, Metadata},
    io,
    path::Path,
};

use percent_encoding::percent_decode_str;

use crate::answer::{modified, tag};

/// Lists a page of the keys below a prefix, as `ListObjectsV2` does.
pub(crate) fn page(root: &Path, bucket: &str, query: &HashMap<String, String>) -> io::Result<String> {
    let parameter = |name: &str| query.get(name).map_or("", String::as_str);
    let (mut keys, mut folders) = (Vec::new(), BTreeSet::new());
    walk(root, "", parameter("prefix"), parameter("delimiter"), &mut keys, &mut folders)?;
    keys.sort_unstable();
    let after = parameter("continuation-token").max(parameter("start-after"));
    keys.retain(|key| key.as_str() > after);
    let most = parameter("max-keys").parse().unwrap_or(1000);
    let truncated = keys.len() > most;
    keys.truncate(most);
    let mut text = format!(
        r#"<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>{}</Name><Prefix>{}</Prefix><KeyCount>{}</KeyCount><MaxKeys>{most}</MaxKeys><IsTruncated>{truncated}</IsTruncated>"#,
        escape(bucket.trim_matches('/')),
        escape(parameter("prefix")),
        keys.len()
    );
    if let Some(last) = keys.last().filter(|_| truncated) {
        text += &format!("<NextContinuationToken>{}</NextContinuationToken>", escape(last));
    }
    for key in &keys {
        text += &entry(key, &fs::metadata(root.join(key))?);
    }
    for folder in folders {
        text += &format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", escape(&folder));
    }
    Ok(text + "</ListBucketResult>")
}

fn entry(key: &str, metadata: &Metadata) -> String {
    format!(
        "<Contents><Key>{}</Key><LastModified>{}</LastModified><ETag>{}</ETag><Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents>",
        escape(key),
        modified(metadata, "%Y-%m-%dT%H:%M:%S.000Z"),
        escape(&tag(metadata)),
        metadata.len()
    )
}

/// Collects the keys of `folder`, which is empty or ends in a slash, and of the folders in it.
fn walk(
    root: &Path,
    folder: &str,
    prefix: &str,
    delimiter: &str,
    keys: &mut Vec<String>,
    folders: &mut BTreeSet<String>,
) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let mut key = format!("{folder}{}", entry.file_name().to_string_lossy());
        let is_folder = entry.file_type()?.is_dir();
        if is_folder {
            key.push('/');
        }
        match key.strip_prefix(prefix) {
            Some(rest) if !delimiter.is_empty() && rest.contains(delimiter) => {
                let end = rest.find(delimiter).unwrap_or_default() + delimiter.len();
                folders.insert(format!("{prefix}{}", rest.get(..end).unwrap_or_default()));
            }
            Some(_) if !is_folder => keys.push(key),
            None if !(is_folder && prefix.starts_with(&key)) => {}
            _ => walk(root, &key, prefix, delimiter, keys, folders)?,
        }
    }
    Ok(())
}

pub(crate) fn query(text: &str) -> HashMap<String, String> {
    let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    text.split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(k, v)| (decode(k), decode(v)))
        .collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
