#!/bin/bash
# Raw video and sound from one ffmpeg to another.
# needs: ffmpeg
ffmpeg -v error -nostdin -f lavfi -i testsrc=size=320x240:rate=25 -t 1 -pix_fmt yuv420p -f rawvideo - </dev/null |
    ffmpeg -v error -f rawvideo -pix_fmt yuv420p -s 320x240 -r 25 -i - -vf hflip -f rawvideo - | tee raw | md5sum
echo "${PIPESTATUS[*]}"; wc -c <raw; rm raw
ffmpeg -v error -nostdin -f lavfi -i sine=frequency=440:duration=1 -f s16le - </dev/null | ffmpeg -v error -f s16le -ar 44100 -ac 1 -i - -f md5 -
ffmpeg -v error -nostdin -f lavfi -i testsrc=size=320x240 -f rawvideo - </dev/null 2>/dev/null | head -c 1000000 | wc -c
