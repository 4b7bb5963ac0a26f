//! One path has one form, wherever it is looked up: filter, cache, tree and truth answer whatever is asked alike.

use tidegate::random::Random;

use super::history::seen;
use super::list::Seen;
use super::pair::{Pair, another};
use crate::path::{normalised, normalised_host};
use crate::worker::{Hydrate, Request, Source, Worker};

const PIECES: [&str; 24] = [
    "/", "//", "a", "b/", "..", "/../", "/./", ".", "%2e", "%2E%2e/", "%2f", "%2F", "%61", "%7e", "~", "%00",
    "%0d%0a", "%", "%zz", "\u{fc}", "%c3%bc", "*", " ", "\\",
];

/// The same path as others may write it.
fn respelt(path: &str, random: &Random) -> String {
    let mut text = String::new();
    for (at, c) in path.char_indices() {
        match random.bits() % 5 {
            // What needs no escape may have one.
            0 if c.is_ascii_alphanumeric() && !path[..at].ends_with(['%']) && !is_hex(path, at) => {
                text += &format!("%{:02x}", c as u32);
            }
            1 if c == '/' => text += "/./",
            2 if c == '/' && at > 0 => text += "/zz/../",
            _ => text.push(c),
        }
    }
    text
}

/// Whether a byte is of an escape.
fn is_hex(path: &str, at: usize) -> bool {
    let bytes = path.as_bytes();
    at >= 1 && bytes[at - 1] == b'%' || at >= 2 && bytes[at - 2] == b'%'
}

async fn ask(worker: &Worker<super::origin::SimOrigin>, host: &str, path: &str) -> (Seen, Source) {
    let request = Request { host, path, query: None, is_head: true };
    worker.answer(&request, |outcome, source| (seen(&outcome), source)).await
}

#[tokio::test(start_paused = true)]
async fn whatever_is_asked_is_looked_up_alike_everywhere() {
    let random = Random::seeded(10);
    let below = |most: usize| random.bits() as usize % most;
    let raw = || format!("/{}", (0..below(7)).map(|_| PIECES[below(PIECES.len())]).collect::<String>());
    let mut paths: Vec<_> = (0..400).map(|_| normalised(&raw()).unwrap().into_owned()).collect();
    paths.sort();
    paths.dedup();
    // That would be a rule for a folder.
    paths.retain(|path| !path.ends_with("/*"));
    let pair = Pair::start(|options| options.hydrate = Hydrate::Bodies);
    for (number, path) in paths.iter().enumerate() {
        assert_eq!(normalised(path).as_deref(), Some(&**path), "it has its form already");
        pair.put(&format!("e{number}"), |terms| {
            (terms.host, terms.path) = ("exact.example".into(), path.clone())
        });
        pair.put(&format!("f{number}"), |terms| {
            (terms.host, terms.path) = ("folder.example".into(), format!("{path}/*"));
        });
    }
    pair.put("other", |terms| terms.host = "nothing.example".into());
    pair.caught_up().await;
    let bare = another(&pair.origin, "bare", |_| ());
    while bare.progress().applied.is_none() {
        pair.pass(50).await;
    }
    for (number, path) in paths.iter().enumerate() {
        let spelling = respelt(path, &random);
        assert_eq!(normalised(&spelling).as_deref(), Some(&**path), "{spelling}");
        let exact = super::pair::to(&format!("e{number}"), 1);
        for host in ["exact.example", "EXACT.example", "exact.example.", "Exact.Example.:8080"] {
            assert_eq!(normalised_host(host).as_deref(), Some("exact.example"));
            assert_eq!(
                ask(&pair.worker, host, &spelling).await,
                (exact.clone(), Source::Cache),
                "{spelling}"
            );
        }
        assert_eq!(ask(&bare, "exact.example", &spelling).await, (exact, Source::Fetch), "{spelling}");
        let folder = ask(&pair.worker, "folder.example", &spelling).await;
        assert_eq!(folder, (super::pair::to(&format!("f{number}"), 1), Source::Prefix), "{spelling}");
        for worker in [&pair.worker, &bare] {
            let nothing = ask(worker, "nothing.example", &spelling).await;
            assert_eq!(nothing, (Seen::NotFound, Source::Filter), "{spelling}");
        }
    }
}
