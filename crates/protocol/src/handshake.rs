//! The login: what the server says first, what the client answers, and the detours.
//!
//! Enters: payloads. Leaves: the same as values, and values as payloads; what `encode` writes, `parse` reads back.
//!
//! ```text
//!   server: Greeting                         (or an ERR at once: 1040, 1129 - the caller's to see first)
//!   client: [SSL request]  LoginRequest
//!   server: [AuthSwitch -> client: bare reply]  OK or ERR
//!   ...
//!   client: ChangeUser                       later, on the same connection
//! ```
//!
//! Source: MariaDB's "Connecting" and MySQL's "Connection Phase".

use std::fmt;

use crate::auth::native;
use crate::capability::Caps;
use crate::packet::{Fields, Malformed, put};

/// The length of an SSL request: a [`LoginRequest`] cut off before the user.
pub const SSL_REQUEST_LEN: usize = 32;
/// zstd's own level, of a client that names none.
const ZSTD_LEVEL: u8 = 3;
/// Filler bytes that both sides leave zero; MariaDB's upper capabilities stand behind them.
const GREETING_FILLER: usize = 6;
const LOGIN_FILLER: usize = 18;

/// What the server says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The server's version, e.g. `5.5.5-10.11.19-MariaDB-log`.
    pub version: String,
    /// The connection's number on the server, as KILL takes it.
    pub connection_id: u32,
    /// The challenge.
    pub salt: [u8; 20],
    /// What the server can do.
    pub caps: Caps,
    /// The server's default collation (low byte).
    pub charset: u8,
    /// Flags of [`crate::ok::status`].
    pub status: u16,
    /// The authentication plugin the salt is meant for.
    pub plugin: String,
}

impl Greeting {
    /// Reads a greeting of protocol version 10, the only one still spoken.
    pub fn parse(payload: &[u8]) -> Result<Greeting, Malformed> {
        let mut fields = Fields::new(payload);
        if fields.u8()? != 10 {
            return Err(Malformed::new("a greeting of another protocol version than 10"));
        }
        let version = text(fields.nul_bytes()?);
        let connection_id = fields.u32()?;
        let mut salt = [0; 20];
        let (first, second) = salt.split_at_mut(8);
        first.copy_from_slice(fields.bytes(8)?);
        fields.u8()?;
        let low = fields.u16()?;
        let charset = fields.u8()?;
        let status = fields.u16()?;
        let high = fields.u16()?;
        let auth_len = fields.u8()?;
        fields.bytes(GREETING_FILLER)?;
        let upper = fields.u32()?;
        let caps = Caps::of_halves(u32::from(low) | u32::from(high) << 16, upper);
        if !caps.has(Caps::PROTOCOL_41 | Caps::SECURE_CONNECTION) {
            return Err(Malformed::new("a server older than 4.1"));
        }
        second.copy_from_slice(fields.bytes(second.len())?);
        // The second part is padded to what auth_len says, at least 13 bytes; some servers leave the NUL out at the end.
        let padding = usize::from(auth_len).saturating_sub(8).max(13) - second.len();
        fields.bytes(padding.min(fields.left().len()))?;
        let plugin =
            if caps.has(Caps::PLUGIN_AUTH) { text(nul_or_rest(&mut fields)) } else { native::PLUGIN.into() };
        Ok(Greeting { version, connection_id, salt, caps, charset, status, plugin })
    }

    /// The payload. Capability bits above 32 are written only while [`Caps::LONG_PASSWORD`] is clear, because only then
    /// do they count.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(80 + self.version.len() + self.plugin.len());
        out.push(10);
        put::nul_bytes(&mut out, self.version.as_bytes());
        put::u32(&mut out, self.connection_id);
        let (first, second) = self.salt.split_at(8);
        out.extend_from_slice(first);
        out.push(0);
        put::u16(&mut out, self.caps.lower() as u16);
        out.push(self.charset);
        put::u16(&mut out, self.status);
        put::u16(&mut out, (self.caps.lower() >> 16) as u16);
        out.push(if self.caps.has(Caps::PLUGIN_AUTH) { 21 } else { 0 });
        out.extend_from_slice(&[0; GREETING_FILLER]);
        put::u32(&mut out, upper_to_send(self.caps));
        out.extend_from_slice(second);
        out.push(0);
        if self.caps.has(Caps::PLUGIN_AUTH) {
            put::nul_bytes(&mut out, self.plugin.as_bytes());
        }
        out
    }
}

