#!/usr/bin/env bash
# Runs a training step on an emulated H100, on a machine without a GPU, and checks that
# convolutions use cuDNN, and that nothing runs on or moves to the CPU unasked:
#
#     ./dry_run.sh
set -euo pipefail
cd "$(dirname "$0")"
optrace run --dry-run=h100 --trace dry_run.trace -o dry_run.txt training_step.py
optrace check dry_run.trace --expect 'conv2d@cuda uses cudnn' --expect 'no failure' \
  --expect 'no fallback to CPU' --expect 'no implicit copy'
