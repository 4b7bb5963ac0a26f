//! A worker follows the truth: reads all rules once, applies every change in its order, comes back when it was cut off, and
//! reads all rules anew when what is here cannot be what the truth has.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};

use super::core::Core;
use super::keys::Point;
use super::load::{Body, Loading};
use super::options::Hydrate;
use super::origin::{Origin, OriginChanges as _, OriginSnapshot as _};
use super::reserved::Reserved;
use super::state::State;
use crate::error::{Error, Result};
use crate::rule::Rule;
use crate::stream::{Event, Follower, Mark, Message, Next, Step};
use crate::truth::{Fields, Position};

/// Between two tries, at first and at most: any part of it, so that those who were cut off together come back one by one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Heartbeats that may be missed before the connection is taken for dead.
const MISSED: u32 = 4;

/// Rules that are looked at, and bodies that are kept, in one step: lookups wait for no more.
const LOOKED_AT: usize = 1000;
const KEPT_TOGETHER: usize = 64;

/// What did not fit is tried again after this.
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
    // What others have heard of the database is news only once this connection has said something, and all it asks for was
    // read: who is asked all the time would be cut off from it for ever.
    let mut other_epoch = core.other_epoch.subscribe();
    let mut has_said = false;
    loop {
        let next = tokio::select! {
            next = timeout(silence, changes.next()) => next.map_err(late)??,
            // The stream says it too, sooner or later.
            _ = other_epoch.changed(), if has_said => return Err(Error::unavailable("the database may have gone back")),
        };
        let message = match next {
            Next::Message(message) => message,
            Next::Cut(reason) => return Err(Error::unavailable(reason)),
        };
        core.heard(&message);
        let mut is_read_anew = false;
        let difference = match follower.take(message) {
            Step::Apply(events) => core.apply(follower.mark(), &events).err(),
            Step::Compare(position) => core.compare(&position).err(),
            Step::Reload { from, reason } => {
                if core.applied().is_some() {
                    core.metrics.resyncs.inc();
                }
                load(core, follower, Some(&from), &reason).await?;
                is_read_anew = true;
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
            is_read_anew = true;
        }
        core.grow();
        if is_read_anew || !has_said {
            other_epoch.mark_unchanged();
        }
        has_said = true;
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
    core.drop_unseen().await;
    core.forget_seen().await;
    // A filter of its own is part of it.
    core.write(|state| state.keys.give_up_growth());
    let mut reserved = Reserved::none(core);
    // The names of all hosts, first of all.
    if reserved.grow_to(core.read(|state| state.hosts.bytes())).await > 0 {
        core.let_go();
        reserved.set(0);
    }
    let loading = core.read(|state| Loading::begin(state, fields));
    let (mut loaded, position) = read_all(core, loading, &mut reserved, from).await?;
    let (bodies, body_bytes) = loaded.take_bodies();
    let mark = Mark::from(&position);
    // What time it was when it was made is no longer of interest: others may have asked for it before.
    // In one step: what was granted to the rules before pays for none of these.
    let replaced = core.write(|state| {
        let replaced = state.replace(loaded, &position);
        core.blocks.reloaded(&mark.epoch);
        reserved.set(replaced.bytes() + body_bytes);
        replaced
    });
    follower.loaded(mark);
    core.moved.send_modify(|it| *it += 1);
    core.clicks.add(&replaced.take_clicks());
    drop(replaced);
    reserved.set(body_bytes);
    core.drop_unseen().await;
    core.keep_loaded(bodies, &mut reserved).await;
    core.following.lock().tried_ms = core.pace.elapsed_ms();
    if let Some(reason) = core.read(State::lacks_room) {
        tracing::warn!(worker = core.options.name, "{reason}: much has to be asked for");
    }
    tracing::info!(
        worker = core.options.name,
        rules = position.count,
        seq = position.seq.0,
        "all rules were read"
    );
    Ok(())
}

/// Reads a snapshot to its end, and checks it. Room is made for what is made of it.
async fn read_all<O: Origin>(
    core: &Core<O>,
    mut loading: Loading,
    reserved: &mut Reserved<'_, O>,
    from: Option<&Mark>,
) -> Result<(Loading, Position)> {
    let wrong = |difference: String| Error::corrupt(difference);
    let mut snapshot = core.origin.snapshot(loading.fields(), from).await?;
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
                let mut lines = text.lines();
                if loading.position().is_none()
                    && let Some(line) = lines.next()
                {
                    let filter_bytes = loading.first_line(line).map_err(wrong)?;
                    if let Some(bytes) = filter_bytes {
                        core.make_room(&mut loading, reserved, bytes).await;
                        loading.make_filter();
                    } else if loading.is_for_growth()
                        && let Some(position) = loading.position().cloned()
                    {
                        return Ok((loading, position));
                    }
                }
                lines.try_for_each(|line| loading.line(line)).map_err(wrong)?;
            }
            rest.clear();
        }
        rest.extend_from_slice(begun);
        while core.read(|state| loading.compare(state)) {}
        if !core.read(|state| loading.is_wanted(state)) {
            return Err(Error::unavailable("all rules are read meanwhile"));
        }
        core.make_room(&mut loading, reserved, 0).await;
        yield_now().await;
    }
    if !rest.is_empty() {
        return Err(wrong("a snapshot ends amid a line".to_owned()));
    }
    let position = loading.finish().map_err(wrong)?;
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
        let (compared, is_due) = self.read(|state| (state.compare(position), state.may_have_room_again()));
        compared?;
        // What did not fit may fit now.
        let mut following = self.following.lock();
        if is_due && elapsed_ms.saturating_sub(following.tried_ms) >= TRIED_AGAIN_MS {
            following.tried_ms = elapsed_ms;
            return Err("there may be room now for what did not fit".to_owned());
        }
        Ok(())
    }

    /// Makes room for what was read, and so many bytes more. If what is here leaves too little, it goes.
    async fn make_room(&self, loading: &mut Loading, reserved: &mut Reserved<'_, O>, more: usize) {
        let mut excess = reserved.grow_to(loading.bytes() + more).await;
        if excess > 0 && loading.give_up_bodies(excess) {
            reserved.set(loading.bytes() + more);
            excess = reserved.excess();
        }
        if excess == 0 {
            return;
        }
        if loading.is_for_growth() {
            // Nothing else is as large.
            drop(self.write(|state| state.keys.let_go()));
        } else {
            self.let_go();
        }
    }

    /// There is no room for what is here beside what is read.
    fn let_go(&self) {
        if let Some(gone) = self.write(State::let_go) {
            tracing::warn!(
                worker = self.options.name,
                "there is no room for all keys twice: while they are read everything is asked for"
            );
            self.clicks.add(&gone.take_clicks());
        }
    }

    /// Lets go of rules that were not seen when all were last read.
    async fn drop_unseen(&self) {
        while !self.write(|state| state.drop_unseen(LOOKED_AT)) {
            yield_now().await;
        }
    }

    /// From now on nobody was seen.
    async fn forget_seen(&self) {
        let mut at = Some((0, 0));
        while let Some(from) = at {
            at = self.read(|state| state.forget_seen(from, LOOKED_AT));
            yield_now().await;
        }
    }

    /// Keeps bodies that came along, while there is room.
    async fn keep_loaded(&self, bodies: Vec<Body>, reserved: &mut Reserved<'_, O>) {
        let list_bytes = bodies.capacity() * size_of::<Body>();
        let bytes = |bodies: &[Body]| bodies.iter().map(|(_, entry)| entry.bytes()).sum::<usize>();
        let mut left_bytes = bytes(&bodies);
        let mut bodies = bodies.into_iter();
        let mut has_room = true;
        while has_room && bodies.len() > 0 {
            let some: Vec<_> = bodies.by_ref().take(KEPT_TOGETHER).collect();
            left_bytes -= bytes(&some);
            has_room = self.write(|state| state.keep_loaded(some.into_iter()));
            // What is kept is not here a second time any more.
            reserved.set(list_bytes + left_bytes);
            yield_now().await;
        }
        reserved.set(0);
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
            let loading = core.read(Loading::begin_growth);
            let mut reserved = Reserved::none(&core);
            let grown = read_all(&core, loading, &mut reserved, Some(&from)).await;
            let grown = grown.map(|(loaded, position)| (loaded.into_filter(), position));
            core.write(|state| match (grown, &state.applied) {
                // All keys were read since: this filter is nobody's.
                _ if state.reads != reads => {}
                (Ok((Some(filter), position)), Some(applied)) if applied.epoch == position.epoch => {
                    state.keys.grown(filter, Point { seq: position.seq, digest: position.digest });
                    // From here on it is one of what is here.
                    reserved.set(0);
                }
                (Ok((None, _)), _) => state.keys.has_no_room_to_grow(),
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
