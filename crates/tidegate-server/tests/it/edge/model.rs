//! The rules as a plain list with all its past, and what it says of requests.

use std::sync::Arc;

use serde_json::{Value, json};

/// A rule, as a test thinks of it.
#[derive(Debug, Clone)]
pub(super) struct Link {
    pub(super) id: String,
    pub(super) host: &'static str,
    pub(super) path: String,
    pub(super) version: u64,
    pub(super) enabled: bool,
    pub(super) expires_at: Option<u64>,
    pub(super) max_clicks: Option<u64>,
    pub(super) has_fallback: bool,
}

/// What a request sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    To(String),
    Gone,
    NotFound,
    Unavailable,
}

impl Link {
    pub(super) fn destination(&self) -> String {
        format!("https://d.example/{}/{}", self.id, self.version)
    }

    pub(super) fn terms(&self) -> Value {
        // Only what can end has something behind its end.
        let has_fallback = self.has_fallback && (self.expires_at.is_some() || self.max_clicks.is_some());
        json!({
            "host": self.host, "path": self.path, "destination": self.destination(), "enabled": self.enabled,
            "expiresAt": self.expires_at, "maxClicks": self.max_clicks,
            "fallback": has_fallback.then(|| format!("https://over.example/{}", self.id)),
        })
    }

    /// How near it is to a request: less is nearer, by host and then by path.
    fn rank(&self, host: &str, path: &str) -> Option<(usize, usize)> {
        let of_host = match self.host.strip_prefix("*.") {
            _ if self.host == host => 0,
            _ if self.host == "*" => 1000,
            Some(parent) if host == parent || host.ends_with(&format!(".{parent}")) => 999 - parent.len(),
            _ => return None,
        };
        let of_path = match self.path.strip_suffix("/*") {
            None if self.path == path => 0,
            Some(folder) if path == folder || path.starts_with(&format!("{folder}/")) => 999 - folder.len(),
            _ => return None,
        };
        Some((of_host, of_path))
    }

    fn over(&self) -> Seen {
        if self.has_fallback { Seen::To(format!("https://over.example/{}", self.id)) } else { Seen::Gone }
    }
}

/// All rules after a change, and what the server calls that place.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    pub(super) mark: String,
    pub(super) links: Vec<Arc<Link>>,
}

impl Moment {
    /// What a request may see between two times.
    pub(super) fn may_see(&self, host: &str, path: &str, from_ms: u64, until_ms: u64) -> Vec<Seen> {
        let ranked = self.links.iter().filter(|it| it.enabled);
        let nearest =
            ranked.filter_map(|it| it.rank(host, path).map(|rank| (rank, it))).min_by_key(|it| it.0);
        let Some((_, link)) = nearest else { return vec![Seen::NotFound] };
        let mut may_see = Vec::new();
        if link.expires_at.is_none_or(|end| from_ms <= end) {
            may_see.push(Seen::To(link.destination()));
        }
        if link.expires_at.is_some_and(|end| until_ms > end) {
            may_see.push(link.over());
        }
        if link.max_clicks.is_some() {
            may_see.extend([link.over(), Seen::Unavailable]);
        }
        may_see
    }
}

/// All moments, in as many lists as there were times between two goings back of the database.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) lives: Vec<Vec<Moment>>,
    /// Whether a change is under way, and what comes of it if it is written.
    pub(super) under_way: Option<Vec<Arc<Link>>>,
}

/// A request that was answered, and where the truth was then.
#[derive(Debug)]
pub(super) struct Observed {
    #[allow(dead_code, reason = "a failure shows it")]
    pub(super) worker: usize,
    pub(super) host: &'static str,
    pub(super) path: String,
    pub(super) seen: Seen,
    /// What the worker had applied before it was asked, if anything.
    pub(super) applied: Option<String>,
    /// The truth's life and moment when it was asked, and when the answer was there.
    pub(super) from: (usize, usize),
    pub(super) until: (usize, usize),
    pub(super) from_ms: u64,
    pub(super) until_ms: u64,
}

impl Past {
    pub(super) fn now(&self) -> &Moment {
        self.lives.last().unwrap().last().unwrap()
    }

    /// The last moment that there may be.
    pub(super) fn last(&self) -> (usize, usize) {
        let life = self.lives.len() - 1;
        (life, self.lives[life].len() - 1 + usize::from(self.under_way.is_some()))
    }

    fn find(&self, mark: &str) -> Option<(usize, usize)> {
        self.lives.iter().enumerate().find_map(|(life, moments)| {
            moments.iter().position(|it| it.mark == mark).map(|moment| (life, moment))
        })
    }

    /// Whether an answer is the truth's at one place: not before what was applied when it was asked for, and not behind
    /// where the truth was when it had come.
    pub(super) fn check(&self, it: &Observed) -> Result<(), String> {
        let from = match &it.applied {
            Some(mark) => self.find(mark).ok_or_else(|| format!("{mark} was never so: {it:?}"))?,
            None => (it.from.0, 0),
        };
        let mut may_see = Vec::new();
        for life in from.0..=it.until.0 {
            let moments = &self.lives[life];
            let first = if life == from.0 { from.1 } else { 0 };
            let end = if life == it.until.0 { it.until.1 + 1 } else { moments.len() };
            for moment in &moments[first.min(moments.len())..end.min(moments.len())] {
                may_see.extend(moment.may_see(it.host, &it.path, it.from_ms, it.until_ms));
                if may_see.contains(&it.seen) {
                    return Ok(());
                }
            }
        }
        may_see.dedup();
        Err(format!("{it:?} from {from:?}, and may see {may_see:?}"))
    }
}
