# The commands that everybody relies on. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# How many files of tests are run at a time; those with nodes of their own need a core or two each.
TEST_JOBS ?= 2
DATA ?= var
OPTIONS ?=
KERNELS := $(wildcard native/*.pyx native/*.pxd native/*.h)

# Many images set it. Tests start a thousand nodes, each of which would compile all modules that it imports: 0.7 s of 1.4 s.
unexport PYTHONDONTWRITEBYTECODE

# What is installed; the versions are those of constraints.txt.
BUILD_TOOLS := pip setuptools wheel 'Cython>=3.1'
EXTRAS := test,bench
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

.PHONY: setup lock run cluster format unit unit-times test test-python test-containers analytics test-spark test-spark-containers test-page test-rabbitmqadmin check fuzz seeds instants mutants sim sim-long chaos crash crash-delayed crash-shovels crash-federation migration bench bench-check proto docs clean

setup: $(STAMP)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(STAMP): $(BIN)/python pyproject.toml setup.py constraints.txt $(KERNELS)
	$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --upgrade $(BUILD_TOOLS)
	$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --no-build-isolation --editable '.[$(EXTRAS)]'
	-$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --no-deps raftos  # asks for a cryptography of 2016
	touch $@

# The newest versions that pyproject.toml allows, in an environment of their own. Run the tests before you commit what changed.
lock:
	rm -rf build/lock
	$(PYTHON) -m venv build/lock
	build/lock/bin/python $(PIP_INSTALL) --upgrade $(BUILD_TOOLS)
	build/lock/bin/python $(PIP_INSTALL) --no-build-isolation --editable '.[$(EXTRAS)]'
	build/lock/bin/python $(PIP_INSTALL) --no-deps raftos==0.2.6
	(grep '^#' constraints.txt; build/lock/bin/python -m pip freeze --all --exclude-editable | LC_ALL=C sort --ignore-case) >build/lock/constraints.txt
	mv build/lock/constraints.txt constraints.txt

# Options of `leveret serve` may be given: make run OPTIONS='--amqp 127.0.0.1:5673'.
run: setup
	$(BIN)/leveret serve --data-dir $(DATA) $(OPTIONS)

# Three nodes on this machine, with their data in ./var/cluster.
cluster: setup
	$(BIN)/leveret cluster --nodes 3 --data-dir var/cluster

# While you work: what tests/unit has of short tests.
unit: setup
	$(BIN)/python -m pytest tests/unit -q -m 'not long' --numprocesses $(TEST_JOBS) --dist worksteal

# Measures which those are, on an idle machine: tests/long_tests.py.
unit-times: setup
	$(BIN)/python -m pytest tests/unit -q --numprocesses $(TEST_JOBS) --dist worksteal --junitxml build/unit-times.xml
	$(BIN)/python -m tests.long_tests build/unit-times.xml

# In the order of names: xdist would take the files with few tests last, which are those that wait for nodes, two at a time.
test: setup
	$(BIN)/python -m pytest tests -q --numprocesses $(TEST_JOBS) --dist loadfile --no-loadscope-reorder

# The same with another interpreter, in an environment of its own: make test-python PYTHON=python3.14
test-python:
	$(MAKE) test VENV=build/$(notdir $(PYTHON))

# The cluster of deploy/compose.yaml. Where no container engine runs, one is installed and started: that needs root.
test-containers: setup
	$(BIN)/python -m tests.containers

# The same cluster with its profile `analytics`, whose image has Spark in it: half a gigabyte is fetched the first time.
test-spark-containers: setup
	$(BIN)/python -m tests.containers --spark

INSTALL_SPARK = $(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["analytics"], sep="\n")' | \
	xargs -d '\n' $(BIN)/python $(PIP_INSTALL) --constraint constraints.txt

# A small cluster with a kill, and what its logs tell: the life of a message, a past second, a proof. Needs Java 17.
analytics: setup
	@command -v java > /dev/null || { echo 'Java 17 is missing: apt-get install openjdk-17-jre-headless'; exit 1; }
	$(INSTALL_SPARK)
	rm -rf $(DATA)/analytics
	$(BIN)/python -m tests.tour $(DATA)/analytics

# What leveret-analytics answers, on a Spark in this process. Needs Java 17; the extra is installed.
test-spark: setup
	$(INSTALL_SPARK)
	$(BIN)/python -m pytest tests/spark -q -m spark

# The management page in a headless Chromium. Says what is missing: the browser, or npm for axe-core.
AXE := axe-core-4.14.1
test-page: setup
	@command -v chromedriver >/dev/null || { echo "make test-page needs Chromium and its driver: apt-get install chromium chromium-driver"; exit 69; }
	@command -v npm >/dev/null || { echo "make test-page fetches $(AXE) with npm: apt-get install npm"; exit 69; }
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["page"], sep="\n")' | \
		xargs -d '\n' $(BIN)/python $(PIP_INSTALL)
	mkdir -p build
	[ -e build/$(AXE).tgz ] || (cd build && npm pack --silent $(subst core-,core@,$(AXE)))
	$(BIN)/python -m pytest tests/page -q -m page --numprocesses $(TEST_JOBS) --dist loadfile

# Every command of rabbitmqadmin 2.29, said to a node of its own and to a genuine RabbitMQ: make test-rabbitmqadmin RABBITMQ=127.0.0.1:15672
ADMIN ?= rabbitmqadmin
test-rabbitmqadmin: setup
	@command -v $(firstword $(ADMIN)) >/dev/null || { echo "make test-rabbitmqadmin needs rabbitmqadmin 2.29; where it is not in PATH: ADMIN='how it is called'"; exit 69; }
	@[ -n "$(RABBITMQ)" ] || { echo "make test-rabbitmqadmin needs RABBITMQ=HOST:PORT, the HTTP of a RabbitMQ 4.3 whose data may go"; exit 69; }
	$(BIN)/python -m tests.compat.rabbitmqadmin --admin "$(ADMIN)" --rabbitmq $(RABBITMQ)

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What tests/unit draws from seeds, with others than those that are always the same.
FRESH := 100
seeds: setup
	$(BIN)/python -m pytest tests/unit -q --fresh-seeds $(FRESH) --numprocesses $(TEST_JOBS) --dist worksteal

# Mutated frames of AMQP and of the stream protocol, and requests over HTTP, others each time: tests/fuzz/.
fuzz: setup
	$(BIN)/python -m tests.fuzz.amqp_frames --frames 5000000 --seed "$$(date +%s)"
	$(BIN)/python -m tests.fuzz.stream_frames --frames 2000000 --seed "$$(date +%s)"
	$(BIN)/python -m tests.fuzz.http_requests --requests 1000000 --seed "$$(date +%s)"

# What queues were at a thousand random seconds of the past each, as leveret-analytics tells it: docs/history.md.
instants: setup
	$(BIN)/python -m pytest tests/unit/analytics/test_queue_at.py -q --instants 1000

# Historic bugs put back one by one: docs/mutants.md.
mutants: setup
	$(BIN)/python -m tests.mutants --jobs 2

# Clusters of the consensus engine and of whole brokers under every fault: docs/simulation.md.
sim: setup
	$(BIN)/python -m tests.sim --fresh --seeds 1000 --jobs 2
	$(BIN)/python -m tests.sim --layer brokers --fresh --seeds 200 --jobs 2

# More than an hour of both cores.
sim-long: setup
	$(BIN)/python -m tests.sim --layer brokers --fresh --seeds 10000 --faults 300000 --jobs 2

# A node that ends without warning while clients publish over AMQP and the stream protocol: an hour. Power cuts want root.
crash: setup
	$(BIN)/python -m tests.crash.cycles --end kill --cycles 200
	$(BIN)/python -m tests.crash.cycles --end power --cycles 100

# A million delayed messages on three nodes, whose leader is killed and moved while they are released.
crash-delayed: setup
	$(BIN)/python -m tests.crash.delayed

# Faults on clusters of real nodes while clients work: docs/chaos.md. As root, or some scenarios are left out.
chaos: setup
	$(BIN)/python -m tests.chaos

# This tree beside another commit, pair by pair; make bench-check BASE=v1.2 SET=quorum. Ends with 1 where a row is below 0.95.
BASE := HEAD
SET := one-node
bench-check: setup
	$(BIN)/python -m tests.bench.commits $(BASE) --set $(SET) --trend docs/bench-trend.jsonl

# PEER_URL, PEER_PID and PEER_START: a genuine RabbitMQ, as `python -m tests.crash.shovels_between --help` says.
crash-shovels: setup
	$(BIN)/python -m tests.crash.shovels_between --url '$(PEER_URL)' --pid '$(PEER_PID)' --start '$(PEER_START)'

# The same by federation, of exchanges and queues, both ways; PEER_MANAGEMENT is HOST:PORT of its HTTP API.
crash-federation: setup
	$(BIN)/python -m tests.crash.federation_between --url '$(PEER_URL)' --management '$(PEER_MANAGEMENT)' \
		--pid '$(PEER_PID)' --start '$(PEER_START)'

# A genuine RabbitMQ is left for a node while clients work, as docs/migrating.md says; PEER_STOP stops it for good.
migration: setup
	PEER_URL='$(PEER_URL)' PEER_MANAGEMENT='$(PEER_MANAGEMENT)' PEER_STOP='$(PEER_STOP)' $(BIN)/python -m pytest -rs tests/migration

bench: setup
	$(BIN)/python -m tests.bench

# The stubs are committed; tests/tidy/test_generated.py says when they are out of date.
proto: setup
	$(BIN)/python -m grpc_tools.protoc -Iproto --python_out=client --pyi_out=client --grpc_python_out=client proto/leveret/v1/*.proto
	$(BIN)/python -m grpc_tools.protoc -Iproto --python_out=. --pyi_out=. proto/node/peers/*.proto

# docs/formats.md comes from the modules that define the formats; tests/tidy/test_formats.py says when it is out of date.
docs: setup
	$(BIN)/python -m tests.tidy.formats

clean:
	rm -rf $(VENV) build *.egg-info native/*.so
