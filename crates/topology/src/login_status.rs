//! The status flags that a login begins with, by the server's variables. A client is told them in its greeting and in the OK of its login: a driver
//! that is told "autocommit" where that is off sends no SET, and its writes are never committed; one that is not told NO_BACKSLASH_ESCAPES
//! escapes wrongly.

use protocol::ok::status::{ANSI_QUOTES, AUTOCOMMIT, NO_BACKSLASH_ESCAPES};

/// Of `autocommit` and `sql_mode`, global; `value` gives the value of a name. `None` where one of the two is not said.
pub fn login_status<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Option<u16> {
    let (autocommit, sql_mode) = (value("autocommit")?, value("sql_mode")?);
    let is_on = autocommit.eq_ignore_ascii_case("ON") || autocommit == "1";
    let has = |mode: &str| sql_mode.split(',').any(|it| it.eq_ignore_ascii_case(mode));
    let flags = [
        (is_on, AUTOCOMMIT),
        (has("NO_BACKSLASH_ESCAPES"), NO_BACKSLASH_ESCAPES),
        // MySQL has no flag for it, and drivers do not ask.
        (has("ANSI_QUOTES"), ANSI_QUOTES),
    ];
    Some(flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_variables_count() {
        let of = |autocommit: &'static str, sql_mode: &'static str| {
            login_status(move |name| Some(if name == "autocommit" { autocommit } else { sql_mode }))
        };
        assert_eq!(of("ON", "STRICT_TRANS_TABLES"), Some(AUTOCOMMIT));
        assert_eq!(of("OFF", ""), Some(0));
        let both = Some(AUTOCOMMIT | NO_BACKSLASH_ESCAPES | ANSI_QUOTES);
        assert_eq!(of("ON", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"), both);
        assert_eq!(login_status(|name| (name == "autocommit").then_some("ON")), None);
    }
}
