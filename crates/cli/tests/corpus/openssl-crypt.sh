#!/bin/bash
# Encrypted and decrypted in one pipeline, digests on the way by tee, keys from a descriptor.
# needs: openssl
# random kills
seq 1 300000 | openssl enc -aes-256-cbc -pbkdf2 -iter 10 -pass fd:3 3<<<secret | openssl enc -d -aes-256-cbc -pbkdf2 -iter 10 -pass pass:secret | cksum
head -c 3000000 /dev/zero | tee >(openssl dgst -sha1 >sha1) | openssl dgst -sha256
for _ in $(seq 1000); do [ ! -s sha1 ] || break; sleep 0.01; done; cat sha1
echo text | openssl enc -d -aes-256-cbc -pbkdf2 -pass pass:x 2>&1 | head -c 9; echo " ${PIPESTATUS[*]}"
openssl rand 100000 | openssl base64 | openssl base64 -d | wc -c
