//! Restore all, compare all: sessions in random states (every variable the server has, character sets, roles, user variables, prepared
//! statements in several schemas, warnings, ids, ...) are moved, and everything that can be read of them is compared with a twin that
//! never moved: equal, or an error that says so.
//!
//! ```text
//!   case = login + steps + move       drawn by proptest, the same each time unless MOVES_SEED says otherwise
//!   moved  ── proxy ── db1 => db2     (data follows with each move, as in a cluster)
//!   stayed ─────────── a server of its own
//! ```
//!
//! `MOVES_CASES` (300) and `MOVES_STEPS` (12) make it longer; with `MOVES_SURVEY=1` it does not stop at the first difference, but goes
//! through all cases and lists what it found by kind, with a short case of each.
pub mod compare;
pub mod steps;
pub mod things;
pub mod variables;

use std::collections::BTreeMap;
use std::sync::Arc;

use compare::Ended;
use fixture::client::{Client, ClientOptions};
use fixture::wait::until_async;
use harness::cluster::Move;
use harness::twin::{Comparison, Ground, SESSION_LOST, Twins};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use protocol::command::Command;
use protocol::ok::status::IN_TRANS;
use steps::{Case, Step};
use things::{IN_EACH_SCHEMA, THINGS};

/// How many cases are looked through for a shorter one when one has failed.
const SHRINK_MAX: u32 = 400;

/// A number from the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
}

/// Servers with the same things on each, and a hand on each of them.
struct Stage {
    ground: Ground,
    /// db1, db2, the twin's.
    hands: Vec<Client>,
}

const SCHEMAS: [&str; 4] = ["shop", "sa", "sb", "latin"];

/// Nothing of a test's need be there after a loss of power.
const QUICKLY: [&str; 2] = ["--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0"];

/// What is written to, as at first.
const AS_AT_FIRST: [&str; 2] = ["DELETE FROM shop.t", "DELETE FROM shop.plain"];

const NEXT_VALUE: &str = "SELECT next_not_cached_value FROM shop.s";

const NEXT_ID: &str =
    "SELECT auto_increment FROM information_schema.tables WHERE table_schema = 'shop' AND table_name = 't'";

impl Stage {
    async fn set(options: &[&str]) -> Stage {
        let mut ground = Ground::lay_with(&[&QUICKLY[..], options].concat());
        ground.everywhere(THINGS);
        for schema in SCHEMAS {
            ground.everywhere(&format!("SET NAMES utf8mb4; USE {schema}; {IN_EACH_SCHEMA}"));
        }
        ground.begin(&[]).await;
        let mut hands = vec![];
        for server in ground.cluster.servers.iter().chain([&ground.apart]) {
            hands.push(Client::connect(server.address()).await);
        }
        Stage { ground, hands }
    }

    /// Everything as at first, on every server, and no session of an earlier case left there.
    async fn clear(&mut self) {
        let left = "SELECT COUNT(*), GROUP_CONCAT(COALESCE(info, command)) FROM information_schema.processlist WHERE user = 'app'";
        for hand in &mut self.hands {
            until_async("no session is left", async || {
                let told = hand.query(left).await;
                // The ground's hand and this one.
                if told.value().as_deref() == Some("2") { Ok(()) } else { Err(told) }
            })
            .await;
        }
        for hand in &mut self.hands {
            for sql in AS_AT_FIRST {
                hand.run(sql).await;
            }
            count_from(hand, "1", "1").await;
        }
        if self.ground.cluster.at != 0 {
            self.ground.cluster.open_next().await;
        }
    }

    /// Brings the data of the server that has the traffic to the next one.
    async fn replicate(&mut self) {
        let from = self.ground.cluster.at;
        let to = (from + 1) % 2;
        for (table, row) in
            [("t", "'(', id, ',', IFNULL(x, 'NULL'), ')'"), ("plain", "'(', IFNULL(x, 'NULL'), ')'")]
        {
            let rows = self.hands[from].run(&format!("SELECT CONCAT({row}) FROM shop.{table}")).await;
            let rows: Vec<String> = rows.rows().iter().map(|row| row[0].text()).collect();
            self.hands[to].run(&format!("DELETE FROM shop.{table}")).await;
            if !rows.is_empty() {
                self.hands[to].run(&format!("INSERT INTO shop.{table} VALUES {}", rows.join(","))).await;
            }
        }
        let (id, value) = (self.hands[from].one(NEXT_ID).await, self.hands[from].one(NEXT_VALUE).await);
        count_from(&mut self.hands[to], &id, &value).await;
    }

