"""Every way of having credentials, through the real programs: `warmroot` against a simulated region whose STS, SSO portal,
container endpoint and host metadata service really give out keys, and keys that really end. The stock AWS CLI is given the
same set-ups, so that what works for it works for us; Debian 12's, which is older than AWS_ENDPOINT_URL, those whose keys no
other service gives out. At the end every log, error, state file and ledger is searched for all that must not be seen.
Called by ctest: credentials_doors_test.py BUILD-FOLDER."""
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from cli_serve_test import BUILD, announced, check, read, until

ACCOUNT = "111122223333"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
WEB_TOKEN = "jwt.webIdentityTokenOfThePod0123"
PROCESS_SECRET = "processArgumentSecret0123"
SPEC = """\
deployment = "doorstest"
manager_url = "http://127.0.0.1:8470"
[[pool]]
name = "imagenet"
snapshot = "snap-01000000000000001"
zones = ["us-east-1a"]
nodes = 1
running = 1
[pool.launch]
base_ami = "ami-02000000000000002"
instance_types = ["g5.12xlarge"]
"""
BY_ITSELF = ("environment", "shared file", "config file", "source Environment", "process", "instance")  # asks no STS for keys
FAST = ["--creating-ms", "200", "--pending-ms", "500", "--attach-ms", "300", "--detach-ms", "300", "--shutdown-ms", "500"]


def write(name, text, mode=0o600):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(name, mode)


def start(log, arguments, env):
    with open(log, "wb") as file:
        return subprocess.Popen(arguments, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env)


class World:
    """The region, the home folder with the AWS files, and what was said so far."""

    def __init__(self, folder):
        self.folder = folder
        self.home = f"{folder}/home"
        base = {name: value for name, value in os.environ.items() if not re.match("(?i)(aws_|.*_proxy$)", name)}
        self.base = dict(base, HOME=self.home, SPDLOG_LEVEL="trace", AWS_PAGER="", AWS_MAX_ATTEMPTS="1")
        write(f"{folder}/spec.toml", SPEC)
        self.region = start(f"{folder}/region.log", [f"{BUILD}/warmroot-sim", "serve", "--no-machines", *FAST], self.base)
        self.endpoint = until("the region is there", lambda: announced(f"{folder}/region.log", "endpoint"))
        self.said = 0
        self.bootstrap_keys = []
        self.spec = f"{folder}/spec.toml"

    def environment(self, **extra):
        """A bare one: only what a set-up names."""
        return dict(self.base, AWS_ENDPOINT_URL=self.endpoint, AWS_REGION="us-east-1", AWS_DEFAULT_REGION="us-east-1",
                    AWS_EC2_METADATA_SERVICE_ENDPOINT=self.endpoint + "/", AWS_EC2_METADATA_DISABLED="true") | extra

    def control(self, query):
        urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/_control/identity?{query}", b"", method="POST"),
                               timeout=10).close()

    def given_out(self):
        with urllib.request.urlopen(f"{self.endpoint}/_control/identity", timeout=10) as reply:
            return json.load(reply)

    def warmroot(self, env, *arguments, state="state"):
        self.said += 1
        done = subprocess.run([f"{BUILD}/warmroot", "--verbose", "--bootstrap", "/bin/true", "--spec", self.spec, "--state",
                               f"{self.folder}/{state}", *arguments], capture_output=True, text=True, timeout=60,
                              check=False, env=env)
        write(f"{self.folder}/said-{self.said}.log", done.stdout + done.stderr)
        return done


