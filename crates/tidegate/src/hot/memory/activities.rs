//! What is remembered of pages that are not hot, in the order it began.

/// No neighbour.
const NONE: u32 = u32::MAX;

/// Its neighbours in the order they began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Links {
    before: u32,
    after: u32,
}

impl Default for Links {
    fn default() -> Self {
        Self { before: NONE, after: NONE }
    }
}

/// What knows its neighbours.
pub(super) trait Linked {
    fn links(&self) -> Links;
    fn links_mut(&mut self) -> &mut Links;
}

/// Entries per allocation.
const CHUNK: usize = 256;

/// Without a gap: what leaves makes room for the last one.
#[derive(Debug)]
pub(super) struct Activities<T> {
    chunks: Vec<Vec<T>>,
    len: usize,
    oldest: u32,
    newest: u32,
}

impl<T: Linked> Activities<T> {
    pub(super) fn new() -> Self {
        Self { chunks: Vec::new(), len: 0, oldest: NONE, newest: NONE }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> &T {
        &self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> &mut T {
        &mut self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }

    /// The one that began first.
    pub(super) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Adds one as the newest; where it is.
    #[inline]
    pub(super) fn push(&mut self, new: T) -> u32 {
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
    pub(super) fn replace(&mut self, at: u32, new: T) -> T {
        self.unlink(at);
        let old = std::mem::replace(self.get_mut(at), new);
        self.link(at);
        old
    }

    /// Makes one the newest.
    #[inline]
    pub(super) fn renew(&mut self, at: u32) {
        self.unlink(at);
        self.link(at);
    }

    /// Takes one out. If another is at its place then, that one came from the end.
    pub(super) fn remove(&mut self, at: u32) -> Option<T> {
        self.unlink(at);
        let last = self.chunks.last_mut()?.pop()?;
        if self.chunks.last().is_some_and(Vec::is_empty) {
            self.chunks.pop();
        }
        self.len -= 1;
        if at as usize == self.len {
            return Some(last);
        }
        match last.links().before {
            NONE => self.oldest = at,
            before => self.get_mut(before).links_mut().after = at,
        }
        match last.links().after {
            NONE => self.newest = at,
            after => self.get_mut(after).links_mut().before = at,
        }
        Some(std::mem::replace(self.get_mut(at), last))
    }

    fn link(&mut self, at: u32) {
        let newest = std::mem::replace(&mut self.newest, at);
        *self.get_mut(at).links_mut() = Links { before: newest, after: NONE };
        match newest {
            NONE => self.oldest = at,
            newest => self.get_mut(newest).links_mut().after = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let Links { before, after } = self.get(at).links();
        match before {
            NONE => self.oldest = after,
            before => self.get_mut(before).links_mut().after = after,
        }
        match after {
            NONE => self.newest = before,
            after => self.get_mut(after).links_mut().before = before,
        }
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// From the oldest to the newest.
    #[cfg(test)]
    pub(super) fn in_order(&self) -> impl Iterator<Item = u32> {
        let after = |at: &u32| Some(self.get(*at).links().after).filter(|at| *at != NONE);
        std::iter::successors(self.oldest(), after)
    }
}
