//! Clients with compressed packets are served as others are, and so are clients whose nodes are spoken to with compressed packets: the same bytes,
//! whatever their size, through a move, and under TLS.

use std::io::Write;

use fixture::Server;
use fixture::tls::Certificate;
use harness::{Bench, cli, connect, one, routes, settings, shows};
use link::Codec;
use proxy::Settings;
use tempfile::NamedTempFile;
use topology::routes::LaneState;

/// A file of 8 MB, which a client sends in more packets than can be numbered.
fn rows() -> NamedTempFile {
    let mut rows = NamedTempFile::new().unwrap();
    for number in 0..300_000 {
        writeln!(rows, "{number}\ttext of row {number}").unwrap();
    }
    rows
}

/// Small results and large ones, a file, one behind another result, statements longer than a frame and than a packet, an error.
fn statements(rows: &NamedTempFile) -> String {
    format!(
        "SELECT 6 * 7;\nSELECT seq, REPEAT(MD5(seq), 2000), RANDOM_BYTES(0) FROM seq_1_to_100;\n\
         CREATE OR REPLACE TABLE loaded (n INT, t TEXT);\nLOAD DATA LOCAL INFILE '{}' INTO TABLE loaded;\n\
         SELECT COUNT(*), SUM(n), SUM(LENGTH(t)) FROM loaded;\nDELIMITER //\n\
         SELECT 1; LOAD DATA LOCAL INFILE '{}' INTO TABLE loaded; SELECT COUNT(*) FROM loaded//\nDELIMITER ;\nSELECT LENGTH('{}');\nSELECT MD5('{}');\nSELECT no_such_column;\n",
        rows.path().display(),
        rows.path().display(),
        "y".repeat(17 << 20),
        "longer than a frame, ".repeat(9_000),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_compresses_gets_the_same() {
    let server = Server::start(&["--max-allowed-packet=64M"]);
    let shown = Certificate::of("127.0.0.1");
    let with_tls = Settings { tls: shows(&shown, false), ..settings() };
    let bench = Bench::new(with_tls, routes(1, &[(&server, LaneState::Open, 1)]));
    let rows = rows();
    let statements = statements(&rows);
    let (_, plain) =
        cli(&bench, &["--skip-ssl", "--local-infile=1", "--max-allowed-packet=64M"], &statements);
    assert!(plain.len() > 6_400_000 && plain.contains("300000\t44999850000\t"), "{} bytes", plain.len());
    for tls in ["--skip-ssl", "--ssl"] {
        let arguments = [tls, "--compress", "--quick", "--local-infile=1", "--max-allowed-packet=64M"];
        let (_, compressed) = cli(&bench, &arguments, &statements);
        assert!(compressed == plain, "{tls}: {} bytes, not {}", compressed.len(), plain.len());
        let (_, said) = cli(&bench, &[tls, "--compress"], "\\s\n");
        assert!(
            said.lines().any(|line| line.starts_with("Protocol:") && line.contains("Compressed")),
            "{said}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_spoken_to_with_compressed_packets() {
    let start = || Server::start(&["--max-allowed-packet=64M"]);
    let (one_server, other) = (start(), start());
    let with = |node_compression| Settings { node_compression, retain_bytes_max: 64 << 20, ..settings() };
    let first = routes(1, &[(&one_server, LaneState::Open, 1), (&other, LaneState::Shut, 1)]);
    let bench = Bench::new(with(None), first);
    let rows = rows();
    let statements = statements(&rows);
    let arguments = ["--skip-ssl", "--quick", "--local-infile=1", "--max-allowed-packet=64M"];
    let (_, plain) = cli(&bench, &arguments, &statements);
    assert!(
        plain.contains("300000\t44999850000\t") && plain.contains("\n17825792\n"),
        "{} bytes",
        plain.len()
    );
    let in_use =
        "SELECT VARIABLE_VALUE FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'Compression'";
    let mut before = connect(&bench.address()).await.unwrap();
    assert_eq!(one(&mut before, in_use).await, "OFF");

    bench.proxy.apply(with(Some(Codec::Zlib)), harness::SECOND);
    let (_, compressed) = cli(&bench, &arguments, &statements);
    assert!(compressed == plain, "{} bytes, not {}", compressed.len(), plain.len());
    let both_ways = [&["--compress"], &arguments[..]].concat();
    let (_, compressed) = cli(&bench, &both_ways, &statements);
    assert!(compressed == plain, "both sides: {} bytes, not {}", compressed.len(), plain.len());
    let mut client = connect(&bench.address()).await.unwrap();
    assert_eq!(one(&mut client, in_use).await, "ON");
    assert_eq!(one(&mut before, in_use).await, "OFF", "who is there stays");
    one(&mut client, "SET @kept = 'it'").await;
    let port = one(&mut client, "SELECT @@port").await;
    bench.follow(routes(2, &[(&one_server, LaneState::Shut, 1), (&other, LaneState::Open, 2)])).await;
    assert_eq!(one(&mut client, "SELECT @kept").await, "it");
    assert_ne!(one(&mut client, "SELECT @@port").await, port);
    assert_eq!(one(&mut client, in_use).await, "ON", "it has moved as it came");
    assert_eq!(one(&mut before, in_use).await, "ON", "it has moved as it would come now");

    // zstd is not MariaDB's.
    bench.proxy.apply(with(Some(Codec::Zstd { level: 3 })), harness::SECOND);
    let mut client = connect(&bench.address()).await.unwrap();
    assert_eq!(one(&mut client, in_use).await, "OFF");
}
