# A login, Perl, Python, git: short, as an emulated processor runs it. By `bash -l` in the warmed root. Fixed: a result names the
# revision that it is of.
set -eu
id >/dev/null
ls -l /etc >/dev/null
cat /etc/os-release /etc/passwd >/dev/null
perl -MData::Dumper -MPOSIX -MStorable -e 'print Dumper(1), "\n"'
git --version >/dev/null
python3 -c 'import json, re, sqlite3; print(json.dumps([1]))'
