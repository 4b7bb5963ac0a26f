//! Where files without a name are put.

use std::fs::File;
use std::path::Path;

use crate::error::{ErrorKind, Result};
use crate::truth::types::Position;

/// Beside the database, or where that is full, in the system's folder for such files: rules are read also while none can
/// be written.
pub(super) fn spool(
    path: &Path,
    write: impl Fn(&Path) -> Result<(Position, File)>,
) -> Result<(Position, File)> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match write(folder) {
        Err(error) if error.kind() == ErrorKind::Full => write(&std::env::temp_dir()),
        written => written,
    }
}
