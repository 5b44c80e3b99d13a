#!/usr/bin/env bash
# Checks what needs no run: format, spelling, lints, documentation, dependencies. Stops at the first complaint.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

# The advisories are on the network; without it, everything else is still checked.
check_advisories() {
  local log=target/tools/advisories.log
  mkdir -p target/tools
  if timeout 120 cargo deny --locked fetch db >"$log" 2>&1; then
    cargo deny --locked check --disable-fetch advisories
  else
    skipped "security advisories: their database cannot be fetched (see $log)"
  fi
}

heading "Format"
cargo fmt --all --check
cargo fmt --manifest-path fuzz/Cargo.toml --check

heading "Spelling"
typos

heading "Clippy"
# Features that bring QUIC libraries are no defaults.
cargo clippy --workspace --all-targets --features byway-quic/noq,byway-quic/quinn --locked -- -D warnings
# Tests that need another version's program are no default target.
cargo clippy -p byway --test versions --locked -- -D warnings

heading "Documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --features byway-quic/noq,byway-quic/quinn --locked

heading "Dependencies"
cargo deny --locked check bans licenses sources
check_advisories
