#!/usr/bin/env bash
# Runs every measurement of docs/benchmarks.md. Ratios are of values from one run.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --build --preset release --target agent_bench session_plans symbol_bench unit_commands -- --quiet
python=.venv/bin/python
libraries=$("$python" -c 'import os, torch; print(os.path.join(os.path.dirname(torch.__file__), "lib"))')
modules=("$libraries"/lib{torch_cpu,torch_python,c10}.so)
printf '== The whole command, against Python alone\n'
"$python" bench/whole_command.py
printf '\n== A 1 us add under probes, against torch.profiler\n'
"$python" bench/add_overhead.py build
printf '\n== A program under optrace, against torch.profiler\n'
"$python" bench/tracing.py build
printf '\n== Whole programs under optrace run, against the programs alone\n'
"$python" bench/programs.py build
printf '\n== The tests of a file of PyTorch under optrace run, against the tests alone\n'
"$python" -B tests/pytorch_tests/run_pytorch_tests.py --python .venv/bin/python \
  --source "$(setup/fetch-source.sh)" nn/test_convolution
printf '\n== Recording what functions returned, against the same run without\n'
"$python" bench/decisions.py build/optrace "$python"
printf '\n== A step outside of a window, against the same step without optrace\n'
"$python" bench/window.py build
printf '\n== Steps with a record of their tensors, against the same steps without\n'
"$python" bench/tensors.py build
printf '\n== Attaching to a running process, beside py-spy dump and memray attach\n'
setup/install-packages.sh bench/packages.txt
"$python" -m pip install --quiet --disable-pip-version-check --upgrade --target build/bench-tools \
  --requirement bench/requirements.txt
PYTHONPATH=build/bench-tools "$python" -u bench/attach.py build/optrace build/bench-tools
printf '\n== Dry runs, against the CPU\n'
"$python" bench/dry_run.py build/optrace
printf '\n== Checking and comparing traces of a million events, beside reading those of torch.profiler\n'
OPTRACE_PYTHON=$python "$python" bench/traces.py build/optrace
printf '\n== Each format of a report, beside reading torch.profiler'"'"'s trace\n'
OPTRACE_PYTHON=$python "$python" bench/formats.py build/optrace
printf '\n== The interactive page of 500,000 paths, beside reading its data in Python\n'
OPTRACE_PYTHON=$python "$python" bench/html_page.py build/optrace
printf '\n== Reports of 1,024 ranks, and merging their traces\n'
PYTHONPATH=build/bench-tools "$python" bench/ranks.py build/optrace
printf '\n== One probe, against a call that takes a number from a shared counter\n'
build/agent_bench build/lib/optrace/liboptrace_agent.so build/tests/agent/libprobe_targets.so
printf '\n== Plans and names, against addr2line\n'
build/symbol_bench "${modules[@]}"
printf '\n== Looking things up in the index, whole processes\n'
"$python" bench/lookups.py build/optrace
printf '\n== Indexing, against clangd-19 (about ten minutes)\n'
setup/install-packages.sh bench/packages.txt
"$python" bench/indexing.py build "$(setup/fetch-source.sh)"
