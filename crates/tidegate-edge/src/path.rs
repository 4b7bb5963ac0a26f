//! The one normalisation of hosts and paths. The database, the filter, the cache and the tree all know a rule by what
//! this makes of its host and path, and look a request up by what this makes of the request's.

use std::borrow::Cow;
use std::fmt::Write as _;

use url::Host;

/// Bytes that stand for themselves in a path: what needs no escape anywhere in it.
const fn is_plain(byte: u8) -> bool {
    is_unreserved(byte) || matches!(byte, b'!' | b'$' | b'&'..=b',' | b';' | b'=' | b':' | b'@' | b'/')
}

/// Bytes whose escape means the same as they do.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// A path as rules have it and requests are looked up by: escapes of unreserved characters decoded, the hex of others in
/// upper case, whatever may not stand in a path escaped, dot segments resolved. Upper and lower case differ, and so do
/// `/a`, `/a/` and `//a`. `None` if it does not start with `/`.
///
/// ```
/// use tidegate_edge::path::normalised;
///
/// assert_eq!(normalised("/%7euser/a%2fb/../c%").as_deref(), Some("/~user/c%25"));
/// assert_eq!(normalised("/a//b/").as_deref(), Some("/a//b/"));
/// assert_eq!(normalised("a"), None);
/// ```
pub fn normalised(path: &str) -> Option<Cow<'_, str>> {
    if !path.starts_with('/') {
        return None;
    }
    // Most paths are as they should be: nothing is copied then.
    if is_normalised(path) {
        return Some(Cow::Borrowed(path));
    }
    let escaped = escaped(path.as_bytes());
    // An escape may have hidden a dot.
    Some(Cow::Owned(if escaped.contains("/.") { without_dots(&escaped) } else { escaped }))
}

/// Whether a path has only bytes that stand for themselves, and no segment that begins with a dot.
fn is_normalised(path: &str) -> bool {
    const PLAIN: [bool; 256] = {
        let mut plain = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            plain[byte] = is_plain(byte as u8);
            byte += 1;
        }
        plain
    };
    let (mut before, mut is_normalised) = (0, true);
    for byte in path.bytes() {
        is_normalised &= PLAIN[usize::from(byte)] & !(before == b'/' && byte == b'.');
        before = byte;
    }
    is_normalised
}

fn escaped(path: &[u8]) -> String {
    let mut escaped = String::with_capacity(path.len() + 16);
    let mut rest = path;
    while let [byte, more @ ..] = rest {
        rest = more;
        let byte = match more {
            [high, low, behind @ ..] if *byte == b'%' => match hex(*high).zip(hex(*low)) {
                Some((high, low)) => {
                    rest = behind;
                    let byte = high << 4 | low;
                    if !is_unreserved(byte) {
                        escape(&mut escaped, byte);
                        continue;
                    }
                    byte
                }
                None => *byte,
            },
            _ => *byte,
        };
        if is_plain(byte) { escaped.push(char::from(byte)) } else { escape(&mut escaped, byte) }
    }
    escaped
}

fn escape(into: &mut String, byte: u8) {
    // Writing to a string cannot fail.
    let _ = write!(into, "%{byte:02X}");
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|it| it as u8)
}

/// Resolves `.` and `..`; an empty segment is a segment.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path[1..].split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                // What was below is a folder.
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    let mut path = String::with_capacity(path.len());
    for segment in &kept {
        path.push('/');
        path.push_str(segment);
    }
    if path.is_empty() { "/".to_owned() } else { path }
}

/// A host as rules have it and requests are looked up by: lower case, in ASCII, without port and without the dot at its
/// end. `None` if it is no host.
///
/// ```
/// use tidegate_edge::path::normalised_host;
///
/// assert_eq!(normalised_host("Bücher.Example.:8080").as_deref(), Some("xn--bcher-kva.example"));
/// assert_eq!(normalised_host("[::1]:80").as_deref(), Some("[::1]"));
/// assert_eq!(normalised_host("a b"), None);
/// ```
pub fn normalised_host(host: &str) -> Option<Cow<'_, str>> {
    if is_simple_host(host) {
        return Some(Cow::Borrowed(host));
    }
    let bare = without_port(host)?;
    let bare = bare.strip_suffix('.').unwrap_or(bare);
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    if is_simple_host(bare) {
        return Some(Cow::Borrowed(bare));
    }
    let parsed = Host::parse(bare).ok()?.to_string();
    let parsed = parsed.strip_suffix('.').unwrap_or(&parsed);
    let is_name = parsed.starts_with('[')
        || parsed.len() <= 253
            && parsed.bytes().all(|byte| is_plain(byte) || byte == b'_')
            && parsed.split('.').all(|label| (1..=63).contains(&label.len()));
    is_name.then(|| Cow::Owned(parsed.to_owned()))
}

