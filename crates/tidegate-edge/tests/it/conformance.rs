//! What every database of rules does, each case on each.

use serde_json::json;
use tidegate::random::Random;
use tidegate_edge::rule::Draft;
use tidegate_edge::stream::{StreamOptions, Tail};
use tidegate_edge::truth::{Change, Condition, Cursor, Filter, Patch, Refusal, Seq, TruthOptions};

use crate::kit::{SEED, START_MS, World, draft, terms};
use crate::list::pages;
use crate::replica::{Replica, catch_up};

/// Each case on each database.
macro_rules! conformance {
    ($($case:ident),+ $(,)?) => {
        mod on_sqlite {
            $(
                #[tokio::test]
                async fn $case() {
                    super::$case(super::World::sqlite().await).await;
                }
            )+
        }

        mod on_postgres {
            $(
                #[tokio::test]
                async fn $case() {
                    super::$case(super::World::postgres().await).await;
                }
            )+
        }
    };
}

pub(crate) use conformance;

conformance!(
    a_rule_is_made_once_however_often_it_is_sent,
    a_path_is_one_rules,
    a_version_is_changed_once,
    a_patch_changes_what_it_names,
    a_renamed_path_is_one_change_and_the_old_one_is_free,
    deleted_is_gone_and_comes_back_as_new,
    two_rules_exchange_their_paths_in_one_group,
    a_refused_change_fails_no_other,
    ids_and_short_paths_are_made,
    the_nearest_host_and_the_longest_folder_answer,
    who_is_off_or_not_yet_on_is_passed_over_and_who_has_ended_is_not,
    text_comes_back_as_it_went_in,
    a_zero_is_in_no_rule_and_finds_none,
    the_longest_texts_fit,
    a_log_that_does_not_go_back_so_far_says_so,
);

async fn changed(world: &World, change: Change) -> Result<Option<Seq>, Refusal> {
    world.truth.change(change).await.unwrap().map(|written| written.seq)
}

fn replace(id: &str, path: &str, destination: &str, condition: Condition) -> Change {
    Change::Replace { id: id.to_owned(), terms: terms(path, destination), condition }
}

fn delete(id: &str) -> Change {
    Change::Delete { id: id.to_owned(), condition: Condition::None }
}

fn patch(id: &str, patch: serde_json::Value) -> Change {
    let patch: Patch = serde_json::from_value(patch).unwrap();
    Change::Patch { id: id.to_owned(), patch, condition: Condition::None }
}

async fn a_rule_is_made_once_however_often_it_is_sent(world: World) {
    let create = || Change::Create(draft("a", terms("/%61", "https://example.com/")));
    assert_eq!(changed(&world, create()).await, Ok(Some(Seq(1))));
    world.clock.advance_ms(5);
    assert_eq!(changed(&world, create()).await, Ok(None), "the same again");
    let other = Change::Create(draft("a", terms("/b", "https://example.com/")));
    assert_eq!(changed(&world, other).await, Err(Refusal::Exists));
    let rule = world.truth.get("a").await.unwrap().unwrap();
    assert_eq!((&*rule.terms.path, rule.version, rule.clicks), ("/a", 1, 0));
    assert_eq!((rule.created_at, rule.updated_at), (START_MS, START_MS));
    assert_eq!(world.truth.get("b").await.unwrap(), None);
    world.check().await;
}

async fn a_path_is_one_rules(world: World) {
    world.create("a", terms("/a", "/x")).await;
    let taken = Err(Refusal::PathTaken { by: "a".to_owned() });
    assert_eq!(changed(&world, Change::Create(draft("b", terms("/./a", "/y")))).await, taken);
    assert_eq!(changed(&world, replace("b", "/a", "/y", Condition::None)).await, taken);
    let mut elsewhere = terms("/a", "/y");
    elsewhere.host = "example.com".to_owned();
    world.create("b", elsewhere).await;
    assert_eq!(changed(&world, patch("b", json!({"host": null}))).await, taken);
    world.check().await;
}

