//! Rules that are not in memory, asked for at the truth: once, however many wait.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::apply::Kept;
use super::core::Core;
use super::origin::Origin;
use crate::error::{Error, Result};
use crate::stream::Mark;
use crate::truth::{Resolution, Seq};

/// Requests that are asked for at once, at most: who comes then is told to come back.
const MAX_FLIGHTS: usize = 4096;

/// Of these, those that the truth is asked at the same time.
const TOGETHER: usize = 64;

/// For how long what was fetched waits for its place to be reached here. Meanwhile who asks for the same gets it too.
const LINGER: Duration = Duration::from_secs(1);

/// Between two tries while the truth is of another time than what is here.
const OTHER_EPOCH_PAUSE: Duration = Duration::from_millis(20);

/// What the truth has said of one request, or why not.
type Fetched = Option<Result<Arc<Resolution>, String>>;

/// A host and a path, both normalised.
type Asked = (Box<str>, Box<str>);

/// One request that is asked for.
#[derive(Debug)]
struct Flight {
    fetched: watch::Receiver<Fetched>,
    /// How often all rules had been read when it began.
    reads: u64,
}

/// What is being asked for.
#[derive(Debug)]
pub(crate) struct Fetches {
    flights: Mutex<HashMap<Asked, Flight>>,
    together: Semaphore,
}

impl Default for Fetches {
    fn default() -> Self {
        Self { flights: Mutex::default(), together: Semaphore::new(TOGETHER) }
    }
}

impl Fetches {
    pub(crate) fn bytes(&self) -> usize {
        self.flights.lock().capacity() * (size_of::<(Asked, Flight)>() + 1)
    }
}

impl<O: Origin> Core<O> {
    /// What the truth says of a request, as of a place that is not before `applied`; asked for from now on, if `is_anew`.
    pub(super) async fn fetch(
        self: &Arc<Self>,
        host: &str,
        path: &str,
        applied: Option<&Mark>,
        is_anew: bool,
    ) -> Result<Arc<Resolution>> {
        // What was asked for before this request came is taken if it is of the very place that is here. Of a later one, or
        // if nothing is here, the database may have gone back since without anybody here having heard of it.
        let (mut is_since, mut applied) = (false, applied.cloned());
        loop {
            let (mut flight, is_new) = self.join(host, path)?;
            is_since |= is_new;
            let fetched = flight.wait_for(Option::is_some).await;
            let fetched = fetched.ok().and_then(|it| it.clone());
            let resolution = match fetched {
                Some(Ok(resolution)) => resolution,
                Some(Err(error)) => return Err(Error::unavailable(error)),
                None => return Err(Error::unavailable("this worker ends")),
            };
            let position = &resolution.position;
            let is_behind = |applied: &Mark| applied.epoch != position.epoch || position.seq < applied.seq;
            let is_here = |applied: &Mark| *applied == Mark::from(position);
            let is_of = applied.as_ref();
            if (is_since || !is_anew && is_of.is_some_and(is_here)) && !is_of.is_some_and(is_behind) {
                return Ok(resolution);
            }
            is_since = true;
            let here = self.applied();
            match here {
                // All rules were read anew since this request came: by what is here now it is answered.
                Some(here) if !is_behind(&here) => applied = Some(here),
                // Somebody else has asked, before this request came.
                _ if !is_new && here.is_none_or(|here| here.epoch == position.epoch) => {}
                // It is of another time, whether that has another name or not: what is here is to be read anew, which
                // takes a moment.
                _ => {
                    self.other_epoch.send_replace(());
                    sleep(OTHER_EPOCH_PAUSE).await;
                }
            }
            // Asked for before this request came: asked for once more.
            self.leave(&(host.into(), path.into()), &flight);
        }
    }

    /// What is asked for already, or anew: which of both.
    fn join(self: &Arc<Self>, host: &str, path: &str) -> Result<(watch::Receiver<Fetched>, bool)> {
        let asked = (Box::from(host), Box::from(path));
        let (reads, from) = self.read(|state| (state.reads, state.applied.as_ref().map(|it| it.seq)));
        let mut flights = self.fetches.flights.lock();
        let before = flights.get(&asked);
        if let Some(flight) = before.filter(|it| it.reads == reads) {
            return Ok((flight.fetched.clone(), false));
        }
        if before.is_none() && flights.len() >= MAX_FLIGHTS {
            return Err(Error::unavailable("too many rules are being asked for"));
        }
        let (sender, receiver) = watch::channel(None);
        flights.insert(asked.clone(), Flight { fetched: receiver.clone(), reads });
        drop(flights);
        let core = Arc::clone(self);
        // Whoever stops waiting does not stop it: others may wait too.
        self.spawn(async move {
            core.fly(&asked, (reads, from), &sender).await;
            core.leave(&asked, &sender.subscribe());
        });
        Ok((receiver, true))
    }

    /// Nobody else gets what was fetched there.
    fn leave(&self, asked: &Asked, flight: &watch::Receiver<Fetched>) {
        let mut flights = self.fetches.flights.lock();
        if flights.get(asked).is_some_and(|it| it.fetched.same_channel(flight)) {
            flights.remove(asked);
        }
    }

    /// Asks for it. `since` is how often all rules had been read when that began, and to which change this worker had come.
    async fn fly(&self, (host, path): &Asked, since: (u64, Option<Seq>), sender: &watch::Sender<Fetched>) {
        self.metrics.fetches.inc();
        let asking = async {
            // It is never closed.
            let _turn = self.fetches.together.acquire().await;
            self.origin.resolve(host, path).await
        };
        let resolution = match timeout(self.options.deadline, asking).await {
            Ok(Ok(resolution)) => Arc::new(resolution),
            failed => {
                self.metrics.fetch_failures.inc();
                let why = match failed {
                    Ok(Err(error)) => error.to_string(),
                    _ => "the rules' database did not answer in time".to_owned(),
                };
                sender.send_replace(Some(Err(why)));
                return;
            }
        };
        sender.send_replace(Some(Ok(Arc::clone(&resolution))));
        let mut moved = self.moved.subscribe();
        let linger = async {
            while self.keep_fetched((host, path), since, &resolution) == Kept::NotYet {
                if moved.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = timeout(LINGER, linger).await;
    }

    fn keep_fetched(
        &self,
        request: (&str, &str),
        (reads, from): (u64, Option<Seq>),
        resolution: &Resolution,
    ) -> Kept {
        let elapsed_ms = self.pace.elapsed_ms();
        let until_ms = elapsed_ms + self.options.negative_life.as_millis() as u64;
        self.write(|state| match state.reads == reads {
            true => state.keep_fetched(request, resolution, from, until_ms, elapsed_ms),
            false => Kept::No,
        })
    }
}
