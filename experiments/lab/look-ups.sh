#!/bin/sh
# Asks a name server for 20 seconds, and tells what came of it as JSON: look-ups.sh ADDRESS PORT.
echo "www.example.org A" > names
dnsperf -s "$1" -p "$2" -d names -Q 50 -l 20 -t 0.5 -c 1 -T 1 > report || exit 1
cat report
awk '
    /Queries sent:/ { sent = $3 }
    /Queries completed:/ { answered = $3 }
    /Average Latency/ { mean = $4 * 1000; gsub(/[(),]/, " "); most = $9 * 1000 }
    END { printf "{\"asked\": %d, \"unanswered\": %d, \"mean_ms\": %.1f, \"longest_ms\": %.1f}\n", sent, sent - answered, mean, most }
' report
