//! The look at SQL text.
//!
//! Input: a byte that chooses the session's status flags and where the text is cut in two, then the text. Checked: the look is one
//! word however often a space stands and however keywords are written; nothing at the end of a text goes unseen; whatever stands
//! beside a write, the whole is no read; two statements in one text are the sum of both; a digest is the same for all ways to write a
//! text.

use crate::packets::lies_within;
use protocol::ok::status;
use protocol::statement::{
    InsertId, Pins, Recalls, Statement, StatementKind, digest, digest_text, may_give, names_any, names_in,
    unreported_variables,
};

/// The flags that decide how a string ends.
const MODES: [u16; 4] = [
    0,
    status::NO_BACKSLASH_ESCAPES,
    status::ANSI_QUOTES,
    status::NO_BACKSLASH_ESCAPES | status::ANSI_QUOTES,
];

pub(crate) fn holds(input: &[u8]) {
    let Some((&choice, text)) = input.split_first() else { return };
    let mode = MODES[usize::from(choice & 3)];
    let look = |text: &[u8]| Statement::under(text, mode);
    let seen = look(text);
    agrees_with_itself(&seen, text);

    // A space more, where one is; but not within quotes, where it makes another name.
    let quote = text.iter().position(|b| b"'\"`".contains(b)).unwrap_or(text.len());
    let (plain, quoted) = text.split_at(quote);
    let mut wide: Vec<u8> =
        plain.iter().flat_map(|&b| if b == b' ' { vec![b' '; 3] } else { vec![b] }).collect();
    wide.extend_from_slice(quoted);
    assert_eq!(look(&wide), seen, "repeated spaces count");
    assert_eq!(look(&[b"\t \n", text].concat()), seen, "space in front counts");
    assert_eq!(look(&[b"/* note */", text].concat()), seen, "a comment in front counts");
    assert_eq!(look(&[text, b"\n;"].concat()), seen, "the last semicolon counts");

    if !case_counts(text) {
        assert_eq!(look(&text.to_ascii_uppercase()), seen, "case counts");
        assert_eq!(look(&text.to_ascii_lowercase()), seen, "case counts");
    }

    has_one_digest(text, mode, &seen);
    has_names(text, mode);

    // Whatever came before, the end of a text is looked at (or the text is taken for the worst).
    let writes = look(&[text, b"\n INTO OUTFILE 'x'"].concat());
    assert_ne!(writes.kind, StatementKind::Read, "INTO at the end goes unseen");
    let locks = look(&[text, b"\n,GET_LOCK('x',1)"].concat());
    assert!(locks.pins.has(Pins::GET_LOCK) || is_worst(&locks), "GET_LOCK at the end goes unseen");
    let asks = look(&[text, b"\n,FOUND_ROWS()"].concat());
    let is_seen = asks.recalled.has(Recalls::FOUND_ROWS);
    assert!(is_seen || is_worst(&asks), "FOUND_ROWS at the end goes unseen");
    let numbers = look(&[text, b"\n,LAST_INSERT_ID(1)"].concat());
    assert!(
        numbers.insert_id != InsertId::Kept || is_worst(&numbers),
        "LAST_INSERT_ID(1) at the end goes unseen"
    );

    // Two statements in one text, the second or the first of them a write.
    for both in [[text, b"\n;DELETE FROM t"].concat(), [&b"DELETE FROM t;"[..], text].concat()] {
        assert_ne!(look(&both).kind, StatementKind::Read, "a write beside another statement goes unseen");
    }
    for both in [[text, b"\n;COMMIT"].concat(), [&b"COMMIT;"[..], text].concat()] {
        assert!(look(&both).may_commit, "a commit beside another statement goes unseen");
    }

    // Cut in two: unless the first half ends within a string or a comment, the whole is the sum of both.
    let (head, tail) = text.split_at(usize::from(choice >> 2).min(text.len()));
    let (first, second, joined) = (look(head), look(tail), look(&[head, b"\n;", tail].concat()));
    if is_worst(&first) {
        return;
    }
    for part in [first, second] {
        let is_something = part.kind != StatementKind::Write || part.may_commit;
        assert!(
            joined.kind != StatementKind::Read || part.kind == StatementKind::Read || !is_something,
            "a part is no read, the whole is"
        );
    }
    assert_eq!(joined.may_commit, first.may_commit || second.may_commit);
    assert_eq!(joined.recalled, first.recalled.union(second.recalled));
    assert_eq!(joined.touches_engines, first.touches_engines || second.touches_engines);
    assert_eq!(joined.asks_connection_id, first.asks_connection_id || second.asks_connection_id);
    let pins = |all: Pins, next: &Statement| all.without(next.unpins).union(next.pins);
    assert_eq!(joined.pins, pins(first.pins, &second), "together they tie to something else");
}

