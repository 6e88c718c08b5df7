# Calls CMake and pip; `make help` lists the targets.
SHELL := /bin/bash
PYTHON ?= python3
export PYTHON
JOBS ?= $(shell nproc)

.PHONY: help run test packages setup build newest pythons sanitize sanitized-build fuzz stress neighbours pytorch-tests pytorch-tests-venv bench sweep index format lint-venv lint clean

help:
	@echo 'make run       set everything up and run optrace conv2d'
	@echo 'make test      set everything up and run all tests'
	@echo 'make build     set everything up, build build/optrace, and put its module into .venv'
	@echo 'make pythons   environments of other Pythons with the reference torch, 1.5 GB each'
	@echo 'make sanitize  unit tests under AddressSanitizer and UndefinedBehaviorSanitizer'
	@echo 'make fuzz      every reader of hostile input under libFuzzer, FUZZ_SECONDS (60) each'
	@echo 'make stress    threads, forks, signals and libraries that come and go, traced for ten minutes'
	@echo 'make neighbours  profilers, debuggers, event loops, servers and frameworks, traced'
	@echo 'make pytorch-tests  what PyTorch tests of itself, with and without optrace run, an hour or more'
	@echo 'make bench     the measurements of the README'
	@echo 'make sweep     trace every op, module and optimizer of PyTorch (half an hour)'
	@echo 'make index     remake the shipped index from PyTorch source'
	@echo 'make format    format the C++ sources'
	@echo 'make lint      clang-format, clang-tidy, ruff, mypy and shellcheck over all files'
	@echo 'make clean     remove what was built (not the virtual environments)'

packages:
	@setup/install-packages.sh

setup: packages
	@setup/make-venv.sh .venv setup/requirements-reference.txt tests/requirements.txt

newest: packages
	@setup/make-venv.sh .venv-newest setup/requirements-newest.txt

pythons: setup
	@setup/make-python-venvs.sh

build: setup
	@[ -f build/build.ninja ] || cmake --preset release >/dev/null
	@cmake --build --preset release -- -j $(JOBS) $(if $(CI),,--quiet)
	@.venv/bin/python setup/install-module.py build

run: build
	@build/optrace conv2d

sanitized-build: packages
	@[ -f build-sanitize/build.ninja ] || cmake --preset sanitize >/dev/null
	@cmake --build --preset sanitize --target unit_tests -- -j $(JOBS) $(if $(CI),,--quiet)

sanitize: setup sanitized-build
	@OPTRACE_TEST_PYTHON=$(CURDIR)/.venv/bin/python build-sanitize/unit_tests

# Downloads and builds run at the same time, since they need different resources.
test:
	@$(MAKE) --no-print-directory -j 3 build newest sanitized-build pytorch-tests-venv lint-venv
	@cmake --build --preset release --target checked_at_build -- -j $(JOBS) $(if $(CI),,--quiet)
	@setup/lint.sh build --seconds 60
	@ctest --test-dir build --output-on-failure -j $(JOBS)
	@build/optrace source check --least 99.5

# Runs the fuzzers one after another. Findings are in build-fuzz/found/, the grown corpus is in
# build-fuzz/corpus/.
FUZZ_SECONDS ?= 60
fuzz: packages
	@setup/install-packages.sh setup/packages-fuzz.txt
	@[ -f build-fuzz/build.ninja ] || cmake --preset fuzz >/dev/null
	@cmake --build --preset fuzz --target fuzzers -- -j $(JOBS) $(if $(CI),,--quiet)
	@tests/fuzz/run.sh build-fuzz $(FUZZ_SECONDS) $(READERS)

stress: build
	@.venv/bin/python -B tests/stress/run_stress.py --python .venv/bin/python

neighbours: build
	@BASE=.venv setup/make-venv.sh .venv-neighbours tests/neighbours/requirements.txt
	@.venv/bin/python -B tests/neighbours/run_neighbours.py --python .venv-neighbours/bin/python

pytorch-tests-venv: setup
	@BASE=.venv setup/make-venv.sh .venv-pytorch-tests tests/pytorch_tests/requirements.txt

pytorch-tests: build pytorch-tests-venv
	@setup/fetch-source.sh
	@.venv/bin/python -B tests/pytorch_tests/run_pytorch_tests.py \
	  --python .venv-pytorch-tests/bin/python --source .source/pytorch-2.6.0

bench: build
	@bench/run.sh

sweep: build
	@.venv/bin/python -B tests/sweep/sweep.py --json build/sweep.json

index: build
	@setup/make-index.sh

format: packages
	@setup/install-packages.sh setup/packages-lint.txt
	@git ls-files '*.cpp' '*.h' | xargs clang-format-19 -i

lint-venv: packages
	@setup/install-packages.sh setup/packages-lint.txt
	@setup/make-venv.sh .venv-lint setup/requirements-lint.txt tests/requirements.txt

# The sources that are compiled on the user's machine are part of no other build.
lint: build newest lint-venv
	@cmake --build --preset release --target checked_at_build -- -j $(JOBS) $(if $(CI),,--quiet)
	@setup/lint.sh build

clean:
	rm -rf build build-sanitize