    /// Commits what is open, and moves.
    async fn move_on(&mut self, twins: &mut Twins, how: Move) -> Comparison {
        let told = commit(twins).await;
        if matches!(told, Comparison::Same(_)) {
            self.replicate().await;
            self.ground.cluster.move_on(how).await;
        }
        told
    }

    /// One case; what was wrong, if anything was.
    async fn run(&mut self, case: &Case) -> Result<Ended, String> {
        self.clear().await;
        let mut twins = self.ground.twins_as(&case.login).await;
        // A server gives a new session what FOUND_ROWS() was in the thread's last one.
        if let Comparison::Differs(what) = twins.say("SELECT 1").await {
            return Err(what);
        }
        let mut statements = 0;
        for step in &case.steps {
            let told = self.step(&mut twins, step, &mut statements).await;
            match told {
                Comparison::Same(_) => {}
                // What it would have done, its twin has done: from here on they are not the same.
                Comparison::Forgotten => return Ok(Ended::SameButForgotten(1)),
                Comparison::Ended(code) => return Ok(Ended::Told(code)),
                Comparison::Differs(what) => return Err(what),
            }
        }
        if let Some(how) = case.moved {
            match self.move_on(&mut twins, how).await {
                Comparison::Same(_) => {}
                Comparison::Forgotten => return Ok(Ended::SameButForgotten(1)),
                Comparison::Ended(code) => return Ok(Ended::Told(code)),
                Comparison::Differs(what) => return Err(what),
            }
        }
        compare::compare(&mut twins, case, statements).await
    }

    async fn step(&mut self, twins: &mut Twins, step: &Step, statements: &mut usize) -> Comparison {
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
            Step::Execute(_) => Comparison::nothing(),
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
            Step::Move(how) => self.move_on(twins, *how).await,
        }
    }
}

/// A server keeps the role, and takes the schema's collation for its own default, when it is told to forget the session; the proxy's
/// forgets them. Both are put where all agree.
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

/// The next id and the next value of the sequence.
async fn count_from(hand: &mut Client, id: &str, value: &str) {
    if hand.one(NEXT_ID).await != id {
        hand.run(&format!("ALTER TABLE shop.t AUTO_INCREMENT = {id}")).await;
    }
    if hand.one(NEXT_VALUE).await != value {
        hand.run(&format!("ALTER SEQUENCE shop.s RESTART {value}")).await;
    }
}

/// Ends the transactions of both, if either has one.
async fn commit(twins: &mut Twins) -> Comparison {
    let is_open = |status: Option<u16>| status.is_some_and(|status| status & IN_TRANS != 0);
    let (moved, stayed) = (twins.moved.ping().await, twins.stayed.ping().await);
    if moved.is_lost() && !stayed.is_lost() {
        // In place of 9104, which some drivers would take for the OK of a ping.
        return Comparison::Ended(SESSION_LOST);
    }
    if is_open(moved.status()) || is_open(stayed.status()) {
        return twins.say("COMMIT AND NO CHAIN NO RELEASE").await;
    }
    Comparison::of("ping", (moved, stayed))
}

/// How the cases went.
#[derive(Default)]
struct Tally {
    ends: BTreeMap<String, usize>,
}

impl Tally {
    fn note(&mut self, ended: Ended) {
        let name = match ended {
            Ended::Same => "the same".to_owned(),
            Ended::SameButForgotten(_) => "the same, but for 9110".to_owned(),
            Ended::Told(code) => format!("told {code}"),
        };
        *self.ends.entry(name).or_default() += 1;
    }

    fn count(&self, begins: &str) -> usize {
        self.ends.iter().filter(|(name, _)| name.starts_with(begins)).map(|(_, count)| count).sum()
    }
}

