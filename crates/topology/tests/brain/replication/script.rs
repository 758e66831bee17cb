//! Scripts: what happens, and below a line of dashes what the brain does about it.
//!
//! `UNDERSTUDY_BLESS=1 cargo test -p topology --test brain replication::decisions` rewrites what comes out; the change is then to be read as a diff.
//!
//! Each is played again on MySQL, where all that may be different are the GTIDs; what else is stands in `scripts/mysql/`, under the same name.
//!
//! ```text
//!   cluster nodes=db1,db2,db3 primary=db1 [term=7 writer=db2] [semi-sync] [events] [manual] [dry-run] [external] [gap=60]
//!           [proxies=2]         clients come through so many proxies
//!           [own-log]           log_slave_updates is off everywhere
//!           [durable]           each commit is synced everywhere
//!           [accounts]          the first commit on each primary that is opened is a statement about accounts
//!   write 3                       the primary's clients commit so many transactions, which every replica that is connected receives
//!   db2 lags | goes-on            it receives and does not apply | it does again
//!   db2 broken | mended           its SQL thread has stopped with an error | it goes on
//!   db2 delayed                   it is kept behind on purpose
//!   db1 kill | start | start-without 0.5    a process that ends; one that comes back read only; without what it wrote in its last half second
//!   db1 freeze | thaw             it does not answer, and its connections stand
//!   db1 end-link                  our link to it ends, and nothing else
//!   db1 vanish | return           no packet gets from or to it
//!   db1 unseen | seen             only we do not reach it
//!   db2 copied db1                it is a copy of db1 anew
//!   db2 restored db1              while it is down: its data is a copy of db1's by mariadb-backup, without binlogs
//!   db1 reset                     RESET MASTER: its rows stay, and its numbers begin anew
//!   db1 errant | writable         a transaction of its own that nobody else has | another hand makes it writable
//!   db1 read-only | db3 follows db2   another hand makes it so
//!   db2 alone                     another hand makes it follow nobody
//!   db1 follows-outside           another hand makes it follow a server outside of the cluster, which writes nothing
//!   db1 stuck lock | space | hung | unacknowledged | free     it answers and does not commit | it does again
//!   db1 half-written              it has counted a transaction that it could write in part only: no replica gets it
//!   db2 filters Replicate_Ignore_Server_Ids 1 | unfiltered    it leaves out some of what it receives | its filters are taken out
//!   db2 refuses-events | allows-events   it does not enable the event that runs on the primary | it does
//!   db1 slow-events | quick-events   a failover's time does not suffice to stop its events | it does
//!   db2 disables-event            somebody disables that there | ALTER EVENT ... DISABLE
//!   db2 advice                    what the status advises about it
//!   db2 refuses | answers-late    the next order to it fails | its answer takes 10 ms
//!   db2 shuts-out db1 | lets-in db1   it refuses new connections of that server's I/O thread | it does not any more
//!   db3 cannot-reach db2 | reaches db2  no packet gets from one server to the other
//!   proxy 1 quiet db1             with proxies=2 above: the second proxy, which says nothing by itself, has no transaction there any more
//!   proxy 1 cut db1               it has no link of an older epoch there any more; `proxy 0` repeats what the first one says by itself
//!   busy | quiet                  transactions run on and on | they have ended
//!   order switchover [db2] [force]  budget 2 s
//!   order drain db3
//!   order undrain db3
//!   db3 held                      somebody stops its SQL thread
//!   process end | process start | process forget   our own process; what it had on disk is lost
//!   run 1.0                       so much time passes
//! ```

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use protocol::gtid::{Family, Position};
use topology::brain::NotTaken;
use topology::fact::ProxyFact;
use topology::heartbeat::Stall;
use topology::order::Order;
use topology::replication::{FailoverPolicy, Manager};
use topology::{NodeId, Origin, Term};

use sim::replication::world::World;

