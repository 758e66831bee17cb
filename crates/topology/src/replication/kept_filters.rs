//! Which filters a replica has had: it lacks what they left out, also when they are gone.
//!
//! ```text
//!   a report shows filters ──> remembered ──(they are taken out: the rows are still missing)──> as if it had them
//!                                  └──(undrained by an operator: it is a copy of the primary anew)──> forgotten
//! ```
//!
//! The memory is on disk, too. Filters that were taken out while this program did not run, and that it never saw, are not known to it.

use crate::NodeId;
use crate::core::Core;
use crate::status::Status;

/// Adds to a report what is remembered of the server's filters, and remembers those that it shows, also on disk.
pub(super) fn remember(core: &mut Core, id: NodeId, status: &mut Status) {
    let Status::Replication(status) = status else { return };
    let shown = status.filters();
    let known = &mut core.node_mut(id).had_filters;
    if shown.is_none() {
        status.had_filters.clone_from(known);
    } else if *known != shown {
        *known = shown;
        core.persist();
    }
}
