//! The one table of settings: what there is, of which kind, what holds without it, and what it means.
//!
//! Everything that speaks of settings is made from this table: which keys are known, what a value must be, the defaults,
//! the error texts, `understudy settings` and docs/settings.md. A setting that is not here does not exist. To add one: a row here, and
//! `settings.get(&table::NAME)` where it is used.

use std::marker::PhantomData;
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use topology::kind::Kind;
use topology::replication::Manager;
use topology::settings::{BootstrapPolicy, EvictPolicy, SilencePolicy, Writers};

use super::value::Words;

/// A setting that those who use it read as a `T` ([`super::Settings::get`]).
#[derive(Debug)]
pub struct Setting<T> {
    pub row: Row,
    read_as: PhantomData<fn() -> T>,
}

impl<T> Deref for Setting<T> {
    type Target = Row;

    fn deref(&self) -> &Row {
        &self.row
    }
}

/// What is written of one setting.
#[derive(Debug)]
pub struct Row {
    /// Where it stands in the file, dotted. A row under `cluster.node` is meant for each `[[cluster.node]]`, and so are those of `proxy.account`.
    pub path: &'static str,
    /// What its value must be.
    pub kind: ValueKind,
    /// What holds without it.
    pub default: Default,
    /// When a change of it comes into force.
    pub applies: Applies,
    /// One sentence for people.
    pub doc: &'static str,
}

/// What a value must be. Numbers are inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// 1 to 64 letters, digits, dots, underscores and dashes: fit for a URL, a label and a log line.
    Name,
    /// Text that is not empty.
    Text,
    /// Text that is never shown.
    Secret,
    /// `true` or `false`.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number.
    Count { min: u64, max: u64 },
    /// A whole number of milliseconds.
    Millis { min: u64, max: u64 },
    /// A whole number of bytes.
    Bytes { min: u64, max: u64 },
    /// `host:port`.
    Address,
    /// One `host:port`, or a list of them.
    Addresses,
    /// A list of texts that are not empty.
    Texts,
    /// A list of IP addresses and subnets.
    Networks,
    /// A file or directory; a relative one is taken from the directory of the configuration file.
    Path,
}

/// What holds without a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Default {
    /// It must be given.
    Required,
    /// This, as it would be written in the file.
    Toml(&'static str),
    /// Nothing is set; the text says what that means.
    Unset(&'static str),
}

/// When a change of a setting comes into force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applies {
    /// With the next reload (SIGHUP, `understudy reload`).
    Reload,
    /// With the next start only. A reload is refused while it differs.
    Restart,
}

macro_rules! settings {
    ($($name:ident: $type:ty = $path:literal, $kind:expr, $default:expr, $applies:expr, $doc:literal;)*) => {
        $(#[doc = $doc] pub static $name: Setting<$type> = Setting {
            row: Row { path: $path, kind: $kind, default: $default, applies: $applies, doc: $doc },
            read_as: PhantomData,
        };)*
        /// All settings, in the order in which they are shown.
        pub static TABLE: &[&Row] = &[$(&$name.row),*];
        /// The type as which each is read, in the same order.
        #[cfg(test)]
        pub static READ_AS: &[&str] = &[$(stringify!($type)),*];
    };
}

use self::Applies::{Reload, Restart};
use self::Default::{Required, Toml, Unset};
use self::ValueKind::{
    Address, Addresses, Bytes, Choice, Count, Millis, Name, Networks, Path, Secret, Switch, Text, Texts,
};

const HOUR_MS: u64 = 3_600_000;
const GIB: u64 = 1 << 30;

