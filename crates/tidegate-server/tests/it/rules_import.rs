//! Lists of rules over HTTP: every format, every way that a list can be wrong, and lists that come back as they were.

use std::io::{Read as _, Write as _};

use axum::body::Body;
use axum::http::Request;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tidegate_server::http::router;
use tidegate_server::settings::HttpSettings;
use tower_service::Service as _;

use crate::lifecycle::start_with;
use crate::rules::{World, refused, world};
use crate::rules_stream::{following, next};
use crate::support::{Answer, START, fixture, send};

/// A list in every format, each of one rule: `host path code destination`.
pub(crate) const LISTS: [(&str, &str, &str); 9] = [
    ("csv", "destination,path\nhttps://n.example/,/csv\n", "* /csv 302 https://n.example/"),
    ("jsonl", "{\"path\":\"/jsonl\",\"destination\":\"/n\",\"code\":308}\n", "* /jsonl 308 /n"),
    ("nginx", "location = /nginx { return 301 /n; }\n", "* /nginx 301 /n"),
    ("apache", "RedirectPermanent /apache /n\n", "* /apache/* 301 /n"),
    ("netlify", "http://o.example/netlify /n 307\n", "o.example /netlify 307 /n"),
    (
        "cloudflare",
        "o.example/cloudflare,https://n.example/,302\n",
        "o.example /cloudflare 302 https://n.example/",
    ),
    (
        "vercel",
        r#"[{"source":"/vercel","destination":"/n","statusCode":302,"caseSensitive":true}]"#,
        "* /vercel 302 /n",
    ),
    (
        "shlink",
        "shortUrl,longUrl,visits\nhttps://s.example/shlink,https://n.example/,7\n",
        "s.example /shlink 302 https://n.example/",
    ),
    ("yourls", "keyword,url,clicks\nyourls,https://n.example/,3\n", "* /yourls 301 https://n.example/"),
];

/// A rule as [`LISTS`] has it.
pub(crate) fn shown(rule: &Value) -> String {
    let text = |name: &str| rule[name].as_str().unwrap().to_owned();
    format!("{} {} {} {}", text("host"), text("path"), rule["code"], text("destination"))
}

/// A list that is sent.
pub(crate) async fn import(w: &World, query: &str, list: impl Into<Body>) -> Answer {
    let request = Request::post(format!("/v1/rules/import{query}")).body(list.into());
    send(router(w.app.clone()), request.unwrap()).await
}

async fn export(w: &World, format: &str) -> Answer {
    let answer = w.get(&format!("/v1/rules/export?format={format}")).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer
}

async fn position(w: &World) -> Value {
    w.get("/v1/rules/position").await.json()
}

/// A report that says only this of what is worth saying.
fn report(members: Value) -> Value {
    let mut report = json!({"outcome": "written", "created": 0, "changed": 0, "unchanged": 0, "deleted": 0,
        "problems": {"count": 0, "first": []}, "warnings": {"count": 0, "first": []}});
    report.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    report
}

