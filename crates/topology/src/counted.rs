//! The status variables that are sampled each second on any server, as text for a statement. No decision depends on them.

/// Quoted, with commas between.
macro_rules! counted {
    () => {
        "'Uptime','Questions','Com_select','Com_insert','Com_update','Com_delete','Com_commit','Threads_running','Bytes_received',\
         'Bytes_sent','Innodb_rows_read','Innodb_rows_inserted','Innodb_rows_updated','Innodb_rows_deleted','Innodb_buffer_pool_reads',\
         'Innodb_os_log_written'"
    };
}
