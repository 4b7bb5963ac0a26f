//! Redirects, seen from the API: how the worker's cache is doing, why a request is answered as it is, who keeps what, and
//! which links are hot. Redirects themselves are on a listener of their own ([`crate::edge`]).

pub(crate) mod api;
mod list;
mod one;
mod path;
mod settings;

use axum::Router;

use super::{App, Kind, Operation, Problem, Result, Routes, get};
use crate::edge::OpenEdge;

pub(super) const ROUTES: Routes = Routes { part: "edge", operations, empty_names, problems: &[NO_EDGE] };

const NO_EDGE: Kind = Kind::new(404, "no-redirects", "No redirects here");

/// The operations.
fn operations() -> Vec<Operation> {
    vec![
        get("/v1/edge/cache", "edge_cache", one::cache)
            .summary("How the worker's cache is doing, and how far the worker is"),
        get("/v1/edge/explain", "edge_explain", one::explain)
            .summary("Which rule answers a request, why, from where, and what is sent; nothing is counted")
            .example("?url=https://www.example.com/docs/start"),
        get("/v1/edge/owner", "edge_owner", one::owner)
            .summary(
                "Which workers keep the rule for a request; the first is in the header Tidegate-Owner too",
            )
            .example("?url=https://www.example.com/docs/start"),
        get("/v1/edge/hot", "edge_hot", list::hot)
            .summary("Links that are redirected most right now, the hottest first")
            .example("?limit=10"),
    ]
}

fn empty_names(router: Router<App>) -> Router<App> {
    router
}

/// The worker, if this server has one.
fn open(app: &App) -> Result<&OpenEdge> {
    app.parts().edge.as_ref().ok_or_else(|| {
        let how = "it is started without: --edge-listen says where they are served";
        Problem::new(NO_EDGE, format!("this server redirects nobody, {how}"))
    })
}
