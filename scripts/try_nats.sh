#!/usr/bin/env bash
# Has two agents find each other through NATs of this kernel that let nobody in: every role in a network namespace of its
# own, with files like those of docs/guide.md. Needs root, ip, nft or iptables, and python3. KEEP=1 leaves the folder with files and logs.
#   scripts/try_nats.sh BYWAY static|managed
#   scripts/try_nats.sh --check     says what is missing here, and fails if something is
set -euo pipefail

hosts=(core controller east west alice-nat alice bob-nat bob)
prefix=byway-$$-

has() { command -v "$1" >/dev/null 2>&1; }

remove_host() { # remove_host NAMESPACE
  local process
  # By the shell's own kill: a bare Debian has no other.
  for process in $(ip netns pids "$1" 2>/dev/null || true); do kill -KILL "$process" 2>/dev/null || true; done
  ip netns del "$1" 2>/dev/null || true
}

# What runs that were killed could not remove themselves.
remove_abandoned() {
  local host
  ip netns list | sed -nE 's/^(byway-([0-9]+)-[a-z-]+).*/\2 \1/p' | while read -r process host; do
    [[ -d /proc/$process ]] || remove_host "$host"
  done
}

nat() { # nat HOST: masquerades, and as home routers do, lets nobody in who was not asked
  if has nft; then
    within "$1" nft -f - <<END
table ip byway {
  chain out { type nat hook postrouting priority 100; oifname "wan" masquerade; }
  chain in { type filter hook input priority 0; iifname "wan" ct state new,invalid drop; }
  chain through { type filter hook forward priority 0; iifname "wan" ct state new,invalid drop; }
}
END
  else
    within "$1" iptables -t nat -A POSTROUTING -o wan -j MASQUERADE
    within "$1" iptables -A INPUT -i wan -m conntrack --ctstate NEW,INVALID -j DROP
    within "$1" iptables -A FORWARD -i wan -m conntrack --ctstate NEW,INVALID -j DROP
  fi
}

missing() {
  [[ $EUID -eq 0 ]] || { echo "network namespaces need root"; return; }
  has ip || { echo "there is no ip: apt-get install iproute2"; return; }
  has nft || has iptables || { echo "there is neither nft nor iptables: apt-get install nftables"; return; }
  has python3 || { echo "there is no python3: apt-get install python3"; return; }
  ip netns add "${prefix}probe" 2>/dev/null || { echo "this machine makes no network namespaces"; return; }
  nat probe >/dev/null 2>&1 || echo "this kernel has no NAT for network namespaces"
  remove_host "${prefix}probe"
}

within() { # within HOST COMMAND...
  local host=$1
  shift
  ip netns exec "$prefix$host" "$@"
}

if [[ ${1:-} == --check ]]; then
  reason=$(missing)
  [[ -z $reason ]] || { echo "$reason"; exit 1; }
  exit 0