def write_files(world):
    """The files of the AWS CLI with one profile for each kind."""
    home = world.home
    write(f"{home}/.aws/credentials", f"[base]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = {SECRET}\n")
    write(f"{home}/token", WEB_TOKEN + "\n")
    write(f"{home}/keys.sh", "#!/bin/sh\n[ \"$1\" = " + PROCESS_SECRET + " ] || exit 3\n"
          f"echo '{{\"Version\":1,\"AccessKeyId\":\"AKIDEXAMPLE\",\"SecretAccessKey\":\"{SECRET}\"}}'\n", 0o700)
    write(f"{home}/.aws/config", f"""\
[profile in-config]
aws_access_key_id = AKIDEXAMPLE
aws_secret_access_key = {SECRET}
[profile role]
role_arn = {ROLE}manager
source_profile = base
[profile tenant]
role_arn = {ROLE}tenant
source_profile = role
external_id = tenant-7
role_session_name = chained
duration_seconds = 900
[profile denied]
role_arn = {ROLE}denied
source_profile = base
[profile by-environment]
role_arn = {ROLE}manager
credential_source = Environment
[profile by-host]
role_arn = {ROLE}manager
credential_source = Ec2InstanceMetadata
[profile by-container]
role_arn = {ROLE}manager
credential_source = EcsContainer
[profile web]
role_arn = {ROLE}web
web_identity_token_file = {home}/token
[profile program]
credential_process = "{home}/keys.sh" {PROCESS_SECRET}
[profile sso]
sso_session = corp
sso_account_id = {ACCOUNT}
sso_role_name = Manager
[profile other-account]
role_arn = arn:aws:iam::444455556666:role/manager
source_profile = base
[sso-session corp]
sso_region = us-east-1
sso_start_url = https://corp.example/start
[profile sso-old]
sso_region = us-east-1
sso_start_url = https://corp.example/start
sso_account_id = {ACCOUNT}
sso_role_name = Manager
""")


def write_sso_token(world, expires, generation=0):
    for key in ("corp", "https://corp.example/start"):
        write(f"{world.home}/.aws/sso/cache/{hashlib.sha1(key.encode()).hexdigest()}.json", json.dumps({
            "accessToken": f"ssoBearerToken{generation}", "expiresAt": expires, "region": "us-east-1",
            "startUrl": "https://corp.example/start", "refreshToken": f"ssoRefreshToken{generation}", "clientId": "client",
            "clientSecret": "ssoClientSecret0123", "registrationExpiresAt": "2099-01-01T00:00:00Z"}))