/// Whether a host is a name as it should be, without anything behind it. Names that end in a digit may be addresses, and so
/// may those whose last label begins with one, like `0xf`; `xn--` may be no name at all: those are looked at closely.
fn is_simple_host(host: &str) -> bool {
    let (mut label_len, mut dashes, mut is_simple) = (0, 0, host.len() <= 253);
    for byte in host.bytes() {
        dashes += u32::from(byte == b'-');
        if byte == b'.' {
            is_simple &= (1..=63).contains(&label_len);
            label_len = 0;
        } else {
            is_simple &= matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
            label_len += 1;
        }
    }
    is_simple
        && (1..=63).contains(&label_len)
        && host.ends_with(|c: char| c.is_ascii_lowercase())
        && !host.as_bytes()[host.len() - label_len].is_ascii_digit()
        && (dashes < 2 || host.split('.').all(|label| !label.starts_with("xn--")))
}

fn without_port(host: &str) -> Option<&str> {
    let end = host.find(']').map_or(0, |it| it + 1);
    let Some((name, port)) = host[end..].split_once(':') else { return Some(host) };
    port.bytes().all(|byte| byte.is_ascii_digit()).then(|| &host[..end + name.len()])
}

/// Whose rules a request to a host may go by, nearest first: its own, then those of it and all below it from the longest
/// on, then those of any host. As rules have them.
///
/// ```
/// use tidegate_edge::path::candidates;
///
/// let of: Vec<_> = candidates("a.example.com").collect();
/// assert_eq!(of, ["a.example.com", "*.a.example.com", "*.example.com", "*.com", "*"]);
/// ```
pub fn candidates(host: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let wildcards = parents(host).map(|parent| Cow::Owned(format!("*.{parent}")));
    std::iter::once(Cow::Borrowed(host)).chain(wildcards).chain([Cow::Borrowed("*")])
}

/// A name, and all that it is below of; nothing of an address, which is below nothing.
pub(crate) fn parents(host: &str) -> impl Iterator<Item = &str> {
    let is_name = !host.starts_with('[') && host.parse::<std::net::Ipv4Addr>().is_err();
    std::iter::successors(is_name.then_some(host), |host| host.split_once('.').map(|(_, parent)| parent))
}

/// Whether the rules of `host`, as a rule has it, are also those of a request's host.
pub fn host_matches(host: &str, request: &str) -> bool {
    candidates(request).any(|candidate| candidate == host)
}

/// Whether a rule's path is that of a request: itself, or `/docs/*` for `/docs` and all below.
pub fn path_matches(path: &str, request: &str) -> bool {
    match path.strip_suffix("/*") {
        None => path == request,
        Some(folder) => rest_below(folder, request).is_some(),
    }
}

/// What of a request's path is below a folder, without the slash between; `None` if it is elsewhere.
pub fn rest_below<'a>(folder: &str, request: &'a str) -> Option<&'a str> {
    let rest = request.strip_prefix(folder)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// The folders that a path is in, from the longest on, as rules have them: itself is one.
