//! What is said about redirects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::clock::Timestamp;
use tidegate::hot::HotPage;
use tidegate_edge::worker::{CacheReport, Explanation, Outcome, Progress};

use crate::api::{ms, response};
use crate::edge::{SAMPLED_PER_SECOND, WINDOW};

response! {
    /// How a worker's cache is doing.
    #[schemars(rename = "EdgeCache")]
    struct Cache from(worker: &str, cache: CacheReport, progress: Progress) {
        /// What the worker calls itself.
        worker: String = worker.to_owned(),
        /// Rules in memory.
        items: u64 = cache.items,
        /// Of these, rules for folders, which are all in memory.
        folders: u64 = cache.folders,
        /// Bytes of all that is kept, the filter and hosts included.
        bytes: u64 = cache.bytes,
        /// Bytes that it may have.
        max_bytes: u64 = cache.max_bytes,
        /// The one of the other.
        usage: f64 = cache.bytes as f64 / cache.max_bytes.max(1) as f64,
        /// Rounds of evictions.
        evictions: u64 = cache.evictions,
        items_evicted: u64 = cache.items_evicted,
        /// The most bytes that rules for one path have had.
        peak_bytes: u64 = cache.peak_bytes,
        /// When rules were last evicted.
        last_eviction: Option<String> = cache.last_eviction_ms.map(|ms| Timestamp::from_millis(ms).to_string()),
        progress: EdgeProgress = EdgeProgress::new(progress),
    }

    /// How far a worker is.
    struct EdgeProgress from(it: Progress) {
        /// Whether all keys were read, and all rules for folders fit.
        loaded: bool = it.is_complete,
        /// Rules in the database, as far as this worker knows.
        rules: u64 = it.rules,
        /// The last change that was applied, as the id of its event.
        applied: Option<String> = it.applied.map(|mark| mark.to_string()),
        /// Changes that were heard of and not applied.
        lag: u64 = it.lag,
        connected: bool = it.is_connected,
        /// How long ago the database was last heard of.
        age_ms: Option<u64> = it.age_ms,
        /// Why it is not connected.
        reason: Option<String> = it.reason,
    }

    /// Why a request is answered as it is.
    #[schemars(rename = "EdgeExplanation")]
    struct Explained from(it: Explanation, source: &str, rule: Option<String>, answer: EdgeAnswer) {
        /// The host that it is looked up by.
        host: String = it.host,
        /// The path likewise.
        path: String = it.path,
        /// What was found, step by step.
        steps: Vec<String> = it.steps,
        /// The id of the rule that answers.
        rule: Option<String> = rule,
        /// Where the answer is from: `cache`, `prefix`, `filter`, or `fetch` if the database was asked.
        source: String = source.to_owned(),
        answer: EdgeAnswer = answer,
    }

    /// Links that are redirected most right now.
    #[schemars(rename = "EdgeHotLinks")]
    struct HotLinks from(links: Vec<HotPage>) {
        /// For how long a redirect counts.
        window_ms: u64 = ms(WINDOW),
        /// Of more redirects than this only some are counted.
        sampled_per_second: u64 = SAMPLED_PER_SECOND,
        links: Vec<HotLink> = links.into_iter().map(HotLink::new).collect(),
    }

    /// One of them.
    #[schemars(rename = "EdgeHotLink")]
    struct HotLink from(it: HotPage) {
        /// Host and path; of a long one its beginning, and a number.
        link: String = it.page,
        /// Redirects that were counted.
        redirects: u64 = it.edits,
        last_seen: String = it.last_seen.to_string(),
    }

    /// Which workers keep the rule for a request.
    #[schemars(rename = "EdgeOwners")]
    struct Owners from(host: String, path: String, owners: Vec<String>, own: bool) {
        host: String = host,
        path: String = path,
        /// By their names, the first one first; all that are known of if rules are not shared out.
        owners: Vec<String> = owners,
        /// Whether this worker is one of them.
        own: bool = own,
    }
}

/// What is sent.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct EdgeAnswer {
    pub(crate) status: u16,
    /// `null` if nobody is sent on.
    pub(crate) location: Option<String>,
    pub(crate) cache_control: Option<String>,
}

impl EdgeAnswer {
    pub(crate) fn new(outcome: Outcome<'_>) -> Self {
        let status = |status| Self { status, location: None, cache_control: None };
        match outcome {
            Outcome::Redirect(to) => {
                let to = to.into_owned();
                let (location, cache_control) = (Some(to.location), to.cache_control);
                Self { status: to.code.as_u16(), location, cache_control }
            }
            Outcome::Gone => status(410),
            Outcome::NotFound => status(404),
            Outcome::Invalid => status(400),
            // Whatever else there will be.
            _ => status(503),
        }
    }
}
