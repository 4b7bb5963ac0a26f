//! Declares what this process has open, and sees to it that it stays declared.
//!
//! Opening a part does not wait for the store: it is declared right after, or when the
//! store is there again, and once more after a flush. What is declared is looked at every
//! few seconds: it costs one call, and takes know nothing of it.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use compact_str::{CompactString, ToCompactString as _};
use parking_lot::Mutex;
use redis::Value;
use tokio::sync::Notify;

use super::declaration::{
    self, Declaration, Declarations, DeclaredSettings, Differences, FIELDS, Part, Step, UNUSED,
};
use super::redis::{Call, RedisStore, Replies, Script};
use crate::clock::{self, Timestamp};
use crate::error::{Error, Result};
use crate::log;
use crate::metrics::Metrics;

static DECLARE: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("declare.lua")]));
static DECLARATIONS: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("declarations.lua")]));

/// How often it is looked at what is declared, at most and at least.
const LONGEST_PACE: Duration = Duration::from_secs(5);
const SHORTEST_PACE: Duration = Duration::from_millis(500);

/// How often those that nobody uses are looked for.
const TIDY_EVERY: Duration = Duration::from_secs(24 * 3600);

/// Parts asked for in one call.
const AT_A_TIME: usize = 100;

/// Whoever loses so many races in a row looks again later.
const MAX_ATTEMPTS: usize = 10;

const REPLIES: Replies = Replies("declarations");

/// The first partition: its marker has the declarations.
const FIRST: u32 = 0;

/// What a room does about the settings that others use: it deletes nothing that they count.
type Respect = Box<dyn Fn(&[DeclaredSettings]) + Send + Sync>;

/// Declares the parts of a store.
pub(crate) struct Declarer {
    store: RedisStore,
    policy: Declarations,
    by: String,
    parts: Mutex<Vec<Arc<Open>>>,
    /// Two at a time would race with each other.
    turn: tokio::sync::Mutex<()>,
    opened: Notify,
    metrics: Metrics,
}

/// A part that is open here.
struct Open {
    part: Part,
    respect: Respect,
    /// How soon others must be heard of.
    pace: Duration,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// It has been declared, or found to be.
    is_declared: bool,
    /// What was last found there, if it differs from ours.
    differing: Option<DeclaredSettings>,
}

impl fmt::Debug for Declarer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Declarer").field("policy", &self.policy).field("by", &self.by).finish_non_exhaustive()
    }
}

/// Ends the declaring when it is dropped.
#[derive(Debug)]
pub(crate) struct DeclarerTask(tokio::task::JoinHandle<()>);

impl Drop for DeclarerTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What the store said of one field.
struct Stored {
    now: Timestamp,
    has_marker: bool,
    is_changed: bool,
    text: String,
}

impl Declarer {
    pub(crate) fn new(store: RedisStore, policy: Declarations, metrics: Metrics) -> Self {
        Self {
            store,
            policy,
            by: format!("{}:{}", host(), std::process::id()),
            parts: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            opened: Notify::new(),
            metrics,
        }
    }

    /// Has `part` declared from now on. `respect` is told what settings others use; of those
    /// it must hear before as long as `counts_for` has passed.
    pub(crate) fn add(
        &self,
        part: Part,
        counts_for: Duration,
        respect: impl Fn(&[DeclaredSettings]) + Send + Sync + 'static,
    ) {
        let pace = (counts_for / 2).clamp(SHORTEST_PACE, LONGEST_PACE);
        let open = Open { part, respect: Box::new(respect), pace, seen: Mutex::default() };
        self.parts.lock().push(Arc::new(open));
        self.opened.notify_one();
    }

    /// Declares whatever is not, again and again, until the task is dropped. Who only reads
    /// does so when it is told to.
    pub(crate) fn start(self: &Arc<Self>) -> Option<DeclarerTask> {
        if self.policy == Declarations::ReadOnly {
            return None;
        }
        let declarer = self.clone();
        Some(DeclarerTask(tokio::spawn(async move {
            let mut tidied = None;
            loop {
                let pace = declarer.round(&mut tidied).await;
                if tokio::time::timeout(pace, declarer.opened.notified()).await.is_ok() {
                    // Whoever opens many opens them at once.
                    tokio::task::yield_now().await;
                }
            }
        })))
    }

