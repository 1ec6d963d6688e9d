#!/bin/sh
# Called by the build with the program and our objects in it: prints the size and fails when it is above the limit, not
# static, or not hardened: position-independent, all relocations read-only before main, no executable stack, stack protector, FORTIFY.
set -eu
limit=3670016 # 3.5 MiB: user-data fetches it on every boot of every instance
program=$1
size=$(wc -c <"$program")

refuse() {
  echo "warmroot-bootstrap is $*" >&2
  rm -f "$program"
  exit 1
}

segments=$(readelf -lW "$1")
case $segments in *INTERP*) refuse "not static" ;; esac
readelf -hW "$1" | grep -q 'Type: *DYN' || refuse "not position-independent"
case $segments in *GNU_RELRO*) ;; *) refuse "without read-only relocations" ;; esac
readelf -dW "$1" | grep -q 'BIND_NOW' || refuse "bound lazily"
echo "$segments" | grep 'GNU_STACK' | grep -q ' RW ' || refuse "one with an executable stack"
shift
undefined=$(nm --undefined-only "$@")
echo "$undefined" | grep -q ' __stack_chk_fail$' || refuse "built without stack protector"
echo "$undefined" | grep -q ' __[a-z]*_chk$' || refuse "built without FORTIFY"
echo "warmroot-bootstrap: $size bytes, $((size * 100 / limit)) % of 3.5 MiB"
[ "$size" -le "$limit" ] || refuse "$((size - limit)) bytes above its limit of $limit"
