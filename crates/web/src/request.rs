//! Parses requests: the key, and the order in the body.
//!
//! `curl -d` labels everything as a form, so the body is read as JSON whatever its content type says. Enters: headers and
//! at most [`BODY_BYTES_MAX`] bytes. Leaves: typed orders, or a [`Reply`] that says what is wrong.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use topology::order::Order;

use crate::reply::Reply;
use crate::{Cluster, Manner};

/// Longest body read, in bytes.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// Longest time a body may take to arrive.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);
/// Longest budget an order may name, in milliseconds.
pub const BUDGET_MS_MAX: u64 = 600_000;

/// A body, parsed as a JSON object, without what all orders have in common.
pub struct OrderBody {
    /// The key, if the body had one.
    pub key: Option<String>,
    /// Only to be told what would come of it.
    pub dry_run: bool,
    fields: Map<String, Value>,
}

/// `manual_failover`, and `switchover` without its `force` and `cold`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Move {
    to: Option<String>,
    from: Option<String>,
    budget_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Leave {
    budget_ms: Option<u64>,
    #[serde(default)]
    force: bool,
    #[serde(default)]
    temporary: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Return {
    #[serde(default)]
    temporary: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// A parsed order to move the writer.
pub struct MoveWish {
    /// The order to give.
    pub order: Order,
    /// The writer according to the caller: if another node is the writer, there is nothing to do.
    pub from: Option<topology::NodeId>,
    /// Whether the caller named the new writer.
    pub named: bool,
    /// How it is to be taken.
    pub manner: Manner,
}

impl OrderBody {
    /// Reads the body.
    pub async fn read(body: Body) -> Result<Self, Reply> {
        let read = tokio::time::timeout(BODY_TIME_MAX, to_bytes(body, BODY_BYTES_MAX));
        let bytes = read
            .await
            .map_err(|_| {
                let message = format!("the body did not arrive within {} s", BODY_TIME_MAX.as_secs());
                Reply::refused(StatusCode::REQUEST_TIMEOUT, "slow_request", message)
            })?
            .map_err(|_| {
                let message = format!("the body broke off, or is longer than {BODY_BYTES_MAX} bytes");
                Reply::refused(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
            })?;
        Self::parse(&bytes)
    }

    fn parse(bytes: &[u8]) -> Result<Self, Reply> {
        if bytes.trim_ascii().is_empty() {
            return Ok(Self { key: None, dry_run: false, fields: Map::new() });
        }
        let mut fields: Map<String, Value> = serde_json::from_slice(bytes).map_err(|e| {
            let at = format!("line {}, column {}", e.line(), e.column());
            Reply::bad_request(format!(
                "the body is not a JSON object ({at}); send for example {{\"apikey\": \"...\"}}"
            ))
        })?;
        let key = match fields.remove("apikey") {
            None => None,
            Some(Value::String(key)) => Some(key),
            Some(_) => return Err(Reply::bad_request("apikey must be a string")),
        };
        let dry_run = switch(&mut fields, "dry_run")?;
        Ok(Self { key, dry_run, fields })
    }

    /// The order of a `switchover`: like that of a `manual_failover`, and it may be forced, or go to a cold standby.
    pub fn into_switchover(mut self, cluster: &Cluster, budget: Duration) -> Result<MoveWish, Reply> {
        let (forced, cold) = (switch(&mut self.fields, "force")?, switch(&mut self.fields, "cold")?);
        let mut wish = self.into_move(cluster, budget)?;
        wish.manner.allow_cold = cold;
        if let Order::Switchover { force, .. } = &mut wish.order {
            *force = forced;
        }
        Ok(wish)
    }

    /// The order of a `manual_failover`.
    pub fn into_move(self, cluster: &Cluster, budget: Duration) -> Result<MoveWish, Reply> {
        let Move { to, from, budget_ms } = typed(self.fields)?;
        let named = to.is_some();
        let to = to.map(|name| node(cluster, &name)).transpose()?;
        let from = from.map(|name| node(cluster, &name)).transpose()?;
        let budget = within(budget_ms, budget)?;
        let manner = Manner { dry_run: self.dry_run, allow_cold: false };
        Ok(MoveWish { order: Order::Switchover { to, budget, force: false }, from, named, manner })
    }

    /// The order of a `drain`.
    pub fn into_drain(self, cluster: &Cluster, name: &str, budget: Duration) -> Result<Order, Reply> {
        let Leave { budget_ms, force, temporary } = typed(self.fields)?;
        Ok(Order::Drain { node: node(cluster, name)?, budget: within(budget_ms, budget)?, force, temporary })
    }

    /// The order of an `undrain`.
    pub fn into_undrain(self, cluster: &Cluster, name: &str) -> Result<Order, Reply> {
        let Return { temporary } = typed(self.fields)?;
        Ok(Order::Undrain { node: node(cluster, name)?, temporary })
    }

    /// The order of a `max_connections`: `value` is required, `null` lifts the limit, and 0 is an ordinary drain.
    pub fn into_limit(mut self, cluster: &Cluster, name: &str, budget: Duration) -> Result<Order, Reply> {
        let wrong = || {
            Reply::bad_request(format!(
                "value must be a whole number from 0 to {}, or null for no limit; 0 drains the node",
                u32::MAX
            ))
        };
        let value = self.fields.remove("value").ok_or_else(wrong)?;
        let Nothing {} = typed(self.fields)?;
        let sessions_max: Option<u32> = serde_json::from_value(value).map_err(|_| wrong())?;
        let node = node(cluster, name)?;
        Ok(match sessions_max {
            Some(0) => Order::Drain { node, budget, force: false, temporary: false },
            sessions_max => Order::SetSessionsMax { node, sessions_max },
        })
    }
}

/// The new writer and the budget that a query names: `to=NODE&budget_ms=N`, each of which may be left out.
pub fn preflight_wish(
    query: &str,
    cluster: &Cluster,
    budget: Duration,
) -> Result<(Option<topology::NodeId>, Duration), Reply> {
    let wrong = || Reply::bad_request("preflight takes only ?to=NODE and &budget_ms=N");
    let (mut to, mut budget_ms) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("to", name)) if to.is_none() => to = Some(node(cluster, name)?),
            Some(("budget_ms", number)) if budget_ms.is_none() => {
                budget_ms = Some(number.parse().map_err(|_| wrong())?);
            }
            _ => return Err(wrong()),
        }
    }
    Ok((to, within(budget_ms, budget)?))
}

