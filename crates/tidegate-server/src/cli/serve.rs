//! `tidegate serve`, and a worker alone, `tidegate edge`.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use tidegate::Tidegate;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::args::ServeArgs;
use super::message;
use crate::connection::{Reach, listen};
use crate::edge::OpenEdge;
use crate::http::App;
use crate::parts::{PartSettings, Parts};
use crate::settings::Settings;
use crate::{log, serve as server};

/// Unused permits go back to the store even if requests are given no time to end.
const LEASES_BACK: Duration = Duration::from_secs(1);

/// How long a worker that ends tries to tell its origin so, and the pause between two tries.
const FAREWELL: Duration = Duration::from_secs(3);
const FAREWELL_PAUSE: Duration = Duration::from_millis(100);

pub(super) fn serve(args: &ServeArgs) -> Result<(), String> {
    let settings = Settings::load(&args.sources()).map_err(message)?;
    start(settings, async |mut settings: Settings| {
        let api = Some(listen(&settings.listen, &settings.http, Reach::Trusted).await?);
        let edge = edge_listener(&settings).await?;
        let app = App::new(Parts::for_server(&mut settings).await?);
        Ok((settings, app, Listeners { api, edge }))
    })
}

/// A worker alone: redirects, and the API only where it is asked for.
pub(super) fn serve_edge(mut settings: Settings) -> Result<(), String> {
    if let Some(edge) = &mut settings.edge {
        edge.options.is_alone = true;
    }
    start(settings, async |settings: Settings| {
        let api = match settings.is_listen_set {
            true => Some(listen(&settings.listen, &settings.http, Reach::Trusted).await?),
            false => None,
        };
        let edge = edge_listener(&settings).await?;
        // Nothing is kept here but what others have.
        let gate = Tidegate::open("memory:").await.map_err(message)?;
        let parts = Parts::open(gate, &PartSettings::default()).map_err(message)?;
        let parts = parts.with_edge(settings.edge.as_ref()).await.map_err(message)?;
        Ok((settings, App::new(parts), Listeners { api, edge }))
    })
}

/// Where requests come in.
struct Listeners {
    api: Option<TcpListener>,
    edge: Option<TcpListener>,
}

async fn edge_listener(settings: &Settings) -> Result<Option<TcpListener>, String> {
    match &settings.edge {
        Some(edge) => listen(&edge.listen, &settings.http, Reach::Everybody).await.map(Some),
        None => Ok(None),
    }
}

