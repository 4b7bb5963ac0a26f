//! What hot pages promise beside the cases of [`tidegate::testkit::hot`]: keys, options,
//! spaces that do not share. And what all tests of hot pages are made of.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::hot::{Edit, EventKind, Hot, HotOptions, HotPage, Recorded, Stats, WhenFull};
use tidegate::store::StoreOptions;
pub(crate) use tidegate::testkit::hot::options;
use tidegate::testkit::hot::wrong_edits;
use tidegate::testkit::{RedisServer, unique};
use tidegate::{ErrorKind, Key, Name, Tidegate};

use crate::hot_audit::audit;
use crate::kit::{CLUSTER, REDIS};

pub(crate) const START_MS: u64 = 1_700_000_000_000;
pub(crate) const MINUTE: u64 = 60_000;
pub(crate) const HOUR: u64 = 3_600_000;

/// A space of its own on some store, with a clock that the test moves.
pub(crate) struct Space {
    /// The kind of store, for messages.
    pub(crate) on: &'static str,
    pub(crate) url: String,
    pub(crate) namespace: String,
    pub(crate) clock: ManualClock,
    pub(crate) gate: Tidegate,
    pub(crate) hot: Hot,
}

/// A gate with everything that tests share: time to answer, and few partitions.
pub(crate) async fn open(url: &str, namespace: &str, clock: Option<&ManualClock>) -> Tidegate {
    let mut options = StoreOptions::default();
    options.deadline = Duration::from_secs(10);
    options.namespace = Some(Name::new(namespace).unwrap());
    if url.starts_with("redis-cluster") {
        options.partitions = Some(8);
    }
    if let Some(clock) = clock {
        options.clock = clock.clone().into();
    }
    Tidegate::open_with(url, options).await.unwrap()
}

impl Space {
    pub(crate) async fn on(on: &'static str, url: &str, options: HotOptions) -> Self {
        let (namespace, clock) = (unique("h"), ManualClock::at(Timestamp::from_millis(START_MS)));
        let gate = open(url, &namespace, Some(&clock)).await;
        let hot = gate.hot("pages", options).unwrap();
        Self { on, url: url.to_owned(), namespace, clock, gate, hot }
    }

    pub(crate) async fn memory(set: impl FnOnce(&mut HotOptions)) -> Self {
        Self::on("memory", "memory:", options(set)).await
    }

    pub(crate) async fn redis(set: impl FnOnce(&mut HotOptions)) -> Self {
        Self::on("redis", &REDIS.url(), options(set)).await
    }

    pub(crate) async fn cluster(set: impl FnOnce(&mut HotOptions)) -> Self {
        Self::on("cluster", &CLUSTER.url(), options(set)).await
    }

    /// One on each kind of store.
    pub(crate) async fn everywhere(set: impl Fn(&mut HotOptions)) -> [Self; 3] {
        [Self::memory(&set).await, Self::redis(&set).await, Self::cluster(&set).await]
    }

    /// What another process would have of the same data.
    pub(crate) async fn another(&self, options: HotOptions) -> (Tidegate, Hot) {
        let gate = open(&self.url, &self.namespace, Some(&self.clock)).await;
        let hot = gate.hot("pages", options).unwrap();
        (gate, hot)
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now().as_millis()
    }

    pub(crate) fn set(&self, ms: u64) {
        self.clock.set(Timestamp::from_millis(ms));
    }

    /// An edit by alice, made now.
    pub(crate) async fn record(&self, page: &str, id: &str) -> Recorded {
        self.hot.record(&Edit::new(key(page), id, "alice")).await.unwrap()
    }

    /// The same, made at some other time.
    pub(crate) async fn record_at(&self, page: &str, id: &str, at_ms: u64) -> Recorded {
        let at = Some(Timestamp::from_millis(at_ms));
        self.hot.record(&Edit { at, ..Edit::new(key(page), id, "alice") }).await.unwrap()
    }

    /// `count` edits of each of `pages`, in few round trips.
    pub(crate) async fn fill(&self, pages: &[String], count: usize) -> Vec<Recorded> {
        let ids: Vec<_> = (0..count).map(|i| format!("fill{i}")).collect();
        let edits: Vec<_> =
            pages.iter().flat_map(|page| ids.iter().map(|id| Edit::new(key(page), id, "alice"))).collect();
        self.hot.record_many(&edits).await.unwrap()
    }

    pub(crate) async fn stats(&self, page: &str) -> Stats {
        self.hot.stats(key(page)).await.unwrap()
    }

