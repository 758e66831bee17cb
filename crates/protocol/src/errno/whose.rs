//! Whose concern an error of a node is: the one table by which a statement is told its error, or waits for a node.
//!
//! | whose            | a statement that gets it                                    | a new connection that gets it                 |
//! |------------------|-------------------------------------------------------------|-----------------------------------------------|
//! | the client's     | told at once as it is, never sent again                     | told at once                                  |
//! | somebody's will  | told at once as it is: a KILL QUERY, or a time limit        | told at once                                  |
//! | all nodes'       | told at once: it would fail in the same way anywhere        | told at once                                  |
//! | the link's       | the node is asked, 2 s at most. If it is well, only this connection was ended, and that is told | the node is asked; tried again for the hold time |
//! | this node's      | the node is asked, 2 s at most. If it is well, told. Otherwise tried again where it may be: within the hold time, until five nodes have refused it | the node is asked; tried again for the hold time |
//! | a full node's    | as before                                                   | tried again for the hold time (a login: 1 s), at the pace of a full node |
//!
//! Numbers that are not listed are the client's, which is the safe answer: what is told is not repeated.

use super::{
    ABORTING_CONNECTION, CON_COUNT_ERROR, CONNECTION_KILLED, FORCING_CLOSE, GOT_SIGNAL, HOST_IS_BLOCKED,
    MALFORMED_PACKET, NET_PACKET_TOO_LARGE, NEW_ABORTING_CONNECTION, NORMAL_SHUTDOWN,
    OPTION_PREVENTS_STATEMENT, QUERY_INTERRUPTED, QUERY_TIMEOUT, READ_ONLY_MODE, RUN_HOOK_ERROR,
    SERVER_OFFLINE_MODE, SERVER_SHUTDOWN, SESSION_WAS_KILLED, SHUTDOWN_COMPLETE, STATEMENT_TIMEOUT,
    UNKNOWN_COM_ERROR, is_galera_refusal, is_read_only,
};

/// Whose concern an error is. See the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The statement's or the account's.
    Client,
    /// Somebody has ended the statement, or a time limit has.
    Will,
    /// The same on each node, and the node ends the connection or skips the statement.
    All,
    /// This connection was ended; whether the node is going down, only the node can say.
    Link,
    /// This node serves nobody, or takes no writes.
    Node,
    /// This node has no free connection.
    Full,
}

impl Whose {
    /// Whether the same statement might succeed on another node, and this one is to be asked at once.
    pub fn is_about_the_node(self) -> bool {
        matches!(self, Whose::Link | Whose::Node | Whose::Full)
    }
}

/// Whose concern an error is; for some numbers the message decides.
pub fn whose(code: u16, message: &[u8]) -> Whose {
    match code {
        // Fending off, or full: this node takes no more, whoever asks.
        CON_COUNT_ERROR => Whose::Full,
        HOST_IS_BLOCKED => Whose::Node,
        // Galera: not a member of the primary component, or not yet synced. In other words: the client's command is unknown.
        UNKNOWN_COM_ERROR if is_galera_refusal(code, message) => Whose::Node,
        // The server is going down, whichever of its sentences it found time for.
        SERVER_SHUTDOWN | NORMAL_SHUTDOWN | GOT_SIGNAL | SHUTDOWN_COMPLETE | FORCING_CLOSE => Whose::Node,
        // It may not be written to: it is not (or no more) the writer.
        OPTION_PREVENTS_STATEMENT | READ_ONLY_MODE if is_read_only(code, message) => Whose::Node,
        SERVER_OFFLINE_MODE => Whose::Node,
        // Group replication: the member left the majority.
        RUN_HOOK_ERROR => Whose::Node,
        // The first command of a connection is answered so where init_connect fails, and each new connection would be again.
        NEW_ABORTING_CONNECTION if is_of_init_connect(message) => Whose::All,
        // It gave up the connection by itself: shutdown, or an operator's KILL.
        ABORTING_CONNECTION | NEW_ABORTING_CONNECTION | CONNECTION_KILLED | SESSION_WAS_KILLED => Whose::Link,
        // Sent again it is as large, and as wrong, as before.
        NET_PACKET_TOO_LARGE | MALFORMED_PACKET => Whose::All,
        QUERY_INTERRUPTED | STATEMENT_TIMEOUT | QUERY_TIMEOUT => Whose::Will,
        // 1158 to 1161 are the server's view of the network towards its *client*; 1205, 1213 and 3101 are a transaction's bad luck.
        _ => Whose::Client,
    }
}

