"""First inputs for the fuzzers: good ones, from the golden files and the template that the other tests read, and short texts
of each kind besides. A fuzzer that starts from nothing does not find its way into XML or JSON within a minute.
Usage: seeds.py FOLDER; writes FOLDER/fuzz_NAME/* for every fuzzer, whose numbers of cases are repeated here."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = f"{TOP}/tests/golden/ec2"
# ec2_answers.cpp, kDecoders, in its order.
DECODERS = ["DescribeVolumes", "DescribeInstances", "DescribeInstanceStatus", "DescribeSnapshots", "DescribeImages",
            "DescribeAvailabilityZones", "DescribeSubnets", "DescribeSpotPriceHistory", "DescribeInstanceTypeOfferings",
            "DescribeInstanceTypes", "DescribeVolumeStatus", "DescribeFastSnapshotRestores", "DescribeLaunchTemplates",
            "GetSpotPlacementScores", "GetCallerIdentity", "AssumeRole", "error", "ListSnapshotBlocks", "RunInstances", "CreateVolume",
            "AttachVolume", "CreateFleet", "CopyVolumes", "CreateSnapshot", "CreateLaunchTemplate", "DeleteVolume", "StopInstances"]
SECRET = "wJalrXUtnFEMI/K7MDENG"
STS = {"GetCallerIdentity": "<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::111122223333:user/op</Arn><UserId>A"
                            "</UserId><Account>111122223333</Account></GetCallerIdentityResult></GetCallerIdentityResponse>",
       "AssumeRole": "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>s"
                     "</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2026-01-02T04:04:05Z</Expiration></Credentials>"
                     "</AssumeRoleResult></AssumeRoleResponse>"}
BLOCKS = {"BlockSize": 524288, "VolumeSize": 4, "NextToken": "n", "Blocks": [{"BlockIndex": 0, "BlockToken": "x"}, {"BlockIndex": 7}]}
TICKET = {"version": 1, "deployment": "research", "pool": "imagenet", "manager_url": "http://10.0.0.5:8470",
          "session": {"entry": "sshd", "host_keys": True, "rescue_port": 2222, "login_wait_s": 90, "write_mib_s": 250,
                      "grace_s": 60, "hooks_s": 0},
          "warm": {"enabled": True, "record": False, "max_depth": 64}}
ENVELOPE = {"version": "0", "id": "e-1", "detail-type": "EC2 Spot Instance Interruption Warning", "source": "aws.ec2",
            "account": "111122223333", "time": "2026-01-02T03:04:05Z", "region": "us-east-1", "resources": [],
            "detail": {"instance-id": "i-0123456789abcdef0", "instance-action": "terminate"}}
CREDENTIALS = (f"[default]\naws_access_key_id = AK\naws_secret_access_key = {SECRET}\n[p]\naws_access_key_id=AK ; why\n"
               f"aws_secret_access_key={SECRET}\naws_session_token = t\n[q]\ncredential_process = /bin/keys 'a b' \"c\"\n")
CONFIG = """[default]
region = us-east-1
[profile p]
region = eu-west-1
role_arn = arn:aws:iam::111122223333:role/manager
source_profile = q
external_id = tenant-7
duration_seconds = 900
services = local
ec2 =
  endpoint_url = http://127.0.0.1:1
[profile q]
sso_session = org
sso_account_id = 111122223333
sso_role_name = r
role_arn = arn:aws:iam::111122223333:role/ring
source_profile = p
[sso-session org]
sso_start_url = https://org.awsapps.com/start
sso_region = us-east-1
[services local]
sts =
  endpoint_url = https://sts.example
