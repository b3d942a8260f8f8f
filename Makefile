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

.PHONY: setup run cluster test test-containers check fuzz mutants sim sim-long chaos bench proto docs clean

setup: $(STAMP)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(STAMP): $(BIN)/python pyproject.toml setup.py $(KERNELS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip setuptools wheel 'Cython>=3.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --editable '.[test,bench]'
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps raftos==0.2.6  # asks for a cryptography of 2016
	touch $@

# Options of `leveret serve` may be given: make run OPTIONS='--amqp 127.0.0.1:5673'.
run: setup
	$(BIN)/leveret serve --data-dir $(DATA) $(OPTIONS)

# Three nodes on this machine, with their data in ./var/cluster.
cluster: setup
	$(BIN)/leveret cluster --nodes 3 --data-dir var/cluster

test: setup
	$(BIN)/python -m pytest tests -q --numprocesses $(TEST_JOBS) --dist loadfile

# The cluster of deploy/compose.yaml. Where no container engine runs, one is installed and started: that needs root.
test-containers: setup
	$(BIN)/python -m tests.containers

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Mutated AMQP frames, others each time: tests/fuzz/amqp_frames.py.
fuzz: setup
	$(BIN)/python -m tests.fuzz.amqp_frames --frames 5000000 --seed "$$(date +%s)"

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

# Faults on clusters of real nodes while clients work: docs/chaos.md. As root, or some scenarios are left out.
chaos: setup
	$(BIN)/python -m tests.chaos

bench: setup
	$(BIN)/python -m tests.bench

# The stubs are committed; tests/tidy/test_generated.py says when they are out of date.
proto: setup
	$(BIN)/python -m grpc_tools.protoc -Iproto --python_out=client --pyi_out=client --grpc_python_out=client proto/leveret/v1/*.proto

# docs/formats.md comes from the modules that define the formats; tests/tidy/test_formats.py says when it is out of date.
docs: setup
	$(BIN)/python -m tests.tidy.formats

clean:
	rm -rf $(VENV) build *.egg-info native/*.so
