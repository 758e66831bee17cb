//! The figures of what each node could apply. A node of which one is not known has no line of it.

use measure::capacity::passive::Estimate;
use topology::view::ClusterView;

use super::{Page, escape};
use crate::capacity::Known;

/// Name, meaning, and where it is.
type Single = (&'static str, &'static str, fn(&Known) -> Option<f64>);

const ALL: [Single; 4] = [
    (
        "understudy_node_apply_capacity_per_second",
        "Transactions a second that the node applied while it was busy all the time.",
        |known| match known.estimate {
            Estimate::Seen(figure) => Some(figure.per_s),
            Estimate::AtLeast(_) | Estimate::Unknown => None,
        },
    ),
    (
        "understudy_node_apply_capacity_at_least_per_second",
        "Transactions a second that the node can apply at least, by what is known.",
        |known| known.estimate.low_per_s(),
    ),
    (
        "understudy_node_apply_peak_per_second",
        "The highest usual rate of a minute in the last 24 hours, in transactions a second.",
        |known| known.peak_per_s,
    ),
    (
        "understudy_node_apply_times_peak",
        "At how many times that peak the node would fall behind.",
        |known| known.estimate.factor(known.peak_per_s),
    ),
];

/// The families, for one cluster.
pub fn text(id: u32, view: &ClusterView, nodes: &[(String, Known)]) -> String {
    let mut page =
        Page { text: String::new(), cluster: format!("cluster=\"{}\",id=\"{id}\"", escape(&view.cluster)) };
    for (name, meaning, value) in ALL {
        page.family(name, "gauge", meaning);
        for (node, known) in nodes {
            if let Some(value) = value(known) {
                page.fraction(name, &[("node", node)], value);
            }
        }
    }
    page.text
}
