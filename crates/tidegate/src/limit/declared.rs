//! What a limit is, as the store is told, and what becomes of those who disagree.

use std::time::Duration;

use super::algorithm::Algorithm;
use super::options::LimitOptions;
use super::reservation::OnLapse;
use super::sliding::Sliding;
use crate::bounds::Rate;
use crate::key::Name;
use crate::outage::AfterLoss;
use crate::store::{DeclaredSettings, Part, PartKind, duration_of, duration_text};

impl LimitOptions {
    /// The limit `name` with these options, as it is declared in the store: what all who
    /// share it must agree about. What to do in an outage, leases and what is held in this
    /// process are everybody's own.
    pub fn declared(&self, name: &Name, algorithm: &Algorithm) -> Part {
        let common = [
            ("algorithm", algorithm.name().to_owned()),
            ("prefix", self.prefix.clone().unwrap_or_else(|| algorithm.prefix().to_owned())),
            (
                "after_loss",
                match self.after_loss {
                    AfterLoss::Admit => "admit".to_owned(),
                    AfterLoss::Hold => "hold".to_owned(),
                },
            ),
        ];
        let mut part = Part::new(PartKind::Limit, name, common);
        let mut add = |setting: &str, value: String| part.settings.insert(setting.to_owned(), value);
        if let Algorithm::Sliding(_) | Algorithm::Calendar(_) = algorithm {
            let on_lapse = match self.on_lapse {
                OnLapse::Spend => "spend",
                OnLapse::GiveBack => "give_back",
            };
            add("on_lapse", on_lapse.to_owned());
            add("max_reservations", self.max_reservations.to_string());
        }
        let mut windowed = |sliding: &Sliding| {
            add("rate", sliding.rate().to_string());
            add("window", duration_text(Duration::from_millis(sliding.window().as_millis())));
            add("coalesce", duration_text(sliding.coalesce()));
        };
        match algorithm {
            Algorithm::Sliding(sliding) => windowed(sliding),
            Algorithm::Suppressed(suppressed) => {
                windowed(suppressed.sliding());
                if let Some(factor) = suppressed.hard_limit_factor() {
                    add("hard_limit_factor", factor.to_string());
                }
            }
            Algorithm::Token(token) => {
                add("rate", token.rate().to_string());
                add("burst", token.burst().to_string());
            }
            Algorithm::Calendar(calendar) => {
                add("limit", calendar.limit().to_string());
                add("period", calendar.period().as_str().to_owned());
                add("safety_buffer", calendar.safety_buffer().to_string());
                add("counter_ttl", duration_text(calendar.counter_ttl()));
            }
        }
        part
    }
}

/// The longest window that others count by, of a sliding limit: nobody deletes what
/// still counts in it, and nobody admits more than it allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Longest {
    pub(super) window_ms: u64,
    pub(super) capacity: u64,
}

impl Longest {
    /// Of `own`, and of what others say; the smaller capacity if two are as long.
    pub(super) fn of(own: &Sliding, others: &[DeclaredSettings]) -> Self {
        let own = Self { window_ms: own.window().as_millis(), capacity: own.capacity() };
        let longer = others.iter().filter_map(Self::declared).filter(|it| it.window_ms > own.window_ms);
        longer.fold(own, |longest, it| {
            let is_longer = (it.window_ms, longest.capacity) > (longest.window_ms, it.capacity);
            if is_longer { it } else { longest }
        })
    }

    fn declared(settings: &DeclaredSettings) -> Option<Self> {
        if settings.get("algorithm").is_none_or(|it| it != "sliding") {
            return None;
        }
        let rate: Rate = settings.get("rate")?.parse().ok()?;
        let sliding = Sliding::new(rate, duration_of(settings.get("window")?)?).ok()?;
        Some(Self { window_ms: sliding.window().as_millis(), capacity: sliding.capacity() })
    }
}
