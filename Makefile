# make run      set up and run the first example, with its annotated source
# make test     set up and run every test
# make lint     ruff and pyright over the Python, tsc and eslint over the extension
# make sanitize a sample of the tests under AddressSanitizer and other checkers of memory
# make editor   a real VS Code in the browser with the extension and the examples
# make vsix     package the extension
# make release REPOSITORY=URL   wheel and extension as they are published, with the address of their repository
# make test-tritons  kernels for a GPU, built by every Triton that is served; needs no GPU
# make test-matrix   the suite's core on every CPython and torch that can be had here, or on INTERPRETERS; writes the README's table

PYTHON ?= python3.11
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
# One more than there are cores: many tests wait for programs that they have started.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

# Many tests start processes: where nothing keeps bytecode each compiles the engine anew, which takes longer than all else it does.
unexport PYTHONDONTWRITEBYTECODE

# Not first, so that `make` alone runs the example.
all: run

include extension/editor.mk

.PHONY: all style run test test-python bench lint sanitize test-matrix test-tritons release clean

run: $(READY)
	$(PY) -m dynascope run examples/quickstart.py

test: test-python test-extension test-editor

test-python: $(READY)
	$(PY) -m pytest -n $(WORKERS) --dist loadfile tests --ignore=tests/editor

test-matrix:
	$(PYTHON) tests/matrix.py $(addprefix --interpreter ,$(INTERPRETERS))

test-tritons: $(READY)
	$(PYTHON) tests/matrix.py --tritons $(abspath $(PY))

style: $(READY)
	$(PY) -m ruff check engine server tests bench examples

lint: style $(NODE_MODULES)
	npm run --silent lint-python -- --pythonpath $(abspath $(PY))
	npm run --silent check
	npm run --silent lint

sanitize: $(READY)
	$(PY) tests/sanitize.py

bench: $(READY)
	$(PY) bench/overhead.py && $(PY) bench/first_call.py && $(PY) bench/startup.py

$(READY): pyproject.toml constraints.txt
	command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is missing; name another with PYTHON=..." >&2; exit 1; }
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[development]'
	$(PY) -c "from dynascope.frame import hook; hook.is_native()"
	touch $@

# Of the last commit. The address is asked for, because the tree names none.
release: $(NODE_MODULES)
	@test -n "$(REPOSITORY)" || { echo "make: REPOSITORY=https://... is missing, the address that indexes link to" >&2; exit 1; }
	rm -rf .build/release
	$(PYTHON) release.py $(REPOSITORY) .build/release
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .build/release
	ln -s $(abspath node_modules) .build/release/node_modules
	$(MAKE) -C .build/release -o node_modules/.package-lock.json PYTHON=$(PYTHON) dist/dynascope.vsix
	cp .build/release/dist/dynascope.vsix dist/

clean:
	rm -rf $(VENV) .build dist out artefacts
