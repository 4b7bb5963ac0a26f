//! What texts in requests look like, as regular expressions for the OpenAPI description.
//! They are read by parsers elsewhere: a test compares the two.

/// The name of a limit or a space.
pub(crate) const NAME: &str = "^[a-z][a-z0-9_-]{0,63}$";

/// A rate, like `10/s`. Which are too small or too large depends on the limit's window.
pub(crate) const RATE: &str = r"^([0-9]{1,19}|[0-9]{1,10}\.[0-9]{1,9})(/[smhd])?$";

/// A length of time, like `1h 30m`. The parser refuses fractions that it would have to round.
pub(crate) const LENGTH_OF_TIME: &str = concat!(
    "^(0|((",
    "[0-9]{1,10} *(nanos|nsec|ns|months?|M)",
    r"|[0-9]{1,10}(\.[0-9]{1,3})? *(usec|us|µs|millis|msec|ms|seconds?|secs?|s|minutes?|mins?|m)",
    r"|[0-9]{1,10}(\.[0-9]{1,2})? *(hours?|hrs?|h|days?|d|weeks?|wks?|w|years?|yrs?|y)",
    ") *)+)$"
);

/// A receipt. Which were ever made only the server knows.
pub(crate) const RECEIPT: &str = "^[0-9]{1,16}-[0-9]{1,16}-[0-9]{1,16}-[0-9a-f]{16}$";

/// An hour of UTC, like `2024-09-17_14`, with every day that its month has, that of leap years among them.
pub(crate) const HOUR: &str = concat!(
    "^((19[7-9][0-9]|[2-9][0-9]{3})-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])",
    "|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)",
    "|(19(7[26]|8[048]|9[26])|[2-9][0-9](0[48]|[2468][048]|[13579][26])|([2468][048]|[3579][26])00)-02-29)",
    "_([01][0-9]|2[0-3])$"
);

/// What only its parser can judge.
pub(crate) const ANY: &str = r"^[\s\S]*$";

/// What has no NUL.
pub(crate) const NO_NUL: &str = r"^[^\x00]*$";

/// The place behind a page of overrides or reservations: when something ends, and UTF-8 in
/// hexadecimal digits.
pub(crate) const CURSOR: &str = concat!(
    "^[0-9]{1,15}-([0-7][0-9a-f]",
    "|(c[2-9a-f]|d[0-9a-f])[89ab][0-9a-f]",
    "|(e0[ab][0-9a-f]|ed[89][0-9a-f]|e[1-9a-cef][89ab][0-9a-f])[89ab][0-9a-f]",
    "|(f0[9ab][0-9a-f]|f[1-3][89ab][0-9a-f]|f48[0-9a-f])([89ab][0-9a-f]){2}){0,128}$"
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate::limit::Cursor;
    use tidegate::run::Hour;
    use tidegate::{Name, Rate};

    use super::*;

    /// The expression without its ends: what is made from it begins and ends there anyhow.
    fn of(pattern: &str) -> impl Strategy<Value = String> + use<> {
        let inner = pattern.strip_prefix('^').and_then(|it| it.strip_suffix('$')).unwrap();
        proptest::string::string_regex(inner).unwrap()
    }

    proptest! {
        #[test]
        fn every_text_of_the_form_is_read(
            name in of(NAME), rate in of(RATE), lasting in of(LENGTH_OF_TIME), cursor in of(CURSOR),
            hour in of(HOUR),
        ) {
            prop_assert!(hour.parse::<Hour>().is_ok(), "{hour}");
            prop_assert!(Name::new(&name).is_ok(), "{name}");
            prop_assert!(rate.parse::<Rate>().is_ok(), "{rate}");
            prop_assert!(humantime::parse_duration(&lasting).is_ok(), "{lasting}");
            prop_assert!(cursor.parse::<Cursor>().is_ok(), "{cursor}");
        }
    }
}