    /// One round; how long until the next.
    async fn round(&self, tidied: &mut Option<Instant>) -> Duration {
        if self.parts.lock().is_empty() {
            return LONGEST_PACE;
        }
        // A lane that knows its server to be away is asked by its own probe.
        if self.store.check_partition(FIRST).is_err() || self.declare().await.is_err() {
            return SHORTEST_PACE;
        }
        let is_tidy = tidied.is_some_and(|then| then.elapsed() < TIDY_EVERY);
        if !is_tidy && self.list(Some(UNUSED)).await.is_ok() {
            *tidied = Some(clock::monotonic());
        }
        self.parts.lock().iter().map(|open| open.pace).min().unwrap_or(LONGEST_PACE)
    }

    /// Declares all parts that are open, or sees that they are.
    pub(crate) async fn declare(&self) -> Result<()> {
        let _turn = self.turn.lock().await;
        let parts = self.parts.lock().clone();
        for parts in parts.chunks(AT_A_TIME) {
            let fields = parts.iter().map(|open| (open.part.field(), String::new(), String::new()));
            let mut stored = self.compare_and_set(fields.collect()).await?;
            if stored.iter().any(|it| !it.has_marker) {
                if self.policy == Declarations::ReadOnly {
                    return Ok(());
                }
                // Somebody has emptied the store. Whoever finds it says so.
                self.store.renew_markers().await?;
                let fields = parts.iter().map(|open| (open.part.field(), String::new(), String::new()));
                stored = self.compare_and_set(fields.collect()).await?;
            }
            for (open, stored) in parts.iter().zip(stored) {
                self.declare_one(open, stored).await?;
            }
        }
        Ok(())
    }

    /// What is open here with other settings than it is declared with.
    pub(crate) fn differing(&self) -> Vec<(Part, DeclaredSettings)> {
        let parts = self.parts.lock();
        let differs = |open: &Arc<Open>| Some((open.part.clone(), open.seen.lock().differing.clone()?));
        parts.iter().filter_map(differs).collect()
    }

    async fn declare_one(&self, open: &Open, mut stored: Stored) -> Result<()> {
        let part = &open.part;
        for _ in 0..MAX_ATTEMPTS {
            if !stored.has_marker {
                return Err(Error::unavailable("the store has no marker yet"));
            }
            let declared = Declaration::parse(part.kind, part.name.clone(), &stored.text);
            let is_new = !open.seen.lock().is_declared;
            let step = declaration::step(part, declared.as_ref(), self.policy, is_new, &self.by, stored.now);
            let (wanted, is_replaced) = match step {
                Step::Agreed => (declared, false),
                Step::Differs => (declared, false),
                Step::Note(wanted) => (Some(wanted), false),
                Step::Replace(wanted) => (Some(wanted), true),
            };
            let text = wanted.as_ref().map(Declaration::text).unwrap_or_default();
            if text != stored.text {
                let was = std::mem::take(&mut stored.text);
                let now = self.compare_and_set(vec![(part.field(), was.clone(), text)]).await?;
                stored = now.into_iter().next().ok_or_else(|| REPLIES.unexpected("nothing"))?;
                if !stored.is_changed {
                    // Somebody was faster: what they said counts first.
                    continue;
                }
                if is_replaced {
                    let was = Declaration::parse(part.kind, part.name.clone(), &was);
                    self.say_replaced(part, was.as_ref());
                }
            }
            self.note(open, wanted.as_ref(), stored.now);
            return Ok(());
        }
        Err(Error::unavailable(format!(
            "{} {}: others keep declaring it",
            part.kind.as_str(),
            part.name.as_str()
        )))
    }

    /// Keeps in mind what is declared now, and says once if it is not what we have.
    fn note(&self, open: &Open, declared: Option<&Declaration>, now: Timestamp) {
        let Open { part, respect, seen, .. } = open;
        let beside = declared.map(|it| it.beside(&part.settings, now)).unwrap_or_default();
        respect(&beside);
        let differing = declared.filter(|it| it.settings != part.settings);
        let labels = [("part", part.kind.as_str()), ("name", part.name.as_str())];
        let help = "1 if the store declares other settings than those in use here";
        let differs = self.metrics.gauge("tidegate_declarations_differing", help, &labels);
        differs.set(differing.is_some().into());
        let mut seen = seen.lock();
        seen.is_declared = true;
        let settings = differing.map(|it| it.settings.clone());
        if let Some(declared) = differing
            && seen.differing != settings
            && self.policy != Declarations::ReadOnly
        {
            let differences = Differences { declared: &declared.settings, own: &part.settings };
            log::warn!(
                part = part.kind.as_str(),
                name = part.name.as_str(),
                %differences,
                declared_by = declared.by,
                "declared with other settings: they are left as they are, and this server keeps its own"
            );
        }
        seen.differing = settings;
    }

