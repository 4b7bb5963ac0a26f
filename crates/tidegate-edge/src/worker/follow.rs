//! A worker follows the truth: reads all rules once, applies every change in its order, comes back when it was cut off, and
//! reads all rules anew when what is here cannot be what the truth has.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::core::Core;
use super::filter::Filter;
use super::keys::Point;
use super::load::Loading;
use super::options::Hydrate;
use super::origin::{Origin, OriginChanges as _, OriginSnapshot as _};
use super::report::NO_ROOM_FOR_FOLDERS;
use crate::error::{Error, Result};
use crate::rule::Rule;
use crate::stream::{Event, Follower, Mark, Message, Next, Step};
use crate::truth::{Fields, Position};

/// Between two tries, at first and at most: any part of it, so that those who were cut off together come back one by one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Heartbeats that may be missed before the connection is taken for dead.
const MISSED: u32 = 4;

/// A tree that did not fit is tried again after this.
const TRIED_AGAIN_MS: u64 = 60_000;

/// Follows until the worker ends. What a bug has left behind is not gone by: it begins anew.
pub(super) async fn follow<O: Origin>(core: Arc<Core<O>>) {
    loop {
        // Ends with this.
        let mut following = JoinSet::new();
        following.spawn(follow_all(Arc::clone(&core)));
        if let Some(Err(error)) = following.join_next().await {
            tracing::error!(worker = core.options.name, %error, "following has ended by a bug: all rules are read anew");
        }
        core.write(|state| state.distrust());
        sleep(LONGEST_PAUSE).await;
    }
}

