//! Figures: what was measured, beside whom, and what it should be.

use std::fmt::{self, Write as _};

use serde::{Serialize, Serializer};

/// What a figure should be. It is about the ratio where there is a peer, unless it
/// is said to be our own, and about our own value where there is none.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
}

impl Goal {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "<= {most:?}"),
            Self::AtLeast(least) => write!(f, ">= {least:?}"),
        }
    }
}

impl Serialize for Goal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One line of the report.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    figure: String,
    ours: f64,
    peer: Option<f64>,
    peer_name: Option<&'static str>,
    unit: &'static str,
    ratio: Option<f64>,
    goal: Option<Goal>,
    ok: Option<bool>,
}

/// Whether a group of figures is asked for: by its own name, by a shorter or by a longer one.
pub(crate) fn is_wanted(group: &str, only: &str) -> bool {
    group.starts_with(only) || only.starts_with(group)
}

impl Figure {
    /// Our value alone.
    pub(crate) fn ours(figure: &str, unit: &'static str, ours: f64) -> Self {
        Self {
            figure: figure.to_owned(),
            ours,
            peer: None,
            peer_name: None,
            unit,
            ratio: None,
            goal: None,
            ok: None,
        }
    }

    /// Whether its name starts like this.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.figure.starts_with(name)
    }

    /// The same, beside a peer.
    pub(crate) fn beside(mut self, peer_name: &'static str, peer: f64) -> Self {
        (self.peer, self.peer_name) = (Some(peer), Some(peer_name));
        self.ratio = Some(self.ours / peer);
        self
    }

    /// The same, with a goal beside a peer that is not there: nobody knows whether it is met, so it is not.
    pub(crate) fn without(mut self, peer_name: &'static str, goal: Goal) -> Self {
        (self.peer_name, self.goal, self.ok) = (Some(peer_name), Some(goal), Some(false));
        self
    }

    /// The same, with a goal; without one it is only reported.
    pub(crate) fn goal(mut self, goal: Goal) -> Self {
        self.ok = Some(goal.is_met_by(self.ratio.unwrap_or(self.ours)));
        self.goal = Some(goal);
        self
    }

    /// The same, with a goal for our own value, whatever the peer's is.
    pub(crate) fn own_goal(mut self, goal: Goal) -> Self {
        self.ok = Some(goal.is_met_by(self.ours));
        self.goal = Some(goal);
        self
    }

    fn cells(&self) -> [String; 8] {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let verdict = self.ok.map(|ok| if ok { "ok" } else { "short" }.to_owned());
        [
            self.figure.clone(),
            number(self.ours),
            or_dash(self.peer.map(number)),
            or_dash(
                self.ratio
                    .map(|ratio| if ratio < 0.01 { format!("{ratio:.6}") } else { format!("{ratio:.2}") }),
            ),
            or_dash(self.goal.map(|goal| goal.to_string())),
            or_dash(verdict),
            self.unit.to_owned(),
            or_dash(self.peer_name.map(str::to_owned)),
        ]
    }
}

/// All figures as aligned columns, under a header.
pub(crate) fn table(figures: &[Figure]) -> String {
    let header = ["figure", "ours", "peer", "ratio", "goal", "", "unit", "peer name"];
    let mut rows = vec![header.map(str::to_owned)];
    rows.extend(figures.iter().map(Figure::cells));
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; 8] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            // Numbers end in the same column, words start in it.
            let _ = match column {
                1..=3 => write!(line, "{cell:>width$}  "),
                _ => write!(line, "{cell:<width$}  "),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Few digits of small numbers, whole large ones.
fn number(value: f64) -> String {
    match value {
        value if value >= 1000.0 => format!("{value:.0}"),
        value if value >= 100.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_about_the_ratio_if_there_is_a_peer() {
        let met = |figure: Figure| figure.ok;
        let beside = || Figure::ours("a", "ns", 30.0).beside("b", 40.0);
        assert_eq!(met(beside().goal(Goal::AtMost(0.8))), Some(true));
        assert_eq!(met(beside().goal(Goal::AtMost(0.7))), Some(false));
        assert_eq!(met(Figure::ours("a", "B", 8.0).goal(Goal::AtMost(12.0))), Some(true));
        assert_eq!(met(Figure::ours("a", "B", 8.0)), None);
        assert_eq!(met(Figure::ours("a", "B", 8.0).without("b", Goal::AtLeast(0.3))), Some(false));
    }

    #[test]
    fn json_says_null_where_there_is_nothing() {
        let json = serde_json::to_string(&Figure::ours("a", "ns", 1.5)).unwrap();
        assert_eq!(
            json,
            r#"{"figure":"a","ours":1.5,"peer":null,"peer_name":null,"unit":"ns","ratio":null,"goal":null,"ok":null}"#
        );
        let beside = Figure::ours("a", "ns", 1.0).beside("b", 2.0).goal(Goal::AtMost(1.0));
        let json = serde_json::to_string(&beside).unwrap();
        assert!(json.ends_with(r#""ratio":0.5,"goal":"<= 1.0","ok":true}"#), "{json}");
    }
}
