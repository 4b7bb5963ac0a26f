//! The description of the API, which is made from the same table as the router.

use serde_json::Value;

use crate::support::fixture;

/// Every operation of the description, by method and path.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            operations.push((method.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    operations
}

#[tokio::test]
async fn the_description_is_served_as_json_and_as_a_page() {
    let f = fixture().await;
    let answer = f.get("/openapi.json").await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let document = answer.json();
    assert_eq!(document["openapi"], "3.1.0");
    let take = &document["paths"]["/v1/limits/{limit}/take"]["post"];
    assert_eq!(take["operationId"], "take");
    assert_eq!(take["requestBody"]["content"]["application/json"]["example"]["key"], "user_123");
    for status in ["200", "400", "404", "408", "413", "415", "429", "500", "503"] {
        assert!(take["responses"][status]["description"].is_string(), "{status}: {take}");
    }
    let page = f.get("/docs").await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    for (_, path, operation) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap();
        assert!(page.body.contains(&format!("id=\"{id}\"")), "{path}");
    }
    // It needs nothing from anywhere else, though examples name addresses.
    for outside in ["=http", "=\"http", "='http", "=\"//", "='//", "src=", "@import", "url("] {
        assert!(!page.body.contains(outside), "{outside}");
    }
}

/// Every operation is on the page about the API, by its method and its path.
#[tokio::test]
async fn the_guide_lists_every_operation() {
    let guide = include_str!("../../../../docs/http-api.md");
    let listed = listed(guide);
    let document = fixture().await.get("/openapi.json").await.json();
    let mut known = Vec::new();
    for (method, path, _) in operations(&document) {
        // Described once for all of them.
        if path.contains("/everyone") {
            continue;
        }
        assert!(listed.contains(&(method.clone(), path.clone())), "{method} {path} is not in the guide");
        known.push((method, path));
    }
    for row in &listed {
        assert!(known.contains(row), "{row:?} is in the guide and not in the table");
    }
}

/// Methods and paths of the table at the guide's beginning. `…` is what the path before it
/// has up to where this one goes on.
fn listed(guide: &str) -> Vec<(String, String)> {
    let mut listed = Vec::new();
    let table = guide.lines().skip_while(|line| !line.starts_with("| `"));
    for line in table.take_while(|line| line.starts_with("| `")) {
        let cell = line.split('|').nth(1).unwrap();
        let mut methods: Vec<String> = Vec::new();
        let mut before = String::new();
        for code in cell.split('`').skip(1).step_by(2) {
            let (method, path) = match code.split_once(' ') {
                Some((method, path)) => (Some(method), path),
                None if code.chars().all(|c| c.is_ascii_uppercase()) => {
                    methods.push(code.to_owned());
                    continue;
                }
                None => (None, code),
            };
            if let Some(method) = method {
                // `PUT`, `GET /path` are both of the path.
                methods.push(method.to_owned());
            }
            let path = path.split('?').next().unwrap();
            let whole = match path.strip_prefix('…') {
                Some(rest) => continued(&before, rest),
                None => path.to_owned(),
            };
            let of = if method.is_some() { std::mem::take(&mut methods) } else { vec!["GET".to_owned()] };
            listed.extend(of.into_iter().map(|method| (method, whole.clone())));
            before = whole;
        }
    }
    listed
}

fn continued(before: &str, rest: &str) -> String {
    let prefix = match rest {
        _ if before.starts_with("/v1/sessions") => "/v1/sessions/{space}",
        _ if rest.starts_with("/keys") || before.starts_with("/v1/limits") => "/v1/limits/{limit}",
        _ => "/v1/limits/{limit}/keys/{key}",
    };
    format!("{prefix}{rest}")
}

/// Every hour of every day that there is, and none that there is not.
#[tokio::test]
async fn hours_are_described_with_all_days_of_their_months() {
    let document = fixture().await.get("/openapi.json").await.json();
    let hour = &document["paths"]["/v1/runs/{space}/failures/{hour}"]["get"]["parameters"];
    let hour = hour.as_array().unwrap().iter().find(|it| it["name"] == "hour").unwrap();
    let check = r#"
import datetime, re, sys
pattern = re.compile(sys.argv[1])
for year in [*range(1970, 2110), 2200, 2400, 2800, 3000, 3200, 9996, 9999]:
    for month in range(0, 14):
        for day in range(0, 33):
            try:
                datetime.date(year, month, day)
                is_one = True
            except ValueError:
                is_one = False
            text = f"{year:04}-{month:02}-{day:02}_23"
            assert bool(pattern.search(text)) == is_one, text
for text in ["2024-09-17_24", "2024-09-17_1", "1969-12-31_23", "x2024-09-17_14", "2024-09-17_14x", "2024-9-17_14"]:
    assert not pattern.search(text), text
"#;
    let pattern = hour["schema"]["pattern"].as_str().unwrap();
    let python = std::process::Command::new("python3").args(["-c", check, pattern]).output().unwrap();
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
}
