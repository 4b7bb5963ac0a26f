//! The links that workers are measured with: as many rules of one host, each for one path and with an end, in a file of ours and
//! in one of nginx's.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use tempfile::TempDir;
use tidegate_edge::formats::{Format, Reader};
use tidegate_edge::truth::{ImportOptions, Truth, TruthOptions};

use crate::progress;

/// The host that all of them are of.
pub(super) const HOST: &str = "go.example.com";

/// When they end: in the year 2100.
pub(super) const EXPIRES_AT_MS: u64 = 4_102_444_800_000;

/// Links from 0 on, in a folder that goes with this.
pub(super) struct Links {
    folder: TempDir,
    pub(super) count: usize,
}

/// Where a link is. Lower case: nginx knows no other.
pub(super) fn path(number: usize) -> String {
    format!("/promo/2026/{number:08}")
}

/// Where it leads. The digits at its end are its number.
pub(super) fn destination(number: usize) -> String {
    format!("https://www.example.com/landing/page-{number:08}")
}

pub(super) fn id(number: usize) -> String {
    format!("l{number:08}")
}

/// A rule as it is sent.
pub(super) fn terms(number: usize, destination: &str) -> String {
    let path = path(number);
    format!(
        r#"{{"host":"{HOST}","path":"{path}","destination":"{destination}","expiresAt":{EXPIRES_AT_MS}}}"#
    )
}

impl Links {
    pub(super) async fn make(count: usize) -> Result<Self> {
        progress(&format!("importing {count} links"));
        let links = Self { folder: tempfile::tempdir()?, count };
        let list = links.folder().join("list.csv");
        let mut ours = BufWriter::new(File::create(&list)?);
        let mut theirs = BufWriter::new(File::create(links.map())?);
        writeln!(ours, "id,host,path,destination,code,expiresAt")?;
        for number in 0..count {
            let (id, path, destination) = (id(number), path(number), destination(number));
            writeln!(ours, "{id},{HOST},{path},{destination},302,{EXPIRES_AT_MS}")?;
            writeln!(theirs, "{path} {destination};")?;
        }
        ours.flush()?;
        theirs.flush()?;
        let truth = links.open().await?;
        let reader = Reader::new(Format::Csv, File::open(&list)?);
        let report = truth.import(reader, ImportOptions::default(), |_| ()).await?;
        ensure!(report.problems.count == 0, "the list has problems: {:?}", report.problems.first.first());
        std::fs::remove_file(list)?;
        Ok(links)
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Lines of a `map` of nginx.
    pub(super) fn map(&self) -> PathBuf {
        self.folder().join("links.map")
    }

    /// Where ours are.
    pub(super) fn url(&self) -> String {
        format!("sqlite:{}", self.folder().join("rules.db").display())
    }

    /// Ours, in this process.
    pub(super) async fn open(&self) -> Result<Truth> {
        Ok(Truth::open(&self.url(), &TruthOptions::default()).await?)
    }
}
