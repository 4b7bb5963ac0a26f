//! Progress through a store, on a terminal.

use std::io::Write as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::render::printable;

/// A template of ours is never wrong; a plain bar would do.
pub(in crate::cli) fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// It draws on standard error, and nothing unless that is a terminal. It is cleared at the end.
pub(in crate::cli) struct Bar(ProgressBar);

impl Bar {
    pub(in crate::cli) fn new(what: &'static str) -> Self {
        let bar = ProgressBar::new(0).with_message(what);
        bar.set_style(style("{msg} {bar:40} {pos} of {len}, {eta} left"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// So many were looked at; the server has so many keys, and there are entries besides.
    pub(in crate::cli) fn at(&self, looked_at: u64, keys: u64) {
        self.0.set_length(keys.max(looked_at));
        self.0.set_position(looked_at);
    }

    /// Says what is not as it should be.
    pub(in crate::cli) fn report(&self, findings: &[(String, String)]) {
        self.0.suspend(|| {
            let mut err = std::io::stderr().lock();
            for (word, id) in findings {
                // Nothing can be done if standard error is closed.
                let _ = writeln!(err, "{word} {}", printable(id));
            }
        });
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
