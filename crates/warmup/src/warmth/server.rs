//! The way in which the standby's server reports page accesses, which depends on its version, and its counters of disk reads.

use std::time::Duration;

use link::{Link, LinkError};

use super::analyze::tells_pages;

/// Time limit of a query for the server's own state.
const ASK_MAX: Duration = Duration::from_secs(10);

/// How the page accesses of a statement are determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// ANALYZE FORMAT=JSON reports them for each table.
    Analyze,
    /// The statement is run, and the server's global counters are read before and after it. Accesses by other sessions are counted as well.
    Counters,
}

/// The server's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Pages that were not in the buffer pool when they were needed (`Innodb_buffer_pool_reads`).
    pub reads: u64,
    /// Accesses of pages (`Innodb_buffer_pool_read_requests`).
    pub requests: u64,
    /// Pages that the buffer pool has room for (`Innodb_buffer_pool_pages_total`).
    pub pool_pages: u64,
    /// The time since the server was started.
    pub uptime_s: u64,
}

/// The method for a server of this version.
pub async fn means(link: &mut Link) -> Result<Means, LinkError> {
    let version = link.query("SELECT VERSION()", ASK_MAX).await?;
    let version = version.text(0, 0).unwrap_or_default();
    Ok(if tells_pages(version) { Means::Analyze } else { Means::Counters })
}

/// Reads the server's counters.
pub async fn counters(link: &mut Link) -> Result<Counters, LinkError> {
    const ASK: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN \
        ('Innodb_buffer_pool_reads', 'Innodb_buffer_pool_read_requests', 'Innodb_buffer_pool_pages_total', 'Uptime')";
    let rows = link.query(ASK, ASK_MAX).await?;
    let number = |name: &str| {
        rows.value_of(name)
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| LinkError::Protocol(format!("the server's status has no {name}: InnoDB is off")))
    };
    Ok(Counters {
        reads: number("Innodb_buffer_pool_reads")?,
        requests: number("Innodb_buffer_pool_read_requests")?,
        pool_pages: number("Innodb_buffer_pool_pages_total")?,
        uptime_s: number("Uptime")?,
    })
}
