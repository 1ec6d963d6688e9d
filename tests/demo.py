"""The demo behind tests/demo.sh: a pool of two warm roots. The first node's spot instance is interrupted and its replacement
gets the same volume; the second node starts with a cold volume and the list of what sessions on the first read. Prints what
happens as it happens, then a table, and writes build/demo/report.json. Ends non-zero if any of it did not happen. Intervals
are of one clock each: the guest's, or the arrival of reports at the manager."""
import json
import os
import subprocess
import sys
import time

from world import BUILD, World

DIRECTORY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "demo")
NODES = ("imagenet-0", "imagenet-1")
POOL = {"name": "imagenet", "source": 'ami     = "ami-0imagenet00000001"', "nodes": 2, "running": 1}
# An emulated guest boots in 5 to 20 s on a busy 2-core machine; everything else is a few seconds.
READY_SECONDS = 240
WARM_SECONDS = 240
SESSION_STAGES = ("ready", "warming", "warm")


def accelerator(world):
    with open(world.path("region.log"), encoding="utf-8", errors="replace") as file:
        return "kvm" if "accelerator=kvm" in file.read() else "tcg"


def warm_of(node):
    return ((node.get("status") or {}).get("warm")) or {}


def in_session(status, names, instead_of=None):
    """The nodes by name once every one has sessions in its volume (on another instance than `instead_of`)."""
    nodes = {node["node"]: node for node in status["nodes"]}
    for name in names:
        node = nodes.get(name, {})
        if node.get("stage") not in SESSION_STAGES or node.get("instance_id") == instead_of:
            return None
    return nodes


def all_warm(status, names):
    nodes = {node["node"]: node for node in status["nodes"]}
    if all(warm_of(nodes.get(name, {})).get("state") == "done" for name in names):
        return nodes
    return None


def run_workload(world, node):
    """The workload over ssh: its own report (seconds by the guest's clock) and whether the session was in the volume."""
    _, system = world.ssh(node["instance_id"], ". /etc/os-release; echo $VARIANT_ID")
    code, output = world.ssh(node["instance_id"], "workload", seconds=300)
    if code != 0:
        raise SystemExit(f"the workload failed on {node['node']}: {output}")
    result = json.loads(output.splitlines()[-1])
    world.say(f"{node['node']}: workload read {result['files']} files, {result['bytes'] / 1e6:.0f} MB in {result['seconds']:.1f} s")
    return result, system == "warmroot-ami"


def milliseconds(microseconds):
    return None if microseconds is None else round(microseconds / 1000, 2)


def first_life(world, name):
    """The node's entry of the report, from its first session to a warm volume."""
    first = world.wait(f"sessions on {name}", lambda status: in_session(status, (name,)), READY_SECONDS)[name]
    world.say(f"{name}: {first['volume_id']} on {first['instance_id']}, sessions land in \"{first['status']['volume_os']}\"")
    cold, in_volume = run_workload(world, first)
    warmed = world.wait(f"{name}'s volume to be warm", lambda status: all_warm(status, (name,)), WARM_SECONDS)[name]
    warm = warm_of(warmed)
    world.say(f"{name}: warm, {warm['present_blocks']} of {warm['needed_blocks']} needed blocks present, "
              f"{warm['blocks_read']} read ahead by {warm['engine']}"
              + (f", {warm['hot_present']} by the list within {warm['hot_ms'] / 1000:.1f} s" if warm.get("hot_ms") else ""))
    return describe_node(first, warm, cold, in_volume)


def describe_node(first, warm, cold, in_volume):
    """One entry of the report from the first instance's life."""
    status = first["status"]
    return {
        "node": first["node"],
        "volume": first["volume_id"],
        "instance_first": first["instance_id"],
        "instance_second": None,
        "session_in_volume_os": in_volume,
        "disk_visible_to_mounted_ms": status["disk_visible_to_mounted_ms"],
        "mounted_to_ready_ms": status["mounted_to_ready_ms"],
        "workload_cold_s": cold["seconds"],
        "workload_after_move_s": None,
        "first_touch_p50_ms": milliseconds(warm["first_touch"].get("p50_us")),
        "warm_p50_ms": milliseconds(warm["warm_reads"].get("p50_us")),
        "warmth": round(warm["warmth"], 4),
        "needed_blocks": warm["needed_blocks"],
        "blocks_read": warm["blocks_read"],
        "hot_blocks": warm["hot_blocks"],
        "hot_ms": warm.get("hot_ms"),
        "first_touches_after_move": None,
    }


