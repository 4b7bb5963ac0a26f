//! The overrides and the pending reservations of a limit over HTTP and on the command line.

use serde_json::{Value, json};

use crate::cli::Server;
use crate::support::{fixture, serving};

#[tokio::test]
async fn overrides_and_reservations_are_listed_page_by_page() {
    let f = fixture().await;
    for (key, lasting_ms) in [("keys/b", 5000), ("everyone", 4000), ("keys/a%2Fb", 3000)] {
        let body = json!({"rate": "50/s", "lasting_ms": lasting_ms}).to_string();
        assert_eq!(f.put(&format!("/v1/limits/api/{key}/override"), &body).await.status, 200);
    }
    let all = f.get("/v1/limits/api/overrides").await;
    assert_eq!(
        all.body,
        r#"{"limit":"api","overrides":[{"key":"a/b","rate":"50/s","lasting_ms":3000},{"key":null,"rate":"50/s","lasting_ms":4000},{"key":"b","rate":"50/s","lasting_ms":5000}],"next":null}"#
    );
    let first = f.get("/v1/limits/api/overrides?limit=2").await.json();
    assert_eq!(first["overrides"].as_array().unwrap().len(), 2);
    let next = first["next"].as_str().unwrap();
    let second = f.get(&format!("/v1/limits/api/overrides?limit=2&cursor={next}")).await.json();
    assert_eq!((&second["overrides"][0]["key"], &second["next"]), (&json!("b"), &Value::Null));

    let body = r#"{"cost":3,"lasting_ms":30000}"#;
    for id in ["order-1", "order-2"] {
        assert_eq!(f.put(&format!("/v1/limits/api/keys/u/reservations/{id}"), body).await.status, 201);
    }
    f.delete("/v1/limits/api/keys/u/reservations/order-1").await;
    assert_eq!(
        f.get("/v1/limits/api/reservations").await.body,
        r#"{"limit":"api","reservations":[{"key":"u","id":"order-2","cost":3,"expires_in_ms":30000}],"next":null}"#
    );
}

#[tokio::test]
async fn what_is_no_page_is_refused() {
    let f = serving(&["api.rate=5/s", "burst.algorithm=token"]).await;
    for list in ["overrides", "reservations"] {
        for bad in [
            "limit=0",
            "limit=1001",
            "limit=x",
            "cursor=x",
            "cursor=1-zz",
            "cursor=",
            "after=1",
            "limit=1&limit=2",
        ] {
            let answer = f.get(&format!("/v1/limits/api/{list}?{bad}")).await;
            assert_eq!(answer.status.as_u16(), 400, "{bad}: {answer:?}");
            assert_eq!(answer.json()["type"], "urn:tidegate:problem:invalid-request", "{bad}");
        }
        assert_eq!(f.get(&format!("/v1/limits/nope/{list}")).await.status.as_u16(), 404);
        assert_eq!(f.post(&format!("/v1/limits/api/{list}"), "{}").await.status.as_u16(), 405);
    }
    assert_eq!(f.get("/v1/limits/burst/reservations").await.status.as_u16(), 400, "it holds none");
    assert_eq!(f.get("/v1/limits/burst/overrides").await.json()["overrides"], json!([]));
}

#[test]
fn the_command_line_lists_them() {
    let server = Server::start(&["--set", "limits.api.rate=5/s"]);
    assert_eq!(server.limit(&["overrides", "api"]), (0, "no overrides\n".to_owned(), String::new()));
    assert_eq!(server.limit(&["reservations", "api"]).1, "no reservations\n");
    for key in ["a", "b"] {
        server.limit(&["set-override", "api", key, "--rate", "50/s", "--lasting", "1h"]);
    }
    server.limit(&["reserve", "api", "a", "order-1", "--cost", "3", "--lasting", "30s"]);
    let (code, out, _) = server.limit(&["overrides", "api", "--limit", "1"]);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!((code, lines.len()), (0, 2), "{out}");
    assert!(lines[0].starts_with("a: 50/s for another 59m "), "{out}");
    let cursor = lines[1].strip_prefix("more: --cursor ").unwrap();
    let (_, out, _) = server.limit(&["overrides", "api", "--cursor", cursor]);
    assert!(out.starts_with("b: 50/s for another ") && out.lines().count() == 1, "{out}");
    let (_, out, _) = server.limit(&["reservations", "api"]);
    assert!(out.starts_with("a: order-1, 3 for another 29s"), "{out}");
    let (_, out, _) = server.limit(&["reservations", "api", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["reservations"][0]["id"], "order-1");
    assert_eq!(server.limit(&["overrides", "api", "--limit", "0"]).0, 2);
}

#[test]
fn what_others_have_written_does_not_move_the_cursor() {
    let server = Server::start(&["--set", "limits.api.rate=5/s"]);
    let (key, id) = ("u\u{1b}]0;mine\u{7}\r\nfake: 9/s", "order\u{1b}[2J");
    server.limit(&["set-override", "api", key, "--rate", "50/s", "--lasting", "1h"]);
    server.limit(&["reserve", "api", key, id, "--lasting", "30s"]);
    for list in ["overrides", "reservations"] {
        let (code, out, _) = server.limit(&[list, "api"]);
        assert_eq!((code, out.lines().count()), (0, 1), "{out:?}");
        assert!(!out.trim_end().contains(|it: char| it.is_control()), "{out:?}");
        assert!(out.starts_with("u\\u{1b}]0;mine\\u{7}\\r\\nfake: 9/s: "), "{out:?}");
    }
}
