//! A terminal that is drawn anew, and the keys that are pressed meanwhile.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::pin::pin;
use std::time::Duration;

use console::{Term, truncate_str};
use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use tokio::sync::mpsc;

use super::render::printable;

/// No server is asked more often.
pub(super) const LEAST: Duration = Duration::from_millis(100);

/// Whether somebody looks, who can press keys.
pub(super) fn is_seen() -> bool {
    std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

/// What `lines` says for so many rows, drawn anew until it says nothing or somebody has seen enough.
pub(super) async fn live(
    interval: Duration,
    mut lines: impl AsyncFnMut(u16) -> Option<Result<Vec<String>, String>>,
) -> Result<(), String> {
    let term = Term::stdout();
    let _screen = Screen::enter().map_err(|error| format!("cannot use the terminal: {error}"))?;
    let mut keys = keys();
    let mut ticks = tokio::time::interval(interval.max(LEAST));
    loop {
        let next = async {
            ticks.tick().await;
            let (rows, columns) = term.size();
            (rows, columns, lines(rows).await)
        };
        let Some((rows, columns, Some(lines))) = unless_quit(&mut keys, next).await else { return Ok(()) };
        // What failed may be back with the next.
        let lines = lines.unwrap_or_else(|error| vec![printable(&error)]);
        let fits = lines.iter().take(usize::from(rows).saturating_sub(1));
        let fits: Vec<_> =
            fits.map(|line| truncate_str(line, usize::from(columns), "…").into_owned()).collect();
        draw(&fits).map_err(|error| format!("cannot draw: {error}"))?;
    }
}

/// Over what was there: no flicker.
fn draw(lines: &[String]) -> std::io::Result<()> {
    let mut text = String::from("\x1b[H");
    for line in lines {
        text += line;
        text += "\x1b[K\r\n";
    }
    text += "\x1b[J";
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Whether a key says that it is enough: `q`, Escape or Ctrl-C; no key can come any more at the end.
fn is_quit(key: Option<u8>) -> bool {
    matches!(key, Some(b'q' | b'Q' | 3 | 27) | None)
}

/// What is waited for; none if a key says before that it is enough.
async fn unless_quit<T>(keys: &mut mpsc::Receiver<u8>, awaited: impl Future<Output = T>) -> Option<T> {
    let mut awaited = pin!(awaited);
    loop {
        tokio::select! {
            done = &mut awaited => return Some(done),
            key = keys.recv() => if is_quit(key) { return None },
            _ = tokio::signal::ctrl_c() => return None,
        }
    }
}

/// Keys as they are pressed. The thread ends with the process.
fn keys() -> mpsc::Receiver<u8> {
    let (pressed, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        for byte in std::io::stdin().lock().bytes().map_while(Result::ok) {
            if pressed.blocking_send(byte).is_err() {
                return;
            }
        }
    });
    keys
}

/// A screen of our own, without echo. What was there before comes back with the end.
struct Screen {
    before: Termios,
}

impl Screen {
    fn enter() -> std::io::Result<Self> {
        let before = termios::tcgetattr(std::io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &quiet)?;
        let screen = Self { before };
        let mut out = std::io::stdout().lock();
        out.write_all(b"\x1b[?1049h\x1b[?25l")?;
        out.flush()?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // There is nothing to be done if the terminal has gone.
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(b"\x1b[?25h\x1b[?1049l").and_then(|()| out.flush());
        let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}
