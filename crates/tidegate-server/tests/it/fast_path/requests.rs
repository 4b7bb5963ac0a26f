//! Requests of every form that a take can have, and of some that it cannot.

use super::{BODY, JSON, TAKE, plain, take, with_first_line};

pub(super) fn requests() -> Vec<String> {
    let bodies = [
        BODY,
        r#"{"key":"a","cost":2}"#,
        r#"{"key":"a","rate":"2/s","cost":7}"#,
        r#"{"key":"ä \" \u0000 {:}"}"#,
        "{}",
        "\r\n {\"key\" : \"a\"} \n",
        // Refused: by what is left, and for ever.
        r#"{"key":"b","cost":300}"#,
        r#"{"key":"b"}"#,
        r#"{"key":"b","cost":301}"#,
        // Wrong.
        "",
        "{",
        "nonsense",
        r#"["a"]"#,
        r#"{"key":""}"#,
        r#"{"key":1}"#,
        r#"{"key":"a","cots":2}"#,
        r#"{"key":"a","cost":0}"#,
        r#"{"key":"a","rate":"5/y"}"#,
        r#"{"key":"a"} x"#,
    ];
    let long =
        [255, 256, 4_000, 5_000, 65_536].map(|length| format!(r#"{{"key":"{}"}}"#, "x".repeat(length)));
    let lines = [
        "",
        "Content-Type: Application/JSON; charset=utf-8\r\n",
        "content-type: application/problem+json\r\n",
        "content-type: application/x-www-form-urlencoded\r\n",
        "content-type: application/x-www-form-urlencoded\r\norigin: https://elsewhere.example\r\n",
        "content-type: application/json\r\norigin: https://elsewhere.example\r\n",
        "origin: https://elsewhere.example\r\n",
        "authorization: Bearer token\r\n",
        "cookie: a=b\r\n",
        "content-type: text/plain\r\n",
        "content-type:\r\n",
        "content-type: application/\u{e9}\r\n",
        "content-type: application/json\r\ncontent-type: text/plain\r\n",
        "content-type: text/plain\r\ncontent-type: application/json\r\n",
        "connection: keep-alive\r\n",
        "Connection: Keep-Alive\r\n",
        "connection: close\r\n",
        "connection: keep-alive, close\r\n",
        "connection: keep-alive\r\nconnection: close\r\n",
        "connection: upgrade\r\nupgrade: websocket\r\n",
        "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n",
        "expect: something\r\n",
        "expect: 100-continue, something\r\n",
        "expect:\r\n",
        "host: t\r\n",
        "host: u\r\n",
        "content-encoding: gzip\r\n",
        "content-encoding: identity\r\n",
        "content-encoding: br\r\n",
        "transfer-encoding: chunked\r\n",
        "transfer-encoding: gzip, chunked\r\n",
        "te: trailers\r\n",
        "transfer-encoding: identity\r\n",
        "content-length: 11\r\n",
        "content-length: 12\r\n",
        "x-request-id: 1\r\nx-request-id: 2\r\nauthorization: Bearer x\r\ntraceparent: 00-1-2-00\r\n",
        "x-text: caf\u{e9}\r\n",
        "x-folded: a\r\n b\r\n",
        "x-empty:\r\n",
        "no-colon\r\n",
        "bad name: x\r\n",
        ": x\r\n",
        "x: \u{1}\r\n",
    ];
    let many = [30, 40, 99, 101].map(|count| "x: y\r\n".repeat(count));
    let large = [4_000, 5_000, 20_000].map(|length| format!("x: {}\r\n", "y".repeat(length)));
    let first = [
        "POST /v1/limits/api/take HTTP/1.0",
        "POST /v1/limits/api/take?cost=2 HTTP/1.1",
        "POST /v1/limits/api/take? HTTP/1.1",
        "POST /v1/limits/api/take#a HTTP/1.1",
        "POST /v1/limits/api/take/ HTTP/1.1",
        "POST //v1/limits/api/take HTTP/1.1",
        "POST /v1/limits//take HTTP/1.1",
        "POST /v1/limits/take HTTP/1.1",
        "POST /v1/limits/nope/take HTTP/1.1",
        "POST /v1/limits/%61pi/take HTTP/1.1",
        "POST /v1/limits/a%2Fb/take HTTP/1.1",
        "POST /v1/limits/%FF/take HTTP/1.1",
        "POST /v1/limits/%zz/take HTTP/1.1",
        "POST /v1/limits/api/take?nope=1 HTTP/1.1",
        "POST /v1/limits/api/take/../take HTTP/1.1",
        "POST http://t/v1/limits/api/take HTTP/1.1",
        "POST v1/limits/api/take HTTP/1.1",
        "POST /v1/limits/api/refund HTTP/1.1",
        "GET /v1/limits/api/take HTTP/1.1",
        "HEAD /v1/limits/api/take HTTP/1.1",
        "PUT /v1/limits/api/take HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "post /v1/limits/api/take HTTP/1.1",
        "POST /v1/limits/api/take HTTP/1.2",
        "POST /v1/limits/api/take HTTP/2.0",
        "POST /v1/limits/api/take",
        "POST  /v1/limits/api/take HTTP/1.1",
        "PRI * HTTP/2.0",
        "\r\nPOST /v1/limits/api/take HTTP/1.1",
        "\u{16}\u{3}\u{1}",
    ];
    let lengths =
        ["+11", "-1", "0x0b", "11 ", "011", "11, 11", "", "65537", "9999999", "99999999999999999999"];
    let whole = [
        // No length; a length of nothing; chunks, alone and against a length.
        format!("{TAKE}{JSON}\r\n"),
        format!("{TAKE}{JSON}transfer-encoding: chunked\r\n\r\nb\r\n{BODY}\r\n0\r\n\r\n"),
        format!(
            "{TAKE}{JSON}transfer-encoding: chunked\r\n\r\n5\r\n{}\r\n6\r\n{}\r\n0\r\nx: y\r\n\r\n",
            &BODY[..5],
            &BODY[5..]
        ),
        format!("{TAKE}content-length: 3\r\ntransfer-encoding: chunked\r\n\r\nb\r\n{BODY}\r\n0\r\n\r\n"),
        format!("{TAKE}transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\nb\r\n{BODY}\r\n0\r\n\r\n"),
        format!("{TAKE}transfer-encoding: chunked\r\n\r\nz\r\n"),
        take("expect: 100-continue\r\n", BODY),
        format!(
            "POST /v1/limits/api/take HTTP/1.0\r\nconnection: keep-alive\r\ncontent-length: 11\r\n\r\n{BODY}"
        ),
        // Without a host, with two, with one that is none; and with lines that end as some end them.
        plain(BODY).replace("host: t\r\n", ""),
        plain(BODY).replace("host: t\r\n", "").replace("HTTP/1.1", "HTTP/1.0"),
        plain(BODY).replace("host: t\r\n", "Host: t\r\nhOST: t\r\n"),
        plain(BODY).replace("host: t\r\n", "host:\r\n"),
        plain(BODY).replace("host: t\r\n", "host: [::1]:8080\r\n"),
        plain(BODY).replace("host: t\r\n", "host: t/x\r\n"),
        plain(BODY).replace("host: t\r\n", "host: t:x\r\n"),
        plain(BODY).replace("host: t\r\n", "host: me@t\r\n"),
        plain(BODY).replace("\r\n", "\n"),
        plain(BODY).replacen("\r\n", "\n", 1),
        plain(BODY).replace("\r\n\r\n", "\r\n\n"),
        format!("\n{}", plain(BODY)),
        // Behind others that are answered first.
        [plain(BODY), plain(BODY).replace("host: t\r\n", "")].concat(),
        [with_first_line("GET /healthz HTTP/1.1"), plain(BODY).replace("\r\n", "\n"), plain(BODY)].concat(),
        format!("{TAKE}{JSON}transfer-encoding: chunked\r\n\r\nb\r\n{BODY}\r\n0\r\n\r\nnonsense\r\n\r\n"),
        format!("{TAKE}{JSON}transfer-encoding: chunked\r\n\r\nb;x=y\r\n{BODY}\r\n0\r\n\r\n{}", plain(BODY)),
        format!("{TAKE}{JSON}transfer-encoding: chunked\r\n\r\nb\n{BODY}\r\n0\r\n\r\n"),
        // One after another, and others in between.
        plain(BODY).repeat(3),
        plain(BODY).repeat(100),
        [plain(BODY), with_first_line("GET /v1/limits/api/keys/a HTTP/1.1"), plain(BODY)].concat(),
        [plain(BODY), plain("{"), take("connection: close\r\n", BODY), plain(BODY)].concat(),
        // A body that is longer than it was said to be.
        format!("{TAKE}content-length: 9\r\n\r\n{BODY}"),
    ];
    let bodies = bodies.iter().map(|body| plain(body)).chain(long.iter().map(|body| plain(body)));
    let lines = lines.iter().map(|lines| take(lines, BODY));
    let heads = many.iter().chain(&large).map(|lines| take(lines, BODY));
    let first = first.iter().map(|line| with_first_line(line));
    let lengths = lengths.iter().map(|length| format!("{TAKE}content-length: {length}\r\n\r\n{BODY}"));
    bodies.chain(lines).chain(heads).chain(first).chain(lengths).chain(whole).collect()
}
