//! What an entry says: its numbers read once, its texts borrowed.

use std::fmt;

use super::digits::{self, Reader};
use crate::rule::{Code, Life, Parts, Query, RedirectRef, State};

/// What is so of a rule, a bit each. Nothing is set of a plain rule, and the usual ones come first: few bits are one byte.
#[derive(Clone, Copy)]
pub(super) struct Flags(u64);

impl Flags {
    const APPEND_REST: u64 = 1 << 4;
    const DISABLED: u64 = 1 << 5;
    const STARTS: u64 = 1 << 6;
    const EXPIRES: u64 = 1 << 7;
    const MAX_CLICKS: u64 = 1 << 8;
    const MAX_AGE: u64 = 1 << 9;
    const FALLBACK: u64 = 1 << 10;
    /// Those with a number of their own.
    const OPTIONAL: u64 = Self::STARTS | Self::EXPIRES | Self::MAX_CLICKS | Self::MAX_AGE | Self::FALLBACK;

    pub(super) fn of(parts: &Parts<'_>) -> Self {
        let code = match parts.code {
            Code::Found => 0,
            Code::MovedPermanently => 1,
            Code::TemporaryRedirect => 2,
            Code::PermanentRedirect => 3,
        };
        let query = match parts.query {
            Query::Off => 0,
            Query::Append => 1 << 2,
            Query::Merge => 2 << 2,
        };
        let life = &parts.life;
        let is_set = [
            (Self::APPEND_REST, parts.append_rest),
            (Self::DISABLED, !life.enabled),
            (Self::STARTS, life.starts_at.is_some()),
            (Self::EXPIRES, life.expires_at.is_some()),
            (Self::MAX_CLICKS, life.max_clicks.is_some()),
            (Self::MAX_AGE, parts.max_age.is_some()),
            (Self::FALLBACK, parts.fallback.is_some()),
        ];
        let bits = is_set.iter().filter(|it| it.1).map(|it| it.0);
        Self(bits.fold(code | query, |all, bit| all | bit))
    }

    fn has(self, bits: u64) -> bool {
        self.0 & bits != 0
    }

    fn code(self) -> Code {
        match self.0 & 3 {
            0 => Code::Found,
            1 => Code::MovedPermanently,
            2 => Code::TemporaryRedirect,
            _ => Code::PermanentRedirect,
        }
    }

    fn query(self) -> Query {
        match self.0 >> 2 & 3 {
            0 => Query::Off,
            1 => Query::Append,
            _ => Query::Merge,
        }
    }
}

/// What stands in front of the texts. Of those that [`Flags`] says are absent nothing is written.
pub(super) struct Numbers {
    pub(super) flags: Flags,
    pub(super) host: u32,
    pub(super) path_len: usize,
    pub(super) destination_len: usize,
    pub(super) id_len: usize,
    pub(super) starts_at: u64,
    pub(super) expires_at: u64,
    pub(super) max_clicks: u64,
    pub(super) max_age: u32,
    pub(super) fallback_len: usize,
}

impl Numbers {
    pub(super) fn to_text(&self) -> String {
        let mut text = String::with_capacity(64);
        let always = [
            self.flags.0,
            u64::from(self.host),
            self.path_len as u64,
            self.destination_len as u64,
            self.id_len as u64,
        ];
        always.iter().for_each(|&it| digits::push(&mut text, it));
        let optional = [
            (Flags::STARTS, self.starts_at),
            (Flags::EXPIRES, self.expires_at),
            (Flags::MAX_CLICKS, self.max_clicks),
            (Flags::MAX_AGE, u64::from(self.max_age)),
            (Flags::FALLBACK, self.fallback_len as u64),
        ];
        for (flag, number) in optional {
            if self.flags.has(flag) {
                digits::push(&mut text, number);
            }
        }
        text
    }
}

/// A rule as an entry has it.
#[derive(Clone, Copy)]
pub struct View<'a> {
    parts: Parts<'a>,
    host: u32,
    id_len: usize,
    /// The id, the hash, when it was made, and whatever else there is: not looked at before somebody asks, since it may be in a line of its
    /// own that the processor does not have yet.
    rest: &'a str,
    /// What is in front of the rest.
    front_len: usize,
}

