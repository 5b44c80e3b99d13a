#!/bin/sh
# Sends by TCP for some seconds and tells the goodput as JSON: throughput.sh send ADDRESS SECONDS. Or compares what two such senders had, from their
# folders, the share of the first beside the even share: throughput.sh compare FOLDER FOLDER.
case $1 in
send)
    iperf3 --client "$2" --time "$3" --parallel 4 --congestion cubic --format k > report || { cat report; exit 1; }
    awk '/^\[SUM\].*sender/ { retransmitted = $8 } /^\[SUM\].*receiver/ { kilobits = $6 } END { print kilobits > "goodput"
        printf "{\"goodput_mbit_s\": %.2f, \"retransmitted\": %d}\n", kilobits / 1000, retransmitted }' report
    ;;
compare)
    awk '{ sum += $1; if (NR == 1) first = $1 } END { printf "{\"of_even_share\": %.3f, \"together_mbit_s\": %.2f}\n", first * 2 / sum, sum / 1000 }' "$2/goodput" "$3/goodput"
    ;;
esac
