#!/bin/sh
# The two ends of a WireGuard tunnel, and what goes through it:
#   tunnel.sh keys                               makes the keys of both ends
#   tunnel.sh left KEYS ENDPOINT, right KEYS     sets an end up, when its program has made the device of that name
#   tunnel.sh ping                               asks the other end 2,000 times with packets as long as the tunnel bears, and tells as JSON what came of it
wait_for_device() {
    for _ in $(seq 100); do
        wg show "$1" > wg-show 2>&1 && return
        sleep 0.1
    done
    cat wg-show >&2
    exit 1
}

case $1 in
keys)
    umask 077
    for end in left right; do
        wg genkey > $end && wg pubkey < $end > $end.public || exit 1
    done
    ;;
left)
    wait_for_device byway-left
    wg set byway-left private-key "$2/left" peer "$(cat "$2/right.public")" endpoint "$3" allowed-ips 10.99.0.0/24 || exit 1
    ip address add 10.99.0.1/24 dev byway-left && ip link set byway-left mtu 1420 up || exit 1
    ;;
right)
    wait_for_device byway-right
    wg set byway-right listen-port 51820 private-key "$2/right" peer "$(cat "$2/left.public")" allowed-ips 10.99.0.0/24 || exit 1
    ip address add 10.99.0.2/24 dev byway-right && ip link set byway-right mtu 1420 up || exit 1
    ;;
ping)
    # The first one waits for the tunnel's handshake.
    ping -q -c 1 -W 10 10.99.0.2 > /dev/null || { echo "nothing comes through the tunnel"; exit 1; }
    # 1,392 bytes and 28 of headers: the tunnel's MTU.
    ping -q -M do -s 1392 -i 0.01 -c 2000 -W 2 10.99.0.2 > report
    cat report
    awk '
        /packets transmitted/ { sent = $1; answered = $4 }
        /^rtt/ { split($4, times, "/") }
        END { if (!sent) exit 1; printf "{\"asked\": %d, \"unanswered\": %d, \"mean_ms\": %.1f, \"longest_ms\": %.1f}\n", sent, sent - answered, times[2], times[3] }
    ' report
    ;;
esac
