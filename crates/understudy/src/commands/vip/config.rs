//! `understudy vip config`: prints a complete keepalived.conf, with the reason for each line that matters.
//!
//! Enters: the command line, trusted in nothing, for what stands in this file is run by root. Leaves: text that
//! `keepalived --config-test` accepts (2.2 and newer), or a sentence. The times follow from one another:
//!
//! ```text
//!   the node fails ── check interval ──> FAULT, "priority 0" ── skew: (256 - priority) / 256 adverts ──> the next one has it
//!   the host is lost ────────── 3 adverts + skew ─────────────────────────────────────────────────────> the next one has it
//! ```

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::address::Address;
use super::{STATE_DIRECTORY, STATE_FILE};
use crate::exit::{Failure, Outcome};

/// What keepalived's authentication has room for.
const PASSWORD_BYTES_MAX: usize = 8;
/// The longest name of a device that the kernel takes.
const INTERFACE_BYTES_MAX: usize = 15;

/// Where the packages of Debian and of Red Hat have it.
const KEEPALIVED: &str = "/usr/sbin/keepalived";
/// The variables of their units for the options of an administrator, such as another configuration file.
const KEEPALIVED_OPTIONS: &str = "$DAEMON_ARGS $KEEPALIVED_OPTIONS";

/// The check's user and password, unless somebody says otherwise.
const DEFAULTS_FILE: &str = "/etc/understudy/check.cnf";

/// What the address stands for
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Purpose {
    /// A database node that can take traffic
    Database,
    /// A machine whose `understudy serve` is up
    Proxy,
}

/// Print a complete configuration for keepalived
#[derive(Args, Debug)]
#[command(
    after_help = "Give each machine a --priority of its own, at least 30 apart: equal ones, or close ones with a short advert \
                        interval, take the address at the same moment, and both have it until they hear each other.\n\n\
                        Exit codes: 0 printed; 1 this program cannot find its own file; 2 wrong usage."
)]
pub struct Config {
    /// What the address stands for
    #[arg(long = "for", value_enum, default_value = "database", value_name = "WHAT")]
    purpose: Purpose,
    /// The address that moves, with its network: 10.0.0.100/24 or fd00::100/64; may be repeated
    #[arg(long = "address", value_name = "ADDRESS/BITS", required_unless_present = "systemd")]
    addresses: Vec<Address>,
    /// The device that the address sits on; further ones must be up as well [default: eth0]
    #[arg(long = "interface", value_name = "DEVICE", value_parser = interface)]
    interfaces: Vec<String>,
    /// Tells this address's machines from those of another in the same network
    #[arg(long, value_name = "N", default_value_t = 51, value_parser = clap::value_parser!(u8).range(1..))]
    virtual_router_id: u8,
    /// Of several good machines, the highest takes a free address [default: 220; with --like-the-seed 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=254))]
    priority: Option<u8>,
    /// From one advert of the machine that has the address to the next, in ms: 10 to 40950, in steps of 10
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = advert_interval_ms)]
    advert_interval_ms: u32,
    /// Send adverts to this machine alone instead of to everybody (multicast); once for each other machine
    #[arg(long = "peer", value_name = "IP", value_parser = peer)]
    peers: Vec<IpAddr>,
    /// A file with the password of adverts, 1 to 8 characters; forces VRRP version 2
    #[arg(long, value_name = "FILE")]
    auth_password_file: Option<PathBuf>,
    /// What is run to learn whether this machine may have the address [default: Understudy's check]
    #[arg(long, value_name = "COMMAND", value_parser = command)]
    check_command: Option<String>,
    /// The check's user and password, as a MariaDB option file [default: /etc/understudy/check.cnf]
    #[arg(long, value_name = "FILE", conflicts_with = "check_command")]
    defaults_file: Option<PathBuf>,
    /// With --for proxy: the configuration of `understudy serve` [default: /etc/understudy/understudy.toml]
    #[arg(long = "config", value_name = "FILE", conflicts_with = "check_command")]
    serve: Option<PathBuf>,
    /// A node that feeds another, or was desynchronised, may keep the address
    #[arg(long, conflicts_with = "check_command")]
    available_when_donor: bool,
    /// From one check to the next, in s
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3600))]
    check_interval_s: u32,
    /// A check that takes longer counts as failed, in s
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3600))]
    check_timeout_s: u32,
    /// So many good checks until a machine counts as good
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    rise: u32,
    /// So many bad checks until it gives the address up
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    fall: u32,
    /// Where the state is kept [default: /run/understudy-vip/vip.state, with --name NAME.state there; with --like-the-seed
    /// /tmp/keepalived.state]
    #[arg(long, value_name = "FILE")]
    state_file: Option<PathBuf>,
    /// Keep each change of state with its time in this file
    #[arg(long, value_name = "FILE")]
    notify_log: Option<PathBuf>,
    /// What the instance is called; each one of a machine needs a name of its own [default: PXC, or PROXY]
    #[arg(long, value_name = "NAME", value_parser = word)]
    name: Option<String>,
    /// This program, as keepalived is to call it [default: where it lies now]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// The seed's configuration: state MASTER and priority 100 on all, no more settings than it has
    #[arg(long, conflicts_with_all = ["purpose", "auth_password_file", "peers", "rise", "fall", "check_timeout_s"])]
    like_the_seed: bool,
    /// Print the drop-in for systemd's keepalived.service instead
    #[arg(long)]
    systemd: bool,
    /// With --systemd: keepalived's configuration, if it is not /etc/keepalived/keepalived.conf
    #[arg(long = "keepalived-config", value_name = "FILE", requires = "systemd")]
    conf: Option<PathBuf>,
    /// With --systemd: where keepalived says its process number, if it is not /run/keepalived.pid
    #[arg(long, value_name = "FILE", requires = "systemd")]
    pid_file: Option<PathBuf>,
}

