//! Counts that are gathered: each counts once, whatever happens on the way.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use tidegate::Tidegate;
use tidegate::hot::{Count, Hot, HotOptions, Recorded};
use tidegate::store::StoreOptions;
use tidegate::testkit::{Fault, FaultProxy, RedisServer};

use crate::hot::{key, metric, options};
use crate::outage::until;

/// So long that only a flush that is asked for sends them.
const BY_HAND: Duration = Duration::from_secs(60);

fn gathering(gather: Duration) -> HotOptions {
    options(|it| {
        (it.max_members_per_page, it.hot_threshold, it.max_tracked, it.gather) = (0, 1, 100_000, gather)
    })
}

/// A node that gathers in the space that all of a test share.
async fn node(url: &str, options: HotOptions) -> (Tidegate, Hot) {
    let gate = Tidegate::open_with(url, StoreOptions::default()).await.unwrap();
    let hot = gate.hot("pages", options).unwrap();
    (gate, hot)
}

async fn count(hot: &Hot, page: &str, count: u64) {
    assert_eq!(hot.count(key(page), count).await.unwrap(), Recorded::Gathered);
}

/// All that a store has counted of a page, by somebody else's eyes.
async fn total(server: &RedisServer, page: &str) -> u64 {
    let (_gate, hot) = node(&server.url(), gathering(Duration::ZERO)).await;
    until("it answers", async || hot.stats(key(page)).await.ok()).await.total_edits
}

async fn flushed(hot: &Hot) {
    until("all of it is sent", async || hot.flush().await.ok()).await;
}

fn lost(gate: &Tidegate) -> [u64; 3] {
    let text = gate.metrics();
    ["dropped", "unknown", "failed"].map(|why| {
        let row = format!("tidegate_hot_lost_counts_total{{space=\"pages\",why=\"{why}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&row)).unwrap().parse().unwrap()
    })
}

fn flushes(gate: &Tidegate, outcome: &str) -> u64 {
    let row = format!("tidegate_hot_flushes_total{{space=\"pages\",outcome=\"{outcome}\"}} ");
    gate.metrics().lines().find_map(|line| line.strip_prefix(&row)).unwrap().parse().unwrap()
}

/// What has been counted when its answer is lost is sent again, and counts once; what comes meanwhile counts too. With
/// several partitions each has numbers of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_whose_answer_was_lost_counts_once() {
    for partitions in [1, 4] {
        let server = RedisServer::start();
        let proxy = FaultProxy::start(server.port()).await;
        let options = gathering(BY_HAND).partitions(partitions);
        let (gate, hot) = node(&proxy.url(), options.clone()).await;
        let pages: Vec<_> = (0..20).map(|n| format!("p{n}")).collect();
        for page in &pages {
            count(&hot, page, 5).await;
        }
        assert!(!hot.is_hot(key("p0")).await.unwrap(), "nothing was sent");
        flushed(&hot).await;
        assert!(hot.is_hot(key("p0")).await.unwrap());
        proxy.set(Fault::SwallowAnswers);
        for page in &pages {
            count(&hot, page, 7).await;
        }
        assert!(hot.flush().await.unwrap_err().is_transient());
        for page in &pages {
            count(&hot, page, 100).await;
        }
        proxy.set(Fault::None);
        proxy.close_connections();
        flushed(&hot).await;
        let (_other, direct) = node(&server.url(), options.gather(Duration::ZERO)).await;
        for page in &pages {
            assert_eq!(direct.stats(key(page)).await.unwrap().total_edits, 112, "{partitions}: {page}");
        }
        assert_eq!(flushes(&gate, "repeated"), u64::from(partitions));
        assert_eq!((flushes(&gate, "counted"), lost(&gate)), (2 * u64::from(partitions), [0, 0, 0]));
        let mut connection = server.connection();
        let keys: Vec<String> = redis::cmd("KEYS").arg("*flushes:*").query(&mut connection).unwrap();
        assert_eq!(keys.len(), partitions as usize, "{keys:?}");
        assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
    }
}

/// Commands with this in them that a server has been sent, once they are asked for.
struct Heard(BufReader<TcpStream>);

impl Heard {
    fn on(server: &RedisServer) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut heard = Self(BufReader::new(stream));
        heard.line();
        heard
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }

    /// The words of each until one has `end`.
    fn until(&mut self, what: &str, end: &str) -> Vec<Vec<String>> {
        let mut heard = Vec::new();
        loop {
            let line = self.line();
            if line.contains(end) {
                return heard;
            }
            // What a script does is not what was sent.
            if line.contains(what) && line.to_ascii_lowercase().contains("\"evalsha\"") {
                heard.push(line.split('"').skip(1).step_by(2).map(str::to_owned).collect());
            }
        }
    }
}

