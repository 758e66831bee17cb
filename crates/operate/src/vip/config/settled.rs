//! What the options come to together: the check's command, the addresses that are elected, the password, the wait of a backup.

use std::path::Path;

use super::values::{plain_path, twice, whole_path};
use super::{Config, Purpose};
use crate::vip::address::Address;
use cli::exit::Failure;

/// What keepalived's authentication has room for.
const PASSWORD_BYTES_MAX: usize = 8;

/// The check's user and password, unless somebody says otherwise.
const DEFAULTS_FILE: &str = "/etc/understudy/check.cnf";

impl Config {
    pub(super) fn device(&self) -> &str {
        self.interfaces.first().map_or("eth0", String::as_str)
    }

    /// The command that decides.
    pub(super) fn check(&self, program: &str) -> Result<String, Failure> {
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
    pub(super) fn families(&self) -> Result<(Vec<Address>, Vec<Address>), Failure> {
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

    pub(super) fn password(&self, elected: &[Address]) -> Result<Option<String>, Failure> {
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
        let text = infile::read_text(file)
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

    /// How long a backup waits after a holder's farewell, as keepalived reckons: version 3 in steps of 10 ms, version 2 of a second.
    pub(super) fn skew_ms(&self, priority: u8) -> u32 {
        let left = 256 - u32::from(priority);
        if self.auth_password_file.is_some() {
            left * 1000 / 256
        } else {
            left * (self.advert_interval_ms / 10) / 256 * 10
        }
    }
}