impl Config {
    /// Prints it.
    pub fn run(self) -> Outcome {
        self.refuse_what_is_not_asked()?;
        let program = match &self.program {
            Some(program) => program.clone(),
            None => std::env::current_exe().map_err(|e| {
                Failure::Failed(format!("cannot find this program's own file: {e}; say --program"))
            })?,
        };
        let program = plain_path(&program)?;
        let text = if self.systemd {
            self.drop_in(&program)?
        } else if self.like_the_seed {
            self.seeds(&program)?
        } else {
            self.advised(&program)?
        };
        print!("{text}");
        Ok(ExitCode::SUCCESS)
    }

    /// An option that would have no effect is a mistake.
    fn refuse_what_is_not_asked(&self) -> Result<(), Failure> {
        let proxy = self.purpose == Purpose::Proxy;
        let why = if proxy && self.defaults_file.is_some() {
            "--defaults-file is for a database's check; with --for proxy no database is asked"
        } else if proxy && self.available_when_donor {
            "--available-when-donor is for a database's check; with --for proxy no database is asked"
        } else if !proxy && self.serve.is_some() {
            "--config is the configuration of `understudy serve`, which only --for proxy asks; keepalived's own is --keepalived-config"
        } else {
            return Ok(());
        };
        Err(Failure::usage(why))
    }

    fn device(&self) -> &str {
        self.interfaces.first().map_or("eth0", String::as_str)
    }

