//! `tidegate rules import` and `export`: what they print, how they exit, and what is in files afterwards.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::{Server, run, run_with, tidegate};
use crate::rules_import::{LISTS, shown};

type Ran = (i32, String, String);

/// `tidegate rules` on a server or on a file, in a folder of its own.
struct Rules {
    folder: TempDir,
    target: Vec<String>,
    _server: Option<Server>,
}

impl Rules {
    fn new(has_server: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("rules.db").display());
        let server = has_server.then(|| Server::start(&["--rules", &url]));
        let target = match &server {
            Some(server) => vec!["--server".to_owned(), server.url().to_owned()],
            None => vec!["--rules".to_owned(), url],
        };
        Self { folder, target, _server: server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn run(&self, args: &[&str]) -> Ran {
        run(self.command(args))
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = tidegate(&["rules"]);
        command.args(args).args(&self.target).current_dir(self.folder.path());
        command
    }

    fn rules(&self) -> Vec<String> {
        let (code, out, err) = self.run(&["list", "--limit", "1000", "--json"]);
        assert_eq!(code, 0, "{err}");
        let page: Value = serde_json::from_str(&out).unwrap();
        let mut rules: Vec<_> = page["rules"].as_array().unwrap().iter().map(shown).collect();
        // Nobody knows the order of ids that were made.
        rules.sort();
        rules
    }
}

fn ok(out: &str) -> Ran {
    (0, format!("{out}\n"), String::new())
}

#[test]
fn every_format_is_imported_into_a_server_and_into_a_file() {
    for has_server in [true, false] {
        let rules = Rules::new(has_server);
        for (number, (format, list, expected)) in LISTS.into_iter().enumerate() {
            rules.write("list", list);
            let (code, out, err) = rules.run(&["import", "list", "--format", format]);
            let told =
                format!("imported as change {}: 1 created, 0 changed, 0 unchanged, 0 deleted\n", number + 1);
            assert_eq!((code, out), (0, told), "{format}: {err}");
            assert!(err.lines().all(|line| line.contains(": warning: ")), "{format}: {err}");
            assert!(rules.rules().contains(&expected.to_owned()), "{format}: {:?}", rules.rules());
        }
    }
}

#[test]
fn problems_are_told_by_their_lines_and_nothing_is_written() {
    for has_server in [true, false] {
        let rules = Rules::new(has_server);
        assert_eq!(rules.run(&["add", "--id", "old", "--path", "/old", "/x"]).0, 0);
        rules.write("list.csv", "id,path,destination,expiresAt\na,/a,/x,1\nb,\u{202e}b,/x,\na,/c,/x,\n");
        let problems = "list.csv:3: path: \"\\u{202e}b\" does not start with /\n\
            list.csv:4: the id \"a\" is that of line 2 too\n\
            list.csv:2: warning: expiresAt is in the past: it has ended already\n";
        let guessed = "it was read as csv, by its name: --format says what it is\n";
        let refused = "refused, and nothing was written: 2 problems in 4 lines\n";
        let expected = (1, format!("{refused}{guessed}"), problems.to_owned());
        assert_eq!(rules.run(&["import", "list.csv"]), expected);
        let expected = (1, refused.to_owned(), problems.to_owned());
        assert_eq!(rules.run(&["import", "list.csv", "--format", "csv"]), expected);
        let would = "it would be refused: 2 problems in 4 lines\n";
        let expected = (1, would.to_owned(), problems.to_owned());
        assert_eq!(rules.run(&["import", "list.csv", "--format", "csv", "--dry-run"]), expected);
        let (code, out, err) = rules.run(&["import", "list.csv", "--json"]);
        assert_eq!((code, &*err), (1, ""));
        let out: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&out["outcome"], &out["problems"]["count"]), (&json!("refused"), &json!(2)));
        assert_eq!(out["problems"]["first"][1]["otherLine"], 2);
        assert_eq!(rules.rules(), ["* /old 302 /x"]);

