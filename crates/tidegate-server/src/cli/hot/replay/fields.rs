//! Which fields of a line make an edit.

use serde_json::Value;
use tidegate::Key;
use tidegate::clock::Timestamp;
use tidegate::hot::Edit;

use crate::cli::hot::args::FieldArgs;
use crate::cli::message;
use crate::moment;

/// What a line says, with its time.
#[derive(Debug)]
pub(super) struct Mapped {
    pub(super) page: String,
    pub(super) id: String,
    pub(super) editor: String,
    pub(super) byte_change: i64,
    pub(super) at: Timestamp,
}

impl Mapped {
    /// The edit, made at `at`.
    pub(super) fn edit(&self, at: Option<Timestamp>) -> Result<Edit<'_>, String> {
        let page = Key::new(&self.page).map_err(|error| error.to_string().replacen("key", "page", 1))?;
        let edit = Edit { page, id: &self.id, editor: &self.editor, byte_change: self.byte_change, at };
        edit.check().map_err(message)?;
        Ok(edit)
    }
}

impl FieldArgs {
    /// The edit that `line` is, which is the `number`th.
    pub(super) fn edit(&self, line: &[u8], number: u64) -> Result<Mapped, String> {
        let line: Value = serde_json::from_slice(line).map_err(|error| format!("it is not JSON: {error}"))?;
        if !line.is_object() {
            return Err("it is not an object".to_owned());
        }
        let parts =
            self.page_field.iter().map(|field| required(&line, field)).collect::<Result<Vec<_>, _>>()?;
        let at = required(&line, &self.time_field)?;
        let mapped = Mapped {
            page: parts.join(&self.join),
            id: match &self.id_field {
                Some(field) => required(&line, field)?,
                None => number.to_string(),
            },
            editor: text(&line, &self.editor_field)?.unwrap_or_default(),
            byte_change: delta(&line, &self.delta_field)?,
            at: moment::parse(&at).map_err(|refused| format!("`{}`: {refused}", self.time_field))?,
        };
        // Nothing that follows finds anything wrong with it.
        mapped.edit(None)?;
        Ok(mapped)
    }
}

/// What a field holds; a field inside another is `a.b`, unless there is one of that name.
fn field<'a>(line: &'a Value, name: &str) -> Option<&'a Value> {
    let found = line.get(name).or_else(|| name.split('.').try_fold(line, |inside, name| inside.get(name)));
    found.filter(|value| !value.is_null())
}

fn text(line: &Value, name: &str) -> Result<Option<String>, String> {
    match field(line, name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(value.to_string())),
        Some(_) => Err(format!("`{name}` is neither a text nor a number")),
    }
}

fn required(line: &Value, name: &str) -> Result<String, String> {
    text(line, name)?.ok_or_else(|| format!("there is no `{name}` in it"))
}

fn delta(line: &Value, name: &str) -> Result<i64, String> {
    let whole = |value: f64| (value.fract() == 0.0 && value.abs() < 9e15).then_some(value as i64);
    match field(line, name) {
        None => Ok(0),
        Some(value) => value
            .as_i64()
            .or_else(|| value.as_f64().and_then(whole))
            .ok_or_else(|| format!("`{name}` is not a whole number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(page: &[&str]) -> FieldArgs {
        FieldArgs {
            page_field: page.iter().map(|it| (*it).to_owned()).collect(),
            join: ":".to_owned(),
            time_field: "meta.dt".to_owned(),
            editor_field: "user".to_owned(),
            delta_field: "delta".to_owned(),
            id_field: None,
        }
    }

    #[test]
    fn fields_are_joined_and_found_inside_others() {
        let line =
            br#"{"meta":{"dt":"2015-09-12T00:46:58.771Z"},"wiki":"en","n":7,"user":null,"delta":-3.0}"#;
        let mapped = fields(&["wiki", "n"]).edit(line, 12).unwrap();
        assert_eq!((mapped.page.as_str(), mapped.id.as_str(), mapped.editor.as_str()), ("en:7", "12", ""));
        assert_eq!((mapped.byte_change, mapped.at.as_millis()), (-3, 1_442_018_818_771));
        let with_id = FieldArgs { id_field: Some("wiki".to_owned()), ..fields(&["n"]) };
        assert_eq!(with_id.edit(br#"{"meta.dt":5,"wiki":"en","n":"x"}"#, 1).unwrap().id, "en");
    }

    #[test]
    fn a_bad_line_is_refused_with_the_reason() {
        for (line, message) in [
            ("{", "it is not JSON: EOF while parsing"),
            ("[1]", "it is not an object"),
            (r#"{"meta":{"dt":1}}"#, "there is no `page` in it"),
            (r#"{"meta":{"dt":1},"page":null}"#, "there is no `page` in it"),
            (r#"{"meta":{"dt":1},"page":""}"#, "a page must not be empty"),
            (r#"{"meta":{"dt":1},"page":[1]}"#, "`page` is neither a text nor a number"),
            (r#"{"page":"a"}"#, "there is no `meta.dt` in it"),
            (r#"{"meta":{"dt":"soon"},"page":"a"}"#, "`meta.dt`: \"soon\" is not a moment"),
            (r#"{"meta":{"dt":1},"page":"a","delta":"x"}"#, "`delta` is not a whole number"),
            (r#"{"meta":{"dt":1},"page":"a","delta":0.5}"#, "`delta` is not a whole number"),
            (
                r#"{"meta":{"dt":1},"page":"a","user":"\u0000"}"#,
                "an editor has 1 bytes: 0 to 255 are allowed",
            ),
        ] {
            let refusal = fields(&["page"]).edit(line.as_bytes(), 1).unwrap_err();
            assert!(refusal.contains(message), "{line}: {refusal}");
        }
        let long = format!(r#"{{"meta":{{"dt":1}},"page":"{}"}}"#, "x".repeat(256));
        let refusal = fields(&["page"]).edit(long.as_bytes(), 1).unwrap_err();
        assert!(refusal.contains("has 256 bytes: 1 to 255 are allowed"), "{refusal}");
    }
}
