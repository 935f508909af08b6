//! STAC 1.0 and 1.1: items, item collections, and the catalogues and collections that link to them.
//! <https://github.com/radiantearth/stac-spec>

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use futures::{StreamExt, future::try_join_all, stream};
use serde_json::{Map, Value};
use url::Url;
use virtualize::{ErrorClass, OptionName, Remedy};
use virtualize_remedy::alternatives;
use virtualize_store::{fetch, post, url_of};

use super::{Files, Found, ListError, ListOptions, Result};
use crate::{Item, file::BANDS};

/// Maximum size of a document in bytes.
const LARGEST: u64 = 64 << 20;
/// Number of documents fetched ahead, and the maximum size of each in bytes.
const AHEAD: usize = 16;
const LARGEST_AHEAD: u64 = 2 << 20;
/// Maximum number of documents of a catalogue: links could continue indefinitely.
const MAX_DOCUMENTS: usize = 10_000_000;
/// Roles of assets that are not data.
const ASIDE: [&str; 4] = ["thumbnail", "overview", "metadata", "visual"];
/// Media types of readable files.
const READABLE: [&str; 8] = [
    "image/tiff",
    "image/vnd.stac.geotiff",
    "application/x-hdf5",
    "application/x-hdf",
    "application/netcdf",
    "application/x-netcdf",
    "application/vnd.netcdf",
    "application/x-netcdf4",
];
/// Suffixes of readable files, for assets without a media type.
const SUFFIXES: [&str; 10] =
    [".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".he5", ".hdf", ".tif", ".tiff", ".gtiff"];

/// Selects the assets of STAC items to read: those that meet all criteria. Without criteria, the only asset in a
/// readable format is selected; several such assets are an error.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Assets {
    /// Accepted keys; empty accepts any.
    pub keys: Vec<String>,
    /// Accepted roles, such as `data`; empty accepts any.
    pub roles: Vec<String>,
    /// Accepted media types without parameters, such as `image/tiff`; empty accepts any.
    pub media_types: Vec<String>,
    /// Alternate location to read instead of the asset's `href` (extension `alternate`), such as `s3`.
    pub alternate: Option<String>,
}

/// Returns the files of a STAC document and of those that it links to.
pub(super) fn files(location: String, options: Arc<ListOptions>) -> Files {
    let crawl = Crawl {
        options,
        pending: VecDeque::from([Step::Document(Page { url: location, body: None })]),
        visited: HashSet::new(),
        ready: VecDeque::new(),
    };
    let next = |mut crawl: Crawl| async move { Ok(crawl.next().await?.map(|found| (found, crawl))) };
    stream::try_unfold(crawl, next).boxed()
}

/// State of a crawl: pending documents, and the files found in the others.
struct Crawl {
    options: Arc<ListOptions>,
    pending: VecDeque<Step>,
    /// All documents requested so far: links may form a cycle.
    visited: HashSet<Page>,
    ready: VecDeque<Found>,
}

enum Step {
    /// To be fetched.
    Document(Page),
    /// Fetched from this page.
    Fetched(Page, Bytes),
}

/// A document and its request: POST if there is a body (STAC API, item search).
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Page {
    url: String,
    body: Option<Map<String, Value>>,
}

impl Crawl {
    async fn next(&mut self) -> Result<Option<Found>> {
        loop {
            if let Some(found) = self.ready.pop_front() {
                return Ok(Some(found));
            }
            match self.pending.pop_front() {
                None => return Ok(None),
                Some(Step::Fetched(page, bytes)) => {
                    let document = parse(&bytes, MAX_VALUES).map_err(|reason| wrong(&page.url, &reason))?;
                    drop(bytes);
                    self.read(&page, &document)?;
                }
                Some(step @ Step::Document(_)) => {
                    self.pending.push_front(step);
                    self.fetch_ahead().await?;
                }
            }
        }
    }

