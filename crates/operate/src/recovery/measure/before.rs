//! May it be done, and what is to be expected? Nothing is changed here; what is refused is refused here.

use std::time::Duration;

use measure::recovery::galera::{self, Donor, Returning};
use measure::recovery::restart::{self, expected};
use measure::recovery::{Forecast, WriteRate};
use topology::kind::Kind;

use super::super::forecast::read;
use super::hands::Saved;
use super::order::Measure;
use super::tail::Tail;
use super::watch;
use cli::exit::Failure;
use doctor::asked::answered;
use doctor::read::explain;
use link::Login;
use settings::Settings;

/// What was found before anything was done.
pub(super) struct Found {
    /// The node's place in the configuration.
    pub(super) number: usize,
    /// How many nodes were in the group.
    pub(super) cluster_size: u64,
    /// The node's last writeset.
    pub(super) position: u64,
    /// For an absence that began then.
    pub(super) forecast: Forecast,
    /// On which it rests.
    pub(super) writes: WriteRate,
    /// What a full copy would have to move, bytes.
    pub(super) data_bytes: Option<u64>,
    /// A full copy is made on purpose.
    pub(super) is_full: bool,
    /// The node's error log, from here on.
    pub(super) tail: Option<Tail>,
    /// Its saved position.
    pub(super) saved: Option<Saved>,
}

/// Looks.
///
/// # Errors
/// What speaks against it, and which flag overrides it; or what is wrong in the order.
pub(super) async fn look(order: &Measure, settings: &Settings, login: &Login) -> Result<Found, Failure> {
    if settings.kind != Kind::Galera {
        let text = "recovery measure is for Galera, and cluster.kind is \"replication\"";
        return Err(Failure::usage(settings.problem(&settings::table::CLUSTER_KIND, text)));
    }
    let name = &order.node;
    let Some(number) = settings.nodes.iter().position(|node| node.name == *name) else {
        let names: Vec<&str> = settings.nodes.iter().map(|node| node.name.as_str()).collect();
        let file = settings.file.display();
        return Err(Failure::usage(format!("{file} has no node {name}: there is {}", names.join(", "))));
    };
    let tail = order.error_log.as_deref().map(|path| {
        Tail::at_end(path).map_err(|e| Failure::usage(format!("--error-log {}: {e}", path.display())))
    });
    let tail = tail.transpose()?;
    let saved = order.datadir.as_deref().map(Saved::of).transpose().map_err(Failure::Usage)?;
    let nodes = read::all(settings, login, Duration::from_secs(order.window_s)).await;
    let Some(node) = nodes.get(number) else {
        return Err(Failure::Failed(format!("{name} was not asked")));
    };
    let own = match &node.said {
        Ok(said) => said.donor().ok_or(said),
        Err(why) => return Err(Failure::Failed(format!("nothing was changed: {name}: {why}"))),
    };
    let own = match own {
        Ok(own) => own,
        Err(said) => {
            return Err(Failure::Failed(format!(
                "nothing was changed: {name} is {}, and only the restart of a node that is Synced can be measured",
                said.state
            )));
        }
    };
    let others: Vec<(&str, Donor, WriteRate)> = answered(&nodes)
        .filter(|(other, _)| *other != name)
        .filter_map(|(other, said)| Some((other, said.donor()?, said.writes)))
        .collect();
    if others.is_empty() {
        return Err(Failure::Failed(format!(
            "nothing was changed: no other node of {} is Synced, so that {name} would have no donor",
            settings.file.display()
        )));
    }
    if !order.with_clients {
        let address = &settings.nodes[number].address;
        let clients = watch::clients(settings, login, address).await;
        let clients = clients.map_err(|e| {
            Failure::Failed(format!("{name}: {}", explain(&e, settings.kind, &settings.monitor.user)))
        })?;
        if let Some(first) = clients.names.first() {
            let sessions = match clients.names.len() {
                1 => "1 client session is".to_owned(),
                count => format!("{count} client sessions are"),
            };
            return Err(Failure::Failed(format!(
                "nothing was changed: {sessions} on {name} (one of {first}): drain it first, or give --with-clients"
            )));
        }
        if clients.hidden > 0 {
            return Err(Failure::Failed(format!(
                "nothing was changed: {} connections are on {name} that {} may not see: GRANT PROCESS ON *.* TO it, so that it is known whether they are clients', or \
                 give --with-clients",
                clients.hidden, settings.monitor.user
            )));
        }
    }
    let idle = WriteRate { bytes_per_s: 0.0, transactions_per_s: 0.0 };
    let writes =
        others.iter().map(|(_, _, writes)| *writes).max_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s));
    let writes = writes.unwrap_or(idle);
    let donors: Vec<Donor> = others.iter().map(|(_, donor, _)| *donor).collect();
    let position = own.last_committed;
    let histories = |is_own: bool| {
        let mut found = answered(&nodes).filter(|(other, _)| (*other == name) == is_own);
        found.find_map(|(_, said)| said.history())
    };
    let returning = Returning {
        history: histories(true),
        seqno: i64::try_from(position).unwrap_or(-1),
        is_gone: false,
        missed_bytes: None,
    };
    let forecast = galera::forecast(returning, histories(false), &donors, writes);
    let is_dear = !order.full
        && !order.allow_full_copy
        && expected(forecast, order.away) == restart::TransferKind::Full;
    if is_dear && order.stop_command.is_some() {
        return Err(Failure::Failed(format!(
            "nothing was changed: after {:.0} s {name} would need a full copy by the present forecast, which takes a donor's time and may block it: give a shorter \
             --away, or --allow-full-copy",
            order.away.as_secs_f64()
        )));
    }
    if let [(donor, ..)] = others.as_slice() {
        let method = match &node.said {
            Ok(said) => said.keeps.sst_method.as_deref(),
            Err(_) => None,
        };
        only_donor(order, name, donor, method, forecast)?;
    }
    Ok(Found {
        number,
        cluster_size: others.len() as u64 + 1,
        position,
        forecast,
        writes,
        data_bytes: answered(&nodes).filter_map(|(_, said)| said.keeps.data_bytes).max(),
        is_full: order.full,
        tail,
        saved,
    })
}

