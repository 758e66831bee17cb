//! The status variables of any server of which a sample is kept each second, as text for a statement. They decide nothing.

/// Quoted, with commas between.
macro_rules! counted {
    () => {
        "'Uptime','Questions','Com_select','Com_insert','Com_update','Com_delete','Com_commit','Threads_running','Bytes_received',\
         'Bytes_sent','Innodb_rows_read','Innodb_rows_inserted','Innodb_rows_updated','Innodb_rows_deleted','Innodb_buffer_pool_reads',\
         'Innodb_os_log_written'"
    };
}
