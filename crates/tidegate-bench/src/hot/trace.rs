//! Edits as Wikipedia has them in a day: most pages get one, a few get many.
//!
//! They are generated, the same in every run; a file of the real ones may be given
//! instead.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;

use anyhow::{Context as _, Result};
use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use tidegate::Key;
use tidegate::clock::Timestamp;
use tidegate::hot::Edit;

use super::random::Random;

/// One edit.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) at_ms: u64,
    pub(super) page: String,
    pub(super) id: String,
    pub(super) editor: String,
    pub(super) byte_change: i64,
}

impl Line {
    /// As our library takes it, made when the store's clock says.
    pub(super) fn edit(&self) -> Result<Edit<'_>> {
        let edit = Edit::new(Key::new(&self.page)?, &self.id, &self.editor);
        Ok(Edit { byte_change: self.byte_change, ..edit })
    }
}

const DAY_MS: u64 = 86_400_000;

/// The real day has 35,278 pages.
pub(super) const PAGES: usize = 35_000;

/// So many of a thousand pages have one edit only; of the others, those with twice
/// the edits are `2^TAIL` times as rare.
const ONE_EDIT: u64 = 935;
const TAIL: f64 = 3.4;
const MOST_EDITS: usize = 64;

/// Editors of a day, for as many pages.
const EDITORS: u64 = 10_500;

/// A day in the order of its edits: from `file`, or else generated with so many pages.
pub(super) fn day(file: Option<&Path>, pages: usize) -> Result<Vec<Line>> {
    let mut lines = match file {
        Some(path) => read(path).with_context(|| format!("cannot read {}", path.display()))?,
        None => generate(pages),
    };
    lines.sort_by_key(|line| line.at_ms);
    Ok(lines)
}

fn generate(pages: usize) -> Vec<Line> {
    let mut random = Random::new();
    let weights: Vec<f64> = (2..=MOST_EDITS).map(|edits| (edits as f64).powf(-TAIL)).collect();
    let mut lines = Vec::new();
    for number in 0..pages {
        let page = title(&mut random, number);
        let edits = if random.below(1000) < ONE_EDIT { 1 } else { 2 + random.weighted(&weights) };
        let mut at_ms = Timestamp::from_millis(1_442_016_000_000).as_millis() + random.below(DAY_MS);
        for _ in 0..edits {
            let id = format!("{}", 680_000_000 + lines.len());
            let editor = format!("Editor {}", random.below(EDITORS));
            let byte_change = random.below(4_000) as i64 - 1_000;
            lines.push(Line { at_ms, page: page.clone(), id, editor, byte_change });
            // From ten seconds to some two hours later, each doubling as likely.
            at_ms += (10_000.0 * 2_f64.powf(random.below(9_500) as f64 / 1000.0)) as u64;
        }
    }
    lines
}

/// A title of 23 bytes in the mean, with the wiki.
fn title(random: &mut Random, number: usize) -> String {
    const WIKIS: [&str; 5] = ["en", "de", "fr", "vi", "commons"];
    const WORDS: [&str; 8] =
        ["River", "List of", "Talk:", "History", "São Paulo", "station", "Category:", "album"];
    let mut title = format!("{}:", WIKIS[random.below(5) as usize]);
    for _ in 0..1 + random.below(3) {
        title.push_str(WORDS[random.below(8) as usize]);
        title.push(' ');
    }
    format!("{title}{number}")
}

#[derive(Deserialize)]
struct Raw {
    time: String,
    channel: String,
    page: String,
    user: String,
    delta: i64,
}

fn read(path: &Path) -> Result<Vec<Line>> {
    let file = File::open(path)?;
    let is_packed = path.extension().is_some_and(|it| it == "gz");
    let bytes: Box<dyn Read> = if is_packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut lines = Vec::new();
    for (number, text) in BufReader::new(bytes).lines().enumerate() {
        let raw: Raw = serde_json::from_str(&text?).with_context(|| format!("line {}", number + 1))?;
        lines.push(Line {
            at_ms: day_ms(&raw.time).with_context(|| format!("line {}: time {:?}", number + 1, raw.time))?,
            page: format!("{}:{}", raw.channel, raw.page),
            id: format!("{}", 680_000_000 + number),
            editor: raw.user,
            byte_change: raw.delta,
        });
    }
    Ok(lines)
}

/// `2015-09-12T00:46:58.771Z` within a month, which is all that a trace of a day needs.
fn day_ms(time: &str) -> Option<u64> {
    let number = |from: usize, to: usize| time.get(from..to)?.parse::<u64>().ok();
    let hours = number(8, 10)? * 24 + number(11, 13)?;
    let seconds = (hours * 60 + number(14, 16)?) * 60 + number(17, 19)?;
    Some(1_440_000_000_000 + seconds * 1000 + number(20, 23).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_generated_day_looks_like_the_real_one() {
        let lines = day(None, PAGES).unwrap();
        let mut edits: HashMap<&str, usize> = HashMap::new();
        lines.iter().for_each(|line| *edits.entry(&line.page).or_default() += 1);
        let single = edits.values().filter(|edits| **edits == 1).count() as f64 / edits.len() as f64;
        let most = edits.values().max().copied().unwrap_or(0);
        assert!((0.93..0.94).contains(&single), "{single}");
        assert!((38_000..41_000).contains(&lines.len()), "{}", lines.len());
        assert!((25..=MOST_EDITS).contains(&most), "{most}");
    }
}