impl<'a> View<'a> {
    /// Of a text that begins with that of an entry, so its lengths are those of its texts.
    #[inline]
    pub(crate) fn of(text: &'a str) -> Self {
        let mut reader = Reader::new(text);
        let flags = Flags(reader.number());
        let host = reader.number() as u32;
        let path_len = reader.number() as usize;
        let destination_len = reader.number() as usize;
        let id_len = reader.number() as usize;
        let mut life = Life {
            enabled: !flags.has(Flags::DISABLED),
            starts_at: None,
            expires_at: None,
            max_clicks: None,
        };
        let mut max_age = None;
        let mut fallback_len = None;
        if flags.has(Flags::OPTIONAL) {
            let mut optional = |flag| flags.has(flag).then(|| reader.number());
            life.starts_at = optional(Flags::STARTS);
            life.expires_at = optional(Flags::EXPIRES);
            life.max_clicks = optional(Flags::MAX_CLICKS);
            max_age = optional(Flags::MAX_AGE).map(|it| it as u32);
            fallback_len = optional(Flags::FALLBACK).map(|it| it as usize);
        }
        let (path, rest) = text[reader.at()..].split_at(path_len);
        let (destination, rest) = rest.split_at(destination_len);
        let (fallback, rest) = rest.split_at(fallback_len.unwrap_or_default());
        let parts = Parts {
            path,
            destination,
            fallback: fallback_len.map(|_| fallback),
            code: flags.code(),
            append_rest: flags.has(Flags::APPEND_REST),
            query: flags.query(),
            max_age,
            life,
        };
        Self { parts, host, id_len, rest, front_len: text.len() - rest.len() }
    }

    /// How long the entry's own text is.
    pub(crate) fn text_len(&self) -> usize {
        let mut reader = Reader::new(&self.rest[self.id_len..]);
        reader.number();
        reader.number();
        self.front_len + self.id_len + reader.at()
    }

    #[cfg(test)]
    pub(super) fn parts(&self) -> &Parts<'a> {
        &self.parts
    }

    /// As the rule has it: `/docs/*` for a folder.
    pub fn path(&self) -> &'a str {
        self.parts.path
    }

    /// The folder that it is for, if it is for all below one.
    pub fn folder(&self) -> Option<&'a str> {
        self.parts.folder()
    }

    /// Its identity.
    pub fn id(&self) -> &'a str {
        &self.rest[..self.id_len]
    }

    /// Whose rule it is, by the number that the worker knows the host by.
    pub fn host(&self) -> u32 {
        self.host
    }

    /// Of the version: two of one id that have the same are the same.
    pub fn hash(&self) -> u64 {
        Reader::new(&self.rest[self.id_len..]).number()
    }

    /// When the rule was made: another one of that id was made at another time.
    pub fn created_at(&self) -> u64 {
        let mut reader = Reader::new(&self.rest[self.id_len..]);
        reader.number();
        reader.number()
    }

    /// How it is doing at that time, as far as that is a matter of time: whether there are clicks left is known elsewhere.
    pub fn state(&self, now_ms: u64) -> State {
        self.parts.life.state(now_ms, 0)
    }

    /// The last millisecond at which it redirects.
    pub fn expires_at(&self) -> Option<u64> {
        self.parts.life.expires_at
    }

    /// How often it redirects: it must not without a permit for each time.
    pub fn max_clicks(&self) -> Option<u64> {
        self.parts.life.max_clicks
    }

    /// Where a request is sent whose path, normalised, and query are these.
    pub fn redirect(&self, path: &str, query: Option<&str>) -> RedirectRef<'a> {
        self.parts.redirect(path, query)
    }

    /// Where it sends when it is over; nowhere if it is just gone.
    pub fn ended(&self) -> Option<RedirectRef<'a>> {
        self.parts.ended()
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("View");
        shown.field("id", &self.id()).field("host", &self.host);
        shown.field("hash", &self.hash()).field("parts", &self.parts).finish()
    }
}
