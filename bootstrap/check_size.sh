#!/bin/sh
# Called by the build: prints the size of the static program and fails when it is above the limit, or not static.
set -eu
limit=3670016 # 3.5 MiB: user-data fetches it on every boot of every instance
size=$(wc -c <"$1")
if readelf -lW "$1" | grep -q INTERP; then
  echo "warmroot-bootstrap is not static" >&2
  exit 1
fi
echo "warmroot-bootstrap: $size bytes, $((size * 100 / limit)) % of 3.5 MiB"
if [ "$size" -gt "$limit" ]; then
  echo "warmroot-bootstrap is $((size - limit)) bytes above its limit of $limit" >&2
  rm -f "$1"
  exit 1
fi
