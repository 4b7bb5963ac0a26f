//! Keys of hot pages that somebody else has written: of another type, or of the right one and
//! unreadable. Whatever it is and whoever comes upon it, an answer is right or says so, nothing is
//! half done, no other page suffers, and to remove the page repairs it.

use futures_util::StreamExt as _;
use redis::{Connection, Value};
use tidegate::clock::Timestamp;
use tidegate::hot::{Edit, EventKind, Recorded};
use tidegate::testkit::RedisServer;
use tidegate::{Error, ErrorKind};

use crate::hot::{HOUR, MINUTE, PROMOTED, Space, key, options};
use crate::hot_audit::audit;
use crate::kit::{FEW_KEYS, FEW_KEYS_CLUSTER};

/// A space whose keys a test can reach.
struct Planted {
    space: Space,
    connection: Connection,
    /// What its keys start with.
    prefix: String,
}

impl Planted {
    /// `bad` and `good` are hot, `new` is remembered.
    async fn on(name: &'static str) -> Self {
        let url = if name == "redis" { FEW_KEYS.url() } else { FEW_KEYS_CLUSTER.url() };
        let space = Space::on(name, &url, options(|it| it.max_members_per_page = 5)).await;
        for page in ["good", "bad"] {
            for id in ["1", "2", "3"] {
                space.clock.advance_ms(1000);
                space.record(page, id).await;
            }
        }
        space.record("new", "1").await;
        let pattern = format!("{}:*hot:rank", space.namespace);
        let found = servers(name).iter().find_map(|server| {
            let mut connection = server.connection();
            let keys: Vec<String> = redis::cmd("KEYS").arg(&pattern).query(&mut connection).unwrap();
            keys.into_iter().next().map(|key| (connection, key.strip_suffix("hot:rank").unwrap().to_owned()))
        });
        let (connection, prefix) = found.unwrap();
        Self { space, connection, prefix }
    }

    fn run(&mut self, command: &[&[u8]]) -> Value {
        redis::cmd(std::str::from_utf8(command[0]).unwrap())
            .arg(&command[1..])
            .query(&mut self.connection)
            .unwrap()
    }

    /// Puts `plant` in the place of `family`, with an end, so that only ours are without one.
    fn plant(&mut self, family: &str, plant: &Plant) {
        let key = format!("{}{family}", self.prefix);
        self.run(&[b"DEL", key.as_bytes()]);
        let (name, arguments) = plant.split_first().unwrap();
        self.run(
            &[&[&name[..], key.as_bytes()], &arguments.iter().map(|it| &**it).collect::<Vec<_>>()[..]]
                .concat(),
        );
        self.run(&[b"PEXPIRE", key.as_bytes(), b"7200000"]);
    }

    /// All that there is of a page, byte by byte.
    fn all_of(&mut self, page: &str) -> Vec<Value> {
        let families = ["activity:", "hot:window:", "hot:meta:", "hot:editors:"];
        let keys = families.map(|family| format!("{}{family}{page}", self.prefix));
        let mut all: Vec<_> = keys.iter().map(|key| self.run(&[b"DUMP", key.as_bytes()])).collect();
        for index in ["hot:rank", "hot:due", "hot:activities"] {
            let index = format!("{}{index}", self.prefix);
            let score: Result<Value, _> =
                redis::cmd("ZSCORE").arg(&index).arg(page).query(&mut self.connection);
            all.push(score.unwrap_or(Value::Nil));
        }
        all
    }
}

fn servers(name: &str) -> &'static [RedisServer] {
    if name == "redis" { std::slice::from_ref(&*FEW_KEYS) } else { FEW_KEYS_CLUSTER.nodes() }
}

/// A command without its key, which comes second.
type Plant = Vec<Vec<u8>>;