    /// The configuration that we advise.
    fn advised(&self, program: &str) -> Result<String, Failure> {
        let (elected, excluded) = self.families()?;
        let password = self.password(&elected)?;
        let (name, check_name) = match self.purpose {
            Purpose::Database => (self.name.as_deref().unwrap_or("PXC"), "chk_node"),
            Purpose::Proxy => (self.name.as_deref().unwrap_or("PROXY"), "chk_proxy"),
        };
        let command = self.check(program)?;
        let state_file = match (&self.state_file, &self.name) {
            (Some(file), _) => file.clone(),
            // Several instances of a machine have names: what one of them records is not the other's.
            (None, Some(name)) => Path::new(STATE_DIRECTORY).join(format!("{name}.state")),
            (None, None) => STATE_FILE.into(),
        };
        let priority = self.priority.unwrap_or(220);
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "# An address that sits on a good machine. Written by `understudy vip config`; the same on all machines, but for the priority{peers}.\n\
             # Test it with `keepalived --config-test -f FILE`; what it says of this machine is said by `understudy vip status`.\n\n\
             global_defs {{\n\
             \x20   # The check and the notify commands run as this user, and only when nobody else can change their files.\n\
             \x20   script_user root\n\
             \x20   enable_script_security\n\n\
             {version}\n\
             \x20   # Neighbours learn the new place from gratuitous ARP and neighbour adverts: 3 at once, 3 more after 1 s for those\n\
             \x20   # that were not listening, and one every 10 s, which ends whatever a moment with two holders left in their caches.\n\
             \x20   vrrp_garp_master_repeat 3\n\
             \x20   vrrp_garp_master_delay 1\n\
             \x20   vrrp_garp_master_refresh 10\n\
             \x20   vrrp_garp_lower_prio_repeat 3\n\
             \x20   vrrp_garp_lower_prio_delay 1\n\
             \x20   vrrp_garp_interval 0.001\n\
             \x20   vrrp_gna_interval 0.001\n",
            peers = if self.peers.is_empty() { "" } else { " and the peers" },
            version = if password.is_some() {
                "    # Only version 2 has a password, and it knows whole seconds only.\n    vrrp_version 2\n"
            } else {
                "    # Version 3 knows intervals below 1 s, and its skew time shrinks with them.\n    vrrp_version 3\n"
            },
        );
        if !self.peers.is_empty() {
            text.push_str("    # An advert from anybody else is no advert.\n    vrrp_check_unicast_src\n");
        }
        let lost_ms = 3 * self.advert_interval_ms + self.skew_ms(priority);
        if self.advert_interval_ms < 1000 {
            text.push_str(
                "    # So short an interval needs a keepalived that is never kept waiting: the others would take the address meanwhile.\n\
                 \x20   vrrp_no_swap\n\
                 \x20   vrrp_rt_priority 50\n\
                 \x20   vrrp_rlimit_rttime 1000000\n",
            );
        }
        let _ = write!(
            text,
            "}}\n\n\
             vrrp_script {check_name} {{\n\
             \x20   # Only its exit code counts: 0 is good.\n\
             \x20   script \"{command}\"\n\
             \x20   # The time to notice a failed node is at most the interval and the check's own time.\n\
             \x20   interval {interval}\n\
             \x20   # Longer than the check's own deadline: keepalived's is only for a check that is itself stuck.\n\
             \x20   timeout {timeout}\n\
             \x20   # One bad answer is a fact here, not noise: what it asks is the node's own word.\n\
             \x20   fall {fall}\n\
             \x20   # Who comes back is good for a moment longer before it may take the address.\n\
             \x20   rise {rise}\n\
             \x20   # Bad until the first check says otherwise: a machine that starts must not take the address unasked.\n\
             \x20   init_fail\n\
             }}\n\n\
             vrrp_instance {name} {{\n\
             \x20   # Everybody begins as a backup, and nobody takes the address from one that has it and is good: the address moves when\n\
             \x20   # its holder fails and at no other time, not when a machine of a higher priority comes back.\n\
             \x20   state BACKUP\n\
             \x20   nopreempt\n\
             \x20   interface {device}\n\
             \x20   virtual_router_id {id}\n\
             \x20   # Each machine its own, at least 30 apart. It decides who takes a free address, and how soon: a holder that fails\n\
             \x20   # says so, and the others wait (256 - priority) / 256 of an advert interval; here {skew} ms.\n\
             \x20   priority {priority}\n\
             \x20   # A holder that is lost without a word is missed after 3 of these and the wait: {lost_ms} ms.\n\
             \x20   advert_int {advert}\n",
            interval = self.check_interval_s,
            timeout = self.check_timeout_s,
            fall = self.fall,
            rise = self.rise,
            device = self.device(),
            id = self.virtual_router_id,
            skew = self.skew_ms(priority),
            advert = f64::from(self.advert_interval_ms) / 1000.0,
        );
        if let Some(password) = password {
            let _ = write!(
                text,
                "    # Goes over the network in clear: it keeps out mistakes, not people.\n\
                 \x20   authentication {{\n        auth_type PASS\n        auth_pass {password}\n    }}\n"
            );
        }
        if !self.peers.is_empty() {
            text.push_str("    unicast_peer {\n");
            for peer in &self.peers {
                let _ = writeln!(text, "        {peer}");
            }
            text.push_str("    }\n");
        }
        self.put_more_interfaces(&mut text);
        put_addresses(&mut text, "virtual_ipaddress", &elected);
        if !excluded.is_empty() {
            text.push_str(
                "    # Adverts carry one family; these move with them. One instance for both: they can never sit on two machines.\n",
            );
            put_addresses(&mut text, "virtual_ipaddress_excluded", &excluded);
        }
        let _ = write!(text, "    track_script {{\n        {check_name}\n    }}\n");
        self.notify(&mut text, program, &state_file)?;
        text.push_str("}\n");
        Ok(text)
    }

    /// The seed's own, with only what keepalived needs today.
    fn seeds(&self, program: &str) -> Result<String, Failure> {
        let (elected, excluded) = self.families()?;
        let donor = u8::from(self.available_when_donor);
        let command = self
            .check_command
            .clone()
            .unwrap_or_else(|| format!("/usr/bin/clustercheck clustercheck password {donor}"));
        let state_file = self.state_file.as_deref().unwrap_or_else(|| Path::new("/tmp/keepalived.state"));
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "# The seed's configuration, the same on all nodes. Equal priorities: when the holder fails, all others take the address at the\n\
             # same moment, and the one with the highest address of its own keeps it. `understudy vip config` without --like-the-seed avoids this.\n\
             global_defs {{\n    script_user root\n    enable_script_security\n}}\n\n\
             vrrp_script chk_pxc {{\n    # The password shows in `ps`.\n    script \"{command}\"\n    interval {interval}\n}}\n\n\
             vrrp_instance {name} {{\n    state MASTER\n    interface {device}\n    virtual_router_id {id}\n    priority {priority}\n",
            interval = self.check_interval_s,
            name = self.name.as_deref().unwrap_or("PXC"),
            device = self.device(),
            id = self.virtual_router_id,
            priority = self.priority.unwrap_or(100),
        );
        if self.advert_interval_ms != 1000 {
            let _ = writeln!(
                text,
                "    version 3\n    advert_int {}",
                f64::from(self.advert_interval_ms) / 1000.0
            );
        }
        self.put_more_interfaces(&mut text);
        for (block, addresses) in [("virtual_ipaddress", &elected), ("virtual_ipaddress_excluded", &excluded)]
        {
            if !addresses.is_empty() {
                put_addresses(&mut text, block, addresses);
            }
        }
        text.push_str("    track_script {\n        chk_pxc\n    }\n");
        text.push_str(
            "    # The seed writes by echo and `>`, which need a shell; keepalived runs these without one.\n",
        );
        self.notify(&mut text, program, state_file)?;
        text.push_str("}\n");
        Ok(text)
    }

    /// Those beside the one of the address.
    fn put_more_interfaces(&self, text: &mut String) {
        if let [_, more @ ..] = self.interfaces.as_slice()
            && !more.is_empty()
        {
            text.push_str("    # These must be up, too; the one above is watched without being named here.\n    track_interface {\n");
            for device in more {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "        {device}");
            }
            text.push_str("    }\n");
        }
    }

    fn notify(&self, text: &mut String, program: &str, state_file: &Path) -> Result<(), Failure> {
        let file = plain_path(state_file)?;
        let log = match &self.notify_log {
            Some(log) => format!(" --log {}", plain_path(log)?),
            None => String::new(),
        };
        for state in ["master", "backup", "fault", "stop"] {
            let _ = writeln!(
                text,
                "    notify_{state} \"{program} vip notify {state} --state-file {file}{log}\""
            );
        }
        Ok(())
    }

    /// The command that decides.
    fn check(&self, program: &str) -> Result<String, Failure> {
        if let Some(command) = &self.check_command {
            return Ok(command.clone());
        }
        Ok(match self.purpose {
            Purpose::Proxy => {
                // keepalived starts it in a directory of its own.
                let config = match &self.serve {
                    Some(file) => format!(" --config {}", whole_path(file)?),
                    None => String::new(),
                };
                format!("{program} check --once --serve{config}")
            }
            Purpose::Database => {
                let donor = if self.available_when_donor { " --available-when-donor" } else { "" };
                let file = plain_path(self.defaults_file.as_deref().unwrap_or(Path::new(DEFAULTS_FILE)))?;
                format!("{program} check --once --defaults-file {file}{donor}")
            }
        })
    }

    /// The addresses of the family that adverts carry, and the others. Adverts go between addresses of their own family.
    fn families(&self) -> Result<(Vec<Address>, Vec<Address>), Failure> {
        let v4 = match self.peers.split_first() {
            None => self.addresses.iter().any(|address| address.ip.is_ipv4()),
            Some((first, more)) => {
                if more.iter().any(|peer| peer.is_ipv4() != first.is_ipv4()) {
                    return Err(Failure::usage("--peer: all of them must be of one family, IPv4 or IPv6"));
                }
                first.is_ipv4()
            }
        };
        twice("--peer", &self.peers)?;
        twice("--interface", &self.interfaces)?;
        for (at, address) in self.addresses.iter().enumerate() {
            if self.addresses[..at].iter().any(|other| other.ip == address.ip) {
                return Err(Failure::Usage(format!("--address {} is there twice", address.ip)));
            }
            if self.peers.contains(&address.ip) {
                return Err(Failure::Usage(format!(
                    "--peer {}: this is the address that moves; a peer has one of its own",
                    address.ip
                )));
            }
        }
        let (elected, excluded): (Vec<Address>, Vec<Address>) =
            self.addresses.iter().partition(|address| address.ip.is_ipv4() == v4);
        if elected.is_empty() {
            let (peers, wanted) = if v4 { ("IPv4", "IPv4") } else { ("IPv6", "IPv6") };
            return Err(Failure::Usage(format!(
                "keepalived needs at least one --address of the peers' family: the peers are {peers}, and no {wanted} address is given"
            )));
        }
        Ok((elected, excluded))
    }

    fn password(&self, elected: &[Address]) -> Result<Option<String>, Failure> {
        let Some(file) = &self.auth_password_file else { return Ok(None) };
        if elected.iter().any(|address| address.ip.is_ipv6()) {
            return Err(Failure::usage(
                "--auth-password-file: IPv6 adverts have no password, VRRP version 3 dropped it",
            ));
        }
        if !self.advert_interval_ms.is_multiple_of(1000) {
            return Err(Failure::usage(
                "--auth-password-file: only VRRP version 2 has a password, and it needs whole seconds as --advert-interval-ms",
            ));
        }
        let text = std::fs::read_to_string(file)
            .map_err(|e| Failure::Usage(format!("cannot read the password file {}: {e}", file.display())))?;
        let password = text.trim_end_matches(['\r', '\n']);
        let fits = |byte: u8| byte.is_ascii_graphic() && !b"\"#!{}$\\'".contains(&byte);
        if password.is_empty() || password.len() > PASSWORD_BYTES_MAX || !password.bytes().all(fits) {
            return Err(Failure::Usage(format!(
                "{}: the password must be 1 to {PASSWORD_BYTES_MAX} letters, digits or signs, none of \" # ! {{ }} $ \\ '",
                file.display()
            )));
        }
        Ok(Some(password.to_owned()))
    }

    /// What systemd has to do beside keepalived.
    fn drop_in(&self, program: &str) -> Result<String, Failure> {
        let mut release = format!("{program} vip release");
        for (option, file) in [("--config", &self.conf), ("--pid-file", &self.pid_file)] {
            if let Some(file) = file {
                release = format!("{release} {option} {}", whole_path(file)?);
            }
        }
        Ok(format!(
            "# /etc/systemd/system/keepalived.service.d/understudy.conf, then `systemctl daemon-reload`.\n\
             # Written by `understudy vip config --systemd`.\n\
             [Unit]\n\
             # Tried again however often it fails.\n\
             StartLimitIntervalSec=0\n\n\
             [Service]\n\
             # keepalived leaves out a check that it cannot run, and then takes the address unasked: it must not start like that.\n\
             # Tested is what will run: with the options of /etc/default/keepalived (Debian) or /etc/sysconfig/keepalived (Red Hat).\n\
             Environment=DAEMON_ARGS= KEEPALIVED_OPTIONS=\n\
             ExecStartPre={KEEPALIVED} --config-test {KEEPALIVED_OPTIONS}\n\
             # A keepalived that is killed leaves its address in the kernel, and another machine takes it, too. This takes it away.\n\
             ExecStopPost={release}\n\
             Restart=always\n\
             RestartSec=1s\n"
        ))
    }

    /// How long a backup waits after a holder's farewell, as keepalived reckons: version 3 in steps of 10 ms, version 2 of a second.
    fn skew_ms(&self, priority: u8) -> u32 {
        let left = 256 - u32::from(priority);
        if self.auth_password_file.is_some() {
            left * 1000 / 256
        } else {
            left * (self.advert_interval_ms / 10) / 256 * 10
        }
    }
}

