//! The truth is away for ten minutes, or comes back as another.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::list::{Epoch, Seen};
use super::origin::now;
use super::pair::{Pair, START_MS, ask, to};
use crate::truth::Seq;
use crate::worker::apply::Kept;

const MINUTE_MS: u64 = 60_000;

/// What is in memory answers, by the truth's time as it goes on by itself; what is not is a clear no within the deadline;
/// and when the truth is back the worker goes on where it was.
#[tokio::test(start_paused = true)]
async fn ten_minutes_without_the_truth() {
    let deadline = Duration::from_millis(500);
    let pair = Pair::start(|options| options.deadline = deadline);
    for id in ["resident", "deleted", "unasked", "renamed"] {
        pair.put(id, |_| ());
    }
    pair.put("docs", |terms| terms.path = "/docs/*".to_owned());
    pair.put("expires", |terms| terms.expires_at = Some(START_MS + 5 * MINUTE_MS));
    pair.put("starts", |terms| terms.starts_at = Some(START_MS + 7 * MINUTE_MS));
    pair.put("few", |terms| terms.max_clicks = Some(20));
    pair.caught_up().await;
    for path in ["/resident", "/deleted", "/renamed", "/unasked", "/expires", "/starts"] {
        assert_eq!(pair.truth(path), [pair.get(path).await], "{path}");
    }
    pair.pass(50).await;
    // One of them has to leave.
    pair.forget("/unasked");
    let mut few = 0;
    while few == 0 {
        few += u64::from(pair.get("/few").await == to("few", 1));
        pair.pass(10).await;
    }
    let metrics = pair.worker.core.metrics.clone();
    {
        let mut world = pair.origin.world.lock();
        world.faults.is_away = true;
        world.fetches = 0;
    }
    // The truth goes on, elsewhere.
    pair.delete("deleted");
    pair.put("renamed", |terms| terms.path = "/moved".to_owned());
    pair.put("created", |_| ());
    pair.put("docs", |_| ());

    let (mut resident, mut few_away) = (1, 0);
    while pair.clock.now().as_millis() < START_MS + 10 * MINUTE_MS {
        let now_ms = pair.clock.now().as_millis();
        for (path, expected) in [
            ("/resident", to("resident", 1)),
            ("/deleted", to("deleted", 1)),
            ("/renamed", to("renamed", 1)),
            ("/docs/x", to("docs", 1)),
            ("/none", Seen::NotFound),
            ("/created", Seen::NotFound),
            ("/unasked", Seen::Unavailable),
            ("/expires", if now_ms > START_MS + 5 * MINUTE_MS { Seen::Gone } else { to("expires", 1) }),
            ("/starts", if now_ms < START_MS + 7 * MINUTE_MS { Seen::NotFound } else { to("starts", 1) }),
        ] {
            let asked = now();
            assert_eq!(pair.get(path).await, expected, "{path} after {} s", (now_ms - START_MS) / 1000);
            assert!(now() - asked <= deadline, "{path}: {:?}", now() - asked);
            resident += u64::from(path == "/resident");
        }
        // Permits are spent until their block ends, and not one behind it.
        match pair.get("/few").await {
            Seen::Unavailable => {}
            seen => {
                assert_eq!(seen, to("few", 1));
                assert!(now_ms < START_MS + 15_000, "the block has ended: {now_ms}");
                few_away += 1;
            }
        }
        pair.pass(2500).await;
    }
    assert!(few_away <= 3, "{few_away} of a block of three");
    let progress = pair.worker.progress();
    assert!(!progress.is_connected && progress.age_ms >= Some(9 * MINUTE_MS), "{progress:?}");
    assert_eq!(pair.origin.world.lock().fetches, 0);

    pair.origin.world.lock().faults.is_away = false;
    pair.caught_up().await;
    assert_eq!((metrics.resyncs.get(), metrics.repairs.get()), (0, 0), "it went on where it was");
    for path in [
        "/resident",
        "/deleted",
        "/renamed",
        "/moved",
        "/created",
        "/docs/x",
        "/unasked",
        "/expires",
        "/starts",
    ] {
        assert_eq!(pair.truth(path), [pair.get(path).await], "{path}");
        resident += u64::from(path == "/resident");
    }
    let mut few = few + few_away;
    loop {
        match pair.get("/few").await {
            Seen::Gone => break,
            Seen::Unavailable => pair.pass(1000).await,
            _ => few += 1,
        }
    }
    assert!(pair.worker.stop().await);
    assert_eq!(few, 20, "to the last one");
    let world = pair.origin.world.lock();
    assert_eq!((world.clicks["resident"], world.clicks["few"]), (resident, few), "and all are told of");
}

