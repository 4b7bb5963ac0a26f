//! Clicks that a worker has counted come to the database, each once.

use tidegate::clock::Clock;
use tidegate_edge::stream::{Snapshots, StreamOptions, Tail, Workers};
use tidegate_edge::truth::{Change, Filter};
use tidegate_edge::worker::{Hydrate, Local, Outcome, Request, Worker, WorkerOptions};

use crate::kit::{World, draft, terms};

/// Links that are clicked: more than are told of at once.
const LINKS: usize = 1_700;

#[tokio::test(flavor = "multi_thread")]
async fn of_more_links_than_are_told_of_at_once_every_click_is_told_of_at_the_end() {
    let world = World::sqlite().await;
    let link =
        |number| draft(&format!("{number:04}"), terms(&format!("/{number:04}"), "https://example.com/"));
    for first in (0..LINKS).step_by(500) {
        let links = (first..LINKS.min(first + 500)).map(|number| Change::Create(link(number))).collect();
        assert!(world.truth.change_all(links).await.unwrap().iter().all(Result::is_ok));
    }
    let local = Local {
        truth: world.truth.clone(),
        tail: Tail::start(&world.truth, StreamOptions::default()),
        snapshots: Snapshots::of(&world.truth),
        workers: Workers::default(),
        clock: Clock::default(),
    };
    let mut options = WorkerOptions::new("w");
    options.hydrate = Hydrate::Bodies;
    let worker = Worker::start(local, options);
    for number in 0..LINKS * 2 {
        let path = format!("/{:04}", number % LINKS);
        let request = Request { host: "a.example", path: &path, query: None, is_head: false };
        let is_sent_on = worker.answer(&request, |outcome, _| matches!(outcome, Outcome::Redirect(_))).await;
        assert!(is_sent_on, "{path}");
    }
    assert!(worker.stop().await, "the database has heard of all");
    let (mut clicks, mut cursor) = (Vec::new(), None);
    loop {
        let page = world.truth.list(Filter::default(), cursor, 100).await.unwrap();
        clicks.extend(page.rules.iter().map(|rule| rule.clicks));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(clicks, vec![2; LINKS]);
    world.check().await;
}