fn plant(words: &[&str]) -> Plant {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// One of each type.
fn types() -> Vec<Plant> {
    [
        &["SET", "x"][..],
        &["RPUSH", "x"],
        &["SADD", "x"],
        &["ZADD", "1", "x"],
        &["HSET", "x", "y"],
        &["XADD", "*", "x", "y"],
    ]
    .map(plant)
    .into()
}

/// `w` of a page, of nine numbers and an id.
fn packed(numbers: [f64; 9]) -> Plant {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).chain(*b"id").collect();
    vec![b"HSET".to_vec(), b"w".to_vec(), bytes]
}

/// Of the right type, and no sense in it; by family, of the page that is meant.
fn nonsense() -> Vec<(&'static str, Plant)> {
    let now = 1_700_000_000_000_f64;
    let nan = f64::NAN;
    let mut all = vec![
        ("hot:meta:bad", plant(&["HSET", "w", ""])),
        ("hot:meta:bad", plant(&["HSET", "w", "short"])),
        ("hot:meta:bad", plant(&["HSET", "w", &"x".repeat(80)])),
        ("hot:meta:bad", packed([nan; 9])),
        ("hot:meta:bad", packed([f64::INFINITY; 9])),
        ("hot:meta:bad", packed([nan, now, 0.0, 0.0, now, 3.0, now, now, 0.0])),
        ("hot:meta:bad", packed([1e9, now, 0.0, 0.0, now, 3.0, now, now, 0.0])),
        ("hot:meta:bad", packed([0.0, now, 0.0, 0.0, now, 3.0, now, now, 0.0])),
        ("hot:meta:bad", packed([3.0, now, nan, 7.0, now, 3.0, now, now, 0.0])),
        ("hot:meta:bad", packed([3.0, now, 0.0, 0.0, now, 3.0, now, now, nan])),
        // Nobody counts halves.
        ("hot:meta:bad", packed([2.5, now, 0.0, 0.0, now, 3.0, now, now, 0.0])),
        ("hot:meta:bad", packed([4.5, now, 0.0, 0.0, now, 4.5, now, now, 0.0])),
        ("hot:meta:bad", packed([3.0, now - 0.5, 0.0, 0.0, now, 3.0, now, now, 0.0])),
        // These can be read; their window is another.
        ("hot:meta:bad", packed([5.0, now, 0.0, 0.0, now, 5.0, now, now, 0.0])),
        ("hot:meta:bad", packed([9.0, now, 0.0, 0.0, now, 9.0, now, now, 0.0])),
        ("hot:window:bad", plant(&["ZADD", "inf", "x"])),
        ("hot:window:bad", plant(&["ZADD", "-inf", "x", "1700000000500", "y"])),
        ("hot:window:bad", vec![b"ZADD".to_vec(), b"1700000004000".to_vec(), b"\xff\xfe".to_vec()]),
        ("hot:editors:bad", plant(&["RPUSH", "nonsense", "nonsense", "nonsense"])),
        ("hot:editors:bad", plant(&["RPUSH", "x y", "99999999999999999999999999 z", " "])),
        ("hot:editors:bad", vec![b"RPUSH".to_vec(), b"0 \xff".to_vec(), b"0 \xff".to_vec(), b"0 a".to_vec()]),
        ("hot:rank", plant(&["ZADD", "inf", "x", "-inf", "y", "1", "good"])),
        ("hot:rank", plant(&["ZADD", "1e300", "bad", "1", "good"])),
        ("hot:due", plant(&["ZADD", "inf", "x", "-inf", "y", "-inf", "good"])),
        ("hot:due", plant(&["ZADD", "-inf", "bad", "inf", "good"])),
        ("hot:activities", plant(&["ZADD", "inf", "x", "-inf", "y"])),
        ("hot:events", plant(&["XADD", "*", "x", "y"])),
        ("hot:events", plant(&["XADD", "*", "kind", "exploded", "page", "p", "edits", "1", "at", "1"])),
        ("hot:events", plant(&["XADD", "*", "kind", "promoted", "page", "p", "edits", "many", "at", "late"])),
        ("hot:events", plant(&["XADD", "18446744073709551615-18446744073709551615", "x", "y"])),
    ];
    for value in ["", "x", "nan", "inf", "-1", "1e300"] {
        let state = ["now", "seq", "renewed", "due_base", "life", "forgotten"];
        let fields: Vec<_> = state.into_iter().flat_map(|field| [field, value]).collect();
        all.push(("hot:state", plant(&[&["HSET"][..], &fields].concat())));
    }
    for value in [
        "x",
        "\0",
        "x\0",
        "nan\0",
        "1700000000000\0x",
        "1700000000000\0a\0b\0c\0d\0",
        "1700000000000\0nan\x000\0i\0e\0",
        "1700000000000\x001700000000000\0x\0i\0e\0",
    ] {
        all.push(("activity:new", plant(&["SET", value])));
        all.push(("activity:bad", plant(&["SET", value])));
    }
    all
}