async fn a_version_is_changed_once(world: World) {
    world.create("a", terms("/a", "/x")).await;
    let to = |destination: &str, version| replace("a", "/a", destination, Condition::Version(version));
    assert_eq!(changed(&world, to("/y", 1)).await, Ok(Some(Seq(2))));
    assert_eq!(changed(&world, to("/y", 1)).await, Ok(None), "its answer was lost");
    assert_eq!(changed(&world, to("/z", 1)).await, Err(Refusal::Changed { version: 2 }));
    assert_eq!(changed(&world, to("/z", 3)).await, Err(Refusal::Changed { version: 2 }));
    assert_eq!(changed(&world, replace("a", "/a", "/z", Condition::Absent)).await, Err(Refusal::Exists));
    assert_eq!(changed(&world, replace("b", "/b", "/z", Condition::Version(1))).await, Err(Refusal::Unknown));
    assert_eq!(changed(&world, replace("b", "/b", "/z", Condition::Exists)).await, Err(Refusal::Unknown));
    assert_eq!(changed(&world, replace("b", "/b", "/z", Condition::Absent)).await, Ok(Some(Seq(3))));
    let stale = Change::Delete { id: "a".to_owned(), condition: Condition::Version(1) };
    assert_eq!(changed(&world, stale).await, Err(Refusal::Changed { version: 2 }));
    world.check().await;
}

async fn a_patch_changes_what_it_names(world: World) {
    let mut given = terms("/a", "/x");
    (given.expires_at, given.note) = (Some(START_MS + 5), "kept".to_owned());
    world.create("a", given).await;
    let change = patch("a", json!({"destination": "/y", "expiresAt": null, "code": 308}));
    assert_eq!(changed(&world, change).await, Ok(Some(Seq(2))));
    let rule = world.truth.get("a").await.unwrap().unwrap();
    assert_eq!((&*rule.terms.destination, rule.terms.expires_at, &*rule.terms.note), ("/y", None, "kept"));
    assert_eq!((rule.terms.code.as_u16(), rule.version), (308, 2));
    for wrong in [json!({"code": 303}), json!({"id": "b"}), json!({"pth": "/b"}), json!({"path": null})] {
        let refused = changed(&world, patch("a", wrong.clone())).await;
        assert!(matches!(refused, Err(Refusal::Invalid(_))), "{wrong}: {refused:?}");
    }
    assert_eq!(changed(&world, patch("b", json!({"note": "x"}))).await, Err(Refusal::Unknown));
    world.check().await;
}

async fn a_renamed_path_is_one_change_and_the_old_one_is_free(world: World) {
    world.create("a", terms("/old", "/x")).await;
    assert_eq!(changed(&world, patch("a", json!({"path": "/new"}))).await, Ok(Some(Seq(2))));
    let (old, _) = world.truth.resolve("example.com", "/old").await.unwrap();
    let (new, position) = world.truth.resolve("example.com", "/new").await.unwrap();
    assert_eq!((old, new.map(|rule| rule.id), position.seq), (None, Some("a".to_owned()), Seq(2)));
    let row = world.log().await.pop().unwrap();
    assert_eq!(row.before.map(|it| it.path).as_deref(), Some("/old"));
    assert_eq!(row.after.map(|it| it.place.path).as_deref(), Some("/new"));
    world.create("b", terms("/old", "/y")).await;
    world.check().await;
}

async fn deleted_is_gone_and_comes_back_as_new(world: World) {
    world.create("a", terms("/a", "/x")).await;
    assert_eq!(changed(&world, delete("a")).await, Ok(Some(Seq(2))));
    assert_eq!(changed(&world, delete("a")).await, Err(Refusal::Unknown));
    assert_eq!(world.truth.resolve("example.com", "/a").await.unwrap().0, None);
    let row = world.log().await.pop().unwrap();
    assert_eq!((row.id.as_deref(), row.after), (Some("a"), None));
    let position = world.truth.position().await.unwrap();
    assert_eq!((position.count, position.digest), (0, Default::default()));
    assert_eq!(world.create("a", terms("/a", "/x")).await.rule.version, 1);
    world.check().await;
}

async fn two_rules_exchange_their_paths_in_one_group(world: World) {
    world.create("/a", terms("/a", "/x")).await;
    world.create("/b", terms("/b", "/x")).await;
    let swap = vec![replace("/a", "/c", "/x", Condition::None), replace("/b", "/a", "/x", Condition::None)];
    let outcomes = world.truth.change_all(swap).await.unwrap();
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(world.truth.resolve("h", "/a").await.unwrap().0.map(|it| it.id).as_deref(), Some("/b"));
    assert_eq!(world.truth.resolve("h", "/c").await.unwrap().0.map(|it| it.id).as_deref(), Some("/a"));
    // In the other order the place is not free yet.
    let swap = vec![replace("/b", "/c", "/x", Condition::None), replace("/a", "/a", "/x", Condition::None)];
    let outcomes = world.truth.change_all(swap).await.unwrap();
    assert_eq!(outcomes[0], Err(Refusal::PathTaken { by: "/a".to_owned() }));
    assert_eq!(outcomes[1], Err(Refusal::PathTaken { by: "/b".to_owned() }));
    world.check().await;
}

