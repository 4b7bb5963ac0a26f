//! An edit that is kept.

use super::texts::Texts;

/// An edit before it is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made<'a> {
    pub(super) at_ms: u64,
    pub(super) byte_change: i64,
    pub(super) id: &'a str,
    pub(super) editor: &'a str,
}

/// Six words; short texts are inside.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) at_ms: u64,
    pub(super) byte_change: i64,
    texts: Texts<2, 29>,
}

impl Member {
    /// One that says nothing yet.
    pub(super) const EMPTY: Self = Self { at_ms: 0, byte_change: 0, texts: Texts::EMPTY };

    pub(super) fn new(edit: &Made<'_>) -> Self {
        let mut new = Self::EMPTY;
        new.set(edit);
        new
    }

    /// Becomes another, in its place.
    #[inline]
    pub(super) fn set(&mut self, edit: &Made<'_>) {
        (self.at_ms, self.byte_change) = (edit.at_ms, edit.byte_change);
        self.texts.set([edit.id, edit.editor]);
    }

    #[inline]
    pub(super) fn is(&self, id: &str) -> bool {
        self.texts.get(0) == id.as_bytes()
    }

    pub(super) fn id(&self) -> &str {
        self.texts.text(0)
    }

    pub(super) fn editor(&self) -> &str {
        self.texts.text(1)
    }

    /// By time, then id.
    #[inline]
    pub(super) fn key(&self) -> (u64, &[u8]) {
        (self.at_ms, self.texts.get(0))
    }

    /// What its texts have outside of it.
    #[inline]
    pub(super) fn heap(&self) -> usize {
        self.texts.heap()
    }
}