/// Addresses as keepalived takes them. A deprecated IPv6 address is not chosen for connections that this machine opens: they
/// would break when it moves. IPv4 needs no such word: an address in a network that the machine is in already is never chosen.
fn put_addresses(text: &mut String, block: &str, addresses: &[Address]) {
    let _ = writeln!(text, "    {block} {{");
    for address in addresses {
        let deprecated = if address.ip.is_ipv6() { " preferred_lft 0" } else { "" };
        let _ = writeln!(text, "        {address}{deprecated}");
    }
    text.push_str("    }\n");
}

/// keepalived warns of what is there twice, and its `--config-test` fails then.
fn twice<T: PartialEq + std::fmt::Display>(option: &str, all: &[T]) -> Result<(), Failure> {
    match all.iter().enumerate().find(|(at, one)| all[..*at].contains(one)) {
        Some((_, one)) => Err(Failure::Usage(format!("{option} {one} is there twice"))),
        None => Ok(()),
    }
}

/// A path as seen from here, which is not where it is used.
fn whole_path(path: &Path) -> Result<String, Failure> {
    let path = std::path::absolute(path)
        .map_err(|e| Failure::Usage(format!("{}: cannot be made a whole path: {e}", path.display())))?;
    plain_path(&path)
}

/// A path that can stand in a command line of keepalived, and of systemd, without quotes.
fn plain_path(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().filter(|text| {
        path.is_absolute() && text.chars().all(|c| c.is_alphanumeric() || "/._-+@:,=".contains(c))
    });
    text.map(str::to_owned).ok_or_else(|| {
        Failure::Usage(format!(
            "{}: in keepalived's configuration a path must begin with / and have only letters, digits and . _ - + @ : , =",
            path.display()
        ))
    })
}