async fn follow_all<O: Origin>(core: Arc<Core<O>>) {
    let mut follower = Follower::default();
    let mut pause = FIRST_PAUSE;
    loop {
        let begun_ms = core.pace.elapsed_ms();
        let Err(error) = session(&core, &mut follower).await;
        follower.cut();
        core.away(&error);
        // Who was connected for longer than it had waited for comes back soon; who never is, ever more seldom.
        if core.pace.elapsed_ms().saturating_sub(begun_ms) > pause.as_millis() as u64 {
            pause = FIRST_PAUSE;
        }
        sleep(pause.mul_f64(core.options.random.draw())).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// One connection, until it ends.
async fn session<O: Origin>(
    core: &Arc<Core<O>>,
    follower: &mut Follower,
) -> Result<std::convert::Infallible> {
    let silence = core.origin.heartbeat() * MISSED;
    let late = |_| Error::unavailable(format!("nothing was heard for {} s", silence.as_secs()));
    let mark = follower.mark().cloned();
    let mut changes =
        timeout(silence, core.origin.changes(&core.options.name, mark.as_ref())).await.map_err(late)??;
    core.connected();
    loop {
        let next = tokio::select! {
            next = timeout(silence, changes.next()) => next.map_err(late)??,
            // The stream says it too, sooner or later.
            () = core.other_epoch.notified() => return Err(Error::unavailable("the database may have gone back")),
        };
        let message = match next {
            Next::Message(message) => message,
            Next::Cut(reason) => return Err(Error::unavailable(reason)),
        };
        core.heard(&message);
        let difference = match follower.take(message) {
            Step::Apply(events) => core.apply(follower.mark(), &events).err(),
            Step::Compare(position) => core.compare(&position).err(),
            Step::Reload { from, reason } => {
                if core.applied().is_some() {
                    core.metrics.resyncs.inc();
                }
                load(core, follower, Some(&from), &reason).await?;
                None
            }
            Step::Wait | Step::Known => None,
        };
        if let Some(difference) = difference {
            core.metrics.repairs.inc();
            tracing::warn!(
                worker = core.options.name,
                difference,
                "what is here is not what the database has: all rules are read anew"
            );
            // Whatever comes of it: it does not go on from here.
            *follower = Follower::default();
            load(core, follower, None, &difference).await?;
        }
        core.grow();
    }
}

/// Reads all rules anew. Meanwhile what is here answers.
async fn load<O: Origin>(
    core: &Arc<Core<O>>,
    follower: &mut Follower,
    from: Option<&Mark>,
    reason: &str,
) -> Result<()> {
    let fields = match core.options.hydrate {
        Hydrate::Keys => Fields::Keys,
        Hydrate::Bodies => Fields::All,
    };
    tracing::info!(worker = core.options.name, reason, "all rules are read");
    let loading = core.read(|state| Loading::begin(state, fields));
    let (loaded, position) = read_all(core, loading, fields, from).await?;
    let mark = Mark::from(&position);
    // What time it was when it was made is no longer of interest: others may have asked for it before.
    // In one step: what was granted to the rules before pays for none of these.
    core.write(|state| {
        state.replace(loaded, &position);
        core.blocks.reloaded(&mark.epoch);
    });
    follower.loaded(mark);
    if !core.read(|state| state.has_all_folders) {
        tracing::warn!(worker = core.options.name, "{NO_ROOM_FOR_FOLDERS}: much has to be asked for");
    }
    core.moved.send_modify(|it| *it += 1);
    tracing::info!(
        worker = core.options.name,
        rules = position.count,
        seq = position.seq.0,
        "all rules were read"
    );
    Ok(())
}

/// Reads a snapshot to its end, and checks it.
async fn read_all<O: Origin>(
    core: &Core<O>,
    mut loading: Loading,
    fields: Fields,
    from: Option<&Mark>,
) -> Result<(Loading, Position)> {
    let wrong = |difference: String| Error::corrupt(difference);
    let mut snapshot = core.origin.snapshot(fields, from).await?;
    let mut rest = Vec::new();
    while let Some(piece) = snapshot.next().await? {
        // The line that the piece before began, then those that are whole in this one.
        let end_of_first = piece.iter().position(|byte| *byte == b'\n').map_or(piece.len(), |at| at + 1);
        let (first, more) = piece.split_at(end_of_first);
        let (whole, begun) =
            more.split_at(more.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1));
        rest.extend_from_slice(first);
        if rest.ends_with(b"\n") {
            for lines in [&rest[..], whole] {
                let text =
                    std::str::from_utf8(lines).map_err(|_| wrong("a snapshot is no text".to_owned()))?;
                text.lines().try_for_each(|line| loading.line(line)).map_err(wrong)?;
            }
            rest.clear();
        }
        rest.extend_from_slice(begun);
        tokio::task::yield_now().await;
    }
    if !rest.is_empty() {
        return Err(wrong("a snapshot ends amid a line".to_owned()));
    }
    let position = loading.check().map_err(wrong)?.clone();
    Ok((loading, position))
}

impl<O: Origin> Core<O> {
    fn apply(self: &Arc<Self>, mark: Option<&Mark>, events: &[Event]) -> Result<(), String> {
        let Some(mark) = mark else { return Ok(()) };
        let changed = |event: &Event| match event {
            Event::Create { body } | Event::Update { body } => serde_json::from_str::<Rule>(body).ok(),
            _ => None,
        };
        let changed: Vec<_> = events.iter().filter_map(changed).map(|rule| rule.id).collect();
        // In one step: what was said of their permits is not so any more.
        let applied = self.write(|state| {
            let applied = state.apply(mark.clone(), events);
            if let [Event::Delete { id, .. }] = events {
                self.blocks.deleted(id);
            }
            changed.iter().for_each(|id| self.blocks.changed(id));
            applied
        });
        self.moved.send_modify(|it| *it += 1);
        self.metrics.changes.inc();
        applied
    }

    /// Compares what is here with what the truth has at the same place, and goes by its time.
    fn compare(&self, position: &Position) -> Result<(), String> {
        let elapsed_ms = self.pace.elapsed_ms();
        let (compared, is_due) = self.read(|state| (state.compare(position), !state.has_all_folders));
        compared?;
        // Rules for folders that did not fit may fit now.
        let mut following = self.following.lock();
        if is_due && elapsed_ms.saturating_sub(following.tried_ms) >= TRIED_AGAIN_MS {
            following.tried_ms = elapsed_ms;
            return Err(NO_ROOM_FOR_FOLDERS.to_owned());
        }
        Ok(())
    }

    /// Makes a larger filter, if the one that is here is full.
    fn grow(self: &Arc<Self>) {
        if !self.read(|state| state.keys.wants_growth()) {
            return;
        }
        let Some(from) = self.applied() else { return };
        let reads = self.write(|state| {
            state.keys.begin_growth(Point { seq: from.seq, digest: from.digest });
            state.reads
        });
        let core = Arc::clone(self);
        self.spawn(async move {
            core.wait_to_grow().await;
            if core.read(|state| state.reads != reads) {
                return;
            }
            let loading = core.read(|state| Loading::begin(state, Fields::Keys));
            let grown: Result<(Filter, Position)> = read_all(&core, loading, Fields::Keys, Some(&from))
                .await
                .map(|(loaded, position)| (loaded.into_filter(), position));
            core.write(|state| match (grown, &state.applied) {
                // All keys were read since: this filter is nobody's.
                _ if state.reads != reads => {}
                (Ok((filter, position)), Some(applied)) if applied.epoch == position.epoch => {
                    state.keys.grown(filter, Point { seq: position.seq, digest: position.digest });
                }
                // Tried again with the next change.
                _ => state.keys.give_up_growth(),
            });
            core.metrics.growths.inc();
        });
    }

    /// Waits until it is this worker's turn, or until what comes meanwhile has no room any more.
    async fn wait_to_grow(&self) {
        let mut moved = self.moved.subscribe();
        let crowded =
            async { while !self.read(|state| state.keys.is_crowded()) && moved.changed().await.is_ok() {} };
        let _ = timeout(self.options.growth_spread.mul_f64(self.options.random.draw()), crowded).await;
    }

    fn connected(&self) {
        let mut following = self.following.lock();
        (following.is_connected, following.away_since_ms, following.reason) = (true, None, None);
    }

    fn away(&self, error: &Error) {
        let elapsed_ms = self.pace.elapsed_ms();
        let mut following = self.following.lock();
        following.is_connected = false;
        following.away_since_ms.get_or_insert(elapsed_ms);
        if following.reason.is_none() {
            tracing::warn!(worker = self.options.name, %error, "the rules' database is away: what is in memory is served");
        }
        following.reason = Some(error.to_string());
    }

    /// Something was heard: the truth is there.
    fn heard(&self, message: &Message) {
        let elapsed_ms = self.pace.elapsed_ms();
        if let Event::Sync(position) = &message.event {
            let back_ms = self.write(|state| state.time.told(position.time_ms, elapsed_ms));
            if let Some(back_ms) = back_ms {
                tracing::warn!(worker = self.options.name, back_ms, "the database's clock has gone back");
            }
        }
        let mut following = self.following.lock();
        following.heard_ms = Some(elapsed_ms);
        if let Some(mark) = &message.mark {
            following.head = Some(mark.clone());
        }
    }
}