    /// Fetches the next documents concurrently. Only a failure of the first one is an error.
    async fn fetch_ahead(&mut self) -> Result<()> {
        let store = &self.options.store;
        let fetched = self.pending.iter_mut().take(AHEAD).enumerate().map(|(at, step)| async move {
            let Step::Document(page) = step else { return Ok(()) };
            let limit = if at == 0 { LARGEST } else { LARGEST_AHEAD };
            match document(page, limit, store).await {
                Ok(bytes) => *step = Step::Fetched(std::mem::take(page), bytes),
                Err(error) if at == 0 => return Err(error),
                // Too large, or failed: reported when it is this document's turn.
                Err(_) => {}
            }
            Ok::<_, ListError>(())
        });
        try_join_all(fetched).await.map(drop)
    }

    /// Queues the items of a document, and the documents to follow. A collection with an `items` link is listed by that
    /// link alone.
    fn read(&mut self, page: &Page, document: &Value) -> Result<()> {
        let url = page.url.as_str();
        match text(document, "type") {
            Some("Feature") => self.ready.extend(self.item(url, document)?),
            Some("FeatureCollection") => {
                let features = document.get("features").and_then(Value::as_array);
                let features = features.ok_or_else(|| wrong(url, "a FeatureCollection without features"))?;
                for feature in features {
                    self.ready.extend(self.item(&base(url, feature)?, feature)?);
                }
                self.follow(page, document, &["next"])?;
            }
            Some("Collection" | "Catalog") => {
                let has_pages = links(document).any(|link| text(link, "rel") == Some("items"));
                self.follow(page, document, if has_pages { &["items"] } else { &["item", "child"] })?;
            }
            other => {
                let found = other.map_or("none".to_owned(), |other| format!("{other:?}"));
                let expected = "Feature, FeatureCollection, Collection or Catalog";
                return Err(wrong(url, &format!("type is {found}, expected {expected} (STAC)")));
            }
        }
        Ok(())
    }

    /// Queues linked documents before all others, in the order of the links.
    fn follow(&mut self, page: &Page, document: &Value, relations: &[&str]) -> Result<()> {
        let mut steps = VecDeque::new();
        let wanted = |link: &&Value| text(link, "rel").is_some_and(|rel| relations.contains(&rel));
        for link in links(document).filter(wanted) {
            let target = page.linked(link).map_err(|reason| wrong(&page.url, &reason))?;
            if self.visited.len() >= MAX_DOCUMENTS {
                return Err(wrong(
                    &page.url,
                    &format!("the catalogue has more than {MAX_DOCUMENTS} documents"),
                ));
            }
            if self.visited.insert(target.clone()) {
                steps.push_back(Step::Document(target));
            }
        }
        steps.append(&mut self.pending);
        self.pending = steps;
        Ok(())
    }

    /// Returns the files of an item.
    fn item(&self, url: &str, item: &Value) -> Result<Vec<Found>> {
        let id = text(item, "id").unwrap_or("without id");
        let named = |reason: &str| wrong(url, &format!("item {id}: {reason}"));
        let Some(assets) = item.get("assets").and_then(Value::as_object) else {
            return Err(named("no assets"));
        };
        let wanted = &self.options.assets;
        let chosen: Vec<_> = assets.iter().filter(|(key, asset)| wanted.has(key, asset)).collect();
        if wanted.say_nothing() && chosen.len() > 1 {
            let keys: Vec<_> = chosen.iter().map(|(key, _)| key.as_str()).collect();
            let message = format!("{}: item {id} has several assets: {}", plain(url), keys.join(", "));
            let remedy = Remedy::turn_on(OptionName::Asset, "choose those to read");
            return Err(ListError::invalid(ErrorClass::Conflict, message, remedy));
        }
        if chosen.is_empty() {
            let keys: Vec<_> = assets.keys().take(20).map(String::as_str).collect();
            return Ok(vec![Found::NoAsset(format!("{id} (which has {})", keys.join(", ")))]);
        }
        let file = |(key, asset): (&String, &Value)| {
            let href =
                self.options.assets.href(asset).map_err(|reason| named(&format!("asset {key}: {reason}")))?;
            let target = resolve(url, href).map_err(|reason| named(&reason))?;
            let url = url_of(&target)?;
            let size = asset.get("file:size").and_then(Value::as_u64);
            Ok(Found::File(Item { size, properties: properties(item, key, asset), ..Item::of(url) }))
        };
        chosen.into_iter().map(file).collect()
    }
}

