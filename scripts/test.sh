#!/usr/bin/env bash
# Runs the tests, slowest last, and closes with one line: N passed, N failed, N skipped.
# A step that cannot run here is skipped visibly, and counted; a step that fails does not hide those after it.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

results=$(mktemp)
trap 'rm -f "$results"' EXIT
steps_passed=0
steps_failed=0
failed_steps=
steps_skipped=0

skip() {
  skipped "$*"
  steps_skipped=$((steps_skipped + 1))
}

fail() {
  local line
  printf -v line 'FAILED: %s\n' "$1"
  printf '%s' "$line"
  failed_steps+=$line
  steps_failed=$((steps_failed + 1))
}

# Shows cargo's output while it keeps the results; cargo's own progress goes to the terminal untouched.
run_tests() { # run_tests NAME COMMAND...
  local name=$1 before after
  shift
  before=$(count failed)
  if "$@" | tee -a "$results"; then return; fi
  after=$(count failed)
  # A failed test is counted as such; what fails beside tests (a build, a crash) is counted here.
  [[ $after -gt $before ]] || fail "$name"
}

# The sum of the numbers before this word in cargo's lines "test result: ok. 12 passed; 0 failed; 1 ignored; ..."
count() { awk -v word="$1;" '/^test result:/ { for (i = 2; i <= NF; i++) if ($i == word) sum += $(i - 1) }
  END { print sum + 0 }' "$results"; }

# What failed, once more at the end, where it is read: each test with where and why it panicked, then the steps.
name_failed_tests() {
  awk '/^---- .* stdout ----$/ { name = $2 }
    name && /panicked at/ { sub(/.*panicked at /, ""); place = $0; next }
    name && place { why[name] = why[name] " " place " " $0; place = "" }
    /^failures:$/ { delete failed; count = 0; next }
    /^    [^ ]+$/ { failed[++count] = $1 }
    /^test result:/ { for (i = 1; i <= count; i++) print "FAILED: " failed[i] why[failed[i]]
      delete failed; delete why; count = 0; name = "" }' "$results"
  printf '%s' "$failed_steps"
}

build_for_wasm() {
  heading "The pure crates build without an operating system (wasm32)"
  if has_std wasm32-unknown-unknown; then
    RUSTFLAGS="-D warnings" cargo build --locked --target wasm32-unknown-unknown \
      -p byway-units -p byway-code -p byway-wire -p byway-proto -p byway-sim -p byway-plan -p byway-plot -p byway-sched -p byway-state -p byway-view || fail "wasm32"
    RUSTFLAGS="-D warnings" cargo build --locked --target wasm32-unknown-unknown -p byway-client --no-default-features ||
      fail "wasm32, the client"
  else
    skip "this Rust has no wasm32-unknown-unknown; with rustup: rustup target add wasm32-unknown-unknown"
  fi
}

document() {
  heading "Documentation"
  RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --locked || fail "documentation"
}

test_neon() {
  heading "The NEON engine (aarch64, emulated)"
  local emulator linker=aarch64-linux-gnu-gcc target=aarch64-unknown-linux-gnu
  emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || true
  if [[ $(uname -m) == aarch64 ]]; then
    echo "This processor has NEON: the tests below run on it."
  elif ! has_std $target; then
    skip "this Rust has no $target; with rustup: rustup target add $target"
  elif [[ -z $emulator ]] || ! has $linker; then
    skip "needs Debian's packages qemu-user-static, gcc-aarch64-linux-gnu and libc6-dev-arm64-cross"
  else
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$linker \
      CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$emulator -L /usr/aarch64-linux-gnu" \
      run_tests "NEON" cargo test --locked -p byway-code --test engines --target $target
  fi
}

test_here() {
  heading "Tests"
  # Those of other systems, too: a test looks at what crates depend on, and says so if they are not there.
  cargo fetch --locked || true
  run_tests "tests" cargo test --locked --no-fail-fast
}

# Of its own, because it builds QUIC libraries: nothing else has them.
test_quic() {
  heading "QUIC libraries with network state"
  run_tests "QUIC" cargo test --locked -p byway-quic --all-features --no-fail-fast
}

# The version before this one, built anew unless target/previous has it.
test_versions() {
  heading "The version before beside this one"
  local reason program
  if ! reason=$(scripts/previous.sh --check); then
    skip "two versions beside each other: $reason"
  elif ! has_lab; then
    skip "two versions beside each other: needs root, and /dev/net/tun"
  elif program=$(scripts/previous.sh); then
    BYWAY_PREVIOUS=$program run_tests "versions" cargo test --locked -p byway --test versions -- --test-threads=1
  else
    fail "the build of the version before"
  fi
}

# The program that the tests have just built, as in docs/guide.md: an agent at home behind a NAT, and another.
test_nats() {
  heading "Two agents behind NATs, in network namespaces"
  local mode reason
  for mode in static managed; do
    if ! reason=$(scripts/try_nats.sh --check); then
      skip "NATs, $mode: $reason"
    elif scripts/try_nats.sh "${CARGO_TARGET_DIR:-target}/debug/byway" "$mode"; then
      steps_passed=$((steps_passed + 1))
    else
      fail "NATs, $mode"
    fi
  done
}

has_lab() { unshare --net true 2>/dev/null && [[ -c /dev/net/tun ]]; }

# The lab's tests are among cargo's, which cannot say what they left out.
say_if_no_lab() {
  has_lab || skip "the lab with real programs: needs root, and /dev/net/tun"
}

say_if_no_iptables() {
  has iptables || skip "packets that rules of the firewall choose: needs iptables"
}

say_if_no_compiler_of_c() {
  has cc || skip "the library's example in C: needs a C compiler, Debian's package gcc"
}

say_if_no_bpf_compiler() {
  if ! has clang-14 || [[ ! -e /usr/include/linux/bpf.h ]]; then
    skip "the program for the kernel, compiled again: needs Debian's packages clang-14 and linux-libc-dev"
  fi
}

say_if_no_image_decoder() {
  has opj_compress && has opj_decompress ||
    skip "windows of images, decoded by another program: needs Debian's package libopenjp2-tools"
}

build_for_wasm
document
test_neon
test_here
test_quic
test_versions
say_if_no_lab
say_if_no_iptables
say_if_no_compiler_of_c
say_if_no_bpf_compiler
say_if_no_image_decoder
test_nats

name_failed_tests
failed=$(($(count failed) + steps_failed))
printf '\n%d passed, %d failed, %d skipped\n' $(($(count passed) + steps_passed)) "$failed" $(($(count ignored) + steps_skipped))
[[ $failed -eq 0 ]]
