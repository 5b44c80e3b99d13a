#!/usr/bin/env bash
# Builds and runs the fuzzers for a stated time each, and adds what they found to the committed corpora.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

usage() {
  cat <<'END'
Usage: scripts/fuzz.sh [OPTIONS] [TARGET...]

Builds the fuzzers with stand-ins for ciphers and runs each target for some time, all of them if none is named.
Inputs that reach new code are added to fuzz/corpus/TARGET; all others that a run kept stay in fuzz/target/found/TARGET,
where the next run goes on. Ends with 1 if a target fails, naming the input and how to run it again.

  --seconds N   how long each target runs [60]
  --jobs N      processes of each target at once [1]
  --coverage    run no fuzzer, but measure which lines and regions of Byway's core the committed corpora reach
END
}

# The most that a committed corpus may take: nine of them are part of every clone, and `make test` replays them.
corpus_bytes_max=150000

# Longer inputs take longer and seldom reach more: what the committed corpora reach, inputs of 350 bytes do.
input_bytes_max=512

refuse() {
  echo "fuzz.sh: $1" >&2
  exit 2
}

seconds=60 jobs=1 mode=fuzz targets=()
while (($#)); do
  case $1 in
    --help) usage && exit ;;
    --coverage) mode=coverage && shift ;;
    --seconds | --jobs)
      [[ ${2:-} =~ ^[1-9][0-9]{0,5}$ ]] || refuse "$1 ${2:-}: give a whole number above zero"
      [[ $1 == --seconds ]] && seconds=$2 || jobs=$2
      shift 2
      ;;
    --*) refuse "$1: unknown option; see --help" ;;
    *)
      [[ -d fuzz/corpus/$1 ]] || refuse "$1: no such target; fuzz/corpus has $(cd fuzz/corpus && echo *)"
      targets+=("$1") && shift
      ;;
  esac
done
((${#targets[@]})) || mapfile -t targets < <(ls fuzz/corpus)

host=$(uname -m)-unknown-linux-gnu
binaries=fuzz/target/$host/release

# Comparisons are not traced: that takes half of the time, and inputs are choices, not the values that are compared.
build() {
  heading "Build"
  cargo +nightly fuzz build --sanitizer none --no-trace-compares
}

corpus_bytes() { cat "fuzz/corpus/$1"/* | wc -c; }

count() { find "$1" -type f | wc -l; }

# Exits as the fuzzer does; its progress goes to the terminal and to a log.
run() { # run TARGET
  local found=fuzz/target/found/$1 artifacts=fuzz/artifacts/$1 log=fuzz/target/$1.log arguments=()
  mkdir -p "$found" "$artifacts"
  heading "$1: $seconds s, $(count "fuzz/corpus/$1") committed inputs, $(count "$found") of earlier runs"
  arguments=(-max_len=$input_bytes_max -entropic_scale_per_exec_time=1 -rss_limit_mb=1024 -malloc_limit_mb=128 -timeout=20)
  ((jobs == 1)) || arguments+=(-fork="$jobs")
  "$binaries/$1" "${arguments[@]}" -max_total_time="$seconds" -print_final_stats=1 \
    -artifact_prefix="$artifacts/" "$found" "fuzz/corpus/$1" 2>&1 | tee "$log" | show_progress
}

# A line every few seconds instead of one for each new input; whatever is no progress is shown at once.
show_progress() {
  awk '/^#[0-9]+.*(NEW|REDUCE|RELOAD|pulse)/ { if (systime() < next_at) next; next_at = systime() + 5 }
    /^###### Recommended/, /^###### End/ { next }
    /^(INFO|WARNING|stat::(new|slowest|peak))|NEW_FUNC/ { next }
    { print; fflush() }'
}

report() { # report TARGET
  local artifact
  artifact=$(find "fuzz/artifacts/$1" -type f -printf '%T@ %p\n' | sort -n | tail -1 | cut -d' ' -f2)
  echo
  echo "FAILED: $1, see fuzz/target/$1.log"
  [[ -n $artifact ]] || return 0
  echo "  input:        $artifact"
  echo "  run it again: cargo +nightly fuzz run --sanitizer none $1 $artifact"
  echo "  make it short: cargo +nightly fuzz tmin --sanitizer none $1 $artifact"
}

# Adds inputs that reach code which no committed one reaches; how often each branch is taken does not count.
grow() { # grow TARGET
  local before chosen=fuzz/target/chosen/$1 input bytes
  before=$(count "fuzz/corpus/$1")
  rm -rf "$chosen" && mkdir -p "$chosen"
  cp "fuzz/corpus/$1"/* "$chosen"
  "$binaries/$1" -merge=1 -use_counters=0 -max_len=$input_bytes_max -rss_limit_mb=1024 -timeout=20 \
    "$chosen" "fuzz/target/found/$1" >"fuzz/target/$1-merge.log" 2>&1 || return
  bytes=$(corpus_bytes "$1")
  for input in "$chosen"/*; do
    [[ ! -e fuzz/corpus/$1/${input##*/} ]] || continue
    bytes=$((bytes + $(stat -c %s "$input")))
    if ((bytes > corpus_bytes_max)); then
      echo "fuzz/corpus/$1 is full: more inputs reach new code, see $chosen; remove some with cargo fuzz cmin"
      break
    fi
    cp "$input" "fuzz/corpus/$1/"
  done
  echo "fuzz/corpus/$1: $before inputs before, $(count "fuzz/corpus/$1") now, $(corpus_bytes "$1") bytes of $corpus_bytes_max"
}

fuzz() {
  local target failed=()
  build
  for target in "${targets[@]}"; do
    if run "$target"; then
      grow "$target"
    else
      failed+=("$target")
      report "$target"
    fi
  done
  ((${#failed[@]} == 0)) || { echo && echo "FAILED: ${failed[*]}" && exit 1; }
}

# --- coverage ---------------------------------------------------------------------------------------------

# A row of docs/fuzzing.md.
row() { # row NAME PROFILE BINARY...
  local objects=()
  mapfile -t objects < <(printf -- '-object\n%s\n' "${@:3}")
  "$tools/llvm-cov" export --summary-only --instr-profile "$2" "${objects[@]}" | scripts/fuzz_coverage.py "$1"
}

coverage() {
  local target tools profiles=() binaries=() rows=()
  tools=$(rustc +nightly --print sysroot)/lib/rustlib/$host/bin
  for target in "${targets[@]}"; do
    heading "$target: build with coverage, and replay"
    cargo +nightly fuzz coverage --sanitizer none "$target" >"fuzz/target/$target-coverage.log" 2>&1 ||
      { tail -20 "fuzz/target/$target-coverage.log" && exit 1; }
    profiles+=("fuzz/coverage/$target/coverage.profdata")
    binaries+=("target/$host/coverage/$host/release/$target")
    rows+=("$(row "$target" "${profiles[-1]}" "${binaries[-1]}")")
  done
  "$tools/llvm-profdata" merge --sparse "${profiles[@]}" --output fuzz/coverage/all.profdata
  printf '\n| target | code | wire | proto/agent | proto/relay | proto/session | proto/parts | state | view |\n|---|---|---|---|---|---|---|---|---|\n'
  printf '%s\n' "${rows[@]}" "$(row all fuzz/coverage/all.profdata "${binaries[@]}")"
}

scripts/setup.sh fuzz
$mode