/// Methods of a full copy during which the donor takes no writes: it holds a global read lock.
const BLOCKING: [&str; 2] = ["rsync", "mysqldump"];

/// The one other member is where clients write while the node is away, and it is the donor, too.
fn only_donor(
    order: &Measure,
    name: &str,
    donor: &str,
    method: Option<&str>,
    forecast: Forecast,
) -> Result<(), Failure> {
    let is_full = order.full || expected(forecast, order.away) == restart::TransferKind::Full;
    // rsync is the server's default.
    let method = method.unwrap_or("rsync");
    let is_blocked = BLOCKING.iter().any(|blocking| method.eq_ignore_ascii_case(blocking));
    if is_full && is_blocked && !order.block_only_donor {
        return Err(Failure::Failed(format!(
            "nothing was changed: {donor} is the only other member that is Synced, and {name} would need a full copy, during which {donor} takes no writes \
             (wsrep_sst_method = {method} on {name}): set it to mariabackup, wait until a third member is Synced, or give --block-only-donor"
        )));
    }
    let cost = match (is_full, is_blocked) {
        (true, true) => {
            format!("it takes no writes for as long as the full copy lasts (wsrep_sst_method = {method})")
        }
        (true, false) => format!(
            "it goes on taking writes while it sends the full copy (wsrep_sst_method = {method}), more slowly"
        ),
        (false, true) => format!(
            "it goes on taking writes; only if {name} needed a full copy after all, it would take none meanwhile (wsrep_sst_method = {method})"
        ),
        (false, false) => "it goes on taking writes".to_owned(),
    };
    eprintln!(
        "{name}: {donor} is the only other member that is Synced, where clients write meanwhile, and the donor, too: {cost}"
    );
    Ok(())
}