async fn a_refused_change_fails_no_other(world: World) {
    world.create("a", terms("/a", "/x")).await;
    let changes = vec![
        Change::Create(draft("b", terms("/b", "/x"))),
        Change::Create(draft("c", terms("/a", "/x"))),
        Change::Create(draft("d", terms("no path", "/x"))),
        delete("e"),
        Change::Create(draft("f", terms("/f", "/x"))),
    ];
    let outcomes = world.truth.change_all(changes).await.unwrap();
    let made: Vec<_> = outcomes.iter().map(|it| it.as_ref().ok().and_then(|it| it.seq)).collect();
    assert_eq!(made, [Some(Seq(2)), None, None, None, Some(Seq(3))]);
    assert_eq!(world.truth.position().await.unwrap().count, 3);
    world.check().await;
}

async fn ids_and_short_paths_are_made(world: World) {
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let draft = tidegate_edge::rule::Draft::new(terms("", "https://example.com/"));
        let rule = world.truth.change(Change::Create(draft)).await.unwrap().unwrap().rule;
        assert_eq!(rule.terms.path, format!("/{}", rule.id));
        assert!(rule.id.len() == 7 && rule.id.bytes().all(|it| it.is_ascii_alphanumeric()), "{}", rule.id);
        ids.insert(rule.id);
    }
    assert_eq!(ids.len(), 50);
    world.check().await;
}

async fn the_nearest_host_and_the_longest_folder_answer(world: World) {
    for (id, host, path) in [
        ("any", "*", "/*"),
        ("any exact", "*", "/docs/a"),
        ("com", "*.com", "/docs/*"),
        ("below", "*.example.com", "/docs/*"),
        ("below long", "*.example.com", "/docs/a/*"),
        ("own", "www.example.com", "/docs/*"),
        ("own exact", "www.example.com", "/docs/a/b"),
    ] {
        let mut terms = terms(path, "https://example.org/");
        terms.host = host.to_owned();
        world.create(id, terms).await;
    }
    for (host, path, expected) in [
        ("www.example.com", "/docs/a/b", "own exact"),
        ("www.example.com", "/docs/a", "own"),
        ("www.example.com", "/x", "any"),
        ("example.com", "/docs/a/b", "below long"),
        ("example.com", "/docs", "below"),
        ("a.b.example.com", "/docs/ab", "below"),
        ("example.net", "/docs/a", "any exact"),
        ("example.net", "/docs/a/", "any"),
        ("other.com", "/docs/a", "com"),
        ("127.0.0.1", "/", "any"),
    ] {
        let found = world.truth.resolve(host, path).await.unwrap().0;
        assert_eq!(found.map(|rule| rule.id).as_deref(), Some(expected), "{host} {path}");
    }
}

async fn who_is_off_or_not_yet_on_is_passed_over_and_who_has_ended_is_not(world: World) {
    world.create("all", terms("/*", "https://example.com/")).await;
    let mut one = terms("/a", "/x");
    (one.starts_at, one.expires_at) = (Some(START_MS + 10), Some(START_MS + 20));
    world.create("one", one).await;
    for (at, expected) in [(9, "all"), (10, "one"), (20, "one"), (21, "one")] {
        world.clock.set(tidegate::clock::Timestamp::from_millis(START_MS + at));
        let (found, position) = world.truth.resolve("h", "/a").await.unwrap();
        assert_eq!(found.map(|rule| rule.id).as_deref(), Some(expected), "{at}");
        assert_eq!(position.time_ms, START_MS + at);
    }
    assert!(changed(&world, patch("one", json!({"enabled": false}))).await.is_ok());
    assert_eq!(world.truth.resolve("h", "/a").await.unwrap().0.map(|it| it.id).as_deref(), Some("all"));
}

