# A login, an interpreter with numpy, a compiler: run by `bash -l` in the warmed root. Fixed: a result names the revision that it is of.
set -eu
id >/dev/null
ls -l /etc >/dev/null
cat /etc/os-release /etc/passwd >/dev/null
python3 -c 'import asyncio, http.client, json, numpy, re, sqlite3, ssl; print(numpy.arange(9).sum())'
work=$(mktemp -d)
cat >"$work/a.cpp" <<'END'
#include <iostream>
#include <map>
#include <regex>
#include <string>
int main() {
  const std::regex word("[a-z]+");
  std::map<std::string, int> seen;
  const std::string text = "the volume is cold and the session waits for the volume";
  for (std::sregex_iterator i(text.begin(), text.end(), word), end; i != end; ++i) ++seen[i->str()];
  std::cout << seen.size() << '\n';
}
END
g++ -o "$work/a" "$work/a.cpp"
"$work/a"
rm -r "$work"
