//! What a client was told of TLS: the options of MariaDB's client (`ssl`, `ssl-ca`, `ssl-verify-server-cert`, ...) and of MySQL's (`ssl-mode`,
//! `ssl-ca`, ...), which share their files.
//!
//! Sources: MariaDB's manual, "mariadb Command-Line Client"; MySQL's, "Command Options for Encrypted Connections". Where the two would do different
//! things, the stricter one is meant: who asks for TLS never gets less.

use std::path::PathBuf;

/// What was said; [`Tls::wish`] is what it means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// `ssl`, or an option that switches it on. The last one counts.
    is_on: Option<bool>,
    /// `ssl-verify-server-cert`.
    verifies: Option<bool>,
    /// MySQL's `ssl-mode`, which counts whatever else was said.
    mode: Option<Wish>,
    /// `ssl-ca`, or a directory of such files.
    trusts: Option<PathBuf>,
    is_directory: bool,
}

/// What is asked of a connection to a server. On a unix socket nothing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Plain, also for `ssl-mode = PREFERRED`, which takes a plain connection where the server has nothing else.
    Plain,
    /// TLS, with whatever certificate.
    Required,
    /// TLS, with a certificate that comes from the authority and is for this host.
    Verified,
}

impl Tls {
    /// One option; `value` is what stands behind `=`, `switch` what a prefix says.
    pub(crate) fn set(
        &mut self,
        option: &str,
        switch: Option<bool>,
        value: Option<&str>,
    ) -> Result<(), String> {
        let is_off = |value: &str| ["0", "off", "false"].contains(&value.to_ascii_lowercase().as_str());
        let is_on = switch.unwrap_or_else(|| !value.is_some_and(is_off));
        let given = value.filter(|value| !value.is_empty() && switch.is_none());
        match option {
            "ssl" => self.is_on = Some(is_on),
            "ssl-verify-server-cert" => self.verifies = Some(is_on),
            "ssl-mode" => self.mode = given.map(mode).transpose()?,
            "ssl-ca" | "ssl-capath" => {
                self.trusts = given.map(PathBuf::from);
                self.is_directory = option == "ssl-capath";
                self.is_on = self.trusts.is_some().then_some(true).or(self.is_on);
            }
            // Of the client's own certificate and the ciphers: MariaDB's client uses TLS then, and ours has neither.
            _ => self.is_on = given.is_some().then_some(true).or(self.is_on),
        }
        Ok(())
    }

    /// What it means, with the file of the authorities where certificates are looked at.
    ///
    /// # Errors
    /// A certificate is to be looked at, and nothing says by what.
    pub fn wish(&self) -> Result<(Wish, Option<&PathBuf>), String> {
        let by_options = match (self.is_on, self.verifies) {
            (Some(false), _) | (None, None | Some(false)) => Wish::Plain,
            (Some(true), Some(false)) => Wish::Required,
            (_, Some(true)) => Wish::Verified,
            (Some(true), None) if self.trusts.is_some() => Wish::Verified,
            (Some(true), None) => Wish::Required,
        };
        match (self.mode.unwrap_or(by_options), &self.trusts) {
            (Wish::Verified, Some(file)) if !self.is_directory => Ok((Wish::Verified, Some(file))),
            (Wish::Verified, _) => Err("the server's certificate is to be verified (ssl-verify-server-cert, ssl-mode), and that takes a file \
                                        with the authority's certificate: ssl-ca"
                .into()),
            (wish, _) => Ok((wish, None)),
        }
    }
}

fn mode(value: &str) -> Result<Wish, String> {
    match value.to_ascii_uppercase().as_str() {
        "DISABLED" | "PREFERRED" => Ok(Wish::Plain),
        "REQUIRED" => Ok(Wish::Required),
        "VERIFY_CA" | "VERIFY_IDENTITY" => Ok(Wish::Verified),
        _ => Err(format!(
            "ssl-mode must be DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY, it is: {value}"
        )),
    }
}
