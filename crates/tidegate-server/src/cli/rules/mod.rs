//! `tidegate rules`: requests to a server, or straight to a database that no server has.

pub(super) mod args;
mod export;
mod import;
mod list;
mod render;

use std::process::ExitCode;

use serde::de::DeserializeOwned;
use tidegate::Tidegate;

use self::args::{RulesCommand, RulesTarget, TermArgs};
use super::{Rendered, Request, Target, encoded, message, send};
use crate::api::RULE_WORDS;
use crate::api::rule::{Draft, Patch};
use crate::http::App;
use crate::parts::{PartSettings, Parts};
use crate::settings::{Flag, Settings, Sources};

pub(super) fn run(command: &RulesCommand) -> Result<ExitCode, String> {
    super::runtime()?.block_on(async {
        match command {
            RulesCommand::Add { destination, id, terms, target } => {
                let draft = draft(id.clone(), destination.clone(), terms);
                let request = Request::post("/v1/rules").json(&draft);
                send_to(open(target, IfAbsent::Make).await?, target, request, render::made).await
            }
            RulesCommand::Get { id, target } => {
                answered(target, Request::get(path_of(id)), render::card).await
            }
            RulesCommand::List { filter, target } => list::run(filter, target).await,
            RulesCommand::Set { id, destination, terms, unset, version, target } => {
                let patch = patch(destination.clone(), terms, unset)?;
                let request = Request::patch(path_of(id)).json(&patch).if_match(*version);
                answered(target, request, render::changed).await
            }
            RulesCommand::Rm { id, version, target } => {
                let request = Request::delete(path_of(id)).if_match(*version);
                answered(target, request, |()| "deleted".to_owned()).await
            }
            RulesCommand::Resolve { url, target } => {
                let request = Request::get(format!("/v1/rules/resolve?{}", address(url)));
                answered(target, request, render::resolved).await
            }
            RulesCommand::Import(args) => import::run(args).await,
            RulesCommand::Export(args) => export::run(args).await,
            RulesCommand::NewEpoch(target) => {
                let request = Request::post("/v1/rules/new_epoch");
                answered(target, request, render::begun).await
            }
        }
    })
}

/// What is answered by rules that are there.
async fn answered<T: DeserializeOwned, R: Into<Rendered>>(
    target: &RulesTarget,
    request: Request,
    render: impl FnOnce(T) -> R,
) -> Result<ExitCode, String> {
    send_to(open(target, IfAbsent::Refuse).await?, target, request, render).await
}

async fn send_to<T: DeserializeOwned, R: Into<Rendered>>(
    open: Target,
    target: &RulesTarget,
    request: Request,
    render: impl FnOnce(T) -> R,
) -> Result<ExitCode, String> {
    send::send_to(open, target.json, request, render, send::refusal).await
}

/// What is done about a file that is not there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IfAbsent {
    Make,
    /// Whoever asks for what is in it has mistyped its name.
    Refuse,
}

async fn open(target: &RulesTarget, if_absent: IfAbsent) -> Result<Target, String> {
    let Some(url) = &target.rules else { return Target::server(&target.server) };
    let path = url.strip_prefix("sqlite:").filter(|path| !path.is_empty());
    if let Some(path) =
        path.filter(|path| if_absent == IfAbsent::Refuse && !std::path::Path::new(path).exists())
    {
        return Err(format!("`--rules`: there is no {path}"));
    }
    let flag = Flag { given_as: "--rules", path: "rules.url".to_owned(), value: url.clone() };
    let settings = Settings::load(&Sources { flags: vec![flag], ..Sources::default() });
    let settings = settings.map_err(message)?;
    let gate = Tidegate::open("memory:").await.map_err(message)?;
    // Nothing else is asked for.
    let parts = Parts::open(gate, &PartSettings::default()).map_err(message)?;
    let parts = parts.with_rules(settings.rules.as_ref()).await;
    Ok(Target::of(App::new(parts.map_err(message)?)))
}