        let would = "it would be: 1 created, 0 changed, 0 unchanged, 0 deleted, 2 problems left out\n";
        let expected = (0, would.to_owned(), problems.to_owned());
        assert_eq!(rules.run(&["import", "list.csv", "--dry-run", "--partial"]), expected);
        let told =
            "imported as change 2: 1 created, 0 changed, 0 unchanged, 0 deleted, 2 problems left out\n";
        let expected = (0, told.to_owned(), problems.to_owned());
        assert_eq!(rules.run(&["import", "list.csv", "--partial"]), expected);
        rules.write("all.csv", "id,path,destination\na,/a,/y\n");
        let would = "it would be: 0 created, 1 changed, 0 unchanged, 1 deleted";
        assert_eq!(rules.run(&["import", "all.csv", "--replace", "--dry-run"]), ok(would));
        assert_eq!(rules.rules().len(), 2);
        let told = "imported as change 3: 0 created, 1 changed, 0 unchanged, 1 deleted";
        assert_eq!(rules.run(&["import", "all.csv", "--replace"]), ok(told));
        assert_eq!(rules.rules(), ["* /a 302 /y"]);
        assert_eq!(rules.run(&["import", "all.csv"]), ok("nothing to change: 1 unchanged"));
        let (code, out, _) = rules.run(&["import", "all.csv", "--json"]);
        let out: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &out["outcome"]), (0, &json!("unchanged")));
    }
}

#[test]
fn only_so_many_problems_are_told() {
    let rules = Rules::new(false);
    rules.write("list.csv", format!("path,destination\n{}", "x,/y\n".repeat(2000)));
    let (code, _, err) = rules.run(&["import", "list.csv"]);
    let lines: Vec<_> = err.lines().collect();
    assert_eq!((code, lines.len()), (1, 101));
    assert!(lines[99].starts_with("list.csv:101: path: "), "{}", lines[99]);
    assert_eq!(lines[100], "and 1900 more problems; --json has the first thousand");
}

/// CSV of others is called as ours is, and taken for ours it is refused.
#[test]
fn what_is_guessed_wrongly_is_refused() {
    let rules = Rules::new(false);
    for (format, list, _) in LISTS {
        if ["cloudflare", "shlink", "yourls"].contains(&format) {
            rules.write("list.csv", list);
            let (code, out, _) = rules.run(&["import", "list.csv"]);
            assert!(code == 1 && out.contains("read as csv, by its name"), "{format}: {out}");
        }
    }
    let names = [
        ("_redirects", "netlify"),
        ("vercel.json", "vercel"),
        ("nginx.conf", "nginx"),
        (".htaccess", "apache"),
    ];
    for (name, format) in names.into_iter().chain([("list.jsonl", "jsonl")]) {
        let list = LISTS.into_iter().find(|it| it.0 == format).unwrap().1;
        rules.write(name, list);
        let (code, out, err) = rules.run(&["import", name]);
        assert_eq!(code, 0, "{name}: {out}{err}");
    }
    assert_eq!(rules.rules().len(), 5);
}

