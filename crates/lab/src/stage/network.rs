//! The network of a stage: hosts on one switch, or the nearest equivalent that an ordinary user can have.
//!
//! ```text
//!  namespace us-NAME-db1      namespace us-NAME-db2          this namespace
//!    eth0 10.77.S.1             eth0 10.77.S.2          us-brS 10.77.S.254
//!      | veth                     | veth                     |
//!    us-S-1 ------------------ us-S-2 -------- bridge -------+
//! ```
//!
//! `vanish` sets `us-S-N` down: from then on no packet reaches the node or leaves it, and no other host is notified, as with a pulled cable
//! or a lost host. [`Network::set_plugged`] removes it from the bridge instead: the node sees a link that is up, but no other host.
//! Namespaces have no route to anywhere else. Without root: the addresses are 127.77.S.N on the shared loopback, where a single address
//! cannot be cut off.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use anyhow::{Context, bail};

/// The addresses and devices of one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The stage's name.
    pub stage: String,
    /// Third byte of the addresses.
    pub subnet: u8,
    /// True: namespaces; false: loopback addresses.
    pub namespaced: bool,
    /// Number of nodes.
    pub nodes: u8,
}

impl Network {
    /// The address of node 1..=nodes.
    pub fn address(&self, number: u8) -> IpAddr {
        let first = if self.namespaced { 10 } else { 127 };
        IpAddr::V4(Ipv4Addr::new(first, 77, self.subnet, number))
    }

    /// This side's address: clients and proxies use it.
    pub fn host_address(&self) -> IpAddr {
        self.address(254)
    }

    /// The namespace of a node, if it has one.
    pub fn namespace(&self, number: u8) -> Option<String> {
        self.namespaced.then(|| format!("us-{}-db{number}", self.stage))
    }

    /// The IPv6 address of node 1..=nodes, and of this side (254), once [`Network::add_ipv6`] has added it.
    pub fn address_v6(&self, number: u8) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00, 0x77, u16::from(self.subnet), 0, 0, 0, 0, u16::from(number))
    }

    /// Adds an IPv6 address to each node and to this side.
    ///
    /// # Errors
    /// On loopback, and where the kernel has no IPv6.
    pub fn add_ipv6(&self) -> anyhow::Result<()> {
        if !self.namespaced {
            bail!("without root the nodes have no network of their own to put IPv6 addresses on");
        }
        // No other host can have the address: duplicate address detection, which takes a second, is not needed.
        let add = |number, place: &str| ip(&format!("{place} {}/64 nodad", self.address_v6(number)));
        add(254, &format!("addr replace dev {}", self.bridge()))?;
        for number in 1..=self.nodes {
            let Some(namespace) = self.namespace(number) else { continue };
            add(number, &format!("-n {namespace} addr replace dev eth0"))?;
        }
        Ok(())
    }

    fn bridge(&self) -> String {
        format!("us-br{}", self.subnet)
    }

    fn port(&self, number: u8) -> String {
        format!("us-{}-{number}", self.subnet)
    }

    /// Creates the network. What was created before an error is removed by [`Network::remove`].
    pub fn make(&self) -> anyhow::Result<()> {
        if !self.namespaced {
            return Ok(());
        }
        let bridge = self.bridge();
        // A bridge without its own MAC address takes the lowest of its ports', and another one when that port is unplugged: the nodes
        // would keep sending to the old one, as if this side had been lost as well.
        ip(&format!("link add {bridge} address 02:75:73:00:{:02x}:fe type bridge", self.subnet))?;
        ip(&format!("addr add {}/24 dev {bridge}", self.host_address()))?;
        ip(&format!("link set {bridge} up"))?;
        for number in 1..=self.nodes {
            let (Some(namespace), port) = (self.namespace(number), self.port(number)) else { continue };
            ip(&format!("netns add {namespace}"))?;
            ip(&format!("link add {port} type veth peer name eth0 netns {namespace}"))?;
            ip(&format!("link set {port} master {bridge}"))?;
            ip(&format!("link set {port} up"))?;
            ip(&format!("-n {namespace} addr add {}/24 dev eth0", self.address(number)))?;
            ip(&format!("-n {namespace} link set eth0 up"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
        }
        Ok(())
    }

    /// Removes what exists of the network. Processes in it must have ended.
    pub fn remove(&self) -> anyhow::Result<()> {
        if !self.namespaced {
            return Ok(());
        }
        for number in 1..=self.nodes {
            let port = self.port(number);
            // Deleting either end deletes the other; deleting the namespace would do so too, but later than this function checks.
            delete("link", &port, device_exists)?;
            if let Some(namespace) = self.namespace(number) {
                delete("netns", &namespace, namespace_exists)?;
            }
        }
        delete("link", &self.bridge(), device_exists)
    }

    /// Cuts a node off, or connects it again.
    ///
    /// # Errors
    /// On loopback, where it is impossible; the text says why.
    pub fn set_link(&self, number: u8, up: bool) -> anyhow::Result<()> {
        if !self.namespaced {
            bail!(
                "db{number} cannot vanish: without root the nodes share this machine's loopback, which cannot lose one address alone. \
                 Run the lab as root for a network namespace per node, or use `freeze`"
            );
        }
        ip(&format!("link set {} {}", self.port(number), if up { "up" } else { "down" }))
    }

    /// Unplugs a node from the switch, or plugs it in again. Its link stays up: the node cannot notice it, but no packet gets through.
    ///
    /// # Errors
    /// On loopback, where there is no switch.
    pub fn set_plugged(&self, number: u8, plugged: bool) -> anyhow::Result<()> {
        if !self.namespaced {
            bail!("db{number} cannot be cut off: without root the nodes have no network of their own");
        }
        let port = self.port(number);
        if plugged {
            ip(&format!("link set {port} master {}", self.bridge()))
        } else {
            ip(&format!("link set {port} nomaster"))
        }
    }

    /// A command line that runs `program` in the namespace of node `number`.
    pub fn command_in(&self, number: u8, program: &Path) -> Command {
        match self.namespace(number) {
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &namespace]).arg(program);
                command
            }
            None => Command::new(program),
        }
    }
}

