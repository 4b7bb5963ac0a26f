//! What the server says about itself, on standard error.

use tracing::subscriber::SetGlobalDefaultError;

use crate::settings::{LogFormat, LogSettings};

/// Starts the log of this process.
pub fn start(settings: &LogSettings) -> Result<(), SetGlobalDefaultError> {
    let builder = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(settings.level)
        .with_target(false);
    match settings.format {
        LogFormat::Text => tracing::subscriber::set_global_default(builder.with_ansi(false).finish()),
        LogFormat::Json => tracing::subscriber::set_global_default(
            builder.json().flatten_event(true).with_current_span(false).finish(),
        ),
    }
}
