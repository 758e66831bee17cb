//! What comes first on a health check's connection.
//!
//! Input: the bytes. Checked: a request is the same whatever follows it and however it arrives, and no shorter piece of it is one;
//! what was seen not to be HTTP stays so; a head is never waited for without end.

use health::request::{HEAD_BYTES_MAX, Seen, see};
use topology::health::Rules;

pub(crate) fn holds(input: &[u8]) {
    let rules = Rules::default();
    match see(input, rules) {
        Seen::Request(request) => {
            assert!(request.len > 0 && request.len <= input.len());
            let head = &input[..request.len];
            assert_eq!(see(head, rules), Seen::Request(request));
            for end in 0..head.len() {
                assert!(!matches!(see(&head[..end], rules), Seen::Request(_)), "a piece of a request is one");
            }
        }
        Seen::Part => assert!(input.len() < HEAD_BYTES_MAX, "a head without end"),
        Seen::Raw => {
            let more = [input, b" / HTTP/1.1\r\n\r\n"].concat();
            assert_eq!(see(&more, rules), Seen::Raw, "what was not HTTP became it");
        }
        Seen::Bad(status, why) => {
            assert!(status.len() > 4 && !why.contains(['\r', '\n']), "{status}: {why:?}");
        }
    }
}
