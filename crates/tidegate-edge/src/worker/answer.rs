//! What a worker answers a request, from memory if it can.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::blocks::{Asked, Asking, Permit};
use super::core::Core;
use super::origin::Origin;
use super::state::Looked;
use crate::path::{normalised, normalised_host};
use crate::rule::{Parts, RedirectRef, Rule, State as RuleState};
use crate::stream::Mark;
use crate::truth::{Ask, Grant, Granted, Resolution};

/// A request, as it came.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Its host, perhaps with a port.
    pub host: &'a str,
    /// Its path.
    pub path: &'a str,
    /// What was behind its `?`.
    pub query: Option<&'a str>,
    /// Whether it only asks what would be: that spends no permit and counts no click.
    pub is_head: bool,
}

/// What it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome<'a> {
    /// It is sent on.
    Redirect(RedirectRef<'a>),
    /// The rule has ended.
    Gone,
    /// There is no rule.
    NotFound,
    /// Its host or path is none.
    Invalid,
    /// It has to be asked for, and cannot be.
    Unavailable {
        /// When to come back.
        retry_after: Duration,
    },
}

/// Where an answer came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// A rule for exactly this path, in memory.
    Cache,
    /// A rule for a folder.
    Prefix,
    /// The filter: there is no rule.
    Filter,
    /// The truth was asked.
    Fetch,
}

impl Source {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Prefix => "prefix",
            Self::Filter => "filter",
            Self::Fetch => "fetch",
        }
    }
}

/// What an answer needs that is not in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Needed {
    /// What the truth says, at that place or later.
    Fetch(Option<Mark>),
    /// A permit of that rule, which was made then.
    Permit(Box<str>, u64),
}

/// How often permits are asked for, for one request: others may spend what came.
const MOST_TRIES: usize = 8;

