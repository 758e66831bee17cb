//! The desk where web's questions arrive: it asks the manager and the proxy, and puts their answers side by side.

use std::sync::Arc;

use health::server::Answerer;
use manager::{Handles, Journal, Orders};
use serde_json::{Value, json};
use tokio::sync::watch;
use topology::order::{Order, OrderReply};
use topology::view::ClusterView;
use web::{Cluster, Control, Health, Standing};

use super::metrics;
use crate::settings::Settings;

/// Journal entries looked through for one answer.
const JOURNAL_ROWS_MAX: u32 = 10_000;

/// See the head of this file.
pub struct Desk {
    cluster: Cluster,
    view: watch::Receiver<Arc<ClusterView>>,
    orders: Orders,
    journal: Journal,
    proxy: proxy::StatsReader,
    health: Answerer,
}

impl Desk {
    /// A desk between these.
    pub fn new(settings: &Settings, manager: &Handles, proxy: proxy::StatsReader, health: Answerer) -> Self {
        let nodes = settings.nodes.iter().map(|node| node.name.clone()).collect();
        Self {
            cluster: Cluster { id: settings.id, name: settings.name.clone(), nodes },
            view: manager.view.clone(),
            orders: manager.orders.clone(),
            journal: manager.journal.clone(),
            proxy,
            health,
        }
    }

    fn view(&self) -> Arc<ClusterView> {
        self.view.borrow().clone()
    }
}

impl Control for Desk {
    fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    async fn order(&self, order: Order) -> OrderReply {
        self.orders.order(order).await
    }

    fn standing(&self) -> Standing {
        let view = self.view();
        let writer = view.nodes.iter().find(|node| node.writer).map(|node| node.id);
        Standing { term: view.term, writer }
    }

    async fn status(&self) -> Value {
        let mut status = json!(*self.view());
        status["id"] = json!(self.cluster.id);
        status["version"] = json!(env!("CARGO_PKG_VERSION"));
        status["proxy"] = json!(self.proxy.stats().await);
        status
    }

    async fn journal(&self, after: u64) -> Result<Value, String> {
        let rows = self.journal.last(JOURNAL_ROWS_MAX).await.map_err(|e| e.to_string())?;
        let new: Vec<_> = rows.into_iter().filter(|row| row.at_unix_ms > after).collect();
        Ok(json!(new))
    }

    async fn metrics(&self) -> String {
        metrics::text(self.cluster.id, &self.view(), &self.proxy.stats().await)
    }

    fn health(&self, target: &str) -> Health {
        unwrap(&self.health.get(target))
    }
}

/// Takes a response out of its own head: web writes another one.
fn unwrap(response: &[u8]) -> Health {
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(response.len());
    let head = String::from_utf8_lossy(&response[..end]);
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(500);
    let content_type = head.lines().find_map(|line| line.strip_prefix("Content-Type: "));
    Health {
        status,
        content_type: content_type.unwrap_or("text/plain").to_owned(),
        body: response.get(end + 4..).unwrap_or_default().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_comes_out_whole() {
        let text = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\na\r\n\r\nb";
        let expect = Health { status: 503, content_type: "text/plain".into(), body: b"a\r\n\r\nb".to_vec() };
        assert_eq!(unwrap(text.as_bytes()), expect);
        assert_eq!(unwrap(b"").status, 500);
    }
}
