# Understudy: every task of this repository. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help setup servers build dist static packages test-packages check test test-clients test-page test-api soak demo bench bench-replication bench-health bench-slowlog bench-proxy bench-memory bench-blink docs nightly

# What `make bench` calls the run that it keeps: bench/runs/DATE-NAME
NAME ?= nine-cells
# A program that brings its C library (musl), for machines with an older one than this.
STATIC := $(shell uname -m)-unknown-linux-musl
BENCH := lab failover --cluster galera --repetitions 5 --baseline haproxy
BENCH_REPLICATION := lab failover --cluster replication --repetitions 3 --baseline haproxy-agent,mha --baseline-repetitions 1

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: ## Install what the lab and the tests need (Debian 12 or 13, as root); leaves no service running
	@scripts/setup.sh

servers: setup ## Unpack the servers of other versions that some tests run on, each into a directory of its own (~/.cache/understudy/servers)
	@scripts/servers.sh

build: setup ## Build the program and its lab, optimised: target/release/understudy and understudy-lab
	cargo build --release --locked -p understudy

dist: setup ## The same as they are packaged: link-time optimised, line tables in files of their own, in target/dist
	cargo build --profile dist --locked -p understudy

static: ## The program for any Linux of this processor, old or new: target/ARCH-unknown-linux-musl/dist/understudy
	@command -v musl-gcc >/dev/null || { echo "static: musl-gcc is missing: apt-get install musl-tools" >&2; exit 1; }
	rustup target add $(STATIC)
	cargo build --profile dist --locked -p understudy --no-default-features --target $(STATIC)

packages: dist ## deb and rpm of the program, the lab and clustercheck, what `make static` has made as a tarball, SBOM, checksums (SIGN_KEY=ID signs them): target/packages
	scripts/packages.sh

test-packages: packages ## Install, upgrade, downgrade, remove and purge them in fresh roots (SUITES="bookworm trixie"), lintian, rpmlint, systemd-analyze; as root
	scripts/test-packages.sh

check: ## What can be known in some minutes without a database server; prints the lines of code of each room beside its budget
	@scripts/check.sh

# Where a server cannot be had, only the tests that run on it fail, and they say how to have it.
test: setup ## Everything that continuous integration runs
	-@scripts/servers.sh
	@scripts/test.sh

test-clients: dist servers ## Clients that others wrote, directly and through Understudy, on three servers, also beside switchovers (clients/README.md); writes docs/compatibility.md, kept in bench/runs
	clients/fetch.sh
	clients/run.py --document docs/compatibility.md
	scripts/kept-clients.sh target/clients/run

test-page: dist ## The page at the HTTP port in Chromium, before a primary with replicas: a failover and orders while it is open, axe, hostile texts; writes docs/img/page-*.png
	scripts/page.sh target/dist/understudy docs/img

test-api: dist ## The description of the HTTP API beside what the API does, before a primary with replicas, by openapi-spec-validator and schemathesis (API_SECONDS=N, API_SEED=N)
	scripts/api.sh target/dist/understudy

soak: dist ## Long runs: a primary killed a hundred times under writes (REPLICATION_CRASHES=N, REPLICATION_SEED=N), one of MySQL killed and one that stands still thirty times each (MYSQL_LOSSES=N), a million simulated faults of a primary and its replicas (FAULTS_SEEDS=FROM..TO, some nine faults a seed; fewer in MySQL's words, whose model is slower: FAULTS_SEEDS_MYSQL), sessions in random states beside twins that never moved (MOVES_CASES=N, MOVES_SEED=N), random statements beside twins while links are cut (STATEMENTS_CASES=N, STATEMENTS_SEED=N), a slow log rotated in every way while it is streamed (ROTATION_SECONDS=N), and a busy machine that must not shut a node out (SOAK_MINUTES=60)
	UNDERSTUDY_SEEDS=$${FAULTS_SEEDS:-100000..225000} cargo test --locked -p topology --test brain replication::whatever_goes_wrong -- --exact --nocapture
	UNDERSTUDY_SEEDS=$${FAULTS_SEEDS_MYSQL:-100000..110000} cargo test --locked -p topology --test brain replication::whatever_goes_wrong_on_mysql -- --nocapture
	REPLICATION_CRASHES=$${REPLICATION_CRASHES:-100} REPLICATION_SEED=$${REPLICATION_SEED:-$$(date +%s)} cargo test --locked -p understudy --test failover crashes::a_primary_is_killed -- --nocapture
	MYSQL_LOSSES=$${MYSQL_LOSSES:-30} REPLICATION_SEED=$${REPLICATION_SEED:-$$(date +%s)} cargo test --locked -p understudy --test failover crashes::a_mysql_primary -- --nocapture --test-threads 1
	MOVES_CASES=$${MOVES_CASES:-5000} MOVES_SEED=$${MOVES_SEED:-$$(date +%s)} cargo test --locked -p proxy --test sessions restore_all::
	STATEMENTS_CASES=$${STATEMENTS_CASES:-5000} STATEMENTS_SEED=$${STATEMENTS_SEED:-$$(date +%s)} cargo test --locked -p proxy --test sessions situations::random:: -- --nocapture
	ROTATION_SECONDS=$${ROTATION_SECONDS:-60} cargo test --locked -p warmup --test log rotation:: -- --nocapture
	scripts/soak-silence.sh $${SOAK_MINUTES:-60}
	scripts/soak-silence.sh $${SOAK_MINUTES:-60} replication