    /// All that is in the window of a page, as `id@ms` after the start.
    pub(crate) async fn window(&self, page: &str) -> Vec<String> {
        let all = Timestamp::from_millis(0)..=Timestamp::from_millis(u64::MAX);
        let edits = self.hot.window(key(page), all).await.unwrap();
        edits
            .iter()
            .map(|it| format!("{}@{}", it.id, it.at.as_millis().wrapping_sub(START_MS) as i64))
            .collect()
    }

    /// The hottest pages with their edits.
    pub(crate) async fn list(&self, limit: usize) -> Vec<(String, u64)> {
        self.hot.list(limit).await.unwrap().into_iter().map(|it| (it.page, it.edits)).collect()
    }

    pub(crate) fn metric(&self, name: &str) -> u64 {
        metric(&self.gate, name)
    }
}

/// A metric of the space `pages`.
pub(crate) fn metric(gate: &Tidegate, name: &str) -> u64 {
    let (text, start) = (gate.metrics(), format!("{name}{{space=\"pages\"}} "));
    let value = text.lines().find_map(|line| line.strip_prefix(&start));
    value.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
}

pub(crate) fn key(text: &str) -> Key<'_> {
    Key::new(text).unwrap()
}

pub(crate) const PROMOTED: Recorded = Recorded::Promoted { replaced: None };

pub(crate) fn replaced(page: &str) -> Recorded {
    Recorded::Promoted { replaced: Some(page.to_owned()) }
}