    fn say_replaced(&self, part: &Part, was: Option<&Declaration>) {
        let labels = [("part", part.kind.as_str()), ("name", part.name.as_str())];
        let help = "Declarations in the store that were replaced because they had other settings";
        self.metrics.counter("tidegate_declarations_replaced", help, &labels).inc();
        let none = DeclaredSettings::new();
        let declared = was.map_or(&none, |it| &it.settings);
        let differences = Differences { declared, own: &part.settings };
        log::warn!(
            part = part.kind.as_str(),
            name = part.name.as_str(),
            %differences,
            declared_by = was.map(|it| it.by.as_str()).unwrap_or_default(),
            "declared with other settings: replaced them"
        );
    }

    /// Replaces what is declared of `part`; what it was.
    pub(crate) async fn replace(&self, part: &Part) -> Result<Option<Declaration>> {
        let mut stored = self.compare_and_set_one(part.field(), String::new(), String::new()).await?;
        for _ in 0..MAX_ATTEMPTS {
            let was = Declaration::parse(part.kind, part.name.clone(), &stored.text);
            let Step::Replace(wanted) = declaration::replacement(part, was.as_ref(), &self.by, stored.now)
            else {
                return Ok(was);
            };
            stored = self.compare_and_set_one(part.field(), stored.text, wanted.text()).await?;
            if stored.is_changed {
                return Ok(was);
            }
        }
        Err(Error::unavailable(format!(
            "{} {}: others keep declaring it",
            part.kind.as_str(),
            part.name.as_str()
        )))
    }

    /// All that is declared, without what nobody has used for `unused`, which leaves.
    pub(crate) async fn list(&self, unused: Option<Duration>) -> Result<Vec<Declaration>> {
        let unused = unused.map(|it| it.as_millis().to_compact_string()).unwrap_or_default();
        let own = vec![FIELDS.to_compact_string(), unused];
        let value = self.call(&DECLARATIONS, 1, own).await?;
        let mut fields = REPLIES.list(&value)?;
        fields.time()?;
        let mut all = Vec::with_capacity(fields.len() / 2);
        for (field, text) in fields.each(|it| Ok((it.text()?, it.text()?)))? {
            if Part::is_former_main(&field) {
                log::warn!(
                    field,
                    "a space that an older version called main is on this store, under spaces:main: it is not the \
                     default space, which is called so now"
                );
            }
            // What cannot be read is of a version to come, or of nobody.
            all.extend(Declaration::of_field(&field, &text));
        }
        all.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        Ok(all)
    }

    async fn compare_and_set_one(&self, field: String, expected: String, wanted: String) -> Result<Stored> {
        let stored = self.compare_and_set(vec![(field, expected, wanted)]).await?;
        stored.into_iter().next().ok_or_else(|| REPLIES.unexpected("nothing"))
    }

    /// Of each field what it is, made what is wanted if it is what was expected; nothing wanted only reads.
    async fn compare_and_set(&self, fields: Vec<(String, String, String)>) -> Result<Vec<Stored>> {
        let items = fields.len();
        let texts = fields.into_iter().flat_map(|(field, expected, wanted)| [field, expected, wanted]);
        let value = self.call(&DECLARE, items, texts.map(CompactString::from).collect()).await?;
        REPLIES.items(&value, items)?.iter().map(stored).collect()
    }

    async fn call(&self, script: &'static Script, items: usize, args: Vec<CompactString>) -> Result<Value> {
        let keys = vec![self.store.marker(FIRST); items];
        self.store.call_uncounted(FIRST, Call::new(script).items(items).keys(keys).args(args)).await
    }
}

fn stored(value: &Value) -> Result<Stored> {
    let mut fields = REPLIES.list(value)?;
    let (now, has_marker, is_changed) = (fields.time()?, fields.flag()?, fields.flag()?);
    if fields.flag()? {
        return Err(Error::unavailable("the store takes no declarations now: its memory may be full"));
    }
    Ok(Stored { now, has_marker, is_changed, text: fields.text()? })
}

/// What this machine is called, if it says so.
fn host() -> String {
    let said = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let said = said.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    match said.trim() {
        "" => "unknown".to_owned(),
        host => host.to_owned(),
    }
}
