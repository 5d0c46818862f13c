# Everything starts here: python3 (3.11 or later, with venv) and make are all a machine needs.
# `make` alone lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGE := $(VENV)/.set-up-package
STAMP := $(VENV)/.set-up
SPARK := $(VENV)/.set-up-spark
DOCS := $(VENV)/.set-up-docs
ARGS ?=
SEED ?=
FRAMES ?= 1000000
FILES ?= 100000
ROUNDS ?= 500
FIRST ?= 0
COUNT ?= 1000
JOBS ?=
# Tests start processes by the hundred, each of which would compile all sources again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo format check test client-on-kafka bench bench-quorum bench-replicated bench-partitions bench-transactions bench-transactional-ids bench-groups bench-spark sim sim-brokers sim-transactions sim-recreations sim-quorum compat cover docs fuzz break-quorum break-transactions clean

help: ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1 \2/p' $(MAKEFILE_LIST) | while read -r name meaning; do printf '  make %-12s %s\n' "$$name" "$$meaning"; done

setup: $(STAMP) ## Make .venv with the package and all development tools (quick when nothing changed)

# What runs the product comes first and alone: a test tool that a new Python cannot have must not keep the demo from it.
$(PACKAGE): pyproject.toml setup.py $(wildcard quorate/records/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit("Quorate needs Python 3.11 or later, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3 has no venv: on Debian and Ubuntu, apt install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable .
	@touch $@

$(STAMP): $(PACKAGE)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --group dev || { echo "the product is in .venv; what its tests need is not to be had for this Python yet: make clean, then PYTHON=python3.14 (or an older one), or install a C compiler"; exit 1; }
	@touch $@

$(SPARK): $(STAMP)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --group spark
	@touch $@

$(DOCS): $(STAMP) pyproject.toml
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --group docs
	@touch $@

demo: $(PACKAGE) ## Stream this machine's log lines through three brokers, kill one, read all back, compare
	@$(BIN)/quorate demo $(ARGS)

format: setup ## Format the sources and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: setup $(SPARK) ## Check format, style, layers and types: everything that does not run the code
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/pyright

test: setup $(SPARK) ## Run all tests, two at a time (ARGS="-k name" for some of them, "-n 0 -s" to watch them)
	$(BIN)/python -m pytest -n 2 $(ARGS)

compat: setup ## Try other people's clients and tools, and write docs/compatibility.md
	$(BIN)/python -m pytest tests/compat --compat-report docs/compatibility.md $(ARGS)

client-on-kafka: setup ## Run the tests of our client on Apache Kafka instead of on a node of ours
	$(BIN)/python -m pytest --broker kafka tests/integration/test_client_sync.py tests/integration/test_client_examples.py tests/integration/test_streams.py tests/integration/test_connect.py tests/compat -k "test_client or ours_on_kafka or quorate.client or (integration and (test_streams or test_connect))" $(ARGS)

sim: setup ## Run the simulations; with SEED=n that seed of replicating brokers, with all that happens in it (STEPS=)
	$(BIN)/python -m $(if $(SEED),tests.simulation.replication.campaign --seed $(SEED) $(if $(STEPS),--steps $(STEPS)),pytest tests/simulation) $(ARGS)

sim-brokers: setup ## Simulate brokers that replicate by the thousand (COUNT=, FIRST=, JOBS=)
	$(BIN)/python -m tests.simulation.replication.campaign --first $(FIRST) --count $(COUNT) $(if $(JOBS),--jobs $(JOBS)) $(ARGS)

sim-transactions: setup ## Simulate brokers and transactions (SEED=n: one, with all that happens; COUNT=, FIRST=, JOBS=)
	$(BIN)/python -m tests.simulation.replication.transactional_campaign $(if $(SEED),--seed $(SEED),--first $(FIRST) --count $(COUNT)) $(if $(JOBS),--jobs $(JOBS)) $(ARGS)

sim-recreations: setup ## Simulate brokers whose topic is deleted and made again (SEED=n: one, with all that happens; COUNT=, FIRST=, JOBS=)
	$(BIN)/python -m tests.simulation.replication.recreating_campaign $(if $(SEED),--seed $(SEED),--first $(FIRST) --count $(COUNT)) $(if $(JOBS),--jobs $(JOBS)) $(ARGS)

sim-quorum: setup ## Simulate quorums of controllers (SEED=n: one, with all that happens; COUNT=, FIRST=, JOBS=)
	$(BIN)/python -m tests.simulation.quorum.campaign $(if $(SEED),--seed $(SEED),--first $(FIRST) --count $(COUNT)) $(if $(JOBS),--jobs $(JOBS)) $(ARGS)

fuzz: setup ## Throw random and mutated bytes at a node, damage files of logs, and kill a node again and again (FRAMES=, FILES=, ROUNDS=, SEED=)
	$(BIN)/python -m tests.robustness.fuzz_wire --frames $(FRAMES) $(if $(SEED),--seed $(SEED))
	FUZZ_RUNS=$(FILES) FUZZ_SEED=$(or $(SEED),1) $(BIN)/python -m pytest -o faulthandler_timeout=0 tests/unit/broker/log/test_recovery_fuzz.py
	$(BIN)/python -m tests.robustness.kill --mode kill --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.robustness.kill --mode power --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED))