fn all() -> Vec<(&'static str, Plant)> {
    let families = [
        "activity:new",
        "activity:bad",
        "hot:window:bad",
        "hot:meta:bad",
        "hot:editors:bad",
        "hot:window:new",
        "hot:editors:new",
        "hot:meta:new",
        "hot:state",
        "hot:activities",
        "hot:due",
        "hot:rank",
        "hot:events",
    ];
    let wrong = families.into_iter().flat_map(|family| types().into_iter().map(move |plant| (family, plant)));
    wrong.chain(nonsense()).collect()
}

/// An answer, or an error that says where to look.
#[track_caller]
fn check<T>(answer: Result<T, Error>, what: &str) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
            let message = error.to_string();
            assert!(message.contains("in the space pages") && message.contains(":"), "{what}: {message}");
            None
        }
    }
}

/// Each in a space of its own, several at a time: most of it is waiting for events.
async fn goes_well(name: &'static str) {
    let cases = futures_util::stream::iter(all());
    cases.for_each_concurrent(16, |(family, plant)| goes_well_with(name, family, plant)).await;
}

async fn goes_well_with(name: &'static str, family: &'static str, plant: Plant) {
    let is_page = family.ends_with(":bad") || family.ends_with(":new");
    let page = if family.ends_with(":new") { "new" } else { "bad" };
    let shown: Vec<_> = plant.iter().map(|word| String::from_utf8_lossy(word)).collect();
    let what = format!("{name}: {shown:?} at {family}");
    let mut planted = Planted::on(name).await;
    planted.plant(family, &plant);
    let before = planted.all_of(page);
    let Planted { space, .. } = &planted;
    let everything = Timestamp::from_millis(0)..=Timestamp::from_millis(u64::MAX);

    // Reads of it, and of everything.
    check(space.hot.is_hot(key(page)).await, &what);
    check(space.hot.stats(key(page)).await, &what);
    check(space.hot.window(key(page), everything.clone()).await, &what);
    let listed = check(space.hot.list(9).await, &what);
    check(space.hot.tracked().await, &what);
    let mut watch = space.hot.watch(Some("0-0")).await.expect(&what);
    if is_page {
        assert!(listed.unwrap().iter().any(|it| it.page == "good"), "{what}");
    }

    // An edit of it: done or not at all.
    let edit = async |id: &str| space.hot.record(&Edit::new(key(page), id, "bob")).await;
    if check(edit("4").await, &what).is_none() {
        assert_eq!(planted.all_of(page), before, "{what}: half done");
        let Planted { space, .. } = &planted;
        let edit = Edit::new(key(page), "4", "bob");
        assert_eq!(space.hot.record(&edit).await.unwrap_err().kind(), ErrorKind::Corrupt, "{what}");
    }
    let Planted { space, .. } = &planted;

    // One of many stops no other.
    let edits =
        [("good", "5"), (page, "5"), ("other", "1")].map(|(page, id)| Edit::new(key(page), id, "eve"));
    let recorded = space.hot.record_many(&edits).await.expect(&what);
    if is_page {
        assert_eq!((&recorded[0], &recorded[2]), (&Recorded::Added, &Recorded::Remembered), "{what}");
        assert_eq!(space.stats("good").await.edits_last_hour, 4, "{what}");
    }
    // What happens is told, or that it was missed, whatever was there.
    let edit = Edit::new(key("other"), "2", "eve");
    assert_eq!(space.hot.record(&edit).await.expect(&what), PROMOTED, "{what}");
    let message = async {
        loop {
            let event = watch.next().await.expect(&what);
            let is_gap = event.kind == EventKind::Missed && event.edits == 0;
            if event.page == "other" || is_gap {
                return;
            }
        }
    };
    if !is_page {
        tokio::time::timeout(std::time::Duration::from_secs(20), message).await.expect(&what);
    }

    // A cleanup looks after the others, and comes to an end, now and when all is over.
    space.hot.cleanup().await.expect(&what);
    assert!(space.hot.list(9).await.expect(&what).iter().any(|it| it.page == "good"), "{what}");

    // To remove it repairs it.
    space.hot.remove(key(page)).await.expect(&what);
    assert!(!space.stats(page).await.is_hot, "{what}");
    assert_eq!(space.record(page, "6").await, Recorded::Remembered, "{what}");
    assert_eq!(space.record(page, "7").await, PROMOTED, "{what}");
    assert_eq!(space.window(page).await.len(), 2, "{what}");
    if page == "bad" {
        space.hot.remove(key("new")).await.expect(&what);
    }
    let connections = servers(name).iter().map(RedisServer::connection).collect();
    let hot = if page == "bad" { 3 } else { 4 };
    assert_eq!(audit(connections, &space.namespace, HOUR), hot, "{what}");
    space.clock.advance_ms(2 * HOUR);
    space.hot.cleanup().await.expect(&what);
    assert_eq!(space.hot.tracked().await.unwrap(), 0, "{what}");
}

