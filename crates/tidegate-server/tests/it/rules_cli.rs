//! `tidegate rules`: what it prints and how it exits, on a server or straight on a file.

use serde_json::{Value, json};

use crate::cli::{Server, run, tidegate};

type Ran = (i32, String, String);

fn ok(out: &str) -> Ran {
    (0, format!("{out}\n"), String::new())
}

fn no(out: &str) -> Ran {
    (1, format!("{out}\n"), String::new())
}

fn json_of(out: &str) -> Value {
    serde_json::from_str(out).expect(out)
}

/// `tidegate rules` with this behind it.
fn with<'a>(target: &'a [&'a str]) -> impl Fn(&[&str]) -> Ran + 'a {
    move |args| {
        let mut command = tidegate(&["rules"]);
        command.args(args).args(target);
        run(command)
    }
}

/// The same on both.
fn everything(rules: impl Fn(&[&str]) -> Ran) {
    assert_eq!(rules(&["list"]), ok("none"));
    assert_eq!(rules(&["get", "manual"]), no("there is no rule of that id"));
    let add = [
        "add",
        "--id",
        "manual",
        "--host",
        "*.Example.com",
        "--path",
        "/docs/*",
        "--append-rest",
        "https://example.org/m",
    ];
    let made = "manual, version 1: *.example.com/docs/* to https://example.org/m";
    assert_eq!(rules(&add), ok(&format!("made: {made}")));
    assert_eq!(rules(&add), ok(&format!("as before: {made}")));
    let taken = rules(&["add", "--host", "*.example.com", "--path", "/docs/*", "/x"]);
    assert_eq!(taken, no("the rule \"manual\" is for that host and path already"));
    let short = json_of(&rules(&["add", "https://example.com/long", "--json"]).1);
    let id = short["rule"]["id"].as_str().unwrap().to_owned();
    assert_eq!(short["rule"]["path"], format!("/{id}"));
    assert_eq!(rules(&["rm", &id]), ok("deleted"));

    let set = [
        "set",
        "manual",
        "--code",
        "308",
        "--max-clicks",
        "9",
        "--tag",
        "b",
        "--tag",
        "a",
        "--note",
        "two\nlines",
    ];
    let warned = "changed: manual, version 2: *.example.com/docs/* to https://example.org/m\n\
        warning: it can end, so it is sent as a temporary redirect (302 or 307)";
    assert_eq!(rules(&set), ok(warned));
    let (code, out, _) = rules(&["get", "manual"]);
    let lines: Vec<_> = out.lines().collect();
    let expected = [
        "manual: live, version 2",
        "for       *.example.com/docs/*",
        "to        https://example.org/m",
        "as        307, the rest appended",
        "clicks    0 of 9",
        "tags      a, b",
        "note      two\\nlines",
    ];
    assert_eq!((code, &lines[..7]), (0, &expected[..]), "{out}");
    assert!(lines[7].starts_with("made      20") && lines[8].starts_with("changed   20"), "{out}");
    let rule = json_of(&rules(&["get", "manual", "--json"]).1);
    assert_eq!((&rule["version"], &rule["maxClicks"]), (&json!(2), &json!(9)));

    let stale = rules(&["set", "manual", "--enabled=false", "--version", "1"]);
    assert_eq!(stale, no("the rule was changed: it is of version 2"));
    assert_eq!(rules(&["set", "manual", "--unset", "max-clicks", "--unset", "code", "--version", "2"]).0, 0);
    assert_eq!(rules(&["rm", "manual", "--version", "2"]), no("the rule was changed: it is of version 3"));
    let both = rules(&["set", "manual", "--unset", "note", "--note", "x"]);
    assert_eq!((both.0, both.2.contains("one of the two is meant")), (2, true), "{both:?}");
    assert_eq!(rules(&["set", "none", "--note", "x"]), no("there is no rule of that id"));

    let resolve = |url: &str| rules(&["resolve", url]);
    let found = "manual, version 3, for *.example.com/docs/*: 302 to https://example.org/m/a/b";
    assert_eq!(resolve("https://www.example.com/docs/a/b?q=1"), ok(found));
    assert_eq!(resolve("www.example.org/docs"), no("no rule is for www.example.org/docs"));
    assert_eq!(json_of(&rules(&["resolve", "example.com/docs", "--json"]).1)["answer"]["status"], 302);

    let over = ["add", "--id", "resolve", "--path", "/r", "--expires-at", "2020-01-01T00:00:00Z", "/x"];
    assert!(rules(&over).1.ends_with("warning: expiresAt is in the past: it has ended already\n"));
    assert_eq!(
        rules(&["get", "resolve"]).1.lines().next(),
        Some("resolve: ended, version 1"),
        "a word of ours is an id"
    );
    assert_eq!(resolve("a/r"), ok("resolve, version 1, for */r: 410, it has ended"));
    assert_eq!(rules(&["add", "--id", "\u{202e}odd é/", "--path", "/odd", "/x"]).0, 0);
    let table = "ID              STATE  FOR                   TO\n\
        manual          live   *.example.com/docs/*  https://example.org/m\n\
        resolve         ended  */r                   /x\n\
        \\u{202e}odd é/  live   */odd                 /x";
    assert_eq!(rules(&["list"]), ok(table));
    let page = rules(&["list", "--limit", "1", "--json"]).1;
    let next = json_of(&page)["next"].as_str().unwrap().to_owned();
    assert!(rules(&["list", "--limit", "1"]).1.ends_with(&format!("\nmore: --cursor {next}\n")));
    assert!(rules(&["list", "--limit", "1", "--cursor", &next]).1.contains("\nresolve "));
    let ids = |filter: &[&str]| -> Vec<String> {
        let all = json_of(&rules(&[&["list", "--json"], filter].concat()).1);
        all["rules"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&["--host", "*.example.com"]), ["manual"]);
    assert_eq!(ids(&["--tag", "a", "--path", "/d"]), ["manual"]);
    assert_eq!(ids(&["--destination", "https:"]), ["manual"]);
    assert_eq!(ids(&["--state", "ended"]), ["resolve"]);
    assert_eq!(rules(&["rm", "\u{202e}odd é/"]), ok("deleted"));
    assert_eq!(rules(&["rm", "resolve", "--json"]), ok(r#"{"deleted":true}"#));
    assert_eq!(rules(&["rm", "resolve"]).0, 1);

    let (code, out, _) = rules(&["new-epoch"]);
    assert!(code == 0 && out.starts_with("a new epoch: ") && out.ends_with(", 1 rule\n"), "{out}");
    let (code, out, err) = rules(&["add", "--path", "/l", "ftp://example.com"]);
    assert_eq!((code, &*out), (2, ""));
    assert!(err.contains("destination: \"ftp://example.com\" is a \"ftp\" address"), "{err}");
    for wrong in [
        &["list", "--state", "over"][..],
        &["add"],
        &["set", "a", "--unset", "path"],
        &["add", "/x", "--starts-at", "soon"],
    ] {
        assert_eq!(rules(wrong).0, 2, "{wrong:?}");
    }
}

#[test]
fn rules_on_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("rules.db").display());
    let server = Server::start(&["--rules", &url]);
    everything(with(&["--server", server.url()]));
    // The file is the server's.
    let (code, out, err) = with(&["--rules", &url])(&["list"]);
    assert_eq!((code, &*out), (2, ""));
    assert!(
        err.contains(&format!("is open for writing in process {}: one process at a time", server.id())),
        "{err}"
    );
}

#[test]
fn rules_in_a_file_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.db").display().to_string();
    let url = format!("sqlite:{path}");
    for reads in
        [&["list"][..], &["get", "a"], &["rm", "a"], &["set", "a", "--note", "x"], &["resolve", "a/b"]]
    {
        let absent = (2, String::new(), format!("tidegate: `--rules`: there is no {path}\n"));
        assert_eq!(with(&["--rules", &url])(reads), absent, "{reads:?}");
    }
    assert!(!std::path::Path::new(&path).exists(), "nothing was made by asking");
    assert_eq!(with(&["--rules", &url])(&["add", "--id", "first", "--path", "/first", "/x"]).0, 0);
    assert_eq!(with(&["--rules", &url])(&["rm", "first"]), ok("deleted"));
    everything(with(&["--rules", &url]));
}

