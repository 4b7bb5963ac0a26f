//! What the last page of a list costs beside the first, and a page that has one match among many.

use anyhow::{Result, ensure};
use tidegate::clock::monotonic;
use tidegate_edge::rule::State;
use tidegate_edge::truth::{Cursor, Filter, Truth};

use super::rules::{filled, filled_file};
use crate::postgres_server::PostgresServer;
use crate::progress;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};

/// Rules in a page.
const PAGE: usize = 100;

fn filter(change: impl FnOnce(&mut Filter)) -> Filter {
    let mut filter = Filter::default();
    change(&mut filter);
    filter
}

/// Microseconds of a page.
async fn page_us(truth: &Truth, filter: &Filter, cursor: Option<&Cursor>) -> Result<(f64, Option<Cursor>)> {
    let start = monotonic();
    let page = truth.list(filter.clone(), cursor.cloned(), PAGE).await?;
    Ok((start.elapsed().as_secs_f64() * 1e6, page.next))
}

/// Where the last page of a list begins.
async fn last_page(truth: &Truth, filter: &Filter) -> Result<Option<Cursor>> {
    let mut begin = None;
    while let (_, Some(next)) = page_us(truth, filter, begin.as_ref()).await? {
        begin = Some(next);
    }
    Ok(begin)
}

/// The last page beside the first, by each filter, and one match beside a page of many; in a file and on PostgreSQL.
pub(super) async fn figures(effort: Effort, wants: impl Fn(&str) -> bool) -> Result<Vec<Figure>> {
    let count = effort.pick(50_000, 1_000_000);
    let mut figures = Vec::new();
    if wants("edge.list_page_growth.sqlite") {
        progress("edge.list_page_growth.sqlite");
        let (_folder, truth) = filled_file(count).await?;
        figures.extend(of(&truth, "sqlite", effort).await?);
    }
    if wants("edge.list_page_growth.postgres") {
        progress("edge.list_page_growth.postgres");
        let server = PostgresServer::start()?;
        let truth = filled(&server.database("rules").await?, count).await?;
        figures.extend(of(&truth, "postgres", effort).await?);
    }
    Ok(figures)
}

async fn of(truth: &Truth, database: &str, effort: Effort) -> Result<Vec<Figure>> {
    let many = [
        ("all", Filter::default()),
        ("host", filter(|it| it.host = Some("*".to_owned()))),
        ("path", filter(|it| it.path_prefix = Some("/p/".to_owned()))),
        ("tag", filter(|it| it.tag = Some("common".to_owned()))),
        ("destination", filter(|it| it.destination_prefix = Some("https://example.com/".to_owned()))),
        ("state", filter(|it| it.state = Some(State::Live))),
    ];
    let one = [
        ("host", filter(|it| it.host = Some("rare.example".to_owned()))),
        ("path", filter(|it| it.path_prefix = Some("/zz".to_owned()))),
        ("tag", filter(|it| it.tag = Some("rare".to_owned()))),
        ("destination", filter(|it| it.destination_prefix = Some("https://rare".to_owned()))),
        ("state", filter(|it| it.state = Some(State::Disabled))),
    ];
    let mut figures = Vec::new();
    let name = |of: &str| format!("edge.list_page_growth.{database}.{of}");
    for (of, filter) in many {
        let last = last_page(truth, &filter).await?;
        ensure!(last.is_some(), "the list by {of} has one page");
        let mut samples = Samples::new();
        for _ in 0..effort.pick(15, 51) {
            samples.push([
                page_us(truth, &filter, last.as_ref()).await?.0,
                page_us(truth, &filter, None).await?.0,
            ]);
        }
        let [last_us, first_us] = samples.medians();
        let figure = Figure::ours(&name(of), "µs", last_us).beside("the first page", first_us);
        figures.push(figure.goal(Goal::AtMost(2.0)));
    }
    for (of, filter) in one {
        let mut samples = Samples::new();
        for _ in 0..effort.pick(15, 51) {
            let (one_us, next) = page_us(truth, &filter, None).await?;
            ensure!(next.is_none(), "the list by {of} goes on behind its one rule");
            samples.push([one_us, page_us(truth, &Filter::default(), None).await?.0]);
        }
        let [one_us, first_us] = samples.medians();
        let figure = Figure::ours(&name(&format!("one_by_{of}")), "µs", one_us);
        figures.push(figure.beside("a first page", first_us).goal(Goal::AtMost(2.0)));
    }
    Ok(figures)
}