/// `/*M!` is code for MariaDB, and `/*m!` is not: the one place where case counts.
fn case_counts(text: &[u8]) -> bool {
    text.windows(4).any(|four| four.eq_ignore_ascii_case(b"/*m!"))
}

/// A digest does not know gaps, comments or case, and its number is that of its text.
fn has_one_digest(text: &[u8], mode: u16, seen: &Statement) {
    let number = digest(text, mode);
    assert_eq!(digest(&[b"\t \n/* note */", text].concat(), mode), number);
    if !is_worst(seen) {
        assert_eq!(digest(&[text, b"\n;"].concat(), mode), number, "the last semicolon counts");
        if !case_counts(text) {
            assert_eq!(digest(&text.to_ascii_uppercase(), mode), number, "case counts");
        }
    }
    let told = digest_text(text, mode, 100);
    assert!(told.len() <= 100 && !told.bytes().any(|byte| byte.is_ascii_uppercase()));
    assert!(digest_text(text, mode, usize::MAX).starts_with(&told));
}

/// Names are where the text has them, and each is asked for.
fn has_names(text: &[u8], mode: u16) {
    let mut count = 0usize;
    for name in names_in(text, mode).chain(unreported_variables(text, mode)) {
        assert!(name.is_empty() || lies_within(name, text));
        count += 1;
    }
    assert!(count <= 2 * text.len());
    if !names_any(text, mode, |_| false) {
        let end = [text, b"\n Audit"].concat();
        assert!(names_any(&end, mode, |name| name == "audit"), "a name at the end goes unseen");
    }
    let _ = may_give(text, mode, 5);
}

/// As a text that nobody understood: nothing is claimed of it.
fn is_worst(statement: &Statement) -> bool {
    statement.kind == StatementKind::Write && statement.may_commit
}

fn agrees_with_itself(seen: &Statement, text: &[u8]) {
    assert!((seen.pins.0 & seen.unpins.0) == 0, "pinned and let go at once");
    match seen.kind {
        StatementKind::Read => {
            assert!(!seen.may_commit && seen.recalled.is_empty());
            assert!(
                !seen.pins.has(Pins::TEMP_TABLE) && !seen.pins.has(Pins::GET_LOCK),
                "a read that ties to the node"
            );
        }
        StatementKind::Begin | StatementKind::Commit => assert!(seen.may_commit),
        StatementKind::Rollback | StatementKind::Savepoint => assert!(!seen.may_commit),
        StatementKind::SessionOnly | StatementKind::Write | StatementKind::Kill { .. } => {}
    }
    if seen.literal_user_variables {
        assert!(seen.kind == StatementKind::SessionOnly && text.is_ascii());
        assert!(!seen.may_commit && seen.recalled.is_empty());
        assert_eq!((seen.pins, seen.unpins), (Pins::USER_VARIABLE, Pins::NONE));
    }
    let names = seen.pins.names();
    assert_eq!(names.len(), seen.pins.0.count_ones() as usize, "a pin without a name");
}
