//! The error replies that the proxy makes itself: each has a code, an SQLSTATE, a sentence, and a page in the documentation.
//!
//! "Rolled back", "outcome unknown", "hold timed out" and "hold full" are four different codes, because an application must treat them differently.

use std::net::IpAddr;

use protocol::errno;
use protocol::ok::put_err;
use protocol::packet::put_packet;
use session::finish::NodeError;

/// An error that the proxy makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ErrorReply {
    /// The error number for the client.
    pub code: u16,
    /// The SQLSTATE for the client.
    pub state: &'static str,
    /// A short name, for metrics and documentation.
    pub name: &'static str,
    /// What happened, and what the application may do.
    pub sentence: &'static str,
    /// Whether the connection ends with it.
    pub closes: bool,
}

/// The transaction is certainly rolled back. Every MySQL application already retries this number.
pub const ROLLED_BACK: ErrorReply = ErrorReply {
    code: 1213,
    state: "40001",
    name: "rolled_back",
    sentence: "the connection to the database node was lost and the transaction is rolled back; try restarting transaction",
    closes: false,
};
/// A COMMIT or an autocommit write was sent and not answered.
pub const OUTCOME_UNKNOWN: ErrorReply = ErrorReply {
    code: 9101,
    state: "08007",
    name: "outcome_unknown",
    sentence: "the connection to the database node was lost after the statement was sent and before it was answered; it may or may \
               not have been committed and was not sent again; check before repeating it",
    closes: false,
};
/// No node took statements for the whole hold time.
pub const HOLD_EXPIRED: ErrorReply = ErrorReply {
    code: 9102,
    state: "HYT00",
    name: "hold_expired",
    sentence: "no database node could take the statement within the hold time; nothing was executed",
    closes: false,
};
/// Too many statements were waiting.
pub const HOLD_FULL: ErrorReply = ErrorReply {
    code: 9103,
    state: "53000",
    name: "hold_full",
    sentence: "too many statements were waiting for a database node, and this one was the oldest of them or is larger than all \
               that may wait; nothing was executed",
    closes: false,
};
/// The session used something that no other node has, and cannot stay where it is.
pub const SESSION_LOST: ErrorReply = ErrorReply {
    code: 9104,
    state: "08006",
    name: "session_lost",
    sentence: "the session's database node is gone or takes no new statements, and the session cannot move because it used",
    closes: true,
};
/// An answer was sent only in part.
pub const CUT_SHORT: ErrorReply = ErrorReply {
    code: 9105,
    state: "08S01",
    name: "cut_short",
    sentence: "the connection to the database node ended before the whole answer was here; nothing was changed, and the statement can \
               be repeated",
    closes: false,
};
/// Something that cannot be done through a proxy.
pub const NOT_THROUGH_PROXY: ErrorReply = ErrorReply {
    code: 9106,
    state: "0A000",
    name: "not_through_proxy",
    sentence: "this cannot be done through the proxy; connect to the node itself for it:",
    closes: false,
};
/// Too large to be kept for another try.
pub const TOO_LARGE_TO_REPEAT: ErrorReply = ErrorReply {
    code: 9107,
    state: "40001",
    name: "too_large_to_repeat",
    sentence: "the connection to the database node was lost before the statement was wholly sent; nothing was executed, and it is too large to \
               have been kept; try it again",
    closes: false,
};
/// No node has been reachable since the start.
pub const NO_NODE_YET: ErrorReply = ErrorReply {
    code: 9108,
    state: "08004",
    name: "no_node_yet",
    sentence: "no database node has been reached since the proxy started; see `understudy status`",
    closes: true,
};
/// The proxy's own limit of connections, with the server's message for its limit.
pub const TOO_MANY_CLIENTS: ErrorReply = ErrorReply {
    code: 1040,
    state: "08004",
    name: "too_many_clients",
    sentence: "Too many connections: the proxy's own limit, proxy.client_connections_max, is reached",
    closes: true,
};
/// A failed login, with the server's message.
pub const ACCESS_DENIED: ErrorReply = ErrorReply {
    code: 1045,
    state: "28000",
    name: "access_denied",
    sentence: "Access denied for user",
    closes: true,
};
/// Passwords were wrong too often, and this one was not checked.
pub const TOO_MANY_PASSWORD_ERRORS: ErrorReply = ErrorReply {
    code: 9120,
    state: "28000",
    name: "too_many_password_errors",
    sentence: "too many wrong passwords were given for this account from this address, so that no more are looked at for now; try again \
               after",
    closes: true,
};
/// The password itself is needed, and the client shows it neither under TLS nor encrypted.
pub const PASSWORD_NEEDS_TLS: ErrorReply = ErrorReply {
    code: 9121,
    state: "28000",
    name: "password_needs_tls",
    sentence: "the password itself is needed, by its plugin (mysql_clear_password, sha256_password) or because the proxy does not remember it \
               (caching_sha2_password): connect with TLS (--ssl-mode=REQUIRED), or, with a plugin of MySQL, let the client ask for the RSA key \
               (--get-server-public-key)",
    closes: true,
};
/// The client has proved who it is, and cannot be let in all the same.
pub const NOT_SERVED: ErrorReply = ErrorReply {
    code: 9122,
    state: "28000",
    name: "account_not_served",
    sentence: "the password is right, and this account cannot be used through the proxy:",
    closes: true,
};
/// No account has been read since the start.
pub const NO_ACCOUNTS_YET: ErrorReply = ErrorReply {
    code: 9112,
    state: "08004",
    name: "no_accounts_yet",
    sentence: "the client accounts could not be read from any database node since the proxy started, so that nobody can be let \
               in yet; see `understudy status`",
    closes: true,
};
/// Bytes that violate the protocol.
pub const MALFORMED: ErrorReply = ErrorReply {
    code: 1835,
    state: "08S01",
    name: "malformed_packet",
    sentence: "Malformed communication packet from the client:",
    closes: true,
};
/// The connection id of a KILL is not known here.
pub const UNKNOWN_THREAD: ErrorReply = ErrorReply {
    code: 1094,
    state: "HY000",
    name: "unknown_thread",
    sentence: "Unknown thread id:",
    closes: false,
};

