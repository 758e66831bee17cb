//! What an operator looks at: the state of a running Understudy (`status`, `processlist`, `journal`), what became of its writer (`explain`), the
//! live view in the terminal (`top`), and myq_gadgets' output (`myq`).

pub mod explain;
pub mod journal;
pub mod myq;
pub mod sessions;
pub mod status;
pub mod top;