fn advert_interval_ms(text: &str) -> Result<u32, String> {
    // VRRP counts hundredths of a second, in 12 bits.
    let fits = |ms: &u32| (10..=40_950).contains(ms) && ms.is_multiple_of(10);
    text.parse().ok().filter(fits).ok_or_else(|| "must be 10 to 40950, in steps of 10".into())
}

fn peer(text: &str) -> Result<IpAddr, String> {
    let ip: IpAddr = text.parse().map_err(|_| "is not an IP address".to_owned())?;
    if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() || ip == Ipv4Addr::BROADCAST {
        return Err("is not the address of another machine".into());
    }
    Ok(ip)
}

fn interface(text: &str) -> Result<String, String> {
    // `@` and `~` mean something to keepalived, and a device of a parent (`eth0.5@eth0` in `ip link`) is known without it.
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.+".contains(&byte);
    if text.is_empty() || text.len() > INTERFACE_BYTES_MAX || !text.bytes().all(fits) {
        return Err(format!(
            "a device's name has 1 to {INTERFACE_BYTES_MAX} letters, digits and signs of _ - . +"
        ));
    }
    if text == "lo" {
        return Err("VRRP needs a network, which lo is not".into());
    }
    Ok(text.to_owned())
}

fn word(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if text.is_empty() || text.len() > 32 || !text.bytes().all(fits) {
        return Err("must be 1 to 32 letters, digits, _ - or .".into());
    }
    Ok(text.to_owned())
}

