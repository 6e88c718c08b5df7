#!/usr/bin/env bash
# Every measurement that the README shows, in one go. Ratios are within one run.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --build --preset release --target agent_bench plan_bench session_plans -- --quiet
python=.venv/bin/python
for op in conv2d add; do build/optrace "$op" >/dev/null; done  # Fills the cache of plans.
printf '== The whole command, against Python alone\n'
"$python" bench/whole_command.py
printf '\n== A 1 us add under probes, against torch.profiler\n'
"$python" bench/add_overhead.py build
printf '\n== Probes\n'
build/agent_bench
printf '\n== Symbols and plans\n'
build/plan_bench