#[tokio::test]
async fn every_format_is_imported() {
    let w = world().await;
    for (number, (format, list, expected)) in LISTS.into_iter().enumerate() {
        let answer = import(&w, &format!("?format={format}"), list).await;
        assert_eq!(answer.status, 200, "{format}: {}", answer.body);
        let (lines, bytes) = (list.lines().count(), list.len());
        let seq = number + 1;
        let mut told = answer.json();
        // That a rule was for one scheme or one case is said, and is none of ours here.
        told["warnings"] = json!({"count": 0, "first": []});
        let full = json!({"seq": seq, "lines": lines, "bytes": bytes, "rules": 1, "created": 1});
        assert_eq!(told, report(full), "{format}");
        let rules = w.get("/v1/rules").await.json();
        let rules: Vec<_> = rules["rules"].as_array().unwrap().iter().map(shown).collect();
        assert!(rules.contains(&expected.to_owned()), "{format}: {rules:?}");
        // The same list again changes nothing.
        let again = import(&w, &format!("?format={format}"), list).await.json();
        assert_eq!((&again["outcome"], &again["unchanged"]), (&json!("unchanged"), &json!(1)), "{format}");
        assert_eq!(position(&w).await["seq"], seq, "{format}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_told_by_its_line_and_nothing_is_written() {
    let w = world().await;
    w.add(json!({"id": "taken", "path": "/taken", "destination": "/x"})).await;
    let before = position(&w).await;
    let list = "id,path,destination,code\n\
        a,/a,/x,\n\
        b,b,/x,\n\
        a,/c,/x,\n\
        d,/a,/x,\n\
        e,/e,/x,303\n\
        f,/taken,/x,\n\
        g,/g,/x\n";
    let problems = json!({"count": 6, "first": [
        {"line": 3, "field": "path", "message": "\"b\" does not start with /"},
        {"line": 4, "otherLine": 2, "message": "the id \"a\" is that of line 2 too"},
        {"line": 5, "otherLine": 2, "message": "the host * and the path \"/a\" is that of line 2 too"},
        {"line": 6, "field": "code", "message": "the code 303 is not allowed: 301, 302, 307 and 308 are"},
        {"line": 7, "message": "the rule \"taken\" is for that host and path already"},
        {"line": 8, "message": "it has 3 values, and the header 4"},
    ]});
    let counts = json!({"lines": 8, "bytes": list.len(), "rules": 1, "created": 1, "problems": problems});
    let answer = import(&w, "?format=csv", list).await;
    let detail = "nothing was written: 6 problems, the first in line 3: \"b\" does not start with /";
    let mut expected = report(counts.clone());
    expected["outcome"] = "refused".into();
    for (name, value) in [("refusal", "problems"), ("detail", detail), ("title", "Import refused")] {
        expected[name] = value.into();
    }
    refused(&answer, 422, "import-refused", expected);
    assert_eq!(position(&w).await, before);

    let mut dry = report(counts.clone());
    dry["outcome"] = "dry_run".into();
    for query in ["?format=csv&dry_run=true", "?format=csv&dry_run=true&partial=true"] {
        let answer = import(&w, query, list).await;
        assert_eq!((answer.status.as_u16(), answer.json()), (200, dry.clone()), "{query}");
        assert_eq!(position(&w).await, before, "{query}");
    }

    let answer = import(&w, "?format=csv&partial=true", list).await;
    let mut partial = report(counts);
    partial["seq"] = 2.into();
    assert_eq!((answer.status.as_u16(), answer.json()), (200, partial));
    assert_eq!((&position(&w).await["seq"], &position(&w).await["count"]), (&json!(2), &json!(2)));
    assert_eq!(w.get("/v1/rules/a").await.json()["path"], "/a");
}

#[tokio::test]
async fn however_much_is_wrong_so_much_is_told_and_all_is_counted() {
    let w = world().await;
    let list = format!("path,destination\n{}", "x,/y\n".repeat(5000));
    let answer = import(&w, "?format=csv", list).await;
    refused(&answer, 422, "import-refused", json!({"created": 0}));
    let problems = &answer.json()["problems"];
    assert_eq!((&problems["count"], problems["first"].as_array().unwrap().len()), (&json!(5000), 1000));
    assert_eq!(problems["first"][999]["line"], 1001);
}

#[tokio::test]
async fn warnings_are_told_and_stop_nothing() {
    let w = world().await;
    let list = "path,destination,expiresAt\n/a,/b,1\n";
    let answer = import(&w, "?format=csv", list).await.json();
    assert_eq!(answer["outcome"], "written");
    let message = "expiresAt is in the past: it has ended already";
    assert_eq!(answer["warnings"], json!({"count": 1, "first": [{"line": 2, "message": message}]}));
}

#[tokio::test]
async fn a_list_may_replace_all_rules() {
    let w = world().await;
    for id in ["kept", "other", "gone"] {
        w.add(json!({"id": id, "path": format!("/{id}"), "destination": "/x"})).await;
    }
    let list = "id,path,destination\nkept,/kept,/x\nother,/other,/y\nnew,/new,/x\n";
    let counts = |outcome: &str| {
        json!({"outcome": outcome, "lines": 4, "bytes": list.len(), "rules": 3, "created": 1, "changed": 1,
            "unchanged": 1, "deleted": 1})
    };
    let dry = import(&w, "?format=csv&mode=replace&dry_run=true", list).await;
    assert_eq!(dry.json(), report(counts("dry_run")));
    assert_eq!(position(&w).await["seq"], 3);
    let mut expected = report(counts("written"));
    expected["seq"] = 4.into();
    assert_eq!(import(&w, "?format=csv&mode=replace", list).await.json(), expected);
    assert_eq!(position(&w).await["count"], 3);
    assert_eq!(w.get("/v1/rules/gone").await.status, 404);
    // All rules would go.
    for empty in ["", "path,destination\n"] {
        let answer = import(&w, "?format=csv&mode=replace", empty).await;
        refused(&answer, 422, "import-refused", json!({"deleted": 3}));
        assert_eq!(import(&w, "?format=csv", empty).await.json()["outcome"], "unchanged");
    }
    assert_eq!(position(&w).await["count"], 3);
}

#[tokio::test]
async fn rules_without_a_host_may_be_given_one() {
    let w = world().await;
    let list = "/a /b 301\nhttps://o.example/c /d 301\n";
    assert_eq!(import(&w, "?format=netlify&host=*.N.example", list).await.status, 200);
    let rules = w.get("/v1/rules").await.json();
    let mut rules: Vec<_> = rules["rules"].as_array().unwrap().iter().map(shown).collect();
    rules.sort();
    assert_eq!(rules, ["*.n.example /a 301 /b", "o.example /c 301 /d"]);
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_refused_before_a_byte_is_read() {
    let w = world().await;
    for (query, said) in [
        ("", "the parameter `format` is missing: csv, jsonl, nginx"),
        ("?format=excel", "`format`: \"excel\" is no format"),
        ("?format=csv&mode=append", "`mode`: \"append\" is not allowed: merge, replace are"),
        ("?format=csv&mode=replace&partial=true", "it would delete the rules of bad lines"),
        ("?format=csv&partial=yes", "`partial`: \"yes\" is not allowed"),
        ("?format=csv&dry_run", "`dry_run`: \"\" is not allowed"),
        ("?format=csv&host=a%20b", "`host`: \"a b\" is not allowed"),
        ("?format=csv&dryRun=true", "unknown parameter \"dryRun\""),
    ] {
        let unread = futures_util::stream::pending::<Result<&str, std::io::Error>>();
        let answer = import(&w, query, Body::from_stream(unread)).await;
        refused(&answer, 400, "invalid-request", json!({}));
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(said), "{query}: {detail}");
    }
    let form = &[("content-type", "multipart/form-data; boundary=x")];
    let answer = w.call_if("POST", "/v1/rules/import?format=csv", "--x", form).await;
    refused(&answer, 415, "unsupported-media-type", json!({}));
    let deflated = &[("content-encoding", "deflate")];
    let answer = w.call_if("POST", "/v1/rules/import?format=csv", "", deflated).await;
    refused(&answer, 415, "unsupported-encoding", json!({}));
    for path in ["/v1/rules/export?format=nginx", "/v1/rules/export?host=a"] {
        refused(&w.get(path).await, 400, "invalid-request", json!({}));
    }
    let f = fixture().await;
    refused(&f.post("/v1/rules/import?format=csv", "").await, 404, "no-rules", json!({}));
    refused(&f.get("/v1/rules/export").await, 404, "no-rules", json!({}));
}

/// Rules with all that a rule can have.
fn rules() -> Vec<Value> {
    let full = json!({"id": "a \"b\", é/\u{1f600}", "host": "*.example.com", "path": "/a/*", "destination":
        "https://example.com/?a=,\"", "code": 301, "appendRest": true, "query": "merge", "startsAt": 5, "expiresAt":
        4_000_000_000_000_u64, "maxClicks": 9, "fallback": "/over", "tags": ["x", "y,\"z"], "enabled": false,
        "note": "two\nlines, and \"quotes\""});
    let mut rules =
        vec![full, json!({"id": "permanent", "path": "/p", "destination": "/q", "code": 308, "maxAge": 60})];
    for number in 0..500 {
        rules.push(json!({"id": format!("r{number}"), "path": format!("/r/{number}"), "destination": "/x"}));
    }
    rules
}

#[tokio::test]
async fn an_export_comes_back_byte_for_byte() {
    let w = world().await;
    for rule in rules() {
        w.add(rule).await;
    }
    let patched = w.call("PATCH", "/v1/rules/r7", &json!({"note": "v2"}).to_string()).await;
    assert_eq!(patched.status, 200);
    let clicks = json!({"clicks": {"r7": 3}}).to_string();
    assert_eq!(w.call("PUT", "/v1/workers/edge-1/clicks/1", &clicks).await.status, 200);
    let digest = position(&w).await["digest"].clone();
    for format in ["csv", "jsonl"] {
        let list = export(&w, format).await;
        let name = format!("attachment; filename=\"rules.{format}\"");
        assert_eq!(list.header("content-disposition"), Some(&*name));
        let media_type = if format == "csv" { "text/csv; charset=utf-8" } else { "application/x-ndjson" };
        assert_eq!(list.header("content-type"), Some(media_type));
        assert_eq!(list.header("content-length"), Some(&*list.body.len().to_string()));
        let at = position(&w).await;
        let place =
            format!("{}:{}:{}", at["epoch"].as_str().unwrap(), at["seq"], at["digest"].as_str().unwrap());
        assert_eq!(list.header("tidegate-position"), Some(&*place));

        let empty = world().await;
        empty.clock.advance_ms(5_000_000);
        let imported = import(&empty, &format!("?format={format}"), list.body.clone()).await;
        assert_eq!((imported.status.as_u16(), &imported.json()["created"]), (200, &json!(502)));
        assert_eq!(position(&empty).await["digest"], digest);
        for other in ["csv", "jsonl"] {
            assert_eq!(export(&empty, other).await.body, export(&w, other).await.body, "{format}, {other}");
        }
        let seven = empty.get("/v1/rules/r7").await.json();
        assert_eq!(
            (&seven["version"], &seven["clicks"], &seven["createdAt"]),
            (&json!(2), &json!(3), &json!(START.as_millis()))
        );
    }
    let plain = w.get("/v1/rules/export").await.body;
    assert_eq!(plain, export(&w, "csv").await.body, "CSV unless it is said otherwise");
}

#[tokio::test]
async fn lists_are_packed_both_ways() {
    let w = world().await;
    for rule in rules() {
        w.add(rule).await;
    }
    let request = Request::get("/v1/rules/export").header("accept-encoding", "gzip").body(Body::empty());
    let answer = router(w.app.clone()).call(request.unwrap()).await.unwrap();
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    assert_eq!(answer.headers().get("content-length"), None);
    let packed = answer.into_body().collect().await.unwrap().to_bytes();
    let mut unpacked = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut unpacked).unwrap();
    assert_eq!(unpacked, export(&w, "csv").await.body);

    let empty = world().await;
    let request = |body| {
        Request::post("/v1/rules/import?format=csv").header("content-encoding", "gzip").body(Body::from(body))
    };
    // Of a packed list that breaks off the last byte is enough.
    let cut = packed.slice(..packed.len() - 1);
    let answer = send(router(empty.app.clone()), request(cut).unwrap()).await;
    refused(&answer, 400, "invalid-request", json!({}));
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.starts_with("the body is not gzip") && detail.ends_with("and nothing was written"),
        "{detail}"
    );
    assert_eq!(position(&empty).await["seq"], 0);
    let answer = send(router(empty.app.clone()), request(packed).unwrap()).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["created"]), (200, &json!(502)));
}