/// A statement asks for the result of an earlier one on a node that never ran that.
pub const FORGOTTEN: ErrorReply = ErrorReply {
    code: 9110,
    state: "HY000",
    name: "forgotten",
    sentence: "the session has moved to another database node, which does not know what the statement before left behind \
               (row counts, warnings)",
    closes: false,
};

/// The session's state could not be set up on its new node.
pub const NOT_REBUILT: ErrorReply = ErrorReply {
    code: 9111,
    state: "08006",
    name: "not_rebuilt",
    sentence: "the session could not be set up on the database node it moved to:",
    closes: true,
};

/// It was sent, and its node was lost; it was sent again, and that node was lost, too.
pub const LOST_AGAIN: ErrorReply = ErrorReply {
    code: 9113,
    state: "08S01",
    name: "lost_again",
    sentence: "each database node that the statement was sent to was lost before it answered; nothing was changed, and it is not \
               sent again: it may be what ends them",
    closes: false,
};
/// The node's answer violates the protocol.
pub const NOT_FOLLOWED: ErrorReply = ErrorReply {
    code: 9114,
    state: "08S01",
    name: "answer_not_followed",
    sentence: "the database node's answer does not follow the protocol as the proxy knows it, so it could not be passed on; the \
               statement may or may not have been executed, and a transaction that was open is rolled back; see the proxy's log",
    closes: false,
};
/// Nodes were lost while statements of this form ran.
pub const SUSPECT: ErrorReply = ErrorReply {
    code: 9115,
    state: "HY000",
    name: "suspect_statement",
    sentence: "database nodes were lost while a statement of this form ran on them, and none has ended well since; nothing was \
               executed; it is refused for",
    closes: false,
};

/// The client did not ask for TLS, which it must.
pub const TLS_REQUIRED: ErrorReply = ErrorReply {
    code: 3159,
    state: "08004",
    name: "tls_required",
    sentence: "Connections using insecure transport are prohibited: the proxy demands TLS (listen.tls, listen.read_tls)",
    closes: true,
};

/// All of them, for `understudy errors` and the documentation. A number is never used again for another error (9109 was an account's plugin).
pub const ALL: [ErrorReply; 23] = [
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
    NO_ACCOUNTS_YET,
    TOO_MANY_PASSWORD_ERRORS,
    PASSWORD_NEEDS_TLS,
    NOT_SERVED,
    NOT_REBUILT,
    LOST_AGAIN,
    NOT_FOLLOWED,
    SUSPECT,
    TOO_MANY_CLIENTS,
    ACCESS_DENIED,
    MALFORMED,
    TLS_REQUIRED,
    UNKNOWN_THREAD,
];

