# Every check is defined here once; people, pre-commit and .ci/run call these targets.
# The two commands of the README, `make demo` and `make test`, set up what they need.

PYTHON ?= python3
# Environments: one for users, as light as the tool itself, one with the tools of development, and
# one with the oldest Dask that is supported.
VENV ?= .venv
DEV ?= .venv-dev
OLDEST ?= .venv-oldest
# Only for benchmarks: the peers with our versions of what they share with us, some newer than they
# allow, and rechunker with the last versions that it works with.
PEERS ?= .venv-peers
RECHUNKER ?= .venv-rechunker
# Tests wait for the disk half of the time, so there are more of them than cores.
PYTEST_ARGS ?= -n 4
# They start hundreds of interpreters, which would each compile everything again.
unexport PYTHONDONTWRITEBYTECODE
DEMO_ARGS ?=
# The tests of Dask and xarray that are run: quick, or all.
PART ?= quick
# The kind of file that is fuzzed, and for how long.
SUBJECT ?= zarr-3
SECONDS ?= 60
# The benchmark of the engine: bytes of each array, budgets, workloads and rounds; more in BENCH_ARGS.
SIZE ?= 2.5GiB
BUDGETS ?= 256MiB,1GiB,4GiB
WORKLOADS ?= a,b,c,d,e,f,g
REPEATS ?= 3
BENCH_ARGS ?=
# The commit, or folder, that `make bench` compares with, instead of the one that it finds.
BASE ?=
# The interpreters on which a release is tested, separated by commas.
PYTHONS ?= $(PYTHON)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test lint types contracts tests peer-suites slow fuzz release bench bench-engine bench-budgets bench-graph bench-zarr bench-hdf5 bench-climate bench-copies bench-volumes bench-slices bench-cluster bench-peers bench-processes experiments format docs house report report-picture lock env dev clean walk

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: env ## Install the tool, resplit an example array and write a report
	@$(VENV)/bin/dask-io demo --report dask-io-demo.html $(DEMO_ARGS)

test: lint types contracts tests peer-suites ## Run every check: lint, types, import contracts, tests

lint: dev ## Check style and format
	$(DEV)/bin/ruff check .
	$(DEV)/bin/ruff format --check .

types: dev ## Check types
	$(DEV)/bin/mypy

contracts: dev ## Check which module may import which
	$(DEV)/bin/lint-imports

tests: dev $(OLDEST)/linked ## Run the tests, those of graphs also on the oldest Dask
	$(DEV)/bin/pytest $(PYTEST_ARGS)
	$(OLDEST)/bin/pytest $(PYTEST_ARGS) tests/graph/test_shapes.py -k "by_threads or rechunk or p2p"

peer-suites: dev ## Run the tests of Dask and xarray with and without Dask IO: PART=quick or all
	$(DEV)/bin/python -m tests.peers --part $(PART)

slow: dev ## Run the long versions of the tests
	HYPOTHESIS_PROFILE=thorough $(DEV)/bin/pytest -m slow $(PYTEST_ARGS)

fuzz: dev ## Search for files that crash their readers: SUBJECT (see tests/fuzz), for SECONDS
	$(DEV)/bin/python -m tests.fuzz $(SUBJECT) -max_total_time=$(SECONDS)

release: dev ## Build dist/, and test the sdist, the wheel and each extra alone, on PYTHONS
	rm -rf dist
	$(DEV)/bin/hatchling build
	$(DEV)/bin/python -m tests.release --pythons $(PYTHONS)
	$(DEV)/bin/towncrier build --draft > dist/.changes.md
	@echo "dist/ can be published; dist/.changes.md is the entry for the changelog. See CONTRIBUTING.md."

bench: dev ## Compare with an earlier commit: what is slower, what makes other seeks; BASE, REPEATS
	$(DEV)/bin/python -m benchmarks.compare $(if $(BASE),--base $(BASE)) --repeats $(REPEATS) $(BENCH_ARGS)

bench-engine: dev ## Compare the engine with `cp -r`, the floor and memory maps; takes a few minutes per workload
	$(DEV)/bin/python -m benchmarks.engine --size $(SIZE) --budgets $(BUDGETS) --workloads $(WORKLOADS) --repeats $(REPEATS) $(BENCH_ARGS)
	$(DEV)/bin/python -m benchmarks.small_blocks --workloads npy-u1 --repeats $(REPEATS)

bench-budgets: dev ## Measure whether more memory is ever slower: 32 MiB to 1 GiB, `.npy` blocks and Zarr
	$(DEV)/bin/python -m benchmarks.budgets --repeats $(REPEATS) $(BENCH_ARGS)

bench-graph: dev ## Compare a Dask program with and without our plans; takes a few minutes
	$(DEV)/bin/python -m benchmarks.graph --repeats $(REPEATS) $(BENCH_ARGS)

bench-zarr: dev ## Compare Zarr to Zarr with the codec alone, `cp -r` and, for small chunks, TensorStore
	$(DEV)/bin/python -m benchmarks.zarr --repeats $(REPEATS) $(BENCH_ARGS)
	$(DEV)/bin/python -m benchmarks.small_blocks --workloads zarr-u2,zarr-u1,zarr-zstd --repeats $(REPEATS)

bench-hdf5: dev ## Compare HDF5 and .nii.gz with h5py and nibabel, and with the codec alone
	$(DEV)/bin/python -m benchmarks.hdf5 --repeats $(REPEATS) $(BENCH_ARGS)

