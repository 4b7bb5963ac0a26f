//! What the worker's cache really takes, with the allocator that the server has: for that it is a program of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::Command;

use tidegate_edge::rule::Rule;
use tidegate_edge::truth::Digest;
use tidegate_edge::worker::cache::Cache;
use tidegate_edge::worker::entry::Entry;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MB: usize = 1_000_000;

/// Each is measured in a process that does nothing else: this test starts itself again.
const ROLE: &str = "TIDEGATE_TEST_CACHE_MEMORY";

/// Bytes that were accounted for, and those that the process grew by; with the system's huge pages or without.
fn measured(test: &str, role: &str, huge_pages: bool) -> (usize, usize) {
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program);
    child.args(["--exact", "--nocapture", test]).env(ROLE, role);
    let output = child.env("MIMALLOC_ALLOW_THP", if huge_pages { "1" } else { "0" }).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|it| it.strip_prefix("took "));
    let (accounted, real) = line.unwrap_or_else(|| panic!("{text}")).split_once(' ').unwrap();
    println!("{role}, huge pages {huge_pages}: {accounted} bytes accounted for, {real} taken");
    (accounted.parse().unwrap(), real.parse().unwrap())
}

/// Resident memory of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// One of a path of 20 bytes, an id of 8, and a destination of 45 and more.
struct Rules(Rule);

impl Rules {
    fn new() -> Self {
        let rule =
            r#"{"id": "", "path": "/", "destination": "/", "version": 1, "createdAt": 0, "updatedAt": 0}"#;
        Self(serde_json::from_str(rule).unwrap())
    }

    fn put(&mut self, cache: &mut Cache, number: usize, more: usize) {
        let rule = &mut self.0;
        rule.id = format!("{number:08}");
        rule.created_at = 1_790_000_000_000 + number as u64;
        rule.terms.path = format!("/promo/2024/{number:08}");
        rule.terms.destination =
            format!("https://www.example.com/landing/page-{number:08}{}", "x".repeat(more));
        let mut hasher = DefaultHasher::new();
        rule.terms.path.hash(&mut hasher);
        let entry = Entry::new(rule, 1, Digest::of(&rule.id, 1, ""));
        assert!(cache.insert(hasher.finish(), &entry, 0).is_kept);
    }
}

#[test]
fn rules_take_what_is_accounted_for_and_no_more_than_130_bytes_each() {
    if let Ok(count) = std::env::var(ROLE) {
        let count = count.parse().unwrap();
        let mut rules = Rules::new();
        let before = resident();
        let mut cache = Cache::new(500 * MB, 1000);
        (0..count).for_each(|number| rules.put(&mut cache, number, 0));
        assert_eq!(cache.len(), count);
        return println!("\ntook {} {}", cache.bytes(), resident() - before);
    }
    for (count, most) in [(100_000, 40 * MB), (1_000_000, 130 * MB)] {
        let test = "rules_take_what_is_accounted_for_and_no_more_than_130_bytes_each";
        let (_, real) = measured(test, &count.to_string(), true);
        assert!(real <= most, "{count} rules take {real}");
        // With huge pages the system adds some MB, whatever the size.
        let (accounted, real) = measured(test, &count.to_string(), false);
        assert!(accounted.abs_diff(real) * 100 <= real * 5, "{count} rules: {accounted}, {real} taken");
    }
}

/// Whoever comes is of another size than whoever leaves, and sizes drift, which is hard for an allocator.
#[test]
fn a_bound_is_one_for_real_memory_too() {
    const BOUND: usize = 20 * MB;
    if let Ok(role) = std::env::var(ROLE) {
        let mut rules = Rules::new();
        let before = resident();
        let mut cache = Cache::new(BOUND, 1000);
        let mut most = 0;
        for number in 0..600_000 {
            let drift = if role == "drift" { number / 3000 } else { 0 };
            rules.put(&mut cache, number, drift + number * 7919 % 97);
            assert!(cache.bytes() <= BOUND);
            if number % 10_000 == 0 {
                most = most.max(resident() - before);
            }
        }
        assert!(cache.stats().evicted > 400_000);
        return println!("\ntook {} {most}", cache.stats().peak_bytes);
    }
    for role in ["sizes", "drift"] {
        let (_, real) = measured("a_bound_is_one_for_real_memory_too", role, false);
        assert!(real * 100 <= BOUND * 110, "{role}: {real} of {BOUND}");
    }
}
