//! By the file's own times, in a space that is nobody else's.

use std::time::Duration;

use tidegate::Name;
use tidegate::Tidegate;
use tidegate::clock::{Clock, ManualClock, Timestamp};
use tidegate::hot::{Hot, Recorded};
use tidegate::store::Declarations;

use super::fields::Mapped;
use super::report::Report;
use super::{Refused, Sink};
use crate::api::hot::Ranked;
use crate::cli::hot::args::ReplayArgs;
use crate::cli::message;
use crate::cli::target::STORE_DEADLINE;
use crate::parts::Named;

/// The longest that a space may go without looking after itself. The file's clock says
/// when it does.
const BY_HAND: Duration = Duration::from_secs(86_400);

/// What keys live longer for than what is in them, by a clock that is not the server's; indices
/// twice as long.
const SLACK: Duration = Duration::from_secs(3600);

/// For how long edits of a page that is not hot are remembered.
const ACTIVITY: Duration = Duration::from_secs(600);

/// A space and the clock that it goes by.
pub(super) struct Clocked {
    gate: Tidegate,
    hot: Hot,
    clock: ManualClock,
    cleanup_interval_ms: u64,
    next_cleanup_ms: Option<u64>,
    top: usize,
    namespace: Option<String>,
}

impl Clocked {
    pub(super) async fn open(args: &ReplayArgs) -> Result<Self, String> {
        let url = args.store.as_deref().unwrap_or("memory:");
        let mut settings = args.settings.load_on(url)?;
        let namespace = match &args.namespace {
            Some(given) => given.clone(),
            None => format!("replay-{}-{}", Clock::system().now().as_millis(), std::process::id()),
        };
        let checked = Name::new(&namespace).map_err(|error| format!("`--namespace`: {error}"))?;
        let space = Named::find(&settings.parts.hot, &args.space);
        let mut space = space.map_err(|unknown| unknown.to_string())?.clone();
        // What is gathered counts later, by a clock that has gone on.
        space.options.gather = Duration::ZERO;
        let cleanup_interval = std::mem::replace(&mut space.options.cleanup_interval, BY_HAND);
        let clock = ManualClock::at(Timestamp::from_millis(0));
        // As long as its indices: nothing of it is there after that.
        let marker_ttl = space.options.window_duration.max(ACTIVITY) + 2 * SLACK;
        let deadline = settings.store.options.deadline.max(STORE_DEADLINE);
        let options = settings.store.options.namespace(checked).declarations(Declarations::ReadOnly);
        settings.store.options =
            options.deadline(deadline).clock(clock.clone().into()).marker_ttl(marker_ttl);
        let gate = settings.store.open().await.map_err(message)?;
        gate.store().check().map_err(message)?;
        let hot = space.open(&gate).map_err(message)?;
        Ok(Self {
            gate,
            hot,
            clock,
            cleanup_interval_ms: cleanup_interval.as_secs() * 1000,
            next_cleanup_ms: None,
            top: args.top as usize,
            namespace: (settings.store.url.scheme() != "memory").then_some(namespace),
        })
    }

    /// Moves the clock on, and cleans up if it is time.
    async fn advance(&mut self, to: Timestamp) -> Result<(), String> {
        let now_ms = to.as_millis().max(self.clock.now().as_millis());
        self.clock.set(Timestamp::from_millis(now_ms));
        let due_ms = *self.next_cleanup_ms.get_or_insert(now_ms + self.cleanup_interval_ms);
        if due_ms <= now_ms {
            self.hot.cleanup().await.map_err(message)?;
            self.next_cleanup_ms = Some(now_ms + self.cleanup_interval_ms);
        }
        Ok(())
    }
}

impl Sink for Clocked {
    async fn edit(&mut self, edit: Mapped, report: &mut Report) -> Result<(), Refused> {
        self.advance(edit.at).await.map_err(Refused::All)?;
        let edit = edit.edit(Some(edit.at)).map_err(Refused::Line)?;
        let recorded = match self.hot.options().only_counts() {
            true => self.hot.count(edit.page, 1).await,
            false => self.hot.record(&edit).await,
        };
        let recorded = recorded.map_err(|error| Refused::All(error.to_string()))?;
        if matches!(recorded, Recorded::Dropped | Recorded::Unknown) {
            // What follows would be wrong.
            return Err(Refused::All("the store went away".to_owned()));
        }
        report.outcomes.count(&recorded);
        Ok(())
    }

    async fn finish(&mut self, report: &mut Report) -> Result<(), String> {
        let message = |error: tidegate::Error| error.to_string();
        let hottest = self.hot.list(self.top).await.map_err(message)?;
        report.count = self.hot.tracked().await.map_err(message)?;
        report.window_ms = self.hot.options().window_duration.as_secs() * 1000;
        report.pages = hottest.into_iter().map(|page| Ranked::new(page, None)).collect();
        report.namespace = self.namespace.take();
        self.gate.shutdown().await;
        Ok(())
    }
}
