#!/bin/sh
# Fetches a page again and again from each of some servers, all of them at once, and tells as JSON how long that took:
# fetches.sh PATH ADDRESS... Each server gives it FETCHES times, in LOOPS that fetch one after the other. Each fetch has a connection of its own.
# One that fails, or takes over a minute, ends it all.
path=$1
shift

fetch_all() {
    for _ in $(seq $(((FETCHES + LOOPS - 1) / LOOPS))); do
        curl --silent --show-error --fail --max-time 60 --output /dev/null --write-out '%{time_total}\n' "http://$1/$path" || exit 1
        sleep 0.1
    done
}

for address; do
    for loop in $(seq "$LOOPS"); do
        fetch_all "$address" > "times-$address-$loop" &
        pids="$pids $!"
    done
done
for pid in $pids; do
    wait "$pid" || exit 1
done

# The excess is over the fastest fetch, which met no loss.
cat times-* | sort -n | awk '
    { time[NR] = $1 * 1000 }
    function at(share,    place) { place = int(NR * share + 0.999999); return time[place < 1 ? 1 : place] }
    END {
        printf "{\"fetches\": %d, \"fastest_ms\": %.1f, \"p50_ms\": %.1f, \"p99_ms\": %.1f, \"p999_ms\": %.1f, \"slowest_ms\": %.1f, ", NR, time[1], at(0.5), at(0.99), at(0.999), time[NR]
        printf "\"excess_p99_ms\": %.1f, \"excess_p999_ms\": %.1f}\n", at(0.99) - time[1], at(0.999) - time[1]
    }
'
