//! Processor time that a redirect costs: ours, with an end, a host and its click counted; nginx with a `map`; and hyper with
//! nothing to look up.

use anyhow::Result;

use super::clicks::{Links as Clicked, cpu_us_each, mixed};
use super::links::Links;
use super::nginx::{NGINX, NO_NGINX, Nginx};
use super::ours;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};
use crate::server::Server;
use crate::{peers, progress};

const NAME: &str = "edge.cpu_per_redirect";

/// The others are no cheaper.
const GOAL: Goal = Goal::AtMost(1.0);

pub(super) async fn figures(effort: Effort, links: &Links) -> Result<Vec<Figure>> {
    progress(NAME);
    let hyper = Server::announced(&mut std::process::Command::new(peers::fixed_redirect()?), 1)?;
    let ours = ours::start(links, &[]).await?;
    let nginx = Nginx::is_installed().then(|| Nginx::start(links)).transpose()?;
    let mut contenders = vec![
        (ours.redirects(), vec![ours.pid()], Clicked::Known),
        (hyper.address(), vec![hyper.pid()], Clicked::Fixed),
    ];
    if let Some(nginx) = &nginx {
        contenders.push((nginx.address(), nginx.pids()?, Clicked::Known));
    }
    let mut samples = Samples::new();
    for round in 0..=effort.rounds {
        let order = mixed(effort.pick(20_000, 50_000), links.count, round);
        let mut sample = [f64::NAN; 3];
        for turn in 0..contenders.len() {
            // Nobody always follows the same neighbour.
            let at = (turn + round) % contenders.len();
            let (address, pids, clicked) = contenders[at].clone();
            sample[at] = cpu_us_each(address, pids, clicked, order.clone()).await?;
        }
        if round > 0 {
            samples.push(sample);
        }
    }
    let [ours, hyper, theirs] = samples.medians();
    let figure = |name: &str| Figure::ours(&format!("{NAME}{name}"), "µs", ours);
    Ok(vec![
        match nginx {
            Some(_) => figure("").beside(NGINX, theirs).goal(GOAL),
            None => figure("").without(NO_NGINX, GOAL),
        },
        figure(".hyper").beside("hyper, a fixed 302", hyper).goal(GOAL),
    ])
}