/// The database was put back, and the worker is asked all the time for what it has to ask the database for: it hears of
/// that from everywhere, and comes to read all rules anew all the same.
#[tokio::test(start_paused = true)]
async fn who_is_asked_all_the_time_follows_a_database_that_has_gone_back() {
    // Longer than anybody waits to connect again.
    let pair = Pair::start(|options| options.deadline = Duration::from_secs(5));
    for number in 0..20 {
        pair.put(&format!("r{number}"), |_| ());
    }
    pair.caught_up().await;
    let cut_before = pair.origin.world.lock().connects.len();
    {
        let mut world = pair.origin.world.lock();
        let moment = world.epoch().now().clone();
        let head = world.epoch().head();
        world.epochs.push(Epoch::new("e1".to_owned(), head.0, moment));
        world.faults.late_messages = Some(Duration::from_millis(30));
        world.streams += 1;
    }
    let requests = parking_lot::Mutex::new(JoinSet::new());
    let asked = async {
        for turn in 0_u64.. {
            let path = format!("/r{}", turn % 20);
            pair.forget(&path);
            let worker = pair.worker.clone();
            requests.lock().spawn(async move { ask(&worker, &path).await });
            sleep(Duration::from_millis(5)).await;
        }
    };
    let followed = async {
        while pair.worker.progress().applied.is_none_or(|it| it.epoch != "e1") {
            pair.clock.advance_ms(20);
            sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = asked => {}
        followed = timeout(Duration::from_secs(60), followed) => followed.expect("it never comes to read anything"),
    }
    let mut requests = requests.into_inner();
    while let Some(seen) = requests.join_next().await {
        assert!(matches!(seen, Ok(Seen::Redirect(_))), "it waits, and is answered: {seen:?}");
    }
    let connects = pair.origin.world.lock().connects.len() - cut_before;
    assert!(connects <= 2, "{connects}: one for the cut, and none because of what was known by then");
}

/// What was fetched is of a past that the database has gone back from, and the worker, which had not come that far, does
/// not notice: it comes to a place of that number, which is another one.
#[tokio::test(start_paused = true)]
async fn what_was_said_before_the_database_went_back_is_not_kept() {
    let pair = Pair::start(|_| ());
    pair.put("r", |_| ());
    pair.caught_up().await;
    let (moment, head) = {
        let world = pair.origin.world.lock();
        (world.epoch().now().clone(), world.epoch().head())
    };
    pair.put("r", |terms| terms.destination = "https://elsewhere.example/".to_owned());
    pair.forget("/r");
    assert_eq!(pair.get("/r").await, Seen::Redirect("https://elsewhere.example/".to_owned()));
    {
        let mut world = pair.origin.world.lock();
        let name = world.epoch().name.clone();
        world.epochs.push(Epoch::new(name, head.0, moment));
        world.sent = head;
        world.streams += 1;
    }
    pair.put("other", |_| ());
    pair.put("more", |_| ());
    pair.caught_up().await;
    assert_eq!([pair.get("/r").await], pair.truth("/r")[..]);
}

/// An answer that came so late that nobody here knows any more how all was at its place: it is kept if this worker had been
/// there when it asked, and if not, it may be of another past.
#[tokio::test(start_paused = true)]
async fn a_late_answer_is_kept_only_by_who_had_been_at_its_place() {
    let pair = Pair::start(|_| ());
    pair.put("r", |_| ());
    pair.caught_up().await;
    let resolution = {
        let world = pair.origin.world.lock();
        let (epoch, at) = (world.epoch(), world.epoch().head());
        epoch.now().resolve("h.example", "/r", epoch.position(at, START_MS))
    };
    for number in 0..200 {
        pair.put(&format!("other{number}"), |_| ());
    }
    pair.caught_up().await;
    pair.forget("/r");
    let (place, items) = (resolution.position.seq, pair.worker.report().items);
    for (from, is_kept) in [(None, false), (Some(Seq(place.0 - 1)), false), (Some(place), true)] {
        let kept =
            pair.worker.core.write(|state| state.keep_fetched(("h.example", "/r"), &resolution, from, 0, 0));
        assert!((kept == Kept::Yes) == is_kept && kept != Kept::NotYet, "from {from:?}");
        assert_eq!(pair.worker.report().items, items + u64::from(is_kept), "from {from:?}");
    }
}
