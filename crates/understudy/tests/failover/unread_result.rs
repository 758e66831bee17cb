//! A client that stops reading a large result.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, QueryResult, Row, TextProtocol};

/// 200 MB: more than all buffers on the way hold.
const LARGE: &str = "SELECT REPEAT('x', 10000) FROM seq_1_to_20000";

/// A result of which nothing is read any more.
pub struct Unread<'a>(QueryResult<'a, 'static, TextProtocol>);

impl<'a> Unread<'a> {
    /// Reads the first row.
    pub async fn begin(client: &'a mut Conn) -> Self {
        let mut rows = client.query_iter(LARGE).await.unwrap();
        let first: Option<Row> = rows.next().await.unwrap();
        assert!(first.is_some());
        Self(rows)
    }

    /// Reads on, to the error with which it was cut.
    pub async fn cut(mut self) -> Error {
        loop {
            match self.0.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the whole result came"),
                Err(error) => return error,
            }
        }
    }
}