#[tokio::test]
async fn who_follows_is_told_once_to_begin_anew() {
    let w = world().await;
    w.add(json!({"id": "a", "path": "/a", "destination": "/x"})).await;
    let running = start_with(HttpSettings::default(), w.app.clone()).await;
    let mut client = following(&running, "", "").await;
    assert_eq!(next(&mut client).await.1, "sync");
    let many: String = (0..2000).map(|number| format!("/r/{number},/x\n")).collect();
    let list = format!("path,destination\n{many}/a,/y\n");
    let told = import(&w, "?format=csv", list.clone()).await.json();
    assert_eq!((&told["created"], &told["changed"], &told["seq"]), (&json!(2000), &json!(1), &json!(2)));
    // What writes nothing says nothing.
    assert_eq!(import(&w, "?format=csv", list).await.json()["outcome"], "unchanged");
    assert_eq!(import(&w, "?format=csv&dry_run=true", "path,destination\n/b,/x\n").await.status, 200);
    assert_eq!(import(&w, "?format=csv", "path,destination\nb,/x\n").await.status, 422);
    let last = w.add(json!({"id": "last", "path": "/last", "destination": "/x"})).await;
    assert_eq!(last["seq"], 3);
    let mut seen = Vec::new();
    while seen.last().is_none_or(|(name, _)| name != "create") {
        let (_, name, data) = next(&mut client).await;
        if name != "sync" {
            seen.push((name, data));
        }
    }
    assert_eq!(seen[0], ("resync".to_owned(), json!({"reason": "rules were imported"})));
    assert_eq!((seen.len(), &seen[1].1["id"]), (2, &json!("last")), "{seen:?}");
    running.stop().await;
}