pub fn play_all() {
    let bless = std::env::var_os("UNDERSTUDY_BLESS").is_some();
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/brain/replication/scripts");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut wrong = vec![];
    let mysql = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/brain/replication/scripts/mysql");
    for path in files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "txt")) {
        let text = std::fs::read_to_string(path).unwrap();
        let (script, expected) = text.split_once("----\n").unwrap_or((&text, ""));
        let came = play(script, Family::MariaDb);
        let on_mysql = mysql.join(path.file_name().unwrap());
        wrong.extend(play_on_mysql(script, &came, &on_mysql, bless));
        if bless {
            std::fs::write(path, format!("{script}----\n{came}")).unwrap();
        } else if came != expected {
            wrong.push(format!("{}:\n{came}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!files.is_empty());
}

/// Plays each script with a reload after each of its lines, which gives the servers other places: the same must come out as without. Which of
/// several equal servers is chosen does not depend on their places here.
pub fn play_all_with_reloads() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/brain/replication/scripts");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut wrong, mut reloads) = (vec![], [0; 2]);
    for path in files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "txt")) {
        let text = std::fs::read_to_string(path).unwrap();
        let (script, _) = text.split_once("----\n").unwrap();
        let expected = play_with(script, Family::MariaDb, true, |_| true).out;
        let mut world = play_with(script, Family::MariaDb, true, rotate);
        for (sum, count) in reloads.iter_mut().zip(world.reloads) {
            *sum += count;
        }
        let came = std::mem::take(&mut world.out);
        if done(&came) != done(&expected) {
            wrong.push(format!("{}:\n{came}\nWithout reloads:\n{expected}", path.display()));
        }
    }
    let [refused, taken] = reloads;
    println!("{taken} reloads were taken, {refused} refused");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(taken > 100, "{taken} reloads were taken, {refused} refused");
}

/// Plays each script with a server that is added and taken out again after each of its lines. A failover waits for the word of every server, so
/// one that could be added in the middle and not taken out would keep everybody waiting.
pub fn play_all_with_an_added_server() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/brain/replication/scripts");
    let (taken, refused) = (Cell::new(0), Cell::new(0));
    for path in
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
    {
        let text = std::fs::read_to_string(&path).unwrap();
        let script = text.split_once("----\n").unwrap().0;
        play_with(script, Family::MariaDb, true, |world| match world.add_and_remove() {
            Ok(()) => {
                taken.set(taken.get() + 1);
                true
            }
            Err((true, why)) => {
                assert_eq!(why, NotTaken::Busy("a failover is running".into()), "{}", path.display());
                refused.set(refused.get() + 1);
                true
            }
            // It stays until the switchover is over.
            Err((false, NotTaken::Busy(what))) if !what.contains("failover") => false,
            Err((false, why)) => panic!("{}: it was added, and stays: {why:?}", path.display()),
        });
    }
    assert!(taken.get() > 100 && refused.get() > 10, "{taken:?} taken, {refused:?} refused");
}

/// The first server of the configuration becomes the last.
fn rotate(world: &mut World) -> bool {
    let count = world.servers.len();
    let first = world.reloads.iter().sum::<u64>() as usize + 1;
    let is_taken = world.reload((0..count).map(|place| NodeId(((first + place) % count) as u8)).collect());
    world.reloads[usize::from(is_taken)] += 1;
    true
}

/// What was published, written, ordered and answered. Sentences name several servers in their order, and are said again when it has changed.
fn done(text: &str) -> Vec<&str> {
    let is_done = |line: &&str| line.split(' ').nth(1).is_none_or(|word| word != "say");
    let mut lines: Vec<&str> = text.lines().filter(is_done).collect();
    // What is done at the same time to several servers is done in their order.
    let time = |line: &str| line.split(' ').next().and_then(|at| at.parse::<f64>().ok()).map(f64::to_bits);
    lines.sort_by_key(|line| (time(line), *line));
    lines
        .into_iter()
        .map(|line| if line.contains(" refused ") { line.split(':').next().unwrap_or(line) } else { line })
        .collect()
}

/// The same on MySQL: what is wrong with it.
fn play_on_mysql(script: &str, on_mariadb: &str, path: &Path, bless: bool) -> Option<String> {
    let came = play(script, Family::MySql);
    let is_alike = without_gtids(&came) == without_gtids(on_mariadb);
    if bless {
        let _ = std::fs::remove_file(path);
        if !is_alike {
            std::fs::write(path, came).unwrap();
        }
        return None;
    }
    let expected = std::fs::read_to_string(path).ok();
    let is_right = expected.map_or(is_alike, |expected| expected == came && !is_alike);
    (!is_right).then(|| format!("{}:\n{came}", path.display()))
}

/// Each word that holds GTIDs of either family is the same word.
fn without_gtids(text: &str) -> String {
    let is_gtid = |word: &str| {
        let word = word.trim_end_matches([',', ';', ':', ')']).replace("..", "-");
        let is_mariadb = Position::parse(Family::MariaDb, &word).is_ok_and(|position| !position.is_empty());
        is_mariadb || Position::parse(Family::MySql, &word).is_ok_and(|set| !set.is_empty())
    };
    let words = |line: &str| {
        let words: Vec<&str> =
            line.split(' ').map(|word| if is_gtid(word) { "GTIDs" } else { word }).collect();
        words.join(" ")
    };
    text.lines().map(words).collect::<Vec<_>>().join("\n")
}