def kinds(world):
    """Name, variables, the end of the caller's ARN."""
    keys = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": SECRET}
    write(f"{world.home}/container-token", "containerAuthorizationToken0123")
    container = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{world.endpoint}/_container/credentials"}
    return [
        ("environment", keys, "user/operator"),
        ("shared file", {"AWS_PROFILE": "base"}, "user/operator"),
        ("config file", {"AWS_PROFILE": "in-config"}, "user/operator"),
        ("assumed role", {"AWS_PROFILE": "role"}, "assumed-role/manager/"),
        ("chained roles", {"AWS_PROFILE": "tenant"}, "assumed-role/tenant/chained"),
        ("source Environment", {"AWS_PROFILE": "by-environment", "AWS_DEFAULT_PROFILE": "by-environment"} | keys,
         "user/operator"),  # its keys win: a variable's profile is no explicit one
        ("source Ec2InstanceMetadata", {"AWS_PROFILE": "by-host", "AWS_EC2_METADATA_DISABLED": "false"},
         "assumed-role/manager/"),
        ("source EcsContainer", {"AWS_PROFILE": "by-container",
                                 "AWS_CONTAINER_AUTHORIZATION_TOKEN": "containerAuthorizationToken0123"} | container,
         "assumed-role/manager/"),
        ("web identity", {"AWS_WEB_IDENTITY_TOKEN_FILE": f"{world.home}/token", "AWS_ROLE_ARN": ROLE + "pod",
                          "AWS_ROLE_SESSION_NAME": "pod-1"}, "assumed-role/pod/pod-1"),
        ("web identity of a profile", {"AWS_PROFILE": "web"}, "assumed-role/web/"),
        ("SSO session", {"AWS_PROFILE": "sso"}, "assumed-role/AWSReservedSSO_Manager/person"),
        ("SSO without session", {"AWS_PROFILE": "sso-old"}, "assumed-role/AWSReservedSSO_Manager/person"),
        ("process", {"AWS_PROFILE": "program"}, "user/operator"),
        ("container", {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": f"{world.home}/container-token"} | container,
         "assumed-role/task-role/task"),
        ("instance", {"AWS_EC2_METADATA_DISABLED": "false"}, "assumed-role/host-role/i-0123456789abcdef0"),
    ]


def usable_cli(world):
    """The AWS CLI's command, and whether it knows AWS_ENDPOINT_URL (botocore 1.31, CLI 2.13), as Debian 12's does not."""
    older = None
    for program in filter(None, [shutil.which("aws"), "/usr/bin/aws"]):
        if not os.path.exists(program):
            continue
        version = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
        found = re.match(r"aws-cli/(\d+)\.(\d+)", version)
        if found and (int(found[1]), int(found[2])) >= ((2, 13) if found[1] == "2" else (1, 29)):
            return [program], True
        older = [program, "--endpoint-url", world.endpoint] if found else older
    return older, False


def left_out(what):
    """Of what tests/deps.sh installs nothing may be left out in CI."""
    if os.environ.get("WARMROOT_MUST_RUN") == "1":
        raise SystemExit(f"FAILED: {what}")
    print(f"credentials_doors_test: SKIPPED in part: {what}", flush=True)


def every_kind_works(world):
    cli, knows_variable = usable_cli(world)
    if not cli:
        left_out("there is no AWS CLI")
    for number, (name, variables, arn) in enumerate(kinds(world)):
        env = world.environment(**variables)
        done = world.warmroot(env, "plan", state=f"state-{number}")
        check(done.returncode == 0 and "CreateVolume" in done.stdout, f"{name}: plan works ({done.stderr[-300:]})")
        if not cli:
            continue
        if not knows_variable and name not in BY_ITSELF:
            print(f"{name}: not compared with an AWS CLI that does not know AWS_ENDPOINT_URL", flush=True)
            continue
        asked = subprocess.run([*cli, "sts", "get-caller-identity"], capture_output=True, text=True, timeout=120,
                               check=False, env=env)
        answer = json.loads(asked.stdout) if asked.returncode == 0 else {}
        check(arn in answer.get("Arn", ""), f"{name}: the AWS CLI is {answer.get('Arn', asked.stderr)}")
        if name in ("chained roles", "instance"):
            listed = subprocess.run([*cli, "ec2", "describe-volumes"], capture_output=True, text=True, timeout=120,
                                    check=False, env=env)
            check(listed.returncode == 0, f"{name}: the AWS CLI lists volumes {listed.stderr}")


def mistakes_are_one_sentence(world):
    write(f"{world.home}/expired-token", "jwt.expired.0123456789")
    denied = world.environment(AWS_PROFILE="denied")
    expired = world.environment(AWS_WEB_IDENTITY_TOKEN_FILE=f"{world.home}/expired-token", AWS_ROLE_ARN=ROLE + "pod")
    foreign = world.environment(AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{world.endpoint}/_container/credentials",
                                AWS_CONTAINER_AUTHORIZATION_TOKEN="wrongContainerToken0123")
    for name, env, text in (("a role that does not trust us", denied, "trust policy"),
                            ("an expired web identity", expired, "has to write a new one"),
                            ("a container that refuses", foreign, "answers 401"),
                            ("a profile that is not there", world.environment(AWS_PROFILE="nope"), "no"),
                            ("nothing at all", world.environment(), "no AWS credentials: looked at")):
        done = world.warmroot(env, "plan", state="state-mistakes")
        sentences = [line for line in done.stderr.splitlines() if line.startswith("warmroot: ")]
        check(done.returncode == 2 and len(sentences) == 1 and text in sentences[0],
              f"{name} is told in one sentence: {sentences}")
    check(not os.path.exists(f"{world.folder}/state-mistakes"), "and nothing was made")
    world.control("repeats=1")
    wrong = world.environment(AWS_ACCESS_KEY_ID="AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY="wrongSecretKey0123",
                              AWS_SESSION_TOKEN="sessionTokenOfTheEnvironment0123")
    done = world.warmroot(wrong, "plan", state="state-mistakes")
    world.control("repeats=0")
    check(done.returncode == 2 and "[hidden]" in done.stderr, "a refusal that repeats the request is shown without its token")


def account_is_pinned(world):
    ours = world.environment(AWS_PROFILE="role")
    check(world.warmroot(ours, "plan", state="state-pin").returncode == 0, "the first run pins the account")
    done = world.warmroot(world.environment(AWS_PROFILE="other-account"), "plan", state="state-pin")
    check(done.returncode == 2 and f"belongs to account {ACCOUNT}, not 444455556666" in done.stderr,
          "another account's credentials are refused")
    static = world.environment(AWS_PROFILE="base")
    world.control("down=sts")
    done = world.warmroot(static, "plan", state="state-pin")
    check(done.returncode == 0 and f"going on as account {ACCOUNT}" in done.stderr, "without STS it is a note once pinned")
    done = world.warmroot(static, "plan", state="state-unpinned")
    check(done.returncode == 2 and "has to be reachable once" in done.stderr, "and a refusal before")
    world.control("down=none")


def hello(manager):
    """Plays the bootstrap of the node's instance; its key."""
    def node():
        with urllib.request.urlopen(manager + "/status", timeout=10) as reply:
            return next((row for row in json.load(reply)["nodes"] if row.get("instance_id")), None)
    instance = until("an instance serves the node", node)["instance_id"]
    body = json.dumps({"version": 1, "instance_id": instance, "deployment": "doorstest", "pool": "imagenet"})
    def key():
        try:
            with urllib.request.urlopen(manager + "/v1/hello", body.encode(), timeout=10) as reply:
                return json.load(reply)["key"]
        except urllib.error.HTTPError:  # not known yet
            return None
    return until("the bootstrap receives its key", key)


def keys_are_renewed(world):
    """`serve` with keys that hold for three seconds each, from each kind that can end."""
    renewed = [kind for kind in kinds(world) if kind[0] in (
        "chained roles", "web identity", "SSO session", "container", "instance")]
    for number, (name, variables, _) in enumerate(renewed):
        world.control("life_ms=3000")
        log = f"{world.folder}/serve-{number}.log"
        before = world.given_out()["issued"]
        serve = start(log, [f"{BUILD}/warmroot", "--verbose", "--bootstrap", "/bin/true", "--spec", world.spec, "--state",
                            f"{world.folder}/state-serve-{number}", "serve", "--listen", "127.0.0.1:0"],
                      world.environment(**variables))
        try:
            manager = until(f"{name}: serve is there", lambda path=log: announced(path, "listening"))
            until(f"{name}: keys are renewed while it works", lambda path=log: read(path).count("credentials renewed") >= 3)
            if name == "instance":
                world.control("down=imds")
                time.sleep(4)
                check(serve.poll() is None, "serve lives on while the metadata service is down")
                world.control("down=none")
            check(world.given_out()["issued"] > before + 3, f"{name}: {world.given_out()['issued'] - before} sets were given")
            trouble = [line for line in read(log).splitlines() if " error " in line]
            check(not trouble or name == "instance", f"{name}: no request failed for that {trouble[:3]}")
            world.bootstrap_keys.append(hello(f"http://{manager}"))
        finally:
            serve.send_signal(signal.SIGTERM)
            check(serve.wait(30) == 0, f"{name}: serve ends as asked")
        world.control("life_ms=3600000")


def serve_with(world, name, variables, play):
    """Runs `play(process, log path)` beside a `serve` with these variables."""
    log = f"{world.folder}/{name}.log"
    serve = start(log, [f"{BUILD}/warmroot", "--verbose", "--bootstrap", "/bin/true", "--spec", world.spec, "--state",
                        f"{world.folder}/state-{name}", "serve", "--listen", "127.0.0.1:0"], world.environment(**variables))
    try:
        until(f"{name}: serve is there", lambda: announced(log, "listening"))
        play(serve, log)
    finally:
        serve.send_signal(signal.SIGTERM)
        check(serve.wait(30) == 0, f"{name}: serve ends as asked")


def keys_that_end_early_are_looked_up_once_more(world):
    """The service says "expired" long before the keys' own time."""
    def play(_, log):
        until("a request was answered", lambda: " debug request " in read(log))
        world.control("revoke=1")
        until("the keys are looked up anew", lambda: "credentials renewed" in read(log))
        until("and the request is made again with them", lambda: re.search(
            r"error=RequestExpired.*\n(.*\n)*?.*credentials renewed.*\n(.*\n)*?.*debug request .*status=200", read(log)))
        check("warmroot: " not in read(log) and " error " not in read(log), "without an error")
    serve_with(world, "revoked", {"AWS_PROFILE": "role"}, play)


def an_account_that_changes_under_way_stops_everything(world):
    config = f"{world.home}/.aws/config"
    good = read(config)
    world.control("life_ms=3000")
    def play(serve, log):
        until("a request was answered", lambda: " debug request " in read(log))
        write(config, good.replace(f"role_arn = {ROLE}manager\nsource_profile", "role_arn = arn:aws:iam::444455556666:role/"
                                   "manager\nsource_profile", 1))
        until("the other account is noticed", lambda: "credentials of another account" in read(log))
        behind = read(log).split("credentials of another account", 1)[1]
        time.sleep(6)
        behind = read(log).split("credentials of another account", 1)[1]
        check(" debug request " not in behind and serve.poll() is None, "nothing is asked of EC2 with them")
        write(config, good)
        until("and it goes on with its own", lambda: " debug request " in read(log).split("of another account", 1)[1])
    serve_with(world, "moved", {"AWS_PROFILE": "role"}, play)
    world.control("life_ms=3600000")


def sso_is_renewed(world):
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 60))
    write_sso_token(world, soon)
    env = world.environment(AWS_PROFILE="sso")
    check(world.warmroot(env, "plan", state="state-sso").returncode == 0, "an SSO token near its end is renewed")
    path = f"{world.home}/.aws/sso/cache/{hashlib.sha1(b'corp').hexdigest()}.json"
    check(json.loads(read(path))["accessToken"] == "ssoBearerToken1", "the CLI's cache has the new token")
    check(os.stat(path).st_mode & 0o777 == 0o600, "readable by its owner alone")
    write_sso_token(world, "2020-01-01T00:00:00Z", generation=7)
    done = world.warmroot(env, "plan", state="state-sso")
    check("run `aws sso login --profile sso`" in done.stderr, "one that cannot be renewed names the command")


