# shellcheck shell=bash
# What the other scripts share: the project's folder, the Rust they use and the words they print. Sourced, not run.

CDPATH="" cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." || exit

# The C kernels of a coder in the comparison are compiled for this very processor, as Byway's engines are chosen
# for it; whatever builds byway-bench has to agree on it, or everything is built again.
export RUST_REED_SOLOMON_ERASURE_ARCH=native

rust_needed=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
cargo_folder=${CARGO_HOME:-~/.cargo}/bin
typos_folder=$PWD/target/tools/typos
footage=$PWD/target/demo/bigbuckbunny.mp4

has() { command -v "$1" >/dev/null 2>&1; }

heading() { printf '\n== %s ==\n' "$*"; }

skipped() { printf 'SKIPPED: %s\n' "$*"; }

# version_at_least 1.96.0 1.89
version_at_least() { printf '%s\n' "$2" "$1" | sort --version-sort --check=quiet; }

# Whether rustc has the standard library of this target, or of this machine: has_std TARGET|"".
has_std() {
  local folder
  folder=$(rustc --print target-libdir ${1:+--target "$1"} 2>/dev/null) && compgen -G "$folder/libcore-*" >/dev/null
}

# An unfinished installation may have a rustc without its library: both are asked for.
rust_is_new_enough() {
  local tool
  for tool in cargo rustc; do
    # rustup would otherwise fetch a toolchain here, unannounced.
    [[ $(RUSTUP_AUTO_INSTALL=0 "$tool" --version 2>/dev/null) =~ ^$tool\ ([0-9.]+) ]] || return
    version_at_least "${BASH_REMATCH[1]}" "$rust_needed" || return
  done
  has_std ""
}

# rustup's default may be an old release while `stable` is new enough.
use_stable() {
  [[ $'\n'$(rustup toolchain list 2>/dev/null) == *$'\n'stable-* ]] || return
  export RUSTUP_TOOLCHAIN=stable
  rust_is_new_enough || { unset RUSTUP_TOOLCHAIN; return 1; }
}

# Puts a Rust that is new enough first in PATH: the one found there already, rustup's or the distribution's.
use_rust() {
  local path=$PATH choice
  for choice in "$path" "$cargo_folder:$path" "/usr/bin:$path"; do
    PATH=$choice
    if rust_is_new_enough || use_stable; then return; fi
  done
  PATH=$path
  return 1
}

rust_is_from_rustup() { has rustup && [[ $(rustc --print sysroot) == */toolchains/* ]]; }

PATH=$PATH:$cargo_folder:$typos_folder/bin
use_rust || true # scripts/setup.sh says what to do about it
