//! Turns a request into the bytes of its answer. No socket and no clock, so that the same request gets the same bytes from every server.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use topology::health::{Question, Rules};

use super::counts::Counts;
use crate::Source;
use crate::answer::Answer;
use crate::request::{Connection, Request, Seen, Wants, see};
use crate::style::{self, Manner, Style};

/// Answers requests that another server of this program has received.
#[derive(Clone)]
pub struct Answerer(pub(super) Arc<Responder>);

pub struct Responder {
    pub source: Arc<dyn Source>,
    pub style: Style,
    pub rules: Rules,
    pub several_nodes: bool,
    pub counts: Arc<Counts>,
}

impl Answerer {
    /// Whether this program itself accepts clients now; an `Err` says why not, or that it is not known.
    pub fn takes_clients(&self) -> Result<(), String> {
        match self.0.source.answer(None, Question::Member(self.0.rules)) {
            Some(answer) if answer.is_good() => Ok(()),
            Some(answer) => Err(answer.reason.to_string()),
            None => Err("it is not known whether this program takes clients".to_owned()),
        }
    }

    /// The whole response to a GET of `target` (path and query), as for a client that is closed afterwards.
    pub fn get(&self, target: &str) -> Vec<u8> {
        let mut out = Vec::new();
        match see(format!("GET {target} HTTP/1.1\r\n\r\n").as_bytes(), self.0.rules) {
            Seen::Request(request) => self.0.answer(&request, false, &mut out),
            Seen::Bad(status, why) => self.0.refuse(status, &why, false, &mut out),
            Seen::Part | Seen::Raw => {
                self.0.refuse("400 Bad Request", "the path cannot be read", false, &mut out);
            }
        }
        out
    }
}

impl Responder {
    /// clustercheck closes every connection, and says so; only a client that asks to keep it open gets that.
    pub fn keeps(&self, request: &Request) -> bool {
        if request.has_body {
            return false;
        }
        let is_script = self.style != Style::Pyclustercheck && matches!(request.wants, Wants::Member(_));
        match request.connection {
            Connection::Close => false,
            // Without a header that says so, an HTTP/1.0 client waits for the end; pyclustercheck sends no such header.
            Connection::Keep => request.is_http11 || self.style != Style::Pyclustercheck,
            Connection::Unsaid => request.is_http11 && !is_script,
        }
    }

    pub fn answer(&self, request: &Request, keep: bool, out: &mut Vec<u8>) {
        let manner = Manner { keep, head_only: request.head_only };
        let node = request.node.as_deref();
        let not_found = |body: &str, out: &mut Vec<u8>| {
            self.counts.refused.fetch_add(1, Relaxed);
            style::plain("404 Not Found", body, manner, out);
        };
        let unknown =
            |out: &mut Vec<u8>| not_found(&format!("no node {} here\r\n", node.unwrap_or_default()), out);
        if self.several_nodes && request.is_any_path {
            return not_found(
                "no such path: ask /health/NODE, /health/NODE/writer, /health/NODE/replica, or / for Understudy itself\r\n",
                out,
            );
        }
        let asked = |question| {
            let answer = self.source.answer(node, question)?;
            self.count(&answer);
            Some(answer)
        };
        match request.wants {
            Wants::Member(rules) => match asked(Question::Member(rules)) {
                Some(answer) => self.style.write(&answer, manner, out),
                None => unknown(out),
            },
            Wants::Role(question) => match asked(question) {
                Some(answer) => style::role_typed(&answer, manner, out),
                None => unknown(out),
            },
            Wants::Json(question) => match asked(question) {
                Some(answer) => {
                    let body = style::json(&answer);
                    style::typed(answer.is_good(), "application/json", &body, manner, out);
                }
                None => unknown(out),
            },
            Wants::Status => match (self.source.status(node), asked(Question::Member(self.rules))) {
                (Some(status), Some(answer)) => {
                    let body = format!("{status:#}\n");
                    style::typed(answer.is_good(), "application/json", &body, manner, out);
                }
                _ => unknown(out),
            },
            Wants::Metrics => {
                style::typed(true, "text/plain; version=0.0.4", &self.source.metrics(), manner, out);
            }
        }
    }

    /// The response to a request that cannot be served, after which its connection is closed.
    pub fn refuse(&self, status: &str, why: &str, head_only: bool, out: &mut Vec<u8>) {
        self.counts.refused.fetch_add(1, Relaxed);
        style::plain(status, &format!("{why}\r\n"), Manner { keep: false, head_only }, out);
    }

    pub fn count(&self, answer: &Answer) {
        let counter = if answer.is_good() { &self.counts.good } else { &self.counts.bad };
        counter.fetch_add(1, Relaxed);
    }
}