impl Assets {
    /// Returns whether there are no criteria.
    fn say_nothing(&self) -> bool {
        self.keys.is_empty() && self.roles.is_empty() && self.media_types.is_empty()
    }

    /// Returns the location of an asset.
    fn href<'a>(&self, asset: &'a Value) -> Result<&'a str, String> {
        let Some(name) = &self.alternate else {
            return text(asset, "href").ok_or_else(|| "no href".to_owned());
        };
        let others = asset.get("alternate").and_then(Value::as_object);
        let other = others.and_then(|others| others.get(name)).and_then(|other| text(other, "href"));
        other.ok_or_else(|| {
            let names = others.into_iter().flat_map(Map::keys).map(String::as_str);
            format!("no alternate {name:?}{}", alternatives("alternates", name, names))
        })
    }

    /// Returns whether an asset is selected.
    fn has(&self, key: &str, asset: &Value) -> bool {
        let roles: Vec<_> = array(asset, "roles").filter_map(Value::as_str).collect();
        let kind =
            text(asset, "type").map(|kind| kind.split(';').next().unwrap_or(kind).trim().to_lowercase());
        if self.say_nothing() {
            let path =
                text(asset, "href").unwrap_or_default().split('?').next().unwrap_or_default().to_lowercase();
            let readable = match &kind {
                Some(kind) => READABLE.contains(&kind.as_str()),
                None => SUFFIXES.iter().any(|suffix| path.ends_with(suffix)),
            };
            return readable && !roles.iter().any(|role| ASIDE.contains(role));
        }
        let one_of = |wanted: &[String], is: &dyn Fn(&str) -> bool| {
            wanted.is_empty() || wanted.iter().any(|it| is(it))
        };
        one_of(&self.keys, &|wanted| wanted == key)
            && one_of(&self.roles, &|wanted| roles.contains(&wanted))
            && one_of(&self.media_types, &|wanted| kind.as_deref() == Some(&wanted.to_lowercase()))
    }
}

impl Page {
    /// Resolves a link to a page. The next page of a search may require POST; with `merge`, the link's body is merged
    /// into the previous request's.
    fn linked(&self, link: &Value) -> Result<Self, String> {
        let href = text(link, "href").ok_or("a link without href")?;
        let url = resolve(&self.url, href)?;
        let method = text(link, "method").unwrap_or("GET");
        if method.eq_ignore_ascii_case("GET") {
            return Ok(Self { url, body: None });
        }
        if !method.eq_ignore_ascii_case("POST") {
            return Err(format!("a link requires the method {method:?}; expected GET or POST"));
        }
        let is_web = url.starts_with("http://") || url.starts_with("https://");
        if !is_web {
            return Err("a link requires POST, which only web servers support".to_owned());
        }
        if link.get("headers").and_then(Value::as_object).is_some_and(|headers| !headers.is_empty()) {
            return Err("a link requires headers, which are not supported".to_owned());
        }
        let own = match link.get("body") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(body)) => body.clone(),
            Some(_) => return Err("the body of a link is not a JSON object".to_owned()),
        };
        let merge = link.get("merge").and_then(Value::as_bool).unwrap_or_default();
        let mut body = self.body.clone().filter(|_| merge).unwrap_or_default();
        body.extend(own);
        Ok(Self { url, body: Some(body) })
    }
}

/// Returns the base of an item's hrefs: the item's own URL if it has a `self` link.
fn base(url: &str, item: &Value) -> Result<String> {
    let own = links(item).find(|link| text(link, "rel") == Some("self")).and_then(|link| text(link, "href"));
    own.map_or_else(|| Ok(url.to_owned()), |own| resolve(url, own).map_err(|reason| wrong(url, &reason)))
}

/// Fetches a document of at most `limit` bytes.
async fn document(page: &Page, limit: u64, store: &virtualize_store::StoreOptions) -> Result<Bytes> {
    Ok(match &page.body {
        None => fetch(&page.url, limit, store).await?,
        Some(body) => post(&page.url, &Value::from(body.clone()).to_string(), limit, store).await?,
    })
}

