#!/usr/bin/env bash
# Builds the program as it was at the commit that scripts/previous-version names, and prints the binary's path.
# Other projects' crates are taken from what tests have built, where that is the same.
#   scripts/previous.sh
#   scripts/previous.sh --check     says why that is not possible here, and fails if so
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

read -r commit <scripts/previous-version
target=${CARGO_TARGET_DIR:-$PWD/target}
folder=$target/previous
program=$folder/byway-$commit

if [[ -x $program ]]; then
  [[ ${1:-} == --check ]] || echo "$program"
  exit
fi
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
  echo "this clone has no commit $commit; with the network: git fetch --unshallow"
  exit 1
fi
[[ ${1:-} != --check ]] || exit 0

rm -rf "$folder"
mkdir -p "$folder/source" "$folder/target/debug"
git archive "$commit" | tar -x -C "$folder/source"
# As hard links, which take no space. Byway's own crates have the same names in both versions: they are built anew.
for part in deps build .fingerprint; do
  [[ -d $target/debug/$part ]] || continue
  cp -al "$target/debug/$part" "$folder/target/debug/"
  rm -rf "$folder/target/debug/$part/"*byway*
done
CARGO_TARGET_DIR=$folder/target cargo build --manifest-path "$folder/source/Cargo.toml" \
  --profile test --locked -p byway --bin byway >&2
mv "$folder/target/debug/byway" "$program"
rm -rf "$folder/source" "$folder/target"
echo "$program"
