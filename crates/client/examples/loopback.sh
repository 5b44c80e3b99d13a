#!/usr/bin/env bash
# Two relays on this machine, and what the examples `call` need to use them: keys and network.txt, in the folder that is named.
# Ends with Ctrl-C.
set -euo pipefail
folder=${1:?say: loopback.sh FOLDER [PATH-OF-byway]}
byway=${2:-byway}
mkdir -p "$folder"
cd "$folder"

for name in east west alice bob; do
  [[ -e $name.key ]] || "$byway" keygen "$name.key" >"$name.public"
done

public() { grep -oE '[0-9a-f]{64}' "$1.public"; }

cat >network.txt <<END
relay east 1 $(public east) 127.0.0.1:4600
relay west 2 $(public west) 127.0.0.1:4601
agent alice 1 $(public alice) 127.0.0.1:4610 east
agent bob 2 $(public bob) 127.0.0.1:4611 west
pair alice bob
END

awk '
  $1 == "relay" { printf "[[network.relays]]\nname = \"%s\"\nnumber = %s\nkey = \"%s\"\naddresses = [\"%s\"]\n", $2, $3, $4, $5 }
  $1 == "agent" { printf "[[network.agents]]\nname = \"%s\"\nnumber = %s\nkey = \"%s\"\naddresses = [\"%s\"]\nrelays = [\"%s\"]\n", $2, $3, $4, $5, $6 }
  $1 == "pair" { printf "[[network.pairs]]\nagents = [\"%s\", \"%s\"]\n", $2, $3 }
' network.txt >network.toml

relay() { # relay NAME PORT PORT-FOR-STATUS
  printf '[relay]\nname = "%s"\nkey_file = "%s.key"\nlisten = ["127.0.0.1:%s"]\n[observe]\nlisten = "127.0.0.1:%s"\n' \
    "$1" "$PWD/$1" "$2" "$3" | cat - network.toml >"$1.toml"
  "$byway" relay --config "$1.toml" &
}

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
relay east 4600 4690
relay west 4601 4691
wait