#[tokio::test]
async fn imports_are_counted_by_what_became_of_them() {
    let w = world().await;
    let list = "id,path,destination\na,/a,/x\nb,/b,/x\n";
    for (query, list) in [
        ("?format=csv", list),
        ("?format=csv", list),
        ("?format=csv&dry_run=true", list),
        ("?format=csv&mode=replace", "id,path,destination\na,/a,/y\n"),
        ("?format=csv", "no header"),
    ] {
        import(&w, query, list).await;
    }
    let broken =
        futures_util::stream::iter([Ok("path,destination\n/a,/x\n"), Err(std::io::Error::other("cut"))]);
    let answer = import(&w, "?format=csv", Body::from_stream(broken)).await;
    refused(
        &answer,
        400,
        "invalid-request",
        json!({"detail": "the body ended early, and nothing was written"}),
    );
    crate::support::soon(async {
        loop {
            let metrics = w.get("/metrics").await.body;
            if metrics.contains("tidegate_rules_import_seconds_count 6") {
                for line in [
                    r#"tidegate_rules_imports_total{outcome="written"} 2"#,
                    r#"tidegate_rules_imports_total{outcome="unchanged"} 1"#,
                    r#"tidegate_rules_imports_total{outcome="dry_run"} 1"#,
                    r#"tidegate_rules_imports_total{outcome="refused"} 1"#,
                    r#"tidegate_rules_imports_total{outcome="failed"} 1"#,
                    r#"tidegate_rules_imported_total{outcome="created"} 2"#,
                    r#"tidegate_rules_imported_total{outcome="updated"} 1"#,
                    r#"tidegate_rules_imported_total{outcome="deleted"} 1"#,
                ] {
                    assert!(metrics.contains(&format!("\n{line}\n")), "{line}: {metrics}");
                }
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// What is packed and then sent in small pieces is the same list.
#[tokio::test]
async fn a_list_in_pieces_of_any_size_is_one_list() {
    let mut list = String::from("path,destination,note\n");
    for number in 0..300 {
        list += &format!("/{number},/x,\"two\nlines\"\n");
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(list.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    for size in [1, 7, 100_000] {
        let w = world().await;
        let pieces: Vec<_> = packed.chunks(size).map(|it| Ok::<_, std::io::Error>(it.to_vec())).collect();
        let body = Body::from_stream(futures_util::stream::iter(pieces));
        let request =
            Request::post("/v1/rules/import?format=csv").header("content-encoding", "gzip").body(body);
        let answer = send(router(w.app.clone()), request.unwrap()).await.json();
        assert_eq!((&answer["created"], &answer["lines"]), (&json!(300), &json!(601)), "{size}");
    }
}
