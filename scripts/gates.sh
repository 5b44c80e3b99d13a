#!/usr/bin/env bash
# Holds the instruction counts of the coder and of the protocol core to their limits, where the gated engines can run.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

if [[ $(uname -m) != x86_64 ]]; then
  skipped "the gated engines are those of x86-64"
  exit 0
fi
scripts/setup.sh gates
use_rust
cargo bench -p byway-bench --bench instructions --bench protocol --bench routes --locked
