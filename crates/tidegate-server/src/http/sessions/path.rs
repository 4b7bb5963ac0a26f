//! Who is meant by a path.

use schemars::JsonSchema;
use serde::Deserialize;
use tidegate::session::{Generation, Holder, SessionId};

use crate::api::{key, pattern};
use crate::http::Result;

/// `…/{id}`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OfSession {
    #[schemars(extend("pattern" = pattern::NAME))]
    pub(super) space: String,
    #[schemars(extend("format" = "uuid"))]
    id: String,
}

impl OfSession {
    pub(super) fn id(&self) -> Result<SessionId> {
        Ok(self.id.parse()?)
    }
}

/// `…/broadcasters/{broadcaster}`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OfBroadcaster {
    #[schemars(extend("pattern" = pattern::NAME))]
    pub(super) space: String,
    #[schemars(length(min = 1, max = 255))]
    pub(super) broadcaster: String,
}

/// `…/{id}/holders/{holder}`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OfHolder {
    #[schemars(extend("pattern" = pattern::NAME))]
    pub(super) space: String,
    #[schemars(extend("format" = "uuid"))]
    id: String,
    #[schemars(length(min = 1, max = 255))]
    pub(super) holder: String,
}

impl OfHolder {
    pub(super) fn id(&self) -> Result<SessionId> {
        Ok(self.id.parse()?)
    }

    pub(super) fn holder(&self, generation: Option<Generation>) -> Result<Holder<'_>> {
        Ok(Holder { name: key("a holder", &self.holder)?, generation })
    }
}