/// Whether a client's first payload asks for TLS before anything else is said.
pub fn is_ssl_request(payload: &[u8]) -> bool {
    payload.len() == SSL_REQUEST_LEN
        && Fields::new(payload).u32().is_ok_and(|lower| Caps(u64::from(lower)).has(Caps::SSL))
}

/// What the client answers. Debug does not show `auth`.
#[derive(Clone, PartialEq, Eq)]
pub struct LoginRequest {
    /// What the client can do, of what the server can.
    pub caps: Caps,
    /// The longest packet the client wants to see, in bytes.
    pub max_packet: u32,
    /// The collation's id. MySQL and MariaDB 10.11 read only the low byte.
    pub charset: u16,
    /// The account's name.
    pub user: Vec<u8>,
    /// The plugin's answer to the challenge.
    pub auth: Vec<u8>,
    /// The default database.
    pub database: Option<Vec<u8>>,
    /// The plugin that `auth` is from.
    pub plugin: Option<String>,
    /// The connection attributes: length-encoded names and values, as they came; empty for none.
    pub attrs: Vec<u8>,
    /// The level of zstd that it wants its packets compressed with; 0 where [`Caps::ZSTD`] is not among its capabilities.
    pub zstd_level: u8,
}

impl LoginRequest {
    /// Reads a client's answer. Clients older than 4.1 are refused.
    pub fn parse(payload: &[u8]) -> Result<LoginRequest, Malformed> {
        let mut fields = Fields::new(payload);
        let lower = fields.u32()?;
        let max_packet = fields.u32()?;
        let charset = fields.u16()?;
        fields.bytes(LOGIN_FILLER)?;
        let caps = Caps::of_halves(lower, fields.u32()?);
        if !caps.has(Caps::PROTOCOL_41) {
            return Err(Malformed::new("a client older than 4.1"));
        }
        let user = fields.nul_bytes()?.to_vec();
        let auth = if caps.has(Caps::PLUGIN_AUTH_LENENC_DATA) {
            fields.lenenc_bytes()?
        } else {
            auth_bytes(&mut fields, caps)?
        }
        .to_vec();
        let mut database = None;
        if caps.has(Caps::CONNECT_WITH_DB) {
            database = Some(nul_or_rest(&mut fields).to_vec());
        }
        let (plugin, attrs) = plugin_and_attrs(&mut fields, caps)?;
        let zstd_level = if caps.has(Caps::ZSTD) { fields.u8().unwrap_or(ZSTD_LEVEL) } else { 0 };
        Ok(LoginRequest { caps, max_packet, charset, user, auth, database, plugin, attrs, zstd_level })
    }

    /// The capabilities as they go out: those bits that say which fields are there follow the fields, and
    /// [`Caps::LONG_PASSWORD`] is clear when an upper bit is set.
    pub fn sent_caps(&self) -> Caps {
        let follow = |caps: Caps, bit: Caps, there: bool| if there { caps | bit } else { caps.without(bit) };
        let mut caps = self.caps | Caps::PROTOCOL_41 | Caps::SECURE_CONNECTION;
        caps = follow(caps, Caps::CONNECT_WITH_DB, self.database.is_some());
        caps = follow(caps, Caps::PLUGIN_AUTH, self.plugin.is_some());
        caps = follow(caps, Caps::CONNECT_ATTRS, !self.attrs.is_empty());
        if self.auth.len() > 255 {
            caps = caps | Caps::PLUGIN_AUTH_LENENC_DATA;
        }
        if caps.upper() != 0 { caps.without(Caps::LONG_PASSWORD) } else { caps }
    }

