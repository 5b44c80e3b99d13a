#!/usr/bin/env bash
# Runs the Rust that scripts/setup.sh has found or installed: scripts/cargo.sh ARGUMENTS, as for cargo.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
exec cargo "$@"
