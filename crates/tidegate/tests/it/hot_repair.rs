//! What becomes of a space whose shared keys somebody else has written: it works on as before, within
//! its bounds, without a script that takes long; and who only reads leaves them as they are.

use std::time::Duration;

use redis::{Connection, FromRedisValue};
use tidegate::Tidegate;
use tidegate::clock::Timestamp;
use tidegate::hot::{Edit, HotOptions, Recorded, WhenFull};
use tidegate::store::StoreOptions;
use tidegate::testkit::{Fault, FaultProxy, RedisServer};

use crate::hot::{HOUR, MINUTE, PROMOTED, Space, key, options};
use crate::hot_audit::audit;
use crate::kit::{CLUSTER, REDIS};
use crate::log_lines::LogLines;
use crate::outage::until;

/// A space, and the server with its shared keys.
struct Reached {
    space: Space,
    connection: Connection,
    /// What its keys start with.
    prefix: String,
}

impl Reached {
    /// One on Redis and one in a cluster, each with `pages` that are hot.
    async fn both(pages: usize, set: impl Fn(&mut HotOptions)) -> Vec<Self> {
        vec![
            Self::new(Space::redis(&set).await, pages).await,
            Self::new(Space::cluster(&set).await, pages).await,
        ]
    }

    async fn new(space: Space, pages: usize) -> Self {
        assert_eq!(space.record("first", "1").await, Recorded::Remembered);
        space.fill(&(0..pages).map(|i| format!("hot{i}")).collect::<Vec<_>>(), 2).await;
        let pattern = format!("{}:*hot:state", space.namespace);
        let found = servers(&space).iter().find_map(|server| {
            let mut connection = server.connection();
            let keys: Vec<String> = redis::cmd("KEYS").arg(&pattern).query(&mut connection).unwrap();
            keys.into_iter().next().map(|key| (connection, key.strip_suffix("hot:state").unwrap().to_owned()))
        });
        let (connection, prefix) = found.unwrap();
        Self { space, connection, prefix }
    }

    /// A command on one of its keys, which comes second.
    fn run<T: FromRedisValue>(&mut self, command: &str, family: &str, arguments: &[&str]) -> T {
        let key = format!("{}{family}", self.prefix);
        redis::cmd(command).arg(key).arg(arguments).query(&mut self.connection).unwrap()
    }

    /// A text in the place of a key, with an end, so that only ours are without one.
    fn plant(&mut self, family: &str) {
        let () = self.run("SET", family, &["junk", "PX", "7200000"]);
    }

    fn audit(&self) -> u64 {
        audit(servers(&self.space).iter().map(RedisServer::connection).collect(), &self.space.namespace, HOUR)
    }
}

fn servers(space: &Space) -> &'static [RedisServer] {
    if space.on == "redis" { std::slice::from_ref(&*REDIS) } else { CLUSTER.nodes() }
}

/// New pages were numbered from one again, and so were the oldest, the first to be forgotten.
#[tokio::test]
async fn pages_become_hot_whatever_has_become_of_the_counter_of_activity() {
    let faults: [(&str, &[&str]); 5] = [
        ("SET", &["junk"]),
        ("HSET", &["seq", "junk"]),
        ("HSET", &["seq", "inf"]),
        ("HDEL", &["seq"]),
        ("DEL", &[]),
    ];
    for (command, arguments) in faults {
        for is_read_between in [false, true] {
            for mut it in Reached::both(1, |it| it.max_activity = 100).await {
                let what =
                    format!("{}: {command} {arguments:?}, read between: {is_read_between}", it.space.on);
                let pages: Vec<_> = (0..150).map(|i| format!("cold{i}")).collect();
                it.space.fill(&pages, 1).await;
                // One that was never numbered is no measure.
                let _: u64 = it.run("ZADD", "hot:activities", &["inf", "cold149"]);
                let () = redis::cmd(command)
                    .arg(format!("{}hot:state", it.prefix))
                    .arg(arguments)
                    .exec(&mut it.connection)
                    .unwrap();
                if is_read_between {
                    it.space.hot.list(9).await.unwrap();
                    it.space.stats("hot0").await;
                }
                for page in ["a", "b", "c"] {
                    assert_eq!(it.space.record(page, "1").await, Recorded::Remembered, "{what}");
                }
                for page in ["a", "b", "c"] {
                    assert_eq!(it.space.record(page, "2").await, PROMOTED, "{what}: {page}");
                }
                // The oldest of those from before were forgotten for them, no others.
                assert_eq!(it.space.record("cold148", "2").await, PROMOTED, "{what}");
            }
        }
    }
}