/// The same cases each time for a seed.
pub fn runner(cases: u64, seed: u64) -> TestRunner {
    let config = Config {
        cases: u32::try_from(cases).unwrap(),
        max_shrink_iters: SHRINK_MAX,
        failure_persistence: None,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

fn told(case: &Case, what: &str) -> String {
    let caps = case.login.caps;
    let schema = case.login.database.as_deref().map(|schema| String::from_utf8_lossy(schema).into_owned());
    let steps: Vec<String> = case.steps.iter().map(|step| format!("    {step:?}")).collect();
    format!(
        "login: schema {schema:?}, collation {}, {caps:?}\n{}\n    moved: {:?}\n  {what}",
        case.login.charset,
        steps.join("\n"),
        case.moved
    )
}

fn restore_all_compare_all(options: &[&str], cases: u64, seed: u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut stage = runtime.block_on(Stage::set(options));
    let known = Arc::new(runtime.block_on(variables::all(&mut stage.hands[2])));
    println!(
        "{} variables with {} values",
        known.len(),
        known.iter().map(|known| known.values.len()).sum::<usize>()
    );
    let steps_max = usize::try_from(setting("MOVES_STEPS", 12)).unwrap();
    let strategy = steps::cases(known, steps_max);
    let mut runner = runner(cases, seed);
    if setting("MOVES_SURVEY", 0) != 0 {
        return survey(&runtime, &mut stage, &mut runner, &strategy, cases);
    }
    let shared = std::cell::RefCell::new((stage, Tally::default()));
    let outcome = runner.run(&strategy, |case| {
        let (stage, tally) = &mut *shared.borrow_mut();
        match runtime.block_on(stage.run(&case)) {
            Ok(ended) => {
                tally.note(ended);
                Ok(())
            }
            Err(what) => Err(TestCaseError::fail(what)),
        }
    });
    let (_, tally) = shared.into_inner();
    println!("{:?}", tally.ends);
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(what, case)) => panic!("MOVES_SEED={seed}:\n{}", told(&case, what.message())),
        Err(other) => panic!("{other}"),
    }
    // A session that is refused each time would be right, and of no use.
    let (same, all) = (tally.count("the same"), tally.ends.values().sum::<usize>());
    assert!(same * 2 > all, "of {all} sessions only {same} could be moved: {:?}", tally.ends);
}

/// All cases, and what was found, by kind: what was asked and what differed, numbers aside.
fn survey(
    runtime: &tokio::runtime::Runtime,
    stage: &mut Stage,
    runner: &mut TestRunner,
    strategy: &impl Strategy<Value = Case>,
    cases: u64,
) {
    let began = std::time::Instant::now();
    let mut tally = Tally::default();
    let mut found: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for _ in 0..cases {
        let case = strategy.new_tree(runner).unwrap().current();
        match runtime.block_on(stage.run(&case)) {
            Ok(ended) => tally.note(ended),
            Err(what) => {
                let kind = kind_of(&what);
                if let Some(known) = found.get_mut(&kind) {
                    known.0 += 1;
                } else {
                    let (case, what) = shorter(runtime, stage, case, what);
                    found.insert(kind, (1, told(&case, &what)));
                }
            }
        }
    }
    println!("{:?}, {:?} a case", tally.ends, began.elapsed() / u32::try_from(cases).unwrap());
    for (times, example) in found.values() {
        println!("--- {times} times, such as:\n{example}");
    }
    assert!(found.is_empty(), "{} kinds of differences", found.len());
}

fn kind_of(what: &str) -> String {
    what.chars().filter(|c| !c.is_ascii_digit()).take(120).collect()
}

/// The same difference with fewer steps.
fn shorter(
    runtime: &tokio::runtime::Runtime,
    stage: &mut Stage,
    mut case: Case,
    mut what: String,
) -> (Case, String) {
    let kind = kind_of(&what);
    for at in (0..case.steps.len()).rev() {
        let mut less = case.clone();
        less.steps.remove(at);
        if let Err(still) = runtime.block_on(stage.run(&less))
            && kind_of(&still) == kind
        {
            (case, what) = (less, still);
        }
    }
    (case, what)
}

#[test]
fn what_can_be_read_of_a_session_is_the_same_wherever_it_stands() {
    restore_all_compare_all(&[], setting("MOVES_CASES", 300), setting("MOVES_SEED", 1));
}

#[test]
fn it_is_the_same_between_servers_that_write_a_binary_log() {
    let options = ["--log-bin=log", "--server-id=7", "--log-bin-trust-function-creators=1"];
    restore_all_compare_all(&options, setting("MOVES_CASES", 300) / 3, setting("MOVES_SEED", 2));
}
