# Calls CMake and uv; `make help` lists the targets.
SHELL := /bin/bash
PYTHON ?= python3
export PYTHON
JOBS ?= $(shell nproc)

# ccache, where it is installed, serves later rebuilds and the test of `pip install`.
export CCACHE_DIR ?= $(CURDIR)/.setup/ccache
export CCACHE_NOHASHDIR = 1
export CCACHE_BASEDIR ?= $(CURDIR)/build
CONFIGURE = cmake $(if $(shell command -v ccache),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache) --preset

# Ninja, with an estimate of the time that is left. The recipe adds the word for a step that is done.
NINJA = setup/with-estimate.py

.PHONY: help run test verify check packages test-packages verify-packages interpreter setup reference product prebuilt wheel installed build compiled compiled-product newest newest-prebuilt pythons sanitize sanitized-build sanitized-first fuzz stress neighbours neighbours-venv pytorch-tests release-tests matrix bench sweep index docs docs-venv diagram format lint-venv lint analyze clean

help:
	@echo 'make run       set everything up and run optrace conv2d'
	@echo 'make test      set everything up and run the tests: unit tests, and end to end with two torches'
	@echo 'make verify    everything else that CI holds: sanitizers, lint, docs, long tests'
	@echo 'make check     the tests that find most mistakes: unit tests and a few traces'
	@echo 'make build     set everything up, build build/optrace, and put its module into .venv'
	@echo 'make prebuilt  the libraries for each released torch that make wheel packs'
	@echo 'make wheel     wheels for pip in dist/, for each CPython from 3.9 on that is found'
	@echo 'make pythons   environments of other Pythons with the reference torch, 1.5 GB each'
	@echo 'make sanitize  unit tests under AddressSanitizer and UndefinedBehaviorSanitizer'
	@echo 'make fuzz      every reader of hostile input under libFuzzer, FUZZ_SECONDS (60) each'
	@echo 'make stress    threads, forks, signals and libraries that come and go, traced for ten minutes; 500 attaches'
	@echo 'make neighbours  profilers, debuggers, event loops, servers and frameworks, traced'
	@echo 'make pytorch-tests  what PyTorch tests of itself, with and without optrace run, an hour or more'
	@echo 'make release-tests  the tests that take too long for make verify'
	@echo 'make matrix    the same workloads with every Python here and three versions of torch'
	@echo 'make bench     the measurements of docs/benchmarks.md'
	@echo 'make sweep     trace every op, module and optimizer of PyTorch (half an hour)'
	@echo 'make index     remake the shipped index from PyTorch source'
	@echo 'make docs      the documentation as a site, build-docs/index.html'
	@echo 'make diagram   draw docs/architecture.svg from docs/architecture.dot'
	@echo 'make format    format the C++ sources'
	@echo 'make lint      clang-format, clang-tidy, tsc, ruff, mypy and shellcheck over all files'
	@echo 'make analyze   the static analyser of clang over each C++ source, an hour or more'
	@echo 'make clean     remove what was built (not the virtual environments)'

packages:
	@setup/install-packages.sh

test-packages: packages
	@setup/install-packages.sh setup/packages-test.txt

verify-packages: test-packages
	@setup/install-packages.sh setup/packages-lint.txt

# An environment's Python, which is all that compiling needs of it.
interpreter: packages
	@setup/make-venv.sh .venv

# What `make run` traces.
reference: interpreter
	@COMPILE=torch setup/make-venv.sh .venv setup/requirements-reference.txt

# What the tests need besides.
setup: interpreter
	@setup/make-venv.sh .venv setup/requirements-reference.txt tests/requirements.txt \
	  tests/pytorch_tests/requirements.txt

newest: packages
	@setup/make-venv.sh .venv-newest setup/requirements-newest.txt

pythons: packages
	@setup/make-python-venvs.sh

compiled compiled-product: interpreter
	@[ -f build/build.ninja ] || $(CONFIGURE) release >/dev/null
	@$(NINJA) compiled cmake --build --preset release -- -j $(JOBS) \
	  $(if $(filter compiled-product,$@),product)

# $(call prebuild,VENV): what optrace has ready for the torch of an environment, or only its op agent.
PREBUILT = build/lib/optrace/prebuilt
prebuild = build/optrace-prebuild $(2) $(PREBUILT) $(1)/lib/python3*/site-packages/torch >/dev/null

# Downloads and builds run at the same time, since they need different resources.
installed: packages
	@$(MAKE) --no-print-directory -j 2 setup compiled
	@.venv/bin/python setup/install-module.py build

build: installed
	@$(call prebuild,.venv)

newest-prebuilt: installed newest
	@$(call prebuild,.venv-newest)

product: packages
	@$(MAKE) --no-print-directory -j 2 reference compiled-product
	@.venv/bin/python setup/install-module.py build
	@$(call prebuild,.venv,--op-agents)

# The same for every released torch, about ten minutes; their headers are downloaded.
prebuilt: product newest
	@UV_CACHE_DIR=.setup/uv-cache .venv/bin/python setup/make-prebuilt.py build

