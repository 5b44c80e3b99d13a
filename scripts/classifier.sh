#!/usr/bin/env bash
# Compiles the classifier of `byway link` for the kernel: scripts/classifier.sh [FILE], by default the committed one.
# Debian 12's clang 14 makes the same bytes everywhere; a test compares them with what is committed.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

folder=crates/byway/src/link
# Architectures differ in where their headers lie, not in what is compiled.
headers=/usr/include/$(uname -m)-linux-gnu
clang-14 --target=bpfel -mcpu=v2 -O2 -Wall -Wextra -Werror -Wno-implicit-fallthrough -fno-ident -isystem "$headers" \
  -c "$folder/classifier.c" -o "${1:-$folder/classifier.o}"