/// Whether this process can create namespaces. Determined by trying: root in a container often cannot.
pub fn may_make_namespaces() -> bool {
    // Several stages of one process may try at the same time.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    if !rustix::process::geteuid().is_root() {
        return false;
    }
    let probe = format!("us-probe-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
    let made = ip(&format!("netns add {probe}")).is_ok();
    made && ip(&format!("netns del {probe}")).is_ok()
}

/// The first subnet that no stage in `taken` and nothing else on this machine uses. Must be called with the root lock held.
pub fn free_subnet(taken: &BTreeSet<u8>, namespaced: bool) -> anyhow::Result<u8> {
    let ours = if namespaced { own_addresses()? } else { String::new() };
    (0..=255)
        .filter(|subnet| !taken.contains(subnet))
        .find(|subnet| {
            if namespaced {
                !device_exists(&format!("us-br{subnet}")) && !ours.contains(&format!(" 10.77.{subnet}."))
            } else {
                (1..=5).all(|number| is_free(*subnet, number))
            }
        })
        .context("no free subnet in 10.77.0.0/16 (127.77.0.0/16): `understudy lab down --all` ends forgotten stages")
}

fn is_free(subnet: u8, number: u8) -> bool {
    [3306, 4567].iter().all(|port| {
        TcpListener::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 77, subnet, number)), *port)).is_ok()
    })
}

/// Deletes a device or a namespace, if there is one of this name. Another process may remove the same stage at the same time.
fn delete(kind: &str, name: &str, exists: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    if !exists(name) {
        return Ok(());
    }
    ip(&format!("{kind} del {name}")).or_else(|error| if exists(name) { Err(error) } else { Ok(()) })
}

fn namespace_exists(name: &str) -> bool {
    Path::new("/run/netns").join(name).exists()
}

fn device_exists(name: &str) -> bool {
    Path::new("/sys/class/net").join(name).exists()
}

fn own_addresses() -> anyhow::Result<String> {
    let output = Command::new("ip").args(["-o", "-4", "addr", "show"]).output().context("cannot run `ip`")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn ip(arguments: &str) -> anyhow::Result<()> {
    let output = Command::new("ip")
        .args(arguments.split_whitespace())
        .output()
        .context("cannot run `ip`: `apt-get install iproute2`")?;
    if !output.status.success() {
        bail!("`ip {arguments}`: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