fn start(
    settings: Settings,
    open: impl AsyncFnOnce(Settings) -> Result<(Settings, App, Listeners), String>,
) -> Result<(), String> {
    log::start(&settings.log).map_err(|error| format!("cannot start the log: {error}"))?;
    if settings.edge.is_some() {
        // A huge page stays whole in memory for whatever little of it is used, and redirects are no faster with them. Where
        // that cannot be said it is as the system has it.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
    let runtime = super::runtime()?;
    let served = runtime.block_on(async {
        let (settings, app, listeners) = open(settings).await?;
        run_until_signal(&settings, app, listeners).await
    });
    // A task that hangs does not hold the process: it has had its deadline.
    runtime.shutdown_background();
    served
}

async fn run_until_signal(settings: &Settings, app: App, listeners: Listeners) -> Result<(), String> {
    let mut signals = signals()?;
    let Listeners { api, edge } = listeners;
    if let Some(bound) = bound(api.as_ref())? {
        announce(&format!("http://{bound}"));
        tracing::info!(address = %bound, store = settings.store.url.scheme(), limits = settings.parts.limits.len(), "serving");
    }
    if let Some(bound) = bound(edge.as_ref())? {
        announce(&format!("http://{bound}"));
        tracing::info!(address = %bound, "serving redirects");
    }
    let (stop, stopping) = watch::channel(false);
    let signalled = {
        let (app, mut signals) = (app.clone(), signals.clone());
        async move {
            let signal = nth(&mut signals, 1).await;
            app.drain();
            let delay = settings.http.drain_delay;
            if signal == TERMINATE && !delay.is_zero() {
                let delay_shown = humantime::format_duration(delay);
                tracing::info!(signal, drain_delay = %delay_shown, "not ready any more; requests are still taken");
                tokio::time::sleep(delay).await;
            }
            let deadline = humantime::format_duration(settings.http.shutdown_deadline);
            tracing::info!(signal, %deadline, "stopping: no more connections, requests in flight may end");
            stop.send_replace(true);
        }
    };
    let until_stop = || {
        let mut stopping = stopping.clone();
        async move { drop(stopping.wait_for(|is_stopping| *is_stopping).await) }
    };
    let requests = async {
        match api {
            Some(listener) => server::run(listener, app.clone(), &settings.http, until_stop()).await.cut,
            None => 0,
        }
    };
    let redirects = async {
        match edge {
            Some(listener) => server::run_edge(listener, &app, &settings.http, until_stop()).await.cut,
            None => 0,
        }
    };
    let ended = async {
        let ((), cut, cut_redirects) = tokio::join!(signalled, requests, redirects);
        let back = settings.http.shutdown_deadline.max(LEASES_BACK);
        if let Some(edge) = &app.parts().edge
            && tokio::time::timeout(back.min(FAREWELL), farewell(edge)).await.is_err()
        {
            tracing::warn!(
                "not all clicks could be told of, or not all permits given back: those count as spent"
            );
        }
        if tokio::time::timeout(back, app.gate().shutdown()).await.is_err() {
            tracing::warn!(
                "not all leases could be given back, which end by themselves, or not all gathered counts sent, which are lost"
            );
        }
        if let Some(rules) = &app.parts().rules {
            rules.truth.close().await;
        }
        cut + cut_redirects
    };
    tokio::select! {
        cut = ended => match cut {
            0 => tracing::info!("stopped"),
            cut => tracing::warn!(cut, "stopped, and cut connections that were busy at the deadline"),
        },
        signal = nth(&mut signals, 2) => {
            tracing::warn!(signal, "stopped at once by a second signal: requests in flight are cut, leases end by themselves");
        }
    }
    Ok(())
}

/// Tells of all clicks and gives all permits back. An origin that is away for a moment is asked again.
async fn farewell(edge: &OpenEdge) {
    while !edge.worker().stop().await {
        tokio::time::sleep(FAREWELL_PAUSE).await;
    }
}

fn bound(listener: Option<&TcpListener>) -> Result<Option<SocketAddr>, String> {
    let bound = listener.map(TcpListener::local_addr).transpose();
    bound.map_err(|error| format!("cannot know where it listens: {error}"))
}

/// A line of standard output, for who started us on port 0.
fn announce(url: &str) {
    let mut out = std::io::stdout().lock();
    // A closed standard output is no reason not to serve.
    let _ = writeln!(out, "{url}").and_then(|()| out.flush());
}

const TERMINATE: &str = "SIGTERM";

/// The last signal that ends a server, and how many there were.
type Signals = watch::Receiver<(usize, &'static str)>;

/// Waits until there were `count` signals; the last one.
async fn nth(signals: &mut Signals, count: usize) -> &'static str {
    let seen = signals.wait_for(|(seen, _)| *seen >= count).await.map(|seen| seen.1);
    match seen {
        Ok(signal) => signal,
        // Nothing can end it then but the system.
        Err(_) => std::future::pending().await,
    }
}

/// Listens for the signals that end a server. A terminal that is closed, or somebody who hopes that settings are read
/// again, ends none.
fn signals() -> Result<Signals, String> {
    let failed = |error| format!("cannot listen for signals: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let (sender, signals) = watch::channel((0, ""));
    tokio::spawn(async move {
        loop {
            let signal = tokio::select! {
                _ = terminate.recv() => TERMINATE,
                _ = interrupt.recv() => "SIGINT",
                _ = hangup.recv() => {
                    tracing::info!("SIGHUP changes nothing: settings are read at the start");
                    continue;
                }
            };
            sender.send_modify(|(count, last)| (*count, *last) = (*count + 1, signal));
        }
    });
    Ok(signals)
}
