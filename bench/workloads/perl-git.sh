# A login, a repository made and looked at, Perl, and network tools' start-up: run by `bash -l` in the warmed root.
# Fixed: a result names the revision that it is of.
set -eu
id >/dev/null
cat /etc/os-release >/dev/null
work=$(mktemp -d)
cp -r /usr/share/perl/5.36/CPAN* /usr/share/perl/5.36/Test "$work/"
cd "$work"
git init -q .
git -c user.name=a -c user.email=a@b add .
git -c user.name=a -c user.email=a@b commit -q -m all
git log --stat >/dev/null
git grep -c sub >/dev/null
perl -MData::Dumper -MFile::Find -MJSON::PP -MPOSIX -MStorable -MEncode -MHTTP::Tiny \
  -e 'find(sub { $n++ if /\.pm$/ }, "/usr/share/perl/5.36"); print Dumper($n), encode_json([1..9]), "\n"'
curl --version >/dev/null
openssl version -a >/dev/null
ssh -V 2>/dev/null
find /usr/lib/git-core -name 'git-*' | sort | tail -n 1
cd /
rm -rf "$work"