/// A batch that arrives again, when others have come since, has been here; in whatever order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_arrives_late_is_known() {
    let server = RedisServer::start();
    let (_gate, hot) = node(&server.url(), gathering(BY_HAND)).await;
    count(&hot, "first", 1).await;
    flushed(&hot).await;
    let mut heard = Heard::on(&server);
    for sent in [1, 10, 100] {
        count(&hot, "p", sent).await;
        count(&hot, "q", sent).await;
        flushed(&hot).await;
    }
    let mut connection = server.connection();
    redis::cmd("ECHO").arg("the end").exec(&mut connection).unwrap();
    let batches = tokio::task::spawn_blocking(move || heard.until("flushes:", "the end")).await.unwrap();
    assert_eq!(batches.len(), 3, "{batches:?}");
    for batch in batches.iter().rev().chain(&batches) {
        let mut again = redis::cmd(&batch[0]);
        batch[1..].iter().for_each(|word| {
            again.arg(word);
        });
        assert_eq!(again.query::<Vec<i64>>(&mut connection).unwrap(), [7, 7], "it has been here: {batch:?}");
    }
    assert_eq!((total(&server, "p").await, total(&server, "q").await), (111, 111));
    // Of a node that is not known it is the first.
    let unknown: String =
        redis::cmd("KEYS").arg("*flushes:*").query::<Vec<String>>(&mut connection).unwrap().remove(0);
    let mut words: Vec<String> = batches[0].clone();
    words.iter_mut().for_each(|word| *word = word.replace(&unknown, &format!("{unknown}x")));
    let mut other = redis::cmd(&words[0]);
    words[1..].iter().for_each(|word| {
        other.arg(word);
    });
    assert_eq!(other.query::<Vec<i64>>(&mut connection).unwrap().len(), 2);
    assert_eq!(total(&server, "p").await, 112);
}

/// A store that comes back as it was before has forgotten a batch and its number together: what it forgot and was not
/// answered for is counted again, what was answered for is lost with all the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_comes_back_older_counts_what_was_not_answered() {
    let mut server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let (gate, hot) = node(&proxy.url(), gathering(BY_HAND)).await;
    count(&hot, "p", 5).await;
    flushed(&hot).await;
    redis::cmd("SAVE").exec(&mut server.connection()).unwrap();
    count(&hot, "p", 10).await;
    flushed(&hot).await;
    proxy.set(Fault::SwallowAnswers);
    count(&hot, "p", 100).await;
    assert!(hot.flush().await.unwrap_err().is_transient());
    assert_eq!(total(&server, "p").await, 115);
    server.restart();
    proxy.set(Fault::None);
    proxy.close_connections();
    count(&hot, "p", 1000).await;
    flushed(&hot).await;
    assert_eq!(total(&server, "p").await, 1105);
    assert_eq!((flushes(&gate, "repeated"), lost(&gate)), (0, [0, 0, 0]));
}

/// While the store is away counts are held, as many pages as may be; beyond that they are dropped, and counted as such.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_away_counts_are_held_within_bounds() {
    let mut server = RedisServer::start();
    let (gate, hot) = node(&server.url(), gathering(BY_HAND)).await;
    count(&hot, "p0", 1).await;
    flushed(&hot).await;
    server.kill();
    until("it is noticed", async || {
        count(&hot, "p0", 1).await;
        hot.flush().await.err()
    })
    .await;
    // As many pages as may wait, of which one does already.
    let pages: Vec<_> = (0..99_999).map(|n| format!("p{n}")).collect();
    for some in pages.chunks(1000) {
        let counts: Vec<_> = some.iter().map(|page| Count::new(key(page), 3)).collect();
        assert!(hot.count_many(&counts).await.unwrap().iter().all(|it| *it == Recorded::Gathered));
    }
    for page in ["beyond", "beyond it"] {
        assert_eq!(hot.count(key(page), 4).await.unwrap(), Recorded::Dropped);
    }
    count(&hot, "p5", 3).await;
    assert_eq!(lost(&gate), [8, 0, 0]);
    server.restart();
    flushed(&hot).await;
    assert_eq!((total(&server, "p5").await, total(&server, "p77777").await), (6, 3));
    assert_eq!((total(&server, "beyond").await, lost(&gate)), (0, [8, 0, 0]));
    assert_eq!(metric(&gate, "tidegate_hot_gathered_pages"), 0);
    count(&hot, "beyond", 2).await;
}

