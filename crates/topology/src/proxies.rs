//! What the proxies have acknowledged of one node's lane. A lane is quiet, and its links are gone, only when every proxy of
//! [`crate::settings::Settings::proxies`] has said so: another server takes over no sooner.
//!
//! A proxy that does not answer may have links all the same, so it is waited for. A planned move ends as for a transaction that does not: it is
//! undone when its budget is over. A failover holds the statements, each for the hold time of its proxy, and names what it waits for when an
//! operator asks; it goes on when the proxy answers, or when a reload of the settings no longer counts it. Acknowledgements of a proxy that is not
//! counted have no meaning, and a repetition changes nothing.

use std::collections::BTreeMap;

use crate::Origin;

/// Of each proxy that has acknowledged something: what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proxies(BTreeMap<Origin, ByProxy>);

#[derive(Clone, Copy, Debug, Default)]
struct ByProxy {
    /// Every link of an epoch below this one is certainly gone.
    cut_below: u64,
    /// The newest routes under which no transaction ran on the lane.
    quiet_in: Option<u64>,
}

impl Proxies {
    /// What the proxy said of links that were made before `epoch` is true of those made since, since there are none.
    pub fn begin_at(&mut self, epoch: u64, proxies: &[Origin]) {
        self.0 = proxies.iter().map(|proxy| (*proxy, ByProxy { cut_below: epoch, quiet_in: None })).collect();
    }

    /// `origin` has cut every link of that epoch and of older ones.
    pub fn cut(&mut self, origin: Origin, epoch: u64) {
        let proxy = self.0.entry(origin).or_default();
        proxy.cut_below = proxy.cut_below.max(epoch + 1);
    }

    /// Nothing runs on the lane at `origin`, seen under the routes of that version.
    pub fn quiesced(&mut self, origin: Origin, version: u64) {
        let proxy = self.0.entry(origin).or_default();
        proxy.quiet_in = proxy.quiet_in.max(Some(version));
    }

    /// None of these proxies has a link of an older epoch.
    pub fn have_cut(&self, proxies: &[Origin], epoch: u64) -> bool {
        self.each(proxies).all(|proxy| proxy.cut_below >= epoch)
    }

    /// None of these proxies has a transaction on the lane, seen under later routes than those of version `after`: earlier ones may have had
    /// the lane open again since.
    pub fn are_quiet(&self, proxies: &[Origin], after: u64) -> bool {
        self.each(proxies).all(|proxy| proxy.quiet_in > Some(after))
    }

    fn each(&self, proxies: &[Origin]) -> impl Iterator<Item = ByProxy> {
        proxies.iter().map(|proxy| self.0.get(proxy).copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::core::Core;
    use crate::settings::{NodeSettings, Settings, Writers};
    use crate::{NodeId, Origin, Term};

    const DB1: NodeId = NodeId(0);

    fn core(epoch: u64) -> Core {
        let node = NodeSettings { name: "db1".into(), address: "h:1".into(), priority: 0 };
        let mut settings = Settings::new("c", Writers::One, vec![node]);
        settings.proxies = vec![Origin(0), Origin(1)];
        let mut core = Core::new(settings, Term(1), None, &[], Duration::ZERO);
        core.node_mut(DB1).epoch = epoch;
        core.version = 5;
        core
    }

    #[test]
    fn links_are_gone_when_every_proxy_says_so_of_all_that_were() {
        assert!(core(0).links_gone(DB1), "none was ever made");
        let mut core = core(2);
        for (origin, epoch, why) in [
            (0, 2, "those of the present epoch may stand"),
            (0, 0, "those of epoch 1 may stand"),
            (0, 1, "the other proxy has not said so"),
            (0, 1, "a repetition is not the other's word"),
            (2, 1, "that one is not counted"),
        ] {
            core.links_cut(Origin(origin), DB1, epoch);
            assert!(!core.links_gone(DB1), "{why}");
        }
        core.links_cut(Origin(1), DB1, 1);
        assert!(core.links_gone(DB1));
    }

    #[test]
    fn a_lane_is_quiet_when_every_proxy_says_so_under_later_routes() {
        let mut core = core(2);
        for (origin, epoch, term, version, why) in [
            (0, 2, 1, 4, "the other proxy has not said so"),
            (1, 1, 1, 4, "that was an earlier epoch"),
            (1, 2, 2, 4, "that is another term"),
            (1, 2, 1, 3, "the lane may have been open since"),
            (1, 2, 1, 6, "there are no such routes yet"),
        ] {
            core.quiesced(Origin(origin), DB1, epoch, Term(term), version);
            assert!(!core.is_quiet(DB1, 3), "{why}");
        }
        core.quiesced(Origin(1), DB1, 2, Term(1), 5);
        assert!(core.is_quiet(DB1, 3) && !core.is_quiet(DB1, 4));
    }
}
