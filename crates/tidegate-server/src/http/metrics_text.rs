//! `/metrics`: in the form that the client accepts. OpenMetrics for those who accept it, and the
//! text format that came before it, version 0.0.4, for everybody else.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::IntoResponse as _;
use schemars::SchemaGenerator;

use super::{AnswerShape, Call, Described, Result, Shapes};

const OPEN_METRICS: &str = "application/openmetrics-text";
const OPEN_METRICS_TYPE: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
const TEXT_TYPE: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// How long the rules' database may take to say where it stands.
const RULES_DEADLINE: Duration = Duration::from_secs(1);

/// Metrics in one of the two forms.
pub(super) struct Metrics;

impl Shapes for Metrics {
    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        ["text/plain", OPEN_METRICS]
            .map(|media_type| AnswerShape {
                status: StatusCode::OK,
                about: "metrics",
                body: Some((media_type, schemas.subschema_for::<String>())),
            })
            .into()
    }
}

pub(super) async fn metrics(call: Call) -> Result<Described<Metrics>> {
    if let Some(rules) = &call.app.parts().rules {
        // Asking notes where they stand. A database that is slow or away holds up nothing else that is told.
        let _ = tokio::time::timeout(RULES_DEADLINE, rules.truth.position()).await;
    }
    let text = call.app.metrics().text();
    let (media_type, text) = match wants_open_metrics(&call.headers) {
        true => (OPEN_METRICS_TYPE, text),
        false => (TEXT_TYPE, to_text(&text)),
    };
    let headers = [(header::CONTENT_TYPE, media_type), (header::VARY, HeaderValue::from_static("accept"))];
    Ok(Described::new((headers, text).into_response()))
}

/// Whether it is named, and not liked less than plain text.
fn wants_open_metrics(headers: &HeaderMap) -> bool {
    let (mut open, mut plain) = (0.0_f32, 0.0_f32);
    for value in headers.get_all(header::ACCEPT) {
        for range in value.to_str().unwrap_or_default().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let quality = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
            let quality = quality.map_or(Some(1.0), |quality| quality.trim().parse().ok()).unwrap_or(0.0);
            if name.eq_ignore_ascii_case(OPEN_METRICS) {
                open = open.max(quality);
            } else if name.eq_ignore_ascii_case("text/plain") {
                plain = plain.max(quality);
            }
        }
    }
    open > 0.0 && open >= plain
}

/// OpenMetrics, as the text format has it. There a metric is called what its samples are called,
/// a counter with its `_total`; units and the end are left out.
fn to_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    // HELP comes before TYPE, and only TYPE says what both are called.
    let mut help = None;
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), about) => help = Some((name, about.unwrap_or_default())),
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", kind),
                    "info" => ("_info", "gauge"),
                    "unknown" => ("", "untyped"),
                    _ => ("", kind),
                };
                if let Some((_, about)) = help.take().filter(|(helped, _)| *helped == name) {
                    text.push_str(&format!("# HELP {name}{suffix} {}\n", about.replace("\\\"", "\"")));
                }
                text.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
            }
            (Some("#"), ..) => {}
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_names_open_metrics_gets_it() {
        for (accept, expected) in [
            ("application/openmetrics-text", true),
            ("application/openmetrics-text; version=1.0.0; charset=utf-8", true),
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                 text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                true,
            ),
            ("text/plain;version=0.0.4;q=0.3, Application/OpenMetrics-Text;q=0.6", true),
            ("text/plain, application/openmetrics-text;q=0.5", false),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=nonsense", false),
            ("*/*", false),
            ("text/html,application/xhtml+xml,*/*;q=0.8", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(wants_open_metrics(&headers), expected, "{accept}");
        }
        assert!(!wants_open_metrics(&HeaderMap::new()));
    }

    #[test]
    fn a_counter_is_called_what_its_samples_are() {
        let open = "# HELP a Some \\\"quoted\\\" help.\n# TYPE a counter\n# UNIT a seconds\na_total{b=\"# c\"} 1\n\
                    # HELP d D.\n# TYPE d gauge\nd 2\n# HELP e E.\n# TYPE e info\ne_info{v=\"1\"} 1\n# EOF\n";
        let text = "# HELP a_total Some \"quoted\" help.\n# TYPE a_total counter\na_total{b=\"# c\"} 1\n\
                    # HELP d D.\n# TYPE d gauge\nd 2\n# HELP e_info E.\n# TYPE e_info gauge\ne_info{v=\"1\"} 1\n";
        assert_eq!(to_text(open), text);
    }
}
