//! Servers that gather counts before they send them: what is counted is right, whatever happens to some of them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::clock::monotonic;
use tidegate::testkit::RedisServer;

use crate::cli::Server;
use crate::support::{Fixture, START, bulk, settings};

const SERVERS: usize = 8;

fn start(redis: &RedisServer, gather: &str) -> Server {
    let (store, gather) = (format!("store.url={}", redis.url()), format!("hot.main.gather={gather}"));
    let settings = [&*store, &*gather, "hot.main.max_members_per_page=0", "hot.main.hot_threshold=1"];
    Server::start(&settings.iter().flat_map(|setting| ["--set", setting]).collect::<Vec<_>>())
}

/// Counts a page of its own at one server, one by one, until it is over or the server is gone: `answered` has how many
/// it was told are gathered.
fn count_until_over(address: String, page: usize, answered: &AtomicU64, is_over: &AtomicBool) {
    let body = format!("{{\"page\":\"p{page}\"}}");
    let length = body.len();
    let request =
        format!("POST /v1/hot/main/counts HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{body}");
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut answers = BufReader::new(stream);
    while !is_over.load(Ordering::Relaxed) {
        if answers.get_mut().write_all(request.as_bytes()).is_err() {
            return;
        }
        let Some(answer) = answer(&mut answers) else { return };
        assert!(answer.contains("\"outcome\":\"gathered\""), "{answer}");
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// The body of the next answer; none if there is no whole one.
fn answer(from: &mut BufReader<TcpStream>) -> Option<String> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        from.read_line(&mut line).ok().filter(|read| *read > 0)?;
        if line == "\r\n" {
            break;
        }
        if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = text.trim_end().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    String::from_utf8(body).ok()
}

/// All that has been counted of a page.
fn total(server: &Server, page: usize) -> u64 {
    let answer = server.get(&format!("/v1/hot/main/pages/p{page}"));
    let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    body["total_edits"].as_u64().unwrap()
}

/// Of eight one is killed and one is stopped for a while. Each of the others' counts counts once, and of the killed one's
/// all that it had sent: it loses no more than what came since.
#[test]
fn eight_servers_that_gather_count_each_count_once() {
    let stopped_for = Duration::from_secs(if std::env::var_os("TIDEGATE_LONG").is_some() { 10 } else { 1 });
    let redis = RedisServer::start();
    let looking = start(&redis, "0s");
    let mut servers: Vec<_> = (0..SERVERS).map(|_| start(&redis, "100ms")).collect();
    let answered: Vec<_> = (0..SERVERS).map(|_| Arc::<AtomicU64>::default()).collect();
    let is_over = Arc::<AtomicBool>::default();
    let counting = servers.iter().zip(&answered).enumerate().map(|(page, (server, answered))| {
        let (address, answered, is_over) = (server.address().to_owned(), answered.clone(), is_over.clone());
        thread::spawn(move || count_until_over(address, page, &answered, &is_over))
    });
    let counting: Vec<_> = counting.collect();
    let seen = |page: usize, least: u64| {
        let deadline = monotonic() + Duration::from_secs(60);
        while total(&looking, page) < least {
            assert!(monotonic() < deadline, "{least} counts of p{page} should be there by now");
            thread::yield_now();
        }
    };
    // Two gatherings of each.
    for _ in 0..2 {
        for (page, answered) in answered.iter().enumerate() {
            seen(page, answered.load(Ordering::Relaxed) + 1);
        }
    }
    servers[1].send_signal("STOP");
    let sent = answered[0].load(Ordering::Relaxed);
    seen(0, sent);
    servers[0].send_signal("KILL");
    let stopped_at = monotonic();
    servers.remove(0).wait();
    let had_answered = answered[0].load(Ordering::Relaxed);
    while stopped_at.elapsed() < stopped_for {
        seen(2, answered[2].load(Ordering::Relaxed));
    }
    servers[0].send_signal("CONT");
    seen(1, answered[1].load(Ordering::Relaxed) + 1);
    is_over.store(true, Ordering::Relaxed);
    counting.into_iter().for_each(|it| it.join().unwrap());
    // What is gathered is sent before they end.
    servers.iter().for_each(|server| server.send_signal("TERM"));
    servers.into_iter().for_each(|server| assert_eq!(server.wait(), Some(0)));
    for (page, answered) in answered.iter().enumerate().skip(1) {
        assert_eq!(total(&looking, page), answered.load(Ordering::Relaxed), "p{page}");
    }
    // It may have been killed before it could answer for the last.
    let killed = total(&looking, 0);
    assert!((sent..=had_answered + 1).contains(&killed), "{killed}, of {sent} to {had_answered}");
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_gathered_says_so_and_is_there_when_it_was_sent() {
    let redis = RedisServer::start();
    let set = ["main.max_members_per_page=0", "main.hot_threshold=1", "main.gather=60s"];
    let f = Fixture::of(&redis.url(), &settings("hot", &set), START).await;
    let answer = f.post("/v1/hot/main/counts", &json!({"page": "/pricing", "count": 3}).to_string()).await;
    assert_eq!(
        answer.json(),
        json!({"space": "main", "page": "/pricing", "count": 3, "outcome": "gathered"})
    );
    let answer = bulk(&f.app, "/v1/hot/main/counts", "{\"page\":\"/\"}\n{\"page\":\"/pricing\"}\n").await;
    assert_eq!((answer.status, &answer.json()["outcomes"]["gathered"]), (200.try_into().unwrap(), &json!(2)));
    assert_eq!(f.get("/v1/hot/main").await.json()["count"], 0);
    assert_eq!(f.get("/v1/hot").await.json()["spaces"][0]["gather_ms"], 60_000);
    f.app.gate().shutdown().await;
    assert_eq!(f.get("/v1/hot/main").await.json()["pages"][0]["edits"], 4, "it is sent at the end");
}

/// A command that is done has sent what it counted.
#[test]
fn a_command_on_a_store_sends_what_it_gathers() {
    let redis = RedisServer::start();
    let (url, looking) = (redis.url(), start(&redis, "0s"));
    let args = [
        "hot",
        "count",
        "p7",
        "5",
        "--store",
        &url,
        "--set",
        "hot.main.gather=30s",
        "--set",
        "hot.main.max_members_per_page=0",
    ];
    let (code, out, err) = crate::cli::run(crate::cli::tidegate(&args));
    assert_eq!((code, out.as_str()), (0, "gathered: it is sent with others\n"), "{err}");
    assert_eq!(total(&looking, 7), 5);
}
