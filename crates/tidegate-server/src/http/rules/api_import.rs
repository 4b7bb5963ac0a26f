//! What is said about lists of rules: what became of one, line by line.

use tidegate_edge::{formats, truth};

use crate::api::response;

/// How a list that is read may be written.
pub(crate) const FORMAT_NAMES: [&str; 9] =
    ["csv", "jsonl", "nginx", "apache", "netlify", "cloudflare", "vercel", "shlink", "yourls"];

/// How a list is written here.
pub(crate) const EXPORT_FORMAT_NAMES: [&str; 2] = ["csv", "jsonl"];

/// What becomes of rules that a list does not have.
pub(crate) const MODE_NAMES: [&str; 2] = ["merge", "replace"];

response! {
    /// What became of an import. If it was not written, counts are of what would have been, without what has problems.
    #[schemars(rename = "RuleImport")]
    struct Report from(it: truth::ImportReport) {
        /// `written`, `unchanged` (all was so already), `dry_run` or `refused`.
        outcome: String = it.outcome.as_str().to_owned(),
        /// The change's number, if there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seq: Option<u64> = it.seq.map(|seq| seq.0),
        /// Lines that were read.
        lines: u64 = it.lines,
        /// Bytes of them.
        bytes: u64 = it.bytes,
        /// Rules in the list that may be.
        rules: u64 = it.rules,
        /// Rules that are new.
        created: u64 = it.created,
        /// Rules that say something else.
        changed: u64 = it.changed,
        /// Rules that were so already.
        unchanged: u64 = it.unchanged,
        /// Rules that the list does not have.
        deleted: u64 = it.deleted,
        /// What in the list becomes no rule.
        problems: Remarks = Remarks::new(it.problems),
        /// What is allowed, and probably not meant.
        warnings: Remarks = Remarks::new(it.warnings),
    }

    /// What there is to say of lines.
    #[schemars(rename = "RuleImportRemarks")]
    struct Remarks from(it: formats::Problems) {
        /// All of them.
        count: u64 = it.count,
        /// The first thousand that were found, by their lines.
        first: Vec<Remark> = it.first.into_iter().map(Remark::new).collect(),
    }

    /// What there is to say of a line.
    #[serde(rename_all = "camelCase")]
    #[schemars(rename = "RuleImportRemark")]
    struct Remark from(it: formats::Problem) {
        /// The first line that it is about, from 1 on.
        line: u64 = it.line,
        /// Another line that it is about: the one before that says the same id, or the same host and path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        other_line: Option<u64> = it.other_line,
        /// The member of a rule.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        field: Option<String> = it.field,
        /// What is wrong, and what is allowed.
        message: String = it.message,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_edge::formats::{ExportFormat, Format};
    use tidegate_edge::truth::{ImportMode, ImportReport};

    use super::*;

    #[test]
    fn a_report_is_told_as_the_database_has_it() {
        let full = json!({"outcome": "dry_run", "seq": 3, "lines": 1, "bytes": 2, "rules": 3, "created": 4, "changed": 5,
            "unchanged": 6, "deleted": 7,
            "problems": {"count": 8, "first": [{"line": 9, "otherLine": 10, "field": "path", "message": "m"}]},
            "warnings": {"count": 0, "first": [{"line": 1, "message": "w"}]}});
        let mut least = full.clone();
        least.as_object_mut().unwrap().remove("seq");
        for json in [full, least] {
            let report: ImportReport = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(serde_json::to_value(&report).unwrap(), json);
            assert_eq!(serde_json::to_value(Report::new(report)).unwrap(), json);
        }
    }

    #[test]
    fn all_formats_and_modes_are_named() {
        assert_eq!(FORMAT_NAMES, Format::ALL.map(Format::as_str));
        for (name, format) in EXPORT_FORMAT_NAMES.into_iter().zip([ExportFormat::Csv, ExportFormat::Jsonl]) {
            assert_eq!(serde_json::to_value(format).unwrap(), name);
        }
        for (name, mode) in MODE_NAMES.into_iter().zip([ImportMode::Merge, ImportMode::Replace]) {
            assert_eq!(serde_json::to_value(mode).unwrap(), name);
        }
    }
}