class Tunnel:
    """A proxy that takes CONNECT, and behind it AWS's names with TLS in front of the region."""

    def __init__(self, world, certificate):
        self.asked = []
        self.region = world.endpoint.removeprefix("http://").split(":")
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(1)
            self.asked.append(head.split(b"\r\n")[0].decode())
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            inside = self.context.wrap_socket(connection, server_side=True)
            behind = socket.create_connection((self.region[0], int(self.region[1])))
            threading.Thread(target=self.copy, args=(behind, inside), daemon=True).start()
            self.copy(inside, behind)
        except OSError:
            connection.close()

    @staticmethod
    def copy(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def tls_and_proxies(world):
    if not shutil.which("openssl"):
        left_out("there is no openssl program")
        return
    pem = f"{world.folder}/tls.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test", "-addext",
                    "subjectAltName=DNS:ec2.us-east-1.amazonaws.com,DNS:sts.us-east-1.amazonaws.com", "-keyout", pem, "-out",
                    f"{world.folder}/ca.pem"], check=True, capture_output=True)
    with open(pem, "a", encoding="utf-8") as file:
        file.write(read(f"{world.folder}/ca.pem"))
    tunnel = Tunnel(world, pem)
    env = world.environment(AWS_PROFILE="role", AWS_CA_BUNDLE=f"{world.folder}/ca.pem",
                            HTTPS_PROXY=f"http://127.0.0.1:{tunnel.port}")
    del env["AWS_ENDPOINT_URL"]
    done = world.warmroot(env, "plan", state="state-tls")
    check(done.returncode == 0, f"AWS's own names work through a proxy with a CA bundle ({done.stderr[-300:]})")
    check({"CONNECT ec2.us-east-1.amazonaws.com:443 HTTP/1.1", "CONNECT sts.us-east-1.amazonaws.com:443 HTTP/1.1"}
          <= set(tunnel.asked), "and the proxy was asked for both services")
    before = world.given_out()["issued"]
    unverified = {name: value for name, value in env.items() if name != "AWS_CA_BUNDLE"}
    check(world.warmroot(unverified, "plan", state="state-tls").returncode == 2 and world.given_out()["issued"] == before,
          "without the bundle the certificate is refused and nothing is sent")
    asked = len(tunnel.asked)
    done = world.warmroot(dict(env, NO_PROXY="amazonaws.com", AWS_METADATA_SERVICE_TIMEOUT="1"), "plan", state="state-tls")
    check(done.returncode == 2 and len(tunnel.asked) == asked, "NO_PROXY keeps it from the proxy")