/// The key in the headers, if any: `X-Api-Key: KEY` or `Authorization: Bearer KEY`.
pub fn key_of(headers: &HeaderMap) -> Option<&str> {
    if let Some(key) = headers.get("x-api-key") {
        return key.to_str().ok();
    }
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

/// A field that is true or false; false without it.
fn switch(fields: &mut Map<String, Value>, name: &str) -> Result<bool, Reply> {
    match fields.remove(name) {
        None => Ok(false),
        Some(Value::Bool(is_on)) => Ok(is_on),
        Some(_) => Err(Reply::bad_request(format!("{name} must be true or false"))),
    }
}

fn typed<T: DeserializeOwned>(fields: Map<String, Value>) -> Result<T, Reply> {
    serde_json::from_value(Value::Object(fields))
        .map_err(|e| Reply::bad_request(format!("the body does not fit: {e}")))
}

fn node(cluster: &Cluster, name: &str) -> Result<topology::NodeId, Reply> {
    cluster.node(name).ok_or_else(|| {
        let known = cluster.nodes.iter().map(|(_, name)| &**name).collect::<Vec<_>>().join(", ");
        let message = format!("cluster {} has no node \"{name}\"; it has {known}", cluster.name);
        Reply::refused(StatusCode::NOT_FOUND, "unknown_node", message)
    })
}

fn within(budget_ms: Option<u64>, default: Duration) -> Result<Duration, Reply> {
    match budget_ms {
        None => Ok(default),
        Some(ms) if ms <= BUDGET_MS_MAX => Ok(Duration::from_millis(ms)),
        Some(_) => Err(Reply::bad_request(format!("budget_ms may be at most {BUDGET_MS_MAX}"))),
    }
}
