# A login to its prompt, two commands, logout: run by `bash -l` in the warmed root. Fixed: a result names the revision that it is of.
set -eu
cat /etc/motd
bash -l -i <<'SESSION'
id
ls -la
exit 0
SESSION