    /// The payload, under [`LoginRequest::sent_caps`].
    pub fn encode(&self) -> Vec<u8> {
        let caps = self.sent_caps();
        let mut out = Vec::with_capacity(64 + self.user.len() + self.auth.len() + self.attrs.len());
        put::u32(&mut out, caps.lower());
        put::u32(&mut out, self.max_packet);
        put::u16(&mut out, self.charset);
        out.extend_from_slice(&[0; LOGIN_FILLER]);
        put::u32(&mut out, upper_to_send(caps));
        put::nul_bytes(&mut out, &self.user);
        if caps.has(Caps::PLUGIN_AUTH_LENENC_DATA) {
            put::lenenc_bytes(&mut out, &self.auth);
        } else {
            out.push(self.auth.len() as u8);
            out.extend_from_slice(&self.auth);
        }
        if let Some(database) = &self.database {
            put::nul_bytes(&mut out, database);
        }
        if let Some(plugin) = &self.plugin {
            put::nul_bytes(&mut out, plugin.as_bytes());
        }
        if !self.attrs.is_empty() {
            put::lenenc_bytes(&mut out, &self.attrs);
        }
        if caps.has(Caps::ZSTD) {
            out.push(self.zstd_level);
        }
        out
    }
}

impl fmt::Debug for LoginRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginRequest")
            .field("caps", &self.caps)
            .field("charset", &self.charset)
            .field("user", &String::from_utf8_lossy(&self.user))
            .field("database", &self.database.as_deref().map(String::from_utf8_lossy))
            .field("plugin", &self.plugin)
            .finish_non_exhaustive()
    }
}

/// The server wants another plugin's answer.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthSwitch {
    /// The plugin it wants.
    pub plugin: String,
    /// The plugin's challenge as it came; `mysql_native_password`'s ends in a NUL.
    pub data: Vec<u8>,
}

impl AuthSwitch {
    /// A switch to a plugin whose challenge has 20 bytes: MySQL and MariaDB end it with a NUL.
    pub fn to(plugin: &str, salt: &[u8; 20]) -> AuthSwitch {
        AuthSwitch { plugin: plugin.into(), data: [&salt[..], &[0]].concat() }
    }

    /// The 20-byte challenge, when there is one.
    pub fn salt(&self) -> Option<[u8; 20]> {
        self.data.first_chunk().copied()
    }

    /// Reads a payload that begins with 0xFE. One that is that byte alone asks for the hash of before 4.1.
    pub fn parse(payload: &[u8]) -> Result<AuthSwitch, Malformed> {
        let mut fields = Fields::new(payload);
        if fields.u8()? != 0xFE {
            return Err(Malformed::new("an authentication switch begins with 0xFE"));
        }
        if fields.is_empty() {
            return Ok(AuthSwitch { plugin: "mysql_old_password".into(), data: Vec::new() });
        }
        let plugin = text(fields.nul_bytes()?);
        Ok(AuthSwitch { plugin, data: fields.rest().to_vec() })
    }

    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0xFE];
        put::nul_bytes(&mut out, self.plugin.as_bytes());
        out.extend_from_slice(&self.data);
        out
    }
}

impl fmt::Debug for AuthSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthSwitch").field("plugin", &self.plugin).finish_non_exhaustive()
    }
}

/// COM_CHANGE_USER: logs in anew. Debug does not show `auth`.
#[derive(Clone, PartialEq, Eq)]
pub struct ChangeUser {
    /// The account's name.
    pub user: Vec<u8>,
    /// The plugin's answer to the greeting's challenge (or to the last switch's).
    pub auth: Vec<u8>,
    /// The default database; empty for none.
    pub database: Vec<u8>,
    /// The collation's id; `None` when the client said none.
    pub charset: Option<u16>,
    /// The plugin that `auth` is from.
    pub plugin: Option<String>,
    /// As in [`LoginRequest::attrs`].
    pub attrs: Vec<u8>,
}

