#!/bin/sh
# Bulk in the classes of a link; what came of it is told as JSON.
#   classes.sh serve COUNT    as many servers, from port 5201 on
#   classes.sh send ADDRESS PORTS CONNECTIONS SECONDS FROM TO OPTION...
#       sends by TCP for so long, and counts what comes from one second to another; of machines NAME.1, NAME.2 and so on, each to a port of its
#       own, from PORTS + 1 on
#   classes.sh ratio FOLDER HIGH LOW    what connections of HIGH.1, HIGH.2 and so on got by what those of LOW.1, LOW.2 and so on got
case $1 in
serve)
    for number in $(seq "$2"); do iperf3 --server --format k --port $((5200 + number)) > "server.$number" 2>&1 & done
    wait
    ;;
send)
    address=$2 port=$(($3 + ${PWD##*.})) connections=$4 seconds=$5 from=$6 to=$7
    shift 7
    iperf3 --client "$address" --port "$port" --time "$seconds" --parallel "$connections" --format k --get-server-output "$@" > report || { cat report; exit 1; }
    # Each second, what came of all connections together is in a line, behind that which the server begins with.
    awk -v connections="$connections" -v from="$from" -v to="$to" -v all="$([ "$connections" -gt 1 ] && echo '[SUM]' || echo '[')" '
        /^Server output/ { is_server = 1 }
        !is_server && $NF == "sender" { retransmitted = $(NF - 1) }
        is_server && index($0, all) == 1 && / sec / && !/receiver$/ {
            for (field = 2; field <= NF; field++) if ($field == "sec") { split($(field - 1), times, "-"); kilobits = $(field + 3) }
            if (times[1] >= from - 0.5 && times[2] <= to + 0.5) { sum += kilobits * (times[2] - times[1]); time += times[2] - times[1] }
        }
        END {
            if (time < (to - from) / 2) { print "the server counted too little" > "/dev/stderr"; exit 1 }
            print sum / time / connections, connections > "goodput"
            printf "{\"mbit_s_each\": %.4f, \"retransmitted\": %d}\n", sum / time / connections / 1000, retransmitted
        }' report
    ;;
ratio)
    cat "$2/$3".*/goodput > high
    cat "$2/$4".*/goodput > low
    awk '
        { rate[FILENAME] += $1 * $2; count[FILENAME] += $2 }
        END {
            high = rate["high"] / count["high"]; low = rate["low"] / count["low"]
            printf "{\"high_mbit_s\": %.4f, \"low_mbit_s\": %.4f, \"ratio\": %.4f, \"together_mbit_s\": %.2f}\n", high / 1000, low / 1000, high / low, (rate["high"] + rate["low"]) / 1000
        }' high low
    ;;
esac
