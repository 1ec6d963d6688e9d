#!/bin/sh
# The whole job in one command, on a fresh Debian 12 machine: a simulated region with real guests, a pool of two warm
# roots, an interruption. Does its own set-up, skips what is there, writes build/demo/report.json. Usage: sh tests/demo.sh
set -eu
cd "$(dirname "$0")/.."
. tests/lib.sh

step "set-up: packages, static libraries"
sh tests/deps.sh
[ -c /dev/fuse ] || die "there is no /dev/fuse: volumes are served through FUSE, so load the fuse module or use a machine that has it"
sh tests/sim/images.sh
step "set-up: building the three programs in build/release"
build_preset release warmroot warmroot-bootstrap warmroot-sim
step "set-up done; the demo starts"
exec python3 tests/demo.py
