# Every target does its own set-up. `make test` and `make demo` need nothing but Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

ifneq ($(wildcard ../shared/data),)
export RPMODELS_DATA ?= $(abspath ../shared/data)
endif

.PHONY: setup demo test coverage lint docs bench soak soak-short mutants wheel clean

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	@touch $@

# The library and photographs of textures: enough for the demo.
$(VENV)/.library: $(VENV)/.created pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[textures]'
	@touch $@

# Every extra: tests, linters, documentation, data sets.
$(VENV)/.full: $(VENV)/.created pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[arena,textures,docs,dev]'
	@touch $@ $(VENV)/.library

setup: $(VENV)/.full

demo: $(VENV)/.library
	$(BIN)/rpmodels demo --out demo/report.html --force

test: setup lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not soak"

# The same tests with every line counted, which makes them a third slower.
coverage: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not soak" --cov --cov-report=term

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: setup
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

bench: setup
	$(BIN)/python benchmarks/discrete.py
	$(BIN)/python benchmarks/gpfa.py

soak: setup
	$(BIN)/python -m pytest -m soak

# What CI has time for: all of it but hosts in network namespaces, clusters and what is only longer.
soak-short: setup
	$(BIN)/python -m pytest -n 2 -m soak tests/test_wheel.py tests/test_report.py tests/test_scale.py tests/test_checkpoints.py

# Bugs written into the mathematical core one at a time: do the tests notice? The map takes as long as the tests.
mutants: setup
	$(BIN)/python benchmarks/mutants.py map
	$(BIN)/python benchmarks/mutants.py run --count 300 --floor 0.9 --out docs/results/mutants.json

wheel: setup
	$(BIN)/python -m build --wheel --no-isolation --outdir dist

clean:
	rm -rf $(VENV) demo dist docs/_build
