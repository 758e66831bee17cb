//! A real Prometheus that asks one Understudy for its metrics and evaluates the alerts on them, and its promtool.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::program::{run, until};

/// Some hundred looks at a run of half a minute.
const INTERVAL: &str = "250ms";

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The alerts.
pub fn rules() -> PathBuf {
    root().join("contrib/understudy.rules.yml")
}

/// The page at this address.
pub fn page(url: &str) -> String {
    curl(&[url])
}

fn curl(args: &[&str]) -> String {
    run(Command::new("curl").args(["-sS", "--max-time", "20"]).args(args)).with(0)
}

/// What promtool says of a page: its lints are failures, too.
pub fn promtool_check(page: &str) {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool (apt: prometheus) is there");
    child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.trim().is_empty(), "promtool says {said}\nof\n{page}");
}

/// One line of an answer: labels, and seconds since 1970 with the value then.
pub struct Series {
    pub labels: BTreeMap<String, String>,
    pub points: Vec<(f64, f64)>,
}

impl Series {
    fn of(answer: &Value) -> Self {
        let labels = answer["metric"].as_object().unwrap().iter();
        let points = match answer["values"].as_array() {
            Some(points) => points.iter().collect(),
            None => vec![&answer["value"]],
        };
        let number =
            |point: &Value| (point[0].as_f64().unwrap(), point[1].as_str().unwrap().parse().unwrap());
        Self {
            labels: labels.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect(),
            points: points.into_iter().map(number).collect(),
        }
    }

    /// A label; empty where it has none of that name, as Prometheus has it.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    /// What Grafana calls it by a legend such as `{{node}} p99`.
    pub fn named(&self, legend: &str) -> String {
        let filled = |name: String, (label, value): (&String, &String)| {
            name.replace(&format!("{{{{{label}}}}}"), value)
        };
        self.labels.iter().fold(legend.to_owned(), filled)
    }

    pub fn last(&self) -> f64 {
        self.points.last().unwrap().1
    }

    /// The largest that is a number at all.
    pub fn max(&self) -> f64 {
        self.points.iter().map(|point| point.1).filter(|value| value.is_finite()).fold(f64::NAN, f64::max)
    }
}

/// A running Prometheus; ended with its value, and its storage deleted.
pub struct Prometheus {
    child: Child,
    url: String,
    dir: TempDir,
}

impl Prometheus {
    /// It listens at this address, and asks `target`; once more for a cluster `other`. To be called on a thread that lives as long as it is wanted.
    pub fn start(ip: IpAddr, target: &str, other: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let targets = json!([{ "targets": [target] }]);
        let renamed = json!([{ "target_label": "cluster", "replacement": other }]);
        let config = json!({
            "global": { "scrape_interval": INTERVAL, "scrape_timeout": INTERVAL, "evaluation_interval": INTERVAL },
            "rule_files": [rules().canonicalize().unwrap()],
            "scrape_configs": [
                { "job_name": "understudy", "static_configs": targets },
                { "job_name": other, "static_configs": targets, "metric_relabel_configs": renamed },
            ],
        });
        // YAML is what JSON is, too.
        std::fs::write(dir.path().join("prometheus.yml"), config.to_string()).unwrap();
        let log = File::create(dir.path().join("log")).unwrap();
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "prometheus", "--config.file=prometheus.yml"])
            .args(["--storage.tsdb.path=data", "--log.level=warn"])
            .arg(format!("--web.listen-address={ip}:9090"))
            .current_dir(&dir)
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut this = Self { child, url: format!("http://{ip}:9090"), dir };
        until("Prometheus is ready", || {
            let ended = this.child.try_wait().unwrap();
            assert!(ended.is_none(), "prometheus (apt: prometheus) does not run: {}", this.log());
            let ready = format!("{}/-/ready", this.url);
            let code = run(Command::new("curl").args(["-s", "-o", "/dev/null", "-f", &ready])).code;
            code == 0
        });
        this
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// What its API answers to a question; an error, or a warning, fails the test.
    pub fn ask(&self, path: &str, parameters: &[(&str, &str)]) -> Value {
        let url = format!("{}/api/v1/{path}", self.url);
        let pairs: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut args = vec!["-G", &url];
        args.extend(pairs.iter().flat_map(|pair| ["--data-urlencode", pair]));
        let mut answer: Value = serde_json::from_str(&curl(&args)).unwrap();
        assert!(answer["status"] == "success" && answer["warnings"].is_null(), "{parameters:?}: {answer}");
        answer["data"].take()
    }

    /// What an expression gives now.
    pub fn now(&self, expr: &str) -> Vec<Series> {
        Self::series(&self.ask("query", &[("query", expr)]))
    }

    /// What it gives at this second.
    pub fn at(&self, expr: &str, time: f64) -> Vec<Series> {
        Self::series(&self.ask("query", &[("query", expr), ("time", &time.to_string())]))
    }

    /// What it gives from one second to another, as often as it looked.
    pub fn over(&self, expr: &str, (start, end): (f64, f64)) -> Vec<Series> {
        let (start, end) = (start.to_string(), end.to_string());
        let parameters = [("query", expr), ("start", &start), ("end", &end), ("step", INTERVAL)];
        Self::series(&self.ask("query_range", &parameters))
    }

    fn series(answer: &Value) -> Vec<Series> {
        answer["result"].as_array().unwrap().iter().map(Series::of).collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("Prometheus' log:\n{}", self.log());
        }
    }
}
