#!/bin/sh
# Calls by SIP with voice by RTP:
#   calls.sh call OWN-ADDRESS ADDRESS SCENARIO    makes 30 calls, one each second, and tells as JSON what came of them
#   calls.sh listen SECONDS                       tells as JSON what came of the voice that arrived at port 7000
case $1 in
call)
    # A second of noise, again and again: what is said does not matter.
    head -c 8000 /dev/urandom > voice
    # Exit code 1: a call has failed, which is a measure.
    sipp "$3:5060" -sf "$4" -i "$2" -mi "$2" -r 1 -m 30 -max_non_invite_retrans 5 -nostdin -trace_stat -stf statistics -fd 1 > screen 2>&1
    code=$?
    [ $code -le 1 ] || { tail -n 20 screen; exit 1; }
    awk -F ';' '
        NR == 1 { for (i = 1; i <= NF; i++) place[$i] = i }
        END { printf "{\"calls\": %d, \"failed\": %d, \"retransmissions\": %d}\n", $place["TotalCallCreated"], $place["FailedCall(C)"], $place["Retransmissions(C)"] }
    ' statistics
    ;;
listen)
    socat -u UDP-RECV:7000 OPEN:/dev/null &
    timeout "$2" tcpdump -i any -Q in -n -l -v -T rtp udp dst port 7000 > packets 2> said
    # Who listens knows by the numbers how many there were.
    awk '
        !/udp\/rtp/ { next }
        {
            for (i = 1; i <= NF; i++) if ($i == "udp/rtp") { number = $(i + 3) + 0; from = $(i + 5); break }
            if (!(from in first)) { first[from] = number; last[from] = number; calls++ }
            else if ((first[from] - number + 65536) % 65536 < 32768) first[from] = number
            else if ((number - last[from] + 65536) % 65536 < 32768) last[from] = number
            if (!((from, number) in came)) { came[from, number]; count[from]++ }
        }
        END {
            for (from in first) { sent += (last[from] - first[from] + 65536) % 65536 + 1; arrived += count[from] }
            printf "{\"streams\": %d, \"voice_packets\": %d, \"voice_lost\": %d}\n", calls, sent, sent - arrived
        }
    ' packets
    ;;
esac
