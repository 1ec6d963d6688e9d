#!/bin/sh
# The table of bench/README.md's section "warm" in one command: all contenders, seven repetitions, the slow ones in three
# of them, both workloads, the unrelated reader, and a change of law in mid-run. Raw JSON and the tables go to bench/results.
# On a quiet machine, as root; for profile B 72 minutes with fifteen repetitions before the slow ones were twice as many, some 90 since.
# Usage: sh bench/warm_table.sh [PROFILE [SEED [REPETITIONS]]]
set -eu
cd "$(dirname "$0")/.."
. tests/lib.sh

profile=${1:-b} seed=${2:-$(date +%Y%m%d)} repetitions=${3:-7}
rare=dd,dd@8,fio128k,fio1m,fio256k,fio4k,fio4k@25,touch,touch@25,cat,cat@64,ours-pread
name=bench/results/warm-$(date +%F)-$profile
step "warm table: profile $profile, seed $seed, $repetitions repetitions, load $(cut -d' ' -f1-3 /proc/loadavg)"
sh bench/run.sh warm --profile "bench/profiles/$profile.toml" --seed "$seed" --repetitions "$repetitions" --limit 70 \
  --contenders "none,plain,local,oracle,$rare,ours,ours-blocks,ours-other,ours-older,ours-nolist,ours-nolist-blocks,ours-warm" \
  --rarely "$rare" --rarely-every "$(((repetitions + 2) / 3))" --json "$name.json" >"$name.md"
# What it costs others, and whether the depth follows a volume whose latency becomes three times as long.
sh bench/run.sh warm --profile "bench/profiles/$profile.toml" --seed "$((seed + 1))" --repetitions 2 --limit 20 --reader \
  --contenders none,touch,ours,ours-nolist --workloads bench/workloads/perl-git.sh --json "$name-reader.json" >>"$name.md"
sh bench/run.sh warm --profile "bench/profiles/$profile.toml" --seed "$((seed + 2))" --repetitions 3 \
  --change-to "bench/profiles/$([ "$profile" = c ] && echo b || echo c).toml" --change-after 2 --contenders ours --workloads bench/workloads/perl-git.sh \
  --json "$name-change.json" >>"$name.md"
step "warm table: $name.md"
cat "$name.md"
