//! `tidegate sessions`: requests to a server or straight to a store; what goes through a
//! whole store is in [`reconcile`].

pub(super) mod args;
mod cleanup;
mod reconcile;
mod render;

use std::process::ExitCode;

use tidegate::store::PartKind;

use self::args::{SessionArgs, SessionsCommand};
use super::send::{self, in_space};
use super::{Request, SpaceArgs, Target, encoded};
use crate::api::session::{Ack, Acks, ClaimRequest};
use crate::api::session_reap::Retried;
use crate::parts::Access;

pub(super) fn run(command: &SessionsCommand) -> Result<ExitCode, String> {
    super::runtime()?.block_on(async {
        match command {
            SessionsCommand::Migrate { dry_run, args } => reconcile::migrate(args, *dry_run).await,
            SessionsCommand::Reconcile(args) => reconcile::reconcile(args).await,
            SessionsCommand::Compare { max_age, args } => reconcile::compare(args, *max_age).await,
            SessionsCommand::Cleanup { dry_run: true, of, .. } => {
                let request = Request::post(format!("{}/cleanup?dry_run=true", path_of(of)));
                let parts = [(PartKind::Sessions, of.space.as_str())];
                let target = Target::open(&of.target, &parts, Access::Read).await?;
                send::send_to(target, of.target.json, request, cleanup::foreseen, send::refusal).await
            }
            SessionsCommand::Cleanup { no_wait, of, .. } => {
                cleanup::run(of, &format!("{}/cleanup", path_of(of)), *no_wait).await
            }
            SessionsCommand::Claim { limit, of } => {
                let body = ClaimRequest { limit: Some(u64::from(*limit)) };
                let request = Request::post(format!("{}/claims", path_of(of))).json(&body);
                in_space(PartKind::Sessions, of, request, render::claimed).await
            }
            SessionsCommand::Renew { id, generation, attempt, of } => {
                let numbers = format!("generation={generation}&attempt={attempt}");
                let path = format!("{}/claims/{}?{numbers}", path_of(of), encoded(id));
                in_space(PartKind::Sessions, of, Request::put(path), render::renewed).await
            }
            SessionsCommand::Ack { id, generation, of } => {
                let body = Acks { acks: vec![Ack { id: id.into(), generation: *generation }] };
                let request = Request::post(format!("{}/acks", path_of(of))).json(&body);
                in_space(PartKind::Sessions, of, request, render::acked).await
            }
            SessionsCommand::Counts(of) => {
                let request = Request::get(format!("{}/counts", path_of(of)));
                in_space(PartKind::Sessions, of, request, render::counted).await
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
            SessionsCommand::Delete(SessionArgs { id, of }) => {
                let request = Request::delete(session_of(of, id));
                in_space(PartKind::Sessions, of, request, |()| "deleted".to_owned()).await
            }
            SessionsCommand::Retry(SessionArgs { id, of }) => {
                let path = format!("{}/dead/{}/retry", path_of(of), encoded(id));
                let rendered = |_: Retried| "it can be claimed again".to_owned();
                in_space(PartKind::Sessions, of, Request::post(path), rendered).await
            }
            SessionsCommand::Spaces(target) => {
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
