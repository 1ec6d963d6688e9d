# What is installed, whose file is it, what does it need (the lists of what could be installed are not on the disk): run by `bash -l` in the warmed root. Fixed: a result names the
# revision that it is of.
set -eu
dpkg -l >/dev/null
dpkg -S /usr/bin/perl /usr/bin/git /usr/bin/gcc-12 >/dev/null
dpkg -L python3-numpy >/dev/null
dpkg-query -W -f '${Package} ${Version} ${Installed-Size}\n' | sort -k 3 -n | tail -n 1
dpkg -s postgresql-15 >/dev/null
apt-cache policy git >/dev/null
apt-cache depends nodejs >/dev/null
apt-cache search compiler | tail -n 1
