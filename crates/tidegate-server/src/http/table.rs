//! All operations, and the router that is made of them.

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};

use super::body::is_ndjson;
use super::{App, PARTS, probes};
use super::{Operation, Routes, TimeClass};

/// All rows, in the order in which they are shown.
pub(crate) fn operations() -> Vec<Operation> {
    let of_part = |Routes { part, operations, .. }| operations().into_iter().map(move |row| row.of(part));
    PARTS.into_iter().flat_map(of_part).chain(probes::operations()).collect()
}

/// Those that have an address of their own: what takes lines may be at that of what takes one.
pub(super) fn with_an_address(operations: &[Operation]) -> impl Iterator<Item = &Operation> {
    operations.iter().filter(|it| {
        let is_beside = |other: &Operation| other.name != it.name && is_at(other, it);
        it.time_class != TimeClass::Bulk || !operations.iter().any(is_beside)
    })
}

fn is_at(one: &Operation, other: &Operation) -> bool {
    (&one.method, one.path) == (&other.method, other.path)
}

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// A route for each.
pub(super) fn routes(app: &App) -> Router<App> {
    let operations = operations();
    let mut routes: BTreeMap<String, MethodRouter<App>> = BTreeMap::new();
    let mut singles: Vec<_> = with_an_address(&operations).collect();
    // The order in which `Allow` lists them.
    singles.sort_by_key(|operation| METHODS.iter().position(|method| operation.method == *method));
    for operation in singles {
        let bulk = operations.iter().find(|other| other.name != operation.name && is_at(other, operation));
        for path in operation.path_of_everyone().into_iter().chain([operation.path.to_owned()]) {
            let route = routes.remove(&path).unwrap_or_default();
            routes.insert(path, route.merge(route_of(app, operation, bulk)));
        }
    }
    let router = routes.into_iter().fold(Router::new(), |router, (path, route)| router.route(&path, route));
    PARTS.iter().fold(router, |router, routes| (routes.empty_names)(router))
}

/// A route of an operation, and of the one at the same address that takes lines.
fn route_of(app: &App, operation: &Operation, bulk: Option<&Operation>) -> MethodRouter<App> {
    let with_metrics = |operation: &Operation| (operation.serve(), app.metrics().seconds(operation.name));
    let (one, bulk) = (with_metrics(operation), bulk.map(with_metrics));
    let time_class = operation.time_class;
    let handler = async move |State(app): State<App>, request: Request| match &bulk {
        Some((serve, seconds)) if is_ndjson(request.headers()) => {
            serve(app, request, seconds.clone(), TimeClass::Bulk).await
        }
        _ => (one.0)(app, request, one.1.clone(), time_class).await,
    };
    on(filter(&operation.method), handler)
}

fn filter(method: &Method) -> MethodFilter {
    match *method {
        Method::PUT => MethodFilter::PUT,
        Method::PATCH => MethodFilter::PATCH,
        Method::POST => MethodFilter::POST,
        Method::DELETE => MethodFilter::DELETE,
        _ => MethodFilter::GET,
    }
}