def nothing_secret_was_seen(world):
    given = world.given_out()["secrets"]
    secrets = set(given) | {SECRET, WEB_TOKEN, PROCESS_SECRET, "ssoClientSecret0123", "jwt.expired.0123456789",
                            "wrongContainerToken0123", "wrongSecretKey0123", "sessionTokenOfTheEnvironment0123",
                            "hostMetadataToken0123456789"}
    # Parts count as well: a token that is cut in two is still one.
    secrets |= {"issuedSecretAccessKey", "issuedSessionToken"}
    check(len(set(world.bootstrap_keys)) >= 5, f"{len(set(world.bootstrap_keys))} bootstraps have keys")
    searched = 0
    for folder, _, names in os.walk(world.folder):
        if folder.startswith(world.home):
            continue
        for name in names:
            if name in ("tls.pem", "ca.pem"):
                continue
            with open(f"{folder}/{name}", "rb") as file:
                text = file.read()
            searched += len(text)
            # The ledger alone keeps the bootstraps' keys, to know their reports by after a restart.
            is_ledger = name.startswith("ledger.sqlite")
            if is_ledger:
                check_quietly(os.stat(f"{folder}/{name}").st_mode & 0o077 == 0 or os.stat(folder).st_mode & 0o077 == 0,
                              f"{folder}/{name} can be read by others")
            for secret in secrets | (set() if is_ledger else set(world.bootstrap_keys)):
                check_quietly(secret.encode() not in text, f"{secret[:12]}... is in {folder}/{name}")
    check(searched > 50_000, f"no secret of {len(secrets)} is in {searched} bytes of logs, errors, states and ledgers")
    everything = "".join(read(f"{world.folder}/{name}") for name in os.listdir(world.folder) if name.endswith(".log"))
    check(" debug request " in everything, "and the logs were at their most talkative")


def check_quietly(condition, what):
    if not condition:
        raise SystemExit(f"FAILED: {what}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder)
        try:
            write_files(world)
            write_sso_token(world, "2099-01-01T00:00:00Z")
            every_kind_works(world)
            mistakes_are_one_sentence(world)
            account_is_pinned(world)
            keys_are_renewed(world)
            keys_that_end_early_are_looked_up_once_more(world)
            an_account_that_changes_under_way_stops_everything(world)
            sso_is_renewed(world)
            tls_and_proxies(world)
            nothing_secret_was_seen(world)
        finally:
            world.region.terminate()
            world.region.wait(20)
    print("credentials_doors_test: all passed")


main()
