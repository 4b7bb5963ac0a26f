//! A text as a part of an address.

use std::fmt::Write as _;

/// One part of a path, whatever is in it.
pub(crate) fn encoded(part: &str) -> String {
    let mut encoded = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            // Dots too, so that no part is `..`. Writing to a String cannot fail.
            byte => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}
