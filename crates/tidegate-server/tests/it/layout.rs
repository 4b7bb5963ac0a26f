//! Where things are: whoever knows one part finds the same in another.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn source(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder)
}

/// The names in a folder; of folders those that are, of files without their ending.
fn names(folder: &Path, folders: bool) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let wanted = entries.filter(|path| path.is_dir() == folders);
    wanted.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn every_part_has_the_same_files_in_http_and_in_cli() {
    let parts = names(&source("http"), true);
    assert_eq!(parts, names(&source("cli"), true), "a folder per part in both");
    for part in &parts {
        for (protocol, common) in
            [("http", &["api", "list", "mod", "path", "settings"][..]), ("cli", &["args", "mod", "render"])]
        {
            let files = names(&source(protocol).join(part), false);
            for file in common {
                assert!(files.contains(*file), "{protocol}/{part}/{file}.rs, beside {files:?}");
            }
        }
    }
}

/// What is open belongs to no protocol, and a protocol does not list what there is. What can be
/// set of a part is in its folder, and knows as little.
#[test]
fn parts_know_no_protocol() {
    let of_all = names(&source("parts"), false).into_iter().map(|file| format!("parts/{file}.rs"));
    let of_each = names(&source("http"), true).into_iter().map(|part| format!("http/{part}/settings.rs"));
    for file in of_all.chain(of_each) {
        let text = fs::read_to_string(source(&file)).unwrap();
        for protocol in ["crate::http", "super::", "crate::cli", "axum", "hyper", "crate::api"] {
            let is_known = protocol == "super::" && file.starts_with("parts/");
            assert!(is_known || !text.contains(protocol), "{file} names {protocol}");
        }
    }
}
