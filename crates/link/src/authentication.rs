//! Proves to a server who logs in, by whichever plugin it asks for: payloads in, payloads out, no I/O.
//!
//! ```text
//!   greeting --begin--> the first answer, for the greeting's own plugin where the secret is enough for it
//!   payload  --step---> Send     the server asks for another plugin, or for the password itself
//!                       Wait     the answer was right, OK follows
//!                       Done     OK
//!                       error
//! ```
//!
//! The password itself goes only where nobody can listen: under TLS, or over a unix socket, whatever the server asks for ([`Way`]). On a plain way
//! MySQL's own plugins take it encrypted for the server's RSA key ([`crate::rsa`]), and nothing else does. A `dialog` is answered once, by
//! the password. What cannot be answered is answered by an empty password, and the server's refusal is awaited: an account of MariaDB may
//! have several plugins, of which it asks for one after the other; and servers count logins that were broken off, and block the host after
//! some (max_connect_errors).

use protocol::auth::{caching_sha2, clear, ed25519, native, parsec};
use protocol::handshake::{AuthSwitch, Greeting};
use protocol::ok::{EOF, ERR, OK};
use zeroize::Zeroizing;

use crate::{LinkError, Secret, Unanswered};

/// A server may ask for so many plugins in one login: MariaDB does for each that an account has.
const SWITCHES_MAX: u8 = 8;

/// See the head of this file.
pub(crate) struct Authentication<'a> {
    secret: &'a Secret,
    way: Way,
    plugin: Plugin,
    /// The last challenge of a plugin of MySQL.
    salt: [u8; 20],
    /// The server was asked for its RSA key.
    wants_key: bool,
    /// parsec: what the server has sent, as long as the account's salt is awaited.
    scramble: Option<parsec::Scramble>,
    switches: u8,
    /// Why the last question could not be answered.
    unanswered: Option<Unanswered>,
}

/// Who may be at the other end, and between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Anybody can listen.
    Plain,
    /// TLS with any certificate: nobody can listen, somebody may stand between.
    Encrypted,
    /// TLS with a certificate that was looked at, or a unix socket.
    Proved,
}

/// What follows a payload of the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// This is to be sent.
    Send(Zeroizing<Vec<u8>>),
    /// Nothing is to be sent: another payload follows.
    Wait,
    /// The payload is the OK that ends the login.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plugin {
    Native,
    CachingSha2,
    Ed25519,
    Parsec,
    Sha256,
    Clear,
    Other,
}

impl Plugin {
    fn of(name: &str) -> Plugin {
        match name {
            native::PLUGIN => Plugin::Native,
            caching_sha2::PLUGIN => Plugin::CachingSha2,
            ed25519::PLUGIN => Plugin::Ed25519,
            parsec::PLUGIN => Plugin::Parsec,
            clear::SHA256 => Plugin::Sha256,
            clear::PLUGIN | clear::DIALOG => Plugin::Clear,
            _ => Plugin::Other,
        }
    }
}

impl<'a> Authentication<'a> {
    /// The beginning, the plugin that is answered for first, and that answer.
    pub(crate) fn begin(
        secret: &'a Secret,
        greeting: &Greeting,
        way: Way,
    ) -> (Authentication<'a>, &'static str, Vec<u8>) {
        let (plugin, name) = match (secret, Plugin::of(&greeting.plugin)) {
            (Secret::Sha256(_), _) | (Secret::Password(_) | Secret::None, Plugin::CachingSha2) => {
                (Plugin::CachingSha2, caching_sha2::PLUGIN)
            }
            _ => (Plugin::Native, native::PLUGIN),
        };
        let mut this = Authentication {
            secret,
            way,
            plugin,
            salt: greeting.salt,
            wants_key: false,
            scramble: None,
            switches: 0,
            unanswered: None,
        };
        let answer = this.challenged(name, &greeting.salt).map(|answer| answer.to_vec()).unwrap_or_default();
        (this, name, answer)
    }

