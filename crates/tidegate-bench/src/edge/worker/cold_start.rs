//! How long it takes from the start of a process until it redirects, with all links there were.

use anyhow::Result;
use tidegate::clock::monotonic;

use super::links::Links;
use super::nginx::{NGINX, NO_NGINX, Nginx};
use super::ours;
use crate::progress;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};

const NAME: &str = "edge.cold_start_ms";

pub(super) async fn figures(effort: Effort, links: &Links) -> Result<Vec<Figure>> {
    progress(NAME);
    let mut samples = Samples::new();
    for _ in 0..effort.pick(3, 7) {
        let keys = ours_ms(links, "keys").await?;
        let theirs = if Nginx::is_installed() { theirs_ms(links)? } else { f64::NAN };
        let bodies = ours_ms(links, "bodies").await?;
        samples.push([keys, theirs, bodies]);
    }
    let [keys, theirs, bodies] = samples.medians();
    let (figure, goal) = (Figure::ours(NAME, "ms", keys), Goal::AtMost(1.0));
    let bodies = Figure::ours(&format!("{NAME}.bodies"), "ms", bodies);
    Ok(match Nginx::is_installed() {
        true => vec![figure.beside(NGINX, theirs).goal(goal), bodies.beside(NGINX, theirs)],
        false => vec![figure.without(NO_NGINX, goal), bodies],
    })
}

/// Until it is ready: which links there are is known, and with `bodies` where they lead too.
async fn ours_ms(links: &Links, hydrate: &str) -> Result<f64> {
    let (_server, begun) = ours::started(links, &[("edge.hydrate", hydrate)]).await?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

fn theirs_ms(links: &Links) -> Result<f64> {
    let begun = monotonic();
    let _nginx = Nginx::start(links)?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}