def interrupt_and_follow(world, entry):
    """Interrupts the node's instance and measures the same volume on its replacement."""
    name, old = entry["node"], entry["instance_first"]
    world.say(f"{name}: interrupting {old} (spot notice)")
    noticed = time.monotonic()
    world.control("interrupt", old)
    nodes = world.wait(f"{name} on its replacement", lambda status: in_session(status, (name,), instead_of=old), READY_SECONDS)
    node = nodes[name]
    entry["instance_second"] = node["instance_id"]
    world.say(f"{name}: sessions are back on {node['instance_id']} with {node['volume_id']}, "
              f"{time.monotonic() - noticed:.1f} s after the notice")
    result, in_volume = run_workload(world, node)
    entry["workload_after_move_s"] = result["seconds"]
    entry["session_in_volume_os"] = entry["session_in_volume_os"] and in_volume
    world.wait(f"{name} to finish its check of the warm blocks", lambda status: all_warm(status, (name,)), WARM_SECONDS)
    entry["first_touches_after_move"] = world.volume(entry["volume"])["first_touches_since_attach"]
    return node["volume_id"] == entry["volume"]


def follow(world):
    world.say(f"region at {world.endpoint}, manager at {world.manager}, machines by {accelerator(world)}")
    world.say("pool imagenet: 2 nodes, volumes from the AMI's snapshot; one runs, on a spot instance")
    first = first_life(world, NODES[0])
    same = interrupt_and_follow(world, first)
    world.say(f"{NODES[1]}: wanted too now, its volume is cold; what sessions on {NODES[0]} read first is with the manager")
    world.change_pool("imagenet", running=2)
    entries = [first, first_life(world, NODES[1])]
    return {
        "nodes": entries,
        "same_volume_after_interruption": same,
        "bootstrap_bytes": os.path.getsize(f"{BUILD}/warmroot-bootstrap"),
        "accelerator": accelerator(world),
        "wall_s": round(world.elapsed(), 1),
    }


ROWS = (
    ("volume", "volume"),
    ("first instance", "instance_first"),
    ("replacement", "instance_second"),
    ("disk visible to mounted, ms", "disk_visible_to_mounted_ms"),
    ("mounted to sessions ready, ms", "mounted_to_ready_ms"),
    ("workload at first login, warming under way, s", "workload_cold_s"),
    ("workload on the replacement, s", "workload_after_move_s"),
    ("first touch of a block (from S3), median ms", "first_touch_p50_ms"),
    ("read of a warm block, median ms", "warm_p50_ms"),
    ("needed blocks (512 KiB)", "needed_blocks"),
    ("blocks of the other node's list", "hot_blocks"),
    ("read so long after the warmer's start, ms", "hot_ms"),
    ("blocks read ahead by the bootstrap", "blocks_read"),
    ("warmth", "warmth"),
    ("first touches on the replacement", "first_touches_after_move"),
)


def print_table(report):
    print()
    print(f"{'':46}" + "".join(f"{entry['node']:>24}" for entry in report["nodes"]))
    for title, key in ROWS:
        values = ["-" if entry[key] is None else str(entry[key]) for entry in report["nodes"]]
        print(f"{title:46}" + "".join(f"{value:>24}" for value in values))
    print(f"\nThe interrupted node kept its volume: {'yes' if report['same_volume_after_interruption'] else 'NO'}. "
          f"The whole demo took {report['wall_s']:.0f} s ({report['accelerator']}).")
    if report["accelerator"] == "tcg":
        print("The guests' CPUs are emulated, and most of the workload's seconds are theirs. What the volume costs shows in the first\n"
              f"touches: {report['nodes'][0]['blocks_read']} blocks were read ahead once, the replacement paid for "
              f"{report['nodes'][0]['first_touches_after_move']}.")


def problems(report):
    """What the demo promises and did not see, in words."""
    found = []
    for entry in report["nodes"]:
        name = entry["node"]
        if not entry["session_in_volume_os"]:
            found.append(f"{name}: the session was not in the volume's system")
        if entry["warmth"] < 1:
            found.append(f"{name}: warmth is {entry['warmth']}")
    moved = report["nodes"][0]
    if not report["same_volume_after_interruption"]:
        found.append(f"{moved['node']}: another volume after the interruption")
    if moved["instance_second"] in (None, moved["instance_first"]):
        found.append(f"{moved['node']}: no replacement")
    if moved["first_touches_after_move"] is None or moved["first_touches_after_move"] > moved["needed_blocks"] * 0.01:
        found.append(f"{moved['node']}: {moved['first_touches_after_move']} first touches after the move")
    if report["nodes"][1]["hot_ms"] is None or report["nodes"][1]["hot_blocks"] < 10:
        found.append(f"{report['nodes'][1]['node']}: it did not begin with the other node's list")
    return found


def main():
    os.makedirs(DIRECTORY, exist_ok=True)
    report_path = os.path.join(DIRECTORY, "report.json")
    if os.path.exists(report_path):
        os.unlink(report_path)
    subprocess.run(["rm", "-rf", os.path.join(DIRECTORY, "state"), os.path.join(DIRECTORY, "region")], check=True)
    with World(DIRECTORY, [POOL]) as world:
        report = follow(world)
        with open(report_path, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)
            file.write("\n")
        print_table(report)
        world.say("cleaning up")
    found = problems(report)
    for problem in found:
        print("FAILED:", problem)
    print("report: build/demo/report.json; logs: build/demo/")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("interrupted; everything that was started has been ended")
        sys.exit(130)
