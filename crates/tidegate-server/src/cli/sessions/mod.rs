//! `tidegate sessions`: requests to a server or straight to a store; what goes through a
//! whole store is in [`reconcile`].

pub(super) mod args;
mod cleanup;
mod reconcile;
mod render;

use std::process::ExitCode;

use tidegate::store::PartKind;

use self::args::{SessionArgs, SessionsCommand};
use super::send::{in_space, refusal, send, send_to};
use super::{Request, Target, encoded};
use crate::api::session::{Ack, Acks, ClaimRequest};
use crate::api::session_reap::Retried;
use crate::parts::Access;

const SESSIONS: PartKind = PartKind::Sessions;

pub(super) fn run(command: &SessionsCommand) -> Result<ExitCode, String> {
    super::runtime()?.block_on(async {
        match command {
            SessionsCommand::Migrate { dry_run, args } => reconcile::migrate(args, *dry_run).await,
            SessionsCommand::Reconcile(args) => reconcile::reconcile(args).await,
            SessionsCommand::Compare { max_age, args } => reconcile::compare(args, *max_age).await,
            SessionsCommand::Cleanup { dry_run: true, of, .. } => {
                let request = Request::post("/cleanup").with("dry_run", Some(true));
                let target = Target::of_space(SESSIONS, of, Access::Read).await?;
                send_to(target, of.target.json, request, cleanup::foreseen, refusal).await
            }
            SessionsCommand::Cleanup { no_wait, of, .. } => cleanup::run(of, *no_wait).await,
            SessionsCommand::Claim { limit, of } => {
                let body = ClaimRequest { limit: Some(u64::from(*limit)) };
                in_space(SESSIONS, of, Request::post("/claims").json(&body), render::claimed).await
            }
            SessionsCommand::Renew { id, generation, attempt, of } => {
                let request = Request::put(format!("/claims/{}", encoded(id)));
                let request = request.with("generation", Some(generation)).with("attempt", Some(attempt));
                in_space(SESSIONS, of, request, render::renewed).await
            }
            SessionsCommand::Ack { id, generation, of } => {
                let body = Acks { acks: vec![Ack { id: id.into(), generation: *generation }] };
                in_space(SESSIONS, of, Request::post("/acks").json(&body), render::acked).await
            }
            SessionsCommand::Counts(of) => {
                in_space(SESSIONS, of, Request::get("/counts"), render::counted).await
            }
            SessionsCommand::List { state, max_age, limit, after, of } => {
                let state = Some(state).filter(|_| max_age.is_none());
                let request = Request::get("").with("max_age", max_age.as_ref()).with("state", state);
                let request = request.with("limit", Some(limit)).with("after", after.as_ref());
                in_space(SESSIONS, of, request, render::listed).await
            }
            SessionsCommand::Show { id, broadcaster, of } => {
                let path = match broadcaster {
                    Some(broadcaster) => format!("/broadcasters/{}", encoded(broadcaster)),
                    None => format!("/{}", encoded(id.as_deref().unwrap_or_default())),
                };
                in_space(SESSIONS, of, Request::get(path), render::session).await
            }
            SessionsCommand::Delete(SessionArgs { id, of }) => {
                let request = Request::delete(format!("/{}", encoded(id)));
                in_space(SESSIONS, of, request, |()| "deleted".to_owned()).await
            }
            SessionsCommand::Retry(SessionArgs { id, of }) => {
                let request = Request::post(format!("/dead/{}/retry", encoded(id)));
                in_space(SESSIONS, of, request, |_: Retried| "it can be claimed again".to_owned()).await
            }
            SessionsCommand::Spaces(target) => {
                send(target, &[], Request::get("/v1/sessions"), render::spaces).await
            }
        }
    })
}