/// It is sent by itself, when the store is shut down, and when nobody holds it any more; and from then on at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_gathered_is_sent_by_itself_and_at_the_end() {
    let server = RedisServer::start();
    let (_gate, quick) = node(&server.url(), gathering(Duration::from_millis(5))).await;
    let counts = [Count::new(key("p"), 3), Count::new(key("q"), 4), Count::new(key("p"), 1)];
    assert_eq!(quick.count_many(&counts).await.unwrap(), vec![Recorded::Gathered; 3]);
    until("it is sent", async || (total(&server, "p").await == 4).then_some(())).await;

    let (gate, hot) = node(&server.url(), gathering(BY_HAND)).await;
    count(&hot, "p", 10).await;
    gate.shutdown().await;
    assert_eq!(total(&server, "p").await, 14);
    assert_eq!(hot.count(key("p"), 20).await.unwrap(), Recorded::Counted, "nobody would send it");
    assert_eq!(hot.count_many(&[Count::new(key("p"), 2)]).await.unwrap(), [Recorded::Counted]);
    assert_eq!(total(&server, "p").await, 36);

    let (gate, hot) = node(&server.url(), gathering(BY_HAND)).await;
    let clone = hot.clone();
    count(&hot, "p", 100).await;
    drop((gate, hot));
    count(&clone, "p", 1).await;
    assert_eq!(total(&server, "p").await, 36, "somebody holds it still");
    drop(clone);
    until("it is sent", async || (total(&server, "p").await == 137).then_some(())).await;
}

/// However many tasks count and flush at once, and whatever somebody else has written in the place of a number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_flush_at_once_and_a_key_that_is_not_ours_gives_way() {
    let server = RedisServer::start();
    let (gate, hot) = node(&server.url(), gathering(BY_HAND)).await;
    let tasks = (0..8).map(|task| {
        let hot = hot.clone();
        tokio::spawn(async move {
            for n in 0..50 {
                count(&hot, "p", 1).await;
                count(&hot, &format!("q{}", (task + n) % 3), 1).await;
                hot.flush().await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(total(&server, "p").await, 400);
    assert_eq!(lost(&gate), [0, 0, 0]);
    let mut connection = server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*flushes:*").query(&mut connection).unwrap();
    for value in ["x", "-1", "1e300"] {
        redis::cmd("SET").arg(&keys[0]).arg(value).exec(&mut connection).unwrap();
        count(&hot, "p", 1).await;
        flushed(&hot).await;
    }
    redis::cmd("DEL").arg(&keys[0]).exec(&mut connection).unwrap();
    redis::cmd("LPUSH").arg(&keys[0]).arg("x").exec(&mut connection).unwrap();
    count(&hot, "p", 1).await;
    flushed(&hot).await;
    assert_eq!(total(&server, "p").await, 404);
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

/// A number that is too high is not this node's: what it sends first is new, and counts once whatever is there.
#[tokio::test]
async fn a_batch_that_was_never_sent_counts_whatever_number_is_there() {
    let server = RedisServer::start();
    let (gate, hot) = node(&server.url(), gathering(BY_HAND)).await;
    count(&hot, "p", 1).await;
    flushed(&hot).await;
    let mut connection = server.connection();
    for (value, sent, expected) in
        [("9007199254740991", 10, 11), ("9007199254740991 3", 100, 111), ("4", 1000, 1111)]
    {
        let keys: Vec<String> = redis::cmd("KEYS").arg("*flushes:*").query(&mut connection).unwrap();
        for key in &keys {
            redis::cmd("SET").arg(key).arg(value).arg("EX").arg(3600).exec(&mut connection).unwrap();
        }
        count(&hot, "p", sent).await;
        hot.flush().await.unwrap();
        assert_eq!((total(&server, "p").await, lost(&gate)), (expected, [0, 0, 0]), "{value}");
    }
    assert_eq!((flushes(&gate, "counted"), flushes(&gate, "repeated")), (4, 0));
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

/// A page that cannot be read stops no other, and its counts are counted as lost.
#[tokio::test]
async fn a_page_that_cannot_be_read_loses_its_counts_and_no_others() {
    let server = RedisServer::start();
    let (gate, hot) = node(&server.url(), gathering(BY_HAND)).await;
    redis::cmd("LPUSH").arg("hot:count:broken").arg("x").exec(&mut server.connection()).unwrap();
    for page in ["a", "broken", "z"] {
        count(&hot, page, 3).await;
    }
    let error = hot.flush().await.unwrap_err();
    assert!(!error.is_transient(), "{error}");
    flushed(&hot).await;
    let pages: Vec<_> = hot.list(9).await.unwrap().into_iter().map(|it| (it.page, it.edits)).collect();
    assert_eq!(pages, [("z".to_owned(), 3), ("a".to_owned(), 3)]);
    assert_eq!(lost(&gate), [0, 0, 3]);
}

/// Settings that make no sense are errors, and in this process each count is counted at once.
#[tokio::test]
async fn only_counts_on_redis_are_gathered() {
    let gate = Tidegate::open("memory:").await.unwrap();
    let hot = gate.hot("pages", gathering(BY_HAND)).unwrap();
    assert!(matches!(hot.count(key("p"), 1).await.unwrap(), Recorded::Promoted { .. }));
    hot.flush().await.unwrap();
    let edits = options(|it| it.gather = Duration::from_millis(100));
    let error = edits.check().unwrap_err().to_string();
    assert!(error.contains("a gather of 100ms is not allowed: edits are not gathered"), "{error}");
    let error = gathering(Duration::from_secs(61)).check().unwrap_err().to_string();
    assert!(error.contains("a gather of 61s is not allowed: 0s to 60s are"), "{error}");
}
