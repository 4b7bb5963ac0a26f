//! `tidegate rules export`: all rules into a file, whole or not at all.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::ProgressBar;
use serde_json::json;
use tempfile::NamedTempFile;

use super::args::ExportArgs;
use super::{IfAbsent, open};
use crate::api::rule_import::EXPORT_FORMAT_NAMES;
use crate::cli::bar::style;
use crate::cli::render::bytes;
use crate::cli::request::A_DAY;
use crate::cli::{Request, Stream, Target, print};

/// As a shell says that Ctrl-C ended it.
const INTERRUPTED: u8 = 130;

/// For how long nothing may come amid it.
const SILENT: Duration = Duration::from_secs(60);

pub(super) async fn run(args: &ExportArgs) -> Result<ExitCode, String> {
    let is_file = args.file != Path::new("-");
    if args.target.json && !is_file {
        return Err("`--json`: the list itself is the answer; with a FILE, what was written there".to_owned());
    }
    let format = match &args.format {
        Some(format) => format,
        None => guessed(&args.file)?,
    };
    let unwritable = |error: io::Error| format!("cannot write {}: {error}", args.file.display());
    let mut into = Destination::open(&args.file).map_err(unwritable)?;
    let target = open(&args.target, IfAbsent::Refuse).await?;
    let request = Request::get(format!("/v1/rules/export?format={format}")).within(A_DAY);
    let written = tokio::select! {
        written = write(&target, request, &mut into) => written,
        // What was begun goes away with it.
        Ok(()) = tokio::signal::ctrl_c() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    target.close().await;
    let Some(Written { count, position }) = written? else { return Ok(ExitCode::SUCCESS) };
    into.finish().map_err(unwritable)?;
    if is_file {
        let file = args.file.display().to_string();
        print(&match args.target.json {
            true => json!({"file": file, "bytes": count, "position": position}).to_string(),
            false => format!("{file}: {}, the rules at {position}", bytes(count)),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What a name says of how the list is to be written.
fn guessed(path: &Path) -> Result<&'static str, String> {
    let ending = path.extension().map(|it| it.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        Some("csv") => Ok("csv"),
        Some("jsonl" | "ndjson") => Ok("jsonl"),
        None if path == Path::new("-") => Ok("csv"),
        _ => {
            let (path, all) = (path.display(), EXPORT_FORMAT_NAMES.join(" or "));
            Err(format!("how to write {path} is not known by its name: --format says it, {all}"))
        }
    }
}

struct Written {
    count: u64,
    position: String,
}

/// None if whoever reads it has read enough.
async fn write(target: &Target, request: Request, into: &mut Destination) -> Result<Option<Written>, String> {
    let mut stream = target.begin(request).await?;
    if !stream.status().is_success() {
        return Err(refusal(target, &mut stream).await);
    }
    let position = stream.header("tidegate-position").unwrap_or_default().to_owned();
    // It draws on standard error, and nothing unless that is a terminal.
    let length = stream.header("content-length").and_then(|it| it.parse().ok());
    let bar = ProgressBar::new(length.unwrap_or_default());
    bar.set_style(style("{bar:40} {percent}% of {total_bytes}, {eta} left"));
    let mut count = 0;
    loop {
        let piece = tokio::time::timeout(SILENT, stream.piece()).await;
        let piece = piece.unwrap_or_else(|_| Err(format!("nothing for {} s", SILENT.as_secs())));
        let piece = piece.map_err(|why| format!("the list broke off after {}: {why}", bytes(count)))?;
        let Some(piece) = piece else { break };
        match into.write(&piece) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(None),
            written => written.map_err(|error| format!("cannot write the list: {error}"))?,
        }
        count += piece.len() as u64;
        bar.set_position(count);
    }
    bar.finish_and_clear();
    Ok(Some(Written { count, position }))
}

/// What is said in place of a list.
async fn refusal(target: &Target, stream: &mut Stream) -> String {
    let (status, mut answer) = (stream.status(), Vec::new());
    while let Some(piece) = stream.next().await {
        answer.extend_from_slice(&piece);
    }
    target.failure(status, &answer)
}

/// Where a list goes. What is there before stays until all of it is on the disk.
enum Destination {
    Standard(io::Stdout),
    /// A device or a pipe, which nothing can be put in place of.
    Open(File),
    Beside {
        file: NamedTempFile,
        path: PathBuf,
    },
}

impl Destination {
    fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Standard(io::stdout()));
        }
        let there = match path.metadata() {
            Ok(there) if !there.is_file() => {
                return File::options().write(true).open(path).map(Self::Open);
            }
            Ok(there) => Some(there),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        // What a link leads to is written, and not the link.
        let path = if there.is_some() { path.canonicalize()? } else { path.to_owned() };
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut prefix = path.file_name().unwrap_or_default().to_owned();
        prefix.push(".");
        // Of a new file the system takes away what the user wants taken away.
        let permissions = there.as_ref().map_or(Permissions::from_mode(0o666), |it| it.permissions());
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix(&prefix).permissions(permissions.clone());
        let file = builder.tempfile_in(folder).map_err(without_path)?;
        if there.is_some() {
            file.as_file().set_permissions(permissions)?;
        }
        Ok(Self::Beside { file, path })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            // What it keeps for later could not be told of.
            Self::Standard(out) => out.write_all(bytes).and_then(|()| out.flush()),
            Self::Open(file) => file.write_all(bytes),
            Self::Beside { file, .. } => file.write_all(bytes),
        }
    }

    /// All of it was written.
    fn finish(self) -> io::Result<()> {
        match self {
            Self::Standard(_) | Self::Open(_) => Ok(()),
            Self::Beside { file, path } => {
                file.as_file().sync_all()?;
                file.persist(path).map_err(|error| error.error)?;
                Ok(())
            }
        }
    }
}

