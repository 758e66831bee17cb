//! Runs the transcripts in `tests/brain/transcripts/*.txt`: facts in, a line `----`, the exact decisions out.
//!
//! `UNDERSTUDY_BLESS=1 cargo test -p topology` rewrites what comes out; the change is then to be read as a diff.
//!
//! ```text
//!   cluster writers=one evict=proven [silent=hurry] nodes=db1,db2,db3 [term=7 writer=db2 drained=db3] [proxies=2] [events=off] [list=auto] [KEY=SECONDS ...]
//!                                         list=auto: nobody's wsrep_incoming_addresses names the members
//!   auto persist barrier evict            these are answered at once, with success
//!   0.100 all up                          every node: LinkUp and a Status
//!   0.100 db1 status primary=no           what is changed stays changed for that node
//!   0.100 db1 status connected=no         it has left the group, and takes a while to end
//!   0.100 db1 status as=name              the members list it by that name, and it says so
//!   0.100 group conf=4 members=db2,db3    the same for the members named
//!   0.100 db1 ended closed | failed refused | missed | lost | refused 1047 | quiet | passed | barrier-failed WHY
//!   0.100 db1 status asked=0.050 | slow asked=0.050       the question was sent then, else now
//!   0.100 db1 lost alarm=1 | refused 1047 alarm=2 | full alarm=3      of the lane's present epoch, or epoch=N; full: error 1040
//!   0.100 db1 beat committed | stuck | lock | own-table | failed | untold [asked=0.050]
//!   0.100 db1 statement DIGEST TEXT | cut | tables log,old            cut: every link of the epoch before the present one is gone
//!   0.100 db1 quiet by=1 | cut by=1       by the second proxy
//!   0.100 persisted | persist-failed WHY | evicted | spared VIA | hurried | hurry-ended goes-on | evict-failed WHY | tick | account NAME | tables-changed
//!   0.100 order switchover db2 budget=1.0 force
//!   0.100 run 0.900 answering=db2,db3 missing=db1 refusing=...     ticks every 20 ms, answers every 200 ms, or every=SECONDS
//! ```

mod script;
mod stage;
mod words;

#[test]
fn transcripts() {
    let bless = std::env::var_os("UNDERSTUDY_BLESS").is_some();
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/brain/transcripts");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut wrong = Vec::new();
    for path in files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "txt")) {
        let text = std::fs::read_to_string(path).unwrap();
        let (facts, expected) = text.split_once("----\n").unwrap_or((&text, ""));
        let came = script::play(facts).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        if bless {
            std::fs::write(path, format!("{facts}----\n{came}")).unwrap();
        } else if came != expected {
            let line = came
                .lines()
                .zip(expected.lines())
                .position(|(a, b)| a != b)
                .unwrap_or(expected.lines().count());
            let at = |text: &str| text.lines().nth(line).unwrap_or("(nothing)").to_owned();
            wrong.push(format!(
                "{}: line {} of the decisions\n  came     {}\n  expected {}",
                path.display(),
                line + 1,
                at(&came),
                at(expected)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!files.is_empty());
}
