# The short names of what one does with Byway; the work is in scripts/, which install what is missing first.

.DEFAULT_GOAL := help
.PHONY: help demo demo-coder build test kills outages scale versions attack fuzz bench gates lint clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## A video call survives an outage: processes, losses, repair, comparison; four minutes (options: ARGS="...")
	@scripts/setup.sh demo
	@scripts/footage.sh
	@test -x target/quick/byway || echo "demo: the first time, compiling takes about five minutes on two idle cores; then the demo takes four"
	@scripts/cargo.sh run --profile quick --locked -p byway -- demo $(ARGS)

demo-coder: ## The coder alone: a damaged file comes back (options: ARGS="...")
	@scripts/setup.sh build
	@scripts/cargo.sh run --release --locked -p byway-code --example recover_file -- $(ARGS)

build: ## Optimised build, in target/release
	@scripts/setup.sh build
	@scripts/cargo.sh build --release --locked

test: ## Everything that must hold; closes with the numbers of tests passed, failed and skipped
	@scripts/setup.sh test
	@scripts/test.sh

kills: ## Kills each of two relays twenty times beside running calls, with a controller and without; six minutes
	@scripts/setup.sh build
	@KILLS=20 scripts/cargo.sh test --locked -p byway --test relay_deaths

outages: ## Outages of one direct path, of some and of all, bridged by each service, with processes; 30 minutes (a part: ONLY="pull, narrow")
	@scripts/setup.sh build
	@OUTAGES=large scripts/cargo.sh test --locked -p byway --test dark_paths -- --nocapture

scale: ## A thousand agents in five thousand pairs at one controller, and its share of a core
	@scripts/setup.sh build
	@SCALE=large scripts/cargo.sh test --locked -p byway --test controller_load -- --nocapture

versions: ## The version before beside this one, and an upgrade of one node after the other; six minutes with its build
	@scripts/setup.sh build
	@BYWAY_PREVIOUS=$$(scripts/previous.sh) && export BYWAY_PREVIOUS && \
	  scripts/cargo.sh test --locked -p byway --test versions -- --test-threads=1

attack: ## Attackers beside an honest flow, agent or member: in virtual time, at relay processes and at a controller; twenty minutes
	@scripts/cargo.sh run --release --locked -p byway-fuzz-targets --example attack
	@ATTACK=large scripts/cargo.sh test --locked -p byway --test attacks --test attacks_on_handshakes \
		--test attacks_on_the_controller --no-fail-fast -- --nocapture

fuzz: ## Every fuzzer for a minute, from the committed corpora, which grow; with nightly Rust (options: ARGS="--seconds 600")
	@scripts/fuzz.sh $(ARGS)

bench: ## Byway's coder beside others (options: ARGS="..."), the protocol core, queues, network state, windows of images, relays on sockets, then the gates
	@scripts/setup.sh bench
	@scripts/cargo.sh run --release --locked -p byway-bench -- $(ARGS)
	@scripts/cargo.sh run --release --locked -p byway-bench -- protocol
	@scripts/cargo.sh run --release --locked -p byway-bench -- queues
	@scripts/cargo.sh run --release --locked -p byway-bench -- state
	@scripts/cargo.sh run --release --locked -p byway-bench -- view
	@scripts/cargo.sh run --release --locked -p byway-bench -- sockets
	@scripts/cargo.sh run --release --locked -p byway-bench -- threads
	@$(MAKE) --no-print-directory gates

gates: ## Limits on how many instructions the coder and the protocol core take
	@scripts/gates.sh

lint: ## Format, spelling, lints, documentation, dependencies
	@scripts/setup.sh lint
	@scripts/lint.sh

clean: ## Deletes what was built
	@scripts/cargo.sh clean