async fn text_comes_back_as_it_went_in(world: World) {
    let texts =
        ["100000000000001", "007", "'", "\"", "ü ☃ 𝕏", "a'; DROP TABLE rules; --", "%00", "{}", "null", "\\"];
    for (number, text) in texts.into_iter().enumerate() {
        let mut given = terms(&format!("/{number}"), "https://example.com/?q='%27\"");
        (given.note, given.tags) = (format!("{text}\n"), vec![text.to_owned()]);
        let made = world.create(text, given).await.rule;
        assert_eq!(world.truth.get(text).await.unwrap().as_ref(), Some(&made));
        assert_eq!((&*made.id, &*made.terms.note), (text, &*format!("{text}\n")));
        let mut filter = Filter::default();
        filter.tag = Some(text.to_owned());
        assert_eq!(world.truth.list(filter, None, 10).await.unwrap().rules, [made]);
    }
    world.check().await;
}

async fn a_zero_is_in_no_rule_and_finds_none(world: World) {
    world.create("a", terms("/a", "/x")).await;
    let mut changes = vec![Change::Create(draft("b\0", terms("/b", "/x")))];
    let with = |change: fn(&mut tidegate_edge::rule::Terms)| {
        let mut given = terms("/c", "/x");
        change(&mut given);
        Change::Create(draft("c", given))
    };
    changes.push(with(|it| it.path = "/c\0".to_owned()));
    changes.push(with(|it| it.host = "c\0".to_owned()));
    changes.push(with(|it| it.destination = "/x\0".to_owned()));
    changes.push(with(|it| it.note = "\0".to_owned()));
    changes.push(with(|it| it.tags = vec!["t\0".to_owned()]));
    for change in changes {
        let refused = changed(&world, change.clone()).await;
        assert!(matches!(refused, Err(Refusal::Invalid(_))), "{change:?}: {refused:?}");
    }
    assert_eq!(changed(&world, delete("a\0")).await, Err(Refusal::Unknown));
    assert_eq!(changed(&world, patch("a\0", json!({"note": "x"}))).await, Err(Refusal::Unknown));
    assert_eq!(world.truth.get("a\0").await.unwrap(), None);
    assert_eq!(world.truth.clicks("a\0").await.unwrap(), None);
    assert_eq!(world.truth.resolve("h\0", "/a\0").await.unwrap().0, None);
    for change in [
        (|it| it.host = Some("*\0".to_owned())) as fn(&mut Filter),
        |it| it.path_prefix = Some("/\0".to_owned()),
        |it| it.tag = Some("\0".to_owned()),
        |it| it.destination_prefix = Some("/x\0".to_owned()),
    ] {
        let mut filter = Filter::default();
        change(&mut filter);
        assert_eq!(pages(&world, &filter, 10).await.0, [""; 0], "{filter:?}");
    }
    // Anybody may make up a cursor.
    let text: String =
        r#"{"order":"id","key":"","id":"A\u0000"}"#.bytes().map(|byte| format!("{byte:02x}")).collect();
    let cursor = Cursor::parse(&text, &Filter::default()).unwrap();
    let page = world.truth.list(Filter::default(), Some(cursor), 10).await.unwrap();
    assert_eq!(page.rules.len(), 1);
    world.check().await;
}

/// Texts that no database can make shorter.
async fn the_longest_texts_fit(world: World) {
    use tidegate_edge::rule::{
        MAX_DESTINATION_BYTES, MAX_ID_BYTES, MAX_NOTE_BYTES, MAX_PATH_BYTES, MAX_TAG_BYTES, MAX_TAGS,
    };
    let random = tidegate::random::Random::seeded(3);
    let text = |start: &str, length: usize| {
        let letters = std::iter::repeat_with(|| char::from(b'a' + (random.bits() % 26) as u8));
        start.chars().chain(letters).take(length).collect::<String>()
    };
    let start = "https://example.com/same/start/";
    let mut ids = Vec::new();
    for _ in 0..3 {
        let mut given = terms(&text("/", MAX_PATH_BYTES), &text(start, MAX_DESTINATION_BYTES));
        given.host = [text("", 63), text("", 63), text("", 63), text("", 50)].join(".");
        given.note = text("", MAX_NOTE_BYTES);
        given.tags = (0..MAX_TAGS).map(|_| text("", MAX_TAG_BYTES)).collect();
        let rule = world.create(&text("", MAX_ID_BYTES), given).await.rule;
        let (found, _) = world.truth.resolve(&rule.terms.host, &rule.terms.path).await.unwrap();
        assert_eq!(found.as_ref(), Some(&rule));
        let mut filter = Filter::default();
        filter.destination_prefix = Some(rule.terms.destination.clone());
        assert_eq!(pages(&world, &filter, 1).await.0, [&*rule.id]);
        filter.destination_prefix = Some(format!("{}x", rule.terms.destination));
        assert_eq!(pages(&world, &filter, 1).await.0, [""; 0]);
        ids.push(rule.id);
    }
    let mut filter = Filter::default();
    filter.destination_prefix = Some(start.to_owned());
    let mut found = pages(&world, &filter, 1).await.0;
    found.sort_unstable();
    ids.sort_unstable();
    assert_eq!(found, ids);
    world.check().await;
}

