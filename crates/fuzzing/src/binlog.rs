//! Events of a binlog, one after another, as a file holds them.
//!
//! Input: the bytes after a file's first four. Checked: nothing panics; an event is read from its own bytes, whatever follows; one that is cut
//! is an error or a shorter text, and never another kind of event.

use protocol::binlog::{Event, HEAD_BYTES, Head};

pub(crate) fn holds(input: &[u8]) {
    let mut rest = input;
    while let Ok(head) = Head::parse(rest) {
        let length = head.bytes as usize;
        let Some((event, after)) = rest.split_at_checked(length) else {
            let _ = rest.get(HEAD_BYTES..).map(|body| Event::parse(&head, body));
            return;
        };
        let body = &event[HEAD_BYTES..];
        if let (Ok(whole), Some((_, cut))) = (Event::parse(&head, body), body.split_last())
            && let Ok(cut) = Event::parse(&head, cut)
        {
            assert_eq!(std::mem::discriminant(&whole), std::mem::discriminant(&cut));
        }
        rest = after;
    }
}
