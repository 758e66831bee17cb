//! Authentication: the key and the cluster of a request are checked before a handler sees anything of it.
//!
//! The key is checked first, so that nobody without it learns which clusters exist.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;

use crate::Control;
use crate::key::Role;
use crate::reply::Reply;
use crate::request::{OrderBody, key_of};
use crate::slots::Connection;
use crate::state::Api;

/// An authenticated request that only reads; its key is in the headers.
pub struct Admitted(pub Role);

/// The same with an operator's key.
pub struct Operator;

/// An authenticated order; its key is in the body or in the headers.
pub struct Ordered {
    /// The body without the key.
    pub said: OrderBody,
    /// The node in its path.
    pub node: Option<String>,
}

/// The parameters of the request's path.
async fn names(parts: &mut Parts) -> Result<HashMap<String, String>, Reply> {
    let path = Path::<HashMap<String, String>>::from_request_parts(parts, &()).await;
    let Path(names) = path.map_err(|e| Reply::bad_request(format!("the path does not fit: {e}")))?;
    Ok(names)
}

/// `None` for a path without a cluster: there is only one.
fn cluster(names: &HashMap<String, String>) -> Option<&str> {
    names.get("id").map(String::as_str)
}

impl<C: Control> FromRequestParts<Arc<Api<C>>> for Admitted {
    type Rejection = Reply;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api<C>>) -> Result<Self, Reply> {
        let names = names(parts).await?;
        let role = admit(api, key_of(&parts.headers), cluster(&names))?;
        hold(parts);
        Ok(Self(role))
    }
}

impl<C: Control> FromRequestParts<Arc<Api<C>>> for Operator {
    type Rejection = Reply;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api<C>>) -> Result<Self, Reply> {
        let Admitted(role) = Admitted::from_request_parts(parts, api).await?;
        operator(role)?;
        Ok(Self)
    }
}

impl<C: Control> FromRequest<Arc<Api<C>>> for Ordered {
    type Rejection = Reply;

    async fn from_request(request: Request, api: &Arc<Api<C>>) -> Result<Self, Reply> {
        let (mut parts, body) = request.into_parts();
        let mut names = names(&mut parts).await?;
        let said = OrderBody::read(body).await?;
        operator(admit(api, said.key.as_deref().or_else(|| key_of(&parts.headers)), cluster(&names))?)?;
        hold(&parts);
        Ok(Self { said, node: names.remove("name") })
    }
}

/// The connection of an authenticated request is not closed in favour of another while it is being answered.
fn hold(parts: &Parts) {
    if let Some(connection) = parts.extensions.get::<Arc<Connection>>() {
        connection.hold();
    }
}

fn operator(role: Role) -> Result<(), Reply> {
    let message = "this key only reads: orders, and statements of clients, are for the other key";
    match role {
        Role::Operator => Ok(()),
        Role::Reader => Err(Reply::refused(StatusCode::FORBIDDEN, "read_only_key", message)),
    }
}

fn admit<C: Control>(api: &Api<C>, key: Option<&str>, id: Option<&str>) -> Result<Role, Reply> {
    let refused = |message| Reply::refused(StatusCode::UNAUTHORIZED, "bad_key", message);
    let no_key = "no API key: send it as \"apikey\" in the body, or as X-Api-Key header";
    let said = key.ok_or_else(|| refused(no_key))?;
    let role = api.keys.role(said).ok_or_else(|| refused("the API key is not right"))?;
    let cluster = api.control.cluster();
    let Some(id) = id else { return Ok(role) };
    if id == cluster.name || id.parse() == Ok(cluster.id) {
        return Ok(role);
    }
    let message = format!("no cluster {id} here; this is cluster {} ({})", cluster.id, cluster.name);
    Err(Reply::refused(StatusCode::NOT_FOUND, "unknown_cluster", message))
}
