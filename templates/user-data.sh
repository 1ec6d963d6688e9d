#cloud-boothook
#!/bin/sh
# warmroot: fetches warmroot-bootstrap, checks it, starts it. Runs at every boot, before sshd. A failure leaves this
# host's sshd as it is and is told on the console and in /run/warmroot/boothook.log.
manager={{manager_url}}
sha256={{sha256}}
patience_s=120 # sshd waits for us that long when the manager cannot be reached
pause_s=2

root=${WARMROOT_ROOT-} # set by tests alone
run=$root/run/warmroot
umask 022

say() {
  echo "warmroot: $*" >>"$run/boothook.log"
  echo "warmroot: $*" 2>/dev/null >"${WARMROOT_CONSOLE:-/dev/console}" || :
} 2>/dev/null
give_up() {
  say "$*; sessions stay on the base system"
  # one that runs already tells people itself
  [ -e "$run/bootstrap.pid" ] || { mkdir -p "$root/run/motd.d" && echo "warmroot: $*; this is the base system" >"$root/run/motd.d/warmroot"; }
  exit 1
} 2>/dev/null
uptime_s() { # a clock that NTP does not move
  read -r up rest </proc/uptime
  echo "${up%.*}"
}
fetch() {
  if command -v curl >/dev/null; then
    curl -fsS --connect-timeout 5 --max-time 40 -o "$2" "$1"
  elif command -v wget >/dev/null; then
    timeout 40 wget -q -T 5 -t 1 -O "$2" "$1"
  else
    timeout 40 python3 -c 'import sys, urllib.request as r
open(sys.argv[2], "wb").write(r.urlopen(sys.argv[1], timeout=5).read())' "$1" "$2"
  fi
} 2>"$run/fetch.log"
can_execute() { # a file system may be read-only or mounted noexec
  mkdir -p "$1" && printf '#!/bin/sh\nexit 0\n' >"$1/try" && chmod 700 "$1/try" && "$1/try"
} 2>/dev/null

mkdir -p "$run" || give_up "cannot create $run"
cat >"$run/ticket.json" <<'WARMROOT_TICKET_END' || give_up "cannot write $run/ticket.json"
{{ticket}}
WARMROOT_TICKET_END

is_ours() {
  echo "$sha256  $1" | sha256sum -c >/dev/null 2>&1
}
# What outlives a reboot comes first: the next boot then needs no manager.
for bin in "$root/var/lib/warmroot/bin" "$run/bin" ''; do
  [ -n "$bin" ] || give_up "neither /run nor /var/lib allows a program to be run"
  can_execute "$bin" && break
done
rm -f "$bin/try"
program=$bin/warmroot-bootstrap

fetch_checked() {
  for tool in curl wget python3 ''; do
    [ -n "$tool" ] || give_up "none of curl, wget and python3 is installed"
    command -v "$tool" >/dev/null && break
  done
  stop_s=$(($(uptime_s) + patience_s))
  until fetch "$manager/bootstrap/warmroot-bootstrap?sha256=$sha256" "$program.new" && [ -s "$program.new" ]; do
    if [ "${1-}" != later ] && [ "$(uptime_s)" -ge "$stop_s" ]; then
      why=$(tail -n 1 "$run/fetch.log" 2>/dev/null)
      sh "$0" later </dev/null >/dev/null 2>&1 & # the boot goes on, and so do we
      give_up "cannot fetch the bootstrap from $manager in $patience_s s ($why), goes on trying"
    fi
    sleep "$pause_s"
    # somebody has taken us away, or started it
    [ -e "$0" ] && { [ "${1-}" != later ] || [ ! -e "$run/bootstrap.pid" ]; } || exit 1
  done
  is_ours "$program.new" ||
    give_up "the bootstrap from $manager is not the one this instance was launched with (SHA-256 $sha256)"
  chmod 755 "$program.new" && mv -f "$program.new" "$program" || give_up "cannot install $program"
}
# Where a session sees it, too.
for_people() {
  mkdir -p "$run/bin" && cp "$program" "$run/bin/new" && mv -f "$run/bin/new" "$run/bin/warmroot-bootstrap"
} 2>/dev/null
[ "${1-}" != later ] || pause_s=15
is_ours "$program" || fetch_checked "$@"
is_ours "$run/bin/warmroot-bootstrap" || for_people

# Prepares sshd's configuration and returns; what takes long goes on in the background.
timeout 120 "$program" up --ticket "$run/ticket.json" </dev/null >>"$run/boothook.log" 2>&1 ||
  give_up "the bootstrap could not start (status $?), see $run/boothook.log"