/// A number that can be read, and is too low.
#[tokio::test]
async fn a_cleanup_finds_that_the_counter_of_activity_is_too_low() {
    for mut it in Reached::both(1, |it| it.max_activity = 100).await {
        it.space.fill(&(0..150).map(|i| format!("cold{i}")).collect::<Vec<_>>(), 1).await;
        let _: u64 = it.run("HSET", "hot:state", &["seq", "3"]);
        it.space.hot.cleanup().await.unwrap();
        for id in ["1", "2"] {
            for page in ["a", "b", "c"] {
                let expected = if id == "1" { Recorded::Remembered } else { PROMOTED };
                assert_eq!(it.space.record(page, id).await, expected, "{}: {page}", it.space.on);
            }
        }
    }
}

#[tokio::test]
async fn no_more_pages_are_hot_than_may_be_after_an_index_was_lost() {
    for when_full in [WhenFull::Refuse, WhenFull::ReplaceColdest] {
        for index in ["hot:rank", "hot:due"] {
            let set = |it: &mut HotOptions| (it.max_tracked, it.when_full) = (10, when_full);
            for mut it in Reached::both(10, set).await {
                for round in 0..3 {
                    let what = format!("{}: {index}, {when_full:?}, round {round}", it.space.on);
                    it.plant(index);
                    let pages: Vec<_> = (0..20).map(|i| format!("new{round}-{i}")).collect();
                    it.space.clock.advance_ms(1000);
                    let _ = it.space.fill(&pages, 3).await;
                    // One that is hot is listed again, beside those.
                    it.space.record("hot0", &format!("again{round}")).await;
                    it.space.hot.cleanup().await.unwrap();
                    assert_eq!(it.space.hot.tracked().await.unwrap(), 10, "{what}");
                    it.space.hot.remove(key("first")).await.unwrap();
                    it.space.clock.advance_ms(11 * MINUTE);
                    it.space.hot.cleanup().await.unwrap();
                    // Nothing is left of any that is not listed.
                    let pattern = format!("{}hot:meta:*", it.prefix);
                    let metas: Vec<String> =
                        redis::cmd("KEYS").arg(pattern).query(&mut it.connection).unwrap();
                    assert_eq!(metas.len(), 10, "{what}");
                    assert_eq!(it.audit(), 10, "{what}");
                }
            }
        }
    }
}