/// Returns the properties of an item, with the members that distinguish its files.
fn properties(item: &Value, key: &str, asset: &Value) -> Map<String, Value> {
    let mut properties = item.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    properties.retain(|name, _| !LARGE.contains(&name.as_str()));
    let others = [
        ("id", item.get("id").cloned()),
        ("collection", item.get("collection").cloned()),
        ("asset", Some(Value::from(key))),
    ];
    for (name, value) in others {
        if let Some(value) = value.filter(|value| !value.is_null()) {
            properties.entry(name).or_insert(value);
        }
    }
    properties.extend(bands(item, asset).map(|bands| (BANDS.to_owned(), bands)));
    properties
}

/// Returns nodata, scale, offset and unit of the bands of an asset (extension `raster`): those of the band, or else of the asset
/// or item. One band stands for several that are equal.
fn bands(item: &Value, asset: &Value) -> Option<Value> {
    let names =
        [("nodata", "nodata"), ("scale", "raster:scale"), ("offset", "raster:offset"), ("unit", "unit")];
    let properties = item.get("properties");
    // STAC 1.0 has `raster:bands`, and STAC 1.1 `bands`.
    let of_asset = |name: &str| asset.get(name)?.as_array().filter(|bands| !bands.is_empty()).cloned();
    let bands = of_asset(BANDS).or_else(|| of_asset("bands")).unwrap_or_else(|| vec![Value::Null]);
    let band = |band: &Value| {
        let value = |(short, long): (&str, &str)| {
            let of_band = band.get(long).or_else(|| band.get(short).filter(|_| asset.get(BANDS).is_some()));
            let value = of_band.or_else(|| asset.get(long)).or_else(|| properties?.get(long))?;
            (!value.is_null()).then(|| (short.to_owned(), value.clone()))
        };
        Value::Object(names.into_iter().filter_map(value).collect())
    };
    let mut bands: Vec<Value> = bands.iter().map(band).collect();
    if bands.windows(2).all(|pair| pair.first() == pair.last()) {
        bands.truncate(1);
    }
    let is_empty = |band: &Value| band.as_object().is_none_or(Map::is_empty);
    (!bands.iter().all(is_empty)).then(|| bands.into())
}

fn text<'a>(object: &'a Value, member: &str) -> Option<&'a str> {
    object.get(member).and_then(Value::as_str)
}

fn array<'a>(object: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> {
    object.get(member).and_then(Value::as_array).into_iter().flatten()
}

fn links(document: &Value) -> impl Iterator<Item = &Value> {
    array(document, "links")
}

fn wrong(url: &str, reason: &str) -> ListError {
    ListError::invalid(ErrorClass::Conflict, format!("{}: {reason}", plain(url)), None)
}

/// Returns a URL without its query, which may contain a signature.
fn plain(url: &str) -> String {
    url.split('?').next().unwrap_or(url).to_owned()
}

/// Resolves a reference in a document: absolute URLs stay, others are relative to the document's folder.
pub(super) fn resolve(document: &str, href: &str) -> Result<String, String> {
    let is_remote = document.contains("://") && !document.starts_with("file:");
    if is_remote && href.starts_with("file:") {
        return Err(format!("{href} is a local file, which a remote document may not name"));
    }
    if href.contains("://") {
        return Ok(href.to_owned());
    }
    if document.starts_with("http://") || document.starts_with("https://") {
        let joined = Url::parse(document).and_then(|base| base.join(href));
        return joined.map(String::from).map_err(|error| format!("{href}: {error}"));
    }
    let document = url_of(document).map_err(|error| error.to_string())?;
    let (scheme, path) = document.split_once("://").unwrap_or_default();
    let (root, path) = path.split_once('/').unwrap_or((path, ""));
    let href = href.strip_prefix("./").unwrap_or(href);
    let (folder, href) = match href.strip_prefix('/') {
        Some(href) => (None, href),
        None => (path.rsplit_once('/').map(|(folder, _)| folder), href),
    };
    // Empty segments count: `a//b` is a different key from `a/b`.
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.into_iter().flat_map(|folder| folder.split('/')).chain(href.split('/')) {
        match part {
            "." => {}
            ".." => drop(parts.pop().ok_or_else(|| format!("{href} is above {scheme}://{root}/"))?),
            part => parts.push(part),
        }
    }
    Ok(format!("{scheme}://{root}/{}", parts.join("/")))
}

