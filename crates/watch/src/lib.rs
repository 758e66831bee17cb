//! What an operator looks at: the state of a running Understudy (`status`, `journal`), the live view in the terminal (`top`), and
//! myq_gadgets' output (`myq`).

pub mod journal;
pub mod myq;
pub mod status;
pub mod top;