impl ErrorReply {
    /// Appends the error as a packet. `detail` follows the sentence when it is not empty.
    pub fn put(self, out: &mut Vec<u8>, mut seq: u8, detail: &str) {
        let mut payload = Vec::with_capacity(160);
        let mut state = [b'0'; 5];
        state.copy_from_slice(&self.state.as_bytes()[..5]);
        let text = match (self.code, detail.is_empty()) {
            // The server's own messages stay as applications know them.
            (1040 | 1045 | 1094 | 1835 | 3159, true) => self.sentence.to_owned(),
            (1040 | 1045 | 1094 | 1835 | 3159, false) => format!("{} {detail}", self.sentence),
            (_, true) => format!("Understudy: {}", self.sentence),
            (_, false) => format!("Understudy: {} {detail}", self.sentence),
        };
        put_err(&mut payload, self.code, &state, &text);
        put_packet(out, &mut seq, &payload);
    }
}

/// The user of a refused login, in the server's format, and where to look. The same for every reason: a client that is not authenticated
/// must not learn which names exist, or how they authenticate.
pub fn denied(user: &str, from: IpAddr, has_answered: bool) -> String {
    let using = if has_answered { "YES" } else { "NO" };
    format!("'{user}'@'{from}' (using password: {using}); refused by the proxy, whose log says why")
}

/// What a client gets when a node has no free connection: the server's own error, and which limit it is. `None`: the node has sent the
/// error to another session a moment ago.
pub fn full_node(error: Option<NodeError>) -> NodeError {
    let error = error.unwrap_or_else(|| NodeError {
        code: errno::CON_COUNT_ERROR,
        state: *b"08004",
        message: "Too many connections".to_owned(),
    });
    let message = format!("{} (the database node's own limit, max_connections, is reached)", error.message);
    NodeError { message, ..error }
}

/// The present state, in the account table, of an account that the proxy has accepted and a node has refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountNow {
    /// The same password as at the login.
    Same,
    /// Another password, or another authentication plugin.
    Changed,
    /// ACCOUNT LOCK.
    Locked,
    /// There is no account of that name for the client's address.
    Gone,
}

/// A node's refusal of a client that the proxy has accepted: the node's message, with an explanation.
pub fn refused_by_node(error: NodeError, now: AccountNow) -> NodeError {
    if error.code != errno::ACCESS_DENIED_ERROR {
        return error;
    }
    let why = match now {
        AccountNow::Changed => {
            "the account's password was changed since this connection logged in (SET PASSWORD, ALTER USER), and the proxy cannot know \
             the new one, which a connection to another node needs: connect again with the new password (and, where it is given in a [[proxy.account]], \
             change it there)"
        }
        AccountNow::Locked => {
            "the account was locked since this connection logged in (ALTER USER ... ACCOUNT LOCK)"
        }
        AccountNow::Gone => "the account was dropped or renamed since this connection logged in",
        AccountNow::Same => {
            "the proxy accepted this client by the account that matches the client's own address, but the node sees the proxy's \
             address. Either it goes by another account there: give an account of this name the same password and rights for the host \
             named here; or TLS must be used (REQUIRE SSL, require_secure_transport) and cluster.tls is \"off\", or a certificate be shown \
             (REQUIRE X509), which the proxy has not; or its password was changed a moment ago: connect again with the new one"
        }
    };
    NodeError { message: format!("{} (Understudy: {why})", error.message), ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_explained_by_what_became_of_the_account() {
        let told = |code, now| {
            let error = NodeError { code, state: *b"28000", message: "Access denied".into() };
            refused_by_node(error, now).message
        };
        assert_eq!(told(1049, AccountNow::Changed), "Access denied", "a schema that is not there");
        assert!(told(1045, AccountNow::Changed).contains("connect again with the new password"));
        assert!(told(1045, AccountNow::Gone).contains("dropped"));
        assert!(told(1045, AccountNow::Locked).contains("locked"));
        let same = told(1045, AccountNow::Same);
        assert!(same.contains("the proxy accepted this client") && same.contains("REQUIRE SSL"), "{same}");
    }

    #[test]
    fn every_error_is_its_own_and_complete() {
        let mut codes: Vec<_> = ALL.iter().map(|error_reply| error_reply.code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), ALL.len());
        for error_reply in ALL {
            assert_eq!(error_reply.state.len(), 5, "{}", error_reply.name);
            assert!(!error_reply.sentence.is_empty() && !error_reply.name.contains(' '));
        }
    }
}
