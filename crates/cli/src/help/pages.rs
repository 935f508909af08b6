//! What the help of each command shows.

/// The help of a command.
pub(crate) struct Page {
    /// Name of the command.
    pub(crate) name: &'static str,
    /// Options that `-h` lists, the most common first.
    pub(super) common: &'static [&'static str],
    /// Examples, each with its purpose, the most common first. `-h` prints the first two.
    pub(crate) examples: &'static [(&'static str, &'static str)],
    /// Whether the command does nothing without arguments, so that it prints its help.
    pub(super) needs_arguments: bool,
}

impl Page {
    /// Returns the page of a command.
    pub(crate) fn of(command: &clap::Command) -> Option<&'static Self> {
        match command.get_name() {
            "virtualize" => Some(&MAIN),
            name => COMMANDS.iter().find(|page| page.name == name),
        }
    }

    /// Returns the first examples, one per line, each below its purpose.
    pub(super) fn examples(&self, count: usize) -> String {
        let examples = self.examples.iter().take(count);
        examples.map(|(purpose, example)| format!("  # {purpose}\n  {example}\n")).collect()
    }

    /// Returns where `-h` leads to.
    pub(super) fn more(&self) -> String {
        let command = if self.name.is_empty() { String::new() } else { format!(" {}", self.name) };
        format!("\nAll options: virtualize{command} --help")
    }
}

/// Exit statuses, for `--help` and the manual pages.
pub(crate) const EXIT_STATUS: &str = "0 success, 1 failure, 2 wrong usage.";

/// Environment variables, each with its meaning, for the manual pages.
pub(crate) const ENVIRONMENT: &[(&str, &str)] = &[
    ("AWS_*", "Credentials, region and endpoint of S3, as for other clients of AWS."),
    ("GOOGLE_*", "Credentials and endpoint of Google Cloud Storage."),
    ("AZURE_*", "Account, credentials and endpoint of Azure Blob Storage."),
    ("VIRTUALIZE_BEARER_TOKEN", "Bearer token for HTTPS servers."),
    ("RUST_LOG", "Filter of the log on standard error, such as \"info\". Takes precedence over -v."),
    ("NO_COLOR", "If not empty, disables colours."),
    ("CLICOLOR_FORCE", "If not 0, enables colours even if the output is not a terminal."),
    ("COLUMNS", "Width of help texts, from 40 to 120."),
];

pub(super) static MAIN: Page = Page {
    name: "",
    common: &["output", "format", "readable_by", "anonymous", "help"],
    examples: &[
        ("Write kerchunk references of a file", "virtualize granule.nc -o granule.json"),
        ("See how the file maps to Zarr first", "virtualize inspect granule.nc"),
        (
            "Read a public bucket, and write Zarr v3 references",
            "virtualize s3://bucket/scene.tif --anonymous -f zarr3-json -o scene.json",
        ),
        (
            "Combine files along their time dimension",
            "virtualize batch 's3://bucket/era5/**/*.nc' --concat-dim time -o era5.json",
        ),
        ("Explain a message that ends with [fill-value-dropped]", "virtualize explain fill-value-dropped"),
        ("Read a file that is named like a command", "virtualize ./inspect -o inspect.json"),
    ],
    needs_arguments: true,
};

