//! How formats are tested: lines in, drafts or problems out.

use super::{Entry, Format, Item, Reader};

/// What comes out of a text: each rule as `line host path code query destination`, with `+rest` if it appends that;
/// each problem as `line! message`.
pub(super) fn read(format: Format, text: &str) -> Vec<String> {
    items(format, text).into_iter().map(|item| shown(&item)).collect()
}

pub(super) fn items(format: Format, text: &str) -> Vec<Item> {
    let text = text.to_owned().into_bytes();
    Reader::new(format, std::io::Cursor::new(text)).map(Result::unwrap).collect()
}

/// The only rule of a text.
pub(super) fn one(format: Format, text: &str) -> Entry {
    match <[Item; 1]>::try_from(items(format, text)) {
        Ok([Item::Rule(entry)]) => entry,
        other => panic!("{text:?}: {other:?}"),
    }
}

fn shown(item: &Item) -> String {
    match item {
        Item::Problem(problem) => format!("{}! {}", problem.line, problem.message),
        Item::Rule(entry) => {
            let terms = &entry.draft.terms;
            let code = terms.code.as_u16();
            let query = format!("{:?}", terms.query).to_lowercase();
            let rest = if terms.append_rest { "+rest" } else { "" };
            format!("{} {} {} {code} {query} {}{rest}", entry.line, terms.host, terms.path, terms.destination)
        }
    }
}

/// Each text becomes what stands beside it: a rule without its line, or `!` and a part of a problem's message.
pub(super) fn compare(format: Format, rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        let items = read(format, text);
        let [item] = &items[..] else { panic!("{text:?}: {items:?}") };
        let is_as_expected = match expected.strip_prefix('!') {
            Some(part) => item.split_once("! ").is_some_and(|(_, message)| message.contains(part.trim())),
            None => item.split_once(' ').is_some_and(|(_, rule)| rule == *expected),
        };
        assert!(is_as_expected, "{text:?}\n is {item:?}\nnot {expected:?}");
    }
}
