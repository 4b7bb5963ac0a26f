//! Settings from a YAML file.

use std::path::Path;

use super::SettingsError;
use super::names::nearest;
use crate::parts::RawSettings;

pub(super) fn read(path: &Path) -> Result<RawSettings, SettingsError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| SettingsError(format!("cannot read {}: {error}", path.display())))?;
    parse(&text, &path.display().to_string())
}

fn parse(text: &str, name: &str) -> Result<RawSettings, SettingsError> {
    // Several lines around the wrong one may show a password: our own message
    // shows the one line.
    let options = serde_saphyr::options! { with_snippet: false };
    let parsed = serde_saphyr::from_str_with_options::<Option<RawSettings>>(text, options);
    parsed.map(Option::unwrap_or_default).map_err(|error| {
        let message = match &error {
            serde_saphyr::Error::SerdeUnknownField { field, expected, .. } => {
                let near = nearest(field, expected.iter().copied());
                let hint = near.map(|near| format!(": did you mean `{near}`?")).unwrap_or_default();
                format!("unknown setting `{field}`{hint}")
            }
            serde_saphyr::Error::Message { msg, .. } => msg.clone(),
            serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
                format!("`{key}` is set twice")
            }
            other => other.to_string(),
        };
        let Some(line) = error.location().map(|location| location.line()) else {
            return SettingsError(format!("{name}: {message}"));
        };
        let shown = usize::try_from(line).ok().and_then(|line| text.lines().nth(line.checked_sub(1)?));
        let shown = shown.map(|shown| format!("\n{line:>4} | {shown}")).unwrap_or_default();
        SettingsError(format!("{name}:{line}: {message}{shown}"))
    })
}
