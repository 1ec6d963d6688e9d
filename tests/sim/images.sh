#!/bin/sh
# Makes what the simulated region's machines boot from, in build/images:
#   vmlinuz            Debian's cloud kernel
#   base.img           the base system (base AMI): a small Debian with sshd and a busybox init that plays cloud-init
#   base-twins.img     the same for tests, with people whom ami.img knows otherwise, and file systems mounted that have the
#                      UUIDs of xfs.img's and btrfs.img's
#   ami.img            the AMI whose snapshot fills pool volumes: another Debian, GPT, with python3-numpy and a workload
#   xfs.img, btrfs.img small AMIs whose roots are of these types; btrfs.img has an EFI partition, too
#   arm64.img, noroot.img   an AMI of another architecture and one without a root file system, for refusals
#   id_ed25519{,.pub}  the key pair that instances are launched with
# and, where the word `cloud` is given:
#   cloud.img          a base system as AMIs have it: Debian with systemd, cloud-init and OpenSSH
#   cloud-disk.img     the same as a disk with GPT, which GRUB boots by its file system's UUID, with an initramfs
#   vmlinuz-cloud      the kernel whose modules they have
#   grub               for QEMU in place of a kernel: GRUB, which goes by the first disk's grub.cfg
#   system.img         an AMI that can be booted as a container on it: with its own init, logind and OpenSSH
# or, where the word `bases` is:
#   base-11.img, base-13.img   as base.img, of Debian 11 (OpenSSH 8.4) and 13 (10.0)
# Called by tests/run.sh and tests/demo.sh from the top directory; skips what this version of the script already made.
# Usage: sh tests/sim/images.sh [cloud|bases]
set -eu
cd "$(dirname "$0")/../.."
. tests/lib.sh

