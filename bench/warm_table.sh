#!/bin/sh
# The table of bench/README.md's section "warm" in one command: all contenders, seven repetitions, the slow ones in three
# of them, both workloads, the unrelated reader, and a change of law in mid-run. Raw JSON and the tables go to bench/results.
# On a quiet machine, as root; for profile B some 115 minutes with fifteen repetitions.
# Usage: sh bench/warm_table.sh [PROFILE [SEED [REPETITIONS]]]
set -eu
cd "$(dirname "$0")/.."
. tests/lib.sh

profile=${1:-b} seed=${2:-$(date +%Y%m%d)} repetitions=${3:-7}
rare=dd,dd@8,fio128k,fio1m,fio256k,fio4k,fio4k@25,touch,touch@25,cat,cat@64,ours-pread
name=warm-$(date +%F)-$profile-$repetitions
# Into the tree at the end only: a result names its revision, and a tree with half of the results in it is none.
out=build/bench/$name
step "warm table: profile $profile, seed $seed, $repetitions repetitions, load $(cut -d' ' -f1-3 /proc/loadavg)"
sh bench/run.sh warm --profile "bench/profiles/$profile.toml" --seed "$seed" --repetitions "$repetitions" --limit 70 \
  --contenders "none,plain,local,oracle,$rare,ours,ours-blocks,ours-other,ours-older,ours-nolist,ours-nolist-blocks,ours-warm" \
  --rarely "$rare" --rarely-every "$(((repetitions + 2) / 3))" --json "$out.json" >"$out.md"
# What it costs others, and whether the depth follows a volume whose latency becomes three times as long.
sh bench/run.sh warm --profile "bench/profiles/$profile.toml" --seed "$((seed + 1))" --repetitions "$repetitions" --limit 20 --reader \
  --contenders none,touch,ours,ours-nolist --workloads bench/workloads/perl-git.sh --json "$out-reader.json" >>"$out.md"
sh bench/run.sh warm --profile "bench/profiles/$profile.toml" --seed "$((seed + 2))" --repetitions "$repetitions" \
  --change-to "bench/profiles/$([ "$profile" = c ] && echo b || echo c).toml" --change-after 2 --contenders ours --workloads bench/workloads/perl-git.sh \
  --json "$out-change.json" >>"$out.md"
mv "$out"* bench/results/
step "warm table: bench/results/$name.md"
cat "bench/results/$name.md"
