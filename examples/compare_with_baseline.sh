#!/usr/bin/env bash
# Fails a build if the ops, kernels or library calls of a program are no longer those of its
# baseline, with exit status 1 and the differences. After an intended change, and the first time:
#
#     ./compare_with_baseline.sh --update
#     ./compare_with_baseline.sh
set -euo pipefail
cd "$(dirname "$0")"
optrace compare 'run training_step.py' --baseline training_step.json "$@"