    /// The server has said `payload`.
    pub(crate) fn step(&mut self, payload: &[u8]) -> Result<Step, LinkError> {
        match payload.first() {
            Some(&OK) => Ok(Step::Done),
            Some(&ERR) => Err(self.ended(LinkError::of_err_packet(payload))),
            Some(&EOF) if self.switches < SWITCHES_MAX => {
                self.switches += 1;
                self.wants_key = false;
                let switch = AuthSwitch::parse(payload)?;
                self.plugin = Plugin::of(&switch.plugin);
                let answer = self.challenged(&switch.plugin, &switch.data);
                self.scramble = match self.plugin {
                    Plugin::Parsec if answer.is_ok() => Some(*salt(&switch.data)?),
                    _ => None,
                };
                self.send(answer)
            }
            Some(_) if self.plugin == Plugin::CachingSha2 && payload == caching_sha2::FAST => Ok(Step::Wait),
            Some(_) if self.plugin == Plugin::CachingSha2 && payload == caching_sha2::FULL => {
                let answer = self.shown(caching_sha2::PLUGIN);
                self.send(answer)
            }
            Some(&caching_sha2::MORE) if std::mem::take(&mut self.wants_key) => {
                let answer = self.encrypted(&payload[1..]);
                self.send(answer)
            }
            Some(_) if let Some(server) = self.scramble.take() => {
                let derivation = parsec::Derivation::parse(payload).ok_or_else(|| {
                    LinkError::Protocol("parsec: no salt, or more rounds than are done here".into())
                })?;
                let answer = match self.secret {
                    Secret::Password(password) | Secret::Signing(password) => {
                        password.key(derivation).reply(&server, &rand::random()).to_vec()
                    }
                    _ => vec![],
                };
                Ok(Step::Send(Zeroizing::new(answer)))
            }
            _ => Err(LinkError::Protocol("the login is answered by neither OK nor ERR".into())),
        }
    }

    /// The login has ended by `error`: which is said instead, if it follows from a question that was not answered.
    pub(crate) fn ended(&mut self, error: LinkError) -> LinkError {
        let withheld = self.wants_key.then(|| self.withheld());
        self.unanswered.take().or(withheld).map_or(error, LinkError::Unanswered)
    }

    fn send(&mut self, answer: Result<Zeroizing<Vec<u8>>, LinkError>) -> Result<Step, LinkError> {
        match answer {
            Ok(answer) => {
                self.unanswered = None;
                Ok(Step::Send(answer))
            }
            Err(LinkError::Unanswered(why)) => {
                self.unanswered = Some(why);
                Ok(Step::Send(clear::reply(b"")))
            }
            Err(error) => Err(error),
        }
    }

    /// The answer to a plugin's challenge.
    fn challenged(&mut self, name: &str, challenge: &[u8]) -> Result<Zeroizing<Vec<u8>>, LinkError> {
        let for_another = || LinkError::Unanswered(Unanswered::ForAnother { plugin: name.to_owned() });
        if matches!(Plugin::of(name), Plugin::CachingSha2 | Plugin::Sha256) {
            self.salt = *salt(challenge)?;
        }
        let answer = match (Plugin::of(name), self.secret) {
            (Plugin::Native | Plugin::CachingSha2 | Plugin::Ed25519, Secret::None) => vec![],
            (Plugin::Native | Plugin::CachingSha2, Secret::Password(password)) if password.is_empty() => {
                vec![]
            }
            (Plugin::Native, Secret::Password(password)) => {
                native::reply(&native::stage1(password.as_bytes()), salt(challenge)?).to_vec()
            }
            (Plugin::Native, Secret::Stage1(stage1)) => native::reply(stage1, salt(challenge)?).to_vec(),
            (Plugin::CachingSha2, Secret::Password(password)) => {
                let stage1 = Zeroizing::new(caching_sha2::stage1(password.as_bytes()));
                caching_sha2::reply(&stage1, &self.salt).to_vec()
            }
            (Plugin::CachingSha2, Secret::Sha256(stage1)) => caching_sha2::reply(stage1, &self.salt).to_vec(),
            (Plugin::Ed25519, Secret::Password(password) | Secret::Signing(password)) => {
                ed25519::reply(password.as_bytes(), salt(challenge)?).to_vec()
            }
            // The answer proper follows the account's salt.
            (Plugin::Parsec, Secret::Password(_) | Secret::Signing(_) | Secret::None) => vec![],
            (Plugin::Clear, _) => return self.password(name),
            (Plugin::Sha256, _) => return self.shown(name),
            (Plugin::Other, _) => {
                return Err(LinkError::Unanswered(Unanswered::NotSpoken { plugin: name.to_owned() }));
            }
            (_, Secret::Stage1(_) | Secret::Sha256(_) | Secret::Signing(_) | Secret::Shown(_)) => {
                return Err(for_another());
            }
        };
        Ok(Zeroizing::new(answer))
    }

