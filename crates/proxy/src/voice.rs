//! One voice: every error the proxy itself makes has a code, an SQLSTATE, a sentence, and a page in the documentation.
//!
//! "Surely rolled back", "outcome unknown", "hold timed out" and "hold full" are four different codes, because an
//! application must treat them differently.

use protocol::ok::put_err;
use protocol::packet::put_packet;

/// An error the proxy makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Voice {
    /// The error number the client sees.
    pub code: u16,
    /// The SQLSTATE the client sees.
    pub state: &'static str,
    /// A short name, for metrics and documentation.
    pub name: &'static str,
    /// What happened, and what the application may do.
    pub sentence: &'static str,
    /// Whether the connection ends with it.
    pub closes: bool,
}

/// The transaction is surely rolled back. The number every MySQL application already retries.
pub const ROLLED_BACK: Voice = Voice {
    code: 1213,
    state: "40001",
    name: "rolled_back",
    sentence: "the database node was lost and the transaction is rolled back; try restarting transaction",
    closes: false,
};
/// A COMMIT or an autocommit write was on its way.
pub const OUTCOME_UNKNOWN: Voice = Voice {
    code: 9101,
    state: "08007",
    name: "outcome_unknown",
    sentence: "the database node was lost after the statement was sent and before it answered; it may or may not have been \
               committed and was not sent again; check before repeating it",
    closes: false,
};
/// No node took statements for the whole hold time.
pub const HOLD_EXPIRED: Voice = Voice {
    code: 9102,
    state: "HYT00",
    name: "hold_expired",
    sentence: "no database node could take the statement within the hold time; nothing was executed",
    closes: false,
};
/// Too many statements were waiting.
pub const HOLD_FULL: Voice = Voice {
    code: 9103,
    state: "53000",
    name: "hold_full",
    sentence: "too many statements were waiting for a database node and this one was the oldest; nothing was executed",
    closes: false,
};
/// The session had something that no other node has.
pub const SESSION_LOST: Voice = Voice {
    code: 9104,
    state: "08006",
    name: "session_lost",
    sentence: "the session was on a database node that is gone and cannot be rebuilt elsewhere because it used",
    closes: true,
};
/// An answer was partly given.
pub const CUT_SHORT: Voice = Voice {
    code: 9105,
    state: "08S01",
    name: "cut_short",
    sentence: "the database node was lost in the middle of this result; nothing was changed, and the statement can be repeated",
    closes: false,
};
/// Something a proxy cannot pass on.
pub const NOT_THROUGH_PROXY: Voice = Voice {
    code: 9106,
    state: "0A000",
    name: "not_through_proxy",
    sentence: "this cannot be done through the proxy; connect to the node itself for it:",
    closes: false,
};
/// Too large to be kept for another try.
pub const TOO_LARGE_TO_REPEAT: Voice = Voice {
    code: 9107,
    state: "40001",
    name: "too_large_to_repeat",
    sentence: "the database node was lost before the statement was wholly sent; nothing was executed, and it is too large to \
               have been kept; try it again",
    closes: false,
};
/// No node has been reachable since the start.
pub const NO_NODE_YET: Voice = Voice {
    code: 9108,
    state: "08004",
    name: "no_node_yet",
    sentence: "no database node has been reached since the proxy started; see `understudy status`",
    closes: true,
};
/// The session would exceed the server's own words for it.
pub const TOO_MANY_CLIENTS: Voice = Voice {
    code: 1040,
    state: "08004",
    name: "too_many_clients",
    sentence: "Too many connections: the proxy's own limit, proxy.client_connections_max, is reached",
    closes: true,
};
/// A wrong login, in the server's own words.
pub const ACCESS_DENIED: Voice = Voice {
    code: 1045,
    state: "28000",
    name: "access_denied",
    sentence: "Access denied for user",
    closes: true,
};
/// An account that proves itself in a way this version does not speak.
pub const PLUGIN_UNSUPPORTED: Voice = Voice {
    code: 9109,
    state: "08004",
    name: "plugin_unsupported",
    sentence: "the account proves itself by a plugin this version of the proxy does not speak (it speaks \
               mysql_native_password):",
    closes: true,
};
/// Bytes that are not the protocol.
pub const MALFORMED: Voice = Voice {
    code: 1835,
    state: "08S01",
    name: "malformed_packet",
    sentence: "Malformed communication packet from the client:",
    closes: true,
};
/// The connection id of a KILL is not here.
pub const UNKNOWN_THREAD: Voice = Voice {
    code: 1094,
    state: "HY000",
    name: "unknown_thread",
    sentence: "Unknown connection id, or it has no statement on a node:",
    closes: false,
};

/// The answer to an earlier statement is asked about on a node that never ran it.
pub const FORGOTTEN: Voice = Voice {
    code: 9110,
    state: "HY000",
    name: "forgotten",
    sentence: "the session has moved to another database node, which does not know what the statement before left behind \
               (row counts, warnings)",
    closes: false,
};

/// All of them, for `understudy errors` and the documentation.
pub const ALL: [Voice; 15] = [
    ROLLED_BACK,
    OUTCOME_UNKNOWN,
    HOLD_EXPIRED,
    HOLD_FULL,
    SESSION_LOST,
    CUT_SHORT,
    FORGOTTEN,
    NOT_THROUGH_PROXY,
    TOO_LARGE_TO_REPEAT,
    NO_NODE_YET,
    PLUGIN_UNSUPPORTED,
    TOO_MANY_CLIENTS,
    ACCESS_DENIED,
    MALFORMED,
    UNKNOWN_THREAD,
];

impl Voice {
    /// Appends the error as a packet. `detail` follows the sentence when it is not empty.
    pub fn put(self, out: &mut Vec<u8>, mut seq: u8, detail: &str) {
        let mut payload = Vec::with_capacity(160);
        let mut state = [b'0'; 5];
        state.copy_from_slice(&self.state.as_bytes()[..5]);
        let text = match (self.code, detail.is_empty()) {
            // The server's own sentences stay as applications know them.
            (1040 | 1045 | 1094 | 1835, true) => self.sentence.to_owned(),
            (1040 | 1045 | 1094 | 1835, false) => format!("{} {detail}", self.sentence),
            (_, true) => format!("Understudy: {}", self.sentence),
            (_, false) => format!("Understudy: {} {detail}", self.sentence),
        };
        put_err(&mut payload, self.code, &state, &text);
        put_packet(out, &mut seq, &payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_its_own_and_complete() {
        let mut codes: Vec<_> = ALL.iter().map(|voice| voice.code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), ALL.len());
        for voice in ALL {
            assert_eq!(voice.state.len(), 5, "{}", voice.name);
            assert!(!voice.sentence.is_empty() && !voice.name.contains(' '));
        }
    }
}
