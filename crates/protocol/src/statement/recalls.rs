//! What asks for something that an earlier statement left in the session.

/// Variables of the session that an earlier statement left behind.
pub(super) fn is_recalling_variable(name: &[u8]) -> bool {
    matches!(name, b"LAST_INSERT_ID" | b"IDENTITY" | b"WARNING_COUNT" | b"ERROR_COUNT" | b"LAST_GTID")
}

/// Functions that change nothing but tell what an earlier statement left in the session.
#[rustfmt::skip]
const RECALLING: &[&[u8]] = &[
    b"CURRVAL", b"FOUND_ROWS", b"LASTVAL", b"LAST_INSERT_ID", b"ROW_COUNT", b"WSREP_LAST_SEEN_GTID",
    b"WSREP_LAST_WRITTEN_GTID",
];

/// Whether the function tells what an earlier statement left in the session.
pub(super) fn is_recalling(name: &[u8]) -> bool {
    RECALLING.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(RECALLING.is_sorted_by(|a, b| a < b));
    }
}