impl ChangeUser {
    /// Reads the payload, command byte included. `caps` are those of the login.
    pub fn parse(payload: &[u8], caps: Caps) -> Result<ChangeUser, Malformed> {
        let mut fields = Fields::new(payload);
        if fields.u8()? != 17 {
            return Err(Malformed::new("a change of user begins with 0x11"));
        }
        let user = fields.nul_bytes()?.to_vec();
        let auth = auth_bytes(&mut fields, caps)?.to_vec();
        let database = nul_or_rest(&mut fields).to_vec();
        if fields.is_empty() {
            return Ok(ChangeUser { user, auth, database, charset: None, plugin: None, attrs: Vec::new() });
        }
        let charset = Some(fields.u16()?);
        let (plugin, attrs) = plugin_and_attrs(&mut fields, caps)?;
        Ok(ChangeUser { user, auth, database, charset, plugin, attrs })
    }

    /// The payload, command byte included, for a connection that logged in with `caps`. An answer longer than 255 bytes
    /// has no form here and is cut.
    pub fn encode(&self, caps: Caps) -> Vec<u8> {
        let mut out = vec![17];
        put::nul_bytes(&mut out, &self.user);
        if caps.has(Caps::SECURE_CONNECTION) {
            let auth = self.auth.get(..255).unwrap_or(&self.auth);
            out.push(auth.len() as u8);
            out.extend_from_slice(auth);
        } else {
            put::nul_bytes(&mut out, &self.auth);
        }
        put::nul_bytes(&mut out, &self.database);
        let Some(charset) = self.charset else { return out };
        put::u16(&mut out, charset);
        // Fields that were agreed on must be there, if empty: MariaDB refuses the command otherwise.
        if caps.has(Caps::PLUGIN_AUTH) {
            put::nul_bytes(&mut out, self.plugin.as_deref().unwrap_or_default().as_bytes());
        }
        if caps.has(Caps::CONNECT_ATTRS) {
            put::lenenc_bytes(&mut out, &self.attrs);
        }
        out
    }
}

impl fmt::Debug for ChangeUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeUser")
            .field("user", &String::from_utf8_lossy(&self.user))
            .field("database", &String::from_utf8_lossy(&self.database))
            .field("charset", &self.charset)
            .field("plugin", &self.plugin)
            .finish_non_exhaustive()
    }
}

fn upper_to_send(caps: Caps) -> u32 {
    if caps.has(Caps::LONG_PASSWORD) { 0 } else { caps.upper() }
}

/// Names of versions and plugins are ASCII; what is not is shown as such rather than refused.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A string up to its NUL, or up to the end: several clients leave out the last field's NUL, and servers accept it.
fn nul_or_rest<'a>(fields: &mut Fields<'a>) -> &'a [u8] {
    match fields.nul_bytes() {
        Ok(bytes) => bytes,
        Err(_) => fields.rest(),
    }
}

fn auth_bytes<'a>(fields: &mut Fields<'a>, caps: Caps) -> Result<&'a [u8], Malformed> {
    if caps.has(Caps::SECURE_CONNECTION) {
        let len = fields.u8()?;
        fields.bytes(usize::from(len))
    } else {
        Ok(nul_or_rest(fields))
    }
}

fn plugin_and_attrs(fields: &mut Fields<'_>, caps: Caps) -> Result<(Option<String>, Vec<u8>), Malformed> {
    let mut plugin = None;
    if caps.has(Caps::PLUGIN_AUTH) && !fields.is_empty() {
        plugin = Some(text(nul_or_rest(fields))).filter(|name| !name.is_empty());
    }
    let mut attrs = Vec::new();
    if caps.has(Caps::CONNECT_ATTRS) && !fields.is_empty() {
        attrs = fields.lenenc_bytes()?.to_vec();
    }
    Ok((plugin, attrs))
}

#[cfg(test)]
mod tests;
