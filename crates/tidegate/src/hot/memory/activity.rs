//! What is remembered of pages that are not hot, in the order it began.

use super::ALLOCATION;
use super::member::{Made, Member};
use super::texts::Texts;

/// One page and its edits. Most have one, so that one needs no allocation of its own.
#[derive(Debug)]
pub(super) struct Activity {
    pub(super) first_ms: u64,
    pub(super) hash: u32,
    /// Its neighbours in the order they began.
    before: u32,
    after: u32,
    at_ms: u64,
    byte_change: i64,
    /// The page; id and editor of the first edit.
    texts: Texts<3, 76>,
    #[allow(clippy::box_collection, reason = "nearly always absent: a word is less than three")]
    more: Option<Box<Vec<Member>>>,
}

/// No neighbour.
const NONE: u32 = u32::MAX;

impl Activity {
    #[inline]
    pub(super) fn new(hash: u32, name: &str, now_ms: u64, edit: &Made<'_>) -> Self {
        Self {
            first_ms: now_ms,
            hash,
            before: NONE,
            after: NONE,
            at_ms: edit.at_ms,
            byte_change: edit.byte_change,
            texts: Texts::new([name, edit.id, edit.editor]),
            more: None,
        }
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

/// Entries per allocation.
const CHUNK: usize = 256;

/// Without a gap: what leaves makes room for the last one.
#[derive(Debug)]
pub(super) struct Activities {
    chunks: Vec<Vec<Activity>>,
    len: usize,
    oldest: u32,
    newest: u32,
}

impl Activities {
    pub(super) fn new() -> Self {
        Self { chunks: Vec::new(), len: 0, oldest: NONE, newest: NONE }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> &Activity {
        &self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> &mut Activity {
        &mut self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }

    /// The one that began first.
    pub(super) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Adds one as the newest; where it is.
    #[inline]
    pub(super) fn push(&mut self, new: Activity) -> u32 {
        let at = self.len as u32;
        if self.len.is_multiple_of(CHUNK) {
            // The first one grows as it fills: a space with few pages is small.
            let room = if self.len == 0 { 4 } else { CHUNK };
            self.chunks.push(Vec::with_capacity(room));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(new);
        }
        self.len += 1;
        self.link(at);
        at
    }

    /// Puts one, as the newest, in the place of the oldest.
    #[inline]
    pub(super) fn replace(&mut self, at: u32, new: Activity) -> Activity {
        self.unlink(at);
        let old = std::mem::replace(self.get_mut(at), new);
        self.link(at);
        old
    }

    /// Takes one out. If another is at its place then, that one came from the end.
    pub(super) fn remove(&mut self, at: u32) -> Option<Activity> {
        self.unlink(at);
        let last = self.chunks.last_mut()?.pop()?;
        if self.chunks.last().is_some_and(Vec::is_empty) {
            self.chunks.pop();
        }
        self.len -= 1;
        if at as usize == self.len {
            return Some(last);
        }
        match last.before {
            NONE => self.oldest = at,
            before => self.get_mut(before).after = at,
        }
        match last.after {
            NONE => self.newest = at,
            after => self.get_mut(after).before = at,
        }
        Some(std::mem::replace(self.get_mut(at), last))
    }

    fn link(&mut self, at: u32) {
        let newest = std::mem::replace(&mut self.newest, at);
        let it = self.get_mut(at);
        (it.before, it.after) = (newest, NONE);
        match newest {
            NONE => self.oldest = at,
            newest => self.get_mut(newest).after = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let Activity { before, after, .. } = *self.get(at);
        match before {
            NONE => self.oldest = after,
            before => self.get_mut(before).after = after,
        }
        match after {
            NONE => self.newest = before,
            after => self.get_mut(after).before = before,
        }
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Activity> {
        self.chunks.iter().flatten()
    }

    /// From the oldest to the newest.
    #[cfg(test)]
    pub(super) fn in_order(&self) -> impl Iterator<Item = u32> {
        let after = |at: &u32| Some(self.get(*at).after).filter(|at| *at != NONE);
        std::iter::successors(self.oldest(), after)
    }
}
