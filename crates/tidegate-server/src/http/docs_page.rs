//! `/docs`: the OpenAPI description as one page of HTML, which needs no script, no style
//! and no font from anywhere else.

use std::fmt::Write as _;

use serde_json::Value;

const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1c2733;background:#fff}
code,pre{font:14px/1.45 ui-monospace,monospace;background:#f2f5f8;border-radius:4px}
code{padding:.1em .3em}pre{padding:.7em 1em;overflow-x:auto}
h1{margin-bottom:0}h2{margin-top:2.5rem;border-bottom:1px solid #d5dde5}
details{border:1px solid #d5dde5;border-radius:6px;margin:.5rem 0;padding:.5rem 1rem}
summary{cursor:pointer}.method{display:inline-block;min-width:4.2em;font-weight:600}
table{border-collapse:collapse;margin:.5rem 0}td,th{border-bottom:1px solid #e5eaef;padding:.25em .8em .25em 0;text-align:left;vertical-align:top}
@media(prefers-color-scheme:dark){body{background:#12181f;color:#dbe4ec}code,pre{background:#1d2630}details,h2,td,th{border-color:#2c3a48}a{color:#7fb8f0}}
";

/// The page of `document`.
pub(super) fn page(document: &Value) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Tidegate API</title>\n\
         <style>\n{STYLE}</style>\n<h1>Tidegate API</h1>\n<p>Version {}. The same for machines: \
         <a href=\"/openapi.json\">/openapi.json</a>, OpenAPI 3.1.</p>\n",
        text(&document["info"]["version"])
    );
    for tag in document["tags"].as_array().into_iter().flatten() {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "<h2>{}</h2>", text(&tag["name"]));
        for (path, methods) in document["paths"].as_object().into_iter().flatten() {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                if operation["tags"][0] == tag["name"] {
                    page += &details(path, method, operation);
                }
            }
        }
    }
    page += "<h2>schemas</h2>\n";
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        let _ = writeln!(
            page,
            "<details id=\"{0}\"><summary><code>{0}</code></summary><pre>{1}</pre></details>",
            escaped(name),
            escaped(&pretty(schema))
        );
    }
    page + "</html>\n"
}

fn details(path: &str, method: &str, operation: &Value) -> String {
    let mut shown = format!(
        "<details id=\"{}\"><summary><span class=\"method\">{}</span> <code>{}</code> {}</summary>\n",
        text(&operation["operationId"]),
        method.to_uppercase(),
        escaped(path),
        text(&operation["summary"])
    );
    let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
    if !parameters.is_empty() {
        shown += "<table><tr><th>parameter</th><th>in</th><th>what</th></tr>\n";
        for parameter in parameters {
            let schema = serde_json::to_string(&parameter["schema"]).unwrap_or_default();
            let _ = writeln!(
                shown,
                "<tr><td><code>{}</code></td><td>{}</td><td>{} <code>{}</code></td></tr>",
                text(&parameter["name"]),
                text(&parameter["in"]),
                text(&parameter["description"]),
                escaped(&schema)
            );
        }
        shown += "</table>\n";
    }
    for (media_type, content) in operation["requestBody"]["content"].as_object().into_iter().flatten() {
        let _ = writeln!(
            shown,
            "<p>Body, <code>{}</code>: {}</p>",
            escaped(media_type),
            type_of(&content["schema"])
        );
        if !content["example"].is_null() {
            let _ = writeln!(shown, "<pre>{}</pre>", escaped(&pretty(&content["example"])));
        }
    }
    shown += "<table><tr><th>status</th><th>what</th></tr>\n";
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let types: Vec<_> = response["content"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(media_type, content)| {
                format!("<code>{}</code> {}", escaped(media_type), type_of(&content["schema"]))
            })
            .collect();
        let about = text(&response["description"]);
        let _ = writeln!(shown, "<tr><td>{status}</td><td>{about}<br>{}</td></tr>", types.join("<br>"));
    }
    shown + "</table></details>\n"
}

/// A link to a schema that has a name, or the schema itself.
fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("<a href=\"#{0}\">{0}</a>", escaped(name));
    }
    match schema["anyOf"].as_array() {
        Some(any) => any.iter().map(type_of).collect::<Vec<_>>().join(" or "),
        None => format!("<code>{}</code>", escaped(&schema.to_string())),
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn text(value: &Value) -> String {
    escaped(value.as_str().unwrap_or_default())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