pub(super) static COMMANDS: &[Page] = &[
    Page {
        name: "inspect",
        common: &[
            "array",
            "json",
            "format",
            "readable_by",
            "unpack",
            "option",
            "anonymous",
            "endpoint",
            "verbose",
            "help",
        ],
        examples: &[
            ("Show the arrays of a file", "virtualize inspect granule.nc"),
            ("Show everything about one array", "virtualize inspect granule.nc --array temperature"),
            ("Print the same as JSON", "virtualize inspect s3://bucket/scene.tif --anonymous --json"),
            ("Show the mapping to Zarr v3", "virtualize inspect granule.nc -f zarr3-json"),
        ],
        needs_arguments: true,
    },
    Page {
        name: "batch",
        common: &[
            "output",
            "format",
            "each",
            "concat_dim",
            "stack_dim",
            "on_mismatch",
            "append",
            "on_failure",
            "anonymous",
            "quiet",
            "help",
        ],
        examples: &[
            (
                "Combine files along their time dimension",
                "virtualize batch 's3://bucket/era5/**/*.nc' --concat-dim time -o era5.json",
            ),
            ("Write one output per file", "virtualize batch data/ --each -o refs/"),
            (
                "Stack files along a new dimension, with coordinates from their names",
                "virtualize batch 'data/*.tif' --stack-dim time --coord 'time=name:scene_{time:%Y%m%d}.tif' -o scenes.zarr",
            ),
            (
                "Add new files to an Icechunk repository",
                "virtualize batch 's3://bucket/new/*.nc' --concat-dim time -o s3://bucket/era5.icechunk --append",
            ),
            (
                "Leave out files that failed",
                "virtualize batch 's3://bucket/era5/**/*.nc' --concat-dim time -o era5.json --on-failure skip",
            ),
        ],
        needs_arguments: true,
    },
    Page {
        name: "scan",
        common: &[
            "concat_dim",
            "stack_dim",
            "lists",
            "include",
            "output",
            "json",
            "fail_on_mismatch",
            "anonymous",
            "quiet",
            "help",
        ],
        examples: &[
            (
                "Report which files can be combined along time",
                "virtualize scan 'data/*.nc' --concat-dim time",
            ),
            (
                "Fail if files are not compatible",
                "virtualize scan data/ --concat-dim time --fail-on-mismatch",
            ),
            (
                "Read a sample of a large archive",
                "virtualize scan 's3://bucket/era5/**/*.nc' --concat-dim time --sample 20",
            ),
            ("Write a detailed report", "virtualize scan s3://bucket/era5/ --concat-dim time -o report.json"),
        ],
        needs_arguments: true,
    },
    Page {
        name: "journal",
        common: &["json", "help"],
        examples: &[
            ("Show the state of the batch that writes era5.json", "virtualize journal era5.json.journal"),
            ("Print it as JSON", "virtualize journal era5.json.journal --json"),
        ],
        needs_arguments: true,
    },
    Page {
        name: "convert",
        common: &[
            "output",
            "format",
            "strict",
            "overwrite",
            "rewrite_url",
            "relative_to",
            "version",
            "anonymous",
            "verbose",
            "help",
        ],
        examples: &[
            (
                "Rewrite kerchunk JSON as Parquet",
                "virtualize convert refs.json -f kerchunk-parquet -o refs.parquet",
            ),
            (
                "Commit references to an Icechunk repository",
                "virtualize convert refs.json -f icechunk -o repo",
            ),
            (
                "Change the location of the source files",
                "virtualize convert refs.json --rewrite-url /data=s3://bucket/data -o moved.json",
            ),
        ],
        needs_arguments: true,
    },
    Page {
        name: "validate",
        common: &[
            "sample",
            "full",
            "json",
            "relative_to",
            "version",
            "anonymous",
            "endpoint",
            "verbose",
            "help",
        ],
        examples: &[
            ("Check references, and decode four chunks per array", "virtualize validate refs.json"),
            ("Decode all chunks", "virtualize validate refs.json --full"),
            (
                "Check the head of a branch of an Icechunk repository",
                "virtualize validate s3://bucket/repo --version-of dev",
            ),
        ],
        needs_arguments: true,
    },
    Page {
        name: "diff",
        common: &["ignore_urls", "relative_to", "version", "anonymous", "endpoint", "verbose", "help"],
        examples: &[
            ("Compare two reference sets", "virtualize diff old.json new.json"),
            ("Compare references with the file", "virtualize diff refs.json granule.nc"),
            (
                "Compare references to a file and to its copy",
                "virtualize diff refs.json moved.json --ignore-urls",
            ),
        ],
        needs_arguments: true,
    },
    Page {
        name: "explain",
        common: &["help"],
        examples: &[
            (
                "Print cause and cure of a message that ends with [fill-value-dropped]",
                "virtualize explain fill-value-dropped",
            ),
            ("List all codes", "virtualize explain"),
        ],
        needs_arguments: false,
    },
    Page {
        name: "options",
        common: &["json", "help"],
        examples: &[
            ("List the rare options", "virtualize options"),
            ("Set a rare option", "virtualize granule.nc -o granule.json --option inline-limit=64M"),
        ],
        needs_arguments: false,
    },
    Page {
        name: "serve",
        common: &["config", "listen", "allow", "token_file", "public", "cors", "memory", "anonymous", "help"],
        examples: &[
            ("Serve a bucket on this machine", "virtualize serve --allow s3://bucket/ --anonymous"),
            (
                "Serve a folder to everybody",
                "virtualize serve --listen 0.0.0.0:8080 --public --allow file:///data/",
            ),
            ("Read the settings from a file", "virtualize serve --config serve.toml"),
        ],
        needs_arguments: false,
    },
    Page {
        name: "completions",
        common: &["help"],
        examples: &[
            (
                "Complete commands in bash",
                "virtualize completions bash > ~/.local/share/bash-completion/completions/virtualize",
            ),
            ("Complete commands in zsh", "virtualize completions zsh > ~/.zfunc/_virtualize"),
            (
                "Complete commands in fish",
                "virtualize completions fish > ~/.config/fish/completions/virtualize.fish",
            ),
        ],
        needs_arguments: true,
    },
    Page {
        name: "man",
        common: &["help"],
        examples: &[("Write all manual pages", "virtualize man ~/.local/share/man/man1")],
        needs_arguments: true,
    },
];