#[test]
fn without_rules_the_command_says_so() {
    let server = Server::start(&[]);
    let (code, out, err) = with(&["--server", server.url()])(&["list"]);
    assert_eq!((code, &*out), (2, ""));
    assert!(err.contains("this server has no rules") && err.contains("--rules sqlite:FILE"), "{err}");
    let (code, _, err) = with(&["--rules", "sqlite:x", "--server", server.url()])(&["list"]);
    assert_eq!(code, 2);
    assert!(err.contains("cannot be used with"), "{err}");
}

/// More than are looked at for a page have the tag, and one of them, behind them, is meant.
#[test]
fn a_list_goes_on_until_there_is_something() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("rules.db").display());
    let target = ["--rules", &url];
    let rules = with(&target);
    let mut list = "id,path,destination,tags\n".to_owned();
    for number in 0..10_600 {
        list += &format!("{number:05},/{number:05},https://example.com/,common\n");
    }
    list += "rare,/rare,https://example.org/,common\n";
    let file = folder.path().join("list.csv");
    std::fs::write(&file, list).unwrap();
    assert_eq!(rules(&["import", file.to_str().unwrap()]).0, 0);
    let find = ["list", "--tag", "common", "--destination", "https://example.org/"];
    let found = "ID    STATE  FOR     TO\nrare  live   */rare  https://example.org/";
    assert_eq!(rules(&find), ok(found));
    let page = json_of(&rules(&[&find[..], &["--json"]].concat()).1);
    assert_eq!((&page["rules"][0]["id"], &page["next"]), (&json!("rare"), &Value::Null));
    assert_eq!(rules(&["list", "--tag", "common", "--destination", "/none"]), ok("none"));
}

