//! The rest of a command or file that is not needed any more.

/// Data that the client has not sent yet and nobody waits for any more. It must never be taken for a command.
#[derive(Clone, Copy, Debug)]
pub enum Unread {
    /// This many bytes of a packet, and, if `goes_on`, the following packets that continue the command.
    Command {
        /// Of the present packet.
        left: usize,
        /// More packets follow.
        goes_on: bool,
    },
    /// This many bytes of a packet of a file, and all packets up to the empty one; `ends`: it is that one.
    File {
        /// Of the present packet.
        left: usize,
        /// Of the present packet.
        seq: u8,
        /// The present packet is the last.
        ends: bool,
    },
}
