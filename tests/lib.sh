# Shell functions shared by tests/*.sh: progress with elapsed time, logs of long steps, one-sentence failures.
# Sourced from the repository's top directory.
repo=$PWD
mkdir -p build/logs
export started="${started:-$(date +%s)}"

step() { printf '[%4ds] %s\n' "$(($(date +%s) - started))" "$*" >&2; }

die() {
  printf 'warmroot: %s\n' "$*" >&2
  exit 1
}

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# run_logged NAME COMMAND...: output goes to build/logs/NAME.log; a line every 10 s says how far it is.
run_logged() {
  name=$1 log=$repo/build/logs/$1.log
  shift
  "$@" >"$log" 2>&1 </dev/null &
  command_pid=$!
  waited=0
  while kill -0 "$command_pid" 2>/dev/null; do
    sleep 0.2
    waited=$((waited + 1))
    [ $((waited % 50)) -ne 0 ] || step "  $name: $(tail -n 1 "$log" | cut -c1-90)"
  done
  wait "$command_pid" || {
    tail -n 15 "$log" >&2
    die "$name failed; the whole output is in build/logs/$name.log"
  }
}

# need_space_mib DIRECTORY MIB
need_space_mib() {
  free=$(df -Pm "$1" | awk 'NR == 2 { print $4 }')
  [ "$free" -ge "$2" ] || die "$1 has $free MiB free and $2 MiB are needed"
}

# To the compiler cache paths below the repository are relative: a clone finds what another one compiled.
export CCACHE_BASEDIR="$repo" CCACHE_NOHASHDIR=1

# build_preset PRESET [TARGET...]: configures, afresh where the presets have changed since, then builds; everything where no
# target is named.
build_preset() {
  preset=$1
  shift
  [ -n "$(find "build/$preset/build.ninja" -newer CMakePresets.json 2>/dev/null)" ] || {
    run_logged "configure-$preset" cmake --fresh --preset "$preset"
    # CMake's batches name their files by whole paths, which no other clone's compiler cache knows.
    find "build/$preset" -path '*/Unity/*.cxx' -exec sed -i "s|\"$repo/|\"|" {} +
  }
  run_logged "build-$preset" cmake --build --preset "$preset" ${1:+--target "$@"}
}
