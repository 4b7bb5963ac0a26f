//! What people see who are not sent on: a text that the settings may say.

use std::path::Path;

use axum::body::Bytes;

/// The longest body of an answer.
const MAX_BYTES: usize = 64 << 10;

/// A body with its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    pub(super) media_type: &'static str,
    pub(super) body: Bytes,
    /// Its length, as a header has it.
    pub(super) length: Box<str>,
}

impl Page {
    /// A line of text.
    pub(crate) fn line(text: &'static str) -> Self {
        Self::new(false, Bytes::from_static(text.as_bytes()))
    }

    fn new(is_html: bool, body: Bytes) -> Self {
        let media_type = if is_html { "text/html; charset=utf-8" } else { "text/plain; charset=utf-8" };
        Self { media_type, length: body.len().to_string().into(), body }
    }

    /// `@FILE` is what is in a file, anything else is the text itself. It is HTML if the file is called so, or if the
    /// text begins with a tag.
    pub(crate) fn read(setting: &str) -> Result<Self, String> {
        let (text, is_html) = match setting.strip_prefix('@') {
            Some(path) => {
                let text = std::fs::read_to_string(path);
                let text = text.map_err(|error| format!("cannot read {path}: {error}"))?;
                let ending = Path::new(path).extension().and_then(|it| it.to_str()).unwrap_or_default();
                (text, ["html", "htm"].iter().any(|it| ending.eq_ignore_ascii_case(it)))
            }
            None => (setting.to_owned(), setting.trim_start().starts_with('<')),
        };
        match text.len() {
            0..=MAX_BYTES => Ok(Self::new(is_html, text.into())),
            bytes => Err(format!("a body of {bytes} bytes is not allowed: 0 to {MAX_BYTES} are")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_text_or_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            format!("@{}", path.display())
        };
        for (setting, media_type, body) in [
            ("gone, sorry".to_owned(), "text/plain; charset=utf-8", "gone, sorry"),
            (" <p>gone</p>".to_owned(), "text/html; charset=utf-8", " <p>gone</p>"),
            (file("a.HTML", "plain"), "text/html; charset=utf-8", "plain"),
            (file("a.txt", "<b>"), "text/plain; charset=utf-8", "<b>"),
        ] {
            let page = Page::read(&setting).unwrap();
            assert_eq!(
                (page.media_type, &page.body[..], &*page.length),
                (media_type, body.as_bytes(), &*body.len().to_string())
            );
        }
        let missing = Page::read("@/nowhere/at/all.html").unwrap_err();
        assert!(missing.starts_with("cannot read /nowhere/at/all.html: "), "{missing}");
        let long = Page::read(&"x".repeat(MAX_BYTES + 1)).unwrap_err();
        assert_eq!(long, "a body of 65537 bytes is not allowed: 0 to 65536 are");
    }
}
