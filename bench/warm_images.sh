#!/bin/sh
# Makes the root disks that `bench/run.sh warm` warms, in build/bench:
#   ext4.img   8 GiB, Debian 12 with Python, g++, Perl, git and, as ballast, compilers and servers that no session uses
#   older.img  the same with the source package perl in its version before: a list recorded there is one upgrade old
#   aged.img   the same files between others that were deleted without a trim: what is free is in the snapshot too
#   xfs.img    the same files on xfs
# Each with NAME.free: the ranges that its file system calls free ("offset length" in bytes on the disk), by dumpe2fs
# and xfs_db, which share no code with the warmer. The disks have a GPT and a partition at 1,088 KiB, no multiple of
# the 512 KiB grid. Called by bench/run.sh from the top directory; skips what this version of the script already made.
# Usage: sh bench/warm_images.sh [ext4|older|aged|xfs]...
set -eu
cd "$(dirname "$0")/.."
. tests/lib.sh

images=$repo/build/bench
stamp=$(sha256sum <bench/warm_images.sh | cut -c1-16)
start_kib=1088 size_mib=8192
packages="python3,python3-numpy,perl,git,g++,make,openssh-client,curl,openssl,ca-certificates,procps,iproute2,less,vim-tiny,\
clang,golang-go,openjdk-17-jdk-headless,nodejs,postgresql-15,sudo,rsync,findutils"

upgraded="perl perl-base libperl5.36 perl-modules-5.36"

missing=""
for name in "$@"; do
  [ "$(cat "$images/$name.stamp" 2>/dev/null)" = "$stamp" ] || missing="$missing $name"
done
[ -n "$missing" ] || exit 0
[ "$(id -u)" = 0 ] || die "the bench's root disks can only be made by root (mmdebstrap, loop devices)"
need_space_mib "$repo" 12000
mkdir -p "$images"

debian_sources() {
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -f "$file" ] && grep -q '^Suites:.*bookworm' "$file" && echo "$file"
  done
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$file" ] && grep -q '^deb .* bookworm ' "$file" && echo "$file"
  done
}

# The tree that all disks are filled from.
tree=$images/tree
if [ "$(cat "$images/tree.stamp" 2>/dev/null)" != "$packages" ]; then
  step "bench disks: a Debian tree (some minutes)"
  rm -rf "$tree"
  # shellcheck disable=SC2046 # word splitting is the list of source files
  run_logged bench-tree mmdebstrap --variant=minbase --include="$packages" bookworm "$tree" $(debian_sources)
  rm -rf "$tree"/var/lib/apt/lists/* "$tree"/var/cache/apt/*
  printf '%s' "$packages" >"$images/tree.stamp"
fi

# Everything mounted below lives in a mount namespace of this script's own.
[ -n "${WARM_IMAGES_NAMESPACE:-}" ] || WARM_IMAGES_NAMESPACE=1 exec unshare -m --propagation private sh "$0" "$@"
point=$(mktemp -d "$images/point.XXXXXX")
loop=""
leave() {
  ! mountpoint -q "$point" || umount -R "$point"
  [ -z "$loop" ] || losetup -d "$loop"
  loop=""
}
trap 'leave; rmdir "$point"' EXIT
trap 'exit 130' INT TERM

# make_disk FILE TYPE: an empty disk with one partition, mounted.
make_disk() {
  rm -f "$1"
  truncate -s "${size_mib}M" "$1"
  printf 'label: gpt\nstart=%sKiB, size=%sKiB, type=linux-root-x86-64, name="root"\n' "$start_kib" \
    "$((size_mib * 1024 - start_kib - 1024))" | sfdisk --quiet "$1" >/dev/null
  mount_disk "$1" "$2" new
}

# mount_disk FILE TYPE [new]: mounts the partition, with a file system made first if it is new.
mount_disk() {
  loop=$(losetup --show -f -o "$((start_kib * 1024))" --sizelimit "$(((size_mib - 1) * 1048576 - start_kib * 1024))" "$1")
  if [ -n "${3:-}" ]; then
    case $2 in
      ext4) run_logged bench-mkfs mkfs.ext4 -q -L cloudimg-rootfs "$loop" ;;
      xfs) run_logged bench-mkfs mkfs.xfs -q -L root "$loop" ;;
    esac
  fi
  case $2 in
    ext4) mount -o noinit_itable "$loop" "$point" ;;
    xfs) mount "$loop" "$point" ;;
  esac
}

# close_disk FILE TYPE trim|keep: unmounts; what is free leaves the file where trimmed, and FILE.free says what is free.
close_disk() {
  sync -f "$point"
  [ "$3" = keep ] || fstrim "$point"
  umount "$point"
  case $2 in
    ext4) dumpe2fs "$loop" 2>/dev/null | sed -n 's/^  Free blocks: //p; s/^Block size: */size /p' ;;
    xfs) xfs_db -r -c "sb 0" -c "p blocksize agblocks" -c "freesp -d" "$loop" ;;
  esac | python3 bench/warm_free.py "$2" "$((start_kib * 1024))" >"${1%.img}.free"
  losetup -d "$loop"
  loop=""
  # What was only preallocated reads as a hole or as data, depending on the page cache: from now on it is a hole,
  # as are zeros.
  sync "$1"
  dd of="$1" oflag=nocache conv=notrunc,fdatasync count=0 status=none
  cp --sparse=auto "$1" "$1.copy" && mv "$1.copy" "$1" && sync "$1"
  basename "$1" .img | { read -r name && printf '%s' "$stamp" >"$images/$name.stamp"; }
}

