//! Checks the architecture's invariants (docs/architecture.md) against `cargo metadata` and the sources.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The crates of this workspace that each crate may use. Data flows in one direction.
const ALLOWED: &[(&str, &[&str])] = &[
    ("virtualize-remedy", &[]),
    ("virtualize-bytes", &["virtualize-remedy"]),
    ("virtualize-zarr", &[]),
    ("virtualize-store", &["virtualize-bytes", "virtualize-remedy"]),
    ("virtualize-hdf5", &["virtualize-bytes"]),
    ("virtualize-libhdf5", &["virtualize-bytes", "virtualize-hdf5"]),
    ("virtualize-netcdf3", &["virtualize-bytes"]),
    ("virtualize-dmrpp", &["virtualize-bytes", "virtualize-hdf5"]),
    ("virtualize-tiff", &["virtualize-bytes"]),
    (
        "virtualize-map",
        &[
            "virtualize-bytes",
            "virtualize-hdf5",
            "virtualize-netcdf3",
            "virtualize-remedy",
            "virtualize-tiff",
            "virtualize-zarr",
        ],
    ),
    ("virtualize-codec", &["virtualize-zarr"]),
    ("virtualize-emit", &["virtualize-zarr"]),
    ("virtualize-icechunk", &["virtualize-remedy", "virtualize-store", "virtualize-zarr"]),
    ("virtualize-references", &["virtualize-zarr"]),
    (
        "virtualize",
        &[
            "virtualize-bytes",
            "virtualize-codec",
            "virtualize-dmrpp",
            "virtualize-emit",
            "virtualize-hdf5",
            "virtualize-icechunk",
            "virtualize-libhdf5",
            "virtualize-map",
            "virtualize-netcdf3",
            "virtualize-references",
            "virtualize-remedy",
            "virtualize-store",
            "virtualize-tiff",
            "virtualize-zarr",
        ],
    ),
    ("virtualize-archive", &["virtualize", "virtualize-references", "virtualize-remedy", "virtualize-store"]),
    ("virtualize-server", &["virtualize", "virtualize-archive", "virtualize-remedy", "virtualize-store"]),
    ("virtualize-cli", &["virtualize", "virtualize-archive", "virtualize-remedy", "virtualize-server"]),
    (
        "virtualize-python",
        &["virtualize", "virtualize-archive", "virtualize-cli", "virtualize-remedy", "virtualize-store"],
    ),
];

/// Crates that may use a runtime or an object store: the store and the edges.
const MAY_DO_IO: &[&str] = &[
    "virtualize-store",
    "virtualize-icechunk",
    "virtualize-archive",
    "virtualize-server",
    "virtualize-cli",
    "virtualize-python",
];

/// Source folders without asynchronous code.
const WITHOUT_ASYNC: &[&str] = &[
    "hdf5/src/spec",
    "netcdf3/src/spec",
    "tiff/src/spec",
    "map/src",
    "zarr/src",
    "codec/src",
    "emit/src",
    "references/src",
];

/// The top-level modules of a crate, each with those that it may import.
type Modules = &'static [(&'static str, &'static [&'static str])];

/// Imports that are permitted between the top-level modules of a crate. A module may only import modules that are
/// listed above it, so the table cannot contain a cycle.
const MODULES: &[(&str, Modules)] = &[
    (
        "archive",
        &[
            ("item", &[]),
            ("event", &[]),
            ("values", &[]),
            ("head", &["item", "values"]),
            ("member", &["item"]),
            ("list", &["item"]),
            ("journal", &["head", "item", "list", "member"]),
            ("parts", &["item", "journal", "list"]),
            ("error", &["journal", "list", "parts"]),
            ("layout", &["error", "item", "values"]),
            ("compat", &["error", "item", "layout", "member", "values"]),
            ("plan", &["compat", "error", "item", "layout", "member", "values"]),
            ("join", &["compat", "error", "head", "item", "layout", "member", "plan", "values"]),
            ("read", &["error", "event", "item", "journal"]),
            (
                "repository",
                &["compat", "error", "head", "item", "join", "layout", "member", "plan", "values"],
            ),
            (
                "scan",
                &[
                    "compat", "error", "event", "item", "journal", "layout", "list", "member", "plan",
                    "read", "values",
                ],
            ),
            (
                "batch",
                &[
                    "compat",
                    "error",
                    "event",
                    "head",
                    "item",
                    "join",
                    "journal",
                    "layout",
                    "list",
                    "member",
                    "parts",
                    "plan",
                    "read",
                    "repository",
                    "scan",
                ],
            ),
        ],
    ),
    (
        "virtualize",
        &[
            ("selection", &[]),
            ("array_error", &["selection"]),
            ("copy_region", &[]),
            ("helpers", &[]),
            ("sources", &[]),
            ("decode", &["array_error", "copy_region"]),
            ("error", &["array_error"]),
            ("relocate", &["error"]),
            ("variable", &["array_error", "decode"]),
            ("store", &["error", "relocate"]),
            ("codec", &[]),
            ("chunks", &["error", "sources", "store"]),
            ("passing", &["error", "relocate"]),
            ("commit", &["error", "passing", "relocate", "store"]),
            ("describe", &["store"]),
            ("output", &["error", "passing", "relocate", "store"]),
            (
                "values",
                &[
                    "array_error",
                    "chunks",
                    "copy_region",
                    "decode",
                    "error",
                    "helpers",
                    "selection",
                    "sources",
                    "store",
                    "variable",
                ],
            ),
            ("keys", &["error", "output", "store", "values"]),
            ("options", &["commit", "relocate"]),
            ("sidecar", &["error", "sources"]),
            ("source_formats", &["error", "options", "sidecar", "sources"]),
            ("inline", &["copy_region", "helpers", "options", "source_formats", "sources"]),
            ("inline_small", &["inline", "options"]),
            (
                "open",
                &[
                    "error",
                    "inline",
                    "inline_small",
                    "options",
                    "sidecar",
                    "source_formats",
                    "sources",
                    "store",
                ],
            ),
            (
                "references",
                &[
                    "array_error",
                    "commit",
                    "decode",
                    "describe",
                    "error",
                    "open",
                    "options",
                    "source_formats",
                    "sources",
                    "store",
                    "values",
                    "variable",
                ],
            ),
        ],
    ),
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the dependencies of each crate of the workspace, except for those of tests.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(workspace())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    packages.iter().map(|package| (text(&package["name"]), normal(package))).collect()
}

