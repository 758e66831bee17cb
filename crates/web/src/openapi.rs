//! The routes, and their description for other programs (OpenAPI 3.1) at `GET /openapi.json`.
//!
//! Enters: each route, with who may ask, what it takes and what it answers. Leaves: a router, which answers with the description, too. The
//! schemas are those of the types that are written into the answers, and of those that the bodies are read into.
//!
//! Invariant: a route is in the description, since it cannot be added without.

use std::future::ready;

use axum::Router;
use axum::body::Bytes;
use axum::handler::Handler;
use axum::http::{StatusCode, header};
use axum::routing::{MethodRouter, any, get, put};
use serde_json::{Map, Value, json};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::reply::Written;

/// What is the same for all of them.
const ABOUT: &str = "The HTTP API of Understudy: docs/switch-over.md explains it, with the codes of refusals.\n\n\
    Every JSON answer has the same four fields; a later version may add fields to `data`, and words to what is listed. \
    A path that is not here is answered 404 (`no_such_path`), another method 405 (`wrong_method`), both as a Refusal. Where GET is taken, so is HEAD. \
    A head that is no HTTP gets 400, one of more than 16 KiB 431, and a connection for which there is no place 503, each without a body.";

/// What may be asked with, as the standard writes it.
const METHODS: [&str; 8] = ["get", "head", "post", "put", "patch", "delete", "options", "trace"];

/// Where the description is.
const PATH: &str = "/openapi.json";

/// Routes, and what is said of them.
pub struct Described<S> {
    router: Router<S>,
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
}

/// What is said of one route.
pub struct Operation {
    summary: &'static str,
    needs_key: bool,
    parameters: Vec<Value>,
    body: Option<Value>,
    responses: Map<String, Value>,
    schemas: Map<String, Value>,
}

/// A route that needs no key.
pub fn open(summary: &'static str) -> Operation {
    let (responses, schemas) = (Map::new(), Map::new());
    Operation { summary, needs_key: false, parameters: Vec::new(), body: None, responses, schemas }
}

/// A route that both keys read.
pub fn read(summary: &'static str) -> Operation {
    let operation = Operation { needs_key: true, ..open(summary) };
    operation.refuses(StatusCode::UNAUTHORIZED, "`bad_key`: there is no key, or it is not right")
}

/// A route for the operator's key.
pub fn operate(summary: &'static str) -> Operation {
    read(summary).refuses(StatusCode::FORBIDDEN, "`read_only_key`: this key only reads")
}

/// An order with this body.
pub fn order<B: ToSchema>(summary: &'static str) -> Operation {
    let operation = operate(summary)
        .refuses(StatusCode::BAD_REQUEST, "`bad_request`: the body makes no sense")
        .refuses(StatusCode::REQUEST_TIMEOUT, "`slow_request`: the body did not arrive in time")
        .refuses(StatusCode::CONFLICT, "it cannot be done now; `code` says why")
        .refuses(StatusCode::PAYLOAD_TOO_LARGE, "`too_large`: the body is too long, or broke off")
        .refuses(
            StatusCode::INTERNAL_SERVER_ERROR,
            "`store` or `internal`: the decision could not be kept, or its end is not known",
        )
        .refuses(StatusCode::SERVICE_UNAVAILABLE, "`stopping`: Understudy is being stopped");
    // What each order may have is taken out before the rest of it is read.
    let mut schema = json!(B::schema());
    let is_required = schema.get("required").is_some();
    schema["properties"]["apikey"] =
        json!({ "type": "string", "description": "The key, if no header has it" });
    schema["properties"]["dry_run"] =
        json!({ "type": "boolean", "description": "Only tell what would come of it" });
    Operation {
        body: Some(
            json!({ "required": is_required, "content": { "application/json": { "schema": schema } } }),
        ),
        ..operation
    }
}

/// What a whole number may be.
pub fn whole(minimum: u64, maximum: u64) -> Value {
    json!({ "type": "integer", "minimum": minimum, "maximum": maximum })
}

impl Operation {
    /// It is answered with this as `data`.
    pub fn answers<T: ToSchema>(mut self) -> Self {
        let data = self.schema::<T>();
        self.gives(StatusCode::OK, "Done", "application/json", written(true, data))
    }

    /// It is answered with a list of these as `data`.
    pub fn lists<T: ToSchema>(mut self) -> Self {
        let data = json!({ "type": "array", "items": self.schema::<T>() });
        self.gives(StatusCode::OK, "Done", "application/json", written(true, data))
    }

    /// A text that it is answered with has such values in it.
    pub fn tells<T: ToSchema>(mut self) -> Self {
        self.schema::<T>();
        self
    }

    /// It may be refused so.
    pub fn refuses(mut self, status: StatusCode, why: &str) -> Self {
        let code = json!({ "type": "string", "description": "Why, for programs" });
        let data = json!({ "type": "object", "required": ["code"], "properties": { "code": code } });
        self.schemas.insert("Refusal".to_owned(), written(false, data));
        self.gives(status, why, "application/json", json!(Ref::from_schema_name("Refusal")))
    }

    /// It is answered with a text of this type.
    pub fn text(self, status: StatusCode, what: &str, content_type: &str) -> Self {
        self.gives(status, what, content_type, json!({ "type": "string" }))
    }

    /// It is answered with a JSON object that is not described.
    pub fn object(self, status: StatusCode, what: &str) -> Self {
        self.gives(
            status,
            what,
            "application/json",
            json!({ "type": "object", "additionalProperties": true }),
        )
    }