#[tokio::test]
async fn whatever_is_in_the_place_of_a_key_is_reported_stops_no_other_page_and_is_repaired_by_a_removal() {
    goes_well("redis").await;
}

#[tokio::test]
async fn in_a_cluster_too() {
    goes_well("cluster").await;
}

/// A cleanup drops pages that it cannot read when their time has come, and goes on with the rest.
#[tokio::test]
async fn a_cleanup_ends_and_drops_what_it_cannot_read() {
    for family in ["activity:new", "hot:window:bad", "hot:meta:bad", "hot:editors:bad"] {
        for plant in types() {
            let mut planted = Planted::on("redis").await;
            planted.plant(family, &plant);
            let space = &planted.space;
            let shown: Vec<_> = plant.iter().map(|word| String::from_utf8_lossy(word)).collect();
            let what = format!("{shown:?} at {family}");
            // The first edits have left, the last have not.
            space.clock.advance_ms(HOUR - 3500);
            let cleaned = tokio::time::timeout(std::time::Duration::from_secs(20), space.hot.cleanup()).await;
            cleaned.expect(&what).expect(&what);
            space.clock.advance_ms(MINUTE);
            space.hot.cleanup().await.expect(&what);
            assert_eq!(space.hot.tracked().await.unwrap(), 0, "{what}");
            assert_eq!(space.hot.list(9).await.unwrap(), [], "{what}");
            assert_eq!(audit(vec![FEW_KEYS.connection()], &space.namespace, HOUR), 0, "{what}");
        }
    }
}

/// A number of partitions that is none was said by nobody.
#[tokio::test]
async fn a_pin_that_cannot_be_read_is_written_anew() {
    for value in ["", "x", "nan", "0", "1e9"] {
        let planted = Planted::on("redis").await;
        let marker = format!("{}tidegate:marker", planted.prefix);
        let mut connection = FEW_KEYS.connection();
        redis::cmd("HSET").arg(&marker).arg("hot:pages").arg(value).exec(&mut connection).unwrap();
        let (_gate, hot) = planted.space.another(options(|it| it.max_members_per_page = 5)).await;
        assert_eq!(hot.list(9).await.expect(value).len(), 2);
        let pinned: String = redis::cmd("HGET").arg(&marker).arg("hot:pages").query(&mut connection).unwrap();
        assert_eq!(pinned, "1", "{value:?}");
    }
}
