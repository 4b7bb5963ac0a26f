//! What is remembered of a page that is not hot.

use super::ALLOCATION;
use super::activities::{Linked, Links};
use super::member::{Made, Member};
use super::texts::Texts;

/// One page and its edits. Most have one, so that one needs no allocation of its own.
#[derive(Debug)]
pub(super) struct Activity {
    pub(super) first_ms: u64,
    pub(super) hash: u32,
    links: Links,
    at_ms: u64,
    byte_change: i64,
    /// The page; id and editor of the first edit.
    texts: Texts<3, 76>,
    #[allow(clippy::box_collection, reason = "nearly always absent: a word is less than three")]
    more: Option<Box<Vec<Member>>>,
}

impl Linked for Activity {
    #[inline]
    fn links(&self) -> Links {
        self.links
    }

    #[inline]
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// Of no page yet.
impl Default for Activity {
    fn default() -> Self {
        Self {
            first_ms: 0,
            hash: 0,
            links: Links::default(),
            at_ms: 0,
            byte_change: 0,
            texts: Texts::EMPTY,
            more: None,
        }
    }
}

impl Activity {
    /// Begins to be that of a page, with its first edit.
    #[inline]
    pub(super) fn begin(&mut self, hash: u32, name: &str, now_ms: u64, edit: &Made<'_>) {
        (self.first_ms, self.hash) = (now_ms, hash);
        (self.at_ms, self.byte_change) = (edit.at_ms, edit.byte_change);
        self.texts.set([name, edit.id, edit.editor]);
        self.more = None;
    }

    #[inline]
    pub(super) fn name(&self) -> &[u8] {
        self.texts.get(0)
    }

    pub(super) fn name_text(&self) -> &str {
        self.texts.text(0)
    }

    pub(super) fn len(&self) -> usize {
        1 + self.more.as_ref().map_or(0, |more| more.len())
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.texts.get(1) == id.as_bytes() || self.rest().iter().any(|it| it.is(id))
    }

    fn rest(&self) -> &[Member] {
        self.more.as_ref().map_or(&[], |more| more)
    }

    /// When each of its edits was made.
    pub(super) fn times(&self) -> impl Iterator<Item = u64> {
        [self.at_ms].into_iter().chain(self.rest().iter().map(|it| it.at_ms))
    }

    pub(super) fn push(&mut self, edit: &Made<'_>) {
        let more = self.more.get_or_insert_default();
        more.reserve_exact(1);
        more.push(Member::new(edit));
    }

    /// Forgets the edit that came first, if there is another.
    pub(super) fn pop_first(&mut self) {
        if let Some(more) = &mut self.more
            && !more.is_empty()
        {
            let next = more.remove(0);
            (self.at_ms, self.byte_change) = (next.at_ms, next.byte_change);
            self.texts = Texts::new([self.texts.text(0), next.id(), next.editor()]);
        }
    }

    /// All of its edits, in the order they came.
    pub(super) fn into_members(self) -> Vec<Member> {
        let (id, editor) = (self.texts.text(1), self.texts.text(2));
        let first = Made { at_ms: self.at_ms, byte_change: self.byte_change, id, editor };
        let mut members = Vec::with_capacity(self.len());
        members.push(Member::new(&first));
        members.extend(self.more.into_iter().flat_map(|more| *more));
        members
    }

    /// With all that it has elsewhere.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        let more = self.more.as_ref().map_or(0, |more| {
            let texts: usize = more.iter().map(Member::heap).sum();
            size_of::<Vec<Member>>() + more.capacity() * size_of::<Member>() + 2 * ALLOCATION + texts
        });
        size_of::<Self>() + self.texts.heap() + more
    }
}
