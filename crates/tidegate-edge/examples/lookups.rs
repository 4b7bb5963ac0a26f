//! Says what the parts of a lookup cost, each alone.
//!
//! ```text
//! cargo run --release -p tidegate-edge --example lookups -- 1000000
//! ```

use std::hint::black_box;

use tidegate::clock::monotonic;
use tidegate::random::Random;
use tidegate_edge::worker::filter::{Filter, Full};
use tidegate_edge::worker::key::KeyHasher;
use tidegate_edge::worker::owner::{Owners, owner_hash};
use tidegate_edge::worker::tree::Tree;

/// Lookups per round. The best round counts: what else the machine does only adds.
const TIMES: usize = 100_000;

/// Rounds per figure.
const ROUNDS: usize = 50;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args().nth(1).map_or(Ok(1_000_000), |it| it.parse())?;
    filter(count)?;
    let paths: Vec<_> = (0..count).map(|it| format!("/campaigns/{}/{it:x}", it % 50)).collect();
    let hasher = KeyHasher::random();
    let hosts: Vec<_> = (0..16).map(|it| hasher.host(&format!("{it}.example.com"))).collect();
    timed("hash of a path of 20 bytes", |at| hasher.path(&paths[at % count]).of_host(hosts[7]));
    let one = hasher.path("/docs");
    timed("one more host", |at| one.of_host(hosts[at % 16]));
    tree(&paths);
    let owners = Owners::new((0..20).map(|it| it.to_string()), 2)?;
    timed("two owners of 20", |at| owners.is_owner("7", at as u64));
    timed("what owners are decided by", |at| owner_hash("www.example.com", &paths[at % count]));
    Ok(())
}

fn filter(count: usize) -> Result<(), Full> {
    let random = Random::seeded(1);
    let keys: Vec<_> = (0..count).map(|_| random.bits()).collect();
    let absent: Vec<_> = (0..count).map(|_| random.bits()).collect();
    let mut filter = Filter::with_capacity(count);
    let start = monotonic();
    keys.iter().try_for_each(|key| filter.insert(*key))?;
    report("insert", start.elapsed().as_nanos() as f64 / count as f64);
    let each = filter.bytes() as f64 / count as f64;
    println!("{count} keys in {} bytes, {each:.2} each, room for {}", filter.bytes(), filter.capacity());
    timed("contains, there", |at| filter.contains(keys[at % count]));
    timed("contains, absent", |at| filter.contains(absent[at % count]));
    let mut last = 0;
    timed("contains, absent, one after the other", |at| {
        last = usize::from(filter.contains(absent[(at + last) % count]));
        last
    });
    // As full as it is meant to be.
    let start = monotonic();
    let more = filter.capacity() - filter.len();
    (0..more).try_for_each(|_| filter.insert(random.bits()))?;
    report("insert, until it is full", start.elapsed().as_nanos() as f64 / more as f64);
    let last = filter.len() / 100;
    let start = monotonic();
    (0..last).try_for_each(|_| filter.insert(random.bits()))?;
    report("insert, one in 100 more", start.elapsed().as_nanos() as f64 / last as f64);
    timed("contains, absent, full", |at| filter.contains(absent[at % count]));
    let found = absent.iter().filter(|key| filter.contains(**key)).count();
    println!("{:.4} % of absent keys found", found as f64 * 100.0 / count as f64);
    Ok(())
}

fn tree(paths: &[String]) {
    let count = paths.len();
    let mut tree = Tree::new();
    let start = monotonic();
    for (at, path) in paths.iter().enumerate() {
        tree.insert(path, at as u32);
    }
    report("insert into the tree", start.elapsed().as_nanos() as f64 / count as f64);
    println!("{count} folders in {} bytes, {} each", tree.bytes(), tree.bytes() / count);
    timed("tree, a folder", |at| tree.matches(&paths[at * 7919 % count]).next().copied());
    timed("tree, none", |at| tree.matches(&paths[at * 7919 % count][1..]).next().copied());
    let mut small = Tree::new();
    small.insert("/docs", 0_u32);
    small.insert("/blog", 1);
    timed("tree of two, none", |at| small.matches(&paths[at % count]).next().copied());
}

fn timed<R>(what: &str, mut once: impl FnMut(usize) -> R) {
    let round = |round| {
        let start = monotonic();
        for at in 0..TIMES {
            black_box(once(black_box(round * TIMES + at)));
        }
        start.elapsed().as_nanos() as f64 / TIMES as f64
    };
    report(what, (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min));
}

fn report(what: &str, ns: f64) {
    println!("{ns:7.1} ns  {what}");
}
