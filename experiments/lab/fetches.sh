#!/bin/sh
# Fetches a page again and again from each of some servers, all of them at once, and tells as JSON how long that took:
# fetches.sh PROGRAM PATH ADDRESS... PROGRAM is curl, for HTTP/1.1 by TCP, or gtlsclient, for HTTP/3 by QUIC; the path is then how many bytes the page has.
# Each server gives the page FETCHES times, in LOOPS that fetch one after the other. Each fetch has a connection of its own.
# One that fails ends it all; one by curl that takes over a minute counts as a minute.
program=$1 path=$2
shift 2

# They tell how long it took, in milliseconds, and 1 if either end is known to have had a packet that was marked as having met congestion (CE).
with_curl() {
    curl --silent --show-error --fail --max-time 60 --output /dev/null --write-out '%{time_total}\n' "http://$1/$path" > "$2.took" || [ $? = 28 ] || return
    awk '{ print $1 * 1000, 0 }' "$2.took"
}

# The start of the program is within the time, some 30 ms. What it has got tells whether it has failed, and its exit code does not.
with_gtlsclient() {
    rm -rf "$2" && mkdir "$2"
    begin=$(date +%s%N)
    timeout 60 gtlsclient --quiet --handshake-timeout=60s --exit-on-all-streams-close --download="$2" --qlog-file="$2/log" "$1" 443 "https://$1/$path" > "$2/said" 2>&1
    end=$(date +%s%N)
    [ "$(stat -c %s "$2/$path" 2>> "$2/said")" = "$path" ] || { cat "$2/said" >&2; return 1; }
    # Its log has how many of each other's packets both have acknowledged as marked.
    if grep -q '"ce":[1-9]' "$2/log"; then marked=1; else marked=0; fi
    echo "$(((end - begin) / 1000))" $marked | awk '{ print $1 / 1000, $2 }'
}

fetch_all() {
    for _ in $(seq $(((FETCHES + LOOPS - 1) / LOOPS))); do
        "with_$program" "$1" "fetched-$1-$2" || exit 1
        sleep 0.1
    done
}

command -v "$program" > found || { echo "$program is not installed: its package is curl or ngtcp2-client" >&2; exit 1; }
for address; do
    for loop in $(seq "$LOOPS"); do
        fetch_all "$address" "$loop" > "times-$address-$loop" &
        pids="$pids $!"
    done
done
for pid in $pids; do
    wait "$pid" || exit 1
done

# The excess is over the fastest fetch, which met no loss.
cat times-* | sort -n | awk '
    { time[NR] = $1; marked += $2 }
    function at(share,    place) { place = int(NR * share + 0.999999); return time[place < 1 ? 1 : place] }
    END {
        printf "{\"fetches\": %d, \"fastest_ms\": %.1f, \"p50_ms\": %.1f, \"p99_ms\": %.1f, \"p999_ms\": %.1f, \"slowest_ms\": %.1f, ", NR, time[1], at(0.5), at(0.99), at(0.999), time[NR]
        printf "\"excess_p99_ms\": %.1f, \"excess_p999_ms\": %.1f, \"marked\": %d}\n", at(0.99) - time[1], at(0.999) - time[1], marked
    }
'
