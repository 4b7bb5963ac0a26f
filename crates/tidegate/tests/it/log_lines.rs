//! What the log says, for tests to read: install it with `tracing::subscriber::set_default`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// One line.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) message: String,
    /// What came with it, as text.
    pub(crate) fields: BTreeMap<&'static str, String>,
}

/// All lines since they were last taken.
#[derive(Clone)]
pub(crate) struct LogLines(Arc<Mutex<Vec<Line>>>);

/// As long as there is one subscriber, whoever comes to a line first decides for all whether it is
/// said, and a test without a subscriber decides that it is not. Of two, each is asked.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(LogLines(Arc::default())));

impl Default for LogLines {
    fn default() -> Self {
        LazyLock::force(&ANOTHER);
        Self(Arc::default())
    }
}

impl LogLines {
    /// Takes those that say this.
    pub(crate) fn take(&self, said: &str) -> Vec<Line> {
        self.0.lock().unwrap().extract_if(.., |line| line.message.contains(said)).collect()
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => drop(self.fields.insert(name, format!("{value:?}"))),
        }
    }
}

impl Subscriber for LogLines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn event(&self, event: &Event<'_>) {
        let level = *event.metadata().level();
        let mut line = Line { level, message: String::new(), fields: BTreeMap::new() };
        event.record(&mut line);
        self.0.lock().unwrap().push(line);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