/// Large properties that no caller needs.
const LARGE: [&str; 3] = ["geometry", "bbox", "proj:geometry"];
/// Maximum number of values in a document: a parsed value takes many times the bytes of its text.
const MAX_VALUES: usize = 8_000_000;

/// Parses a document of at most `most` values.
fn parse(bytes: &[u8], most: usize) -> Result<Value, String> {
    // Each value but the first of a document, object or array follows one of these.
    let separators = bytes.iter().filter(|byte| matches!(byte, b',' | b':' | b'['));
    if separators.count() > most {
        return Err("too many values for a catalogue".to_owned());
    }
    serde_json::from_slice(bytes).map_err(|error| format!("invalid JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_start_from_their_document() {
        let cases = [
            ("s3://b/x/catalog.json", "./y/item.json", "s3://b/x/y/item.json"),
            ("s3://b/x/y/item.json", "../a b.tif", "s3://b/x/a b.tif"),
            ("s3://b/x/y/item.json", "/z.tif", "s3://b/z.tif"),
            ("s3://b/x//y/item.json", "./z.tif", "s3://b/x//y/z.tif"),
            ("s3://b/x/item.json", "y//z.tif", "s3://b/x/y//z.tif"),
            ("s3://b/item.json", "z.tif", "s3://b/z.tif"),
            ("s3://b//item.json", "z.tif", "s3://b//z.tif"),
            ("file:///d/item.json", "../z.tif", "file:///z.tif"),
            ("https://h/c/item.json?t=1", "../z.tif?u=2", "https://h/z.tif?u=2"),
            ("https://h/c/item.json", "s3://b/z.tif", "s3://b/z.tif"),
        ];
        for (document, href, expected) in cases {
            assert_eq!(resolve(document, href).as_deref(), Ok(expected));
        }
        assert!(resolve("s3://b/x.json", "../../z.tif").is_err());
        assert!(
            resolve("https://h/x.json", "file:///etc/z.tif").is_err(),
            "remote documents name no local files"
        );
        assert_eq!(resolve("/x.json", "file:///z.tif").as_deref(), Ok("file:///z.tif"));
    }

    #[test]
    fn assets_are_chosen_by_key_role_and_type() {
        let cog = json!({"href": "a.tif", "type": "image/tiff; application=geotiff", "roles": ["data", "reflectance"]});
        let thumb = json!({"href": "t.tif", "type": "image/tiff", "roles": ["thumbnail"]});
        let plain = json!({"href": "https://h/a.NC?sig=1"});
        let all = Assets::default();
        assert!(all.has("B04", &cog) && !all.has("t", &thumb) && all.has("nc", &plain));
        let one = |text: &str| vec![text.to_owned()];
        let keys = Assets { keys: one("B04"), ..Assets::default() };
        assert!(keys.has("B04", &cog) && !keys.has("B05", &cog));
        let roles = Assets { roles: one("data"), ..Assets::default() };
        assert!(roles.has("x", &cog) && !roles.has("x", &thumb) && !roles.has("x", &plain));
        let types = Assets { media_types: one("image/TIFF"), roles: one("thumbnail"), ..Assets::default() };
        assert!(types.has("x", &thumb) && !types.has("x", &cog));
    }

    #[test]
    fn documents_of_too_many_values_are_refused() {
        let text = format!("[{}0]", "0,".repeat(100));
        assert!(parse(text.as_bytes(), 101).is_ok());
        let error = parse(text.as_bytes(), 100).unwrap_err();
        assert!(error.contains("too many values"), "{error}");
        for wrong in ["", "{", "{} {}", "[1,]", "nul", &"[".repeat(1 << 20)] {
            assert!(parse(wrong.as_bytes(), MAX_VALUES).is_err());
        }
    }
}