/// An index of many pages is made anew in steps: whoever else calls waits for one.
#[tokio::test]
async fn a_lost_index_is_made_whole_in_steps_of_a_few_hundred() {
    for index in ["hot:rank", "hot:due"] {
        for mut it in Reached::both(2000, |it| it.max_tracked = 5000).await {
            let what = format!("{}: {index}", it.space.on);
            it.space.clock.advance_ms(1000);
            let removed = async |it: &mut Reached| {
                it.space.hot.remove(key("nobody")).await.unwrap();
                it.run::<u64>("ZCARD", index, &[])
            };
            it.plant(index);
            let listed = removed(&mut it).await;
            assert!(listed <= 500, "{what}: {listed} by one call");
            let mut steps = vec![listed];
            while *steps.last().unwrap() < 1500 {
                assert!(steps.len() < 40, "{what}: {steps:?}");
                steps.push(removed(&mut it).await);
            }
            let most = steps.windows(2).map(|two| two[1] - two[0]).max().unwrap();
            assert!(most <= 500, "{what}: {steps:?}");
            // Pages come, go and change meanwhile, and the index is lost again.
            it.plant(index);
            removed(&mut it).await;
            it.space.fill(&(0..50).map(|i| format!("late{i}")).collect::<Vec<_>>(), 2).await;
            for page in (0..2000).step_by(40) {
                it.space.record(&format!("hot{page}"), "more").await;
                it.space.hot.remove(key(&format!("hot{}", page + 1))).await.unwrap();
            }
            it.space.hot.cleanup().await.unwrap();
            assert_eq!(it.space.hot.tracked().await.unwrap(), 2000, "{what}");
            it.space.hot.remove(key("first")).await.unwrap();
            assert_eq!(it.audit(), 2000, "{what}");
            let left: Vec<Option<String>> = it.run("HMGET", "hot:state", &["matching", "mended"]);
            assert_eq!(left, [None, None], "{what}");
        }
    }
}

/// Anybody may have written where the steps go on from.
#[tokio::test]
async fn a_place_to_go_on_from_that_cannot_be_read_is_the_beginning() {
    let long = format!("1 {}", "9".repeat(40));
    for place in ["", "junk", "3 0", "1 x", "-1 -1", &*long, "2 9999999999999999999"] {
        for mut it in Reached::both(300, |_| {}).await {
            let _: u64 = it.run("HSET", "hot:state", &["matching", place]);
            it.plant("hot:rank");
            it.space.hot.cleanup().await.unwrap();
            it.space.hot.cleanup().await.unwrap();
            it.space.hot.remove(key("first")).await.unwrap();
            assert_eq!(it.audit(), 300, "{}: {place:?}", it.space.on);
        }
    }
}

/// The keys that were repaired, by the log since the last look.
fn repaired_by(log: &LogLines) -> Vec<String> {
    log.take("and was mended").into_iter().map(|line| line.fields["key"].clone()).collect()
}

/// An answer that does not come takes no warning with it.
#[tokio::test]
async fn what_was_repaired_is_logged_though_an_answer_was_lost() {
    let log = LogLines::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let mut it = Reached::new(Space::redis(|_| {}).await, 3).await;
    let proxy = FaultProxy::start(REDIS.port()).await;
    let mut store = StoreOptions::default();
    store.deadline = Duration::from_millis(900);
    store.namespace = Some(tidegate::Name::new(&it.space.namespace).unwrap());
    store.clock = it.space.clock.clone().into();
    let gate = Tidegate::open_with(&proxy.url(), store).await.unwrap();
    let hot = gate.hot("pages", options(|_| {})).unwrap();
    hot.cleanup().await.unwrap();
    it.plant("hot:rank");
    // Each way takes so long that the call arrives in time, and the answer does not.
    proxy.set(Fault::Delay(Duration::from_millis(600)));
    hot.cleanup().await.unwrap_err();
    until("the call has arrived", async || {
        (it.run::<String>("TYPE", "hot:rank", &[]) == "zset").then_some(())
    })
    .await;
    assert_eq!(repaired_by(&log), [""; 0], "nobody has been told");
    proxy.set(Fault::None);
    until("the store is reached", async || hot.cleanup().await.ok()).await;
    let rank = format!("{}hot:rank", it.prefix);
    assert_eq!(repaired_by(&log), [&*rank]);
    hot.cleanup().await.unwrap();
    it.space.hot.cleanup().await.unwrap();
    assert_eq!(repaired_by(&log), [""; 0], "once");
    // The same again is told again.
    it.plant("hot:rank");
    hot.cleanup().await.unwrap();
    assert_eq!(repaired_by(&log), [&*rank]);
    it.space.hot.cleanup().await.unwrap();
    assert_eq!(repaired_by(&log), [""; 0]);
}