/// A rule's address; one that is called like something else there is escaped.
fn path_of(id: &str) -> String {
    let escaped = match id.as_bytes() {
        [first, ..] if RULE_WORDS.contains(&id) => format!("%{first:02X}{}", encoded(&id[1..])),
        _ => encoded(id),
    };
    format!("/v1/rules/{escaped}")
}

fn draft(id: Option<String>, destination: String, terms: &TermArgs) -> Draft {
    let mut draft = Draft::default();
    draft.id = id;
    draft.destination = Some(destination);
    (draft.host, draft.path) = (terms.host.clone(), terms.path.clone());
    (draft.code, draft.append_rest, draft.query) = (terms.code, terms.append_rest, terms.query);
    (draft.starts_at, draft.expires_at) = (terms.starts_at, terms.expires_at);
    (draft.max_clicks, draft.max_age) = (terms.max_clicks, terms.max_age);
    draft.fallback = terms.fallback.clone();
    draft.tags = Some(terms.tags.clone()).filter(|tags| !tags.is_empty());
    (draft.enabled, draft.note) = (terms.enabled, terms.note.clone());
    draft
}

fn patch(destination: Option<String>, terms: &TermArgs, unset: &[String]) -> Result<Patch, String> {
    let tags = Some(terms.tags.clone()).filter(|tags| !tags.is_empty());
    Ok(Patch {
        destination,
        path: terms.path.clone(),
        host: change("host", &terms.host, unset)?,
        code: change("code", &terms.code, unset)?,
        append_rest: change("append-rest", &terms.append_rest, unset)?,
        query: change("query", &terms.query, unset)?,
        starts_at: change("starts-at", &terms.starts_at, unset)?,
        expires_at: change("expires-at", &terms.expires_at, unset)?,
        max_clicks: change("max-clicks", &terms.max_clicks, unset)?,
        fallback: change("fallback", &terms.fallback, unset)?,
        max_age: change("max-age", &terms.max_age, unset)?,
        tags: change("tags", &tags, unset)?,
        enabled: change("enabled", &terms.enabled, unset)?,
        note: change("note", &terms.note, unset)?,
    })
}

/// What becomes of a member: nothing, another value, or it is taken away.
fn change<T: Clone>(name: &str, value: &Option<T>, unset: &[String]) -> Result<Option<Option<T>>, String> {
    match (value, unset.iter().any(|it| it == name)) {
        (Some(_), true) => {
            Err(format!("`--unset {name}` beside another value of it: one of the two is meant"))
        }
        (None, true) => Ok(Some(None)),
        (value, false) => Ok(value.clone().map(Some)),
    }
}

/// An address as what is asked about it.
fn address(url: &str) -> String {
    let bare = url.split_once("://").map_or(url, |(_, bare)| bare);
    // What is behind `#` no server is sent.
    let bare = bare.split('#').next().unwrap_or_default();
    let (bare, query) = bare.split_once('?').map_or((bare, None), |(bare, query)| (bare, Some(query)));
    let (host, path) = bare.find('/').map_or((bare, "/"), |at| bare.split_at(at));
    let query = query.map(|query| format!("&query={}", encoded(query))).unwrap_or_default();
    format!("host={}&path={}{query}", encoded(host), encoded(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        for (url, expected) in [
            ("https://a.example/b/c?d=e&f#g", "host=a%2Eexample&path=%2Fb%2Fc&query=d%3De%26f"),
            ("a.example:81", "host=a%2Eexample%3A81&path=%2F"),
            ("a?b", "host=a&path=%2F&query=b"),
            ("http://[::1]:80/", "host=%5B%3A%3A1%5D%3A80&path=%2F"),
        ] {
            assert_eq!(address(url), expected, "{url}");
        }
    }

    #[test]
    fn no_id_is_taken_for_a_word() {
        assert_eq!(path_of("bulk"), "/v1/rules/%62ulk");
        assert_eq!(path_of("../ü"), "/v1/rules/%2E%2E%2F%C3%BC");
        assert_eq!(path_of("manual"), "/v1/rules/manual");
    }
}