#[test]
fn a_list_comes_from_standard_input_and_packed() {
    for has_server in [true, false] {
        let rules = Rules::new(has_server);
        let list = "path,destination\n/a,/x\n";
        let imported = |change| {
            ok(&format!("imported as change {change}: 1 created, 0 changed, 0 unchanged, 0 deleted"))
        };
        let from_stdin = rules.command(&["import", "-", "--format", "csv", "--host", "www.example.com"]);
        assert_eq!(run_with(from_stdin, list.as_bytes()), imported(1));
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(list.as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        rules.write("list.csv.gz", &packed);
        assert_eq!(rules.run(&["import", "list.csv.gz"]), imported(2));
        assert_eq!(rules.rules(), ["* /a 302 /x", "www.example.com /a 302 /x"].map(str::to_owned));
        // One that breaks off, so that nobody knows what else there was.
        rules.write("cut.csv.gz", &packed[..packed.len() - 1]);
        let (code, out, err) = rules.run(&["import", "cut.csv.gz", "--host", "b.example"]);
        assert_eq!((code, &*out), (2, ""), "{err}");
        assert!(
            err.starts_with("tidegate: cannot read cut.csv.gz: ") && err.ends_with(": nothing was written\n"),
            "{err}"
        );
        assert_eq!(rules.rules().len(), 2);
    }
}

#[test]
fn wrong_usage_says_what_is_right() {
    let rules = Rules::new(false);
    rules.write("list.json", "[]");
    rules.write("list.csv", "path,destination\n/a,/x\n");
    for (args, said) in [
        (&["import", "list.json"][..], "how list.json is written is not known by its name: --format says it"),
        (&["import", "-"], "--format says it, one of csv, jsonl, nginx"),
        (&["import", "none.csv"], "cannot read none.csv: "),
        (&["import"], "required"),
        (&["import", "list.csv", "--partial", "--replace"], "cannot be used with"),
        (&["import", "list.csv", "--format", "excel"], "possible values: csv, jsonl, nginx"),
        (&["import", "list.csv", "--host", "a b"], "`host`: \"a b\" is not allowed"),
        // It would be made by asking what would be.
        (&["import", "list.csv", "--dry-run"], "`--rules`: there is no "),
        (&["export", "rules.txt"], "how to write rules.txt is not known by its name"),
        (&["export"], "`--rules`: there is no "),
        (&["export", "--json"], "`--json`: the list itself is the answer"),
        (
            &["export", "none/rules.csv"],
            "tidegate: cannot write none/rules.csv: No such file or directory (os error 2)\n",
        ),
    ] {
        // A host is looked at by who has the rules.
        let (code, out, err) = rules.run(args);
        assert_eq!((code, &*out), (2, ""), "{args:?}: {err}");
        assert!(err.contains(said), "{args:?}: {err}");
        let _ = std::fs::remove_file(rules.path("rules.db"));
    }
    let mut command = tidegate(&["rules", "import", "list.csv", "--server", "http://127.0.0.1:1"]);
    command.current_dir(rules.folder.path());
    let (code, _, err) = run(command);
    assert!(code == 2 && !err.contains("not known"), "nothing was sent: {err}");
    let server = Server::start(&[]);
    for args in [["rules", "export", "-"], ["rules", "import", "list.csv"]] {
        let mut command = tidegate(&args);
        command.args(["--server", server.url()]).current_dir(rules.folder.path());
        let (code, out, err) = run(command);
        assert_eq!((code, &*out), (2, ""));
        assert!(err.contains("this server has no rules"), "{err}");
    }
}

#[test]
fn an_export_is_written_whole_and_comes_back_byte_for_byte() {
    for has_server in [true, false] {
        let rules = Rules::new(has_server);
        for (id, path) in [("a", "/a"), ("b \"c\", é", "/b/*")] {
            assert_eq!(rules.run(&["add", "--id", id, "--path", path, "--note", "x\ny", "/x"]).0, 0);
        }
        let (code, csv, err) = rules.run(&["export"]);
        assert_eq!((code, &*err), (0, ""));
        assert!(csv.starts_with("id,host,path,destination,") && csv.lines().count() == 5, "{csv}");
        let (code, out, err) = rules.run(&["export", "all.csv"]);
        assert_eq!((code, &*err), (0, ""));
        let at = out.strip_prefix(&format!("all.csv: {} B, the rules at ", csv.len())).unwrap().trim_end();
        assert_eq!(at.split(':').nth(1), Some("2"), "{out}");
        assert_eq!(rules.read("all.csv"), csv);
        let (code, out, _) = rules.run(&["export", "all.jsonl", "--json"]);
        let out: Value = serde_json::from_str(&out).unwrap();
        let jsonl = rules.read("all.jsonl");
        assert_eq!((code, out), (0, json!({"file": "all.jsonl", "bytes": jsonl.len(), "position": at})));
        assert_eq!(rules.run(&["export", "--format", "jsonl"]).1, jsonl);
        // To where something is already, whatever it is.
        rules.write("old", "something longer than a list of two rules\n".repeat(50));
        assert_eq!(rules.run(&["export", "old", "--format", "csv"]).0, 0);
        assert_eq!(rules.read("old"), csv);

        for name in ["all.csv", "all.jsonl"] {
            let empty = Rules::new(has_server);
            empty.write(name, rules.read(name));
            let told = "imported as change 1: 2 created, 0 changed, 0 unchanged, 0 deleted";
            assert_eq!(empty.run(&["import", name]), ok(told));
            assert_eq!(empty.run(&["export"]).1, csv, "{name}");
            assert_eq!(empty.run(&["export", "--format", "jsonl"]).1, jsonl, "{name}");
        }
        let names = std::fs::read_dir(rules.folder.path()).unwrap();
        let names: Vec<_> = names.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        assert!(
            names.iter().all(|it| !it.starts_with("all.") || ["all.csv", "all.jsonl"].contains(&&**it)),
            "{names:?}"
        );
    }
}

/// Answers one request with this, and hangs up, or reads what else comes before it does.
fn answering(answer: &'static str, reads_on: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        if reads_on {
            // Whoever has its answer may hang up.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    url
}

#[test]
fn half_an_export_is_never_put_in_place_of_a_whole_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.csv");
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nid,host,path\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nid,ho\r\n",
        "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 5\r\n\r\nid,ho",
        "",
    ] {
        for before in [None, Some("a good one\n")] {
            match before {
                Some(text) => std::fs::write(&file, text).unwrap(),
                None => drop(std::fs::remove_file(&file)),
            }
            let file = file.to_str().unwrap();
            let (code, out, err) =
                run(tidegate(&["rules", "export", file, "--server", &answering(answer, false)]));
            assert_eq!((code, &*out), (2, ""), "{answer}: {err}");
            assert!(!err.is_empty());
            assert_eq!(std::fs::read_to_string(file).ok().as_deref(), before, "{answer}");
            let count = Path::new(file).parent().unwrap().read_dir().unwrap().count();
            assert_eq!(count, usize::from(before.is_some()), "nothing is left of it: {answer}");
        }
    }
}