fn normal(package: &serde_json::Value) -> BTreeSet<String> {
    let all = package["dependencies"].as_array().unwrap();
    all.iter().filter(|d| d["kind"] != "dev").map(|d| text(&d["name"])).collect()
}

fn text(value: &serde_json::Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Returns the Rust files below a folder of `crates/`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .flat_map(|entry| {
            let path = entry.unwrap().path();
            if path.is_dir() { sources(&path) } else { vec![path] }
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// Returns the lines of code that contain one of the words; comments do not count.
fn uses(folder: &Path, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for file in sources(folder) {
        for (number, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| words.contains(&word)) {
                found.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
            }
        }
    }
    found
}

#[test]
fn crates_depend_in_one_direction() {
    let allowed: BTreeMap<_, BTreeSet<_>> =
        ALLOWED.iter().map(|(name, others)| (*name, others.iter().copied().collect())).collect();
    for (name, used) in dependencies() {
        let may =
            allowed.get(name.as_str()).unwrap_or_else(|| panic!("{name} is not in the table of this test"));
        for other in used.iter().filter(|other| allowed.contains_key(other.as_str())) {
            assert!(may.contains(other.as_str()), "{name} must not depend on {other}");
        }
    }
}

#[test]
fn only_the_store_and_the_edges_know_a_runtime_or_an_object_store() {
    for (name, used) in dependencies() {
        if MAY_DO_IO.contains(&name.as_str()) {
            continue;
        }
        for other in ["object_store", "tokio", "reqwest", "hyper"] {
            assert!(!used.contains(other), "{name} must not depend on {other}");
        }
        let folder = name.strip_prefix("virtualize-").unwrap_or("virtualize");
        let named = uses(&workspace().join("crates").join(folder).join("src"), &["object_store", "tokio"]);
        assert!(named.is_empty(), "{named:#?}");
    }
}

#[test]
fn parsers_mapping_and_emitters_do_not_wait() {
    for folder in WITHOUT_ASYNC {
        let found = uses(&workspace().join("crates").join(folder), &["async", "await"]);
        assert!(found.is_empty(), "{found:#?}");
    }
}

/// Libraries are also called from Rust, over HTTP and from Python, so their errors carry a `Remedy` instead of a flag.
#[test]
fn libraries_do_not_name_flags_of_the_command() {
    let edges = ["virtualize-cli", "virtualize-server"];
    for (name, _) in ALLOWED.iter().filter(|(name, _)| !edges.contains(name)) {
        let folder =
            workspace().join("crates").join(name.strip_prefix("virtualize-").unwrap_or(name)).join("src");
        for file in sources(&folder).iter().filter(|file| !os_text(file.as_os_str()).contains("tests")) {
            let source = without_comments(&fs::read_to_string(file).unwrap());
            let production = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            let literals = production.lines().filter(|line| !line.trim_start().starts_with('#'));
            let found: Vec<_> = literals.filter(|line| has_flag(line)).collect();
            assert!(found.is_empty(), "{}: {found:#?}", file.display());
        }
    }
}

/// Returns whether a line has a string literal with a word such as `--format`, other programs' commands aside.
fn has_flag(line: &str) -> bool {
    let in_literals = line.split('"').skip(1).step_by(2);
    in_literals.filter(|literal| !literal.contains("aws configure")).any(|literal| {
        literal.match_indices("--").any(|(at, _)| {
            let before = literal[..at].chars().next_back();
            let after = literal[at + 2..].chars().next();
            before.is_none_or(|c| " (`'".contains(c)) && after.is_some_and(|c| c.is_ascii_lowercase())
        })
    })
}

#[test]
fn flags_are_found_in_literals() {
    assert!(has_flag(r#"let a = ("give --format", 1);"#) && has_flag(r#"say("`--append` adds")"#));
    assert!(!has_flag("let a = b --format;") && !has_flag(r#""a--b and -- or --""#));
}

#[test]
fn only_the_mapping_knows_both_a_source_and_zarr() {
    for (name, used) in dependencies() {
        let source = ["virtualize-hdf5", "virtualize-dmrpp", "virtualize-tiff"]
            .iter()
            .any(|source| used.contains(*source));
        if source && used.contains("virtualize-zarr") {
            assert!(
                ["virtualize-map", "virtualize"].contains(&name.as_str()),
                "{name} knows a source and Zarr"
            );
        }
    }
}

#[test]
fn only_the_store_and_the_edges_open_files() {
    for folder in ["hdf5", "dmrpp", "tiff", "map", "zarr", "codec", "emit", "bytes"] {
        let found =
            uses(&workspace().join("crates").join(folder).join("src"), &["File", "OpenOptions", "TcpStream"]);
        let opened: Vec<_> =
            found.iter().filter(|line| line.contains("std::fs") || line.contains("File::open")).collect();
        assert!(opened.is_empty(), "{opened:#?}");
    }
}

#[test]
fn modules_import_in_one_direction() {
    for (name, table) in MODULES {
        let folder = workspace().join("crates").join(name).join("src");
        let roots = reexports(&fs::read_to_string(folder.join("lib.rs")).unwrap());
        for (place, (module, allowed)) in table.iter().enumerate() {
            for other in *allowed {
                let is_above = table.iter().take(place).any(|(above, _)| above == other);
                assert!(is_above, "{name}: {module} may import {other}, which must be listed above it");
            }
        }
        for file in sources(&folder) {
            let path: Vec<_> =
                file.strip_prefix(&folder).unwrap().with_extension("").iter().map(os_text).collect();
            if path == ["lib"] {
                continue;
            }
            let (_, allowed) = table
                .iter()
                .find(|(module, _)| *module == path[0])
                .unwrap_or_else(|| panic!("{name}: module {} is not in the table of this test", path[0]));
            for import in imports(&fs::read_to_string(&file).unwrap(), &path) {
                let known = table.iter().any(|(module, _)| *module == import);
                let module = if known { &import } else { roots.get(&import).unwrap_or(&import) };
                assert!(
                    *module == path[0] || allowed.contains(&module.as_str()),
                    "{}: {} must not import {module} ({import})",
                    file.display(),
                    path[0]
                );
            }
        }
    }
}

#[test]
fn imports_are_found_in_paths_and_nested_groups() {
    let source = "use crate::{\n    Error, plan::{Plan, PlanOptions},\n    values::Scalar, // crate::no\n};\n\
        fn a() -> crate::journal::Journal { mycrate::no() }\nuse super::super::list::Few;\nuse super::own;";
    let path = ["batch".to_owned(), "each".to_owned()];
    let found: Vec<_> = imports(source, &path).into_iter().collect();
    assert_eq!(found, ["Error", "journal", "list", "plan", "values"]);
    let roots = reexports("mod plan;\npub use plan::{\n    Plan, PlanOptions,\n};\npub use error::Error;");
    assert_eq!(roots.into_iter().collect::<Vec<_>>().len(), 3);
}

/// Returns the names that a file imports from the root of its crate: the first segment of each path after `crate::`, or
/// after as many `super::` as lead from the module at `path` to the root.
fn imports(source: &str, path: &[String]) -> BTreeSet<String> {
    let code = without_comments(source);
    let depth = path.iter().filter(|part| *part != "mod").count();
    let root = "super::".repeat(depth);
    let mut found = BTreeSet::new();
    for start in ["crate::", root.as_str()] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                continue;
            }
            // `use super::*` in a module of tests has no first name.
            found.extend(first_names(&code[at + start.len()..]).into_iter().filter(|name| !name.is_empty()));
        }
    }
    found
}

/// Returns the first segment of a path, or of each path in a group in braces.
fn first_names(tree: &str) -> Vec<String> {
    let name = |text: &str| {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
    };
    let Some(group) = tree.strip_prefix('{') else { return vec![name(tree)] };
    let (mut names, mut depth, mut start) = (Vec::new(), 0_u32, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.extend(Some(name(&group[start..at])).filter(|name| !name.is_empty()));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

/// Returns the module from which the crate root re-exports each name.
fn reexports(root: &str) -> BTreeMap<String, String> {
    let code = without_comments(root);
    let uses = code.split(" use ").skip(1).filter_map(|rest| rest.split_once(';')?.0.split_once("::"));
    uses.filter(|(module, _)| *module != "crate")
        .flat_map(|(module, names)| first_names(names).into_iter().map(|name| (name, module.to_owned())))
        .collect()
}

fn without_comments(source: &str) -> String {
    source.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect()
}

fn os_text(part: &std::ffi::OsStr) -> String {
    part.to_str().unwrap().to_owned()
}