settings! {
    CLUSTER_NAME: String = "cluster.name", Name, Required, Restart,
        "The cluster's name, as shown in status, logs and metrics.";
    CLUSTER_ID: u32 = "cluster.id", Count { min: 0, max: 4_294_967_295 }, Toml("1"), Reload,
        "The number in the API's paths: /api/cluster/ID/...";
    CLUSTER_KIND: Kind = "cluster.kind", Choice(<Kind as Words>::WORDS), Toml("\"galera\""), Restart,
        "What the nodes are. \"galera\": a Galera cluster; measured with MariaDB Galera Cluster, not tried with Percona XtraDB Cluster. \"replication\": a primary and replicas that follow it by GTID; MariaDB, or MySQL (tested on 9.7 only).";
    CLUSTER_WRITERS: Writers = "cluster.writers", Choice(<Writers as Words>::WORDS), Toml("\"one\""), Restart,
        "\"one\": one node takes all sessions and the others stand by. \"all\": every synced node takes sessions, the least busy first; Galera only.";

    CLUSTER_MANAGER: Manager = "cluster.manager", Choice(<Manager as Words>::WORDS), Toml("\"understudy\""), Restart,
        "Who moves the primary. \"understudy\": this program. \"external\", for kind = \"replication\": another one (MHA, orchestrator, an administrator); whichever server is the only writable one (read_only = OFF) is followed, statements wait while none or several are, and no server is given an order.";

    CLUSTER_BOOTSTRAP: BootstrapPolicy = "cluster.bootstrap", Choice(<BootstrapPolicy as Words>::WORDS), Toml("\"never\""), Reload,
        "Galera only. What is done when the majority of the nodes is lost and nobody is in a Primary component any more. \"never\": a person decides (`understudy recovery bootstrap`). \"proven\": the nodes that are left go on by themselves, when proof_command has proven for every other node that its process has ended, and that nothing on its disk is newer than what is left.";
    CLUSTER_PROOF_COMMAND: Option<String> = "cluster.proof_command", Secret, Unset("must be set with bootstrap = \"proven\", and with nothing else"), Reload,
        "Run by /bin/sh for each node that is gone, with $NODE, $HOST and $ADDRESS: it must look at the process on that node's own host. Exit code 0 and a line `position UUID:SEQNO` say that the process has ended, and what it left on its disk; anything else proves nothing. `understudy recovery position`, run on that host, does it.";
    CLUSTER_PROOF_DEADLINE: Duration = "cluster.proof_deadline_ms", Millis { min: 100, max: HOUR_MS }, Toml("30000"), Reload,
        "How long proof_command may take; --wsrep-recover takes as long as InnoDB's recovery.";

    CLUSTER_TLS: String = "cluster.tls", Choice(&["off", "required", "verified"]), Toml("\"off\""), Reload,
        "TLS on every connection to a node: the proxy's for its clients, the manager's, the warmer's and the commands'. \"required\": any certificate will do. \"verified\": it must be trusted by tls_ca_file, not expired, and for the host of the node's address. A node that offers none is not logged in to. Connections that stand stay as they are.";
    CLUSTER_TLS_CA: Option<PathBuf> = "cluster.tls_ca_file", Path, Unset("must be set with tls = \"verified\", and with nothing else"), Reload,
        "The authorities that the nodes' certificates must come from, or these certificates themselves (PEM).";

    CLUSTER_TLS_CERTIFICATE: Option<PathBuf> = "cluster.tls_certificate_file", Path, Unset("no node is shown a certificate"), Reload,
        "Understudy's own certificate, which nodes are shown that ask for one (PEM, its chain after it): accounts that REQUIRE X509 need it.";
    CLUSTER_TLS_KEY: Option<PathBuf> = "cluster.tls_key_file", Path, Unset("see tls_certificate_file"), Reload,
        "Its private key (PEM).";
    CLUSTER_COMPRESSION: String = "cluster.compression", Choice(&["off", "zlib", "zstd"]), Toml("\"off\""), Reload,
        "How the packets of clients' sessions are compressed between Understudy and the nodes: for nodes that are far away. It costs both sides processor time, and the first byte of a result waits for the frame that it is in. What a client has asked for itself is another matter: that is between it and Understudy. \"zstd\" is MySQL's (8.0.18 and newer). A node that does not offer it (protocol_compression_algorithms of MySQL) is spoken to without.";
    CLUSTER_COMPRESSION_LEVEL: u8 = "cluster.compression_level", Count { min: 1, max: 22 }, Toml("3"), Reload,
        "The level of zstd that a node is asked for: higher is smaller and slower. Understudy itself packs at 6 at most.";
    CLUSTER_PROXY_HEADER: String = "cluster.proxy_header", Choice(&["off", "v1", "v2"]), Toml("\"off\""), Reload,
        "Whether each connection to a node that is made for a client begins with a PROXY header, so that the node sees the client's address: in its accounts, its process list and its logs. Each node must take such headers from Understudy (MariaDB: proxy_protocol_networks); MySQL has no such setting, and Percona's would refuse Understudy's own connections, which have no header.";

    NODE_NAME: String = "cluster.node.name", Name, Required, Reload,
        "The node's name in orders, status and logs. It need not be its wsrep_node_name.";
    NODE_ADDRESS: String = "cluster.node.address", Address, Required, Reload,
        "Where the node answers the MySQL protocol.";
    NODE_PRIORITY: u32 = "cluster.node.priority", Count { min: 0, max: 1_000_000 }, Toml("0"), Reload,
        "The node with the higher number is preferred when a writer is chosen. There is no fail-back: a writer stays until it must go.";

    MONITOR_USER: String = "cluster.monitor.user", Text, Required, Reload,
        "The account for probes and orders, the same on all nodes. `understudy serve --check` prints the GRANT it needs.";
    MONITOR_PASSWORD: Option<String> = "cluster.monitor.password", Secret, Unset("one of password, password_file and password_env must be set"), Reload,
        "Its password. Rather use password_file or password_env.";
    MONITOR_PASSWORD_FILE: Option<PathBuf> = "cluster.monitor.password_file", Path, Unset("see password"), Reload,
        "A file with its password; white space at the end does not count.";
    MONITOR_PASSWORD_ENV: Option<String> = "cluster.monitor.password_env", Text, Unset("see password"), Reload,
        "The name of an environment variable with its password.";
    MONITOR_INTERVAL: Duration = "cluster.monitor.interval_ms", Millis { min: 10, max: 60_000 }, Toml("200"), Reload,
        "How often each node is asked for its status; also how long an answer may take. With detect = \"events\" and from 100 ms on, pings between ask for a sign of life, four times as often.";
    MONITOR_MISSES: u32 = "cluster.monitor.misses_max", Count { min: 1, max: 100 }, Toml("3"), Reload,
        "A node that misses this many answers in a row is silent. A refused or reset connection does not wait for this.";
    MONITOR_DETECT: String = "cluster.monitor.detect", Choice(&["events", "checks"]), Toml("\"events\""), Reload,
        "What counts as a sign of loss. \"events\": a link that ends, a refused connection and a broken statement are followed up at once, missed answers as well. \"checks\": only missed answers, as with a load balancer's checks; to compare with.";
    MONITOR_EVICT: EvictPolicy = "cluster.monitor.evict", Choice(<EvictPolicy as Words>::WORDS), Toml("\"proven\""), Reload,
        "Galera only. Which nodes are evicted from the group (evs.evict), so that the others need not wait for evs.suspect_timeout. \"proven\": those whose connections were refused or reset twice. \"silent\": those that stopped answering, too; one that was alive after all is thrown out, mostly comes back by itself some seconds after it wakes, and must be restarted by hand when it does not. \"never\": none.";
    MONITOR_SILENT: SilencePolicy = "cluster.monitor.silent", Choice(<SilencePolicy as Words>::WORDS), Toml("\"wait\""), Reload,
        "Galera only. What is done when the group waits for a node that stopped answering. \"wait\": nothing; Galera's own timers decide (docs/evs-and-doctor.md advises shorter ones). \"hurry\": evs.keepalive_period and evs.suspect_timeout of the other nodes are shortened until the group has gone on without it, about a second instead of five to ten, and then are their own again; nobody is evicted, and the node comes back by itself. But a node that stood still for 0.7 to 1.1 s only may cost up to 3.5 s then. It does nothing with evict = \"silent\".";
    MONITOR_STOP_GRACE: Duration = "cluster.monitor.stop_grace_ms", Millis { min: 0, max: HOUR_MS }, Toml("1000"), Reload,
        "Galera only. How long a node that said goodbye (an orderly stop) is left to leave the group by itself before it may be evicted.";

    HEARTBEAT_INTERVAL: Duration = "cluster.heartbeat.interval_ms", Millis { min: 0, max: 60_000 }, Toml("1000"), Reload,
        "How often one small row is committed on the writer (on each, with writers = \"all\"), to see whether a node that answers also commits. 0: never.";
    HEARTBEAT_SCHEMA: String = "cluster.heartbeat.schema", Name, Toml("\"understudy\""), Reload,
        "The schema of the table heartbeat that holds that row. Both are made where they are missing, if the monitor account may.";
    HEARTBEAT_STUCK: Duration = "cluster.heartbeat.stuck_ms", Millis { min: 500, max: HOUR_MS }, Toml("3000"), Reload,
        "A writer that answers, and has not committed for so long, is given up when another node can write, unless somebody else is the cause: no replica acknowledges, a large transaction is being written, all nodes of a Galera cluster are held up.";

    REPLICATION_USER: Option<String> = "cluster.replication.user", Text, Unset("must be set with cluster.kind = \"replication\", and with no other"), Reload,
        "The account that replicas log in with at the primary, the same on all nodes; it needs REPLICATION SLAVE (MariaDB also calls it REPLICATION REPLICA).";
    REPLICATION_PASSWORD: Option<String> = "cluster.replication.password", Secret, Unset("one of password, password_file and password_env must be set with user"), Reload,
        "Its password. Replicas keep it readable in their master.info, as always with MariaDB.";
    REPLICATION_PASSWORD_FILE: Option<PathBuf> = "cluster.replication.password_file", Path, Unset("see password"), Reload,
        "A file with its password; white space at the end does not count.";
    REPLICATION_PASSWORD_ENV: Option<String> = "cluster.replication.password_env", Text, Unset("see password"), Reload,
        "The name of an environment variable with its password.";
    REPLICATION_FAILOVER: String = "cluster.replication.failover", Choice(&["automatic", "manual", "dry_run"]), Toml("\"automatic\""), Reload,
        "What is done when the primary is lost. \"automatic\": the best replica is promoted. \"manual\": who would be promoted, and why, is said; statements wait until an operator orders a switchover. \"dry_run\": no server is changed that no operator ordered to be changed, not even one that is writable or follows nobody; what would have been done is said.";
    REPLICATION_GAP: Duration = "cluster.replication.failover_gap_ms", Millis { min: 0, max: 24 * HOUR_MS }, Toml("60000"), Reload,
        "After an automatic failover the next one waits so long: what took one primary down may take the next. An operator's order does not wait.";

    LISTEN_MYSQL: Vec<String> = "listen.mysql", Addresses, Toml("[\"0.0.0.0:6033\"]"), Restart,
        "Where applications connect; by default at every address of the machine, with TLS offered and not demanded.";
    LISTEN_TLS: String = "listen.tls", Choice(&["off", "optional", "required"]), Toml("\"optional\""), Reload,
        "TLS on listen.mysql, and on listen.read unless listen.read_tls says otherwise. \"optional\": whoever asks for it has it. \"required\": whoever does not is refused, with the server's error 3159. Clients that are connected stay as they are.";
    LISTEN_READ_TLS: Option<String> = "listen.read_tls", Choice(&["off", "optional", "required"]), Unset("as listen.tls"), Reload,
        "TLS on listen.read.";
    LISTEN_TLS_CERTIFICATE: Option<PathBuf> = "listen.tls_certificate_file", Path, Unset("a self-signed certificate in state.dir, made at first start"), Reload,
        "The certificate that clients of listen.mysql and listen.read are shown (PEM, its chain after it).";
    LISTEN_TLS_KEY: Option<PathBuf> = "listen.tls_key_file", Path, Unset("see tls_certificate_file"), Reload,
        "Its private key (PEM).";
    LISTEN_TLS_CA: Option<PathBuf> = "listen.tls_ca_file", Path, Unset("no client is asked for a certificate"), Reload,
        "The authorities from which the certificates of clients come (PEM). A client may show one; accounts that REQUIRE X509 must.";
    LISTEN_PROXY_HEADER: Vec<IpNet> = "listen.proxy_header_from", Networks, Toml("[]"), Reload,
        "Balancers before listen.mysql and listen.read that begin each connection with a PROXY header (version 1 or 2), as HAProxy's send-proxy does: their clients' addresses are then known. A connection from there without a header is refused, as is a header from anywhere else.";
    LISTEN_HTTP: Vec<String> = "listen.http", Addresses, Toml("[\"127.0.0.1:6080\"]"), Restart,
        "Where orders, status and metrics are answered over plain HTTP; [] for nowhere. The key crosses the network readable: keep it on this machine, or use https.";
    LISTEN_HTTPS: Vec<String> = "listen.https", Addresses, Toml("[]"), Restart,
        "The same over HTTPS. Without api.certificate_file a self-signed certificate is made at first start.";
    LISTEN_HEALTH: Vec<String> = "listen.health", Addresses, Toml("[]"), Restart,
        "Where health questions are answered over plain HTTP, in clustercheck's bytes and without a key: /health/NODE for a node, / for Understudy itself. listen.http answers /health as well; this is for balancers on other hosts.";
    LISTEN_AGENT: Vec<String> = "listen.agent", Addresses, Toml("[]"), Restart,
        "Where HAProxy's agent check is answered: a node's name in, up, down or drain out.";

    LISTEN_READ: Vec<String> = "listen.read", Addresses, Toml("[]"), Restart,
        "Where applications connect that only read: their sessions are spread over the replicas (with Galera: over the synced nodes that are not the writer). See read.lag_max_ms.";

    LISTEN_SPLIT: bool = "listen.split", Switch, Toml("false"), Restart,
        "Replication only. true: on listen.mysql, a plain SELECT outside a transaction runs on a replica (within read.lag_max_ms) that has all its session has written; everything else, and whatever is in doubt, on the primary. Each session that reads has a second connection then. See docs/read-write-split.md.";

    HOLD_TIME: Duration = "hold.time_ms", Millis { min: 0, max: HOUR_MS }, Toml("60000"), Reload,
        "How long a statement may wait for a writer before it ends with \"hold timed out\".";
    HOLD_STATEMENTS: usize = "hold.statements_max", Count { min: 0, max: 1_000_000 }, Toml("10000"), Reload,
        "How many statements may wait at once; beyond it the oldest ends with \"hold full\".";
    HOLD_BYTES: usize = "hold.bytes_max", Bytes { min: 0, max: 64 * GIB }, Toml("67108864"), Reload,
        "How many bytes of statements may wait at once.";
    HOLD_RELEASE: usize = "hold.release_at_once", Count { min: 1, max: 1_000_000 }, Toml("16"), Reload,
        "How many held statements run on a new writer at once while it takes over.";

    SWITCHOVER_BUDGET: Duration = "switchover.budget_ms", Millis { min: 0, max: 600_000 }, Toml("5000"), Reload,
        "How long a switchover or a drain waits for running transactions to end, unless the order says otherwise. Over budget, everything is undone and the old writer goes on, or with --force what still runs is cut. 0 waits for no transaction.";

    PROXY_CONNECT_TIMEOUT: Duration = "proxy.connect_timeout_ms", Millis { min: 10, max: 600_000 }, Toml("1000"), Reload,
        "How long connecting and logging in to a node may take.";
    PROXY_LOGIN_TIMEOUT: Duration = "proxy.login_timeout_ms", Millis { min: 100, max: 600_000 }, Toml("10000"), Reload,
        "How long a client may take to log in.";
    PROXY_CLIENT_IDLE: Duration = "proxy.client_idle_max_ms", Millis { min: 0, max: 365 * 24 * HOUR_MS }, Toml("0"), Reload,
        "A client that has sent nothing for so long is disconnected, as by a server's wait_timeout: what it had open is rolled back. Counts from the answer to its last command, and a change from each client's next; 0 for never.";
    PROXY_RETAIN: usize = "proxy.retain_bytes_max", Bytes { min: 0, max: GIB }, Toml("1048576"), Reload,
        "The largest statement kept so that it can be sent again on another node; a larger one is sent once.";
    PROXY_RESENDS: u32 = "proxy.resends_max", Count { min: 0, max: 100 }, Toml("1"), Reload,
        "How often a statement that changes nothing is sent again when it was sent and its node was lost before it answered; then it ends with error 9113. What may change something is never sent again.";
    PROXY_SUSPECT: Duration = "proxy.suspect_time_ms", Millis { min: 0, max: HOUR_MS }, Toml("60000"), Reload,
        "How long statements of a form are refused (error 9115) that ran at the loss of two nodes and did not end well in between; 0 for never.";
    PROXY_PASSWORD_ERRORS: u32 = "proxy.password_errors_max", Count { min: 0, max: 1_000_000 }, Toml("20"), Reload,
        "How many wrong passwords one address may give for one account, before further logins of this account from there are refused (error 9120) without a look at the password. All addresses together have ten times as many for an account; beyond that, an address is refused after one. 0 for no limit.";
    PROXY_PASSWORD_PAUSE: Duration = "proxy.password_error_pause_ms", Millis { min: 100, max: HOUR_MS }, Toml("10000"), Reload,
        "After so long, an address that has used up its wrong passwords for an account may give one more.";
    PROXY_CLIENTS: usize = "proxy.client_connections_max", Count { min: 1, max: 1_000_000 }, Toml("10000"), Reload,
        "How many clients may be connected at once; the next is told 1040, too many connections.";
    PROXY_SHUTDOWN_GRACE: Duration = "proxy.shutdown_grace_ms", Millis { min: 0, max: HOUR_MS }, Toml("5000"), Reload,
        "How long running transactions may go on when Understudy is told to stop.";

    PROXY_ACCOUNT_USER: String = "proxy.account.user", Text, Required, Reload,
        "The name of a database account of ed25519 or parsec (MariaDB). Its clients prove by a signature that they know the password, from which no login to a node follows: so the proxy logs in to the nodes with the password given here. A name may stand here several times: the password that fits the account is used. See docs/accounts.md.";
    PROXY_ACCOUNT_PASSWORD: Option<String> = "proxy.account.password", Secret, Unset("one of password, password_file and password_env must be set"), Reload,
        "Its password. Rather use password_file or password_env.";
    PROXY_ACCOUNT_PASSWORD_FILE: Option<PathBuf> = "proxy.account.password_file", Path, Unset("see password"), Reload,
        "A file with its password; white space at the end does not count. It is read again at each reload.";
    PROXY_ACCOUNT_PASSWORD_ENV: Option<String> = "proxy.account.password_env", Text, Unset("see password"), Reload,
        "The name of an environment variable with its password.";

    API_KEY_FILE: Option<PathBuf> = "api.key_file", Path, Unset("api.key in state.dir, made at first start"), Reload,
        "The file with the key of the API.";
    API_READ_KEY_FILE: Option<PathBuf> = "api.read_key_file", Path, Unset("there is no such key"), Reload,
        "The file with a second key of the API, whose holder sees the cluster and changes nothing; the statements of clients (/slow) are not shown to it.";
    API_CERTIFICATE: Option<PathBuf> = "api.certificate_file", Path, Unset("a self-signed certificate in state.dir, made at first start"), Reload,
        "The certificate of listen.https (PEM, its chain after it).";
    API_CERTIFICATE_KEY: Option<PathBuf> = "api.certificate_key_file", Path, Unset("see certificate_file"), Reload,
        "Its private key (PEM).";

    READ_LAG_MAX: Duration = "read.lag_max_ms", Millis { min: 100, max: HOUR_MS }, Toml("5000"), Reload,
        "A replica takes reads, and /health/NODE/replica says yes, while what it has is at most so old: that long ago it had all that the primary had then. Also how long, but at most 5 s, a session that comes to a replica waits until that has all that the session may have seen.";
    READ_FALLBACK: String = "read.fallback", Choice(&["primary", "none"]), Toml("\"primary\""), Reload,
        "Who takes the reads of listen.read when no replica may. \"primary\": the primary. \"none\": nobody; statements wait for as long as hold.time_ms says.";

    READ_SPLIT_WAIT: Duration = "read.split_wait_ms", Millis { min: 1, max: 60_000 }, Toml("1000"), Reload,
        "With listen.split: how long a read waits on a replica for what its session has written; then the primary answers it, and the replica is left alone for as long.";

    WARM_USER: Option<String> = "warm.user", Text, Unset("no standby is warmed; must be set with any other setting of [warm]"), Reload,
        "The account that replays on the standbys what the active node was asked, the same on all nodes: CREATE USER ...; GRANT SELECT ON shop.* TO ..., and nothing else. With it, standbys are warmed. See docs/warm-standby.md.";
    WARM_PASSWORD: Option<String> = "warm.password", Secret, Unset("one of password, password_file and password_env must be set with user"), Reload,
        "Its password.";
    WARM_PASSWORD_FILE: Option<PathBuf> = "warm.password_file", Path, Unset("see password"), Reload,
        "A file with its password; white space at the end does not count.";
    WARM_PASSWORD_ENV: Option<String> = "warm.password_env", Text, Unset("see password"), Reload,
        "The name of an environment variable with its password.";
    WARM_SOURCE: String = "warm.source", Choice(&["slow-log", "proxy"]), Toml("\"slow-log\""), Reload,
        "Where it is learned what the active node was asked. \"slow-log\": from its slow log, which `understudy slowlog serve` streams on each node. \"proxy\": from the clients of listen.mysql themselves; no slow log is needed, and the active node has no work with it.";
    WARM_STREAM_PORT: u16 = "warm.stream_port", Count { min: 1, max: 65_535 }, Toml("3307"), Reload,
        "The port at which each node's slow log is streamed, at the host of its cluster.node.address.";
    WARM_STREAM_KEY_FILE: Option<PathBuf> = "warm.stream_key_file", Path, Unset("no key is shown"), Reload,
        "A file with the key that the streamers want (`understudy slowlog serve --key-file`).";
    WARM_STREAM_CA: Option<PathBuf> = "warm.stream_ca_file", Path, Unset("the streamers are asked without TLS"), Reload,
        "The streamers are asked over TLS, and this certificate is trusted (PEM): theirs, or that of the authority that signed it.";
    WARM_SAMPLE: u32 = "warm.sample_one_in", Count { min: 1, max: 10_000 }, Toml("1"), Reload,
        "Only one in so many is replayed; 1 for all.";
    WARM_SAMPLE_BY: String = "warm.sample_by", Choice(&["session", "event"]), Toml("\"session\""), Reload,
        "With sample_one_in: \"session\": one recorded connection in so many, with all its statements. \"event\": one statement in so many.";
    WARM_SESSIONS: usize = "warm.sessions_max", Count { min: 0, max: 10_000 }, Toml("0"), Reload,
        "How many sessions a standby is given at most, over which the recorded connections are spread. 0: one for each recorded connection, ended when it ran nothing for a minute.";
    WARM_LAG_MAX: Duration = "warm.lag_max_ms", Millis { min: 1000, max: 24 * HOUR_MS }, Toml("60000"), Reload,
        "Statements that were recorded so much earlier than the newest are left out: a standby that is slower than the active node is warmed with what is new.";
    WARM_WAITING: usize = "warm.waiting_bytes_max", Bytes { min: 1 << 20, max: GIB }, Toml("67108864"), Reload,
        "How many bytes of statements may wait for one standby; then no more is read until some have run, and the streamer leaves out what it can keep no longer.";
    WARM_SKIP: Vec<String> = "warm.skip_users", Texts, Toml("[]"), Reload,
        "What these accounts ran is not replayed, as little as what cluster.monitor.user and warm.user ran.";
    WARM_WRITABLE: bool = "warm.writable_account", Switch, Toml("false"), Reload,
        "true: warm.user is used even though it may do more than read. Statements are filtered, and sessions are read only, all the same.";
    WARM_REQUIRE: u8 = "warm.require_percent", Count { min: 0, max: 100 }, Toml("0"), Reload,
        "A planned switchover to a standby is refused, unless it is forced, while less than so much of what the active node reads would be in that standby's memory, or while that is not known. 0: however cold. A failover never waits for it.";

    HOOKS_KINDS: Vec<String> = "hooks.kinds", Texts, Toml("[\"chosen\", \"lost\", \"writes\", \"undone\", \"nobody_writes\"]"), Reload,
        "Which entries of the journal the command and the webhook are told of: \"chosen\", a node is to be the writer; \"lost\", one of several writers was given up; \"writes\", it writes; \"undone\", a switchover was undone; \"nobody_writes\", no node can be the writer; \"clients\", what clients noticed of a change; \"node\", a node is in another state. See docs/hooks.md.";
    HOOKS_COMMAND: Option<String> = "hooks.command", Secret, Unset("no command is run"), Reload,
        "A command for /bin/sh that is run for each of them, one after the other, with the entry as JSON at its standard input.";
    HOOKS_COMMAND_TIME: Duration = "hooks.command_time_ms", Millis { min: 100, max: HOUR_MS }, Toml("10000"), Reload,
        "How long the command may take; then it is ended with all that it has started.";
    HOOKS_URL: Option<String> = "hooks.webhook_url", Secret, Unset("no webhook is called"), Reload,
        "The http:// or https:// address to which each of them is sent (POST, JSON). What does not answer is called six times in all, over 31 to 91 s.";
    HOOKS_SECRET_FILE: Option<PathBuf> = "hooks.webhook_secret_file", Path, Unset("calls are not signed"), Reload,
        "A file with a secret of at least 16 characters, with which each call is signed (HMAC-SHA256). It is read again at each reload.";
    HOOKS_CA: PathBuf = "hooks.webhook_ca_file", Path, Toml("\"/etc/ssl/certs/ca-certificates.crt\""), Reload,
        "The authorities (PEM) of which one must have signed the certificate of an https:// webhook.";

    LOG_LEVEL: String = "log.level", Text, Toml("\"info\""), Reload,
        "What `serve` logs: off, error, warn, info, debug or trace, also of single modules (\"info,proxy=debug\"). UNDERSTUDY_LOG, where it is set, is used instead.";

    STATE_DIR: PathBuf = "state.dir", Path, Toml("\"/var/lib/understudy\""), Restart,
        "Where term, writer, drains and journal are kept across restarts; also the API key and certificate made at first start.";
}

