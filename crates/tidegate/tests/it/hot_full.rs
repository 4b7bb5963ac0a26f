//! What the log says of a space that is full.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use tidegate::hot::{Recorded, WhenFull};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::hot::{MINUTE, PROMOTED, Space};

/// Warnings, each with its fields as they are printed.
#[derive(Clone, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<Fields>>>);

impl Warnings {
    /// What a field of those that have it said since this was last asked.
    pub(crate) fn take(&self, field: &str) -> Vec<String> {
        self.0.lock().unwrap().drain(..).filter_map(|mut fields| fields.0.remove(field)).collect()
    }
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_full_space_warns_once_a_minute_with_how_many_were_refused() {
    for when_full in [WhenFull::Reject, WhenFull::ReplaceColdest] {
        let set = |it: &mut tidegate::hot::HotOptions| {
            (it.max_tracked, it.hot_threshold, it.when_full) = (1, 1, when_full);
        };
        for space in Space::everywhere(set).await {
            let (on, warnings) = (space.on, Warnings::default());
            let _guard = tracing::subscriber::set_default(warnings.clone());
            // Two edits: none that comes with one is hotter.
            assert_eq!(space.record("p", "1").await, PROMOTED, "{on}");
            assert_eq!(space.record("p", "2").await, Recorded::Added, "{on}");
            assert_eq!(warnings.take("refused"), [""; 0], "{on}: there was room");
            let refused = async |from: u32, to: u32| {
                for page in from..to {
                    assert_eq!(space.record(&format!("q{page}"), "1").await, Recorded::Rejected, "{on}");
                }
            };
            refused(0, 1).await;
            assert_eq!(warnings.take("refused"), ["1"], "{on}: the first is told at once");
            refused(1, 8).await;
            space.clock.advance_ms(MINUTE - 1);
            refused(8, 9).await;
            assert_eq!(warnings.take("refused"), [""; 0], "{on}: not within a minute");
            space.clock.advance_ms(1);
            refused(9, 10).await;
            assert_eq!(warnings.take("refused"), ["9"], "{on}: all since then");
            space.clock.advance_ms(MINUTE);
            refused(10, 11).await;
            let told = warnings.0.lock().unwrap().pop().unwrap().0;
            assert_eq!(told["refused"], "1", "{on}");
            assert!(told["message"].contains("raise max_tracked"), "{on}: {told:?}");
        }
    }
}
