# The extension: its types, bundle, package, tests, and a real VS Code in the browser. Included by the Makefile, whose PY
# is a Python with torch once READY is made; packaging alone needs no torch and takes PYTHON.

EDITOR_PORT ?= 8123
VSIX := dist/dynascope.vsix
RIG := .build/rig

NODE_MODULES := node_modules/.package-lock.json
EXTENSION_SOURCES := $(shell find extension -type f) package.json tsconfig.json
PYTHON_SOURCES := $(shell find engine server -type f ! -path '*/__pycache__/*' ! -name '*.so' 2>/dev/null)

.PHONY: vsix editor test-extension test-editor report-types

vsix: $(VSIX)

$(NODE_MODULES): package-lock.json
	npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

$(VSIX): $(NODE_MODULES) $(EXTENSION_SOURCES) $(PYTHON_SOURCES) .vscodeignore
	rm -rf dist
	npm run --silent check
	npm run --silent build
	extension/build/python.sh $(PYTHON)
	extension/build/package.sh $@

# TypeScript types of the report, from its JSON Schema.
report-types: $(NODE_MODULES)
	npm run --silent types

test-extension: $(NODE_MODULES)
	npm run --silent check
	npm run --silent test

# A real VS Code in a real browser. Says why, and succeeds, on a machine without Chromium.
test-editor: $(VSIX) $(READY)
	tests/editor/run.sh $(VSIX) $(RIG) $(abspath $(PY))

editor: $(VSIX) $(READY)
	tests/editor/rig/setup.sh $(RIG)
	tests/editor/rig/serve.sh $(RIG) .build/editor $(VSIX) examples $(EDITOR_PORT) $(abspath $(PY))
