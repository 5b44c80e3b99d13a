#!/bin/sh
# Bulk for some seconds; what came of it is told as JSON.
#   throughput.sh send ADDRESS SECONDS CONNECTIONS     sends by TCP
#   throughput.sh download ADDRESS SECONDS             downloads by HTTP/3, over one connection of QUIC
#   throughput.sh compare FOLDER FOLDER                compares what came of two of these, by their folders: the share of the first beside the even share
case $1 in
send)
    iperf3 --client "$2" --time "$3" --parallel "$4" --congestion cubic --format k > report || { cat report; exit 1; }
    # Of several connections, the sums come last.
    awk '/sender$/ { retransmitted = $(NF - 1) } /receiver$/ { kilobits = $(NF - 2) } END { print kilobits > "goodput"
        printf "{\"goodput_mbit_s\": %.2f, \"retransmitted\": %d}\n", kilobits / 1000, retransmitted }' report
    ;;
download)
    command -v gtlsclient > found || { echo 'gtlsclient is not installed: its package is ngtcp2-client' >&2; exit 1; }
    mkdir downloaded
    # More than there is time for; by SIGINT, it closes the connection.
    timeout --signal=INT "$3" gtlsclient --quiet --download=downloaded "$2" 443 "https://$2/1000000000" > said 2>&1 &
    client=$!
    # What is there each tenth of a second.
    : > sizes
    while kill -0 "$client" 2> over; do
        stat -c %s downloaded/* >> sizes 2> none-yet || echo 0 >> sizes
        sleep 0.1
    done
    wait "$client"
    [ $? -eq 124 ] || { echo 'the download was over too early' >&2; cat said >&2; exit 1; }
    awk -v seconds="$3" '
        { still = $1 == last ? still + 1 : 0; last = $1; if (still > longest) longest = still }
        END { print last * 8 / 1000 / seconds > "goodput"
            printf "{\"goodput_mbit_s\": %.2f, \"longest_stall_ms\": %d}\n", last * 8 / 1000000 / seconds, longest * 100 }
    ' sizes
    ;;
compare)
    awk '{ sum += $1; if (NR == 1) first = $1 } END { printf "{\"of_even_share\": %.3f, \"together_mbit_s\": %.2f}\n", first * 2 / sum, sum / 1000 }' "$2/goodput" "$3/goodput"
    ;;
esac