images=$repo/build/images
case "${1:-}" in "" | cloud | bases) ;; *) die "usage: sh tests/sim/images.sh [cloud|bases]" ;; esac
stamp=$(cat tests/sim/images.sh tests/sim/guest/* | sha256sum | cut -c1-16)
stamp_of() { cat "$images/$1" 2>/dev/null; }
[ "$(stamp_of stamp)" != "$stamp" ] || [ "$(stamp_of "stamp${1:+-$1}")" != "$stamp" ] || exit 0
[ "$(id -u)" = 0 ] || die "guest images can only be made by root (mmdebstrap needs device nodes)"
need_space_mib "$repo" 4000
mkdir -p "$images"
work=$(mktemp -d "$images/work.XXXXXX")
trap 'rm -rf "$work"' EXIT

# The package sources of this machine that carry Debian bookworm, for mmdebstrap.
debian_sources() {
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -f "$file" ] && grep -q '^Suites:.*bookworm' "$file" && echo "$file"
  done
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$file" ] && grep -q '^deb .* bookworm ' "$file" && echo "$file"
  done
}
sources=$(debian_sources | tr '\n' ' ')

# other_release SUITE: the same sources for another release of Debian.
other_release() {
  for file in $sources; do
    other=$work/$1-$(basename "$file")
    sed "s/bookworm/$1/g" "$file" >"$other"
    echo "$other"
  done
}

# debian NAME VARIANT PACKAGES [SUITE]: a Debian tree in $work/NAME.
debian() {
  suite=${4:-bookworm}
  [ "$suite" = bookworm ] && from=$sources || from=$(other_release "$suite" | tr '\n' ' ')
  # shellcheck disable=SC2086 # word splitting is the list of source files
  run_logged "mmdebstrap-$1" mmdebstrap --quiet --variant="$2" --include="$3" \
    --dpkgopt=path-exclude='/usr/share/man/*' --dpkgopt=path-exclude='/usr/share/doc/*' \
    --dpkgopt=path-exclude='/usr/share/locale/*' "$suite" "$work/$1" $from
}

# ext4_image FILE SIZE_MIB TREE OFFSET_MIB [UUID]: a sparse image holding TREE at OFFSET_MIB (0: no partition table).
ext4_image() {
  rm -f "$1"
  truncate -s "$2M" "$1"
  blocks=$((($2 - $4 - ($4 > 0)) * 256))
  run_logged "mkfs-$(basename "$1")" mke2fs -q -t ext4 -b 4096 -L cloudimg-rootfs -U "${5:-random}" -E "offset=$(($4 * 1048576)),root_owner=0:0" \
    -d "$3" "$1" "$blocks"
  [ "$4" = 0 ] || printf 'label: gpt\nstart=%sMiB, size=%sMiB, type=linux-root-x86-64, name="root"\n' "$4" "$(($2 - $4 - 1))" |
    sfdisk --quiet "$1" >/dev/null
}

# in_partition FILE FILESYSTEM [EFI_MIB EFI]: wraps an image of a file system into a disk, as partition 1, with nothing behind
# it; before it, at 1 MiB, lies an image of an EFI partition of so many MiB where one is named.
in_partition() {
  rm -f "$1"
  size=$(($(stat -c %s "$2") / 1048576)) first=$((1 + ${3:-0}))
  truncate -s "$((first + size + 1))M" "$1"
  dd if="$2" of="$1" bs=1M seek="$first" conv=sparse,notrunc status=none
  printf 'label: gpt\nstart=%sMiB, size=%sMiB, type=linux-root-x86-64, name="root"\n' "$first" "$size" >"$work/table"
  if [ -n "${3:-}" ]; then
    dd if="$4" of="$1" bs=1M seek=1 conv=sparse,notrunc status=none
    printf 'start=1MiB, size=%sMiB, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, name="efi"\n' "$3" >>"$work/table"
  fi
  sfdisk --quiet "$1" <"$work/table" >/dev/null
  rm "$2"
}

# xfs_protofile TREE: what mkfs.xfs -p fills a file system from; no mount and no kernel support is needed.
xfs_protofile() {
  python3 - "$1" <<'END'
import os, stat, sys

def entry(path, name, indent):
    facts = os.lstat(path)
    mode, owner = facts.st_mode, f"{facts.st_uid} {facts.st_gid}"
    bits = ("u" if mode & stat.S_ISUID else "-") + ("g" if mode & stat.S_ISGID else "-") + f"{mode & 0o777:03o}"
    if stat.S_ISDIR(mode):
        print(f"{indent}{name} d{bits} {owner}".strip() if not name else f"{indent}{name} d{bits} {owner}")
        for child in sorted(os.listdir(path)):
            entry(os.path.join(path, child), child, indent + " ")
        print(f"{indent}$")
    elif stat.S_ISLNK(mode):
        print(f"{indent}{name} l{bits} {owner} {os.readlink(path)}")
    else:
        print(f"{indent}{name} -{bits} {owner} {path}")

print("/dev/null\n0 0")
entry(sys.argv[1], "", "")
END
}

# slow_machine TREE: an emulated machine beside other work is slow: a service of its systemd is not to be ended for that.
slow_machine() {
  mkdir -p "$1/etc/systemd/system.conf.d" "$1/etc/systemd/system/service.d"
  printf '[Manager]\nDefaultTimeoutStartSec=15min\n' >"$1/etc/systemd/system.conf.d/50-slow.conf"
  printf '[Service]\nWatchdogSec=0\n' >"$1/etc/systemd/system/service.d/50-slow.conf"
}

# ami_people TREE: who lives in an AMI.
ami_people() {
  chroot "$1" useradd --create-home --shell /bin/bash --uid 1000 admin
  chroot "$1" useradd --create-home --shell /bin/bash --uid 2001 researcher
  chroot "$1" useradd --create-home --shell /bin/bash --uid 2500 mixed
  echo 'admin ALL=(ALL) NOPASSWD: ALL' >"$1/etc/sudoers.d/admin"
}

# ami_zone TREE: a time zone that only the volume has.
ami_zone() {
  echo 'Zone Volume 2 - VOL' | /usr/sbin/zic -d "$work/zone" -
  rm -f "$1/etc/localtime"
  cp "$work/zone/Volume" "$1/etc/localtime"
}

system_image() {
  step "guest images: the AMI with its own init"
  debian system minbase systemd-sysv,dbus,libpam-systemd,openssh-server,python3-numpy,procps,iproute2,rsync,sudo,tmux,xauth
  tree=$work/system
  sed -i -e 's/^PRETTY_NAME=.*/PRETTY_NAME="Imagenet AMI (Debian 12 with its init)"/' "$tree/usr/lib/os-release"
  echo imagenet-ami >"$tree/etc/hostname"
  echo "127.0.0.1 localhost" >"$tree/etc/hosts"
  ami_people "$tree"
  ami_zone "$tree"
  echo '* soft nofile 3072' >"$tree/etc/security/limits.d/warmroot-test.conf"
  slow_machine "$tree"
  chroot "$tree" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer
  : >"$tree/etc/machine-id"
  rm -f "$tree"/etc/ssh/ssh_host_*
  rm -rf "$tree"/var/lib/apt/lists/* "$tree"/var/cache/apt/*
  ext4_image "$images/system.img" 2048 "$tree" 1
}

# grub_disk TREE: cloud-disk.img, with grub.cfg as grub-mkconfig writes it, and the GRUB that reads it. Its core would
# lie on the disk before the partition; lnxboot.img lets QEMU load it from beside it.
grub_disk() {
  release=$(ls "$1/lib/modules") uuid=7d6f1b0c-3c57-4d8e-9a8f-2f9f0c1f7a11
  mkdir -p "$1/boot/grub"
  cat >"$1/boot/grub/grub.cfg" <<END
set root='hd0,gpt1'
search --no-floppy --fs-uuid --set=root --hint-bios=hd0,gpt1 $uuid
linux /boot/vmlinuz-$release root=UUID=$uuid ro console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off no_timer_check random.trust_cpu=on
initrd /boot/initrd.img-$release
boot
END
  ext4_image "$images/cloud-disk.img" 2049 "$1" 1 "$uuid"
  echo 'configfile (hd0,gpt1)/boot/grub/grub.cfg' >"$work/grub.cfg"
  grub-mkimage --format=i386-pc --output="$work/grub" --prefix='(hd0,gpt1)/boot/grub' --config="$work/grub.cfg" \
    biosdisk part_gpt ext2 linux normal configfile search search_fs_uuid echo
  cat /usr/lib/grub/i386-pc/lnxboot.img "$work/grub" >"$images/grub"
}

# The cloud images need nothing of the others but the key pair, which outlives them.
cloud_image() {
  system_image
  step "guest images: the base system with systemd and cloud-init"
  debian cloud minbase linux-image-cloud-amd64,initramfs-tools,systemd-sysv,udev,dbus,libpam-systemd,systemd-resolved,cloud-init,cloud-guest-utils,isc-dhcp-client,e2fsprogs,openssh-server,sudo,iproute2,curl,kmod,procps,systemd-container
  tree=$work/cloud
  cp "$tree"/boot/vmlinuz-* "$images/vmlinuz-cloud"
  install -m 755 tests/sim/guest/agent "$tree/usr/local/sbin/"
  cp tests/sim/guest/warmroot-agent.service "$tree/etc/systemd/system/"
  # Debian's AMIs call their user so, and let networkd do what cloud-init finds out. An RSA key takes an emulated CPU
  # minutes; locales are not installed.
  printf 'system_info:\n  default_user:\n    name: admin\nmanage_etc_hosts: true\nssh_genkeytypes: [ed25519, ecdsa]\nlocale: false\n' >"$tree/etc/cloud/cloud.cfg.d/50_user.cfg"
  slow_machine "$tree"
  chroot "$tree" systemctl --quiet enable warmroot-agent.service systemd-networkd.service
  chroot "$tree" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer
  sed -i 's/^PRETTY_NAME=.*/PRETTY_NAME="warmroot test base (Debian 12 with cloud-init)"/' "$tree/usr/lib/os-release"
  echo 'LABEL=cloudimg-rootfs / ext4 rw,errors=remount-ro 0 1' >"$tree/etc/fstab"
  echo base >"$tree/etc/hostname"
  echo "127.0.0.1 localhost" >"$tree/etc/hosts"
  : >"$tree/etc/machine-id"
  rm -f "$tree"/etc/ssh/ssh_host_*
  rm -rf "$tree"/var/lib/apt/lists/* "$tree"/var/cache/apt/*
  ext4_image "$images/cloud.img" 2048 "$tree" 0
  grub_disk "$tree"
  echo "$stamp" >"$images/stamp-cloud"
}
kernel() {
  if [ -d "$work/kernel" ]; then return; fi
  step "guest images: kernel"
  debian kernel extract linux-image-cloud-amd64
  release=$(ls "$work/kernel/lib/modules")
}

# base_system NAME VERSION [SUITE]: the tree $work/NAME of a base system, of Debian VERSION, and its image.
base_system() {
  step "guest images: base system, Debian $2"
  debian "$1" minbase openssh-server,iproute2,curl,kmod,procps,busybox-static,python3 "${3:-bookworm}"
  tree=$work/$1
  mkdir -p "$tree/lib/modules/$release"
  for part in drivers/virtio drivers/net/virtio_net.ko drivers/net/net_failover.ko net/core drivers/char/virtio_console.ko \
    drivers/char/hw_random fs/xfs fs/btrfs fs/fat fs/nls fs/fuse drivers/block/loop.ko crypto arch/x86/crypto lib; do
    [ -e "$work/kernel/lib/modules/$release/kernel/$part" ] || continue
    mkdir -p "$tree/lib/modules/$release/kernel/$(dirname "$part")"
    cp -r "$work/kernel/lib/modules/$release/kernel/$part" "$tree/lib/modules/$release/kernel/$part"
  done
  cp "$work/kernel/lib/modules/$release"/modules.order "$work/kernel/lib/modules/$release"/modules.builtin* "$tree/lib/modules/$release/"
  chroot "$tree" depmod "$release"
  cp tests/sim/guest/inittab "$tree/etc/inittab"
  install -m 755 tests/sim/guest/rcS tests/sim/guest/agent tests/sim/guest/user-data tests/sim/guest/shutdown "$tree/usr/local/sbin/"
  ln -sf /bin/busybox "$tree/sbin/init"
  ln -sf /bin/busybox "$tree/sbin/poweroff"
  sed -i "s/^PRETTY_NAME=.*/PRETTY_NAME=\"warmroot test base (Debian $2)\"/" "$tree/usr/lib/os-release"
  echo base >"$tree/etc/hostname"
  echo "127.0.0.1 localhost" >"$tree/etc/hosts"
  rm -f "$tree"/etc/ssh/ssh_host_* "$tree/etc/resolv.conf"
  chroot "$tree" useradd --create-home --shell /bin/bash admin
  chroot "$tree" passwd --quiet --delete root
  rm -rf "$tree"/var/lib/apt/lists/* "$tree"/var/cache/apt/*
  ext4_image "$images/$1.img" 1024 "$tree" 0
}

other_bases() {
  kernel
  base_system base-11 11 bullseye
  base_system base-13 13 trixie
  echo "$stamp" >"$images/stamp-bases"
}

if [ -n "${1:-}" ] && [ "$(stamp_of "stamp-$1")" != "$stamp" ]; then
  case "$1" in cloud) cloud_image ;; bases) other_bases ;; esac
fi
[ "$(stamp_of stamp)" != "$stamp" ] || exit 0

kernel
cp "$work"/kernel/boot/vmlinuz-* "$images/vmlinuz"
base_system base 12
base=$work/base

step "guest images: the AMI with the workload"
debian ami minbase python3-numpy,procps,iproute2,openssh-sftp-server,rsync,sudo,systemd,tmux,xauth
ami=$work/ami
sed -i -e 's/^PRETTY_NAME=.*/PRETTY_NAME="Imagenet AMI (Debian 12)"/' -e '$a VARIANT_ID=warmroot-ami' "$ami/usr/lib/os-release"
echo imagenet-ami >"$ami/etc/hostname"
echo "127.0.0.1 localhost" >"$ami/etc/hosts"
ami_people "$ami"
ami_zone "$ami"
install -m 755 tests/sim/guest/workload "$ami/usr/local/bin/workload"
chroot "$ami" python3 /usr/local/bin/workload --make-dataset
rm -rf "$ami"/var/lib/apt/lists/* "$ami"/var/cache/apt/*
ext4_image "$images/ami.img" 4096 "$ami" 1

step "guest images: roots on xfs and btrfs"
xfs_uuid=5f0a1c52-8d2b-4b6e-9a63-77a1e0f5c0aa btrfs_uuid=b7d3c9e4-1f60-4c1d-8c55-0d1f2a9be0bb
for type in xfs btrfs; do
  tree=$work/$type
  mkdir -p "$tree/bin" "$tree/lib64" "$tree/lib" "$tree/etc" "$tree/home/admin" "$tree/root" "$tree/proc" "$tree/sys" \
    "$tree/dev" "$tree/run" "$tree/tmp" "$tree/var/lib"
  cp "$base/bin/busybox" "$base/bin/bash" "$tree/bin/"
  cp "$base/lib64/ld-linux-x86-64.so.2" "$tree/lib64/"
  cp "$base/lib/x86_64-linux-gnu/libtinfo.so.6" "$base/lib/x86_64-linux-gnu/libc.so.6" "$tree/lib/"
  for applet in sh cat id ls dmesg grep sync mount tty; do ln -s busybox "$tree/bin/$applet"; done
  printf 'PRETTY_NAME="AMI on %s"\n' "$type" >"$tree/etc/os-release"
  printf 'root:x:0:0:root:/root:/bin/bash\nadmin:x:1000:1000::/home/admin:/bin/bash\n' >"$tree/etc/passwd"
  printf 'root:x:0:\nadmin:x:1000:\n' >"$tree/etc/group"
  chown 1000:1000 "$tree/home/admin"
  chmod 1777 "$tree/tmp"
done
mkdir -p "$work/btrfs/boot/efi"
echo 'LABEL=UEFI /boot/efi vfat umask=0022 0 1' >"$work/btrfs/etc/fstab"
truncate -s 8M "$work/efi.fs"
run_logged mkfs-vfat mkfs.vfat -n UEFI "$work/efi.fs"
xfs_protofile "$work/xfs" >"$work/xfs.proto"
truncate -s 320M "$work/xfs.fs" "$work/btrfs.fs"
run_logged mkfs-xfs mkfs.xfs -q -m "uuid=$xfs_uuid" -p "$work/xfs.proto" "$work/xfs.fs"
run_logged mkfs-btrfs mkfs.btrfs -q -U "$btrfs_uuid" --rootdir "$work/btrfs" "$work/btrfs.fs"
# People as they differ between base and volume: unknown there, of another uid there, with a shell that is only here.
chroot "$base" useradd --create-home --shell /bin/bash --uid 1700 basic
chroot "$base" useradd --create-home --shell /bin/bash --uid 1500 mixed
cp "$base/bin/bash" "$base/usr/local/bin/baseshell"
chroot "$base" usermod --shell /usr/local/bin/baseshell admin
# What tells in a session that the base's PAM has opened it.
echo '* soft nofile 2048' >"$base/etc/security/limits.d/warmroot-test.conf"
echo 'session optional pam_umask.so umask=027' >>"$base/etc/pam.d/sshd"
mkdir -p "$base/usr/share/warmroot-test"
cp --sparse=always "$work/xfs.fs" "$work/btrfs.fs" "$base/usr/share/warmroot-test/"
ext4_image "$images/base-twins.img" 1024 "$base" 0
rm -r "$base/usr/share/warmroot-test"
in_partition "$images/xfs.img" "$work/xfs.fs"
in_partition "$images/btrfs.img" "$work/btrfs.fs" 8 "$work/efi.fs"

step "guest images: two that must be refused"
mkdir -p "$work/arm64/bin" "$work/arm64/etc" "$work/noroot/photos"
printf 'PRETTY_NAME="arm64 AMI"\n' >"$work/arm64/etc/os-release"
python3 -c 'import sys; sys.stdout.buffer.write(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00\x01\x00\x00\x00" + bytes(100))' >"$work/arm64/bin/sh"
chmod 755 "$work/arm64/bin/sh"
ext4_image "$images/arm64.img" 64 "$work/arm64" 1
echo "no root here" >"$work/noroot/photos/readme"
ext4_image "$images/noroot.img" 64 "$work/noroot" 1

[ -f "$images/id_ed25519" ] || ssh-keygen -q -t ed25519 -N '' -C warmroot-test -f "$images/id_ed25519"
echo "$stamp" >"$images/stamp"
step "guest images: done"