    /// It takes this in its query; `schema` says what it may be.
    pub fn query(mut self, name: &str, schema: Value, description: &str) -> Self {
        self.parameters
            .push(json!({ "name": name, "in": "query", "description": description, "schema": schema }));
        match self.responses.contains_key("400") {
            true => self,
            false => {
                self.refuses(StatusCode::BAD_REQUEST, "`bad_request`: the path or the query makes no sense")
            }
        }
    }

    fn gives(mut self, status: StatusCode, what: &str, content_type: &str, schema: Value) -> Self {
        let response = self.responses.entry(status.as_str()).or_insert(json!({ "description": what }));
        response["content"][content_type] = json!({ "schema": schema });
        self
    }

    /// The schema of a type: one that has a name is kept, with those that it refers to, and referred to.
    fn schema<T: ToSchema>(&mut self) -> Value {
        let mut all = Vec::new();
        T::schemas(&mut all);
        let schema = T::schema();
        let is_named = matches!(schema, RefOr::T(Schema::Object(_) | Schema::AllOf(_) | Schema::OneOf(_)));
        let said = if is_named { json!(Ref::from_schema_name(T::name())) } else { json!(schema) };
        all.extend(is_named.then(|| (T::name().into_owned(), schema)));
        self.schemas.extend(all.into_iter().map(|(name, schema)| (name, json!(schema))));
        said
    }

    /// With what is in its path: who names a cluster or a node there may name one that there is not.
    fn at(mut self, path: &str) -> Self {
        let named = |name: &str| path.contains(&format!("{{{name}}}"));
        let known = [
            ("id", "The cluster's number or name"),
            ("name", "The node's name"),
            ("rest", "As docs/health-endpoint.md says: a node's name, and a question about it"),
        ];
        for (name, description) in known.into_iter().filter(|(name, _)| named(name)) {
            let schema = json!({ "type": "string" });
            self.parameters.push(json!({ "name": name, "in": "path", "required": true, "description": description, "schema": schema }));
        }
        if named("id") {
            self = self.refuses(StatusCode::NOT_FOUND, "`unknown_cluster` or `unknown_node`");
            if !self.responses.contains_key("400") {
                self = self.refuses(StatusCode::BAD_REQUEST, "`bad_request`: the path makes no sense");
            }
        }
        self
    }

    /// As it stands in the document.
    fn told(&self, path: &str, method: &str) -> Value {
        let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let name: Vec<&str> = std::iter::once(method).chain(words).collect();
        let mut operation = json!({
            "operationId": name.join("_"),
            "summary": self.summary,
            "parameters": self.parameters,
            "responses": self.responses,
        });
        if let Some(body) = &self.body {
            operation["requestBody"] = body.clone();
        }
        if self.needs_key {
            operation["security"] = json!([{ "bearer": [] }, { "header": [] }]);
        }
        operation
    }
}

impl<S: Clone + Send + Sync + 'static> Described<S> {
    /// No routes yet.
    pub fn new() -> Self {
        Self { router: Router::new(), paths: Map::new(), schemas: Map::new() }
    }

    /// A route that is asked with GET.
    pub fn get<H: Handler<T, S>, T: 'static>(self, path: &str, handler: H, operation: Operation) -> Self {
        self.add(path, get(handler), &["get"], operation)
    }

    /// A route that is asked with PUT.
    pub fn put<H: Handler<T, S>, T: 'static>(self, path: &str, handler: H, operation: Operation) -> Self {
        self.add(path, put(handler), &["put"], operation)
    }

    /// A route that answers to any method.
    pub fn any<H: Handler<T, S>, T: 'static>(self, path: &str, handler: H, operation: Operation) -> Self {
        self.add(path, any(handler), &METHODS, operation)
    }

    fn add(mut self, path: &str, handler: MethodRouter<S>, methods: &[&str], operation: Operation) -> Self {
        self.router = self.router.route(path, handler);
        // The standard has no sign for a parameter of several segments.
        let path = path.replace("{*", "{");
        let operation = operation.at(&path);
        let told = methods.iter().map(|method| ((*method).to_owned(), operation.told(&path, method)));
        self.paths.insert(path.clone(), told.collect());
        self.schemas.extend(operation.schemas);
        self
    }

    /// The router, with the description as another route.
    pub fn router(mut self) -> Router<S> {
        let own = open("This description").object(StatusCode::OK, "OpenAPI 3.1");
        self.paths.insert(PATH.to_owned(), json!({ "get": own.told(PATH, "get") }));
        let keys = json!({
            "bearer": { "type": "http", "scheme": "bearer", "description": "The operator's key, or the one that only reads (api.read_key_file), which takes no PUT and no `/slow`" },
            "header": { "type": "apiKey", "in": "header", "name": "X-Api-Key", "description": "The same keys" },
        });
        let document = json!({
            "openapi": "3.1.0",
            "info": { "title": "Understudy", "version": env!("CARGO_PKG_VERSION"), "description": ABOUT },
            "paths": self.paths,
            "components": { "schemas": self.schemas, "securitySchemes": keys },
        });
        // utoipa 6.0.0 writes `uint64` and the like, which are in OpenAPI's registry of formats, with a hyphen.
        let text = Bytes::from(document.to_string().replace(r#""format":"u-int"#, r#""format":"uint"#));
        self.router
            .route(PATH, get(move || ready(([(header::CONTENT_TYPE, "application/json")], text.clone()))))
    }
}

/// The schema of an answer with this `data`.
fn written(success: bool, data: Value) -> Value {
    let mut schema = json!(Written::schema());
    schema["properties"]["success"] = json!({ "const": success });
    schema["properties"]["data"] = data;
    schema
}
