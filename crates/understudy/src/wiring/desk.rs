//! The desk where web's questions arrive: it asks the manager and the proxy, and puts their answers side by side.

use std::sync::Arc;

use manager::{Handles, Journal, Orders};
use serde_json::{Value, json};
use tokio::sync::watch;
use topology::order::{Order, OrderReply};
use topology::view::ClusterView;
use web::{Cluster, Control, Standing};

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
}

impl Desk {
    /// A desk between these.
    pub fn new(settings: &Settings, manager: &Handles, proxy: proxy::StatsReader) -> Self {
        let nodes = settings.nodes.iter().map(|node| node.name.clone()).collect();
        Self {
            cluster: Cluster { id: settings.id, name: settings.name.clone(), nodes },
            view: manager.view.clone(),
            orders: manager.orders.clone(),
            journal: manager.journal.clone(),
            proxy,
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
}
