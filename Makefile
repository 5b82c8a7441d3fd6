# make demo   a real training on this machine, no SSH, no GPU needed
# make test   lint, types and all tests, the simulated hosts included
# Both make their own .venv and install what they need, or say in one line what to type.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: demo test check lint suite clean

demo: $(VENV)/.train
	$(BIN)/gpulaunch run --config paper_r64

test: $(VENV)/.dev
	@.ci/lab-tools
	@$(MAKE) --no-print-directory check

# What `test` runs once everything is installed.
check:
	@$(MAKE) --no-print-directory -j 2 lint suite

lint:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Three at a time, file by file in the order of tests/conftest.py: many tests mostly wait. What fails beside others
# is run again alone: some tests look at this whole machine, and some have deadlines.
suite:
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder || \
	  $(BIN)/python -m pytest --last-failed --last-failed-no-failures none

$(BIN)/python:
	@.ci/make-venv $(PYTHON) $(VENV)

$(VENV)/.train: pyproject.toml | $(BIN)/python
	@echo "installing gpulaunch and a training environment into $(VENV) (once; a few minutes)"
	@.ci/get-torch $(BIN)/python
	@$(PIP) install -e '.[train]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "installing gpulaunch, a training environment and what its tests need into $(VENV) (once; a few minutes)"
	@.ci/get-torch $(BIN)/python
	@$(PIP) install -e '.[dev,train]'
	@touch $@ $(VENV)/.train

clean:
	rm -rf $(VENV) output gpulaunch-runs .mypy_cache .ruff_cache .pytest_cache