impl Row {
    /// The table it stands in: `cluster.node` of `cluster.node.name`.
    pub fn section(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(section, _)| section)
    }

    /// Its name inside that table.
    pub fn key(&self) -> &'static str {
        self.path.rsplit_once('.').map_or(self.path, |(_, key)| key)
    }
}

impl ValueKind {
    /// What a value must be, to follow "must be".
    pub fn allowed(self) -> String {
        match self {
            ValueKind::Name => "1 to 64 letters, digits, dots, underscores and dashes".into(),
            ValueKind::Text | ValueKind::Secret => "text in quotes, not empty".into(),
            ValueKind::Switch => "true or false".into(),
            ValueKind::Choice([one]) => format!("\"{one}\""),
            ValueKind::Choice(words) => {
                let quoted: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
                format!("one of {}", quoted.join(", "))
            }
            ValueKind::Count { min, max } => format!("a whole number from {min} to {max}"),
            ValueKind::Millis { min, max } => format!("a whole number of milliseconds from {min} to {max}"),
            ValueKind::Bytes { min, max } => format!("a whole number of bytes from {min} to {max}"),
            ValueKind::Address => {
                "\"host:port\", for example \"10.77.0.1:3306\" or \"[fd00::1]:3306\"".into()
            }
            ValueKind::Addresses => {
                "\"host:port\" or a list of them, for example [\"0.0.0.0:6033\", \"[::]:6033\"]".into()
            }
            ValueKind::Networks => {
                "a list of IP addresses and subnets in quotes, for example [\"10.0.0.5\", \"10.1.0.0/16\"]"
                    .into()
            }
            ValueKind::Texts => "a list of texts in quotes, for example [\"backup\", \"report\"]".into(),
            ValueKind::Path => "a path in quotes".into(),
        }
    }
}