/// When to come back if nobody has said.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl<O: Origin> Core<O> {
    /// Answers from memory, without waiting. What is answered is handed to `write`, with where it came from.
    #[inline]
    pub(super) fn try_answer<R>(
        self: &Arc<Self>,
        request: &Request<'_>,
        write: &mut impl FnMut(Outcome<'_>, Source) -> R,
    ) -> Result<R, Needed> {
        let Some((host, path)) = normalised_host(request.host).zip(normalised(request.path)) else {
            return Ok(write(Outcome::Invalid, Source::Filter));
        };
        let elapsed_ms = self.pace.elapsed_ms();
        self.read(|state| {
            let now_ms = state.time.now_ms(elapsed_ms);
            let answering = match state.look(&host, &path, now_ms, elapsed_ms, &mut ()) {
                Looked::Rule(answering) => answering,
                Looked::Nothing => {
                    self.metrics.filtered.inc();
                    return Ok(write(Outcome::NotFound, Source::Filter));
                }
                Looked::Unknown => return Err(Needed::Fetch(state.applied.clone())),
            };
            let (source, rule) = (answering.source(), answering.rule());
            if rule.state(now_ms) != RuleState::Live {
                self.metrics.hits.inc();
                return Ok(write(ended(rule.ended()), source));
            }
            if rule.max_clicks().is_none() {
                if !request.is_head {
                    answering.click();
                }
            } else {
                match self.permit(rule.id(), rule.created_at(), request.is_head, elapsed_ms) {
                    Permit::Granted { .. } => {}
                    Permit::Spent => return Ok(write(ended(rule.ended()), source)),
                    Permit::Wait(retry_after) => {
                        return Ok(write(Outcome::Unavailable { retry_after }, source));
                    }
                    // Nothing of it is known here. The truth says whether it is spent, for nothing.
                    Permit::None if request.is_head => return Err(Needed::Fetch(state.applied.clone())),
                    Permit::None => return Err(Needed::Permit(rule.id().into(), rule.created_at())),
                }
            }
            self.metrics.hits.inc();
            Ok(write(Outcome::Redirect(rule.redirect(&path, request.query)), source))
        })
    }

    /// Takes a permit that is here, and sees to it that there is another soon. HEAD only looks for one.
    fn permit(self: &Arc<Self>, rule: &str, created_at: u64, is_head: bool, elapsed_ms: u64) -> Permit {
        if is_head {
            return self.blocks.peek(rule, created_at, elapsed_ms);
        }
        let permit = self.blocks.spend(rule, created_at, elapsed_ms);
        if permit == (Permit::Granted { is_low: true }) {
            let (core, rule) = (Arc::clone(self), Box::<str>::from(rule));
            self.spawn(async move { core.ask(&rule, created_at).await });
        }
        permit
    }

    /// Answers from memory, or asks the truth and waits for it: one deadline is over all that one request needs.
    pub(super) async fn answer<R>(
        self: &Arc<Self>,
        request: &Request<'_>,
        mut write: impl FnMut(Outcome<'_>, Source) -> R,
    ) -> R {
        if let Ok(answered) = timeout(self.options.deadline, self.answer_ever(request, &mut write)).await {
            return answered;
        }
        self.metrics.unavailable.inc();
        write(Outcome::Unavailable { retry_after: RETRY_AFTER }, Source::Fetch)
    }

    /// The same, however long it takes.
    async fn answer_ever<R>(
        self: &Arc<Self>,
        request: &Request<'_>,
        write: &mut impl FnMut(Outcome<'_>, Source) -> R,
    ) -> R {
        let mut tries = 0..MOST_TRIES;
        let applied = loop {
            let asked = match self.try_answer(request, write) {
                Ok(answered) => return answered,
                Err(Needed::Fetch(applied)) => break applied,
                Err(Needed::Permit(rule, created_at)) if tries.next().is_some() => {
                    self.ask(&rule, created_at).await
                }
                Err(Needed::Permit(..)) => Asked::Nothing,
            };
            match asked {
                Asked::Something => {}
                // What is in memory is not so any more.
                Asked::Otherwise => break self.applied(),
                Asked::Nothing => {
                    self.metrics.unavailable.inc();
                    return write(Outcome::Unavailable { retry_after: RETRY_AFTER }, Source::Fetch);
                }
            }
        };
        self.fetched(request, applied, write).await
    }

    /// Answers by what the truth says. If that is not so any more when it is asked for permits, it is asked anew.
    async fn fetched<R>(
        self: &Arc<Self>,
        request: &Request<'_>,
        applied: Option<Mark>,
        write: &mut impl FnMut(Outcome<'_>, Source) -> R,
    ) -> R {
        self.metrics.misses.inc();
        let Some((host, path)) = normalised_host(request.host).zip(normalised(request.path)) else {
            return write(Outcome::Invalid, Source::Filter);
        };
        for tries in 0..MOST_TRIES {
            let Ok(resolution) = self.fetch(&host, &path, applied.as_ref(), tries > 0).await else { break };
            if let Some(answered) = self.answer_by(&resolution, &path, request, write).await {
                return answered;
            }
        }
        self.metrics.unavailable.inc();
        write(Outcome::Unavailable { retry_after: RETRY_AFTER }, Source::Fetch)
    }

    /// Answers by that; none if its rule is not as it was any more.
    async fn answer_by<R>(
        self: &Arc<Self>,
        resolution: &Resolution,
        path: &str,
        request: &Request<'_>,
        write: &mut impl FnMut(Outcome<'_>, Source) -> R,
    ) -> Option<R> {
        // It may have been asked for before this request came: what has started since answers.
        let now_ms = self.now_ms().max(resolution.position.time_ms);
        let Some((rule, state)) = resolution.at(now_ms) else {
            return Some(write(Outcome::NotFound, Source::Fetch));
        };
        if request.is_head {
            self.note_look(resolution, rule);
        }
        if state != RuleState::Live {
            return Some(rule.terms.prepared(|parts| write(ended(parts.ended()), Source::Fetch)));
        }
        if !request.is_head {
            if rule.terms.max_clicks.is_none() {
                self.clicks.add_one(&rule.id, rule.created_at);
            } else {
                match self.obtain(&rule.id, rule.created_at, self.is_ahead(resolution)).await? {
                    Permit::Granted { .. } => {}
                    Permit::Spent => {
                        return Some(rule.terms.prepared(|parts| write(ended(parts.ended()), Source::Fetch)));
                    }
                    Permit::Wait(retry_after) => {
                        return Some(write(Outcome::Unavailable { retry_after }, Source::Fetch));
                    }
                    Permit::None => {
                        self.metrics.unavailable.inc();
                        let unavailable = Outcome::Unavailable { retry_after: RETRY_AFTER };
                        return Some(write(unavailable, Source::Fetch));
                    }
                }
            }
        }
        let redirected =
            |parts: &Parts<'_>| write(Outcome::Redirect(parts.redirect(path, request.query)), Source::Fetch);
        Some(rule.terms.prepared(redirected))
    }

    /// Remembers whether a rule is spent, unless what the truth has said may not be so any more: whoever changes what is here
    /// forgets it at the same time.
    fn note_look(&self, resolution: &Resolution, rule: &Rule) {
        let Some(most) = rule.terms.max_clicks else { return };
        let (elapsed_ms, said_at) = (self.pace.elapsed_ms(), Mark::from(&resolution.position));
        self.read(|state| {
            if state.applied.as_ref() == Some(&said_at) {
                self.blocks.looked(&rule.id, rule.created_at, rule.clicks >= most, elapsed_ms);
            }
        });
    }

    /// Whether that is of a later place than was reached here.
    fn is_ahead(&self, resolution: &Resolution) -> bool {
        let position = &resolution.position;
        let is_reached = |applied: &Mark| applied.epoch == position.epoch && applied.seq >= position.seq;
        !self.read(|state| state.applied.as_ref().is_some_and(is_reached))
    }

    /// A permit of a rule, asked for if there is none here; `Permit::None` if that came to nothing. None if the truth has
    /// no such rule, or another one by now. Of a rule that is ahead it is not believed what was said before that none are
    /// left: it may have more clicks by now.
    async fn obtain(self: &Arc<Self>, rule: &str, created_at: u64, is_ahead: bool) -> Option<Permit> {
        let mut may_be_old = is_ahead;
        for _ in 0..MOST_TRIES {
            match self.permit(rule, created_at, false, self.pace.elapsed_ms()) {
                Permit::None => {}
                Permit::Wait(_) | Permit::Spent if may_be_old => {}
                permit => return Some(permit),
            }
            may_be_old = false;
            match self.ask(rule, created_at).await {
                Asked::Something => {}
                Asked::Otherwise => return None,
                Asked::Nothing => break,
            }
        }
        Some(Permit::None)
    }

    /// Asks the truth for permits of a rule that was made then, or waits for who does.
    pub(super) async fn ask(self: &Arc<Self>, rule: &str, created_at: u64) -> Asked {
        let (number, wanted) = match self.blocks.ask(rule) {
            Asking::Ask { number, wanted } => (number, wanted),
            Asking::Wait(mut asking) => {
                // It ends by being dropped.
                let _ = asking.changed().await;
                return Asked::Something;
            }
            Asking::Full => return Asked::Nothing,
        };
        let (core, rule) = (Arc::clone(self), Box::<str>::from(rule));
        // Whoever stops waiting does not stop it: what was granted is to be known of.
        let asked = self.spawn(async move {
            let asked_ms = core.pace.elapsed_ms();
            let ask = Ask { rule: rule.to_string(), worker: core.options.name.clone(), number, wanted };
            let granted = timeout(core.options.deadline, core.grant(ask)).await.ok().flatten();
            core.metrics.blocks.inc();
            let elapsed_ms = core.pace.elapsed_ms();
            core.blocks.asked((&rule, created_at), number, asked_ms, elapsed_ms, granted.as_ref())
        });
        asked.await.unwrap_or(Asked::Nothing)
    }

    /// What the truth grants. If it takes somebody to hold what is left, that may be this worker, which has spent it.
    async fn grant(&self, ask: Ask) -> Option<Granted> {
        let granted = self.origin.grant(ask.clone()).await.ok()?;
        let is_ours = matches!(granted.grant, Grant::Wait { .. })
            && self.give_back(Some(&ask.rule)).await.is_some_and(|count| count > 0);
        // Nothing was debited by its number yet.
        if is_ours { self.origin.grant(ask).await.ok() } else { Some(granted) }
    }
}

fn ended(fallback: Option<RedirectRef<'_>>) -> Outcome<'_> {
    fallback.map_or(Outcome::Gone, Outcome::Redirect)
}
