#!/bin/sh
# Runs a benchmark with what it needs: `bench/run.sh warm [OPTION]...` builds warm_bench, makes the root disk and starts
# it; options are warm_bench's (--help), see bench/README.md. `bench/run.sh hotpath [--json FILE] [--seed S]
# [--repetitions N] [--cases LIST]` measures the bootstrap's way in and out on the guests' images, `bench/run.sh handover`
# with the same options a volume's way from one guest to the next; `bench/run.sh warm-guest [OPTION]...` runs the warmer in a
# guest (warm_guest_bench --help). As root.
set -eu
cd "$(dirname "$0")/.."
. tests/lib.sh

if [ "${1:-}" = hotpath ]; then
  shift
  sh tests/deps.sh
  sh tests/sim/images.sh
  build_preset release warmroot-bootstrap hotpath_volume
  # A shell as first process of the namespace: it takes up what sshd leaves behind.
  exec unshare --mount --net --pid --fork --mount-proc --propagation private --kill-child \
    sh -c 'python3 bench/hotpath_bench.py "$@"; exit $?' hotpath "$@"
fi

if [ "${1:-}" = handover ]; then
  shift
  sh tests/deps.sh
  sh tests/sim/images.sh
  build_preset release warmroot-bootstrap warmroot warmroot-sim
  exec python3 bench/handover_bench.py "$@"
fi

if [ "${1:-}" = warm-guest ]; then
  shift
  sh tests/deps.sh
  sh tests/sim/images.sh
  build_preset release warm_bench warm_guest_bench
  sh bench/warm_images.sh ext4
  unshare --mount --propagation private sh bench/warm_guest_disk.sh build/release/warm_bench build/bench/guest.qcow2
  exec build/release/warm_guest_bench "$@"
fi

[ "${1:-}" = warm ] || die "usage: bench/run.sh hotpath|handover [--json FILE] [--seed S] [--repetitions N] [--cases LIST]
or bench/run.sh warm-guest [--profile FILE] [--seed S] [--contenders LIST] [--session FILE] [--repetitions N] [--limit SECONDS] [--json FILE]
or bench/run.sh warm [--profile FILE] [--seed S] [--image ext4|xfs|aged] [--contenders LIST]
  [--workloads LIST] [--repetitions N] [--limit SECONDS] [--reader] [--rarely LIST [--rarely-every N]]
  [--change-to FILE [--change-after SECONDS]] [--json FILE] [--logs DIRECTORY]"
shift
image=ext4 next=""
for word in "$@"; do
  [ "$next" != --image ] || image=$word
  case $word in --image=*) image=${word#--image=} ;; esac
  next=$word
done
[ -x /usr/bin/fio ] || die "fio is missing; sh tests/deps.sh installs it"
build_preset release warm_bench
case " $* " in *ours-older* | *contenders?all*) older=older ;; *--contenders*) older="" ;; *) older=older ;; esac
# shellcheck disable=SC2086 # nothing or one word
sh bench/warm_images.sh "$image" $older
exec build/release/warm_bench "$@"
