//! Who is meant by a path.

use schemars::JsonSchema;
use serde::Deserialize;
use tidegate::Key;

use crate::api::pattern;
use crate::http::Result;

/// `…/pages/{page}` of a space.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OfPage {
    #[schemars(extend("pattern" = pattern::NAME))]
    pub(super) space: String,
    #[schemars(length(min = 1, max = 255))]
    pub(super) page: String,
}

impl OfPage {
    pub(super) fn key(&self) -> Result<Key<'_>> {
        Ok(Key::new(&self.page)?)
    }
}
