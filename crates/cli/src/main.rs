//! The `virtualize` command.

use std::process::ExitCode;

/// That of glibc keeps ever more free memory when many threads take turns, as those of the service do.
#[cfg(all(feature = "full", target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    ExitCode::from(virtualize_cli::run(std::env::args_os()))
}
