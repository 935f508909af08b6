//! Runs the built binary: help texts, suggestions, completions and manual pages.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// Every command; "" is `virtualize FILE`.
const COMMANDS: [&str; 13] = [
    "",
    "inspect",
    "batch",
    "scan",
    "journal",
    "convert",
    "validate",
    "diff",
    "explain",
    "options",
    "serve",
    "completions",
    "man",
];

fn run(arguments: &[&str], columns: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_virtualize"))
        .args(arguments.iter().filter(|argument| !argument.is_empty()))
        .env("COLUMNS", columns)
        .env_remove("RUST_LOG")
        .env_remove("CLICOLOR_FORCE")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn fixture(name: &str) -> String {
    format!("{}/../../fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Checks that a run fails with this status, and that its message has these words.
fn refuses(arguments: &[&str], status: i32, words: &[&str]) {
    let output = run(arguments, "100");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {message}");
    for word in words {
        assert!(message.contains(word), "{arguments:?}: {word} is not in {message}");
    }
}

#[test]
fn short_help_fits_one_screen() {
    for (columns, width) in [("80", 80), ("100", 100)] {
        for command in COMMANDS {
            let help = text(&run(&[command, "-h"], columns).stdout);
            assert!(help.lines().count() <= 40, "{} lines:\n{help}", help.lines().count());
            assert!(help.contains("Examples:\n  # ") && help.contains("--help"), "{help}");
            let (options, _) = help.split_once("Examples:").unwrap();
            assert!(options.lines().all(|line| line.chars().count() <= width), "{help}");
        }
    }
}

#[test]
fn long_help_groups_all_options() {
    for command in COMMANDS {
        let (short, long) = (run(&[command, "-h"], "100"), run(&[command, "--help"], "100"));
        let (short, long) = (text(&short.stdout), text(&long.stdout));
        assert!(long.contains("Examples:\n  # ") && long.contains("Exit status: 0"), "{long}");
        let options = short.lines().filter_map(|line| line.split_once("--")?.1.split([' ', ',']).next());
        for option in options {
            assert!(long.contains(&format!("--{option}")), "{command}: {option}");
        }
    }
    let help = text(&run(&["--help"], "100").stdout);
    assert!(help.lines().count() <= 110, "{} lines:\n{help}", help.lines().count());
    assert!(help.matches("\n  -").count() + help.matches("\n      --").count() <= 25, "{help}");
}

#[test]
fn a_command_without_arguments_prints_its_short_help() {
    for command in ["", "inspect", "batch", "scan", "journal", "convert", "validate", "diff"] {
        let output = run(&[command], "100");
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(text(&output.stderr), text(&run(&[command, "-h"], "100").stdout));
    }
    assert_eq!(run(&["help"], "100").stdout, run(&["--help"], "100").stdout);
    assert_eq!(run(&["help", "batch"], "100").stdout, run(&["batch", "--help"], "100").stdout);
}

#[test]
fn mistyped_commands_are_recognized() {
    for arguments in [&["inspct"][..], &["inspct", "a.nc"], &["inspct", "--json", "a.nc"]] {
        refuses(arguments, 2, &["error: inspct: neither a file nor a command; did you mean \"inspect\"?"]);
    }
    refuses(&["combine", "a.nc"], 2, &["neither a file nor a command", "existing commands: inspect, batch"]);
    refuses(&["granule"], 1, &["granule: not found"]);
    refuses(&["a.nc", "b.nc"], 2, &["expected one FILE (use `virtualize batch` for several files)"]);
    refuses(&["help", "bach"], 2, &["bach"]);
}

#[test]
fn mistyped_options_and_values_are_recognized() {
    let (tiff, hdf5) = (fixture("tiff/tiles.tif"), fixture("hdf5/netcdf4.nc"));
    refuses(&[&tiff, "--fromat", "zarr3"], 2, &["a similar argument exists: '--format'"]);
    refuses(&["batch", &hdf5, "--concat-dmi", "time"], 2, &["a similar argument exists: '--concat-dim'"]);
    refuses(&[&tiff, "-f", "zarr3-jsn"], 2, &["a similar value exists: 'zarr3-json'"]);
    refuses(&["batch", &hdf5, "--on-mismatch", "spilt"], 2, &["a similar value exists: 'split'"]);
    refuses(&["completions", "bsh"], 2, &["a similar value exists: 'bash'"]);
    let meant = "inline-limt: unknown option; did you mean \"inline-limit\"?";
    refuses(&[&tiff, "--option", "inline-limt=1M"], 2, &[meant]);
    refuses(&[&tiff, "--option", "ifd=x"], 2, &["ifd: expected a number such as 2"]);
    refuses(&[&tiff, "--readable-by", "zar-python"], 2, &["did you mean \"zarr-python\"?"]);
    refuses(&[&tiff, "--readable-by", "zarr-python+imagcodecs"], 2, &["did you mean \"imagecodecs\"?"]);
    refuses(&["s3://b/k", "--store-option", "aws_regin=x"], 2, &["did you mean \"aws_region\"?"]);
    refuses(&["https://h/k", "--store-option", "timeuot=1s"], 2, &["did you mean \"timeout\"?"]);
    let named = ["batch", &hdf5, "--concat-dim", "time", "-o", "out.jsn"];
    refuses(&named, 2, &["did you mean \"out.json\"?", "give --format"]);
}

#[test]
fn mistyped_names_in_files_are_recognized() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, out, repository) = (fixture("hdf5/netcdf4.nc"), path("out.json"), path("repository"));
    let batch = |more: &[&str], status, words: &[&str]| {
        refuses(&[&["batch", &file, "-o", &out, "--restart"], more].concat(), status, words);
    };
    let dimensions = "did you mean \"time\"? existing dimensions: lat, level, lon, time";
    batch(&["--concat-dim", "tiem"], 1, &[dimensions]);
    batch(&["--stack-dim", "m", "--coord", "m=attribute:titel"], 1, &["did you mean \"title\"?"]);
    batch(
        &["--stack-dim", "member", "--coord", "membr=name:netcdf{membr:d}.nc"],
        1,
        &["did you mean \"member\"?"],
    );
    for rule in ["vary", "first", "optional"] {
        let note = "note: tempertur: no file has this array; did you mean \"temperature\"? existing arrays: ";
        batch(&["--concat-dim", "time", "--var", &format!("tempertur={rule}")], 0, &[note]);
    }
    refuses(
        &[&fixture("tiff/tiles.tif"), "--option", "ifd=9"],
        1,
        &["the file has no image 9; existing images: 0"],
    );
    let commit = |more: &[&str], status, words: &[&str]| {
        refuses(&[&[file.as_str(), "-f", "icechunk", "-o", &repository], more].concat(), status, words);
    };
    commit(&[], 0, &[]);
    commit(&["--branch", "mian"], 1, &["did you mean \"main\"? existing branches: main"]);
    refuses(&["validate", &repository, "--version-of", "mian"], 1, &["did you mean \"main\"?"]);
}

/// Returns what bash offers for the last word.
#[cfg(unix)]
fn completed(script: &Path, words: &[&str]) -> Vec<String> {
    let quoted: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    let program = format!(
        "source '{}'; COMP_WORDS=({}); COMP_CWORD={}; _virtualize virtualize '{}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        quoted.join(" "),
        words.len() - 1,
        words.last().unwrap(),
        words.iter().rev().nth(1).unwrap(),
    );
    let output = Command::new("bash").args(["--norc", "-c", &program]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[cfg(unix)]
#[test]
fn bash_completes_commands_options_values_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("virtualize.bash");
    let file = folder.path().join("granule.nc");
    fs::write(&script, run(&["completions", "bash"], "100").stdout).unwrap();
    fs::write(&file, "").unwrap();
    let offered = |words: &[&str]| completed(&script, words);
    assert_eq!(offered(&["virtualize", "insp"]), ["inspect"]);
    assert_eq!(offered(&["virtualize", "batch", "--concat-d"]), ["--concat-dim"]);
    let formats = ["kerchunk-json", "zarr3-json", "zarr3", "kerchunk-parquet", "icechunk"];
    assert_eq!(offered(&["virtualize", "a.nc", "--format", ""]), formats);
    assert_eq!(offered(&["virtualize", "batch", "a.nc", "-f", "k"]), ["kerchunk-json", "kerchunk-parquet"]);
    assert_eq!(offered(&["virtualize", "inspect", "--readable-by", "zarrs"]), ["zarrs"]);
    assert_eq!(offered(&["virtualize", "explain", "fill-value-d"]), ["fill-value-dropped"]);
    assert!(offered(&["virtualize", "completions", ""]).contains(&"fish".to_owned()));
    let file = file.to_str().unwrap();
    let start = file.strip_suffix("ule.nc").unwrap();
    assert_eq!(offered(&["virtualize", "batch", "--list", start]), [file]);
    // Without an offer, bash completes names of files.
    assert_eq!(offered(&["virtualize", "inspect", start]), [""]);
    let registered = "complete -F _virtualize -o nosort -o bashdefault -o default virtualize";
    assert!(fs::read_to_string(&script).unwrap().contains(registered));
}

/// Returns the output of a program for some arguments; `None` if it is not installed.
fn checked(program: &str, arguments: &[&str], file: &Path) -> Option<String> {
    let output = Command::new(program).args(arguments).arg(file).output().ok()?;
    Some(text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn other_shells_accept_their_scripts() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let script = folder.path().join(shell);
        let output = run(&["completions", shell], "100");
        assert!(output.status.success() && output.stdout.len() > 10_000, "{shell}");
        fs::write(&script, output.stdout).unwrap();
        if ["zsh", "fish"].contains(&shell) {
            assert_eq!(checked(shell, &["-n"], &script).unwrap_or_default(), "");
        }
    }
}

#[test]
fn manual_pages_are_complete() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("man1");
    assert!(run(&["man", folder.to_str().unwrap()], "100").status.success());
    for command in COMMANDS.into_iter().filter(|command| *command != "man") {
        let name = if command.is_empty() { "virtualize".to_owned() } else { format!("virtualize-{command}") };
        let path = folder.join(format!("{name}.1"));
        let page = fs::read_to_string(&path).unwrap();
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "\"EXIT STATUS\"", "ENVIRONMENT"] {
            assert!(page.contains(&format!(".SH {section}\n")), "{name}: {section}");
        }
        let problems = checked("mandoc", &["-Tlint", "-Wwarning"], &path).unwrap_or_default();
        assert!(!problems.contains("ERROR:") && !problems.contains("UNSUPP:"), "{problems}");
    }
    let page = folder.join("virtualize-batch.1");
    if let Some(shown) = checked("man", &["-P", "cat", "-l"], &page) {
        assert!(shown.contains("--concat-dim"), "{shown}");
    }
}
