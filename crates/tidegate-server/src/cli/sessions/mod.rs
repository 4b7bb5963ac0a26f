//! `tidegate sessions`: requests to a server or straight to a store; what goes through a
//! whole store is in [`reconcile`].

pub(super) mod args;
mod cleanup;
mod reconcile;
mod render;

use std::process::ExitCode;

use axum::http::Method;
use tidegate::store::PartKind;

use self::args::SessionsCommand;
use super::args::SpaceArgs;
use super::render::Rendered;
use super::request::{Request, encoded};
use super::send::{self, in_space};
use super::target::Target;
use crate::api::session::{Ack, Acks, ClaimRequest};
use crate::parts::Access;

pub(super) fn run(command: &SessionsCommand) -> Result<ExitCode, String> {
    super::runtime()?.block_on(async {
        match command {
            SessionsCommand::Migrate { dry_run, args } => reconcile::migrate(args, *dry_run).await,
            SessionsCommand::Reconcile { args } => reconcile::reconcile(args).await,
            SessionsCommand::Compare { max_age, args } => reconcile::compare(args, *max_age).await,
            SessionsCommand::Cleanup { dry_run: true, of, .. } => {
                let request = Request::new(Method::POST, format!("{}/cleanup?dry_run=true", path_of(of)));
                let parts = [(PartKind::Sessions, of.space.as_str())];
                let target = Target::open(&of.target, &parts, Access::Read).await?;
                send::send_to(target, &of.target, request, cleanup::foreseen, send::refusal).await
            }
            SessionsCommand::Cleanup { no_wait, of, .. } => {
                cleanup::run(of, &format!("{}/cleanup", path_of(of)), *no_wait).await
            }
            SessionsCommand::Claim { limit, of } => {
                let body = ClaimRequest { limit: Some(u64::from(*limit)) };
                let request = Request::with(Method::POST, format!("{}/claims", path_of(of)), &body);
                in_space(PartKind::Sessions, of, request, render::claimed).await
            }
            SessionsCommand::Renew { id, generation, attempt, of } => {
                let numbers = format!("generation={generation}&attempt={attempt}");
                let path = format!("{}/claims/{}?{numbers}", path_of(of), encoded(id));
                in_space(PartKind::Sessions, of, Request::new(Method::PUT, path), render::renewed).await
            }
            SessionsCommand::Ack { id, generation, of } => {
                let body = Acks { acks: vec![Ack { id: id.into(), generation: *generation }] };
                let request = Request::with(Method::POST, format!("{}/acks", path_of(of)), &body);
                in_space(PartKind::Sessions, of, request, render::acked).await
            }
            SessionsCommand::Counts { of } => {
                in_space(
                    PartKind::Sessions,
                    of,
                    Request::get(format!("{}/counts", path_of(of))),
                    render::counted,
                )
                .await
            }
            SessionsCommand::List { state, max_age, limit, after, of } => {
                let which = match max_age {
                    Some(age) => format!("max_age={}", encoded(age)),
                    None => format!("state={state}"),
                };
                let after = after.as_ref().map(|it| format!("&after={}", encoded(it))).unwrap_or_default();
                let request = Request::get(format!("{}?{which}&limit={limit}{after}", path_of(of)));
                in_space(PartKind::Sessions, of, request, render::listed).await
            }
            SessionsCommand::Show { id, broadcaster, of } => {
                let path = match broadcaster {
                    Some(broadcaster) => format!("{}/broadcasters/{}", path_of(of), encoded(broadcaster)),
                    None => session_of(of, id.as_deref().unwrap_or_default()),
                };
                in_space(PartKind::Sessions, of, Request::get(path), render::session).await
            }
            SessionsCommand::Delete { id, of } => {
                let request = Request::new(Method::DELETE, session_of(of, id));
                in_space(PartKind::Sessions, of, request, |_| Ok(Rendered::yes("deleted".to_owned()))).await
            }
            SessionsCommand::Retry { id, of } => {
                let path = format!("{}/dead/{}/retry", path_of(of), encoded(id));
                let rendered = |_: &[u8]| Ok(Rendered::yes("it can be claimed again".to_owned()));
                in_space(PartKind::Sessions, of, Request::new(Method::POST, path), rendered).await
            }
            SessionsCommand::Spaces { target } => {
                send::send(target, &[], Request::get("/v1/sessions".to_owned()), render::spaces).await
            }
        }
    })
}

fn path_of(of: &SpaceArgs) -> String {
    format!("/v1/sessions/{}", encoded(&of.space))
}

fn session_of(of: &SpaceArgs, id: &str) -> String {
    format!("{}/{}", path_of(of), encoded(id))
}
