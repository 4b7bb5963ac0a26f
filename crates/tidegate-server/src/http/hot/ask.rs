//! An edit as it is sent, checked: nothing behind it checks again.

use std::borrow::Cow;

use serde::Deserialize;
use tidegate::hot::Edit;
use tidegate::{Key, Result};

use crate::moment::Moment;

/// One edit, in a body of its own or a line of many.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with page, id, editor, byte_change and at")]
pub(super) struct AskedEdit<'a> {
    #[serde(borrow)]
    page: Cow<'a, str>,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(default, borrow)]
    editor: Option<Cow<'a, str>>,
    #[serde(default)]
    byte_change: Option<i64>,
    #[serde(default)]
    at: Option<Moment>,
}

impl<'a> AskedEdit<'a> {
    pub(super) fn edit(&self) -> Result<Edit<'_>> {
        let edit = Edit {
            page: Key::new(&self.page)?,
            id: &self.id,
            editor: self.editor.as_deref().unwrap_or_default(),
            byte_change: self.byte_change.unwrap_or_default(),
            at: self.at.map(|at| at.0),
        };
        edit.check()?;
        Ok(edit)
    }

    /// The same, on its own.
    pub(super) fn into_owned(self) -> AskedEdit<'static> {
        let own = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        AskedEdit {
            page: own(self.page),
            id: own(self.id),
            editor: self.editor.map(own),
            byte_change: self.byte_change,
            at: self.at,
        }
    }
}
