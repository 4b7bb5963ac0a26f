//! Where a list goes on.

use compact_str::{CompactString, ToCompactString as _};

use crate::error::Result;
use crate::session::memory::Set;
use crate::session::types::Listed;
use crate::store::redis::Fields;

/// Where a list goes on in one of the sets that it is made of.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// As the set has it; empty for the beginning.
    pub(super) score: CompactString,
    /// In hexadecimal: an entry may be any bytes.
    pub(super) entry: CompactString,
}

impl Place {
    /// Behind a session that a list ended with: in the set itself, and among those that have
    /// fallen silent, which are by milliseconds.
    pub(super) fn behind(set: Set, after: Option<Listed>) -> [Self; 2] {
        let Some(after) = after else { return [Self::default(), Self::default()] };
        let ms = after.at.as_millis() as f64;
        let entry: CompactString = after.id.to_string().bytes().map(|it| format!("{it:02x}")).collect();
        let own = if set == Set::Disconnected { ms / 1000.0 } else { ms };
        [own, ms].map(|score| Self { score: score.to_compact_string(), entry: entry.clone() })
    }

    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self { score: fields.text()?.into(), entry: fields.text()?.into() })
    }

    /// Whether there is nothing behind it.
    pub(super) fn is_end(&self) -> bool {
        self.score == "-"
    }
}
