//! The files to start from.

use std::time::Duration;

use tidegate::hot::HotOptions;

use crate::config::{file, load};

#[test]
fn the_files_to_start_from_are_right() {
    for (name, limits) in [("minimal", 1), ("dev", 2), ("prod", 3)] {
        let path = format!("{}/../../config/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let (_file, sources) = file(&std::fs::read_to_string(path).unwrap());
        assert_eq!(load(&sources).parts.limits.len(), limits, "{name}");
    }
}

/// Who reaches a server may do everything: one that others reach says that it is meant.
#[test]
fn only_the_file_that_listens_for_others_trusts_the_network() {
    for (name, listens, trusts) in [
        ("dev", "127.0.0.1:8080", false),
        ("prod", "0.0.0.0:8080", true),
        ("minimal", "127.0.0.1:8080", false),
    ] {
        let path = format!("{}/../../config/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let (_file, sources) = file(&std::fs::read_to_string(path).unwrap());
        let settings = load(&sources);
        assert_eq!((settings.listen.as_str(), settings.http.trusted_network), (listens, trusts), "{name}");
    }
}

/// The values of the document that hot pages come from.
#[test]
fn the_files_to_start_from_have_hot_pages_as_they_were() {
    for (name, tracked, trending, window, members, hot, cleanup) in [
        ("dev", 1000, 5, 15, 100, 2, 5),
        ("prod", 5000, 10, 30, 200, 3, 2),
        ("minimal", 100, 3, 10, 50, 2, 10),
    ] {
        let path = format!("{}/../../config/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let (_file, sources) = file(&std::fs::read_to_string(path).unwrap());
        let settings = load(&sources);
        let [space] = settings.parts.hot.as_slice() else { panic!("{name}: {settings:?}") };
        let mut expected = HotOptions::default();
        expected.max_tracked = tracked;
        expected.promotion_threshold = trending;
        expected.window_duration = Duration::from_secs(window * 60);
        expected.max_members_per_page = members;
        expected.hot_threshold = hot;
        expected.cleanup_interval = Duration::from_secs(cleanup * 60);
        assert_eq!((space.name.as_str(), &space.options), ("main", &expected), "{name}");
    }
}

/// The values of the document that sessions come from.
#[test]
fn the_files_to_start_from_have_sessions_as_they_were() {
    for name in ["dev", "prod", "minimal"] {
        let path = format!("{}/../../config/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let (_file, sources) = file(&std::fs::read_to_string(path).unwrap());
        let settings = load(&sources);
        let [space] = settings.parts.sessions.as_slice() else { panic!("{name}: {settings:?}") };
        let options = &space.options;
        assert_eq!((space.name.as_str(), space.is_implied), ("main", false), "{name}");
        assert_eq!((options.grace.as_secs(), options.cleanup_interval.as_secs()), (30, 30), "{name}");
        assert_eq!(options.max_sessions, if name == "minimal" { 1000 } else { 1_000_000 }, "{name}");
    }
}
