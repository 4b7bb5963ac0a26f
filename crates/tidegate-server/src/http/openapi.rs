//! The OpenAPI 3.1 description of the API, made from the table of operations.

use std::collections::BTreeMap;

use schemars::{Schema, SchemaGenerator};
use serde_json::map::Entry;
use serde_json::{Map, Value, json};
use tidegate::limit::headers::PROBLEM_JSON;

use super::operation::{Operation, SERVER, TimeClass};
use super::parameter::{Parameter, ParameterKind};
use super::{AnswerShape, BodyShape, Kind, PARTS, ProblemBody};

/// What any operation may be refused with.
const ANY: [Kind; 2] = [Kind::INVALID, Kind::TIMEOUT];

/// One that has a body.
const WITH_BODY: &[Kind] = &[Kind::BODY_TOO_LARGE, Kind::MEDIA_TYPE, Kind::ENCODING];

/// The whole description.
pub(crate) fn document(operations: &[Operation]) -> Value {
    let mut schemas = schemars::generate::SchemaSettings::openapi3()
        .with(|settings| {
            // OpenAPI 3.1 speaks the JSON Schema of 2020-12 as it is.
            *settings = schemars::generate::SchemaSettings::draft2020_12();
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
        .into_generator();
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for operation in operations {
        let mut add = |path: String, name: String| {
            let described = describe(&mut schemas, operation, &path, name);
            let methods = paths.entry(path).or_default();
            match methods.entry(operation.method.as_str().to_lowercase()) {
                Entry::Vacant(free) => _ = free.insert(described),
                Entry::Occupied(mut first) => merge(first.get_mut(), described),
            }
        };
        if let Some(everyone) = operation.path_of_everyone() {
            add(everyone, format!("{}_of_everyone", operation.name));
        }
        add(operation.path.to_owned(), operation.name.to_owned());
    }
    let problem = schemas.subschema_for::<ProblemBody>();
    debug_assert!(problem.as_object().is_some());
    let parts = PARTS.iter().map(|routes| routes.part).chain([SERVER]);
    let tags: Vec<_> = parts.map(|part| json!({"name": part})).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Rate limits, hot pages, sessions, runs and redirects",
        },
        "tags": tags,
        "paths": paths,
        "components": {"schemas": schemas.take_definitions(true)},
    })
}

/// Two operations at one address, distinguished by the type of their bodies, are one there.
fn merge(first: &mut Value, second: Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    first["summary"] = format!("{}; {}", text(&first["summary"]), text(&second["summary"])).into();
    first["x-also"] = second["operationId"].clone();
    if let (Some(contents), Some(more)) =
        (first["requestBody"]["content"].as_object_mut(), second["requestBody"]["content"].as_object())
    {
        contents.extend(more.clone());
    }
    let (Some(responses), Some(more)) = (first["responses"].as_object_mut(), second["responses"].as_object())
    else {
        return;
    };
    for (status, response) in more {
        let Some(known) = responses.get_mut(status) else {
            responses.insert(status.clone(), response.clone());
            continue;
        };
        let (before, after) = (text(&known["description"]), text(&response["description"]));
        if !before.contains(&after) {
            known["description"] = format!("{before}; {after}").into();
        }
        for (media_type, content) in response["content"].as_object().into_iter().flatten() {
            let before = &mut known["content"][media_type];
            if before.is_null() {
                *before = content.clone();
            } else if before["schema"] != content["schema"] {
                let both = json!({"anyOf": [before["schema"], content["schema"]]});
                before["schema"] = both;
            }
        }
    }
}

fn describe(schemas: &mut SchemaGenerator, operation: &Operation, path: &str, name: String) -> Value {
    let shape = (operation.shape)(schemas);
    let mut described = Map::new();
    described.insert("operationId".to_owned(), name.into());
    described.insert("summary".to_owned(), operation.summary.into());
    described.insert("tags".to_owned(), json!([operation.part]));
    described.insert("x-scope".to_owned(), operation.scope.as_str().into());
    let class = match operation.time_class {
        TimeClass::Ordinary => None,
        TimeClass::Bulk => Some("bulk"),
        TimeClass::Long => Some("long"),
        TimeClass::Endless => Some("endless"),
    };
    if let Some(class) = class {
        described.insert("x-time-class".to_owned(), class.into());
    }
    let in_path = path_parameters(path, &shape.path);
    let in_query = shape.query.iter().map(|it| parameter("query", it));
    let in_head = operation.headers.iter().map(|it| parameter("header", it));
    let parameters: Vec<_> = in_path.chain(in_query).chain(in_head).collect();
    if !parameters.is_empty() {
        described.insert("parameters".to_owned(), parameters.into());
    }
    if let Some(body) = &shape.body {
        described.insert("requestBody".to_owned(), request_body(body, operation.example));
    }
    let named = [("{limit}", Kind::UNKNOWN_LIMIT), ("{space}", Kind::UNKNOWN_SPACE)];
    let unknown = named.into_iter().filter(|(name, _)| path.contains(name)).map(|(_, kind)| kind);
    let mut kinds: Vec<Kind> = unknown.chain(operation.problems.iter().copied()).chain(ANY).collect();
    if shape.body.is_some() {
        kinds.extend(WITH_BODY);
    }
    let part = PARTS.iter().find(|routes| routes.part == operation.part);
    kinds.extend(part.map_or(&[][..], |routes| routes.problems));
    described.insert("responses".to_owned(), responses(schemas, shape.answers, &kinds));
    Value::Object(described)
}

