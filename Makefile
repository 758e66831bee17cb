# Understudy: every task of this repository. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help setup build test demo bench

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: ## Install what the lab and the tests need (Debian 12 or 13, as root); leaves no service running
	@scripts/setup.sh

build: setup ## Build the program, optimised: target/release/understudy
	cargo build --release --locked -p understudy

test: setup ## Everything that continuous integration runs
	@scripts/test.sh

demo: build ## Three real Galera nodes, a load, the active node killed, and the report (demo.html)
	target/release/understudy lab demo

bench: build ## The seed's nine cells, freeze and vanish, HAProxy beside us (report in the current directory)
	target/release/understudy lab failover --cluster galera --repetitions 5 --baseline haproxy --json failover.json --html failover.html

