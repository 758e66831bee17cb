//! An address and the network it is in: `10.0.0.100/24`, `fd00::100/64`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// One that moves from machine to machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Itself.
    pub ip: IpAddr,
    /// Bits of the network's prefix.
    pub bits: u8,
}

impl Address {
    /// The most bits that its family has.
    fn bits_max(ip: IpAddr) -> u8 {
        if ip.is_ipv4() { 32 } else { 128 }
    }

    /// The first of a network is its name, the last is for all in it. `::ffff:10.0.0.1` is not on any network.
    fn is_nobodys(self) -> bool {
        match self.ip {
            IpAddr::V4(ip) if self.bits < 31 => {
                let hosts = u32::MAX >> self.bits;
                [0, hosts].contains(&(ip.to_bits() & hosts))
            }
            IpAddr::V4(ip) => ip.is_broadcast(),
            IpAddr::V6(ip) => ip.to_ipv4_mapped().is_some(),
        }
    }

    /// As keepalived reads it: any address, and where nothing is said of the network, the address alone.
    pub fn lenient(text: &str) -> Option<Self> {
        let (ip, bits) = text.split_once('/').map_or((text, None), |(ip, bits)| (ip, Some(bits)));
        let ip: IpAddr = ip.parse().ok()?;
        let bits = match bits {
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= Self::bits_max(ip))?,
            None => Self::bits_max(ip),
        };
        Some(Self { ip, bits })
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("{text:?} is not an address with its network, such as 10.0.0.100/24");
        let (ip, bits) = text.split_once('/').ok_or_else(wanted)?;
        let ip: IpAddr = ip.parse().map_err(|_| wanted())?;
        let bits: u8 = bits.parse().map_err(|_| wanted())?;
        if bits == 0 || bits > Self::bits_max(ip) {
            return Err(format!("{text:?}: a network has 1 to {} bits", Self::bits_max(ip)));
        }
        if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() {
            return Err(format!("{ip} cannot move from machine to machine"));
        }
        let address = Self { ip, bits };
        if address.is_nobodys() {
            return Err(format!(
                "{text:?} is no machine's address: it is the network's own, or for all in it"
            ));
        }
        Ok(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.ip, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_are_read_and_written() {
        for text in ["10.0.0.100/24", "fd00::100/64", "192.0.2.1/32", "192.0.2.0/31", "10.0.1.0/16"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!(Address::lenient("10.0.0.1").unwrap().to_string(), "10.0.0.1/32");
        assert_eq!(Address::lenient("10.0.0.0/24").unwrap().to_string(), "10.0.0.0/24");
        for odd in ["eth0", "10.0.0.1/33", "10.0.0.1/", "/24", "$VIP"] {
            assert_eq!(Address::lenient(odd), None, "{odd}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for text in [
            "10.0.0.100",
            "10.0.0/24",
            "10.0.0.1/33",
            "10.0.0.1/0",
            "fd00::1/129",
            "127.0.0.1/8",
            "::/64",
            "224.0.0.18/24",
            "10.0.0.0/24",
            "10.0.0.255/24",
            "255.255.255.255/32",
            "::ffff:10.0.0.1/120",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
