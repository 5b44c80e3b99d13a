#!/bin/sh
# Real video over UDP of SECONDS_OF_VIDEO, prepared before packets fly and judged after they have flown:
#   video.sh encode FOLDER FOOTAGE    loops the footage to that length and encodes it, as a live encoder would
#   video.sh rate FOLDER FOOTAGE      decodes it without any loss, to compare with
#   video.sh send FOLDER ADDRESS      sends it, 1,316 bytes in a datagram, at its rate
#   video.sh watch FOLDER FOOTAGE PORT      records what comes until 3 s after its end, decodes it, and tells as JSON what a viewer saw
# Without footage, what is shown is ffmpeg's test picture. RATE is that of the stream in bit/s, null packets included.
action=$1 folder=$2 footage=$3
frames=$((SECONDS_OF_VIDEO * 25))
rate=${RATE:-1500000}
# The pictures leave a quarter of the rate to headers and null packets.
pictures=$((rate * 3 / 4))
stream=$folder/stream-$SECONDS_OF_VIDEO-$rate.ts
rated=$folder/without-loss-$SECONDS_OF_VIDEO-$rate
picture="scale=1280:720:force_original_aspect_ratio=decrease,pad=1280:720:-1:-1,format=yuv420p"

encode() {
    if [ -s "$footage" ]; then set -- -stream_loop -1 -i "$footage"; else set -- -f lavfi -i testsrc2=size=1280x720:rate=25; fi
    # Slices, so that a loss does not cost a whole frame; a key frame with its headers each second; no frames that wait for later ones.
    ffmpeg -v error -y "$@" -an -sn -dn -map 0:v:0 -vf "setpts=N/25/TB,$picture" -r 25 -frames:v $frames \
        -c:v libx264 -preset veryfast -bf 0 -g 25 -b:v $pictures -maxrate $pictures -bufsize $((pictures / 2)) \
        -x264-params slices=8:repeat-headers=1:scenecut=0:force-cfr=1 \
        -muxdelay 0 -muxpreload 0 -muxrate $rate -f mpegts "$stream.part" && mv "$stream.part" "$stream"
}

# Compares a received stream with the footage: the mean PSNR, where 100 dB is what nobody sees and 0 dB no picture, and the longest freeze,
# a gap between frames of 190 ms or more.
viewed() {
    if [ -s "$footage" ]; then input="-stream_loop -1 -i $footage"; else input="-f lavfi -i testsrc2=size=1280x720:rate=25"; fi
    : > values
    : > shown
    # shellcheck disable=SC2086 # the input is several words
    [ ! -s "$1" ] || nice -n 19 ffmpeg -v fatal -y -copyts -i "$1" $input -filter_complex "[0:v]split[x][y];[x]settb=1/25,setpts=round(PTS)[a];[1:v]setpts=N/25/TB,settb=1/25,$picture,trim=end_frame=$frames[b];[b][a]psnr=stats_file=values[o]" \
        -map "[o]" -f null /dev/null -map "[y]" -fps_mode passthrough -f framecrc shown
    awk -F '[ ,:]+' -v frames=$frames '
        FILENAME == "shown" && !/^#/ { gap = $3 + 1 - next_frame; if (gap > longest) longest = gap; next_frame = $3 + 1; count++ }
        FILENAME == "values" { for (i = 1; i < NF; i++) if ($i == "psnr_avg") { value = $(i + 1); sum += (value == "inf" || value > 100) ? 100 : value; if (++values == frames) nextfile } }
        END {
            gap = frames + 1 - next_frame; if (gap > longest) longest = gap
            printf "%.3f %.2f %d\n", sum / frames, (longest >= 5 ? longest / 25 : 0), count
        }
    ' shown values
}

# What came of the stream, in the order in which it was sent, as a player has it that waits and sorts.
sorted() {
    xxd -p -c 1316 "$1" > received
    xxd -p -c 1316 "$stream" | awk 'FILENAME == "received" { came[$0] = 1; next } $0 in came' received - | xxd -r -p
}

case $action in
encode)
    [ -s "$stream" ] || { mkdir -p "$folder" && encode; }
    ;;
rate)
    [ -s "$rated" ] || { viewed "$stream" > "$rated.part" && mv "$rated.part" "$rated"; }
    ;;
send)
    ffmpeg -v error -re -copyts -i "$stream" -c copy -muxdelay 0 -muxpreload 0 -muxrate $rate -flush_packets 0 -f mpegts "udp://$3?pkt_size=1316&bitrate=$rate"
    ;;
watch)
    timeout "$((SECONDS_OF_VIDEO + 3))" socat -u "UDP-RECV:$4,rcvbuf=1000000" OPEN:video.ts,creat,trunc
    sorted video.ts > sorted.ts
    sent=$(($(wc -c < "$stream") / 1316)) came=$(($(wc -c < video.ts) / 1316))
    read -r psnr freeze shown <<END
$(viewed sorted.ts)
END
    read -r best _ < "$rated"
    awk -v sent="$sent" -v came="$came" -v psnr="$psnr" -v best="$best" -v freeze="$freeze" -v shown="$shown" 'BEGIN {
        printf "{\"sent\": %d, \"missing\": %d, \"frames\": %d, \"psnr_db\": %.2f, \"psnr_lost_db\": %.2f, \"longest_freeze_s\": %.2f}\n", sent, sent - came, shown, psnr, best - psnr, freeze
    }'
    ;;
esac
