//! Rules over HTTP: each operation, each refusal, conditions and their races, any text as an id, many at once.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate::Tidegate;
use tidegate::clock::ManualClock;
use tidegate_server::http::{App, router};
use tidegate_server::parts::Parts;
use tower_service::Service as _;

use crate::cli::{Server, run, tidegate};
use crate::support::{Answer, START, bulk, fixture, send, settings, soon};

/// An app with rules in a file, on a clock that a test moves.
pub(crate) struct World {
    pub(crate) app: App,
    router: Router,
    pub(crate) clock: ManualClock,
    folder: TempDir,
}

pub(crate) async fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let (app, clock) = open(&folder).await;
    World { router: router(app.clone()), app, clock, folder }
}

async fn open(folder: &TempDir) -> (App, ManualClock) {
    let clock = ManualClock::at(START);
    let url = format!("url=sqlite:{}", folder.path().join("rules.db").display());
    let mut settings = settings("rules", &[&url]);
    settings.rules.as_mut().unwrap().options.clock = clock.clone().into();
    let gate = Tidegate::open("memory:").await.unwrap();
    let parts =
        Parts::open(gate, &settings.parts).unwrap().with_rules(settings.rules.as_ref()).await.unwrap();
    (App::new(parts), clock)
}

impl World {
    pub(crate) async fn call(&self, method: &str, path: &str, body: &str) -> Answer {
        self.call_if(method, path, body, &[]).await
    }

    /// With these fields.
    pub(crate) async fn call_if(
        &self,
        method: &str,
        path: &str,
        body: &str,
        fields: &[(&str, &str)],
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        send(self.router.clone(), request.body(Body::from(body.to_owned())).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, "").await
    }

    /// A rule that can be made.
    pub(crate) async fn add(&self, rule: Value) -> Value {
        let made = self.call("POST", "/v1/rules", &rule.to_string()).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
        made.json()
    }

    /// The ids of a list, page by page.
    async fn ids(&self, query: &str, limit: usize) -> Vec<String> {
        let (mut ids, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.get(&format!("/v1/rules?limit={limit}{query}{cursor}")).await.json();
            let rules = page["rules"].as_array().unwrap();
            assert!(rules.len() <= limit);
            ids.extend(rules.iter().map(|rule| rule["id"].as_str().unwrap().to_owned()));
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return ids,
            }
        }
    }
}