/// A server may be gone, or say no, before all of a list was sent.
#[test]
fn an_import_that_is_cut_off_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("list.csv");
    std::fs::write(&file, format!("path,destination\n{}", "/a,/b\n".repeat(2_000_000))).unwrap();
    let stopping = "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 96\r\n\r\n\
        {\"type\":\"t\",\"title\":\"t\",\"status\":503,\"detail\":\"the server is stopping, and nothing was written\"}";
    for (answer, said) in [
        ("", "whether it was imported is not known: imported again it changes nothing that is so already\n"),
        (stopping, "tidegate: the server is stopping, and nothing was written (503 Service Unavailable)\n"),
    ] {
        let url = answering(answer, !answer.is_empty());
        let (code, out, err) = run(tidegate(&["rules", "import", file.to_str().unwrap(), "--server", &url]));
        assert_eq!((code, &*out), (2, ""), "{answer}: {err}");
        assert!(err.ends_with(said), "{answer}: {err}");
    }
}

/// As spreadsheets write it.
#[test]
fn a_mark_in_front_of_a_list_is_none_of_its_columns() {
    for has_server in [true, false] {
        let rules = Rules::new(has_server);
        let file = rules.path("b.csv");
        std::fs::write(&file, "\u{feff}path,destination\r\n/q,/x\r\n").unwrap();
        let (code, out, err) = rules.run(&["import", file.to_str().unwrap()]);
        assert_eq!((code, out.contains("1 created")), (0, true), "{out}{err}");
    }
}
