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
use utoipa::ToSchema;

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

/// The body of a `manual_failover`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// The new writer; without it, the best candidate.
    to: Option<String>,
    /// Nothing is moved if this node is not the writer any more.
    from: Option<String>,
    /// How long running transactions may take to end; without it, `switchover.budget_ms`.
    #[schema(maximum = 600_000)]
    budget_ms: Option<u64>,
}

/// The body of a `switchover`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// The new writer; without it, the best candidate.
    to: Option<String>,
    /// Nothing is moved if this node is not the writer any more.
    from: Option<String>,
    /// How long running transactions may take to end; without it, `switchover.budget_ms`.
    #[schema(maximum = 600_000)]
    budget_ms: Option<u64>,
    /// What still runs then is cut, and what only makes the move risky is done.
    #[serde(default)]
    force: bool,
    /// It may go to a standby that is not as warm as the settings want.
    #[serde(default)]
    cold: bool,
}

/// The body of a `drain`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Leave {
    /// How long running transactions may take to end; without it, `switchover.budget_ms`.
    #[schema(maximum = 600_000)]
    budget_ms: Option<u64>,
    /// What still runs then is cut.
    #[serde(default)]
    force: bool,
    /// For the time of some work on the node: an operator's drain that comes meanwhile stays.
    #[serde(default)]
    temporary: bool,
}

/// The body of an `undrain`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Return {
    /// Only a temporary drain is ended.
    #[serde(default)]
    temporary: bool,
}

/// The body of a `max_connections`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// At most so many sessions; `null` lifts the limit, and 0 drains the node.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required, maximum = 4_294_967_295_u64)]
    value: Option<u32>,
}

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
        fields.values_mut().for_each(as_whole);
        let dry_run = switch(&mut fields, "dry_run")?;
        Ok(Self { key, dry_run, fields })
    }

    /// The order of a `switchover`.
    pub fn into_switchover(self, cluster: &Cluster, budget: Duration) -> Result<MoveWish, Reply> {
        let Switch { to, from, budget_ms, force, cold } = typed(self.fields)?;
        let manner = Manner { dry_run: self.dry_run, allow_cold: cold };
        Move { to, from, budget_ms }.wish(cluster, budget, force, manner)
    }

    /// The order of a `manual_failover`.
    pub fn into_move(self, cluster: &Cluster, budget: Duration) -> Result<MoveWish, Reply> {
        let manner = Manner { dry_run: self.dry_run, allow_cold: false };
        typed::<Move>(self.fields)?.wish(cluster, budget, false, manner)
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

    /// The order of a `max_connections`: `value` is required, and 0 is an ordinary drain.
    pub fn into_limit(self, cluster: &Cluster, name: &str, budget: Duration) -> Result<Order, Reply> {
        let limit = serde_json::from_value(Value::Object(self.fields));
        let Limit { value: sessions_max } = limit.map_err(|e| {
            let most = u32::MAX;
            Reply::bad_request(format!(
                "value must be a whole number from 0 to {most}, or null for no limit; 0 drains the node ({e})"
            ))
        })?;
        let node = node(cluster, name)?;
        Ok(match sessions_max {
            Some(0) => Order::Drain { node, budget, force: false, temporary: false },
            sessions_max => Order::SetSessionsMax { node, sessions_max },
        })
    }
}

impl Move {
    fn wish(
        self,
        cluster: &Cluster,
        budget: Duration,
        force: bool,
        manner: Manner,
    ) -> Result<MoveWish, Reply> {
        let named = self.to.is_some();
        let to = self.to.map(|name| node(cluster, &name)).transpose()?;
        let from = self.from.map(|name| node(cluster, &name)).transpose()?;
        let budget = within(self.budget_ms, budget)?;
        Ok(MoveWish { order: Order::Switchover { to, budget, force }, from, named, manner })
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

/// In JSON, 7.0 is the same number as 7; serde reads a whole number only from the latter.
fn as_whole(value: &mut Value) {
    let Some(number) = value.as_f64().filter(|_| value.is_f64()) else { return };
    if number.fract() == 0.0 && number >= 0.0 {
        *value = Value::from(number as u64);
    }
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
