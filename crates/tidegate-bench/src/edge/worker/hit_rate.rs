//! How often a link that is clicked is in memory, where there is room for a tenth of them, beside a list that is strictly in the
//! order of last use. Clicks are by Zipf's law.

use anyhow::Result;
use tidegate_edge::rule::Rule;
use tidegate_edge::truth::Digest;
use tidegate_edge::worker::cache::Cache;
use tidegate_edge::worker::entry::Entry;
use tidegate_edge::worker::key::KeyHasher;

use super::lru::Lru;
use crate::progress;
use crate::report::{Figure, Goal};
use crate::rounds::Effort;

/// How much more often the first is clicked than the next ones.
const EXPONENTS: [f64; 3] = [0.8, 0.99, 1.2];

pub(super) fn figures(effort: Effort) -> Result<Vec<Figure>> {
    let links = effort.pick(100_000, 1_000_000);
    let mut figures = Vec::new();
    for exponent in EXPONENTS {
        let name = format!("edge.hit_rate_vs_lru.zipf_{exponent}");
        progress(&name);
        let [ours, theirs] = hit_rates(links, exponent)?;
        figures.push(Figure::ours(&name, "of 1", ours).beside("LRU", theirs).goal(Goal::AtLeast(0.98)));
    }
    Ok(figures)
}

/// Of clicks, three for each link, the part that finds its link; those before both are full do not count.
fn hit_rates(links: usize, exponent: f64) -> Result<[f64; 2]> {
    let room = links / 10;
    let (hasher, clicks) = (KeyHasher::seeded(1), zipf(links, links * 3, exponent));
    let rule: Rule = serde_json::from_value(serde_json::json!({
        "id": "", "path": "/", "destination": "/", "version": 1, "createdAt": 0, "updatedAt": 0,
    }))?;
    let entry = |number: usize| {
        let mut rule = rule.clone();
        rule.id = super::links::id(number);
        rule.terms.path = super::links::path(number);
        rule.terms.destination = super::links::destination(number);
        let hash = Digest::of(&rule.id, 1, "");
        Entry::new(&rule, 0, hash)
    };
    let host = hasher.host("*");
    let hash = |path: &str| hasher.path(path).of_host(host);
    // What so many take with nobody having left.
    let mut filled = Cache::new(room * 150, 1);
    for number in 0..room {
        let _ = filled.insert(hash(&super::links::path(number)), &entry(number), 0);
    }
    let mut cache = Cache::new(filled.bytes(), 1000);
    let mut lru = Lru::new(links, filled.len());
    drop(filled);
    let mut hits = [0, 0];
    for (turn, &number) in clicks.iter().enumerate() {
        let path = super::links::path(number);
        let is_there = cache.get(hash(&path), 0, &path).is_some();
        if !is_there {
            let _ = cache.insert(hash(&path), &entry(number), 0);
        }
        let was_there = lru.ask(number);
        if turn >= clicks.len() / 3 {
            hits[0] += usize::from(is_there);
            hits[1] += usize::from(was_there);
        }
    }
    Ok(hits.map(|hits| hits as f64 / (clicks.len() - clicks.len() / 3) as f64))
}

/// Numbers below `count`, each the less often the larger it is.
fn zipf(count: usize, clicks: usize, exponent: f64) -> Vec<usize> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=count)
        .map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        })
        .collect();
    let random = tidegate::random::Random::seeded(1);
    (0..clicks)
        .map(|_| {
            let drawn = random.draw() * sum;
            sums.partition_point(|&it| it < drawn).min(count - 1)
        })
        .collect()
}
