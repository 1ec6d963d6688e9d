#!/bin/sh
# What tests/run.sh does beside its guests, at a lower priority, as these leave a processor idle most of the time: builds the
# programs TARGET... for the thread sanitizer, and runs each fuzzer of build/asan, two at a time.
# Usage: sh tests/beside_guests.sh TARGET...
set -eu
cd "$(dirname "$0")/.."
. tests/lib.sh

# What it finds goes to build/corpus, which the next run starts from; the seeds beside it are only read.
fuzz_for_a_while() {
  mkdir -p "build/corpus/$(basename "$1")"
  run_logged "$(basename "$1")" "$1" -max_total_time="${WARMROOT_FUZZ_SECONDS:-60}" -rss_limit_mb=2048 -timeout=10 \
    -artifact_prefix="build/corpus/" "build/corpus/$(basename "$1")" "build/seeds/$(basename "$1")"
}

# wait_for_all: ends the run when one of $pids failed.
wait_for_all() {
  for pid in $pids; do
    wait "$pid" || exit 1
  done
  pids=
}

step "building build/tsan: $*"
build_preset tsan "$@"
step "the fuzzers"
python3 tests/fuzz/seeds.py build/seeds
pids=
for fuzzer in build/asan/fuzz_*; do
  fuzz_for_a_while "$fuzzer" &
  pids="$pids $!"
  [ "$(echo "$pids" | wc -w)" -lt "$(nproc)" ] || wait_for_all
done
wait_for_all
