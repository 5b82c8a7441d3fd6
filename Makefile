# make demo   a real training on this machine, no SSH, no GPU needed
# make test   lint, types and all tests, the simulated hosts included
# make fast   the tests that need no simulated hosts, no training and no real runs: for between two edits
# make lowest the transports with the lowest versions that pyproject.toml allows, in a venv of their own
# make lint   format, lint, types and the words of docs, messages and comments alone
# make docs   the documentation site, into build/site; links that lead nowhere end it
# make soak   100 launches for each way to end a client at a random moment, and a long Slurm; EACH=5 SEED=1 for less, or the same again
# make test-gpu  the suite for a machine with an NVIDIA GPU, in ten minutes, without network (docs/hardware/README.md); OUT=DIR CASES='facts nan'
# make soak-deep  the deep checks over simulated hosts, 50 times for each fault; EACH=2 ONLY='slow link'
# make fuzz   ten minutes of odd inputs at each door of tests/fuzz; FUZZ_S=60, SEED=7, DOORS='logs yaml', INPUT=FILE
# make bench  the short form of every benchmark that has a goal, as a table; build/bench.md keeps it
# make coverage  branch coverage of the tests of make fast; MARK="not lab" for more of them
# make mutants   how many small changes of the code its tests notice; ONLY='gpu_assignment leftovers' SAMPLE=300 SEED=2 JOBS=4
# Each makes its own .venv and installs what it needs, or says in one line what to type.

unexport PYTHONDONTWRITEBYTECODE  # the tests start some thousand processes: each would compile everything again
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: bench tools soak-deep demo test check lint suite fast coverage mutants fuzz lowest docs soak clean test-gpu

demo: $(VENV)/.train
	$(BIN)/gpulaunch run --config paper_r64

test:
	@mkdir -p build && : > build/phases
	@$(MAKE) --no-print-directory -j 2 tools $(VENV)/.dev && $(MAKE) --no-print-directory check; status=$$?; \
	  cat build/phases; rm build/phases; exit $$status

# Beside pip: both mostly wait for the network. Python's venv comes first, because it may need the packager too.
tools: | $(BIN)/python
	@.ci/timed tools .ci/lab-tools

# What `test` runs once everything is installed.
check: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j 2 lint suite

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	.ci/timed mypy $(BIN)/mypy
	$(BIN)/python .ci/check-prose

suite: $(VENV)/.dev
	@FUZZ_S=$(or $(FUZZ_S),1) EXAMPLES=$(or $(EXAMPLES),100) .ci/timed suite .ci/run-suite $(BIN)/python

fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz.fuzz $(if $(INPUT),--input $(INPUT),--seconds $(or $(FUZZ_S),600) $(if $(SEED),--seed $(SEED)) $(DOORS))

# Properties are tried on 25 inputs here, on up to 100 by `test`, and on up to 1,000 by `make test EXAMPLES=1000`.
fast: $(VENV)/.dev
	FUZZ_S=0 EXAMPLES=25 $(BIN)/python -m pytest -q -n 3 --dist loadfile -m "not lab and not train and not slow"

# A row that is behind its goal is no failure here: other work of the machine may be the reason.
bench: $(VENV)/.dev
	@mkdir -p build
	-$(BIN)/python -m bench --short > build/bench.md
	@cat build/bench.md

coverage: $(VENV)/.dev
	rm -rf build/coverage && mkdir -p build/coverage
	-FUZZ_S=0 $(BIN)/python -m coverage run -m pytest -q -n 3 --dist loadfile -m "$(or $(MARK),not lab and not train and not slow)"
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report --skip-covered --sort=cover

mutants: $(VENV)/.dev
	$(BIN)/python -m tests.mutants.run $(ONLY) --sample $(if $(ONLY),0,$(or $(SAMPLE),300)) $(if $(SEED),--seed $(SEED)) --jobs $(or $(JOBS),1)

lowest: | $(BIN)/python
	$(BIN)/python .ci/lowest-versions .lowest

# Without --quiet: it keeps the warnings from --strict, which counts them.
docs: $(VENV)/.docs
	$(BIN)/python .ci/stage-docs build/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "written: build/site/index.html"

soak: $(VENV)/.dev tools
	$(BIN)/python -m tests.lab.soak --each $(or $(EACH),100) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m pytest -q tests/lab/soak_slurm.py tests/lab/soak_slurm_settings.py tests/lab/soak_commands.py

# With the torch of the machine: nothing is installed.
test-gpu:
	@.ci/test-gpu $(BIN)/python $(PYTHON) -- --out $(or $(OUT),docs/hardware) $(if $(LIMIT),--limit $(LIMIT)) $(CASES)

soak-deep: $(VENV)/.dev tools
	$(BIN)/python -m tests.lab.soak_deep --each $(or $(EACH),50) $(if $(ONLY),--only $(ONLY))

$(BIN)/python:
	@.ci/make-venv $(PYTHON) $(VENV)

$(VENV)/.train: pyproject.toml | $(BIN)/python
	@echo "installing gpulaunch and a training environment into $(VENV) (once; a few minutes)"
	@.ci/get-torch $(BIN)/python
	@$(PIP) install --no-compile -e '.[train]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "installing gpulaunch, a training environment and what its tests need into $(VENV) (once; a few minutes)"
	@.ci/timed torch .ci/get-torch $(BIN)/python
	@.ci/timed deepspeed .ci/get-deepspeed $(BIN)/python & .ci/timed packages $(PIP) install --no-compile -e '.[dev,train]'; status=$$?; wait; exit $$status
	@touch $@ $(VENV)/.train

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	@$(PIP) install -e '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) .lowest build/docs build/site output gpulaunch-runs .mypy_cache .ruff_cache .pytest_cache
