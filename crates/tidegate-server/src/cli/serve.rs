//! `tidegate serve`.

use std::io::Write as _;
use std::time::Duration;

use tokio::sync::watch;

use super::args::ServeArgs;
use crate::connection::listen;
use crate::http::App;
use crate::parts::Parts;
use crate::settings::Settings;
use crate::{log, serve as server};

/// Unused permits go back to the store even if requests are given no time to end.
const LEASES_BACK: Duration = Duration::from_secs(1);

pub(super) fn serve(args: &ServeArgs) -> Result<(), String> {
    let settings = Settings::load(&args.sources()).map_err(|error| error.to_string())?;
    log::start(&settings.log).map_err(|error| format!("cannot start the log: {error}"))?;
    let runtime = super::runtime()?;
    let served = runtime.block_on(run_until_signal(settings));
    // A task that hangs does not hold the process: it has had its deadline.
    runtime.shutdown_background();
    served
}

async fn run_until_signal(mut settings: Settings) -> Result<(), String> {
    let listener = listen(&settings.listen, &settings.http).await?;
    let bound = listener.local_addr().map_err(|error| format!("cannot know where it listens: {error}"))?;
    let app = App::new(Parts::for_server(&mut settings).await?);
    let mut signals = signals()?;
    outlive_hangups()?;
    announce(&format!("http://{bound}"));
    tracing::info!(address = %bound, store = settings.store.url.scheme(), limits = settings.parts.limits.len(), "serving");
    let shutdown = {
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
        }
    };
    let ended = async {
        let ended = server::run(listener, app.clone(), &settings.http, shutdown).await;
        let back = settings.http.shutdown_deadline.max(LEASES_BACK);
        if tokio::time::timeout(back, app.gate().shutdown()).await.is_err() {
            tracing::warn!("not all leases could be given back: what is left of them ends by itself");
        }
        ended
    };
    tokio::select! {
        ended = ended => match ended.cut {
            0 => tracing::info!("stopped"),
            cut => tracing::warn!(cut, "stopped, and cut connections that were busy at the deadline"),
        },
        signal = nth(&mut signals, 2) => {
            tracing::warn!(signal, "stopped at once by a second signal: requests in flight are cut, leases end by themselves");
        }
    }
    Ok(())
}

/// The first line of standard output, for who started us on port 0.
fn announce(url: &str) {
    let mut out = std::io::stdout().lock();
    // A closed standard output is no reason not to serve.
    let _ = writeln!(out, "{url}").and_then(|()| out.flush());
}

/// A terminal that is closed, or somebody who hopes that settings are read again, ends no server.
#[cfg(unix)]
fn outlive_hangups() -> Result<(), String> {
    use tokio::signal::unix::{SignalKind, signal};
    let hangup = signal(SignalKind::hangup());
    let mut hangup = hangup.map_err(|error| format!("cannot listen for signals: {error}"))?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            tracing::info!("SIGHUP changes nothing: settings are read at the start");
        }
    });
    Ok(())
}

#[cfg(not(unix))]
fn outlive_hangups() -> Result<(), String> {
    Ok(())
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

/// Listens for the signals that end a server.
#[cfg(unix)]
fn signals() -> Result<Signals, String> {
    use tokio::signal::unix::{SignalKind, signal};
    let failed = |error| format!("cannot listen for signals: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let (sender, signals) = watch::channel((0, ""));
    tokio::spawn(async move {
        loop {
            let signal = tokio::select! {
                _ = terminate.recv() => TERMINATE,
                _ = interrupt.recv() => "SIGINT",
            };
            sender.send_modify(|(count, last)| (*count, *last) = (*count + 1, signal));
        }
    });
    Ok(signals)
}

#[cfg(not(unix))]
fn signals() -> Result<Signals, String> {
    let (sender, signals) = watch::channel((0, ""));
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            sender.send_modify(|(count, last)| (*count, *last) = (*count + 1, "Ctrl-C"));
        }
    });
    Ok(signals)
}