fn play(script: &str, family: Family) -> String {
    play_with(script, family, false, |_| true).out
}

/// `after`: what happens after each line, and whether the next one is played.
fn play_with(
    script: &str,
    family: Family,
    has_priorities: bool,
    after: impl Fn(&mut World) -> bool,
) -> World {
    let mut world: Option<World> = None;
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match &mut world {
            None => world = Some(begin(&words, family, has_priorities)),
            Some(world) => {
                perform(world, &words);
                if !after(world) {
                    break;
                }
            }
        }
    }
    world.expect("a cluster")
}

fn begin(words: &[&str], family: Family, has_priorities: bool) -> World {
    let given = |key: &str| words.iter().find_map(|word| word.strip_prefix(key));
    let names: Vec<String> = given("nodes=").unwrap_or("db1,db2,db3").split(',').map(Into::into).collect();
    let place = |name: &str| names.iter().position(|known| known == name).expect("a node");
    let primary = place(given("primary=").unwrap_or("db1"));
    let restored = topology::brain::Restored {
        term: Term(given("term=").map_or(0, |term| term.parse().unwrap())),
        writer: given("writer=").map(|name| NodeId(place(name) as u8)),
        sessions_max: vec![],
        failed_over_ago: None,
        is_writer_incomplete: false,
        renumbered: vec![],
        filtered: vec![],
        component: None,
        written: None,
        away: None,
    };
    let mut world = World::new(names.clone(), primary, restored, None);
    world.are_of(family);
    world.semi_sync = words.contains(&"semi-sync");
    world.servers[primary].waits = world.semi_sync;
    for server in &mut world.servers {
        server.logs_only_its_own = words.contains(&"own-log");
        server.is_durable = words.contains(&"durable");
    }
    if words.contains(&"events") {
        world.have_events(primary);
    }
    world.accounts_first = words.contains(&"accounts");
    let replication = &mut world.settings.replication;
    replication.dry_run = words.contains(&"dry-run");
    if words.contains(&"manual") {
        replication.failover = FailoverPolicy::Manual;
    }
    if words.contains(&"external") {
        replication.manager = Manager::External;
    }
    if has_priorities {
        for (behind, node) in (0..).zip(&mut world.settings.nodes) {
            node.priority = 100 - behind;
        }
    }
    if let Some(count) = given("proxies=") {
        world.settings.proxies = (0..count.parse().unwrap()).map(Origin).collect();
    }
    let replication = &mut world.settings.replication;
    if let Some(gap) = given("gap=") {
        replication.failover_gap = Duration::from_secs_f64(gap.parse().unwrap());
    }
    world.start_process();
    world
}

fn perform(world: &mut World, words: &[&str]) {
    match words {
        ["run", time] => world.run(Duration::from_secs_f64(time.parse().unwrap())),
        ["write", count] => {
            let open = world.open().expect("a lane is open");
            for _ in 0..count.parse().unwrap() {
                assert!(world.commit(open, true), "clients are sent to a server that does not write");
            }
        }
        ["proxy", origin, what, name] => {
            let (node, origin) = (NodeId(place(world, name) as u8), Origin(origin.parse().unwrap()));
            let routes = world.routes.clone().expect("routes");
            let (epoch, term, version) =
                (routes.lane(node).expect("a lane").epoch, routes.term, routes.version);
            let fact = match *what {
                "quiet" => ProxyFact::Quiesced { node, epoch, term, version },
                "cut" => ProxyFact::Cut { node, epoch: epoch - 1 },
                _ => panic!("{what}"),
            };
            world.tell(fact.by(origin));
        }
        ["busy"] => world.busy = true,
        ["quiet"] => world.busy = false,
        ["process", "end"] => world.end_process(),
        ["process", "start"] => world.start_process(),
        ["process", "forget"] => world.forget(),
        ["order", "switchover", rest @ ..] => {
            let force = rest.contains(&"force");
            let to =
                rest.first().filter(|word| **word != "force").map(|name| NodeId(place(world, name) as u8));
            let budget = Duration::from_secs(2);
            // The operator takes the loss of what that server has not. While the primary answers, nothing that was acknowledged is lost.
            let is_served = world.open().is_some_and(|open| world.speaks(open));
            if let Some(to) = to.filter(|_| force && !is_served) {
                let lacks = world.lacks(usize::from(to.0));
                world.acknowledged.retain(|uid| !lacks.contains(uid));
            }
            world.operator(Order::Switchover { to, budget, force });
        }
        ["order", "undrain", name] => {
            let node = NodeId(place(world, name) as u8);
            world.operator(Order::Undrain { node, temporary: false });
        }
        ["order", "drain", name] => {
            let node = NodeId(place(world, name) as u8);
            world.operator(Order::Drain {
                node,
                budget: Duration::from_secs(2),
                force: false,
                temporary: false,
            });
        }
        [name, what @ ..] => {
            let node = place(world, name);
            happen(world, node, what);
        }
        [] => {}
    }
}

