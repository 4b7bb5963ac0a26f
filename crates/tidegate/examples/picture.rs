//! Draws `docs/limits.svg`: what each kind of limit admits of the same burst.
//!
//! ```text
//! cargo run -p tidegate --example picture > docs/limits.svg
//! ```
//!
//! Every call is really made, on a clock that is moved by hand. All limits allow
//! 10 a second on average. What is offered: 5 a second, then 40 for half a minute,
//! then 5 again; a calendar minute begins in the middle of it.

use std::fmt::Write as _;
use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::{Algorithm, Calendar, LimitOptions, Period, Sliding, Suppressed, Token};
use tidegate::random::Random;
use tidegate::store::StoreOptions;
use tidegate::{Cost, Key, Result, Tidegate};

/// Half a minute before a minute begins.
const START_MS: u64 = 1_800_000_030_000;
const SECONDS: usize = 60;

/// Calls that are made in a second.
fn offered(second: usize) -> u64 {
    if (10..40).contains(&second) { 40 } else { 5 }
}

struct Panel {
    title: &'static str,
    about: &'static str,
    algorithm: Algorithm,
}

fn panels() -> Result<Vec<Panel>> {
    let sliding = Sliding::new("10/s".parse()?, Duration::from_secs(10))?;
    let panel = |title, about, algorithm| Panel { title, about, algorithm };
    Ok(vec![
        panel("sliding", "100 in any 10 s: first come, first served", sliding.into()),
        panel(
            "suppressed",
            "100 per 10 s, above that some, above 200 offered none",
            Suppressed::new(sliding, 2.0)?.into(),
        ),
        panel("smooth", "100 per 10 s, whoever it is: a fair sample", Suppressed::smooth(sliding).into()),
        panel(
            "token",
            "100 at once, then as they come in: 10/s",
            Token::new("10/s".parse()?, Cost::new(100)?)?.into(),
        ),
        panel(
            "calendar",
            "600 per minute, and another 600 when the next begins",
            Calendar::new(600, Period::Minute)?.into(),
        ),
    ])
}

/// How many calls are admitted in each second.
async fn admitted(algorithm: Algorithm) -> Result<Vec<u64>> {
    let clock = ManualClock::at(Timestamp::from_millis(START_MS));
    let mut options = StoreOptions::default();
    options.clock = clock.clone().into();
    options.random = Random::seeded(1);
    let gate = Tidegate::open_with("memory:", options).await?;
    let limit = gate.limit("api", algorithm, LimitOptions::default())?;
    let mut admitted = vec![0; SECONDS];
    for (second, count) in admitted.iter_mut().enumerate() {
        for call in 0..offered(second) {
            let ms = second as u64 * 1000 + call * 1000 / offered(second);
            clock.set(Timestamp::from_millis(START_MS + ms));
            *count += u64::from(limit.take(Key::EVERYONE, Cost::ONE).await?.is_admitted());
        }
    }
    Ok(admitted)
}

const LEFT: f64 = 44.0;
const PER_SECOND: f64 = 11.6;
const PER_CALL: f64 = 1.7;
const PANEL: f64 = 122.0;
const TOP: f64 = 56.0;
const WIDTH: f64 = LEFT + SECONDS as f64 * PER_SECOND + 20.0;