bench-climate: dev ## Turn hourly maps into time series; compare with Dask and, with BENCH_ARGS, rechunker
	$(DEV)/bin/python -m benchmarks.climate $(BENCH_ARGS)

bench-copies: dev ## Measure copies from F to C order in memory, next to copies from C to C
	$(DEV)/bin/python -m benchmarks.copies $(BENCH_ARGS)

bench-volumes: dev ## Turn a NIfTI volume twenty times larger than the budget into Zarr and back
	$(DEV)/bin/python -m benchmarks.volumes $(BENCH_ARGS)

bench-slices: dev ## Turn a folder of TIFF slices into sharded OME-Zarr; compare with tifffile and zarr
	$(DEV)/bin/python -m benchmarks.slices $(BENCH_ARGS)

bench-peers: $(PEERS)/linked $(RECHUNKER)/linked ## Compare with everything that users run instead; about ten minutes, or BENCH_ARGS=--full
	$(PEERS)/bin/python -m benchmarks.peers --rechunker $(RECHUNKER)/bin/python $(BENCH_ARGS)

bench-cluster: dev $(PEERS)/linked ## Compare ways to rechunk on a Dask cluster: ours, p2p, tasks and cubed
	$(DEV)/bin/python -m benchmarks.cluster --repeats $(REPEATS) --cubed $(PEERS)/bin/python $(BENCH_ARGS)

bench-processes: dev ## Compare one process with threads with several processes, for many small blocks
	$(DEV)/bin/python -m benchmarks.processes --repeats $(REPEATS) $(BENCH_ARGS)

experiments: dev ## Run the experiments of docs/report.md; takes about a quarter of an hour
	$(DEV)/bin/python -m benchmarks.experiments $(BENCH_ARGS)

walk: dev ## List the functions from `dask-io resplit` to the first byte of array data
	$(DEV)/bin/python -m benchmarks.walk

format: dev ## Format the code and apply the fixes of ruff
	$(DEV)/bin/ruff check --fix-only .
	$(DEV)/bin/ruff format .

docs: dev ## Build the documentation
	$(DEV)/bin/sphinx-build -W --keep-going --quiet --builder html docs docs/_build/html
	@echo "docs/_build/html/index.html"

house: dev ## Draw the pictures of the documentation: the rooms of the package, the idea of a sweep
	$(DEV)/bin/python docs/house.py
	$(DEV)/bin/python docs/idea.py

report: dev ## Print docs/report.md as PDF, with Chromium
	$(DEV)/bin/python docs/report_pdf.py

report-picture: dev ## Take the picture of a report for the documentation, with Chromium
	$(DEV)/bin/python docs/report.py

env: $(VENV)/linked ## Set up the user's environment

dev: $(DEV)/linked ## Set up the development environment

# A changed lock makes the environment anew, so that nothing dropped from it stays behind.
$(VENV)/locked: requirements.lock
$(DEV)/locked: requirements-dev.lock
$(OLDEST)/locked: requirements-oldest.lock
$(VENV)/locked $(DEV)/locked $(OLDEST)/locked:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Dask IO needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) --version 2>/dev/null || echo not found); name another one: make PYTHON=python3.12" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "python3-venv is missing: install it, or name another Python: make PYTHON=python3.12" >&2; \
	  exit 1; }
	@echo "Setting up $(@D) from $< (once; takes a minute)" >&2
	@$(PYTHON) -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: --requirement $<
	@touch $@

# A changed pyproject.toml may have changed commands and entry points.
$(VENV)/linked $(DEV)/linked $(OLDEST)/linked: %/linked: %/locked pyproject.toml
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --editable .
	@touch $@

$(PEERS)/linked: requirements-dev.lock pyproject.toml
	@echo "Setting up $(@D), for benchmarks (once; takes a minute)" >&2
	@$(PYTHON) -m venv --clear $(@D)
	@sed -nE '/^(dask|distributed|h5py|nibabel|numcodecs|numpy|tensorstore|zarr)==/s/ *\\$$//p' $< > $(@D)/versions
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(@D)/versions \
	  --editable '.[all]' cubed==0.27.0 rechunkit==0.6.0 tensorstore zarrs==0.2.3
	@touch $@

$(RECHUNKER)/linked: Makefile
	@echo "Setting up $(@D), for a benchmark (once; takes a minute)" >&2
	@$(PYTHON) -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check \
	  rechunker==0.5.4 'dask[array]==2024.8.0' 'zarr<3' 'numcodecs<0.16' 'numpy<2'
	@touch $@

COMPILE = .venv-lock/bin/uv pip compile pyproject.toml --quiet --no-config --universal --upgrade \
  --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links

lock: ## Lock the newest versions of all dependencies
	@$(PYTHON) -m venv --clear .venv-lock
	@.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(COMPILE) --extra all --group build --output-file requirements.lock
	$(COMPILE) --extra all --group dev --output-file requirements-dev.lock
	$(COMPILE) --extra hdf5 --extra objects --extra zarr --group oldest --output-file requirements-oldest.lock
	@rm -rf .venv-lock

clean: ## Remove the environments and everything built
	rm -rf $(VENV) $(DEV) $(OLDEST) $(PEERS) $(RECHUNKER) .venv-lock dask-io-demo.html dist docs/_build .benchmarks .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find benchmarks src tests -name __pycache__ -type d -prune -exec rm -rf {} +