nightly: dist servers test-packages ## Long fuzzing (FUZZ_SECONDS=N of each target), random faults and moves under transactions that are judged, ten minutes on each kind of cluster (NIGHTLY_SECONDS=N), ways to lose a primary of MySQL 9.7 and of MariaDB 11.8, drivers of other languages, the HTTP API beside its description, and other tools' formats beside those tools; kept in bench/runs
	command -v cargo-deny >/dev/null || cargo install --locked --quiet cargo-deny
	cargo deny --all-features check bans licenses sources
	scripts/fuzz.sh $${FUZZ_SECONDS:-300}
	scripts/drivers.sh bench/runs/$$(date +%F)-drivers
	scripts/page.sh target/dist/understudy
	scripts/api.sh target/dist/understudy
	cargo test --locked -p slowlog --test logs forms:: -- --ignored
	for kind in galera replication; do \
	  rm -rf target/nightly-$$kind && \
	  target/dist/understudy lab consistency --cluster $$kind --seconds $${NIGHTLY_SECONDS:-600} --direct-seconds 60 --out-dir target/nightly-$$kind && \
	  scripts/kept.sh target/nightly-$$kind consistency-$$kind understudy lab consistency --cluster $$kind --seconds $${NIGHTLY_SECONDS:-600} --direct-seconds 60 || exit 1; \
	done
	for server in "mysql-9.7 --protocol text --case graceful,semi-graceful,non-graceful" mariadb-11.8; do \
	  name=failover-$$(echo "$${server%% *}" | tr . -) && rm -rf target/$$name && \
	  target/dist/understudy lab failover --cluster replication --repetitions 3 --out-dir target/$$name --server $$server && \
	  scripts/kept.sh target/$$name $$name understudy lab failover --cluster replication --repetitions 3 --server $$server || exit 1; \
	done

bench-memory: dist ## What 10,000 idle clients take of memory, plain and under TLS, and what large results and files do
	scripts/bench-memory.sh target/bench-memory

bench-proxy: dist ## CPU a statement through the proxy beside HAProxy, in one run
	scripts/bench-proxy.sh target/bench-proxy

docs: ## The documentation as one searchable site, target/site/book, by mdBook (cargo install mdbook --locked); checks its links
	scripts/site.py

demo: build ## Three real Galera nodes, a load, the active node killed, and the report (demo.html)
	target/release/understudy lab demo --html demo.html

bench: dist ## The seed's nine cells, freeze and vanish, HAProxy beside us; kept in bench/runs
	rm -rf target/bench
	target/dist/understudy $(BENCH) --out-dir target/bench
	scripts/kept.sh target/bench $(NAME) understudy $(BENCH)

bench-replication: dist ## A primary with replicas: each way to lose it, at 60 and 600 transactions a second, HAProxy and MHA beside us; kept in bench/runs
	for load in "30 4" "300 16"; do \
	  set -- $$load; \
	  rm -rf target/bench-replication && \
	  target/dist/understudy $(BENCH_REPLICATION) --rate $$1 --threads $$2 --out-dir target/bench-replication && \
	  scripts/kept.sh target/bench-replication replication-$$(($$1 * 2)) understudy $(BENCH_REPLICATION) --rate $$1 --threads $$2 || exit 1; \
	done

bench-health: dist ## The health endpoint beside nginx and HAProxy; kept in bench/runs
	rm -rf target/bench-health
	target/dist/understudy lab bench health --out-dir target/bench-health
	scripts/kept.sh target/bench-health health understudy lab bench health

bench-blink: dist ## A Galera member stands still for 0.3 to 20 s, with and without Understudy; kept in bench/runs
	rm -rf target/bench-blink
	scripts/bench-blink.sh target/bench-blink $${WHO:-standby}
	scripts/kept.sh target/bench-blink blink-$${WHO:-standby} scripts/bench-blink.sh target/bench-blink $${WHO:-standby}

bench-slowlog: setup ## How many MB of slow log a second of a processor reads, all servers' forms, pt-query-digest beside us
	cargo bench --profile dist --locked -p slowlog --bench read