#[track_caller]
pub(crate) fn refused(answer: &Answer, status: u16, kind: &str, members: Value) {
    let body = answer.json();
    assert_eq!(answer.status.as_u16(), status, "{body}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(body["type"], format!("urn:tidegate:problem:{kind}"), "{body}");
    for (name, value) in members.as_object().unwrap() {
        assert_eq!(&body[name], value, "{name}: {body}");
    }
}

#[tokio::test]
async fn a_rule_from_its_making_to_its_end() {
    let w = world().await;
    refused(&w.get("/v1/rules/manual").await, 404, "rule-unknown", json!({"refusal": "unknown"}));
    let draft = json!({"id": "manual", "host": "WWW.Example.com", "path": "/%64ocs/*", "destination": "https://example.org/"});
    let made = w.call("POST", "/v1/rules", &draft.to_string()).await;
    let at = START.as_millis();
    let rule = json!({"id": "manual", "host": "www.example.com", "path": "/docs/*", "destination": "https://example.org/",
        "code": 302, "appendRest": false, "query": "off", "enabled": true, "clicks": 0, "version": 1, "createdAt": at,
        "updatedAt": at});
    assert_eq!(
        (made.status, made.json()),
        (StatusCode::CREATED, json!({"rule": rule, "seq": 1, "warnings": []}))
    );
    assert_eq!(made.header("etag"), Some("\"1\""));
    w.clock.advance_ms(5);
    let again = w.call("POST", "/v1/rules", &draft.to_string()).await;
    assert_eq!(
        (again.status, &again.json()["seq"]),
        (StatusCode::OK, &Value::Null),
        "sent twice it is made once"
    );
    let found = w.get("/v1/rules/manual").await;
    assert_eq!(
        (found.status, found.json(), found.header("etag")),
        (StatusCode::OK, rule.clone(), Some("\"1\""))
    );

    // What was read can be sent back, with some of it changed.
    let mut other = rule.clone();
    other["destination"] = json!("https://example.net/");
    let put = w.call_if("PUT", "/v1/rules/manual", &other.to_string(), &[("if-match", "\"1\"")]).await;
    assert_eq!(
        (put.status, put.header("etag"), &put.json()["seq"]),
        (StatusCode::OK, Some("\"2\""), &json!(2))
    );
    let put = put.json()["rule"].clone();
    assert_eq!(
        (&put["destination"], &put["createdAt"], &put["updatedAt"]),
        (&other["destination"], &json!(at), &json!(at + 5))
    );

    let patch = r#"{"code":308,"maxClicks":9,"tags":["b","a","b"],"note":"n"}"#;
    let patched = w.call("PATCH", "/v1/rules/manual", patch).await;
    assert_eq!((patched.status, patched.header("etag")), (StatusCode::OK, Some("\"3\"")));
    let warning = "it can end, so it is sent as a temporary redirect (302 or 307)";
    assert_eq!(patched.json()["warnings"], json!([warning]));
    let patched = patched.json()["rule"].clone();
    assert_eq!(
        (&patched["code"], &patched["maxClicks"], &patched["tags"]),
        (&json!(308), &json!(9), &json!(["a", "b"]))
    );
    let patched =
        w.call("PATCH", "/v1/rules/manual", r#"{"maxClicks":null,"tags":null,"code":null}"#).await.json();
    assert_eq!((patched["rule"].get("maxClicks"), patched["rule"].get("tags")), (None, None));
    assert_eq!((&patched["rule"]["code"], &patched["rule"]["note"]), (&json!(302), &json!("n")));
    let media_type = [("content-type", "application/merge-patch+json")];
    assert_eq!(w.call_if("PATCH", "/v1/rules/manual", "{}", &media_type).await.json()["seq"], Value::Null);

    let position = w.get("/v1/rules/position").await.json();
    assert_eq!(
        (&position["seq"], &position["count"], &position["time"]),
        (&json!(4), &json!(1), &json!(at + 5))
    );
    assert_eq!(
        (position["epoch"].as_str().unwrap().len(), position["digest"].as_str().unwrap().len()),
        (16, 32)
    );

    let deleted = w.call("DELETE", "/v1/rules/manual", "").await;
    assert_eq!((deleted.status, &*deleted.body), (StatusCode::NO_CONTENT, ""));
    refused(&w.call("DELETE", "/v1/rules/manual", "").await, 404, "rule-unknown", json!({}));
    refused(&w.call("PATCH", "/v1/rules/manual", "{}").await, 404, "rule-unknown", json!({}));
    let position = w.get("/v1/rules/position").await.json();
    assert_eq!(
        (&position["seq"], &position["count"], &position["digest"]),
        (&json!(5), &json!(0), &json!("0".repeat(32)))
    );
}

#[tokio::test]
async fn an_id_and_a_path_are_made_unless_given() {
    let w = world().await;
    let made = w.add(json!({"destination": "https://example.com/long"})).await;
    let id = made["rule"]["id"].as_str().unwrap();
    assert!(id.len() == 7 && id.bytes().all(|it| it.is_ascii_alphanumeric()), "{id}");
    assert_eq!((&made["rule"]["path"], &made["rule"]["host"]), (&json!(format!("/{id}")), &json!("*")));
    let made = w.add(json!({"path": "/a", "destination": "/b"})).await;
    assert_eq!((made["rule"]["id"].as_str().unwrap().len(), &made["rule"]["path"]), (7, &json!("/a")));
    let put = w.call("PUT", "/v1/rules/new", r#"{"path":"/new","destination":"/b"}"#).await;
    assert_eq!((put.status, put.header("etag")), (StatusCode::CREATED, Some("\"1\"")));
}

#[tokio::test]
async fn what_is_in_the_way_is_named() {
    let w = world().await;
    w.add(json!({"id": "a", "path": "/a", "destination": "/x"})).await;
    w.add(json!({"id": "b", "path": "/b", "destination": "/x"})).await;
    let taken = json!({"refusal": "path_taken", "by": "a"});
    let create = w.call("POST", "/v1/rules", r#"{"id":"c","path":"/./a","destination":"/y"}"#).await;
    refused(&create, 409, "rule-path-taken", taken.clone());
    let put = w.call("PUT", "/v1/rules/b", r#"{"path":"/a","destination":"/y"}"#).await;
    refused(&put, 409, "rule-path-taken", taken.clone());
    refused(&w.call("PATCH", "/v1/rules/b", r#"{"path":"/a"}"#).await, 409, "rule-path-taken", taken);
    let exists = w.call("POST", "/v1/rules", r#"{"id":"a","path":"/c","destination":"/y"}"#).await;
    refused(&exists, 409, "rule-exists", json!({"refusal": "exists"}));
    assert_eq!(w.get("/v1/rules/position").await.json()["seq"], 2);
}

#[tokio::test]
async fn a_condition_that_is_not_so_is_a_412_with_the_version() {
    let w = world().await;
    let rule = |destination: &str| json!({"path": "/a", "destination": destination}).to_string();
    let put = async |destination: &str, field: (&str, &str)| {
        w.call_if("PUT", "/v1/rules/a", &rule(destination), &[field]).await
    };
    for (on, refusal) in [(("if-match", "*"), "unknown"), (("if-match", "\"1\""), "unknown")] {
        let absent = put("/x", on).await;
        refused(&absent, 412, "rule-changed", json!({"refusal": refusal, "version": null}));
    }
    assert_eq!(put("/x", ("if-none-match", "*")).await.status, StatusCode::CREATED);
    assert_eq!(put("/x", ("if-none-match", "*")).await.status, StatusCode::OK, "its answer was lost");
    let exists = put("/y", ("if-none-match", "*")).await;
    refused(&exists, 412, "rule-changed", json!({"refusal": "exists", "version": 1}));
    assert_eq!(put("/y", ("if-match", "*")).await.header("etag"), Some("\"2\""));
    assert_eq!(put("/y", ("if-match", "\"1\"")).await.header("etag"), Some("\"2\""), "its answer was lost");
    let changed = json!({"refusal": "changed", "version": 2});
    for version in ["\"1\"", "\"3\"", "\"9007199254740991\""] {
        refused(&put("/z", ("if-match", version)).await, 412, "rule-changed", changed.clone());
    }
    let stale = [("if-match", "\"1\"")];
    refused(
        &w.call_if("PATCH", "/v1/rules/a", r#"{"note":"x"}"#, &stale).await,
        412,
        "rule-changed",
        changed.clone(),
    );
    refused(&w.call_if("DELETE", "/v1/rules/a", "", &stale).await, 412, "rule-changed", changed);
    let gone = json!({"refusal": "unknown", "version": null});
    for (method, body) in [("DELETE", ""), ("PATCH", r#"{"note":"x"}"#)] {
        for on in [("if-match", "\"1\""), ("if-match", "*")] {
            refused(&w.call_if(method, "/v1/rules/b", body, &[on]).await, 412, "rule-changed", gone.clone());
        }
        refused(&w.call(method, "/v1/rules/b", body).await, 404, "rule-unknown", json!({}));
    }
    for (name, value) in [
        ("if-match", "2"),
        ("if-match", "W/\"2\""),
        ("if-match", "\"18446744073709551615\""),
        ("if-none-match", "\"2\""),
    ] {
        refused(&put("/z", (name, value)).await, 400, "invalid-request", json!({}));
    }
    assert_eq!(
        w.call_if("DELETE", "/v1/rules/a", "", &[("if-match", "\"2\"")]).await.status,
        StatusCode::NO_CONTENT
    );
    let again = w.call_if("DELETE", "/v1/rules/a", "", &[("if-match", "\"2\"")]).await;
    refused(&again, 412, "rule-changed", gone);
}

/// However many read the same version, one of them changes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_those_with_the_same_version_one_wins() {
    let w = world().await;
    w.add(json!({"id": "a", "path": "/a", "destination": "/0"})).await;
    for version in 1..20 {
        let tag = format!("\"{version}\"");
        let fields = [("if-match", &*tag)];
        let change = async |number: usize| {
            let to = format!("/{version}/{number}");
            let answer = match number % 2 {
                0 => {
                    w.call_if("PATCH", "/v1/rules/a", &json!({"destination": to}).to_string(), &fields).await
                }
                _ => {
                    let rule = json!({"path": "/a", "destination": to}).to_string();
                    w.call_if("PUT", "/v1/rules/a", &rule, &fields).await
                }
            };
            (answer, to)
        };
        let answers = join_all((0..8).map(change)).await;
        let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|(it, _)| it.status == StatusCode::OK);
        assert_eq!(won.len(), 1, "{answers:?}");
        for (answer, _) in lost {
            refused(answer, 412, "rule-changed", json!({"version": version + 1}));
        }
        assert_eq!(w.get("/v1/rules/a").await.json()["destination"], won[0].1);
    }
}

#[tokio::test]
async fn any_text_is_an_id() {
    let w = world().await;
    let long = "ü".repeat(64);
    let ids = [
        ("a/b", "a%2Fb"),
        ("größe/👍", "gr%C3%B6%C3%9Fe%2F%F0%9F%91%8D"),
        ("100%", "100%25"),
        ("a%2Fb", "a%252Fb"),
        ("..", "%2E%2E"),
        (".", "%2E"),
        ("a b+c?d#e", "a%20b+c%3Fd%23e"),
        ("'; DROP TABLE rules; --", "%27%3B%20DROP%20TABLE%20rules%3B%20--"),
        ("null", "null"),
        // Words of ours, with a letter escaped.
        ("bulk", "%62ulk"),
        ("resolve", "%72esolve"),
        ("position", "%70osition"),
        (&long, &"%C3%BC".repeat(64)),
    ];
    for (number, (id, path)) in ids.into_iter().enumerate() {
        let path = format!("/v1/rules/{path}");
        let rule = json!({"path": format!("/{number}"), "destination": "/x"});
        let put = w.call("PUT", &path, &rule.to_string()).await;
        assert_eq!((put.status, &put.json()["rule"]["id"]), (StatusCode::CREATED, &json!(id)), "{path}");
        assert_eq!(w.get(&path).await.json()["id"], id, "{path}");
        assert_eq!(w.call("PATCH", &path, r#"{"note":"x"}"#).await.json()["rule"]["version"], 2, "{path}");
    }
    assert_eq!(w.ids("", 3).await.len(), ids.len());
    for (_, path) in ids {
        assert_eq!(
            w.call("DELETE", &format!("/v1/rules/{path}"), "").await.status,
            StatusCode::NO_CONTENT,
            "{path}"
        );
    }
    let too_long = format!("/v1/rules/{}", "x".repeat(129));
    for method in ["GET", "DELETE"] {
        let detail = json!({"detail": "a rule's id has 129 bytes: 1 to 128 are allowed"});
        refused(&w.call(method, &too_long, "").await, 400, "invalid-request", detail);
        let detail = json!({"detail": "a rule's id must not be empty: 1 to 128 bytes are allowed"});
        refused(&w.call(method, "/v1/rules/", "").await, 400, "invalid-request", detail);
    }
    let control = w.call("PUT", "/v1/rules/a%0Ab", r#"{"path":"/a","destination":"/x"}"#).await;
    refused(&control, 400, "invalid-request", json!({"field": "id"}));
}

#[tokio::test]
async fn rules_are_listed_by_what_they_have() {
    let w = world().await;
    for number in 0..12 {
        let host = ["*", "a.example", "*.b.example"][number % 3];
        w.add(
            json!({"id": format!("{number:02}"), "host": host, "path": format!("/{}/{number}", number % 2),
            "destination": format!("https://{}.example/", number % 4), "tags": [format!("t{}", number % 6)],
            "enabled": number != 5, "expiresAt": START.as_millis() + 10 + number as u64}),
        )
        .await;
    }
    w.clock.advance_ms(13);
    let numbers =
        |is: fn(usize) -> bool| (0..12).filter(|it| is(*it)).map(|it| format!("{it:02}")).collect::<Vec<_>>();
    for (query, is) in [
        ("", (|_| true) as fn(usize) -> bool),
        ("&host=A.Example.", |it| it % 3 == 1),
        ("&host=*.b.example", |it| it % 3 == 2),
        ("&host=*", |it| it % 3 == 0),
        ("&path=/1", |it| it % 2 == 1),
        ("&path=/%2530/", |it| it % 2 == 0),
        ("&tag=t4", |it| it % 6 == 4),
        ("&destination=https://2.", |it| it % 4 == 2),
        ("&state=disabled", |it| it == 5),
        ("&state=ended", |it| it < 3),
        ("&state=live", |it| it >= 3 && it != 5),
        ("&state=live&path=/0&host=*", |it| it == 6),
        ("&state=scheduled", |_| false),
    ] {
        for limit in [1, 5, 1000] {
            let mut ids = w.ids(query, limit).await;
            ids.sort();
            assert_eq!(ids, numbers(is), "{query} {limit}");
        }
    }
    let next = w.get("/v1/rules?limit=1").await.json()["next"].as_str().unwrap().to_owned();
    for (query, detail) in [
        (format!("cursor={next}&host=*"), "`cursor`: the cursor is of a list by something else"),
        ("cursor=7b7d".into(), "`cursor`: \"7b7d\" is no cursor: only what a page has answered is"),
        ("cursor=".into(), "`cursor`: \"\" is no cursor"),
        ("limit=0".into(), "`limit`: \"0\" is not allowed: whole numbers from 1 to 1000 are"),
        ("limit=1001".into(), "`limit`: \"1001\" is not allowed"),
        ("state=over".into(), "`state`: \"over\" is not allowed: live, scheduled, ended, disabled are"),
        ("host=a%20b".into(), "`host`: \"a b\" is not allowed: example.com, *.example.com"),
        ("tag=a%00".into(), "`tag`: a NUL is not allowed"),
        ("path=docs".into(), "`path`: \"docs\" does not start with /"),
        ("prefix=/".into(), "unknown parameter \"prefix\"; known are: path, host, tag"),
    ] {
        let answer = w.get(&format!("/v1/rules?{query}")).await;
        refused(&answer, 400, "invalid-request", json!({}));
        let given = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(given.contains(detail), "{given:?} does not contain {detail:?}");
    }
}

/// Somebody has put back a backup, and says so.
#[tokio::test]
async fn a_new_epoch_changes_nothing_else() {
    let w = world().await;
    w.add(json!({"id": "a", "path": "/a", "destination": "/x"})).await;
    let before = w.get("/v1/rules/position").await.json();
    let after = w.call("POST", "/v1/rules/new_epoch", "").await.json();
    assert_ne!(before["epoch"], after["epoch"]);
    for same in ["seq", "count", "digest", "time"] {
        assert_eq!(before[same], after[same], "{same}");
    }
    assert_eq!(w.get("/v1/rules/position").await.json(), after);
}

#[tokio::test]
async fn what_answers_a_request_is_told_with_what_is_sent() {
    let w = world().await;
    w.add(json!({"id": "docs", "host": "*.example.com", "path": "/docs/*", "destination": "https://example.org/d?a=1",
        "appendRest": true, "query": "merge", "code": 301, "maxAge": 60})).await;
    let at = START.as_millis();
    w.add(json!({"id": "sale", "path": "/sale", "destination": "/x", "expiresAt": at + 10, "fallback": "/over"})).await;
    w.add(json!({"id": "gone", "path": "/gone", "destination": "/x", "code": 308, "expiresAt": at + 10}))
        .await;
    let resolve = async |query: &str| w.get(&format!("/v1/rules/resolve?{query}")).await.json();
    let docs = resolve("host=WWW.example.com:8080&path=/a/../docs/%2573tart&query=a%3D2").await;
    let sent =
        json!({"status": 301, "location": "https://example.org/d/start?a=2", "cacheControl": "max-age=60"});
    assert_eq!((&docs["rule"]["id"], &docs["answer"]), (&json!("docs"), &sent));
    assert_eq!((&docs["host"], &docs["path"]), (&json!("www.example.com"), &json!("/docs/start")));
    let epoch = w.get("/v1/rules/position").await.json()["epoch"].as_str().unwrap().to_owned();
    assert_eq!((&docs["watermark"], &docs["time"]), (&json!(format!("{epoch}:3")), &json!(at)));
    let gone = resolve("host=a&path=/gone").await;
    assert_eq!(gone["answer"], json!({"status": 307, "location": "/x", "cacheControl": "no-store"}));
    w.clock.advance_ms(11);
    let sale = resolve("host=a&path=/sale").await;
    assert_eq!(sale["answer"], json!({"status": 302, "location": "/over", "cacheControl": "no-store"}));
    let gone = resolve("host=a&path=/gone").await;
    assert_eq!((&gone["rule"]["id"], &gone["answer"]["status"]), (&json!("gone"), &json!(410)));
    let none = resolve("host=a&path=/docs").await;
    assert_eq!((&none["rule"], &none["answer"]), (&Value::Null, &Value::Null));
    for (query, detail) in [
        ("path=/", "the parameter `host` is missing"),
        ("host=a", "the parameter `path` is missing"),
        ("host=a%20b&path=/", "`host`: \"a b\" is no host"),
        ("host=a&path=x", "`path`: \"x\" does not start with /"),
        ("host=a&path=/x%3Fy", "`path`: '?' ends a path: what is behind it is the parameter `query`"),
    ] {
        let answer = w.get(&format!("/v1/rules/resolve?{query}")).await;
        refused(&answer, 400, "invalid-request", json!({}));
        assert!(
            answer.body.contains(&serde_json::to_string(detail).unwrap().trim_matches('"').to_owned()),
            "{}",
            answer.body
        );
    }
}

#[tokio::test]
async fn wrong_rules_are_refused_with_what_is_allowed() {
    let w = world().await;
    let long = format!(r#"{{"path":"/{}","destination":"/x"}}"#, "a".repeat(2048));
    for (body, detail) in [
        ("", "EOF while parsing a value"),
        ("[]", "the body is an array: an object is expected"),
        ("7", "invalid type: integer `7`, expected an object with the members of a rule"),
        (r#"{"path":"/a"}"#, "missing field `destination`"),
        (r#"{"id":"a","destination":"/x"}"#, "missing field `path`: it is only made together with an id"),
        (r#"{"path":"","destination":"/x"}"#, "path: \"\" does not start with /"),
        (r#"{"id":"","path":"/a","destination":"/x"}"#, "id: it is empty; leave it out to have one made"),
        (r#"{"pth":"/a","destination":"/x"}"#, "unknown field `pth`, expected one of `id`, `host`, `path`"),
        (r#"{"path":"/a","destination":"/x","starts_at":1}"#, "unknown field `starts_at`"),
        (r#"{"path":"/a","path":"/b","destination":"/x"}"#, "duplicate field `path`"),
        (r#"{"path":"docs","destination":"/x"}"#, "path: \"docs\" does not start with /"),
        (r#"{"path":"/a*b","destination":"/x"}"#, "path: \"/a*b\" is not allowed: * only stands at the end"),
        (&long, "path: "),
        (
            r#"{"path":"/a","destination":"javascript:alert(1)"}"#,
            "destination: \"javascript:alert(1)\" is a \"javascript\" address",
        ),
        (r#"{"path":"/a","destination":"//evil.example"}"#, "has no scheme"),
        (r#"{"path":"/a","destination":"/a"}"#, "a request would be sent back to it for ever"),
        (r#"{"path":"/a","destination":"/x\r\ny"}"#, "destination: "),
        (r#"{"host":"a b","path":"/a","destination":"/x"}"#, "host: \"a b\" is not allowed"),
        (
            r#"{"path":"/a","destination":"/x","code":303}"#,
            "the code 303 is not allowed: 301, 302, 307 and 308 are",
        ),
        (r#"{"path":"/a","destination":"/x","code":70000}"#, "the code 70000 is not allowed"),
        (r#"{"path":"/a","destination":"/x","code":"301"}"#, "invalid type: string \"301\""),
        (r#"{"path":"/a","destination":"/x","expiresAt":-1}"#, "invalid value: integer `-1`"),
        (r#"{"path":"/a","destination":"/x","expiresAt":1.5}"#, "invalid type: floating point `1.5`"),
        (r#"{"path":"/a","destination":"/x","expiresAt":9007199254740992}"#, "expiresAt: it is too large"),
        (
            r#"{"path":"/a","destination":"/x","startsAt":2,"expiresAt":1}"#,
            "expiresAt: 1 is before startsAt, 2",
        ),
        (r#"{"path":"/a","destination":"/x","maxClicks":0}"#, "maxClicks: 0 would never redirect"),
        (r#"{"path":"/a","destination":"/x","maxAge":31622401}"#, "maxAge: 31622401 seconds are too many"),
        (
            r#"{"path":"/a","destination":"/x","maxAge":4294967296}"#,
            "maxAge: 4294967296 seconds are too many",
        ),
        (r#"{"path":"/a","destination":"/x","fallback":"/y"}"#, "fallback: the rule cannot end"),
        (r#"{"path":"/a","destination":"/x","appendRest":true}"#, "appendRest: "),
        (
            r#"{"path":"/a","destination":"/x","query":"drop"}"#,
            "unknown variant `drop`, expected one of `off`, `append`, `merge`",
        ),
        (r#"{"path":"/a","destination":"/x","tags":[""]}"#, "tags: one is empty"),
        (r#"{"path":"/a","destination":"/x","note":"\u0000"}"#, "note: the control character"),
    ] {
        for (method, path) in [("POST", "/v1/rules"), ("PUT", "/v1/rules/put")] {
            // What an id says of itself is another matter there.
            if method == "PUT" && body.contains("\"id\"") {
                continue;
            }
            let answer = w.call(method, path, body).await;
            refused(&answer, 400, "invalid-request", json!({}));
            let given = answer.json()["detail"].as_str().unwrap().to_owned();
            assert!(given.contains(detail), "{method} {body}: {given:?} does not contain {detail:?}");
        }
    }
    for (body, detail) in [
        (r#"{"destination":"/x"}"#, "missing field `path`"),
        (
            r#"{"id":"other","path":"/a","destination":"/x"}"#,
            "`id`: \"other\" is another rule than that of the path",
        ),
    ] {
        let answer = w.call("PUT", "/v1/rules/put", body).await;
        refused(&answer, 400, "invalid-request", json!({}));
        assert!(answer.json()["detail"].as_str().unwrap().contains(detail), "{}", answer.body);
    }
    w.add(json!({"id": "a", "path": "/a", "destination": "/x"})).await;
    for (body, detail) in [
        (r#"{"id":"b"}"#, "unknown field `id`"),
        (r#"{"version":2}"#, "unknown field `version`"),
        (r#"{"path":null}"#, "invalid type: null, expected a string"),
        (r#"{"destination":null}"#, "invalid type: null, expected a string"),
        (r#"{"code":303}"#, "the code 303 is not allowed"),
        (r#"{"destination":"/a"}"#, "a request would be sent back to it for ever"),
        (r#"{"maxClicks":0}"#, "maxClicks: 0 would never redirect"),
        ("[]", "the body is an array"),
    ] {
        let answer = w.call("PATCH", "/v1/rules/a", body).await;
        refused(&answer, 400, "invalid-request", json!({}));
        let given = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(given.contains(detail), "{body}: {given:?} does not contain {detail:?}");
    }
    let answer = w.call("POST", "/v1/rules", r#"{"path":"/b","destination":"ftp://a"}"#).await;
    refused(&answer, 400, "invalid-request", json!({"field": "destination"}));
    let whole = w
        .call("POST", "/v1/rules", r#"{"path":"/w","destination":"/x","expiresAt":5.0,"code":3.01e2}"#)
        .await;
    assert_eq!((&whole.json()["rule"]["expiresAt"], &whole.json()["rule"]["code"]), (&json!(5), &json!(301)));
    assert_eq!(w.get("/v1/rules/position").await.json()["seq"], 2, "nothing else was written");
}

#[tokio::test]
async fn many_are_changed_at_once_and_a_refused_one_fails_no_other() {
    let w = world().await;
    w.add(json!({"id": "a", "path": "/a", "destination": "/x"})).await;
    w.add(json!({"id": "b", "path": "/b", "destination": "/x"})).await;
    let changes = json!([
        {"upsert": {"id": "a", "path": "/a", "destination": "/y"}},
        {"upsert": {"id": "b", "path": "/b", "destination": "/x"}},
        {"upsert": {"destination": "https://example.com/short", "expiresAt": 1}},
        {"upsert": {"id": "c", "path": "/a", "destination": "/x"}},
        {"upsert": {"id": "c", "path": "/c", "destination": "/x"}, "version": 1},
        {"delete": "none"},
        {"upsert": {"id": "d"}},
        ["a"],
        {"upsert": {"path": "/e", "destination": "/x"}, "delete": "a"},
        {"delete": "b", "version": 7},
        {"delete": "b", "version": 1},
        // The same rules again: in the order in which they were sent.
        {"upsert": {"id": "b", "path": "/c", "destination": "/x"}},
        {"delete": "a", "version": 2},
    ]);
    let answer = w.call("POST", "/v1/rules/bulk", &changes.to_string()).await;
    assert_eq!(answer.status, StatusCode::MULTI_STATUS, "{}", answer.body);
    let all = answer.json();
    let outcomes: Vec<_> = all["outcomes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            let word = it["refusal"].as_str().unwrap_or(it["outcome"].as_str().unwrap());
            (it["line"].as_u64().unwrap(), word, it["seq"].as_u64())
        })
        .collect();
    let expected = [
        (1, "updated", Some(3)),
        (2, "unchanged", None),
        (3, "created", Some(4)),
        (4, "path_taken", None),
        (5, "unknown", None),
        (6, "unknown", None),
        (7, "invalid", None),
        (8, "invalid", None),
        (9, "invalid", None),
        (10, "changed", None),
        (11, "deleted", Some(5)),
        (12, "created", Some(6)),
        (13, "deleted", Some(7)),
    ];
    assert_eq!(outcomes, expected, "{all:#}");
    let counts =
        ["created", "updated", "deleted", "unchanged", "refused"].map(|name| all[name].as_u64().unwrap());
    assert_eq!(counts, [2, 1, 2, 1, 7]);
    assert_eq!(all["outcomes"][2]["warnings"], json!(["expiresAt is in the past: it has ended already"]));
    assert_eq!((&all["outcomes"][0]["id"], &all["outcomes"][0]["version"]), (&json!("a"), &json!(2)));
    let taken = "the rule \"a\" is for that host and path already";
    assert_eq!((&all["outcomes"][3]["id"], &all["outcomes"][3]["detail"]), (&json!("c"), &json!(taken)));
    let short = all["outcomes"][2]["id"].as_str().unwrap();
    let mut left = w.ids("", 10).await;
    left.sort();
    let mut expected = ["b".to_owned(), short.to_owned()];
    expected.sort();
    assert_eq!(left, expected);
}

#[tokio::test]
async fn many_come_as_lines_too_and_are_bounded() {
    let w = world().await;
    let lines: String = (0..1000)
        .map(|number| {
            format!("{{\"upsert\":{{\"id\":\"{number}\",\"path\":\"/{number}\",\"destination\":\"/x\"}}}}\n")
        })
        .collect();
    let answer = bulk(&w.app, "/v1/rules/bulk", lines.clone()).await;
    assert_eq!((answer.status, &answer.json()["created"]), (StatusCode::OK, &json!(1000)), "{}", answer.body);
    let answer = bulk(&w.app, "/v1/rules/bulk", lines.clone()).await;
    assert_eq!((answer.status, &answer.json()["unchanged"]), (StatusCode::OK, &json!(1000)), "sent twice");
    let answer =
        bulk(&w.app, "/v1/rules/bulk", "\n{\"delete\":\"1\"}\r\nnonsense\n\n{\"delete\":\"2\"}").await;
    assert_eq!(answer.status, StatusCode::MULTI_STATUS);
    let outcomes = answer.json()["outcomes"].clone();
    let said: Vec<_> = (0..3)
        .map(|at| (outcomes[at]["line"].as_u64().unwrap(), outcomes[at]["outcome"].as_str().unwrap()))
        .collect();
    assert_eq!(said, [(2, "deleted"), (3, "refused"), (5, "deleted")]);
    assert_eq!(outcomes[1]["detail"], "expected ident at column 2");
    assert_eq!(w.get("/v1/rules/position").await.json()["count"], 998);

    let too_many = bulk(&w.app, "/v1/rules/bulk", format!("{lines}{{\"delete\":\"1\"}}")).await;
    let detail = json!({"detail": "1001 changes at once are not allowed: up to 1000 are"});
    refused(&too_many, 400, "invalid-request", detail);
    let too_long = bulk(&w.app, "/v1/rules/bulk", vec![b' '; (4 << 20) + 1]).await;
    refused(&too_long, 413, "body-too-large", json!({}));
    for body in ["", "{}", "7", "[{]"] {
        refused(&w.call("POST", "/v1/rules/bulk", body).await, 400, "invalid-request", json!({}));
    }
    let typed = [("content-type", "text/csv")];
    let answer = w.call_if("POST", "/v1/rules/bulk", "[]", &typed).await;
    refused(&answer, 415, "unsupported-media-type", json!({}));
    let none = w.call("POST", "/v1/rules/bulk", "[]").await;
    assert_eq!((none.status, &none.json()["outcomes"]), (StatusCode::OK, &json!([])));
    assert_eq!(w.get("/v1/rules/position").await.json()["seq"], 1002);
}

#[tokio::test]
async fn a_server_without_rules_says_how_to_have_them() {
    let f = fixture().await;
    for (method, path, body) in [
        ("POST", "/v1/rules", r#"{"destination":"/x"}"#),
        ("GET", "/v1/rules", ""),
        ("GET", "/v1/rules/a", ""),
        ("PUT", "/v1/rules/a", r#"{"path":"/a","destination":"/x"}"#),
        ("PATCH", "/v1/rules/a", "{}"),
        ("DELETE", "/v1/rules/a", ""),
        ("GET", "/v1/rules/", ""),
        ("POST", "/v1/rules/bulk", "[]"),
        ("GET", "/v1/rules/resolve?host=a&path=/", ""),
        ("GET", "/v1/rules/position", ""),
        ("POST", "/v1/rules/new_epoch", ""),
    ] {
        let detail =
            "this server has no rules, it is started without: --rules sqlite:FILE says where they are";
        refused(&f.call(method, path, body).await, 404, "no-rules", json!({"detail": detail}));
    }
    assert!(!f.get("/metrics").await.body.contains("tidegate_rules"));
}

#[tokio::test]
async fn changes_are_counted_by_what_became_of_them() {
    let w = world().await;
    w.add(json!({"id": "a", "path": "/a", "destination": "/x"})).await;
    w.add(json!({"id": "b", "path": "/b", "destination": "/x"})).await;
    w.call("PATCH", "/v1/rules/a", r#"{"note":"x"}"#).await;
    w.call("PATCH", "/v1/rules/a", r#"{"note":"x"}"#).await;
    w.call("PATCH", "/v1/rules/a", r#"{"path":"/b"}"#).await;
    w.call("DELETE", "/v1/rules/b", "").await;
    w.call("DELETE", "/v1/rules/b", "").await;
    let text = w.get("/metrics").await.body;
    for line in [
        r#"tidegate_rules_changes_total{outcome="created"} 2"#,
        r#"tidegate_rules_changes_total{outcome="updated"} 1"#,
        r#"tidegate_rules_changes_total{outcome="unchanged"} 1"#,
        r#"tidegate_rules_changes_total{outcome="deleted"} 1"#,
        r#"tidegate_rules_changes_total{outcome="path_taken"} 1"#,
        r#"tidegate_rules_changes_total{outcome="unknown"} 1"#,
        r#"tidegate_rules_changes_total{outcome="failed"} 0"#,
        "tidegate_rules_group_changes_sum 7.0",
        "tidegate_rules_commit_seconds_count 7",
        "tidegate_rules 1",
        "tidegate_rules_seq 4",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
    }
    crate::metrics::check(&text);
}

#[tokio::test]
async fn who_reads_the_changes_is_counted() {
    let w = world().await;
    let readers = async |count: usize| {
        let line = format!("\ntidegate_rules_readers {count}\n");
        soon(async {
            while !w.get("/metrics").await.body.contains(&line) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    };
    readers(0).await;
    let follow = async || {
        let request = Request::get("/v1/rules/changes").body(Body::empty()).unwrap();
        w.router.clone().call(request).await.unwrap()
    };
    let (first, second) = (follow().await, follow().await);
    readers(2).await;
    drop(first);
    readers(1).await;
    drop(second);
    readers(0).await;
}

/// What somebody else has done to the database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_in_trouble_is_no_silence() {
    let w = world().await;
    w.add(json!({"id": "a", "path": "/a", "destination": "/x"})).await;
    let other = rusqlite::Connection::open(w.folder.path().join("rules.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let held = w.call("POST", "/v1/rules", r#"{"id":"b","path":"/b","destination":"/x"}"#).await;
    refused(&held, 503, "rules-unavailable", json!({}));
    assert_eq!(held.header("retry-after"), Some("1"));
    let again = "whether it was changed is not known; sent again by its id it is changed once";
    assert!(held.body.contains(again), "{}", held.body);
    assert_eq!(w.get("/v1/rules/a").await.status, StatusCode::OK, "it is read all the same");
    other.execute_batch("ROLLBACK").unwrap();
    w.add(json!({"id": "b", "path": "/b", "destination": "/x"})).await;
    other.execute("UPDATE rules SET body = '{}' WHERE id = 'a'", []).unwrap();
    let corrupt = w.get("/v1/rules/a").await;
    refused(&corrupt, 500, "rules-corrupt", json!({}));
    assert_eq!(w.get("/v1/rules/b").await.status, StatusCode::OK);
}

/// The body of a whole answer.
fn body(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").expect(answer).1).expect(answer)
}

#[test]
fn a_restart_keeps_rules_and_a_second_server_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.db");
    let url = format!("sqlite:{}", path.display());
    let first = Server::start(&["--rules", &url]);
    let made = first.request("POST", "/v1/rules", r#"{"id":"a","path":"/a","destination":"/x"}"#);
    assert!(made.starts_with("HTTP/1.1 201 Created\r\n") && made.contains("\r\netag: \"1\"\r\n"), "{made}");
    let (code, out, err) = run(tidegate(&["serve", "--listen", "127.0.0.1:0", "--rules", &url]));
    let shown = path.display();
    let process = first.id();
    let expected = format!(
        "tidegate: `rules`: {shown} is open for writing in process {process}: one process at a time\n"
    );
    assert_eq!((code, &*out, err), (2, "", expected));
    first.send_signal("KILL");
    first.wait();
    let second = Server::start(&["--set", &format!("rules.url={url}"), "--set", "rules.max_log=10"]);
    assert_eq!(body(&second.get("/v1/rules/a"))["destination"], "/x");
    assert_eq!(body(&second.get("/v1/rules/position"))["seq"], 1);
}

#[test]
fn a_database_that_cannot_be_opened_is_named_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(at("text"), "this is no database, however long it may be\n".repeat(100)).unwrap();
    rusqlite::Connection::open(at("other")).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    for (url, expected) in [
        ("sqlite:".to_owned(), "`rules`: sqlite: needs a file behind it: sqlite:rules.db".to_owned()),
        (format!("sqlite:{}", at("none/rules.db")), at("none/rules.db")),
        (format!("sqlite:{}", at("other")), format!("{} is a database of something else", at("other"))),
        (format!("sqlite:{}", at("text")), "`rules`: ".to_owned()),
        ("mysql://a".to_owned(), "is no database of rules".to_owned()),
    ] {
        let (code, out, err) = run(tidegate(&["serve", "--listen", "127.0.0.1:0", "--rules", &url]));
        assert_eq!((code, &*out), (2, ""), "{url}");
        assert!(err.contains("`rules`: ") && err.contains(&expected), "{url}: {err}");
    }
}