pub(crate) fn folders(path: &str) -> impl Iterator<Item = String> {
    let ends = std::iter::once(path.len()).chain(path.rmatch_indices('/').map(|(at, _)| at));
    ends.map(|end| format!("{}/*", &path[..end]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> String {
        normalised(text).unwrap().into_owned()
    }

    #[test]
    fn escapes_are_of_one_form() {
        for (given, expected) in [
            ("/", "/"),
            ("/a%2Fb", "/a%2Fb"),
            ("/a%2fb", "/a%2Fb"),
            ("/%41%7E%2d", "/A~-"),
            ("/ü", "/%C3%BC"),
            ("/%c3%bc", "/%C3%BC"),
            ("/a b\"<>|\\^`{}", "/a%20b%22%3C%3E%7C%5C%5E%60%7B%7D"),
            ("/100%", "/100%25"),
            ("/%zz%2", "/%25zz%252"),
            ("/\0\r\n", "/%00%0D%0A"),
            ("/a?b#c", "/a%3Fb%23c"),
            ("/a;b=1,c:@!$&'()*+", "/a;b=1,c:@!$&'()*+"),
        ] {
            assert_eq!(path(given), expected, "{given}");
        }
    }

    #[test]
    fn dot_segments_are_resolved_and_empty_ones_kept() {
        for (given, expected) in [
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/../../b", "/b"),
            ("/a/..", "/"),
            ("/a/.", "/a/"),
            ("/a/b/..", "/a/"),
            ("/.", "/"),
            ("/a/%2e%2E/b", "/b"),
            ("/a//../b", "/a/b"),
            ("//a", "//a"),
            ("/..//a", "//a"),
            ("/a/...", "/a/..."),
            ("/a/.b", "/a/.b"),
            ("/a%2F..%2Fb", "/a%2F..%2Fb"),
        ] {
            assert_eq!(path(given), expected, "{given}");
        }
    }

    #[test]
    fn hosts_are_of_one_form() {
        for (given, expected) in [
            ("example.com", Some("example.com")),
            ("EXAMPLE.com.", Some("example.com")),
            ("example.com:443", Some("example.com")),
            ("example.com:", Some("example.com")),
            ("bücher.example", Some("xn--bcher-kva.example")),
            ("xn--bcher-kva.example", Some("xn--bcher-kva.example")),
            ("127.0.0.1:80", Some("127.0.0.1")),
            ("127.1", Some("127.0.0.1")),
            ("1.2.3.0xF", Some("1.2.3.15")),
            ("1.2.3.0xf", Some("1.2.3.15")),
            ("1.2.3.0xf.:80", Some("1.2.3.15")),
            ("A.0xF", None),
            ("a.0xf", None),
            ("a.0xg", Some("a.0xg")),
            ("[::1]:80", Some("[::1]")),
            ("[0:0::1]", Some("[::1]")),
            ("", None),
            (".", None),
            ("a..b", None),
            (".a", None),
            ("a b", None),
            ("a/b", None),
            ("a@b", None),
            ("a:b", None),
            ("a:80:80", None),
            ("::1", None),
            ("a\0", None),
            ("*", None),
            ("*.example.com", None),
        ] {
            assert_eq!(normalised_host(given).as_deref(), expected, "{given:?}");
        }
        assert_eq!(normalised_host(&"a".repeat(64)), None);
        assert_eq!(normalised_host(&"a.".repeat(127)).map(|it| it.len()), Some(253));
        assert_eq!(normalised_host(&"a.".repeat(128)), None);
    }

    #[test]
    fn addresses_have_nothing_below_them() {
        assert_eq!(candidates("127.0.0.1").collect::<Vec<_>>(), ["127.0.0.1", "*"]);
        assert_eq!(candidates("[::1]").collect::<Vec<_>>(), ["[::1]", "*"]);
        assert_eq!(candidates("localhost").collect::<Vec<_>>(), ["localhost", "*.localhost", "*"]);
    }

    #[test]
    fn a_folder_is_itself_and_all_below() {
        for (rule, request, matches) in [
            ("/docs/*", "/docs", true),
            ("/docs/*", "/docs/", true),
            ("/docs/*", "/docs/a/b", true),
            ("/docs/*", "/docsx", false),
            ("/docs/*", "/doc", false),
            ("/docs/*", "/Docs/a", false),
            ("/*", "/", true),
            ("/*", "/a", true),
            ("/*", "//a", true),
            ("/docs", "/docs", true),
            ("/docs", "/docs/", false),
        ] {
            assert_eq!(path_matches(rule, request), matches, "{rule} {request}");
        }
        assert_eq!(rest_below("/docs", "/docs//evil.example"), Some("/evil.example"));
    }

    /// The same by the words of RFC 3986 (2.1, 2.3, 3.3 and 5.2.4), one after the other and slowly.
    fn slowly(path: &str) -> String {
        const UNRESERVED: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
        const OTHERS: &str = "!$&'()*+,;=:@/";
        let mut input = String::new();
        let bytes = path.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let digits = path.get(at + 1..at + 3).filter(|it| it.bytes().all(|it| it.is_ascii_hexdigit()));
            let (byte, is_escape) = match digits {
                Some(digits) if bytes[at] == b'%' => (u8::from_str_radix(digits, 16).unwrap(), true),
                _ => (bytes[at], false),
            };
            at += if is_escape { 3 } else { 1 };
            let stands_for_itself = |all: &str| all.bytes().any(|it| it == byte);
            if stands_for_itself(UNRESERVED) || !is_escape && stands_for_itself(OTHERS) {
                input.push(char::from(byte));
            } else {
                input += &format!("%{byte:02X}");
            }
        }
        let mut output = String::new();
        while !input.is_empty() {
            let whole = |input: &str, name: &str| input == name || input.starts_with(&format!("{name}/"));
            if whole(&input, "/.") {
                input = format!("/{}", behind_slash(&input[2..]));
            } else if whole(&input, "/..") {
                input = format!("/{}", behind_slash(&input[3..]));
                output.truncate(output.rfind('/').unwrap_or(0));
            } else {
                let end = input[1..].find('/').map_or(input.len(), |it| it + 1);
                output += &input[..end];
                input.drain(..end);
            }
        }
        output
    }

    fn behind_slash(text: &str) -> &str {
        text.strip_prefix('/').unwrap_or(text)
    }

    /// The same path written otherwise: letters as escapes, detours between slashes.
    fn disguised(path: &str, choices: &[u8]) -> String {
        let mut choices = choices.iter().cycle();
        let mut choice = || choices.next().map_or(0, |it| it % 8);
        let mut text = String::new();
        let mut escape = 0;
        for c in path.chars() {
            escape = if c == '%' { 3 } else { escape };
            let is_part_of_an_escape = escape > 0;
            escape -= usize::from(is_part_of_an_escape);
            match (c, choice()) {
                _ if is_part_of_an_escape => text.push(if choice() < 4 { c.to_ascii_lowercase() } else { c }),
                ('/', 0) => text += "/./",
                ('/', 1) => text += "/x/../",
                ('/', 2) => text += "/%2e/%61/%2E%2e/",
                (c, 3) if c.is_ascii_alphanumeric() || "-._~".contains(c) => {
                    text += &format!("%{:02x}", c as u8)
                }
                (c, 4) if c.is_ascii_alphanumeric() || "-._~".contains(c) => {
                    text += &format!("%{:02X}", c as u8)
                }
                (c, _) => text.push(c),
            }
        }
        text
    }

    proptest! {
        #[test]
        fn a_path_is_what_the_standard_makes_of_it(text in "/[a-c%./2eEfF ü\\\\*~!?]{0,24}") {
            prop_assert_eq!(path(&text), slowly(&text));
        }

        #[test]
        fn a_path_is_the_same_however_it_is_written(
            text in "/[a-c%./2eEfF ü*~!]{0,24}",
            choices in proptest::collection::vec(any::<u8>(), 1..24),
        ) {
            let once = path(&text);
            let other = disguised(&once, &choices);
            prop_assert_eq!(path(&other), once, "{}", other);
        }

        #[test]
        fn a_host_is_the_same_however_it_is_written(
            labels in proptest::collection::vec("[a-z][a-z0-9]{0,5}|[0-9][a-z0-9]{0,2}|0x[0-9a-g]{0,2}", 1..5),
            upper in any::<u64>(),
            port in proptest::option::of(any::<u16>()),
            has_dot in any::<bool>(),
        ) {
            let name = labels.join(".");
            let letter = |(at, c): (usize, char)| if upper >> (at % 64) & 1 == 1 { c.to_ascii_uppercase() } else { c };
            let mut text: String = name.chars().enumerate().map(letter).collect();
            text += if has_dot { "." } else { "" };
            text += &port.map_or(String::new(), |port| format!(":{port}"));
            let normal = normalised_host(&text);
            // One whose last label begins with a digit may be an address, or none at all.
            let is_name = labels.last().is_some_and(|it| it.starts_with(|c: char| c.is_ascii_lowercase()));
            if is_name {
                prop_assert_eq!(normal.as_deref(), Some(&*name), "{}", text);
            }
            prop_assert_eq!(normal, normalised_host(&name), "{}", text);
        }

        #[test]
        fn what_is_normalised_stays_as_it_is(text in "/[a-c%./2eEfF ü\\\\]{0,24}") {
            let once = path(&text);
            prop_assert_eq!(&path(&once), &once);
            prop_assert!(once.starts_with('/') && once.is_ascii());
            prop_assert!(!once.split('/').any(|it| it == "." || it == ".."), "{}", once);
        }

        #[test]
        fn a_host_that_is_normalised_stays_as_it_is(text in "[a-cA-C0-9.:üß\\-\\[\\]]{0,12}") {
            if let Some(once) = normalised_host(&text) {
                let again = normalised_host(&once);
                prop_assert_eq!(again.as_deref(), Some(&*once));
            }
        }
    }

    #[test]
    fn a_path_is_in_all_folders_above_it() {
        let all = |path: &str| folders(path).collect::<Vec<_>>();
        assert_eq!(all("/a/b"), ["/a/b/*", "/a/*", "/*"]);
        assert_eq!(all("/a/"), ["/a//*", "/a/*", "/*"]);
        assert_eq!(all("/"), ["//*", "/*"]);
        for path in ["/a/b", "/a/", "/", "//a"] {
            assert!(all(path).iter().all(|folder| path_matches(folder, path)), "{path}");
        }
    }
}
