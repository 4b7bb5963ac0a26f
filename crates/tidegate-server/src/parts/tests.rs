//! What every kind of part can do, by one table.

use tidegate::Tidegate;
use tidegate::store::PartKind;

use super::*;
use crate::settings::{Flag, Settings, Sources};

fn load(set: &[(&str, &str)]) -> Settings {
    let flag = |(path, value): &(&str, &str)| Flag {
        given_as: "--set",
        path: (*path).to_owned(),
        value: (*value).to_owned(),
    };
    Settings::load(&Sources { flags: set.iter().map(flag).collect(), ..Sources::default() }).unwrap()
}

async fn open(set: &[(&str, &str)]) -> Parts {
    Parts::open(Tidegate::open("memory:").await.unwrap(), &load(set).parts).unwrap()
}

/// A setting of each kind, by its own example.
fn one_of_each() -> Vec<(String, &'static str)> {
    let setting = |about: &About| {
        let (setting, value) = about.example.split_once('=').unwrap();
        (format!("{}.other.{setting}", about.group), value)
    };
    About::all().map(setting).collect()
}

#[test]
fn every_kind_is_set_and_implied_by_one_table() {
    let implied = load(&[]).parts;
    let set = one_of_each();
    let written = load(&set.iter().map(|(path, value)| (path.as_str(), *value)).collect::<Vec<_>>()).parts;
    for about in About::all() {
        assert!(implied.has(about.kind, about.implied), "{about:?}");
        assert!(written.has(about.kind, "other") && !written.has(about.kind, about.implied), "{about:?}");
        assert!(RawSettings::default().names(&[about.group]).is_empty(), "{about:?}");
        let listed = Settings::list();
        assert!(
            listed.iter().any(|(path, _)| path.starts_with(&format!("{}.NAME.", about.group))),
            "{about:?}"
        );
    }
    // Nobody has written down what is implied.
    assert_eq!(implied.written(), []);
    let kinds: Vec<_> = written.written().iter().map(|part| part.kind).collect();
    assert_eq!(kinds, About::all().map(|about| about.kind).collect::<Vec<_>>());
}

#[test]
fn names_in_the_environment_are_found_in_every_group() {
    for about in About::all() {
        let (setting, value) = about.example.split_once('=').unwrap();
        let mut raw = RawSettings::default();
        raw.set(&[about.group, "per-minute", setting], value).unwrap();
        assert_eq!(raw.names(&[about.group]), ["per-minute"], "{about:?}");
    }
}

#[tokio::test]
async fn a_part_is_found_by_both_of_its_names_and_others_are_listed() {
    let parts = open(&[("hot.pages.max_tracked", "7"), ("hot.news.max_tracked", "8")]).await;
    assert_eq!(parts.hot.get("main").unwrap().options().max_tracked, 7);
    assert_eq!(parts.hot.get("pages").unwrap().options().max_tracked, 7);
    let Err(PartError::Unknown(unknown)) = parts.hot.get(&"x".repeat(100)) else { panic!("it is there") };
    let expected = format!("there is no space {:?}; known are: news, pages", "x".repeat(64));
    assert_eq!(unknown.to_string(), expected);
    let Err(PartError::Unknown(unknown)) = parts.limits.get("web") else { panic!("it is there") };
    assert_eq!(unknown.to_string(), "there is no limit \"web\"; known are: api");
}

/// What is open looks after itself, and says so in the metrics.
#[tokio::test]
async fn sessions_that_nobody_wrote_down_are_opened_by_their_first_use() {
    let is_open = |parts: &Parts| parts.gate().metrics().contains("orphan_sessions_deleted_total{");
    let parts = open(&[]).await;
    assert!(!is_open(&parts));
    let first: *const _ = parts.sessions.get("sessions").unwrap();
    assert!(is_open(&parts));
    assert!(std::ptr::eq(first, parts.sessions.get("main").unwrap()), "opened once");
    assert!(is_open(&open(&[("sessions.main.grace", "1s")]).await), "written down it is open at once");
}

/// A block of permits is not worth while for one request.
#[tokio::test]
async fn for_single_requests_there_are_no_leases() {
    let mut settings = load(&[("limits.api.lease", "true")]);
    assert!(settings.parts.limits[0].options.options.lease.is_some());
    settings.open_for(&[], Access::Write).await.unwrap();
    assert!(settings.parts.limits[0].options.options.lease.is_none());
}

#[tokio::test]
async fn who_only_reads_opens_what_is_requested_and_nothing_else() {
    let mut settings = load(&[]);
    settings.open_for(&[(PartKind::Hot, "pages")], Access::Read).await.unwrap();
    let left = About::all().filter(|about| settings.parts.has(about.kind, about.implied));
    assert_eq!(left.map(|it| it.kind).collect::<Vec<_>>(), [PartKind::Hot]);
}