/// The members of the path's type that are in its template.
fn path_parameters<'a>(path: &'a str, schema: &'a Schema) -> impl Iterator<Item = Value> + 'a {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(move |name| {
        let member = schema.get("properties").and_then(|properties| properties.get(name));
        let mut schema = member.cloned().unwrap_or_else(|| json!({"type": "string"}));
        // A part of a path that is empty is no part of a path.
        if let Some(members) = schema.as_object_mut()
            && !members.contains_key("$ref")
        {
            members.entry("minLength").or_insert(1.into());
        }
        json!({"name": name, "in": "path", "required": true, "schema": schema})
    })
}

/// One that is in the query, or in the head.
fn parameter(place: &str, parameter: &Parameter) -> Value {
    let schema = match &parameter.kind {
        ParameterKind::Integer { allowed, default } => {
            let mut schema = json!({"type": "integer", "minimum": allowed.start(), "maximum": allowed.end()});
            if let Some(default) = default {
                schema["default"] = (*default).into();
            }
            schema
        }
        ParameterKind::Flag => json!({"type": "boolean", "default": false}),
        ParameterKind::OneOf(allowed) => json!({"type": "string", "enum": allowed}),
        ParameterKind::Text { pattern, example: "" } => {
            json!({"type": "string", "pattern": pattern})
        }
        ParameterKind::Text { pattern, example } => {
            json!({"type": "string", "pattern": pattern, "examples": [example]})
        }
    };
    let Parameter { name, about, is_required, .. } = parameter;
    json!({"name": name, "in": place, "required": is_required, "description": about, "schema": schema})
}

fn request_body(body: &BodyShape, example: &str) -> Value {
    let mut content = json!({"schema": body.schema});
    if let Ok(example) = serde_json::from_str::<Value>(example) {
        content["example"] = example;
    }
    json!({"required": body.is_required, "content": {body.media_type: content}})
}

/// By status: what an answer is, and what problems there may be instead.
fn responses(schemas: &mut SchemaGenerator, answers: Vec<AnswerShape>, kinds: &[Kind]) -> Value {
    // What it is about, and the schemas of its body by media type.
    type Response<'a> = (Vec<String>, BTreeMap<&'a str, Vec<Value>>);
    let mut responses: BTreeMap<u16, Response<'_>> = BTreeMap::new();
    for AnswerShape { status, about, body } in answers {
        let (abouts, contents) = responses.entry(status.as_u16()).or_default();
        abouts.push(about.to_owned());
        if let Some((media_type, schema)) = body {
            contents.entry(media_type).or_default().push(schema.to_value());
        }
    }
    let problem = schemas.subschema_for::<ProblemBody>().to_value();
    for kind in kinds {
        let (abouts, contents) = responses.entry(kind.status).or_default();
        abouts.push(format!("`{}`", kind.name));
        let schemas = contents.entry(PROBLEM_JSON).or_default();
        if !schemas.contains(&problem) {
            schemas.push(problem.clone());
        }
    }
    let described = responses.into_iter().map(|(status, (abouts, contents))| {
        let content: Map<String, Value> = contents
            .into_iter()
            .map(|(media_type, mut schemas)| {
                let schema = match schemas.len() {
                    1 => schemas.remove(0),
                    _ => json!({"anyOf": schemas}),
                };
                (media_type.to_owned(), json!({"schema": schema}))
            })
            .collect();
        let mut response = json!({"description": abouts.join(", ")});
        if !content.is_empty() {
            response["content"] = Value::Object(content);
        }
        (status.to_string(), response)
    });
    Value::Object(described.collect())
}

#[cfg(test)]
mod tests {
    use axum::http::{Method, StatusCode};

    use super::*;
    use crate::http::table;

    #[test]
    fn every_operation_has_a_name_of_its_own_and_a_summary() {
        let operations = table::operations();
        for operation in &operations {
            let namesakes = operations.iter().filter(|other| other.name == operation.name).count();
            assert_eq!(namesakes, 1, "{}", operation.name);
            assert!(!operation.summary.is_empty(), "{}", operation.name);
            let is_read = operation.method == Method::GET;
            assert_eq!(
                is_read,
                operation.scope == super::super::operation::Scope::Read,
                "{}",
                operation.name
            );
        }
    }

    /// Every operation is there, every reference leads somewhere, and every status says what
    /// it is.
    #[test]
    fn the_description_is_whole() {
        let operations = table::operations();
        let document = document(&operations);
        for operation in &operations {
            let method = operation.method.as_str().to_lowercase();
            let described = &document["paths"][operation.path][method];
            let name = operation.name;
            assert!(described["operationId"] == name || described["x-also"] == name, "{name}: {described}");
            let mut schemas = SchemaGenerator::default();
            let shape = (operation.shape)(&mut schemas);
            if let Some(body) = shape.body {
                let content = &described["requestBody"]["content"][body.media_type];
                assert!(content.is_object(), "{name}: {described}");
            }
            for answer in shape.answers {
                let response = &described["responses"][answer.status.as_str()];
                assert!(
                    response["description"].as_str().unwrap().contains(answer.about),
                    "{name}: {response}"
                );
            }
        }
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"").skip(1) {
            let (path, _) = reference.split_once('"').unwrap();
            assert!(document.pointer(path.trim_start_matches('#')).is_some(), "{path}");
        }
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let responses = operation["responses"].as_object().unwrap();
                assert!(responses.keys().any(|status| status.starts_with('2')), "{method} {path}");
                for (status, response) in responses {
                    assert!(StatusCode::from_bytes(status.as_bytes()).is_ok());
                    assert_ne!(response["description"], "", "{method} {path} {status}");
                }
            }
        }
    }
}
