#!/usr/bin/env bash
# Measures `byway link` where the kernel forwards: sender -> router -> receiver in network namespaces, the router's way out attached.
# What waits there is taken from captures on both sides of the router. Needs root, tcpdump, python3, and iperf3 for TCP.
#
#   scripts/measure_link.sh PROGRAM [udp|tcp|leave] [RATE_MBIT] [SECONDS] [FLOWS_R] [FLOWS_D]
#
# udp: every flow sends more than its share. leave: the same, and most low-delay flows leave half-way. tcp: greedy connections.
set -euo pipefail

program=$(realpath "${1:?the byway program}")
mode=${2:-udp}
megabits=${3:-100}
seconds=${4:-15}
flows_r=${5:-10}
flows_d=${6:-10}

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
  within $receiver ip route add default via 10.2.0.1
  within $router sysctl -q net.ipv4.ip_forward=1
}

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
  within $sender python3 - "$megabits" "$seconds" "$flows_r" "$flows_d" "$mode" <<'END'
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

send_tcp() {
  start $receiver iperf3 -s -p 5201 >/dev/null
  start $receiver iperf3 -s -p 5202 >/dev/null
  sleep 0.5
  within $sender iperf3 -c 10.2.0.2 -p 5201 -P "$flows_r" -t "$seconds" >/dev/null &
  local other=$!
  within $sender iperf3 -c 10.2.0.2 -p 5202 -P "$flows_d" -t "$seconds" -S $((45 << 2)) >/dev/null
  wait $other
}

analyse() { # analyse CONTROLLER_SHARE
  python3 - "$folder/in.pcap" "$folder/out.pcap" "$megabits" "$flows_r" "$flows_d" "$seconds" "$mode" "$1" <<'END'
import struct, sys
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
first = out[0][1]
# The first two seconds are for counting flows; in the last one, senders end.
begin, end = first + 2 * 10**9, first + (seconds - 1) * 10**9
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
def shown(name, values):
    values = sorted(value for value, _ in values)
    pick = lambda share: values[min(len(values) - 1, int(len(values) * share))] / 1e6
    print(f"{name}: {len(values)} packets waited p50 {pick(.5):.3f} p99 {pick(.99):.3f} p99.9 {pick(.999):.3f} max {values[-1] / 1e6:.3f} ms")
    return pick(.99)
low = shown("low delay", waits[True])
shown("high rate", waits[False])
ratio = bytes_of[False] / len(flows[False]) / (bytes_of[True] / len(flows[True]))
use = total * 8 / ((end - begin) / 1e9) / megabits / 1e4
print(f"rate of a high-rate flow: {ratio:.3f} times that of a low-delay one ({len(flows[False])} and {len(flows[True])} flows)")
print(f"link use: {use:.2f} %; controller: {float(sys.argv[8]):.3f} % of a processor")
END
}

make_network
start $router "$program" link attach out --rate "$megabits Mbit/s" --state "$folder" --log-level warn
controller=$!
sleep 1
capture in in.pcap
capture out out.pcap
sleep 1
before=$(used "$controller") since=$(date +%s%N)
if [[ $mode == tcp ]]; then send_tcp; else send_udp; fi
share=$(awk -v used=$(($(used "$controller") - before)) -v time=$(($(date +%s%N) - since)) 'BEGIN { print 100 * used / time }')
within $router "$program" link status out --state "$folder"
sleep 0.5
for job in "${jobs_to_end[@]:1}"; do kill "$job" 2>/dev/null || true; done
sleep 0.5
grep -h "dropped by kernel" "$folder"/*.log || true
analyse "$share"
