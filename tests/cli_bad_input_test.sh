#!/bin/sh
# What operators get wrong, through the real programs: each case asserts the exit status, one sentence with its remedy,
# and that nothing was created. Called by ctest: cli_bad_input_test.sh BUILD-FOLDER.
set -u
build=$1
self=$(cd "$(dirname "$0")" && pwd)/$(basename "$0") # stands for the bootstrap, which nobody runs here
work=$(mktemp -d)
sim_pid= html_pid=
finish() {
  for pid in $sim_pid $html_pid; do kill "$pid" 2>/dev/null; done
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
cd "$work" || exit 1
failures=0

cat >catalog.toml <<'END'
snapshots = [
  { id = "snap-0base000000000001", size_gib = 1 },
  { id = "snap-0ami0000000000001", size_gib = 4 },
]
images = [
  { id = "ami-0base000000000001", name = "base", architecture = "x86_64", root_device = "/dev/xvda", snapshot = "snap-0base000000000001" },
  { id = "ami-0imagenet00000001", name = "imagenet", architecture = "x86_64", root_device = "/dev/xvda", snapshot = "snap-0ami0000000000001" },
  { id = "ami-0arm6400000000001", name = "other", architecture = "arm64", root_device = "/dev/xvda", snapshot = "snap-0ami0000000000001" },
]
subnets = [ { id = "subnet-0a00000000000001", zone = "us-east-1a" } ]
END
cat >spec.toml <<'END'
deployment = "badinput"
manager_url = "http://127.0.0.1:8470"
[[pool]]
name = "imagenet"
ami = "ami-0imagenet00000001"
zones = ["us-east-1a"]
nodes = 2
running = 2
[pool.launch]
base_ami = "ami-0base000000000001"
instance_types = ["g5.12xlarge"]
END

"$build/warmroot-sim" serve --no-machines --port 0 --dir region --catalog catalog.toml >sim.log 2>&1 &
sim_pid=$!
python3 -c '
import http.server
class Page(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<html><body>Welcome to the hotel</body></html>")
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Page)
print("endpoint=http://127.0.0.1:%d" % server.server_port, flush=True)
server.serve_forever()' >html.log 2>&1 &
html_pid=$!
for log in sim.log html.log; do
  tries=0
  until grep -q '^endpoint=' $log; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { echo "no server: $(cat $log)"; exit 1; }
    sleep 0.1
  done
done
endpoint=$(sed -n 's/^endpoint=//p' sim.log)

unset AWS_PROFILE AWS_DEFAULT_PROFILE AWS_SESSION_TOKEN AWS_DEFAULT_REGION AWS_ENDPOINT_URL_EC2
export AWS_ACCESS_KEY_ID=AKIDEXAMPLE AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY
export AWS_REGION=us-east-1 AWS_ENDPOINT_URL="$endpoint" HOME="$work" WARMROOT_STATE="$work/state"
export no_proxy='*'

fail() {
  failures=$((failures + 1))
  echo "FAILED: $*"
  sed 's/^/    /' err.txt
}

# expect NAME STATUS TEXT COMMAND...: the command exits so, says one sentence with TEXT, and creates nothing.
expect() {
  name=$1 status=$2 text=$3
  shift 3
  timeout 60 "$build/warmroot" --bootstrap "$self" "$@" >"${out:-out.txt}" 2>err.txt
  code=$?
  sentences=$(grep -c '^warmroot: ' err.txt)
  if [ $code -ne "$status" ]; then
    fail "$name: status $code instead of $status"
  elif ! grep -qF -- "$text" err.txt; then
    fail "$name: does not say \"$text\""
  elif [ "$sentences" -ne 1 ]; then
    fail "$name: $sentences sentences instead of one"
  elif [ "$("$build/warmroot-sim" state --endpoint-url "$endpoint" | grep -c '_id": "\(vol\|i\)-')" -ne 0 ]; then
    fail "$name: something was created"
  else
    echo "ok: $name: $(grep '^warmroot: ' err.txt)"
  fi
}

# spec SED-SCRIPT: the good spec with one thing changed, as bad.toml.
spec() { sed "$1" spec.toml >bad.toml; }
go() { echo "reconcile --until-stable --timeout 20"; }

spec 's/^nodes = 2/nodez = 2/; s/"g5.12xlarge"/"g5"/; s/us-east-1a/us-east-1/'
expect "a spec with several mistakes" 2 "has 4 mistakes; nothing was changed" --spec bad.toml $(go)
for place in 'bad.toml:3:1: \[\[pool\]\] nodes is missing' 'bad.toml:6:9: .*"us-east-1" is not a zone' \
  'bad.toml:7:1: unknown key nodez in \[\[pool\]\]: did you mean nodes?' 'bad.toml:11:18: .*"g5" is not an instance type'; do
  grep -q "$place" err.txt || fail "a spec with several mistakes: no line like $place"
done
[ ! -e state ] || fail "a bad spec: the state folder was made"
out=/dev/full expect "an answer that nobody could read" 1 "standard output cannot be written" --spec spec.toml node list
if "$build/warmroot" --spec none.toml node list 2>/dev/full; then fail "an error that nobody could read: a success"; fi
expect "a spec that is not there" 2 "give its path with --spec FILE" --spec none.toml $(go)
expect "an unknown option" 2 "see warmroot --help" --spec spec.toml reconcile --until-stabel
expect "an unknown pool" 2 "the spec has no pool cifar; it has imagenet" --spec spec.toml pool pause cifar

(failures=0
  unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
  expect "no credentials" 2 "no AWS credentials: looked at" --spec spec.toml $(go)
  exit $failures) || failures=$((failures + 1))
(failures=0
  export AWS_SECRET_ACCESS_KEY=wrong
  expect "a wrong secret" 2 "SignatureDoesNotMatch" --spec spec.toml $(go)
  exit $failures) || failures=$((failures + 1))
expect "an unreachable endpoint" 2 "check the network and --endpoint-url" --spec spec.toml --endpoint-url http://127.0.0.1:1 $(go)
expect "an endpoint that answers HTML" 2 "check --endpoint-url" --spec spec.toml \
  --endpoint-url "$(sed -n 's/^endpoint=//p' html.log)" $(go)
expect "a wrong Region" 2 "us-east-1a is not in the Region eu-west-1" --spec /dev/stdin $(go) <<END
region = "eu-west-1"
$(cat spec.toml)
END

spec 's/ami-0imagenet00000001/ami-0unknown000000001/'
expect "an unknown AMI" 2 "correct the AMI, or have it shared" --spec bad.toml $(go)
spec 's/^ami = .*/snapshot = "snap-0unknown00000001"/'
expect "an unknown snapshot" 2 "is no snapshot that this account may read" --spec bad.toml $(go)
spec 's/ami-0base000000000001/ami-0unknown000000001/'
expect "an unknown base AMI" 2 "correct the AMI, or have it shared" --spec bad.toml $(go)
spec 's/us-east-1a/us-east-1f/'
expect "a zone that the Region does not have" 2 "which has us-east-1a, us-east-1b" --spec bad.toml $(go)
spec '$a subnets = { us-east-1a = "subnet-0b00000000000099" }'
expect "an unknown subnet" 2 "is no subnet of this account and Region" --spec bad.toml $(go)
spec 's/^zones = .*/zones = ["us-east-1b"]/; $a subnets = { us-east-1b = "subnet-0a00000000000001" }'
expect "a subnet of another zone" 2 "name a subnet of that zone" --spec bad.toml $(go)
spec 's/ami-0imagenet00000001/ami-0arm6400000000001/'
expect "volumes of another architecture" 2 "name a base AMI of the same architecture" --spec bad.toml $(go)

{ printf '#!/bin/sh\n'; head -c 16000 /dev/zero | tr '\0' '#'; } >long.sh
spec '$a user_data = "long.sh"'
expect "user-data over 16 KiB" 2 "the operator's part (launch.user_data) is 16010 bytes" --spec bad.toml $(go)
expect "user-data over 16 KiB, shown" 2 "EC2 allows 16384" --spec bad.toml user-data imagenet
expect "a state folder that cannot be made" 2 "name another with --state DIR" --spec spec.toml --state /proc/none $(go)

# The same spec without a mistake is served: the cases above failed for their own reasons.
timeout 120 "$build/warmroot" --bootstrap "$self" --spec spec.toml $(go) >out.txt 2>err.txt ||
  fail "the good spec is not served"
[ "$(grep -c ' vol-.* i-' out.txt)" -eq 2 ] || fail "the good spec does not list two served nodes"
expect_running=$("$build/warmroot" --bootstrap "$self" --spec spec.toml --output json node list | grep -c '"lease": "checking"')
[ "$expect_running" -eq 2 ] || fail "node list shows $expect_running served nodes"

# With volumes there already, a wish that nobody but the operator can meet is waited for by name.
spec 's/ami-0base000000000001/ami-0unknown000000001/'
timeout 60 "$build/warmroot" --bootstrap "$self" --spec bad.toml reconcile --until-stable --timeout 8 >out.txt 2>err.txt
[ $? -eq 1 ] || fail "a wish that cannot be met: the status is not 1"
for text in '] waiting for the operator: imagenet: ' 'not stable after 8 s: waiting for the operator: imagenet: '; do
  grep -qF "$text" err.txt || fail "a wish that cannot be met: does not say \"$text\""
done
timeout 60 "$build/warmroot" --bootstrap "$self" --spec bad.toml plan >out.txt 2>err.txt
[ $? -eq 1 ] || fail "a blocked plan: the status is not 1"
grep -q '^Blocked: ' out.txt || fail "a blocked plan does not say so: $(cat out.txt)"

# The doctor: nothing wrong with the good spec, and one line for what is wrong with another.
timeout 60 "$build/warmroot" --bootstrap "$self" --spec spec.toml doctor >out.txt 2>err.txt ||
  fail "the doctor finds the good spec wrong: $(cat out.txt)"
for line in '^ok .* clock' '^ok .* permissions .* ec2:RunInstances is allowed' '^ok .* user-data' ' 0 wrong'; do
  grep -q "$line" out.txt || fail "the doctor does not say $line: $(cat out.txt)"
done
timeout 60 "$build/warmroot" --bootstrap "$self" --spec bad.toml --output json doctor >out.txt 2>err.txt
[ $? -eq 1 ] || fail "the doctor: the status of a spec with an unknown base AMI is not 1"
python3 -c '
import json
wrong = [line for line in json.load(open("out.txt")) if line["verdict"] == "wrong"]
assert any("ami-0unknown000000001" in line["text"] and line["pool"] == "imagenet" for line in wrong), wrong
' || fail "the doctor does not name the unknown base AMI"

[ $failures -eq 0 ] && echo "all cases passed"
exit $((failures > 0))