# The packages of `upgraded` in the newest version below the tree's, in build/bench/older-packages.
fetch_older() {
  older_packages=$images/older-packages
  [ ! -d "$older_packages" ] || return 0
  rm -rf "$older_packages.new"
  mkdir "$older_packages.new"
  for package in $upgraded; do
    version=$(dpkg-query --admindir="$tree/var/lib/dpkg" -W -f '${Version}' "$package")
    older=$(apt-cache madison "$package" | awk '{ print $3 }' | sort -V | while read -r one; do
      ! dpkg --compare-versions "$one" lt "$version" || echo "$one"; done | tail -n 1)
    [ -n "$older" ] || die "the archives have no version of $package before $version"
    (cd "$older_packages.new" && run_logged "bench-$package" apt-get download "$package=$older")
  done
  mv "$older_packages.new" "$older_packages"
}

# In the mounted root.
downgrade() {
  mkdir "$point/older-packages"
  mount --bind "$images/older-packages" "$point/older-packages"
  run_logged bench-downgrade chroot "$point" sh -c 'dpkg --force-downgrade --force-confold -i /older-packages/*.deb'
  umount "$point/older-packages"
  rmdir "$point/older-packages"
}

fill() { cp -a "$tree/." "$point/"; }

for name in $missing; do
  step "bench disks: $name"
  disk=$images/$name.img
  case $name in
    ext4)
      make_disk "$disk" ext4
      fill
      close_disk "$disk" ext4 trim
      ;;
    older)
      fetch_older
      make_disk "$disk" ext4
      fill
      downgrade
      close_disk "$disk" ext4 trim
      ;;
    xfs)
      make_disk "$disk" xfs
      fill
      close_disk "$disk" xfs trim
      ;;
    aged)
      make_disk "$disk" ext4
      # Old files before, among and behind what stays: their blocks are free, and in the snapshot all the same.
      mkdir "$point/old"
      yes | head -c 1500M | split -b 3M - "$point/old/a."
      sync -f "$point"
      rm "$point"/old/a.?[a-m]
      fill
      yes | head -c 1000M | split -b 3M - "$point/old/b."
      sync -f "$point"
      rm -r "$point/old"
      close_disk "$disk" ext4 keep
      ;;
    *) die "there is no bench disk called $name" ;;
  esac
done
step "bench disks: done"