fi
[[ $# -eq 2 && ( $2 == static || $2 == managed ) ]] || {
  echo "usage: scripts/try_nats.sh BYWAY static|managed, or --check" >&2
  exit 2
}
byway=$(realpath "$1")
mode=$2
folder=$(mktemp -d)

clean_up() {
  local code=$? host
  [[ $code -eq 0 ]] || tail -n 20 "$folder"/*.log >&2 || true
  [[ ! ${KEEP:-} ]] || echo "files and logs are in $folder"
  for host in "${hosts[@]}"; do remove_host "$prefix$host"; done
  [[ ${KEEP:-} ]] || rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
remove_abandoned

# --- a small Internet: one bridge, five hosts on it, two of them NATs with a home network behind ----------------

attach() { # attach HOST ADDRESS
  ip link add wan netns "$prefix$1" type veth peer name "$1" netns "${prefix}core"
  within core ip link set "$1" master bridge up
  within "$1" ip address add "$2/24" dev wan
  within "$1" ip link set wan up
}

home() { # home NAT HOST NETWORK
  ip link add lan netns "$prefix$1" type veth peer name eth0 netns "$prefix$2"
  within "$1" ip address add "$3.1/24" dev lan
  within "$1" ip link set lan up
  within "$2" ip address add "$3.2/24" dev eth0
  within "$2" ip link set eth0 up
  within "$2" ip route add default via "$3.1"
  within "$1" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
  nat "$1"
}

for host in "${hosts[@]}"; do
  ip netns add "$prefix$host"
  within "$host" ip link set lo up
done
within core ip link add bridge type bridge
within core ip link set bridge up
attach controller 203.0.113.10
attach east 203.0.113.11
attach west 203.0.113.12
attach alice-nat 203.0.113.21
attach bob-nat 203.0.113.22
home alice-nat alice 192.168.1
home bob-nat bob 192.168.2

# --- the nodes, as the guide has them ------------------------------------------------------------------------

cd "$folder"

node() { # node HOST ROLE FILE
  STATE_DIRECTORY=$folder/$1 within "$1" "$byway" "$2" --config "$3" 2>"$1.log" &
}

forward='[[forward]]
listen = "127.0.0.1:5000"
peer = "bob"
to = "echo"
service = "caching"'
expose='[[expose]]
name = "echo"
target = "127.0.0.1:7000"'

static_files() {
  local name
  for name in east west alice bob; do "$byway" keygen "$name.key" --json >"$name.json"; done
  public() { sed 's/.*"public_key":"\([0-9a-f]*\)".*/\1/' "$1.json"; }
  cat >network.toml <<END
[[network.relays]]
name = "east"
number = 1
key = "$(public east)"
addresses = ["203.0.113.11:4600"]
[[network.relays]]
name = "west"
number = 2
key = "$(public west)"
addresses = ["203.0.113.12:4600"]
[[network.agents]]
name = "alice"
number = 1
key = "$(public alice)"
relays = ["east"]
[[network.agents]]
name = "bob"
number = 2
key = "$(public bob)"
relays = ["west"]
[[network.pairs]]
agents = ["alice", "bob"]
END
  for name in east west; do
    { printf '[relay]\nname = "%s"\nkey_file = "%s.key"\n' $name $name && cat network.toml; } >$name.toml
  done
  { printf '[agent]\nname = "alice"\nkey_file = "alice.key"\n%s\n' "$forward" && cat network.toml; } >alice.toml
  { printf '[agent]\nname = "bob"\nkey_file = "bob.key"\n%s\n' "$expose" && cat network.toml; } >bob.toml
}

managed_files() {
  printf '[controller]\naddresses = ["203.0.113.10:4443"]\n' >controller.toml
  node controller controller controller.toml
  local tries=0
  until STATE_DIRECTORY=$folder/controller within controller "$byway" token create --role relay --uses 2 >relay.token 2>token.log; do
    tries=$((tries + 1))
    [[ $tries -lt 100 ]] || { cat token.log ./*.log >&2; exit 1; }
    sleep 0.1
  done
  STATE_DIRECTORY=$folder/controller within controller "$byway" token create --role agent --uses 2 >agent.token
  printf '[relay]\nname = "east"\ntoken_file = "relay.token"\naddresses = ["203.0.113.11:4600"]\n' >east.toml
  printf '[relay]\nname = "west"\ntoken_file = "relay.token"\naddresses = ["203.0.113.12:4600"]\n' >west.toml
  printf '[agent]\nname = "alice"\nrelay = "east"\ntoken_file = "agent.token"\n%s\n' "$forward" >alice.toml
  printf '[agent]\nname = "bob"\nrelay = "west"\ntoken_file = "agent.token"\n%s\n' "$expose" >bob.toml
}

"${mode}_files"
node east relay east.toml
node west relay west.toml
node bob agent bob.toml
node alice agent alice.toml

# --- an application at each end ------------------------------------------------------------------------------

within bob python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 7000))
while True:
    data, source = s.recvfrom(2000)
    s.sendto(data, source)' 2>echo.log &

within alice python3 -c '
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.1)
begun, answers = time.time(), 0
while answers < 100:
    s.sendto(b"hello", ("127.0.0.1", 5000))
    try:
        s.recv(2000)
        if not answers:
            print(f"first answer after {time.time() - begun:.2f} s")
        answers += 1
    except OSError:
        pass
    if time.time() - begun > 20:
        raise SystemExit("error: no answers")'

is_direct() {
  within alice "$byway" status --json >alice.json
  grep -q '"is_relayed":false' alice.json && grep -q '"address":"203.0.113.22:' alice.json
}

tries=0
until is_direct; do
  tries=$((tries + 1))
  [[ $tries -lt 100 ]] || { echo "error: no direct path within 20 s" >&2; exit 1; }
  sleep 0.2
done
within alice "$byway" status
echo "ok: the two ends found each other through their NATs ($mode)"
