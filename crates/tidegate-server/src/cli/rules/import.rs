//! `tidegate rules import`: a list, sent as it is read.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::body::{Body, Bytes};
use futures_util::stream;
use indicatif::ProgressBar;
use tidegate_edge::formats::Format;

use super::args::ImportArgs;
use super::{IfAbsent, open, render};
use crate::api::rule_import::{FORMAT_NAMES, Report};
use crate::cli::bar::style;
use crate::cli::input::Pieces;
use crate::cli::request::A_DAY;
use crate::cli::send::finish;
use crate::cli::{Input, Rendered, Request, encoded, printable, read};

/// Any type would do.
const MEDIA_TYPE: &str = "application/octet-stream";

/// Lines that are explained to people.
const EXPLAINED: usize = 100;

pub(super) async fn run(args: &ImportArgs) -> Result<ExitCode, String> {
    let (format, is_guessed) = match &args.format {
        Some(format) => (format.clone(), false),
        None => (guessed(&args.file)?.to_string(), true),
    };
    let unreadable = |why: String| format!("cannot read {}: {why}", args.file.display());
    let input = Input::open(&args.file).map_err(|error| unreadable(error.to_string()))?;
    let bar = input.bar.clone();
    let if_absent = if args.dry_run { IfAbsent::Refuse } else { IfAbsent::Make };
    let target = open(&args.target, if_absent).await?;
    let so_far = Arc::<SoFar>::default();
    let body = body(input, Arc::clone(&so_far));
    let request = Request::post(path(args, &format)).body(MEDIA_TYPE, body).within(A_DAY);
    let answered = target.send(request).await;
    // Whatever comes next begins on a line of its own.
    bar.finish_and_clear();
    target.close().await;
    if let Some(why) = so_far.broken.get() {
        return Err(unreadable(why.clone()) + ": nothing was written");
    }
    let (status, answer) = answered.map_err(|error| match so_far.is_begun.load(Ordering::Relaxed) {
        true => {
            let again = "imported again it changes nothing that is so already";
            format!("{error}; whether it was imported is not known: {again}")
        }
        false => error,
    })?;
    let report = read::<Report>(&answer).ok();
    if let Some(report) = report.filter(|_| !args.target.json) {
        explain(&args.file, &report);
    }
    let told = |report: &Report| {
        let mut told = render::imported(report, args.partial);
        if told.is_refusal && is_guessed {
            told.text += &format!("\nit was read as {format}, by its name: --format says what it is");
        }
        told
    };
    let refused = |answer: &[u8]| read::<Report>(answer).ok().map(|report| told(&report).text);
    let done = |report: Report| -> Rendered { told(&report) };
    finish(&target, args.target.json, status, &answer, done, |_, answer| refused(answer))
}

fn path(args: &ImportArgs, format: &str) -> String {
    let flags =
        [("&mode=replace", args.replace), ("&partial=true", args.partial), ("&dry_run=true", args.dry_run)];
    let flags: String = flags.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag).collect();
    let host = args.host.as_ref().map(|host| format!("&host={}", encoded(host))).unwrap_or_default();
    format!("/v1/rules/import?format={format}{flags}{host}")
}

/// The format that a list of that name has, where only one is called so. That CSV of others is called the same does no
/// harm: it does not have our header, and is refused.
fn guessed(path: &Path) -> Result<Format, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    match (name, ending) {
        ("_redirects", _) => Ok(Format::Netlify),
        ("vercel.json", _) => Ok(Format::Vercel),
        ("nginx.conf", _) => Ok(Format::Nginx),
        (".htaccess", _) => Ok(Format::Apache),
        (_, "csv") => Ok(Format::Csv),
        (_, "jsonl" | "ndjson") => Ok(Format::Jsonl),
        _ => {
            let (path, all) = (path.display(), FORMAT_NAMES.join(", "));
            Err(format!("how {path} is written is not known by its name: --format says it, one of {all}"))
        }
    }
}

/// What became of a list on its way.
#[derive(Default)]
struct SoFar {
    is_begun: AtomicBool,
    /// Why it could not be read: nobody else would hear of it.
    broken: OnceLock<String>,
}

/// A list on its way.
struct Sending {
    pieces: Pieces,
    bar: ProgressBar,
    so_far: Arc<SoFar>,
}

fn body(input: Input, so_far: Arc<SoFar>) -> Body {
    let bar = input.bar.clone();
    let sending = Sending { pieces: input.pieces(), bar, so_far };
    Body::from_stream(stream::unfold(sending, |mut sending| async {
        sending.so_far.is_begun.store(true, Ordering::Relaxed);
        match sending.pieces.recv().await {
            Some(Ok(piece)) => Some((Ok(Bytes::from(piece)), sending)),
            Some(Err(error)) => {
                let _ = sending.so_far.broken.set(error.to_string());
                Some((Err(error), sending))
            }
            None => {
                let waiting = "{spinner} all is read, and is being checked and written: {elapsed}";
                sending.bar.set_style(style(waiting));
                None
            }
        }
    }))
}

/// What is wrong with which line, on standard error, beside whatever the answer is.
fn explain(file: &Path, report: &Report) {
    let mut err = std::io::stderr().lock();
    for (remarks, word, what) in
        [(&report.problems, "", "problem"), (&report.warnings, "warning: ", "warning")]
    {
        for remark in remarks.first.iter().take(EXPLAINED) {
            let field = remark.field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default();
            let text = printable(&format!("{word}{field}{}", remark.message));
            // There is nobody left to tell if this fails.
            let _ = writeln!(err, "{}:{}: {text}", file.display(), remark.line);
        }
        let more = remarks.count.saturating_sub(EXPLAINED as u64);
        if more > 0 {
            let s = if more == 1 { "" } else { "s" };
            let _ = writeln!(err, "and {more} more {what}{s}; --json has the first thousand");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_guessed_where_only_one_is_called_so() {
        for (name, format) in [
            ("a/rules.csv", Format::Csv),
            ("RULES.CSV.gz", Format::Csv),
            ("rules.jsonl", Format::Jsonl),
            ("rules.ndjson.gz", Format::Jsonl),
            ("public/_redirects", Format::Netlify),
            ("vercel.json", Format::Vercel),
            ("/etc/nginx/nginx.conf", Format::Nginx),
            (".htaccess", Format::Apache),
        ] {
            assert_eq!(guessed(Path::new(name)), Ok(format), "{name}");
        }
        for name in ["-", "", "rules", "rules.json", "site.conf", "csv", ".csv/x", "rules.txt", "rules.gz"] {
            let refused = guessed(Path::new(name));
            assert!(refused.as_ref().is_err_and(|it| it.contains("--format")), "{name}: {refused:?}");
        }
    }
}
