//! What is left of something that nobody waits for any more.

/// What the client has not sent yet of something that nobody waits for any more. It must never be taken for a command.
#[derive(Clone, Copy, Debug)]
pub enum Unread {
    /// So many bytes of a packet; and, if `goes_on`, the packets behind it that continue the command.
    Command {
        /// Of the present packet.
        left: usize,
        /// More packets follow.
        goes_on: bool,
    },
    /// So many bytes of a packet of a file, and all behind it up to the empty one; `ends`: it is that one.
    File {
        /// Of the present packet.
        left: usize,
        /// Of the present packet.
        seq: u8,
        /// The present packet is the last.
        ends: bool,
    },
}