# One with the Python module for each CPython that is on this machine, and one without.
wheel: prebuilt
	@setup/make-venv.sh .venv-wheel setup/requirements-wheel.txt
	@.venv-wheel/bin/python setup/make-wheel.py build dist \
	  $(foreach version,3.9 3.10 3.11 3.12 3.13 3.14,$(shell setup/find-python.sh $(version)))

run: product
	@build/optrace conv2d

# `make test` needs only the sanitized programs that read files or run in other processes.
sanitized-build sanitized-first: interpreter test-packages
	@[ -f build-sanitize/build.ninja ] || $(CONFIGURE) sanitize >/dev/null
	@$(NINJA) 'compiled with sanitizers' cmake --build --preset sanitize --target \
	  $(if $(filter sanitized-first,$@),sanitized_first_tests,unit_tests) -- -j $(JOBS)

sanitize: setup sanitized-build
	@ctest --test-dir build-sanitize --output-on-failure -R '^unit: '

# Compiling doesn't wait for the packages that only tests need.
test: packages
	@$(MAKE) --no-print-directory -j 4 test-packages build newest-prebuilt sanitized-first
	@.venv/bin/python -B tests/run.py build -LE 'verify|release'

# UNTIL: the time in seconds since 1970 at which to stop; what was not run is listed.
UNTIL ?=
verify: packages
	@$(MAKE) --no-print-directory -j 5 verify-packages build newest-prebuilt sanitized-build lint-venv docs-venv
	@cmake --build --preset release -- -j $(JOBS) --quiet  # With the headers of the environments.
	@.venv/bin/python -B tests/run.py build -L verify $(if $(UNTIL),--until $(UNTIL))

# What most changes can break; `make test` has everything.
check: test-packages
	@$(MAKE) --no-print-directory build
	@.venv/bin/python -B tests/run.py build -L quick

# Runs the fuzzers one after another. Findings are in build-fuzz/found/, the grown corpus is in
# build-fuzz/corpus/.
FUZZ_SECONDS ?= 60
fuzz: test-packages
	@[ -f build-fuzz/build.ninja ] || $(CONFIGURE) fuzz >/dev/null
	@NINJA_STATUS='[%f of %t compiled for libFuzzer] ' \
	  cmake --build --preset fuzz --target fuzzers -- -j $(JOBS)
	@tests/fuzz/run.sh build-fuzz $(FUZZ_SECONDS) $(READERS)

stress: build
	@.venv/bin/python -B tests/stress/run_stress.py --python .venv/bin/python
	@.venv/bin/python -B -m pytest -p no:cacheprovider -q -m stress \
	  tests/end_to_end/programs/test_attach_often.py \
	  tests/end_to_end/programs/test_attach_programs.py

neighbours-venv: packages
	@setup/make-venv.sh .venv-neighbours setup/requirements-reference.txt tests/requirements.txt \
	  tests/neighbours/requirements.txt

neighbours: build neighbours-venv
	@.venv/bin/python -B tests/neighbours/run_neighbours.py --python .venv-neighbours/bin/python

pytorch-tests: build
	@setup/fetch-source.sh
	@.venv/bin/python -B tests/pytorch_tests/run_pytorch_tests.py \
	  --python .venv/bin/python --source .source/pytorch-2.6.0

release-tests: test-packages
	@$(MAKE) --no-print-directory -j 2 build newest-prebuilt
	@.venv/bin/python -B tests/run.py build -L release

matrix: build
	@.venv/bin/python -B tests/matrix/run_matrix.py $(MATRIX)

bench: build
	@bench/run.sh

sweep: build
	@.venv/bin/python -B tests/sweep/sweep.py --json build/sweep.json

index: build newest
	@setup/make-index.sh

docs-venv: packages
	@COMPILE=mkdocs setup/make-venv.sh .venv-docs setup/requirements-docs.txt

# Not --quiet, which hides warnings from --strict too.
docs: docs-venv
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

# Draws the diagram again after a change of its source; git does not keep the times of files.
diagram: packages
	@setup/install-packages.sh setup/packages-docs.txt
	@dot -Tsvg docs/architecture.dot -o docs/architecture.svg

format: packages
	@setup/install-packages.sh setup/packages-lint.txt
	@git ls-files '*.cpp' '*.h' | xargs clang-format-19 -i

lint-venv: verify-packages
	@COMPILE=mypy setup/make-venv.sh .venv-lint setup/requirements-lint.txt tests/requirements.txt

# The sources that are compiled on the user's machine are part of no other build.
lint: build newest lint-venv
	@cmake --build --preset release --target checked_at_build -- -j $(JOBS) $(if $(CI),,--quiet)
	@setup/lint.sh build

# What needs each C++ source alone; FILES names a few.
analyze: build newest lint-venv
	@.venv-lint/bin/python setup/clang-tidy.py --analyze $(FILES)

clean:
	rm -rf build build-docs build-sanitize dist
