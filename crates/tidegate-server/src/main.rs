//! The binary `tidegate`.

use std::process::ExitCode;

/// 10 to 30 % more answers per second than with the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tidegate_server::cli::main()
}
