//! Databases with rules in them.

use anyhow::{Result, bail};
use tempfile::TempDir;
use tidegate_edge::rule::{Draft, Terms};
use tidegate_edge::truth::{Change, Truth, TruthOptions};

/// Rules that are made in one transaction.
const TOGETHER: usize = 500;

/// A rule, the number of which says all of it. One in a million has the tag `rare`, and leads elsewhere.
pub(super) fn draft(number: usize, is_rare: bool) -> Draft {
    let (path, destination) = if is_rare {
        ("/zz-rare".to_owned(), "https://rare.example/".to_owned())
    } else {
        (format!("/p/{number:07}"), format!("https://example.com/target/{number:07}"))
    };
    let mut terms = Terms::new(path, destination);
    terms.host = if is_rare { "rare.example" } else { "*" }.to_owned();
    terms.tags = vec![if is_rare { "rare" } else { "common" }.to_owned()];
    terms.enabled = !is_rare;
    let mut draft = Draft::new(terms);
    draft.id = Some(format!("r{number:07}"));
    draft
}

/// A file of its own with so many rules, the last of which is the rare one.
pub(super) async fn filled_file(count: usize) -> Result<(TempDir, Truth)> {
    let folder = tempfile::tempdir()?;
    let truth = filled(&format!("sqlite:{}", folder.path().join("rules.db").display()), count).await?;
    Ok((folder, truth))
}

/// A database that was empty with so many rules, the last of which is the rare one.
pub(super) async fn filled(url: &str, count: usize) -> Result<Truth> {
    let truth = Truth::open(url, &TruthOptions::default()).await?;
    for first in (0..count).step_by(TOGETHER) {
        let numbers = first..count.min(first + TOGETHER);
        let changes = numbers.map(|number| Change::Create(draft(number, number + 1 == count))).collect();
        for outcome in truth.change_all(changes).await? {
            if let Err(refusal) = outcome {
                bail!("a rule was refused: {refusal}");
            }
        }
    }
    Ok(truth)
}
