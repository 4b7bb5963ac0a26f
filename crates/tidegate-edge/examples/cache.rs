//! Looks rules up in the worker's cache, beside a map of owned texts, and says how long that takes and how much memory.
//!
//! ```text
//! cargo run --release -p tidegate-edge --example cache -- 1000000
//! ```

use std::hash::BuildHasher as _;
use std::hint::black_box;

use hashbrown::{DefaultHashBuilder, HashMap};
use tidegate_edge::rule::Rule;
use tidegate_edge::truth::Digest;
use tidegate_edge::worker::cache::Cache;
use tidegate_edge::worker::entry::Entry;

/// That of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 12;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "1000000".to_owned());
    let count: u64 = argument.parse().map_err(|_| "usage: cache COUNT")?;
    let rule: Rule = serde_json::from_value(serde_json::json!({
        "id": "", "path": "/", "destination": "/", "version": 1, "createdAt": 1_790_000_000_000_u64, "updatedAt": 0,
    }))?;
    let hasher = DefaultHashBuilder::default();
    let fill = |cache: &mut Cache| {
        let started = on_processor()?;
        for number in 0..count {
            let mut rule = rule.clone();
            rule.id = format!("{number:08}");
            rule.terms.path = Path::of(number).text()?.to_owned();
            rule.terms.destination = destination(number);
            let entry = Entry::new(&rule, 1, Digest::of(&rule.id, 1, ""));
            let _ = cache.insert(hasher.hash_one((1_u32, &rule.terms.path)), &entry, 0);
        }
        Ok::<_, Box<dyn std::error::Error>>((on_processor()? - started) / count as f64)
    };
    let before = resident()?;
    let mut cache = Cache::new(count as usize * 130, 1000);
    let took = fill(&mut cache)?;
    let stats = cache.stats();
    let taken = resident()? - before;
    println!(
        "{} rules in {:.0} ns each, {:.1} MB accounted for, {:.1} MB resident, {} evicted",
        stats.len,
        took,
        stats.bytes as f64 / 1e6,
        taken as f64 / 1e6,
        stats.evicted,
    );
    let mut small = Cache::new(count as usize * 13, 1000);
    let took = fill(&mut small)?;
    println!("into a tenth of that: {took:.0} ns each, {:?}", small.stats());
    drop(small);
    let before = resident()?;
    let mut map: HashMap<String, String> = HashMap::default();
    for number in 0..count {
        map.insert(Path::of(number).text()?.to_owned(), destination(number));
    }
    println!("map of texts: {:.1} MB resident", (resident()? - before) as f64 / 1e6);
    let mut best = [f64::MAX; 5];
    for _ in 0..ROUNDS {
        let mut measured = [
            rounds(count, |path| hasher.hash_one((1_u32, path)) as usize)?,
            rounds(count, |path| map.get(path).map_or(0, |it| usize::from(it.as_bytes()[10])))?,
            rounds(count, |path| {
                let hit = cache.get(hasher.hash_one((1_u32, path)), 1, path);
                hit.map_or(0, |it| usize::from(it.view().redirect(path, None).location.as_bytes()[10]))
            })?,
            rounds(count, |path| {
                let hit = cache.get(hasher.hash_one((1_u32, path)), 1, path);
                hit.map_or(0, |it| {
                    it.click();
                    usize::from(it.view().redirect(path, None).location.as_bytes()[10])
                })
            })?,
            0.0,
        ];
        let started = on_processor()?;
        let taken = cache.take_clicks(usize::MAX).len();
        measured[4] = (on_processor()? - started) / taken as f64;
        for (best, measured) in best.iter_mut().zip(measured) {
            *best = best.min(measured);
        }
    }
    let [hash, map, get, click, take] = best;
    println!(
        "hash alone {hash:.1} ns, map {map:.1}, get {get:.1}, get and click {click:.1}, take clicks {take:.1}"
    );
    println!("get of map: {:.2}, with click {:.2}", get / map, click / map);
    Ok(())
}

/// Nanoseconds that a lookup of a random path takes.
fn rounds(count: u64, look: impl Fn(&str) -> usize) -> Result<f64, Box<dyn std::error::Error>> {
    let started = on_processor()?;
    let mut seen = 0;
    let mut state = 1_u64;
    for _ in 0..count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = ((state >> 32) * count) >> 32;
        seen += look(Path::of(number).text()?);
    }
    black_box(seen);
    Ok((on_processor()? - started) / count as f64)
}

/// Nanoseconds that this thread had a processor: others may be busy meanwhile.
fn on_processor() -> Result<f64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().ok_or("no time on a processor")?.parse()?)
}

/// A path of 20 bytes.
struct Path([u8; 20]);

impl Path {
    fn of(number: u64) -> Self {
        let mut path = *b"/promo/2024/00000000";
        let mut rest = number;
        for digit in path[12..].iter_mut().rev() {
            *digit += (rest % 10) as u8;
            rest /= 10;
        }
        Self(path)
    }

    fn text(&self) -> Result<&str, std::str::Utf8Error> {
        std::str::from_utf8(&self.0)
    }
}

fn destination(number: u64) -> String {
    format!("https://www.example.com/landing/page-{number:08}")
}

fn resident() -> Result<usize, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).ok_or("no RssAnon")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<usize>()? * 1024)
}
