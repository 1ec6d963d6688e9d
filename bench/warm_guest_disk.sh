#!/bin/sh
# Makes the disk from which warm_guest_bench's guest boots: the test images' base system with this build's warm_bench (the
# warmer and the plain reader) and its libraries in /bench, and a key for root. Called by bench/run.sh; as root, in a mount
# namespace of its own.
# Usage: sh bench/warm_guest_disk.sh WARM_BENCH DISK
set -eu
. tests/lib.sh
program=$1 disk=$2 images=build/images

step "the guest's disk"
tree=$(mktemp -d)
trap 'umount "$tree" 2>/dev/null || :; rmdir "$tree"; rm -f "$disk.raw"' EXIT
cp --sparse=always "$images/base.img" "$disk.raw"
mount -o loop "$disk.raw" "$tree"
mkdir -p "$tree/bench/lib" "$tree/root/.ssh"
ldd "$program" | grep -o '/[^ ]*' | while read -r library; do cp -L "$library" "$tree/bench/lib/"; done
cp "$program" "$tree/bench/program"
cat >"$tree/bench/warm_bench" <<'END'
#!/bin/sh
exec /bench/lib/ld-linux-x86-64.so.2 --library-path /bench/lib /bench/program "$@"
END
install -m 755 bench/warm_guest_run.py "$tree/bench/run.py"
chmod 755 "$tree/bench/warm_bench"
install -m 600 "$images/id_ed25519.pub" "$tree/root/.ssh/authorized_keys"
# There is no metadata service to ask.
printf '#!/bin/sh\n' >"$tree/usr/local/sbin/user-data"
umount "$tree"
qemu-img convert -q -f raw -O qcow2 "$disk.raw" "$disk"
