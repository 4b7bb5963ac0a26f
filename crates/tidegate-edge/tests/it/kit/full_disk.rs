//! A disk that can be full: to a process that is started with it, nothing fits into a folder while the test says so.
//!
//! A real one would need a file system of its own, which only root may have. Here the system's calls say what they would
//! say then, by a library that the process loads in front of them.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

pub(crate) struct FullDisk {
    folder: TempDir,
    full: PathBuf,
}

impl FullDisk {
    /// For that folder, which has room.
    pub(crate) fn of(full: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Whoever the process runs as is to read it.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let source = folder.path().join("full_disk.c");
        std::fs::write(&source, include_str!("full_disk.c")).unwrap();
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(folder.path().join("full_disk.so"))
            .arg(&source)
            .arg("-ldl")
            .output()
            .expect("there is no cc: `apt-get install build-essential`, or ./scripts/test");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self { folder, full: full.canonicalize().unwrap() }
    }

    /// What a process is to have in its environment.
    pub(crate) fn variables(&self) -> [(&'static str, PathBuf); 3] {
        [
            ("LD_PRELOAD", self.folder.path().join("full_disk.so")),
            ("FULL_DISK_FLAG", self.flag()),
            ("FULL_DISK_FOLDER", self.full.clone()),
        ]
    }

    fn flag(&self) -> PathBuf {
        self.folder.path().join("full")
    }

    /// Nothing fits any more.
    pub(crate) fn fill(&self) {
        File::create(self.flag()).unwrap();
    }

    /// There is room again.
    pub(crate) fn free(&self) {
        std::fs::remove_file(self.flag()).unwrap();
    }
}
