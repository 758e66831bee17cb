//! NDB Cluster's logs and `ndbinfo.restart_info`, read: which node restarted when, where its data came from, and how long each part took.
//!
//! A core: text in, findings out. The formats are those of NDB 5.1 to 9.x.