/// What went wrong, without the name that is nobody's.
fn without_path(error: io::Error) -> io::Error {
    let text = error.to_string();
    let why = text.rsplit_once(" at path ").map_or(&*text, |(why, _)| why);
    io::Error::new(error.kind(), why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_how_a_list_is_written() {
        for (name, format) in [("-", "csv"), ("a/b.csv", "csv"), ("b.JSONL", "jsonl"), ("b.ndjson", "jsonl")]
        {
            assert_eq!(guessed(Path::new(name)), Ok(format), "{name}");
        }
        for name in ["rules", "rules.json", "rules.csv.gz", "", "csv"] {
            assert!(guessed(Path::new(name)).is_err(), "{name}");
        }
    }

    #[test]
    fn what_is_there_stays_until_all_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("rules.csv"), folder.path().join("link.csv"));
        let files = || folder.path().read_dir().unwrap().count();
        for (name, is_there) in [(&path, false), (&path, true), (&link, true)] {
            let before = std::fs::read(name).ok();
            assert_eq!(before.is_some(), is_there);
            let count = files();
            let mut into = Destination::open(name).unwrap();
            into.write(b"half").unwrap();
            assert_eq!(std::fs::read(name).ok(), before);
            drop(into);
            assert_eq!((std::fs::read(name).ok(), files()), (before, count), "nothing of it is left");
            let mut into = Destination::open(name).unwrap();
            into.write(format!("whole {is_there}").as_bytes()).unwrap();
            into.finish().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("whole {is_there}"));
            if !is_there {
                std::os::unix::fs::symlink(&path, &link).unwrap();
                std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
            }
            assert!(link.is_symlink());
        }
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn what_is_no_file_is_written_to_and_not_replaced() {
        let into = Destination::open(Path::new("/dev/null")).unwrap();
        assert!(matches!(into, Destination::Open(_)));
        into.finish().unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
        assert!(Destination::open(Path::new("/")).is_err());
    }
}