/// Who only looks takes nothing away from whoever has written there; the next edit does.
#[tokio::test]
async fn reading_leaves_a_state_that_is_not_ours_as_it_is() {
    for mut it in Reached::both(3, |_| {}).await {
        let on = it.space.on;
        let mut before = it.space.hot.watch(None).await.unwrap();
        let (_gate, other) = it.space.another(options(|_| {})).await;
        let () = it.run("SET", "hot:state", &["precious"]);
        for hot in [&it.space.hot.clone(), &other] {
            assert!(hot.is_hot(key("hot1")).await.unwrap(), "{on}");
            assert_eq!(hot.stats(key("hot1")).await.unwrap().edits_last_hour, 2, "{on}");
            let all = Timestamp::from_millis(0)..=Timestamp::from_millis(u64::MAX);
            assert_eq!(hot.window(key("hot1"), all).await.unwrap().len(), 2, "{on}");
            let listed = hot.list(2).await.unwrap();
            assert_eq!((listed.len(), hot.tracked().await.unwrap()), (2, 3), "{on}");
            assert_eq!(hot.list_after(Some(&listed[1]), 9).await.unwrap().len(), 1, "{on}");
            hot.watch(Some("0-0")).await.unwrap();
            hot.watch(Some("5-0-7")).await.unwrap();
            hot.watch(None).await.unwrap();
        }
        let mut since = other.watch(None).await.unwrap();
        assert_eq!(it.run::<String>("GET", "hot:state", &[]), "precious", "{on}");
        assert_eq!(it.run::<i64>("PTTL", "hot:state", &[]), -1, "{on}: it has no end of ours");

        // An edit makes it ours again, and who watches knows what happens from then on.
        let edit = |id| Edit::new(key("new"), id, "alice");
        for (id, recorded) in [("1", Recorded::Remembered), ("2", PROMOTED)] {
            assert_eq!(it.space.hot.record(&edit(id)).await.unwrap(), recorded, "{on}");
        }
        assert_eq!(it.run::<String>("TYPE", "hot:state", &[]), "hash", "{on}");
        for watch in [&mut before, &mut since] {
            let seen = async { while watch.next().await.unwrap().page != "new" {} };
            tokio::time::timeout(Duration::from_secs(20), seen).await.expect(on);
        }
    }
}

/// Every edit writes to both, and few renew them: law of the house, nothing is there without an end.
#[tokio::test]
async fn a_window_that_somebody_deleted_has_an_end_with_the_first_edit_that_is_in_it_again() {
    // How many edits come together, and how long ago they were made.
    let kinds = [(1, None), (3, None), (1, Some(5)), (3, Some(500)), (150, Some(9_000))];
    let set = |it: &mut HotOptions| (it.max_members_per_page, it.promotion_threshold) = (1000, 1000);
    for mut it in Reached::both(1, set).await {
        let mut made = 0;
        for (count, ago_ms) in kinds {
            // Those that come with a moment are in its order; those of now in that of their ids.
            let [window, editors] = ["hot:window:hot0", "hot:editors:hot0"];
            for (family, name) in [(window, "a"), (editors, "a"), (window, "y"), (editors, "y")] {
                let what = format!("{}: {count} edits {name}, {ago_ms:?} ms ago: {family}", it.space.on);
                assert_eq!(it.run::<u64>("DEL", family, &[]), 1, "{what}");
                let ids: Vec<_> = (made..made + count).map(|id| format!("{name}{id:05}")).collect();
                made += count;
                let now_ms = it.space.clock.now().as_millis();
                let at = ago_ms.map(|ago_ms| Timestamp::from_millis(now_ms - ago_ms));
                let edits: Vec<_> =
                    ids.iter().map(|id| Edit { at, ..Edit::new(key("hot0"), id, "ann") }).collect();
                let recorded = it.space.hot.record_many(&edits).await.unwrap();
                assert!(recorded.iter().all(|it| *it == Recorded::Added), "{what}: {recorded:?}");
                assert!(it.run::<i64>("PTTL", family, &[]) > 0, "{what}");
            }
        }
    }
}