fn place(world: &World, name: &str) -> usize {
    world.names.iter().position(|known| known == name).expect("a node")
}

fn happen(world: &mut World, node: usize, what: &[&str]) {
    if let ["filters", column, value] = what {
        world.servers[node].filters.push(format!("{column} = {value}"));
        return;
    }
    if let ["follows", source] = what {
        let source = place(world, source);
        world.servers[node].follow(source);
        return;
    }
    if let [how @ ("shuts-out" | "lets-in"), whom] = what {
        let whom = place(world, whom);
        let shut_out = &mut world.servers[node].shuts_out;
        shut_out.retain(|other| *other != whom);
        if *how == "shuts-out" {
            shut_out.push(whom);
        }
        return;
    }
    if let [how @ ("cannot-reach" | "reaches"), whom] = what {
        let whom = place(world, whom);
        world.cut_off.retain(|cut| *cut != (Some(node), whom));
        if *how == "cannot-reach" {
            world.cut_off.push((Some(node), whom));
        }
        return;
    }
    if let ["restored", source] = what {
        let source = world.servers[place(world, source)].clone();
        world.servers[node].become_copy_of(&source);
        return;
    }
    if let ["copied", source] = what {
        let source = place(world, source);
        let (applied, newest, from) = {
            let source = &world.servers[source];
            (source.applied.clone(), source.newest.clone(), source.logged_from)
        };
        let server = &mut world.servers[node];
        (server.applied, server.newest, server.logged_from) = (applied, newest, from);
        server.follow(source);
        return;
    }
    let now = world.now;
    let uid = world.uid + 1;
    let server = &mut world.servers[node];
    match what {
        ["lags"] => server.lags = true,
        ["goes-on"] => server.lags = false,
        ["broken"] => {
            server.applies = false;
            server.error = "1062: duplicate entry".into();
        }
        ["mended"] => {
            server.applies = true;
            server.error.clear();
        }
        ["held"] => server.applies = false,
        ["unfiltered"] => server.filters.clear(),
        ["delayed"] => server.delay_s = 3600,
        ["refuses"] => server.refuses = true,
        ["refuses-events"] => server.refuses_events = true,
        ["allows-events"] => server.refuses_events = false,
        ["slow-events"] => server.has_slow_events = true,
        ["quick-events"] => server.has_slow_events = false,
        ["disables-event"] => world.disable_event(node),
        ["advice"] => world.note_advice(node),
        ["answers-late"] => server.answers_late = true,
        ["freeze"] => server.frozen = true,
        ["thaw"] => server.frozen = false,
        ["follows-outside"] => server.follows_outside = true,
        ["writable"] => server.read_only = false,
        ["read-only"] => server.read_only = true,
        ["alone"] => {
            server.stop_threads();
            server.source = None;
        }
        ["errant"] => {
            server.write(uid, now);
            world.uid = uid;
        }
        ["half-written"] => {
            server.write(uid, now);
            server.is_half_written = true;
            world.uid = uid;
        }
        ["stuck", why] => {
            server.stuck = match *why {
                "lock" => Some(Stall::GlobalLock),
                "space" => Some(Stall::Space),
                "hung" => Some(Stall::Stuck),
                "unacknowledged" => Some(Stall::Acknowledgement),
                "free" => None,
                _ => panic!("{why}"),
            };
            let (process, asked) = (world.process, world.brain_now());
            if *why == "free" {
                world.reachable_since[node] = now;
            } else {
                world.beat(process, node, asked);
            }
        }
        ["reset"] => server.number_anew(),
        ["kill"] => world.kill(node),
        ["end-link"] => world.end_link(node),
        ["start"] => world.start_server(node, None),
        ["start-without", time] => {
            let time = Duration::from_secs_f64(time.parse().unwrap());
            let last = world.servers[node].applied.last().map_or(now, |last| last.at);
            world.start_server(node, Some(last.saturating_sub(time)));
        }
        ["vanish"] => {
            world.cut_off.push((None, node));
            world.cut_off.extend((0..world.names.len()).filter(|it| *it != node).map(|it| (Some(it), node)));
        }
        ["return"] => world.cut_off.retain(|(_, cut)| *cut != node),
        ["unseen"] => world.cut_off.push((None, node)),
        ["seen"] => world.cut_off.retain(|cut| *cut != (None, node)),
        _ => panic!("{what:?}"),
    }
}