break-quorum: setup ## Kill three controllers, cut their power and their network, and send them garbage (SEED=)
	$(BIN)/python -m tests.robustness.quorum $(if $(SEED),--seed $(SEED)) $(ARGS)
	$(BIN)/python -m tests.robustness.quorum_fuzz $(if $(SEED),--seed $(SEED))

break-transactions: setup ## Kill transactional producers, coordinators, leaders and whole clusters (SEED=, ARGS="--client own")
	$(BIN)/python -m tests.robustness.transactions $(if $(SEED),--seed $(SEED)) $(ARGS)

jepsen: setup ## Three minutes of load and faults, judged: appends, groups, metadata (SEED=, ARGS="--client java")
	$(BIN)/quorate verify run append --time 60 --seed $(or $(SEED),1) $(ARGS)
	$(BIN)/quorate verify run groups --time 60 --seed $(or $(SEED),1) $(ARGS)
	$(BIN)/quorate verify run metadata --time 60 --seed $(or $(SEED),1) $(ARGS)

jepsen-long: setup ## The same for hours, another seed and other faults each time, until something is wrong (HOURS=)
	$(BIN)/python -m tests.robustness.verify_long --hours $(HOURS) $(if $(SEED),--seed $(SEED)) $(ARGS)

mutants: setup ## Plant each of 30 bugs under ten seeds, and see whether it is found; goes on where it ended (SEEDS=, DIR=)
	$(BIN)/quorate verify mutants --seeds $(or $(SEEDS),10) --dir $(or $(DIR),quorate-mutants) $(ARGS)

bench: setup ## Measure, against Apache Kafka where there is Java
	$(BIN)/python -m quorate.tools.bench $(ARGS)

bench-quorum: setup ## Measure three controllers, and Apache Kafka's with very large topics
	$(BIN)/python -m quorate.tools.bench.quorum $(ARGS)

bench-replicated: setup ## Measure three brokers and three controllers, and three nodes of Apache Kafka
	$(BIN)/python -m quorate.tools.bench.replicated $(ARGS)

bench-transactions: setup ## Measure transactions and their price, RF 3; and Apache Kafka's
	$(BIN)/python -m quorate.tools.bench.transactions $(ARGS)

bench-transactional-ids: setup ## Measure 10,000 open transactions: memory, another coordinator; and Apache Kafka's
	$(BIN)/python -m quorate.tools.bench.transactional_ids $(ARGS)

bench-groups: setup ## Measure groups: rebalances, commits, idle ones, another coordinator; and Apache Kafka's
	$(BIN)/python -m quorate.tools.bench.groups $(ARGS)

bench-partitions: setup ## Measure three brokers with 2,000 partitions: idle, started again, one of them killed
	$(BIN)/python -m quorate.tools.bench.partitions $(ARGS)

bench-spark: setup $(SPARK) ## Measure the PySpark connector beside Spark's own for Kafka (ARGS="--rows 1000000")
	$(BIN)/python -m quorate.tools.bench.spark --json docs/benchmarks/spark.json $(ARGS)

bench-readers: setup ## Measure readers: more partitions, a crowd that comes and goes, a compaction beside them
	$(BIN)/python -m quorate.tools.bench.readers $(ARGS)

bench-judging: setup ## Measure how fast a history of a million operations is judged
	$(BIN)/python -m tests.robustness.judging_speed $(ARGS)

# What other tests cover anyway, at the price of hundreds of slow processes.
REPEATING := docs_commands clusters client_examples controller_kill group_crowd quorum_processes replication_five replication_tls spark_exactly_once spark_failover
cover: setup $(SPARK) ## Run the tests with coverage; fails where what decides is not covered
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest -n 2 tests/unit tests/shell tests/integration tests/robustness/test_verify.py $(REPEATING:%=--ignore=tests/integration/test_%.py) $(ARGS)
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report --fail-under=90
	$(BIN)/python -m coverage report --fail-under=100 --include="$$($(BIN)/python -m tests.deciding)" --omit="$$($(BIN)/python -m tests.deciding --omit)"

docs: $(DOCS) ## Write docs/protocol-support.md, build the site into build/site, check its links
	$(BIN)/python -m quorate.tools.protocol_support
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

clean: ## Remove what was made: .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage build *.egg-info
