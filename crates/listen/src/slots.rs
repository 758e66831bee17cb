//! Limits the connections of a listener, in total and from one address, so that one client cannot lock out the others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The slots of one listener, or of several that share them.
#[derive(Debug)]
pub struct ConnectionSlots {
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all_max: usize,
    per_address_max: usize,
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A connection's slot; free again when this is dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    from: IpAddr,
}

impl ConnectionSlots {
    /// The limits in total, and for one address.
    pub fn new(all_max: usize, per_address_max: usize) -> Arc<Self> {
        Arc::new(Self { taken: Mutex::new(Taken { all_max, per_address_max, ..Taken::default() }) })
    }

    /// Changes both limits. Existing connections stay, even if there are too many now.
    pub fn set_limits(&self, all_max: usize, per_address_max: usize) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        (taken.all_max, taken.per_address_max) = (all_max, per_address_max);
    }

    /// A slot for a connection from this address; `None` if there is none left. An IPv4 address and its IPv6-mapped form are the same.
    pub fn take(self: &Arc<Self>, from: IpAddr) -> Option<ConnectionSlot> {
        let from = from.to_canonical();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.all >= taken.all_max {
            return None;
        }
        let per_address_max = taken.per_address_max;
        let of_address = taken.by_address.entry(from).or_default();
        if *of_address >= per_address_max {
            return None;
        }
        *of_address += 1;
        taken.all += 1;
        Some(ConnectionSlot { slots: Arc::clone(self), from })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all -= 1;
        // Addresses without connections are removed, so that many different addresses do not use up memory.
        if let Some(of_address) = taken.by_address.get_mut(&self.from) {
            *of_address -= 1;
            if *of_address == 0 {
                taken.by_address.remove(&self.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn one_address_cannot_take_all_and_what_is_given_back_is_free() {
        let slots = ConnectionSlots::new(3, 2);
        let (one, other) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)));
        let first = slots.take(one).unwrap();
        let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        let second = slots.take(mapped).unwrap();
        assert!(slots.take(one).is_none(), "one address has two");
        let third = slots.take(other).unwrap();
        assert!(slots.take(IpAddr::V6(Ipv6Addr::LOCALHOST)).is_none(), "all are taken");
        drop(first);
        let again = slots.take(one).unwrap();
        assert_eq!(slots.taken.lock().unwrap().all, 3);
        drop((again, second, third));
        let taken = slots.taken.lock().unwrap();
        assert!(taken.all == 0 && taken.by_address.is_empty());
    }
}