/// A number from the environment, so that the full size can be asked for.
pub(crate) fn from_env(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Waits for `count` events.
pub(crate) async fn events(watch: &mut tidegate::hot::Watch, count: usize) -> Vec<tidegate::hot::Event> {
    let mut seen = Vec::new();
    for number in 0..count {
        let next = tokio::time::timeout(Duration::from_secs(30), watch.next()).await;
        seen.push(next.unwrap_or_else(|_| panic!("event {number} of {count} is missing: {seen:?}")).unwrap());
    }
    seen
}

/// However far behind the data the clock is, no key ends before what is in it.
#[tokio::test]
async fn keys_outlive_their_data_though_the_clock_steps_back() {
    let space = Space::redis(|it| it.window_duration = Duration::from_secs(4 * 3600)).await;
    let window = 4 * HOUR;
    space.fill(&["p".to_owned()], 2).await;
    space.record("q", "a").await;
    space.set(START_MS - window);
    assert_eq!(space.record("p", "again").await, Recorded::Added);
    assert_eq!(space.record("r", "a").await, Recorded::Remembered);
    let mut connection = REDIS.connection();
    let mut ttl = |name: &str| -> u64 {
        redis::cmd("PTTL").arg(format!("{}:{name}", space.namespace)).query(&mut connection).unwrap()
    };
    for name in ["hot:window:p", "hot:meta:p", "hot:editors:p", "hot:rank", "hot:due", "hot:state"] {
        assert!(ttl(name) >= 2 * window, "{name} ends in {} ms, its data in {}", ttl(name), 2 * window);
    }
    assert!(ttl("activity:r") >= window + 10 * MINUTE, "{}", ttl("activity:r"));
}

#[tokio::test]
async fn spaces_and_namespaces_do_not_share() {
    for space in Space::everywhere(|_| {}).await {
        let on = space.on;
        let other = space.gate.hot("articles", HotOptions::default()).unwrap();
        space.fill(&["p".to_owned()], 3).await;
        assert_eq!(other.record(&Edit::new(key("p"), "fill0", "bob")).await.unwrap(), Recorded::Remembered);
        assert!(!other.is_hot(key("p")).await.unwrap(), "{on}");
        assert_eq!((space.hot.tracked().await.unwrap(), other.tracked().await.unwrap()), (1, 0), "{on}");
        let mut watch = other.watch(Some("0-0")).await.unwrap();
        assert_eq!(other.record(&Edit::new(key("p"), "b", "bob")).await.unwrap(), PROMOTED, "{on}");
        assert_eq!(other.stats(key("p")).await.unwrap().edits_last_hour, 2, "{on}");
        assert_eq!(events(&mut watch, 1).await[0].kind, EventKind::Promoted, "{on}");
        let elsewhere = Space::on(on, &space.url, HotOptions::default()).await;
        assert_eq!(elsewhere.hot.tracked().await.unwrap(), 0, "{on}");
        assert_eq!(elsewhere.record("p", "fill0").await, Recorded::Remembered, "{on}");
        let again = space.gate.hot("pages", HotOptions::default()).unwrap();
        assert_eq!(again.tracked().await.unwrap(), 1, "{on}: asked again it is the same");
        let error = space.gate.hot("pages", options(|it| it.max_tracked = 7)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{on}: {error}");
        assert!(error.to_string().contains("pages"), "{on}: {error}");
    }
}

#[tokio::test]
async fn of_a_batch_with_a_wrong_edit_nothing_is_recorded() {
    let long = "x".repeat(256);
    assert!(Key::new("").is_err() && Key::new(&long).is_err());
    for space in Space::everywhere(|_| {}).await {
        let on = space.on;
        assert_eq!(space.record("p", "first").await, Recorded::Remembered);
        let good = Edit::new(key("p"), "good", "bob");
        for edit in wrong_edits(good, &long) {
            let error = space.hot.record_many(&[good, edit]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{on}: {edit:?}: {error}");
        }
        assert!(!space.stats("p").await.is_hot, "{on}");
    }
}

#[tokio::test]
async fn any_place_can_be_gone_on_from() {
    for space in Space::everywhere(|it| it.max_tracked = 1000).await {
        let on = space.on;
        space.fill(&["p".to_owned(), "q".to_owned()], 2).await;
        let now = space.clock.now();
        let (first, last) = (HotPage::new("", u64::MAX, now), HotPage::new("", 0, now));
        assert_eq!(space.hot.list_after(Some(&first), 1000).await.unwrap().len(), 2, "{on}");
        assert_eq!(space.hot.list_after(Some(&last), 1000).await.unwrap(), [], "{on}");
    }
}

#[tokio::test]
async fn options_that_cannot_be_are_refused() {
    let gate = Tidegate::open("memory:").await.unwrap();
    let wrong: [(_, fn(&mut HotOptions)); 19] = [
        ("a window_duration of 999ms is not allowed: 1s to 7 days are", |it| {
            it.window_duration = Duration::from_millis(999);
        }),
        ("a window_duration of 604800.5s is not allowed: 1s to 7 days are", |it| {
            it.window_duration = Duration::from_millis(604_800_500);
        }),
        ("a max_bytes of 2097151 is not allowed: at least 2097152 is", |it| {
            (it.partitions, it.max_bytes) = (2, (2 << 20) - 1);
        }),
        ("hot_threshold", |it| it.hot_threshold = 0),
        ("hot_threshold", |it| it.hot_threshold = 101),
        ("promotion_threshold", |it| it.promotion_threshold = 0),
        ("a hot_threshold of 5 is not allowed: 1 to 4 are", |it| {
            (it.hot_threshold, it.max_members_per_page) = (5, 4);
        }),
        ("a number of count_slots of 0 is not allowed: 1 to 128 are", |it| it.count_slots = 0),
        ("count_slots", |it| it.count_slots = 129),
        ("window_duration", |it| it.window_duration = Duration::from_millis(999)),
        ("max_tracked", |it| it.max_tracked = 0),
        ("max_members_per_page", |it| it.max_members_per_page = 1),
        ("max_members_per_page", |it| it.max_members_per_page = 4001),
        ("max_activity", |it| it.max_activity = 0),
        ("partitions", |it| it.partitions = 0),
        ("a max_tracked of 7 is not allowed: 8 to", |it| (it.partitions, it.max_tracked) = (8, 7)),
        ("spike_ratio", |it| it.spike_ratio = f64::NAN),
        ("cleanup_interval", |it| it.cleanup_interval = Duration::ZERO),
        ("max_bytes", |it| it.max_bytes = 1000),
    ];
    for (what, set) in wrong {
        let mut options = HotOptions::default();
        set(&mut options);
        let error = gate.hot("pages", options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(what), "{what}: {error}");
    }
    let odd = options(|it| it.window_duration = Duration::from_millis(1999));
    let space = Space::on("memory", "memory:", odd).await;
    space.fill(&["p".to_owned()], 2).await;
    space.set(START_MS + 1998);
    assert_eq!(space.hot.tracked().await.unwrap(), 1, "a part of a second is not lost");
}

/// Whatever the caller calls a page, an edit or an editor: nothing chooses a slot,
/// and nothing is taken for something else.
#[test]
fn any_page_id_and_editor_will_do_in_a_cluster() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let space = runtime.block_on(Space::cluster(|it| {
        (it.partitions, it.max_tracked) = (3, 10);
        it.when_full = WhenFull::ReplaceColdest;
    }));
    let text = || prop_oneof!["[{}:a]{1,12}", "\\PC{1,40}", "[^\u{0}]{1,60}", "[%\\[\\]^$().*+?|-]{1,9}"];
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    runner
        .run(&(text(), text(), text(), text()), |(page, id, more, editor)| {
            prop_assume!([&page, &id, &more, &editor].iter().all(|it| it.len() <= 255 && !it.contains('\0')));
            prop_assume!(id != more);
            runtime.block_on(async {
                space.clock.advance_ms(1);
                let key = Key::new(&page).unwrap();
                let [id, more] = [&id, &more].map(|it| format!("{it}{}", space.now()));
                for id in [&id, &more] {
                    space.hot.record(&Edit::new(key, id, &editor)).await.unwrap();
                }
                let now = Timestamp::from_millis(space.now());
                let window = space.hot.window(key, now..=now).await.unwrap();
                let mut expected = [&id, &more];
                expected.sort();
                let seen: Vec<_> = window.iter().map(|it| (&it.id, &it.editor)).collect();
                prop_assert_eq!(seen, expected.map(|it| (it, &editor)));
                prop_assert!(space.hot.list(1000).await.unwrap().iter().any(|it| it.page == page));
                Ok(())
            })
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    let connections = CLUSTER.nodes().iter().map(RedisServer::connection).collect();
    assert!(audit(connections, &space.namespace, HOUR) >= 9, "three in each partition");
}

/// A deploy with other numbers finds the data of the last one: nothing loops, and the
/// new bounds hold as soon as there is something to do.
#[tokio::test]
async fn other_numbers_after_a_deploy_take_the_data_over() {
    for (url, on) in [(REDIS.url(), "redis"), (CLUSTER.url(), "cluster")] {
        let quarter = options(|it| it.window_duration = Duration::from_secs(900));
        let space = Space::on(on, &url, quarter).await;
        space.fill(&["p".to_owned(), "q".to_owned()], 9).await;
        let (_gate, longer) = space.another(HotOptions::default()).await;
        space.set(START_MS + 900_000);
        let counted = tokio::time::timeout(Duration::from_secs(30), longer.tracked()).await;
        assert_eq!(counted.expect("a count that ends").unwrap(), 2, "{on}: the window is an hour now");
        assert_eq!(longer.cleanup().await.unwrap(), 0, "{on}");
        let (_gate, fewer) = space.another(options(|it| it.max_members_per_page = 4)).await;
        assert_eq!(fewer.record(&Edit::new(key("p"), "new", "bob")).await.unwrap(), Recorded::Added, "{on}");
        let stats = fewer.stats(key("p")).await.unwrap();
        assert_eq!((stats.edits_last_hour, stats.members), (10, 4), "{on}: all are counted");
        space.set(START_MS + HOUR - 1);
        assert_eq!(longer.tracked().await.unwrap(), 2, "{on}");
        space.set(START_MS + HOUR);
        assert_eq!(longer.tracked().await.unwrap(), 1, "{on}");
        assert_eq!(longer.cleanup().await.unwrap(), 1, "{on}");
        let connections = match on {
            "redis" => vec![REDIS.connection()],
            _ => CLUSTER.nodes().iter().map(RedisServer::connection).collect(),
        };
        // The index of what is due goes by the window of who came first.
        assert_eq!(audit(connections, &space.namespace, 900_000), 1, "{on}");
    }
}

/// A page is where its partition is: with another number of them none would be found.
#[tokio::test]
async fn another_number_of_partitions_is_refused() {
    for (url, on) in [(REDIS.url(), "redis"), (CLUSTER.url(), "cluster")] {
        let space = Space::on(on, &url, options(|it| it.partitions = 4)).await;
        space.fill(&["p".to_owned()], 2).await;
        let (_gate, same) = space.another(options(|it| it.partitions = 4)).await;
        assert!(same.is_hot(key("p")).await.unwrap(), "{on}");
        let (_gate, other) = space.another(options(|it| it.partitions = 2)).await;
        for error in [
            other.record(&Edit::new(key("p"), "a", "bob")).await.unwrap_err(),
            other.tracked().await.unwrap_err(),
            other.is_hot(key("p")).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Config, "{on}: {error}");
            assert!(error.to_string().contains("with 4 partitions, this is set to 2"), "{on}: {error}");
        }
        let elsewhere = space.gate.hot("articles", options(|it| it.partitions = 2)).unwrap();
        assert_eq!(elsewhere.tracked().await.unwrap(), 0, "{on}: each space has its own");
    }
}
