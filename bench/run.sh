#!/bin/sh
# Runs a benchmark with what it needs: `bench/run.sh warm [OPTION]...` builds warm_bench, makes the root disk and starts
# it; options are warm_bench's (--help), see bench/README.md. As root.
set -eu
cd "$(dirname "$0")/.."
. tests/lib.sh

[ "${1:-}" = warm ] || die "usage: bench/run.sh warm [--profile FILE] [--seed S] [--image ext4|xfs|aged] [--contenders LIST]
  [--workloads LIST] [--repetitions N] [--limit SECONDS] [--reader] [--json FILE] [--logs DIRECTORY]"
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