    /// The answer to a server that wants the password itself, by a plugin of MySQL: on a plain way the question for its key.
    fn shown(&mut self, plugin: &str) -> Result<Zeroizing<Vec<u8>>, LinkError> {
        self.wants_key = self.way == Way::Plain && matches!(self.secret, Secret::Password(_));
        if self.wants_key {
            let question =
                if plugin == clear::SHA256 { clear::SHA256_KEY_WANTED } else { caching_sha2::KEY_WANTED };
            return Ok(Zeroizing::new(question.to_vec()));
        }
        self.password(plugin)
    }

    fn withheld(&self) -> Unanswered {
        let is_sha256 = self.plugin == Plugin::Sha256;
        Unanswered::Withheld { plugin: if is_sha256 { clear::SHA256 } else { caching_sha2::PLUGIN }.into() }
    }

    /// The password for the key that the server has shown; without a key that fits it is withheld.
    fn encrypted(&self, key_pem: &[u8]) -> Result<Zeroizing<Vec<u8>>, LinkError> {
        let Secret::Password(password) = self.secret else { return Err(self.withheld().into()) };
        let encrypted = crate::rsa::encrypted(password.as_bytes(), &self.salt, key_pem);
        encrypted.map(Zeroizing::new).ok_or_else(|| self.withheld().into())
    }

    /// Whether the password itself may go to the server. Whoever stands between could ask for it by mysql_clear_password, where the certificate
    /// was not looked at; MySQL's own plugins ask for it under such a way on every MySQL, whose accounts could not be used otherwise.
    fn may_show(&self, plugin: &str) -> bool {
        match self.way {
            Way::Plain => false,
            Way::Encrypted => matches!(plugin, caching_sha2::PLUGIN | clear::SHA256),
            Way::Proved => true,
        }
    }

    /// The password itself, for `plugin`.
    fn password(&self, plugin: &str) -> Result<Zeroizing<Vec<u8>>, LinkError> {
        match self.secret {
            Secret::None => Ok(clear::reply(b"")),
            Secret::Password(password) if self.may_show(plugin) => Ok(clear::reply(password.as_bytes())),
            Secret::Shown(password)
                if self.way == Way::Proved && matches!(plugin, clear::PLUGIN | clear::DIALOG) =>
            {
                Ok(clear::reply(password.as_bytes()))
            }
            Secret::Password(_) | Secret::Shown(_) => {
                Err(LinkError::Unanswered(Unanswered::Withheld { plugin: plugin.to_owned() }))
            }
            Secret::Sha256(_) if plugin == caching_sha2::PLUGIN => {
                Err(LinkError::Unanswered(Unanswered::Forgotten))
            }
            Secret::Stage1(_) | Secret::Sha256(_) | Secret::Signing(_) => {
                Err(LinkError::Unanswered(Unanswered::ForAnother { plugin: plugin.to_owned() }))
            }
        }
    }
}

/// A challenge of `N` bytes; a NUL may stand behind it.
fn salt<const N: usize>(challenge: &[u8]) -> Result<&[u8; N], LinkError> {
    challenge.first_chunk().ok_or_else(|| LinkError::Protocol(format!("a challenge of less than {N} bytes")))
}

#[cfg(test)]
mod tests;
