//! `understudy lab warm --quick` through the program: that each way is measured whole, and that warming warms. Conditions, never speeds.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use fixture::wait::within;
use serde_json::Value;

/// Far longer than it takes, also on a machine that is busy with other tests.
const LIMIT: Duration = Duration::from_secs(240);

#[test]
fn a_warmed_standby_reads_less_from_disk_and_each_read_is_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let said = dir.path().join("said");
    let file = File::create(&said).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_understudy"))
        .args(["lab", "warm", "--quick", "--out-dir"])
        .arg(dir.path())
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .spawn()
        .unwrap();
    let Ok(status) = within(LIMIT, || child.try_wait().unwrap()) else {
        let _ = child.kill();
        let _ = child.wait();
        panic!("it has not ended: {}", std::fs::read_to_string(&said).unwrap());
    };
    let said = std::fs::read_to_string(&said).unwrap();
    assert!(status.success(), "{status}: {said}");

    let text = std::fs::read_to_string(dir.path().join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    let cases = result["cases"].as_array().unwrap();
    let named = |name: &str| {
        cases.iter().find(|case| case["name"] == name).unwrap_or_else(|| panic!("{name}: {said}"))
    };
    let reads = |name: &str| named(name)["disk_reads"].as_u64().unwrap();
    let (control, cold, parallel) = (reads("control"), reads("cold"), reads("parallel"));
    assert!(control < cold && parallel < cold, "{said}");
    // A table that is many times as large as the pool: a cold standby reads at least the hot set.
    assert!(cold >= result["conditions"]["hot_blocks"].as_u64().unwrap(), "{said}");

    let recorded = result["chunks"][1]["reads"].as_u64().unwrap();
    assert!(recorded > 1000, "{said}");
    for case in cases {
        assert_eq!(case["played"]["statements"], recorded, "{case}: {said}");
        if let Some(expected) = case["expected"].as_u64() {
            assert_eq!(case["warmed"]["statements"], expected, "{case}: {said}");
        }
        let samples: Vec<u64> = case["samples"]
            .as_array()
            .unwrap()
            .iter()
            .map(|sample| sample["pool_reads"].as_u64().unwrap())
            .collect();
        assert!(samples.is_sorted() && samples.last() == case["disk_reads"].as_u64().as_ref(), "{case}");
    }
    assert_eq!(named("parallel")["warmed"]["statements"], result["chunks"][0]["reads"], "{said}");

    // A cold standby that took over: what was forecast is near what it read. Its pool is never full here, so that the order of reads changes nothing.
    let forecasts = result["forecasts"].as_array().unwrap();
    assert_eq!(forecasts.len(), 1, "{said}");
    let (forecast, counted) = (&forecasts[0]["forecast"], &forecasts[0]["disk_reads"]);
    let (forecast, counted) = (forecast.as_f64().unwrap(), counted.as_f64().unwrap());
    assert!(counted > 0.0 && (0.9..=1.1).contains(&(forecast / counted)), "{said}");
    let page = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(
        page.contains("<svg") && page.contains("parallel replay") && page.contains("Is the forecast right?")
    );
}