/// As `| head -1` does.
#[test]
fn who_has_read_enough_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("rules.db").display());
    assert_eq!(with(&["--rules", &url])(&["add", "--path", "/a", "/b"]).0, 0);
    for command in ["list", "export"] {
        let (reads, writes) = std::io::pipe().unwrap();
        drop(reads);
        let mut command = tidegate(&["rules", command, "--rules", &url]);
        command.stdout(writes).stderr(std::process::Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    }
}

#[test]
fn without_a_server_it_says_how_rules_are_had() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (code, _, err) = with(&["--server", &server])(&["get", "a"]);
    assert!(code == 2 && err.contains("--rules uses a database of rules directly"), "{err}");
}

#[test]
fn every_command_has_an_example() {
    for command in ["add", "get", "list", "set", "rm", "resolve", "import", "export", "new-epoch"] {
        let (code, out, _) = run(tidegate(&["rules", command, "--help"]));
        assert!(code == 0 && out.contains(&format!("\n  tidegate rules {command} ")), "{command}: {out}");
    }
}

/// The guide's commands, one after the other, as somebody would type them; all but the server, which runs.
#[test]
fn the_commands_of_the_guide_run() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("rules.db").display());
    let server = Server::start(&["--rules", &url]);
    let guide = include_str!("../../../../docs/rules.md");
    let blocks: Vec<_> = guide.split("```sh\n").skip(1).map(|it| it.split("```").next().unwrap()).collect();
    assert!(blocks.len() > 5 && blocks[0] == "tidegate serve --rules sqlite:rules.db\n", "{blocks:?}");
    let commands = blocks[1..].concat().replace("http://127.0.0.1:8080", server.url());
    let ours = r#"tidegate() { "$TIDEGATE" "$@" --server "$SERVER"; }
        curl() { command curl --silent --show-error --fail-with-body "$@" && echo; }"#;
    let mut shell = std::process::Command::new("bash");
    shell.args(["-ec", &format!("{ours}\n{commands}")]).current_dir(folder.path());
    shell.env("TIDEGATE", env!("CARGO_BIN_EXE_tidegate")).env("SERVER", server.url()).env("NO_PROXY", "*");
    let (code, out, err) = run(shell);
    // Of rules that were made before a list says again what is odd about them.
    assert!(code == 0 && err.lines().all(|line| line.contains(": warning: ")), "{err}{out}");
    let said = "manual, version 1, for *.example.com/docs/*: 302 to https://example.org/manual/start?a=1\n";
    assert!(out.contains(said), "{out}");
    assert_eq!(out.lines().filter(|line| *line == "deleted").count(), 1, "{out}");
    assert!(out.contains(r#""refused":0"#) && out.contains("etag: \"3\""), "{out}");
    for said in [
        "2 created, 0 changed, 0 unchanged",
        "it would be: 0 created, 0 changed",
        r#"{"outcome":"unchanged""#,
    ] {
        assert!(out.contains(said), "{said}: {out}");
    }
}
