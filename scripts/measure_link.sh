#!/usr/bin/env bash
# Measures `byway link` where the kernel forwards: sender -> router -> receiver in network namespaces, the router's way out attached.
# What waits there is taken from captures on both sides of the router. Needs root, tcpdump, python3, and iperf3 for TCP.
set -euo pipefail

usage() {
  cat <<'END'
Usage: scripts/measure_link.sh PROGRAM [OPTIONS]

Measures `byway link` of PROGRAM between network namespaces of its own.

  --load udp|leave|tcp   what is sent: half as much again as each flow's share by UDP; the same, and most low-delay flows leave half-way; or greedy
                         connections of TCP [udp]
  --rate MBIT            of the link, in Mbit/s [100]
  --seconds N            how long both classes send, 5 more than --settle at least [15]
  --settle N             how long until it counts [2]
  --high N, --low N      flows of each class [10]
  --round-trip MS        what a round trip takes without queues, as 100 or 104-300, over which connections are spread: answers are held for as long [0]
  --segment BYTES        what a segment of TCP carries at most, with TCP's options [as much as fits]
  --congestion NAME      the congestion control of TCP, as reno [the kernel's own]
  --json                 print one line of JSON: of each class packets, flows that sent and bytes that left, and what packets waited in ms; the rate of a
                         high-rate flow by that of a low-delay one, of those that sent (ratio) and of all (ratio_of_all); the shares of the link and
                         of a processor that were used (use, controller)
END
}

fail() {
  echo "measure_link.sh: $1" >&2
  exit 2
}

load=udp megabits=100 seconds=15 settle=2 flows_r=10 flows_d=10 round_trip=0 round_trip_max=0 segment='' congestion='' json='' program=''
while (($#)); do
  case $1 in
    --help) usage && exit ;;
    --json) json=yes && shift && continue ;;
    --*) [[ $# -ge 2 ]] || fail "$1 takes a value; see --help" ;;
    *)
      [[ -z $program ]] || fail "$1: one program is measured; see --help for the options"
      program=$1 && shift && continue
      ;;
  esac
  case $1 in
    --load)
      [[ $2 =~ ^(udp|leave|tcp)$ ]] || fail "--load $2: use udp, leave or tcp"
      load=$2
      ;;
    --round-trip)
      [[ $2 =~ ^(0|[1-9][0-9]{0,4})(-([1-9][0-9]{0,4}))?$ ]] || fail "--round-trip $2: give whole milliseconds, as 100 or 104-300"
      round_trip=${BASH_REMATCH[1]} round_trip_max=${BASH_REMATCH[3]:-${BASH_REMATCH[1]}}
      ((round_trip <= round_trip_max)) || fail "--round-trip $2: the longer one goes last"
      ;;
    --congestion)
      grep -qwF -- "$2" /proc/sys/net/ipv4/tcp_available_congestion_control || fail "--congestion $2: this kernel has $(cat /proc/sys/net/ipv4/tcp_available_congestion_control)"
      congestion=$2
      ;;
    --rate | --seconds | --settle | --high | --low | --segment)
      [[ $2 =~ ^(0|[1-9][0-9]{0,5})$ ]] || fail "$1 $2: give a whole number"
      ;;&
    --rate) megabits=$2 ;;
    --seconds) seconds=$2 ;;
    --settle) settle=$2 ;;
    --high) flows_r=$2 ;;
    --low) flows_d=$2 ;;
    --segment) segment=$2 ;;
    *) fail "$1 is no option; see --help" ;;
  esac
  shift 2
done
[[ -x $program ]] || fail "name the byway program, as target/release/byway; see --help"
((settle >= 1 && seconds >= settle + 5 && megabits > 0 && flows_r > 0 && flows_d > 0)) ||
  fail "a second to settle, five more, 1 Mbit/s and a flow of each class are the least"
