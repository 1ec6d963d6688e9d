"""What a file system calls free, as "offset length" lines in bytes on the disk. Reads what dumpe2fs or xfs_db print,
as bench/warm_images.sh asks them. Usage: warm_free.py ext4|xfs PARTITION_OFFSET_BYTES <TEXT"""

import re
import sys


def ext4(lines):
    size = 0
    for line in lines:
        if line.startswith("size "):
            size = int(line.split()[1])
            continue
        for extent in re.findall(r"\d+(?:-\d+)?", line):
            first, _, last = extent.partition("-")
            yield int(first) * size, (int(last or first) - int(first) + 1) * size


def xfs(lines):
    block = group = 0
    for line in lines:
        if named := re.match(r"(blocksize|agblocks) = (\d+)", line):
            if named[1] == "blocksize":
                block = int(named[2])
            else:
                group = int(named[2])
        elif extent := re.match(r"\s*(\d+)\s+(\d+)\s+(\d+)\s*$", line):
            number, start, length = map(int, extent.groups())
            yield (number * group + start) * block, length * block
        elif "from" in line:  # the histogram that follows
            return


def main():
    offset = int(sys.argv[2])
    for start, length in sorted({"ext4": ext4, "xfs": xfs}[sys.argv[1]](sys.stdin)):
        print(start + offset, length)


main()
