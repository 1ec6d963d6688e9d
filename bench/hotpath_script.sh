#!/bin/sh
# What `bench/run.sh hotpath` compares the bootstrap with: the recipe as people write it, on the base system. It is given the disk as
# soon as that is there, so that it waits for nothing. Usage: hotpath_script.sh DEVICE SSHD_CONFIG SSHD_PID
set -e
device=$1 config=$2 sshd=$3 point=/mnt/volume
[ "$(blkid -o value -s TYPE "$device")" = ext4 ]
mount "$device" $point
for place in dev proc sys run; do
  mount --rbind /$place $point/$place
  mount --make-rslave $point/$place
done
sed -i "s,^#*ChrootDirectory .*,ChrootDirectory $point," "$config"
/usr/sbin/sshd -t -f "$config"
kill -HUP "$sshd"