"""
KEYS = {"Version": 1, "Code": "Success", "AccessKeyId": "AK", "SecretAccessKey": "S", "SessionToken": "T", "Token": "T",
        "Expiration": "2026-01-02T03:04:05Z"}
SSO = {"roleCredentials": {"accessKeyId": "AK", "secretAccessKey": "S", "sessionToken": "T", "expiration": 1767323045000}}
SSO_TOKEN = {"accessToken": "t", "expiresAt": "2026-01-02T03:04:05Z", "refreshToken": "r", "clientId": "c", "clientSecret": "s"}
SSO_REPLY = {"accessToken": "t1", "expiresIn": 3600, "refreshToken": "r1"}
REPORT = {"version": 1, "instance_id": "i-1", "volume_id": "vol-1", "stage": "ready", "reason": "", "message": "words",
          "status": {"warm": {"warmth": 0.5, "first_touch": {"count": 3, "p50_us": 1}}, "remarks": ["r"],
                     "steps": [{"name": "mount", "ms": 1, "outcome": "ok"}], "ebs": {"read_operations": 1}}}
PASSWD = "root:x:0:0:root:/root:/bin/bash\nadmin:x:1000:1000::/home/admin:/bin/bash\neve:x:1001:1001::/home/eve:/bin/zsh\n"
HELD = {"disk_node": "/dev/nvme1n1", "disk": "nvme1n1", "disk_number": "259:1", "disk_sequence": "17", "partition_node": "/dev/nvme1n1p1",
        "partition": {"number": 1, "offset_bytes": 1048576, "size_bytes": 21474836480, "content": "ext4", "node": "/dev/nvme1n1p1"},
        "also_mounted": ["srv"], "other_devices": [66307, 66308], "volume_id": "vol-1", "instance_id": "i-1",
        "launch_key": "ssh-ed25519 AAAA launch", "served_by": "sshd", "root_device": 66306, "volume_os": "Debian",
        "root_choice": "the only one", "fstab": [{"text": "swap", "for_people": False}],
        "leaving": {"word": "operator", "sentence": "words", "deadline_ms": 4711}}
SSHD_COMMAND = "/usr/sbin/sshd -D -oLogLevel=VERBOSE -u 0 -o \"AuthorizedKeysCommand /eic %%u\" $SSHD_OPTS ${OPTIONS}"
SSHD_OPTIONS = "# Options\nSSHD_OPTS=\"-o MaxStartups=100 -4 -p 2222 -f /etc/own\"\nOPTIONS='-o Port=22 -q'\n"
SSHD_CONFIG = "Include /etc/ssh/sshd_config.d/*.conf \"more files/[a-z]?\" # all\nMatch User ada\n  Banner=/etc/issue\nHostKey none\n"
PAM_FILE = "@include common-auth\n-session [success=1 default=ignore] \\\n pam_env.so\nauth substack ../password-auth\n# auth include a\n"
SSHD_UNIT = "[Service]\nExecStart=/usr/sbin/sshd -D \\\n  $SSHD_OPTS\n"
SSHD_ANSWER = ("port 22\nlistenaddress 127.0.0.1:4711\nlistenaddress [::]:22\nhostkeyalgorithms rsa-sha2-512,ssh-ed25519\n"
               "hostkey /etc/ssh/ssh_host_ed25519_key\nhostcertificate none\nauthorizedkeysfile .ssh/a /run/warmroot/launch_keys/%u\n"
               "pubkeyacceptedalgorithms ecdsa-sha2-nistp256\nauthenticationmethods publickey,password\nallowusers ada@10.0.0.0/8\n")
SSH_SAID = ("Authenticated to 127.0.0.1 ([127.0.0.1]:4711) using \"publickey\".\r\nada@127.0.0.1: Permission denied (publickey).\r\n"
            "Transferred: sent 2, received 3 bytes, in 0.0 seconds\n")
HOT_LIST = ("warmroot-hot-list 1\ngrid 524288\nlineage snap-1\nworkload python\ndevice 33554432\nrecordings 4\nranges 3\n"
            "1576960 8192 1000 4096 /usr/bin/env\n528384 8192 1000\n1576960 8192 70 0 /b\n")
TRACE = (" dd-3093    [000] ..... 40479.775530: block_bio_queue: 254,0 RA 12654392 + 32 [sh]\n"
         "a-1 [001] .... 1.5: block_bio_queue: 259,1 WS 8 + 8 [a]\n")


def text(value):
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def golden(name):
    with open(f"{GOLDEN}/{name}", "rb") as file:
        return file.read()


def ec2_answers():
    for number, action in enumerate(DECODERS):
        if action in STS:
            yield bytes([number]) + text(STS[action])
        elif action == "ListSnapshotBlocks":
            yield bytes([number]) + text(BLOCKS)
        elif action != "error":
            yield bytes([number]) + golden(f"{action}.xml")
        yield bytes([number | 0x80]) + golden("error-IncorrectState.xml")


def aws_files():
    cases = [CREDENTIALS + CONFIG, KEYS, KEYS, SSO, SSO_TOKEN, "/bin/keys 'a b' \"c d\" e\\ f", text(SSO_TOKEN) + text(SSO_REPLY).rjust(
        len(text(SSO_TOKEN))), STS["AssumeRole"], "Action=AssumeRole&RoleArn=arn%3Aaws&Empty=",
             {"Quota": {"QuotaCode": "L-34B43A08", "Value": 64.0}, "KeyMetadata": {"Arn": "arn", "KeyState": "Enabled",
                                                                                   "KeyUsage": "ENCRYPT_DECRYPT"}}]
    return [bytes([number]) + (case if isinstance(case, bytes) else text(case)) for number, case in enumerate(cases)]


def events():
    by_sns = {"Type": "Notification", "Message": json.dumps(ENVELOPE)}
    ended = {**ENVELOPE, "source": "aws.autoscaling", "detail-type": "EC2 Instance-terminate Lifecycle Action",
             "detail": {"EC2InstanceId": "i-0123456789abcdef0"}}
    yield b"\x00" + text({"Messages": [{"MessageId": "m", "ReceiptHandle": "r", "Body": json.dumps(ENVELOPE)}]})
    yield b"\x01" + text({"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "no such queue"})
    yield b"\x02" + text({"Successful": [{"Id": "0"}], "Failed": [{"Id": "1"}]})
    yield b"\x04" + b"https://sqs.us-east-1.amazonaws.com/111122223333/q"
    for envelope in (ENVELOPE, by_sns, ended):
        yield b"\x05" + text(envelope)


def node_texts():
    yield b"\x00" + text(TICKET)
    yield b"\x01" + text(PASSWD + "root:x:0:\nadmin:x:1000:\neve:x:1001:\n" + "root:*:1::::::\nadmin:*:1::::::\neve:*:1::::::\n")
    beside = ("ubuntu:x:1000:1000::/home/ubuntu:/bin/sh\n", "ubuntu:x:1000:\nsudo:x:27:ubuntu\nvideo:x:44:ubuntu\n", "ubuntu:$6$a$b:1::::::\n")
    yield b"\x01" + text("".join(part.ljust(60, "\n") for part in beside))
    yield b"\x02" + b"add@/devices/nvme1n1\0ACTION=add\0DEVNAME=nvme1n1\0SUBSYSTEM=block\0DEVTYPE=disk\0"
    yield b"\x02" + b"21 1 259:4 / / rw - ext4 /dev/root rw\n30 21 0:22 / /sys rw - sysfs s rw\n"
    yield b"\x02" + b"812 (a) D 9 (b) R) S 77 812 812 34818 812 4194304 1 2"
    for words in ({"action": "terminate", "time": "2026-01-02T03:06:05Z"}, {"key": "ab", "node": "imagenet-0", "volume_id": "vol-1"},
                  {"wishes": {"drain": True, "volume_id": "vol-1", "snapshot_id": "snap-1", "no_volume": None}}, REPORT["status"],
                  "port 22\nhostkeyalgorithms rsa-sha2-512\nauthorizedkeysfile .ssh/authorized_keys\n"):
        yield b"\x03" + text(words)
    yield b"\x06" + text(HELD)
    # Read in halves.
    for first, second in ((SSHD_COMMAND, SSHD_OPTIONS), (SSHD_UNIT, SSHD_OPTIONS), (SSHD_ANSWER, ""), (SSH_SAID, ""), (PASSWD, ""),
                          (SSHD_CONFIG, ""), (PAM_FILE, "")):
        length = max(len(first), len(second)) if second else 0
        yield b"\x07" + text(first.ljust(length) + second.rjust(length))


def of_node_texts(case):
    return [seed for seed in node_texts() if seed[0] == case]


# The cases that CMakeLists.txt gives programs of their own.
def accounts():
    return of_node_texts(1)


def mountinfo():
    return of_node_texts(2)


def imds():
    return of_node_texts(3)


def partitions():
    """A master boot record, and entries of a GPT: Linux file systems from 1 MiB on, where the root begins."""
    record = struct.pack("<BBBBBBBBII", 0x80, 0, 2, 0, 0x83, 0xFF, 0xFF, 0xFF, 2048, 2048)
    yield b"\x05" + bytes(446) + record + bytes(48) + b"\x55\xaa"
    linux = bytes.fromhex("af3dc60f838472478e793d69d8477de4")
    yield b"\x05" + linux + bytes(range(16)) + struct.pack("<QQQ", 2048, 4095, 0) + bytes(72)


def reports():
    hello = {"version": 1, "instance_id": "i-1", "deployment": "d", "pool": "p", "identity": "YWJj"}
    return [b"\x00" + text(hello), b"\x01" + text(REPORT)]


def spec():
    with open(f"{TOP}/templates/warmroot.toml", "rb") as file:
        template = file.read()
    group = b'deployment = "d"\n[[pool]]\nname = "p"\nsnapshot = "snap-1"\nzones = ["us-east-1a"]\nnodes = 2\nauto_scaling_group = "g"\n'
    return [template, group]


def ticket():
    return [text(TICKET), text({"version": 1, "deployment": "d", "pool": "p"})]


def profile():
    return [bytes([flags]) + text(CREDENTIALS) + b"\0" + text(CONFIG) for flags in (0, 1, 3, 7, 10)]


def xfs_of_one_group():
    """Superblock, header of the group, and a root above leaves, in 64 KiB that repeat."""
    superblock = b"XFSB" + struct.pack(">IQ", 4096, 256) + bytes(68) + struct.pack(">II", 64, 4)
    superblock = superblock.ljust(102, b"\0") + struct.pack(">H", 512) + bytes(20) + b"\x06"
    header = b"XAGF" + struct.pack(">IIIIIIII", 1, 0, 64, 1, 0, 0, 2, 0)
    root = (b"AB3B" + struct.pack(">HH", 1, 2)).ljust(56 + 336 * 8, b"\0") + struct.pack(">II", 2, 3)
    return (superblock.ljust(512, b"\0") + header).ljust(4096, b"\0") + root.ljust(60 << 10, b"\0")


def volume_bytes():
    yield b"\x00" + text(HOT_LIST)
    yield b"\x01" + text(TRACE)
    with tempfile.TemporaryDirectory() as folder:
        image = f"{folder}/image"
        with open(image, "wb") as file:
            file.truncate(16 << 20)
        subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", image], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"})
        with open(image, "rb") as file:
            start = file.read(64 << 10)
    yield b"\x02" + start
    yield b"\x07" + xfs_of_one_group()
    yield b"\x03" + start[:4096] + start[2048:]  # what layout takes for the descriptors comes behind the superblock
    partition = struct.pack("<BBBBBBBBII", 0x80, 0, 2, 0, 0x83, 0xFF, 0xFF, 0xFF, 2048, 129024)
    yield b"\x04" + bytes(446) + partition + bytes(48) + b"\x55\xaa" + bytes(512)
    yield b"\x05" + struct.pack("<HH", 3, 2) + struct.pack("<QQ", 0, 2)
    with open("/bin/true", "rb") as file:
        yield b"\x06" + file.read(64 << 10)


def main():
    for make in (ec2_answers, aws_files, events, node_texts, accounts, mountinfo, imds, partitions, reports, spec, ticket, profile,
                 volume_bytes):
        folder = os.path.join(sys.argv[1], f"fuzz_{make.__name__}")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        for number, seed in enumerate(make()):
            with open(f"{folder}/{number:02}", "wb") as file:
                file.write(seed)


main()
