//! Random sessions, as in `restore_all`, with reads after each step and questions for what they left: the same through the proxy, statement by
//! statement, as on one server. `SPLIT_CASES` (60) and `SPLIT_SEED` make it longer or other.

use std::sync::Arc;

use fixture::Server;
use fixture::client::{Client, ClientOptions};
use fixture::wait::until_async;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use protocol::command::Command;

use super::pair::{Pair, WAIT};
use crate::restore_all::compare::{self, Ended};
use crate::restore_all::steps::{self, Case, Step};
use crate::restore_all::things::{IN_EACH_SCHEMA, THINGS};
use crate::restore_all::variables;
use harness::twin::{Comparison, Twins};

const STEPS_MAX: usize = 10;

const READS: &[&str] = &[
    "SELECT v FROM names ORDER BY v",
    "SELECT id, x FROM shop.t ORDER BY id",
    "SELECT COUNT(*), MAX(id), SUM(x) FROM shop.t",
    "SELECT x FROM shop.plain ORDER BY x",
    "SELECT SQL_CALC_FOUND_ROWS v FROM sa.names ORDER BY v LIMIT 1",
    "SELECT CAST(v AS INT) FROM names ORDER BY v",
    "SELECT 1 / 0, x FROM shop.plain ORDER BY x",
    "SELECT 'a' = 'A', CHARSET('x'), COLLATION('x'), HEX('\u{e4}') FROM names LIMIT 1",
    "SELECT \"v\", 'a\\n', 'a' || 'b', NOT 1 BETWEEN -5 AND 5 FROM sa.names ORDER BY 1",
    "SELECT 1 / 3, WEEK('2024-01-01'), MONTHNAME('2024-03-01'), FROM_UNIXTIME(0), DATABASE() FROM names LIMIT 1",
    "SELECT GROUP_CONCAT(v ORDER BY v) FROM names",
    "SELECT nosuch FROM names",
    "SELECT v FROM nosuch",
    "SELECT COUNT (*) FROM sb.names",
    "SELECT id FROM shop.t WHERE id IS NULL",
    "SELECT v FROM names WHERE v > 'a' ORDER BY v; ",
    "SELECT DATE_FORMAT('2024-03-05', '%W %M') FROM names LIMIT 1",
    "SELECT v COLLATE utf8mb4_bin FROM names ORDER BY 1",
    "WITH w AS (SELECT v FROM names) SELECT COUNT(*) FROM w, names",
];

const AFTER: &[&str] = &[
    "SHOW WARNINGS",
    "SHOW COUNT(*) WARNINGS",
    "SELECT FOUND_ROWS()",
    "SELECT ROW_COUNT()",
    "SELECT @@warning_count",
    "SELECT LAST_INSERT_ID()",
    "INSERT INTO shop.t (x) VALUES (12)",
    "UPDATE shop.t SET x = x + 1",
    "SELECT SQL_CALC_FOUND_ROWS v FROM names ORDER BY v LIMIT 1",
    "SELECT @a",
];

/// Whoever sets these writes what a replica is not to have, or cannot.
const APART_FROM_OTHERS: [&str; 9] = [
    "sql_log_bin",
    "gtid_domain_id",
    "gtid_seq_no",
    "server_id",
    "skip_replication",
    "pseudo_slave_mode",
    "binlog_",
    "wsrep",
    "default_storage_engine",
];

const NEXT_VALUE: &str = "SELECT next_not_cached_value FROM shop.s";
const NEXT_ID: &str =
    "SELECT auto_increment FROM information_schema.tables WHERE table_schema = 'shop' AND table_name = 't'";

struct Stage {
    pair: Pair,
    apart: Server,
    /// The primary's, the twin's.
    hands: Vec<Client>,
}

impl Stage {
    async fn set() -> Self {
        let (pair, apart) = (Pair::lay(WAIT), Pair::apart());
        for server in [&pair.primary, &apart] {
            server.sql(THINGS);
            for schema in ["shop", "sa", "sb", "latin"] {
                server.sql(&format!("SET NAMES utf8mb4; USE {schema}; {IN_EACH_SCHEMA}"));
            }
        }
        pair.replicated();
        let mut hands = vec![];
        for server in [&pair.primary, &apart] {
            hands.push(Client::connect(server.address()).await);
        }
        Self { pair, apart, hands }
    }

    async fn clear(&mut self) {
        let left = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'app'";
        for hand in &mut self.hands {
            until_async("no session is left", async || hand.one(left).await == "1").await;
            hand.run("DELETE FROM shop.t").await;
            hand.run("DELETE FROM shop.plain").await;
            if hand.one(NEXT_ID).await != "1" {
                hand.run("ALTER TABLE shop.t AUTO_INCREMENT = 1").await;
            }
            if hand.one(NEXT_VALUE).await != "1" {
                hand.run("ALTER SEQUENCE shop.s RESTART 1").await;
            }
        }
    }

