//! Processor time that a decision over HTTP costs the server: ours on the memory
//! store, and throttlecrab-server, asked by the same client for the same limit.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use tokio::task::JoinSet;

use super::keys::{keys, mixed};
use crate::http_client::{Connection, request};
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};
use crate::server::Server;
use crate::{cpu, peers, progress};

const THROTTLECRAB: &str = "throttlecrab-server";

/// Connections, each with one request at a time.
const CONNECTIONS: usize = 16;
const KEYS: usize = 10_000;

/// A limit that admits all we ask for, and one that soon admits nothing more: the
/// name of ours, permits a minute, and at once.
const AMPLE: (&str, u32, u32) = ("ample", 60_000, 1_000);
const SCARCE: (&str, u32, u32) = ("scarce", 1, 5);

pub(super) async fn figures(effort: Effort) -> Result<Vec<Figure>> {
    let (ours, peer) = (peers::tidegate()?, peers::throttlecrab()?);
    progress("limit.http: processor time per decision");
    let ours = {
        let mut settings = Vec::new();
        for (name, per_minute, burst) in [AMPLE, SCARCE] {
            settings.push((format!("limits.{name}.algorithm"), "token".to_owned()));
            settings.push((format!("limits.{name}.rate"), format!("{per_minute}/m")));
            settings.push((format!("limits.{name}.burst"), burst.to_string()));
        }
        let settings: Vec<_> = settings.iter().map(|(path, value)| (path.as_str(), value.as_str())).collect();
        Contender::new(Server::tidegate(&ours, &settings)?, &keys(KEYS), |(name, ..), key| {
            (format!("/v1/limits/{name}/take"), format!(r#"{{"key":"{key}"}}"#))
        })
    };
    let peer = Contender::new(Server::throttlecrab(&peer)?, &keys(KEYS), |(_, per_minute, burst), key| {
        let limit = format!(r#""max_burst":{burst},"count_per_period":{per_minute},"period":60"#);
        ("/throttle".to_owned(), format!(r#"{{"key":"{key}",{limit}}}"#))
    });
    for contender in [&ours, &peer] {
        contender.check().await?;
    }
    let order: Arc<[u32]> = mixed(effort.pick(10_000, 30_000), KEYS).into();
    let ample = alternate(effort, &ours, &peer, Load::Ample, &order).await?;
    // All keys are used up before anything is counted.
    let used_up: Arc<[u32]> = (0..SCARCE.2).flat_map(|_| 0..KEYS as u32).collect();
    for contender in [&ours, &peer] {
        contender.turn(Load::Scarce, &used_up, None).await?;
    }
    let scarce = alternate(effort, &ours, &peer, Load::Scarce, &order).await?;
    let cpu = |name: &str, [[ours, _], [peer, _]]: [[f64; 2]; 2]| {
        Figure::ours(name, "µs", ours).beside(THROTTLECRAB, peer)
    };
    let [[_, ops], [_, peer_ops]] = ample;
    Ok(vec![
        cpu("limit.http.cpu_per_decision", ample).goal(Goal::AtMost(0.7)),
        cpu("limit.http.cpu_per_decision.reject", scarce),
        Figure::ours("limit.http.ops", "ops/s", ops).beside(THROTTLECRAB, peer_ops),
    ])
}

#[derive(Debug, Clone, Copy)]
enum Load {
    Ample,
    Scarce,
}

/// A server, with all we ever ask of it.
struct Contender {
    server: Server,
    ample: Arc<[Vec<u8>]>,
    scarce: Arc<[Vec<u8>]>,
    /// Ours to see that it decides, and that nobody else uses the key.
    probe: Vec<u8>,
}

impl Contender {
    /// `ask` gives path and body of a take by a key from a limit.
    fn new(
        server: Server,
        keys: &[String],
        ask: impl Fn((&'static str, u32, u32), &str) -> (String, String),
    ) -> Self {
        let host = server.address();
        let build = |limit, key: &str| {
            let (path, body) = ask(limit, key);
            request(host, &path, &body)
        };
        let all = |limit| keys.iter().map(|key| build(limit, key)).collect();
        Self { ample: all(AMPLE), scarce: all(SCARCE), probe: build(SCARCE, "probe"), server }
    }

    /// Makes sure that it decides, and by the numbers it was given.
    async fn check(&self) -> Result<()> {
        let mut connection = Connection::open(self.server.address()).await?;
        let mut admitted = Vec::new();
        for _ in 0..SCARCE.2 + 3 {
            admitted.push(connection.is_admitted(&self.probe).await?);
        }
        let expected: Vec<bool> = (0..SCARCE.2 + 3).map(|at| at < SCARCE.2).collect();
        ensure!(admitted == expected, "a burst of {} was decided {admitted:?}", SCARCE.2);
        Ok(())
    }

    /// Asks in `order` over all connections: microseconds of the server's processor
    /// time per decision, and decisions per second.
    async fn turn(&self, load: Load, order: &Arc<[u32]>, expect: Option<bool>) -> Result<[f64; 2]> {
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS {
            open.push(Connection::open(self.server.address()).await?);
        }
        let requests = match load {
            Load::Ample => &self.ample,
            Load::Scarce => &self.scarce,
        };
        // A connection is not part of a decision.
        for connection in &mut open {
            connection.is_admitted(&self.probe).await?;
        }
        let used = cpu::used_by(self.server.pid())?;
        let start = tidegate::clock::monotonic();
        let mut tasks = JoinSet::new();
        for (task, mut connection) in open.into_iter().enumerate() {
            let (requests, order) = (requests.clone(), order.clone());
            tasks.spawn(async move {
                let mut wrong = 0_usize;
                for at in order.iter().skip(task).step_by(CONNECTIONS) {
                    let is_admitted = connection.is_admitted(&requests[*at as usize]).await?;
                    wrong += usize::from(expect.is_some_and(|expected| expected != is_admitted));
                }
                anyhow::Ok((connection, wrong))
            });
        }
        // Kept until all is counted: neither is closing one.
        let mut ended = Vec::new();
        while let Some(done) = tasks.join_next().await {
            ended.push(done.context("a task failed")??);
        }
        let taken = start.elapsed();
        let used = cpu::used_by(self.server.pid())?.saturating_sub(used);
        let wrong: usize = ended.iter().map(|(_, wrong)| wrong).sum();
        ensure!(wrong == 0, "{wrong} of {} decisions were not {expect:?}", order.len());
        let decisions = order.len() as f64;
        Ok([used.as_secs_f64() * 1e6 / decisions, decisions / taken.as_secs_f64()])
    }
}

/// The medians of both.
async fn alternate(
    effort: Effort,
    ours: &Contender,
    peer: &Contender,
    load: Load,
    order: &Arc<[u32]>,
) -> Result<[[f64; 2]; 2]> {
    let expect = Some(matches!(load, Load::Ample));
    let mut turns: [Samples<2>; 2] = std::array::from_fn(|_| Samples::new());
    for round in 0..=effort.rounds {
        for turn in 0..2 {
            let who = (turn + round) % 2;
            let seen = [ours, peer][who].turn(load, order, expect).await?;
            if round > 0 {
                turns[who].push(seen);
            }
        }
    }
    Ok(turns.map(Samples::medians))
}
