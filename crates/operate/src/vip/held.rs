//! Which addresses this machine has, and taking one away: `ip`, which every machine with keepalived has.

use std::net::IpAddr;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::address::Address;
use cli::exit::Failure;

/// An address that is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which one.
    pub address: Address,
    /// On which device.
    pub device: String,
}

impl Held {
    /// Whether it is the one that the configuration has on `device`. Where keepalived really puts it is its own business (`use_vmac`
    /// makes a device for it), so any device counts; but a copy on the loopback is somebody else's doing, as for LVS.
    pub fn is(&self, ip: IpAddr, device: &str) -> bool {
        self.address.ip == ip && (self.device != "lo" || device == "lo")
    }
}

/// The addresses of this machine (of this network namespace).
///
/// # Errors
/// When `ip` is not there or says nothing.
pub fn all() -> Result<Vec<Held>, Failure> {
    let said = ip(&["-json", "address", "show"]).map_err(Failure::Failed)?;
    let links: Value = serde_json::from_str(&said)
        .map_err(|e| Failure::Failed(format!("`ip -json address show` did not answer in JSON: {e}")))?;
    Ok(read(&links))
}

fn read(links: &Value) -> Vec<Held> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for link in list(links) {
        let device = link["ifname"].as_str().unwrap_or_default();
        for address in list(&link["addr_info"]) {
            let ip = address["local"].as_str().and_then(|text| text.parse::<IpAddr>().ok());
            let bits = address["prefixlen"].as_u64().and_then(|bits| u8::try_from(bits).ok());
            if let (Some(ip), Some(bits)) = (ip, bits) {
                found.push(Held { address: Address { ip, bits }, device: device.to_owned() });
            }
        }
    }
    found
}

/// Takes an address off its device.
///
/// # Errors
/// `ip`'s own words: most often that only root may do this.
pub fn remove(held: &Held) -> Result<(), String> {
    ip(&["address", "delete", &held.address.to_string(), "dev", &held.device]).map(drop)
}

fn ip(arguments: &[&str]) -> Result<String, String> {
    let line = format!("`ip {}`", arguments.join(" "));
    let output = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot run {line}: {e}; it comes with the package iproute2"))?;
    if !output.status.success() {
        return Err(format!("{line}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_ip_is_read() {
        let links = serde_json::json!([
            { "ifname": "lo", "addr_info": [{ "local": "127.0.0.1", "prefixlen": 8 }] },
            { "ifname": "eth0", "addr_info": [
                { "family": "inet", "local": "10.0.0.1", "prefixlen": 24 },
                { "family": "inet6", "local": "fd00::9", "prefixlen": 64 },
                { "family": "inet6" },
            ] },
            {},
        ]);
        let found: Vec<String> =
            read(&links).iter().map(|held| format!("{} {}", held.address, held.device)).collect();
        assert_eq!(found, ["127.0.0.1/8 lo", "10.0.0.1/24 eth0", "fd00::9/64 eth0"]);
        assert!(read(&Value::Null).is_empty());
    }

    #[test]
    fn an_address_is_found_on_any_device_but_the_loopback() {
        let on = |device: &str| Held { address: "10.0.0.9/32".parse().unwrap(), device: device.into() };
        let ip = "10.0.0.9".parse().unwrap();
        assert!(on("eth0").is(ip, "eth0") && on("vrrp.51").is(ip, "eth0"));
        assert!(!on("lo").is(ip, "eth0") && on("lo").is(ip, "lo"));
        assert!(!on("eth0").is("10.0.0.8".parse().unwrap(), "eth0"));
    }

    #[test]
    fn this_machine_has_its_loopback() {
        assert!(all().unwrap().iter().any(|held| held.address.ip.is_loopback()));
    }
}
