//! `tidegate rules list`: a page of rules.

use std::process::ExitCode;

use axum::body::Bytes;
use axum::http::StatusCode;

use super::args::{FilterArgs, RulesTarget};
use super::{IfAbsent, open, render};
use crate::cli::{Request, Target, encoded, read, send};

pub(super) async fn run(filter: &FilterArgs, args: &RulesTarget) -> Result<ExitCode, String> {
    let target = open(args, IfAbsent::Refuse).await?;
    let found = find(&target, filter.clone()).await;
    target.close().await;
    let (status, answer) = found?;
    send::finish(&target, args.json, status, &answer, render::listed, send::refusal)
}

/// The first page that has something: one of several filters may have nothing, and go on.
async fn find(target: &Target, mut filter: FilterArgs) -> Result<(StatusCode, Bytes), String> {
    loop {
        let request = Request::get(format!("/v1/rules?{}", query(&filter)));
        let (status, answer) = target.send(request).await?;
        if status.is_success() {
            let page: render::Listed = read(&answer)?;
            if page.rules.is_empty() && page.next.is_some() {
                filter.cursor = page.next;
                continue;
            }
        }
        return Ok((status, answer));
    }
}

fn query(filter: &FilterArgs) -> String {
    let FilterArgs { path, host, tag, destination, state, limit, cursor } = filter;
    let given =
        [("path", path), ("host", host), ("tag", tag), ("destination", destination), ("state", state)];
    let given = given.into_iter().chain([("cursor", cursor)]);
    let given = given.filter_map(|(name, value)| Some(format!("&{name}={}", encoded(value.as_ref()?))));
    format!("limit={limit}{}", given.collect::<String>())
}