const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#24292f}\
.h{font-weight:600;font-size:14px}\
.q{fill:#57606a}\
.o{fill:#d8dee4}\
.a{fill:#0969da}\
.l{stroke:#57606a;stroke-width:1;stroke-dasharray:3 3}\
.x{stroke:#8c959f;stroke-width:1}";

/// The whole picture.
pub(crate) async fn picture() -> Result<String> {
    let panels = panels()?;
    let height = TOP + panels.len() as f64 * PANEL + 28.0;
    // Writing to a String cannot fail.
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-label="What each kind of limit admits of the same burst">
<style>{STYLE}</style>
<rect width="100%" height="100%" fill="white"/>
<text class="h" x="{LEFT}" y="22">What each kind of limit admits of the same burst</text>
<rect class="o" x="{LEFT}" y="33" width="11" height="11"/><text class="q" x="60" y="43">offered per second</text>
<rect class="a" x="190" y="33" width="11" height="11"/><text class="q" x="206" y="43">admitted per second</text>
<line class="l" x1="344" y1="39" x2="366" y2="39"/><text class="q" x="372" y="43">10/s, which all of them allow on average</text>
"#
    );
    let total: u64 = (0..SECONDS).map(offered).sum();
    for (index, panel) in panels.iter().enumerate() {
        let admitted = admitted(panel.algorithm).await?;
        let base = TOP + (index + 1) as f64 * PANEL - 14.0;
        draw(&mut svg, panel, &admitted, total, base);
    }
    let bottom = TOP + panels.len() as f64 * PANEL + 4.0;
    for second in (0..=SECONDS).step_by(10) {
        let (x, unit) = (x(second), if second == 0 { " s" } else { "" });
        let _ = writeln!(
            svg,
            r#"<text class="q" x="{x:.1}" y="{bottom}" text-anchor="middle">{second}{unit}</text>"#
        );
    }
    svg += "</svg>\n";
    Ok(svg)
}

fn x(second: usize) -> f64 {
    LEFT + second as f64 * PER_SECOND
}

fn draw(svg: &mut String, panel: &Panel, admitted: &[u64], total: u64, base: f64) {
    let Panel { title, about, .. } = panel;
    let (right, passed) = (x(SECONDS), admitted.iter().sum::<u64>());
    let head = base - 40.0 * PER_CALL - 9.0;
    let _ = writeln!(
        svg,
        r#"<text x="{LEFT}" y="{head:.1}"><tspan class="h">{title}</tspan> <tspan class="q" dx="6">{about}</tspan></text>
<text class="q" x="{right:.1}" y="{head:.1}" text-anchor="end">{passed} of {total}</text>"#
    );
    for (class, calls) in [("o", (0..SECONDS).map(offered).collect()), ("a", admitted.to_vec())] {
        let mut path = String::new();
        for (second, calls) in calls.iter().enumerate().filter(|(_, calls)| **calls > 0) {
            let height = *calls as f64 * PER_CALL;
            let _ = write!(
                path,
                "M{:.1} {base:.1}v-{height:.1}h{:.1}v{height:.1}z",
                x(second) + 0.6,
                PER_SECOND - 1.2
            );
        }
        let _ = writeln!(svg, r#"<path class="{class}" d="{path}"/>"#);
    }
    let allowed = base - 10.0 * PER_CALL;
    let _ = writeln!(
        svg,
        r#"<line class="l" x1="{LEFT}" y1="{allowed:.1}" x2="{right:.1}" y2="{allowed:.1}"/>
<line class="x" x1="{LEFT}" y1="{base:.1}" x2="{right:.1}" y2="{base:.1}"/>
<text class="q" x="{:.1}" y="{:.1}" text-anchor="end">40</text>
<text class="q" x="{:.1}" y="{:.1}" text-anchor="end">10</text>"#,
        LEFT - 6.0,
        base - 40.0 * PER_CALL + 8.0,
        LEFT - 6.0,
        allowed + 4.0,
    );
    if let Algorithm::Calendar(_) = panel.algorithm {
        let (middle, top) = (x(SECONDS / 2), base - 40.0 * PER_CALL - 2.0);
        let _ = writeln!(
            svg,
            r#"<line class="x" x1="{middle:.1}" y1="{top:.1}" x2="{middle:.1}" y2="{base:.1}"/>"#
        );
    }
}

#[tokio::main(flavor = "current_thread")]
#[allow(dead_code, reason = "a test draws it too, and compares")]
async fn main() -> Result<()> {
    #[allow(clippy::print_stdout, reason = "that is what it is for")]
    {
        print!("{}", picture().await?);
    }
    Ok(())
}