    async fn run(&mut self, case: &Case, mut dice: u64) -> Result<Ended, String> {
        self.clear().await;
        let mut twins = self.pair.twins(&self.apart, &case.login).await;
        // A server gives a new session what FOUND_ROWS() was in the thread's last one.
        twins.say("SELECT 1").await.wrong().map_or(Ok(()), Err)?;
        let mut statements = 0;
        let mut roll = |sides: usize| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) as usize % sides
        };
        for step in &case.steps {
            let mut all = vec![step.clone()];
            for _ in 0..roll(3) {
                all.push(Step::Say(READS[roll(READS.len())].to_owned()));
                if roll(2) == 0 {
                    all.push(Step::Say(AFTER[roll(AFTER.len())].to_owned()));
                }
            }
            for step in &all {
                match say(&mut twins, step, &mut statements).await {
                    Comparison::Same(_) => {}
                    Comparison::Forgotten => return Ok(Ended::SameButForgotten(1)),
                    Comparison::Ended(code) => return Ok(Ended::Told(code)),
                    Comparison::Differs(what) => return Err(format!("{all:?}: {what}")),
                }
            }
        }
        compare::compare(&mut twins, case, statements).await
    }
}

async fn say(twins: &mut Twins, step: &Step, statements: &mut usize) -> Comparison {
    match step {
        Step::Say(text) => twins.say(text).await,
        Step::Run(sql) => match twins.prepare_each(sql).await {
            Ok(number) => twins.execute(number, &[]).await,
            Err(told) => told,
        },
        Step::Prepare(sql) => match twins.prepare_each(sql).await {
            Ok(_) => {
                *statements = twins.statements();
                Comparison::nothing()
            }
            Err(told) => told,
        },
        Step::Execute(which) if twins.statements() > 0 => {
            compare::execute(twins, which % twins.statements()).await
        }
        Step::InitDb(schema) => twins.ask(&[&[Command::INIT_DB.0], schema.as_bytes()].concat()).await,
        Step::SetOption(on) => twins.ask(&[Command::SET_OPTION.0, u8::from(!on), 0]).await,
        Step::Reset => {
            *statements = 0;
            let told = Comparison::of("reset", twins.reset_each().await);
            as_if_reset_were_whole(twins, told).await
        }
        Step::ChangeUser(schema, charset) => {
            *statements = 0;
            let database = schema.map(|schema| schema.as_bytes().to_vec());
            let options = ClientOptions { database, charset: *charset, ..ClientOptions::default() };
            let told = Comparison::of("change of user", twins.change_user_each(&options).await);
            as_if_reset_were_whole(twins, told).await
        }
        Step::Execute(_) | Step::Move(_) => Comparison::nothing(),
    }
}

/// See `restore_all`.
async fn as_if_reset_were_whole(twins: &mut Twins, told: Comparison) -> Comparison {
    if !matches!(told, Comparison::Same(_)) {
        return told;
    }
    let role = twins.say("SET ROLE NONE").await;
    let schema = twins.say("SELECT DATABASE()").await;
    match (role, schema) {
        (Comparison::Same(_), Comparison::Same(schema)) => match schema.value().as_deref() {
            Some("NULL") | None => Comparison::nothing(),
            Some(schema) => twins.say(format!("USE {schema}")).await,
        },
        (Comparison::Same(_), schema) => schema,
        (role, _) => role,
    }
}

fn is_apart(case: &Case) -> bool {
    case.steps.iter().any(|step| {
        let text = format!("{step:?}").to_lowercase();
        APART_FROM_OTHERS.iter().any(|name| text.contains(name))
    })
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
}

#[test]
fn a_session_is_told_the_same_as_by_one_server() {
    let (cases, seed) = (setting("SPLIT_CASES", 60), setting("SPLIT_SEED", 1));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut stage = runtime.block_on(Stage::set());
    let known = Arc::new(runtime.block_on(variables::all(&mut stage.hands[1])));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config { failure_persistence: None, ..Config::default() }, rng);
    let strategy = steps::cases(known, STEPS_MAX);
    let (mut same, mut all) = (0, 0);
    let mut wrong = vec![];
    for number in 0..cases {
        let case = strategy.new_tree(&mut runner).unwrap().current();
        if is_apart(&case) {
            continue;
        }
        all += 1;
        match runtime.block_on(stage.run(&case, seed * 1000 + number)) {
            Ok(Ended::Same | Ended::SameButForgotten(_)) => same += 1,
            Ok(Ended::Told(_)) => {}
            Err(what) => {
                wrong.push(format!("case {number}: {:?}\n    {:?}\n    {what}", case.login, case.steps))
            }
        }
        stage.pair.replicated();
    }
    let split = runtime.block_on(stage.pair.split());
    println!("{same} of {all} to their end; {split:?}");
    let count = wrong.len();
    assert!(
        wrong.is_empty(),
        "{count} of {all} are wrong (SPLIT_SEED={seed}):\n{}",
        wrong[..count.min(8)].join("\n")
    );
    assert!(same * 2 > all && split.replicas > all, "{same} of {all}; {split:?}");
}