[[ -z $segment ]] || ((segment >= 536 && segment <= 1460)) || fail "--segment $segment: give 536 to 1460 bytes"
[[ $load != leave ]] || ((flows_d > 2)) || fail "--load leave: all low-delay flows but two leave; give --low 3 or more"
((EUID == 0)) || fail "it makes network namespaces: run it as root"
program=$(realpath "$program")
# A connection takes a round trip, and a little more with what programs tell each other before.
lead=0
[[ $load != tcp ]] || lead=$((1 + (round_trip_max * 15 + 999) / 1000))

folder=$(mktemp -d)
sender=byway-s-$$ router=byway-r-$$ receiver=byway-e-$$
jobs_to_end=()

clean_up() {
  local job space
  for job in "${jobs_to_end[@]}"; do kill "$job" 2>/dev/null || true; done
  wait 2>/dev/null || true
  for space in $sender $router $receiver; do ip netns delete "$space" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap clean_up EXIT

within() { # within NAMESPACE COMMAND...
  nsenter --net="/run/netns/$1" "${@:2}"
}

make_network() {
  local space
  for space in $sender $router $receiver; do
    ip netns add "$space"
    within "$space" ip link set lo up
    within "$space" sysctl -q net.ipv6.conf.all.disable_ipv6=1
  done
  ip link add out netns $sender type veth peer name in netns $router
  ip link add out netns $router type veth peer name in netns $receiver
  within $sender ip address add 10.1.0.1/24 dev out
  within $router ip address add 10.1.0.2/24 dev in
  within $router ip address add 10.2.0.1/24 dev out
  within $receiver ip address add 10.2.0.2/24 dev in
  # Packets come to the router as long as they leave it.
  within $sender ip link set out gso_max_segs 1 up
  within $router ip link set in up
  within $router ip link set out up
  within $receiver ip link set in gso_max_segs 1 up
  within $sender ip route add default via 10.1.0.2
  within $router sysctl -q net.ipv4.ip_forward=1
  if ((round_trip_max == 0)); then
    within $receiver ip route add default via 10.2.0.1
  else
    # Answers come by another way, and are looked at by nobody.
    within $router sysctl -q net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
    within $receiver sysctl -q net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.in.rp_filter=0
    python3 -c "$holding" "$round_trip" "$round_trip_max" "/run/netns/$receiver" "/run/netns/$router" &
    jobs_to_end+=($!)
    local space
    for space in $receiver $router; do
      until within "$space" ip link set back up 2>/dev/null; do
        kill -0 "${jobs_to_end[-1]}" 2>/dev/null || fail "what holds answers has ended"
        sleep 0.1
      done
    done
    within $receiver ip route add default dev back src 10.2.0.2
  fi
}

# Takes packets from a device of one namespace, and gives them to one of another a while later; of each connection as long as its port says.
holding='
import ctypes, fcntl, heapq, os, select, struct, sys, time
least, most = (int(time) / 1e3 for time in sys.argv[1:3])
def device(namespace):
    space = os.open(namespace, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(space, 0):
        raise OSError(ctypes.get_errno(), namespace)
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", b"back", 0x1001))
    return tun
source, sink = map(device, sys.argv[3:])
def hold(packet):
    port = int.from_bytes(packet[22:24], "big")
    return least + (most - least) * (port * 40503 % 65536) / 65535
held, number = [], 0
while True:
    wait = max(0, held[0][0] - time.monotonic()) if held else None
    if select.select([source], [], [], wait)[0]:
        try:
            while True:
                packet = os.read(source, 65536)
                number += 1
                heapq.heappush(held, (time.monotonic() + hold(packet), number, packet))
        except BlockingIOError:
            pass
        except OSError:
            time.sleep(0.01)
    while held and held[0][0] <= time.monotonic():
        try:
            os.write(sink, heapq.heappop(held)[2])
        except OSError:
            pass
'

start() { # start NAMESPACE COMMAND...
  # Not by a function, so that the job is the command itself: nsenter becomes it.
  nsenter --net="/run/netns/$1" "${@:2}" &
  jobs_to_end+=($!)
}

capture() { # capture DEVICE FILE
  start $router tcpdump -i "$1" -s 64 -B 16384 --time-stamp-precision=nano -w "$folder/$2" \
    'dst host 10.2.0.2 and (udp or tcp)' 2>"$folder/$2.log"
}

# Nanoseconds that a process has had a processor.
used() { awk '{ print $1 }' "/proc/$1/schedstat"; }

send_udp() {
  within $sender python3 - "$megabits" "$seconds" "$flows_r" "$flows_d" "$load" <<'END'
import socket, sys, time
megabits, seconds, flows_r, flows_d = map(int, sys.argv[1:5])
leaves = sys.argv[5] == "leave"
share = megabits * 1e6 / (flows_d + 2 * flows_r)
BYTES = 1514
flows = []
for place in range(flows_r + flows_d):
    is_low = place >= flows_r
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 45 << 2 if is_low else 0)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    one.bind(("10.1.0.1", 20000 + place))
    one.connect(("10.2.0.2", 40000 if is_low else 30000))
    # Half as much again as a flow may have.
    every = BYTES * 8 / (share * (1 if is_low else 2) * 1.5)
    flows.append([every * place / (flows_r + flows_d), every, one, is_low and place >= flows_r + 2])
payload = bytes(BYTES - 42 - 8)
begin, number = time.monotonic(), 0
while (now := time.monotonic() - begin) < seconds:
    for flow in flows:
        if leaves and flow[3] and now > seconds / 2:
            continue
        while flow[0] <= now:
            number += 1
            try:
                flow[2].send(number.to_bytes(8, "big") + payload)
            except OSError:
                pass
            flow[0] += flow[1]
    time.sleep(0.0003)
END
}

# Ten connections of a program at most: it makes one after the other, and begins when it has all. Those of low delay have time for that before anybody else
# sends: one that loses its first packets, as those are sent again after seconds only, would keep ten from sending.
send_tcp() {
  local port clients=()
  for ((port = 0; port < (flows_r + 9) / 10; port++)); do
    start $receiver iperf3 -s -p $((5200 + port)) >/dev/null
  done
  for ((port = 0; port < (flows_d + 9) / 10; port++)); do
    start $receiver iperf3 -s -p $((6200 + port)) >/dev/null
  done
  sleep 0.5
  send_class 6200 "$flows_d" $((45 << 2)) $((lead + seconds))
  sleep "$lead"
  send_class 5200 "$flows_r" 0 "$seconds"
  local client
  for client in "${clients[@]}"; do wait "$client" || fail "iperf3 ended with an error: it has said which"; done
}

send_class() { # send_class PORT FLOWS TOS SECONDS
  local port=$1 left=$2
  for (( ; left > 0; left -= 10, port++)); do
    start $sender iperf3 -c 10.2.0.2 -p "$port" -P $((left < 10 ? left : 10)) -t "$4" -S "$3" ${segment:+-M "$segment"} ${congestion:+-C "$congestion"} >/dev/null
    clients+=("${jobs_to_end[-1]}")
  done
}

analyse() { # analyse CONTROLLER_SHARE
  python3 - "$folder/in.pcap" "$folder/out.pcap" "$megabits" "$flows_r" "$flows_d" "$seconds" "$load" "$settle" "$1" "$json" "$lead" <<'END'
import json, struct, sys
def packets(path):
    data = open(path, "rb").read()
    assert data[:4] == b"\x4d\x3c\xb2\xa1", "a capture with nanoseconds"
    at = 24
    while at + 16 <= len(data):
        second, nano, kept, length = struct.unpack_from("<IIII", data, at)
        if at + 16 + kept > len(data):
            return
        packet = data[at + 16:at + 16 + kept]
        at += 16 + kept
        protocol = packet[23]
        # A datagram's number, or a segment's sequence number with its identification.
        key = (packet[34:38], packet[42:50]) if protocol == 17 else (packet[34:38], packet[18:20], packet[38:42])
        yield key, second * 10**9 + nano, length, packet[15] >> 2 == 45
came = {key: time for key, time, _, _ in packets(sys.argv[1])}
megabits, flows_r, flows_d, seconds = map(int, sys.argv[3:7])
out = list(packets(sys.argv[2]))
if not out:
    sys.exit("measure_link.sh: nothing left the router")
first = out[0][1] + int(sys.argv[11]) * 10**9
# At first flows are counted, and find their rates; in the last second, senders end.
begin, end = first + int(sys.argv[8]) * 10**9, first + (seconds - 1) * 10**9
half = first + seconds * 10**9 / 2
waits, bytes_of, total = {True: [], False: []}, {True: 0, False: 0}, 0
flows = {True: set(), False: set()}
for key, time, length, is_low in out:
    if not begin <= time < end or length < 200:
        continue
    total += length
    if key in came:
        waits[is_low].append((time - came[key], time))
    if sys.argv[7] != "leave" or time < half:
        bytes_of[is_low] += length
        flows[is_low].add(key[0])
def of_class(is_low):
    values = sorted(value / 1e6 for value, _ in waits[is_low])
    if not values:
        sys.exit("measure_link.sh: no packet of the %s class came through" % ("low-delay" if is_low else "high-rate"))
    pick = lambda share: values[min(len(values) - 1, int(len(values) * share))]
    waited = {"p50": pick(.5), "p99": pick(.99), "p999": pick(.999), "max": values[-1]}
    sent = len(flows[is_low])
    return {"packets": len(values), "waited_ms": waited, "flows": sent, "bytes": bytes_of[is_low]}
found = {"high_rate": of_class(False), "low_delay": of_class(True)}
# Of those that sent, and of all that there were: who sends nothing has nothing.
per_flow = lambda of, flows: found[of]["bytes"] / flows
of_senders = per_flow("high_rate", found["high_rate"]["flows"]) / per_flow("low_delay", found["low_delay"]["flows"])
of_all = per_flow("high_rate", flows_r) / per_flow("low_delay", flows_d)
found |= {"ratio": of_senders, "ratio_of_all": of_all, "use": total * 8 / ((end - begin) / 1e9) / megabits / 1e6,
          "controller": float(sys.argv[9])}
if sys.argv[10]:
    print(json.dumps(found))
    sys.exit()
for name, of in (("low delay", "low_delay"), ("high rate", "high_rate")):
    waited = ", ".join(f"{name} {value:.3f}" for name, value in found[of]["waited_ms"].items())
    print(f"{name}: {found[of]['packets']} packets of {found[of]['flows']} flows waited {waited} ms")
print(f"rate of a high-rate flow: {of_senders:.3f} times that of a low-delay one; {of_all:.3f} with those that sent nothing")
print(f"link use: {found['use'] * 100:.2f} %; controller: {found['controller'] * 100:.3f} % of a processor")
END
}

make_network
start $router "$program" link attach out --rate "$megabits Mbit/s" --state "$folder" --log-level warn
controller=$!
sleep 1
kill -0 "$controller" 2>/dev/null || fail "byway link did not attach"
capture in in.pcap
capture out out.pcap
sleep 1
before=$(used "$controller") since=$(date +%s%N)
if [[ $load == tcp ]]; then send_tcp; else send_udp; fi
share=$(awk -v used=$(($(used "$controller") - before)) -v time=$(($(date +%s%N) - since)) 'BEGIN { print used / time }')
[[ $json ]] || within $router "$program" link status out --state "$folder"
sleep 0.5
for job in "${jobs_to_end[@]}"; do [[ $job == "$controller" ]] || kill "$job" 2>/dev/null || true; done
sleep 0.5
grep -h "^[1-9].* dropped by kernel" "$folder"/*.log >&2 || true
analyse "$share"