/// Whether a node that refuses a statement with this error has not begun to run it. The others of a node may come when the work is done.
pub fn is_before_running(code: u16) -> bool {
    matches!(code, UNKNOWN_COM_ERROR | OPTION_PREVENTS_STATEMENT | READ_ONLY_MODE)
}

/// MariaDB's last words to a connection whose init_connect has failed.
fn is_of_init_connect(message: &[u8]) -> bool {
    const WORD: &[u8] = b"init_connect";
    message.windows(WORD.len()).any(|window| window == WORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All errors of the installed server by number and message, as its own `perror` tells them.
    fn all() -> Vec<(u16, String)> {
        let numbers = (1000..5000).map(|number: u16| number.to_string());
        let told = std::process::Command::new("perror").args(numbers).output();
        let told = told.expect("perror runs; apt-get install mariadb-server provides it");
        let text = String::from_utf8_lossy(&told.stdout).into_owned();
        let line = |line: &str| {
            let (number, rest) = line.strip_prefix("MariaDB error code ")?.split_once(' ')?;
            Some((number.parse().ok()?, rest.split_once("): ")?.1.to_owned()))
        };
        text.lines().filter_map(line).collect()
    }

    #[test]
    fn each_error_of_the_server_is_the_clients_but_for_those_that_are_listed() {
        let all = all();
        assert!(all.len() > 900, "only {} errors were read", all.len());
        let others: Vec<(u16, Whose)> = all
            .iter()
            .map(|(code, message)| (*code, whose(*code, message.as_bytes())))
            .filter(|(_, whose)| *whose != Whose::Client)
            .collect();
        // 1047 and 1290 depend on their messages, see below.
        assert_eq!(
            others,
            [
                (1040, Whose::Full),
                (1053, Whose::Node),
                (1077, Whose::Node),
                (1078, Whose::Node),
                (1079, Whose::Node),
                (1080, Whose::Node),
                (1129, Whose::Node),
                (1152, Whose::Link),
                (1153, Whose::All),
                (1184, Whose::Link),
                (1317, Whose::Will),
                (1835, Whose::All),
                (1836, Whose::Node),
                (1927, Whose::Link),
                (1969, Whose::Will),
                // MySQL's, which MariaDB does not use, and its own.
                (3024, Whose::Will),
                (3032, Whose::Node),
            ]
        );
    }

    #[test]
    fn the_message_decides_where_one_number_means_several_things() {
        for (code, message, expected) in [
            (1290, "running with the --read-only option", Whose::Node),
            (1290, "running with the --secure-file-priv option", Whose::Client),
            (1047, "WSREP has not yet prepared node for application use", Whose::Node),
            (1047, "Unknown command", Whose::Client),
            (1184, "Aborted connection 5 to db: 'sb' (init_connect command failed)", Whose::All),
            (
                1184,
                "Aborted connection 5 to db: 'sb' (Got timeout reading communication packets)",
                Whose::Link,
            ),
        ] {
            assert_eq!(whose(code, message.as_bytes()), expected, "{code} {message}");
        }
        for code in [1045, 1049, 1064, 1146, 1158, 1205, 1213] {
            assert_eq!(whose(code, b""), Whose::Client, "{code}");
        }
    }
}
