#!/bin/sh
# Bulk in the classes of a link; what came of it is told as JSON. Of machines NAME.1, NAME.2 and so on, each sends to a port of its own, from PORTS + 1 on, and of several
# addresses to its own.
#   classes.sh serve COUNT    as many servers, from port 5201 on
#   classes.sh send ADDRESS PORTS CONNECTIONS SECONDS FROM TO OPTION...    sends for so long, and counts what comes from one second to another
#   classes.sh honest ADDRESS PORTS CONNECTIONS SECONDS FROM TO            the same in the low-delay class, of which it leaves most where CHEAT is tcp
#   classes.sh cheat ADDRESS PORTS CONNECTIONS SECONDS FROM TO             the same as CHEAT says, of NAME.1; NAME.2 sends in the high-rate class
#   classes.sh ratio FOLDER HIGH LOW    what connections of HIGH.1, HIGH.2 and so on got by what those of LOW.1, LOW.2 and so on got
#   classes.sh gain FOLDER              what the cheater got by what NAME.2 got, and what others had of it; where flows are made up, which all connections of a class have alike,
#                                       what one of the cheater's class got in the mean
number=${PWD##*.}

send() {
    address=$(echo "$1" | cut -d ' ' -f "$number") port=$(($2 + number)) connections=$3 seconds=$4 from=$5 to=$6
    shift 6
    iperf3 --client "$address" --port "$port" --time "$seconds" --parallel "$connections" --format k --get-server-output "$@" > report || { cat report; exit 1; }
    # Each second, what came of all connections together is in a line, behind that with which the server begins.
    awk -v connections="$connections" -v from="$from" -v to="$to" -v all="$([ "$connections" -gt 1 ] && echo '[SUM]' || echo '[')" '
        /^Server output/ { is_server = 1 }
        !is_server && $NF == "sender" { retransmitted = $(NF - 1) + 0 }
        is_server && index($0, all) == 1 && / sec / && !/receiver$/ {
            for (field = 2; field <= NF; field++) if ($field == "sec") { split($(field - 1), times, "-"); kilobits = $(field + 3) }
            if (times[1] >= from - 0.5 && times[2] <= to + 0.5) { sum += kilobits * (times[2] - times[1]); time += times[2] - times[1] }
        }
        END {
            if (time < (to - from) / 2) { print "the server counted too little" > "/dev/stderr"; exit 1 }
            print sum / time / connections, connections, retransmitted > "goodput"
            printf "{\"mbit_s_each\": %.4f, \"retransmitted\": %d}\n", sum / time / connections / 1000, retransmitted
        }' report
}

action=$1
shift
case $action in
serve)
    for number in $(seq "$1"); do iperf3 --server --format k --port $((5200 + number)) > "server.$number" 2>&1 & done
    wait
    ;;
send)
    send "$@"
    ;;
honest)
    # Each machine at a pace of its own: else chance decides, for a whole run, whether all send in the same moment, which is more than the queue holds.
    [ "$CHEAT" != tcp ] || set -- "$@" --bitrate $((200 + $2 % 10 * 5))K --length 316
    send "$@" --tos 0x10 --congestion reno --set-mss 1000
    ;;
cheat)
    case $CHEAT in udp | tcp | low-dummies) tos=0x10 ;; *) tos=0 ;; esac
    [ "$number" -eq 1 ] || tos=0
    case $CHEAT in *dummies) [ "$number" -ne 1 ] || perl "$(dirname "$0")/dummies.pl" "${1%% *}" $((tos)) 100 "$4" & ;; esac
    if [ "$CHEAT" = udp ]; then send "$@" --tos $tos --udp --bitrate 5M --length 972; else send "$@" --tos $tos --congestion reno --set-mss 1000; fi
    ;;
ratio)
    cat "$1/$2".*/goodput > high
    cat "$1/$3".*/goodput > low
    awk '
        { rate[FILENAME] += $1 * $2; count[FILENAME] += $2 }
        END {
            high = rate["high"] / count["high"]; low = rate["low"] / count["low"]
            printf "{\"high_mbit_s\": %.4f, \"low_mbit_s\": %.4f, \"ratio\": %.4f, \"together_mbit_s\": %.2f}\n", high / 1000, low / 1000, high / low, (rate["high"] + rate["low"]) / 1000
        }' high low
    ;;
gain)
    for number in 1 2; do
        cat "$1"/*low-delay.$number/goodput > low.$number
        case $CHEAT.$number in
        dummies.* | low-dummies.2) cat "$1"/*high-rate.$number/goodput "$1/cheat.$number/goodput" ;;
        low-dummies.1) cat "$1"/*low-delay.$number/goodput "$1/cheat.$number/goodput" ;;
        *) cat "$1/cheat.$number/goodput" ;;
        esac > cheat.$number
    done
    awk '
        { rate[FILENAME] += $1 * $2; again[FILENAME] += $3; count[FILENAME] += $2 }
        END {
            if (!(rate["cheat.2"] && rate["low.1"] && rate["low.2"])) { print "somebody got nothing, and there is nothing to compare with" > "/dev/stderr"; exit 1 }
            cheater = rate["cheat.1"] / count["cheat.1"]; other = rate["cheat.2"] / count["cheat.2"]
            printf "{\"gain\": %.3f, \"cheater_mbit_s\": %.3f, \"in_its_place_mbit_s\": %.3f, ", cheater / other, cheater / 1000, other / 1000
            # One more on both sides, so that nothing by nothing is one.
            share = (again["low.1"] + 1) / rate["low.1"]; usual = (again["low.2"] + 1) / rate["low.2"]
            printf "\"honest_rate\": %.3f, \"honest_retransmitted\": %.3f}\n", rate["low.1"] / rate["low.2"], share / usual
        }' low.1 low.2 cheat.1 cheat.2
    ;;
esac
