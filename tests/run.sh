#!/bin/sh
# The test suite on a fresh Debian 12 machine: set-up, unit and contract tests under the address and undefined-behaviour
# sanitizers, natively those that are another test there, those with threads under the thread sanitizer, fuzzers,
# one full guest run. Usage: sh tests/run.sh [--quick|--all]   (--quick: all unit and contract tests natively, no sanitizers,
# no guests; --all: those, too, and what takes too long for every change, 10,000 power cuts by replay, 100 in guests, each
# kind of a hostile volume in each place alone, reads that stall for a minute, and guests with systemd and cloud-init and of
# other Debians; leaves nothing out for want of time)
# WARMROOT_FUZZ_SECONDS is how long each fuzzer runs (60).
# WARMROOT_MUST_RUN=1 makes a skipped test a failure, and a stage for which there is no time; not what needs more than
# Debian 12 has: moto, a newer AWS CLI, a newer kernel. Its tests say so.
set -eu
cd "$(dirname "$0")/.."
. tests/lib.sh

# time_for SECONDS STAGE: false, and said aloud, when a run of 89 minutes has no such time left.
time_for() {
  [ "$all" = no ] || return 0
  [ $((5350 - ($(date +%s) - started))) -ge "$1" ] && return
  [ "${WARMROOT_MUST_RUN:-}" != 1 ] || die "$2 would not end in time, and nothing may be left out"
  step "LEFT OUT: $2 would not end in time; run it by hand"
  return 1
}

# run_tests BUILD ARGUMENT...: ctest's. What failed is said again below what passed, where it is looked for.
run_tests() {
  built=build/$1
  shift
  ctest --test-dir "$built" "$@" || {
    step "what failed:"
    grep -a -A 10 -E ': Failure$|^(FAIL|ERROR): |ERROR: [A-Za-z]+Sanitizer|WARNING: ThreadSanitizer|: runtime error: ' \
      "$built/Testing/Temporary/LastTest.log" | cut -c1-300 | head -n 120 >&2
    die "tests of $built failed; their whole output is in $built/Testing/Temporary/LastTest.log"
  }
}

quick=no all=no
case "${1:-}" in
  "") ;;
  --quick) quick=yes ;;
  --all) all=yes ;;
  *) die "usage: sh tests/run.sh [--quick|--all]" ;;
esac
[ "$all" = no ] || export WARMROOT_HOSTILE=all

step "set-up: packages, static libraries"
sh tests/deps.sh
need_space_mib "$repo" 3000

# beside COMMAND...: at a lower priority, in a group of its own that ends with this script; its number is $last.
others=
beside() {
  setsid nice -n 10 "$@" &
  last=$!
  others="$others $last"
}
trap 'for each in $others; do kill -- "-$each" 2>/dev/null || true; done' EXIT

if [ "$quick" = no ]; then
  [ -c /dev/fuse ] || die "there is no /dev/fuse: the guest run needs it (load the fuse module)"
  beside sh tests/sim/images.sh
  images=$last
fi
step "building build/release"
if [ "$quick$all" = nono ]; then
  build_preset release native
  wait "$images" || exit 1
  step "tests that the sanitizers' build cannot run, or not as well"
  run_tests release -L '^native$' --output-on-failure --timeout 300 -j "$(nproc)"
else
  build_preset release
  step "unit and contract tests"
  run_tests release -LE 'guest|slow' --output-on-failure --timeout 300 -j "$(nproc)"
fi

if [ "$quick" = no ]; then
  step "building build/asan"
  build_preset asan
  step "unit and contract tests under the address and undefined-behaviour sanitizers"
  # One more than there are processors: many wait for what they have begun most of the time.
  run_tests asan -LE unsanitized --output-on-failure --timeout 600 -j "$(($(nproc) + 1))"
  [ "$all" = no ] || wait "$images" || exit 1
  # The thread sanitizer sees only what runs threads.
  threaded="ebs_test ordered_work_test read_engine_test warmer_test warmer_map_test early_reads_test file_finder_test recording_test record_command_test events_test reports_test reports_board_test report_lists_test report_listener_test"
  threads=
  if time_for 1100 "the thread sanitizer and the fuzzers"; then
    # shellcheck disable=SC2086 # word splitting is the list
    beside sh tests/beside_guests.sh $threaded
    threads=$last
  fi
  step "one full guest run, and ten power cuts in guests"
  run_tests release -L guest --verbose
  if [ -n "$threads" ]; then
    wait "$threads" || exit 1
    step "the tests with threads under the thread sanitizer"
    run_tests tsan --output-on-failure --timeout 600 -R "^($(echo "$threaded" | tr ' ' '|'))\$"
  fi
fi
if [ "$all" = yes ]; then
  step "10,000 power cuts by replay: 6,000 of ext4, 2,000 each of xfs and btrfs"
  WARMROOT_POWER_CUTS=10000 run_logged power-cuts build/release/power_log_test
  grep -a -e ' cuts: ' -e 'not tested' build/logs/power-cuts.log >&2
  step "100 power cuts in guests"
  python3 tests/guest_cuts_test.py --cuts 100
  step "guests with systemd and cloud-init, and with other releases of Debian; reads that stall for a minute"
  sh tests/sim/images.sh cloud
  sh tests/sim/images.sh bases
  run_tests release -L slow --verbose
fi
step "all tests passed"
