//! Clients with compressed packets are served as others are: the same bytes, whatever their size, through a move, and under TLS.

use std::io::Write;

use fixture::Server;
use fixture::tls::Certificate;
use harness::{Bench, cli, routes, settings, shows};
use proxy::Settings;
use topology::routes::LaneState;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_compresses_gets_the_same() {
    let server = Server::start(&[]);
    let shown = Certificate::of("127.0.0.1");
    let with_tls = Settings { tls: shows(&shown, false), ..settings() };
    let bench = Bench::new(with_tls, routes(1, &[(&server, LaneState::Open, 1)]));
    let mut rows = tempfile::NamedTempFile::new().unwrap();
    for number in 0..100_000 {
        writeln!(rows, "{number}\ttext of row {number}").unwrap();
    }
    let statements = format!(
        "SELECT 6 * 7;\nSELECT seq, REPEAT(MD5(seq), 2000), RANDOM_BYTES(0) FROM seq_1_to_100;\n\
         CREATE OR REPLACE TABLE loaded (n INT, t TEXT);\nLOAD DATA LOCAL INFILE '{}' INTO TABLE loaded;\n\
         SELECT COUNT(*), SUM(n), SUM(LENGTH(t)) FROM loaded;\nSELECT no_such_column;\n",
        rows.path().display()
    );
    let (_, plain) = cli(&bench, &["--skip-ssl", "--local-infile=1"], &statements);
    assert!(plain.len() > 6_400_000 && plain.contains("100000\t4999950000\t"), "{} bytes", plain.len());
    for tls in ["--skip-ssl", "--ssl"] {
        let arguments = [tls, "--compress", "--quick", "--local-infile=1"];
        let (_, compressed) = cli(&bench, &arguments, &statements);
        assert!(compressed == plain, "{tls}: {} bytes, not {}", compressed.len(), plain.len());
        let (_, said) = cli(&bench, &[tls, "--compress"], "\\s\n");
        assert!(
            said.lines().any(|line| line.starts_with("Protocol:") && line.contains("Compressed")),
            "{said}"
        );
    }
}