async fn a_log_that_does_not_go_back_so_far_says_so(world: World) {
    for number in 0..3 {
        world.create(&number.to_string(), terms(&format!("/{number}"), "/x")).await;
    }
    let after = async |seq| world.truth.log(Seq(seq), 2).await.unwrap().map(|rows| rows.len());
    assert_eq!([after(0).await, after(2).await, after(3).await], [Some(2), Some(1), Some(0)]);
    assert_eq!(after(4).await, None, "there was no such change yet");
}

#[tokio::test]
async fn the_log_is_bounded() {
    let short = |options: &mut TruthOptions| options.max_log = 10;
    bounds_its_log(World::sqlite_with(short).await).await;
    bounds_its_log(World::postgres_with(short).await).await;
}

async fn bounds_its_log(world: World) {
    for number in 0..25 {
        let id = (number % 5).to_string();
        let terms = terms(&format!("/{id}"), &format!("https://example.com/{number}"));
        let change = Change::Replace { id, terms, condition: Condition::None };
        world.truth.change(change).await.unwrap().unwrap();
        assert_eq!(world.log_rows().await, 10.min(number + 1), "as they are written");
    }
    assert_eq!(world.truth.log(Seq(15), 100).await.unwrap().map(|rows| rows.len()), Some(10));
    assert_eq!(world.truth.log(Seq(14), 100).await.unwrap(), None, "it does not go back so far");
    // Also where more is written at once than it goes back.
    let many = (0..500).map(|number| {
        let (id, path) = (format!("many-{number}"), format!("/many/{number}"));
        Change::Create(draft(&id, terms(&path, "/x")))
    });
    assert!(world.truth.change_all(many.collect()).await.unwrap().iter().all(Result::is_ok));
    assert_eq!(world.log_rows().await, 10);
    let tail = Tail::start(&world.truth, StreamOptions::default());
    catch_up(&mut Replica::default(), &tail, &world.truth).await;
}

/// One that was longer is as short as it is to be after some changes, none of which waits for all of it.
#[tokio::test]
async fn a_log_that_is_too_long_grows_shorter() {
    for world in [World::sqlite().await, World::postgres().await] {
        for first in (0..4500).step_by(500) {
            let many = (first..first + 500).map(|number| {
                let (id, path) = (number.to_string(), format!("/{number}"));
                Change::Create(draft(&id, terms(&path, "/x")))
            });
            assert!(world.truth.change_all(many.collect()).await.unwrap().iter().all(Result::is_ok));
        }
        let world = world.opened_again(|options| options.max_log = 10).await;
        let mut rows = vec![world.log_rows().await];
        for number in 0..3 {
            let change = replace("0", "/0", &format!("/new/{number}"), Condition::None);
            world.truth.change(change).await.unwrap().unwrap();
            rows.push(world.log_rows().await);
        }
        assert_eq!(rows, [4500, 2501, 502, 10]);
    }
}

/// Chance makes an id twice sooner or later: here it makes all of them twice.
#[tokio::test]
async fn an_id_that_is_made_is_nobodys() {
    for world in [World::sqlite().await, World::postgres().await] {
        let draft = || Change::Create(Draft::new(terms("", "https://example.com/")));
        let made = async |world: &World| {
            let outcomes = world.truth.change_all(vec![draft(), draft(), draft()]).await.unwrap();
            let one = world.truth.change(draft()).await.unwrap();
            outcomes.into_iter().chain([one]).map(|it| it.unwrap().rule.id).collect::<Vec<_>>()
        };
        let mut ids = made(&world).await;
        let world = world.opened_again(|options| options.random = Random::seeded(SEED)).await;
        ids.extend(made(&world).await);
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 8, "{ids:?}");
        assert_eq!(world.truth.position().await.unwrap().count, 8);
        world.check().await;
    }
}
