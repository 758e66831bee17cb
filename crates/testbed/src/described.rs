//! Whether what a running `understudy serve` answers is as it describes itself at `GET /openapi.json`.
//!
//! The description allows fields that it does not name, for later versions. Here none is allowed: a field that somebody has forgotten to
//! describe is found.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;

use boon::{Compiler, Schemas};
use serde_json::{Map, Value, json};

use crate::program::LONG;

/// Where the description stands for the validator.
const ROOT: &str = "http://localhost/described";

/// An answer over HTTP.
#[derive(Debug)]
pub struct Answer {
    /// HTTP's number.
    pub status: u16,
    /// With its parameters.
    pub content_type: String,
    /// What followed the head.
    pub body: String,
}

/// Asks what listens at `address`; `key` as the bearer's.
pub fn ask(address: &str, method: &str, path: &str, key: &str, body: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut request =
        format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}\r\n", body.len());
    if !key.is_empty() {
        write!(request, "Authorization: Bearer {key}\r\n").unwrap();
    }
    write!(request, "\r\n{body}").unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    let headers = head.lines().filter_map(|line| line.split_once(": "));
    let content_type =
        headers.filter(|(name, _)| name.eq_ignore_ascii_case("content-type")).map(|(_, value)| value);
    let content_type = content_type.collect();
    Answer { status: head.split(' ').nth(1).unwrap().parse().unwrap(), content_type, body: body.to_owned() }
}

/// The description.
pub struct Description {
    /// As it was told.
    pub told: Value,
    /// Its schemas, which allow nothing else.
    components: Value,
}

impl Description {
    /// Of what listens there.
    pub fn of(address: &str) -> Self {
        let answer = ask(address, "GET", "/openapi.json", "", "");
        assert_eq!((answer.status, &*answer.content_type), (200, "application/json"));
        let told: Value = serde_json::from_str(&answer.body).unwrap();
        let schemas = told["components"]["schemas"].as_object().unwrap();
        let all = |is_part| -> Map<String, Value> {
            schemas.iter().map(|(name, schema)| (name.clone(), strict(schema, is_part))).collect()
        };
        let components = json!({ "schemas": all(false), "parts": all(true) });
        Self { told, components }
    }

    /// Panics unless the answer has a status and a content type that are described for the path, as it stands in the description, and fits the schema.
    pub fn check(&self, method: &str, path: &str, answer: &Answer) {
        let Answer { status, content_type, body } = answer;
        let response = &self.told["paths"][path][method.to_lowercase()]["responses"][status.to_string()];
        let content = &response["content"][content_type];
        assert!(
            content.is_object(),
            "{method} {path} is not described to answer {status} {content_type}: {body}"
        );
        if content_type == "application/json" {
            let value = serde_json::from_str(body).unwrap();
            self.fits(&content["schema"], &value, &format!("{method} {path}: {status}"));
        }
    }

    /// Panics unless the value is one of that component.
    pub fn is(&self, name: &str, value: &Value) {
        self.fits(&json!({ "$ref": format!("#/components/schemas/{name}") }), value, name);
    }

    /// Panics unless the value fits the schema.
    pub fn fits(&self, schema: &Value, value: &Value, what: &str) {
        fits(
            json!({ "components": self.components, "wanted": strict(schema, false) }),
            "#/wanted",
            value,
            what,
        );
    }
}

/// Panics unless the value fits that schema, which allows no field that it does not name.
pub fn fits_schema(schema: &Value, value: &Value, what: &str) {
    fits(strict(schema, false), "", value, what);
}

/// `place`: where in `root` the schema is.
fn fits(root: Value, place: &str, value: &Value, what: &str) {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource(ROOT, root).unwrap();
    let wanted = compiler.compile(&format!("{ROOT}{place}"), &mut schemas).unwrap();
    if let Err(error) = schemas.validate(value, wanted) {
        panic!("{what}: the answer is not as it is described: {error:#}\n{value:#}");
    }
}

/// The same schema, which allows no field that it does not name. A part of another (`allOf`) leaves that to the whole.
fn strict(schema: &Value, is_part: bool) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let mut strict: Map<String, Value> =
        fields.iter().map(|(word, value)| (word.clone(), within(word, value))).collect();
    if is_part && let Some(Value::String(name)) = fields.get("$ref") {
        strict.insert("$ref".into(), json!(name.replace("/schemas/", "/parts/")));
    }
    let is_open =
        fields.get("type") == Some(&json!("object")) && !fields.contains_key("additionalProperties");
    if !is_part && (is_open || fields.contains_key("allOf")) {
        strict.insert("unevaluatedProperties".into(), json!(false));
    }
    Value::Object(strict)
}

/// The value of a schema's word, with the schemas that are in it.
fn within(word: &str, value: &Value) -> Value {
    match (word, value) {
        ("properties" | "$defs", Value::Object(fields)) => {
            fields.iter().map(|(name, schema)| (name.clone(), strict(schema, false))).collect()
        }
        ("allOf" | "oneOf" | "prefixItems", Value::Array(schemas)) => {
            schemas.iter().map(|schema| strict(schema, word == "allOf")).collect()
        }
        ("items" | "additionalProperties", schema) => strict(schema, false),
        _ => value.clone(),
    }
}