fn command(text: &str) -> Result<String, String> {
    if text.chars().any(|c| c.is_control() || c == '"') {
        return Err("must be one line without \"; use ' for words with spaces".into());
    }
    if text.contains(['\\', '$']) {
        return Err(
            "must have no \\ and no $, which keepalived replaces; write what needs them into a script".into(),
        );
    }
    let words = shlex::split(text).ok_or("has a quote that does not end")?;
    match words.first() {
        Some(program) if program.starts_with('/') => Ok(text.to_owned()),
        _ => Err("must begin with the whole path of a program: keepalived looks nowhere else".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::conf_file::ConfFile;
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        config: Config,
    }

    fn config(line: &str) -> Config {
        Line::try_parse_from(std::iter::once("x").chain(line.split_whitespace())).unwrap().config
    }

    fn text(line: &str) -> Result<String, String> {
        let config = config(line);
        let text = if config.like_the_seed {
            config.seeds("/usr/bin/understudy")
        } else {
            config.advised("/usr/bin/understudy")
        };
        text.map_err(|failure| match failure {
            Failure::Usage(text) | Failure::Failed(text) | Failure::Unreachable(text) => text,
        })
    }

    #[test]
    fn what_is_printed_can_be_read_again() {
        let conf =
            ConfFile::parse(&text("--address 10.0.0.100/24 --address fd00::9/64 --interface eth1").unwrap());
        let instance = &conf.instances[0];
        assert_eq!(instance.addresses.len(), 2);
        assert!(instance.addresses.iter().all(|(_, device)| device == "eth1"));
        assert_eq!(instance.state_file.as_deref(), Some(Path::new(STATE_FILE)));
        assert_eq!(
            conf.scripts[0].command,
            "/usr/bin/understudy check --once --defaults-file /etc/understudy/check.cnf"
        );
    }

    #[test]
    fn nobody_takes_the_address_from_a_good_holder() {
        let advised = text("--address 10.0.0.100/24").unwrap();
        assert!(advised.contains("    state BACKUP\n    nopreempt\n") && advised.contains("    init_fail\n"));
        let seeds = text("--address 10.0.0.100/24 --like-the-seed").unwrap();
        assert!(seeds.contains("    state MASTER\n") && seeds.contains("    priority 100\n"));
        assert!(seeds.contains("script \"/usr/bin/clustercheck clustercheck password 0\""));
        assert!(!seeds.contains("nopreempt"));
    }

    #[test]
    fn adverts_carry_one_family() {
        let both = "--address 10.0.0.100/24 --address fd00::9/64";
        let v4_first = text(both).unwrap();
        let (elected, rest) = v4_first.split_once("virtual_ipaddress_excluded").unwrap();
        assert!(elected.contains("10.0.0.100/24") && rest.contains("fd00::9/64 preferred_lft 0"));
        let v6_first = text(&format!("{both} --peer fd00::2")).unwrap();
        let (elected, rest) = v6_first.split_once("virtual_ipaddress_excluded").unwrap();
        assert!(elected.contains("fd00::9/64") && rest.contains("10.0.0.100/24"));
        assert!(text("--address 10.0.0.100/24 --peer fd00::2").unwrap_err().contains("family"));
        assert!(
            text("--address 10.0.0.100/24 --peer 10.0.0.2 --peer fd00::2")
                .unwrap_err()
                .contains("one family")
        );
        assert!(text("--address 10.0.0.100/24 --peer 10.0.0.100").unwrap_err().contains("of its own"));
        assert!(text("--address 10.0.0.100/24 --address 10.0.0.100/32").unwrap_err().contains("twice"));
    }

    #[test]
    fn the_wait_is_as_keepalived_reckons_it() {
        for (line, priority, skew_ms) in
            [("", 220, 140), ("", 100, 600), ("--advert-interval-ms 100", 190, 20)]
        {
            assert_eq!(config(&format!("--address 10.0.0.100/24 {line}")).skew_ms(priority), skew_ms);
        }
    }

    #[test]
    fn a_password_has_its_limits_and_is_never_said() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pass");
        let with = |password: &str, more: &str| {
            std::fs::write(&file, password).unwrap();
            text(&format!("--address 10.0.0.100/24 --auth-password-file {} {more}", file.display()))
        };
        let good = with("secret12\n", "").unwrap();
        assert!(good.contains("auth_pass secret12\n") && good.contains("vrrp_version 2\n"));
        for bad in ["", "ninechars", "a b", "a\"b"] {
            let error = with(bad, "").unwrap_err();
            assert!(error.contains("1 to 8") && (bad.is_empty() || !error.contains(bad)), "{error}");
        }
        assert!(with("secret12", "--advert-interval-ms 100").unwrap_err().contains("whole seconds"));
    }

    #[test]
    fn what_would_break_the_file_is_refused() {
        for bad in ["eth0\"", "a b", "lo", "", "sixteen-letters-", "@eth1", "~SEQ(a,1)"] {
            assert!(interface(bad).is_err(), "{bad}");
        }
        for bad in ["0.0.0.0", "224.0.0.18", "::1", "255.255.255.255", "db2"] {
            assert!(peer(bad).is_err(), "{bad}");
        }
        for bad in ["0", "15", "40960", "-10", "1s"] {
            assert!(advert_interval_ms(bad).is_err(), "{bad}");
        }
        for twice in ["--peer 10.0.0.2 --peer 10.0.0.2", "--interface eth0 --interface eth0"] {
            assert!(text(&format!("--address 10.0.0.100/24 {twice}")).unwrap_err().contains("twice"));
        }
        for bad in ["true", "/bin/a \"b\"", "/bin/a\n}", "/bin/a 'b", "/bin/a \\b", "/bin/a $B"] {
            assert!(command(bad).is_err(), "{bad}");
        }
        assert!(plain_path(Path::new("/a b")).is_err() && plain_path(Path::new("a")).is_err());
        assert_eq!(command("/bin/sh -c 'exit 0'").as_deref(), Ok("/bin/sh -c 'exit 0'"));
    }

    #[test]
    fn systemd_takes_away_what_a_kill_leaves() {
        let drop_in = |line: &str| config(line).drop_in("/usr/bin/understudy").map_err(|_| ()).unwrap();
        let plain = drop_in("--systemd");
        assert!(plain.contains("ExecStopPost=/usr/bin/understudy vip release\n"));
        assert!(
            plain.contains(
                "ExecStartPre=/usr/sbin/keepalived --config-test $DAEMON_ARGS $KEEPALIVED_OPTIONS\n"
            )
        );
        assert!(drop_in("--systemd --keepalived-config /etc/k.conf --pid-file /run/k/k.pid").contains(
            "ExecStopPost=/usr/bin/understudy vip release --config /etc/k.conf --pid-file /run/k/k.pid\n"
        ));
    }

    #[test]
    fn each_name_has_its_own_state() {
        let file = |line: &str| {
            let conf = ConfFile::parse(&text(&format!("--address 10.0.0.100/24 {line}")).unwrap());
            conf.instances[0].state_file.clone().unwrap()
        };
        assert_eq!(file(""), Path::new("/run/understudy-vip/vip.state"));
        assert_eq!(file("--name east"), Path::new("/run/understudy-vip/east.state"));
        assert_eq!(file("--name east --state-file /run/e"), Path::new("/run/e"));
        assert_eq!(file("--name east --like-the-seed"), Path::new("/tmp/keepalived.state"));
    }

    #[test]
    fn the_proxys_check_reads_its_own_configuration() {
        let command = |line: &str| ConfFile::parse(&text(line).unwrap()).scripts[0].command.clone();
        let proxy = "--address 10.0.0.100/24 --for proxy";
        assert_eq!(command(proxy), "/usr/bin/understudy check --once --serve");
        let here = std::env::current_dir().unwrap().join("u.toml");
        if plain_path(&here).is_ok() {
            let expected = format!("/usr/bin/understudy check --once --serve --config {}", here.display());
            assert_eq!(command(&format!("{proxy} --config u.toml")), expected);
        }
    }
}
