# One GiB of existing files read from beginning to end, one after the other: run by `bash -l` in the warmed root. Fixed: a result names the revision
# that it is of.
set -eu
cd /usr/lib
find gcc go-1.19 jvm llvm-14 x86_64-linux-gnu -xdev -type f -size +128k -print0 | sort -z | xargs -0 cat 2>/dev/null | head -c 1G | wc -c
