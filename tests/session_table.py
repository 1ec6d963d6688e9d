"""README.md's table of sessions: a row for each case, a column for each entry (`session.entry`), each column written and
compared by the guest test that tries it. An empty cell: not tried."""
import os

from world import TOP

START, END = "<!-- sessions: written by tests/session_table.py -->\n", "<!-- end of sessions -->\n"
ENTRIES = ("chroot", "sshd", "nspawn")
WORKS, DIFFERS, CANNOT = "works", "differs", "cannot"
README = os.path.join(TOP, "README.md")


def cell(mark, how):
    return f"{mark}: {how}" if how else mark


def columns_of(text):
    """The cells of a written table: case -> entry -> cell, in the table's order."""
    found = {}
    for line in text.splitlines()[2:]:
        case, *cells = [part.strip() for part in line.strip().strip("|").split("|")]
        found[case] = dict(zip(ENTRIES, cells))
    return found


def with_column(table, entry, column):
    """The table whose column `entry` is `column`; a case that is new comes behind the one it was tried after."""
    order = [case for case in table if case in column or any(table[case].get(other) for other in ENTRIES if other != entry)]
    before = None
    for case in column:
        if case not in order:
            order.insert(order.index(before) + 1 if before else 0, case)
        before = case
    return {case: {**table.get(case, {}), entry: column.get(case, "")} for case in order}


def text_of(table):
    lines = [f"| in a session | {' | '.join(f'`{entry}`' for entry in ENTRIES)} |\n", "| --- | --- | --- | --- |\n"]
    return "".join(lines + [f"| {case} | {' | '.join(cells.get(entry, '') for entry in ENTRIES)} |\n" for case, cells in table.items()])


def compare_with_readme(entry, column, checks, say):
    """The README's column is the one that was found; with WARMROOT_ACCEPT=1 it is written there instead.
    `column`: case -> cell, in the order in which they were tried."""
    with open(README, encoding="utf-8") as file:
        text = file.read()
    start, end = text.find(START) + len(START), text.find(END)
    written = text[start:end]
    found = text_of(with_column(columns_of(written), entry, column))
    if os.environ.get("WARMROOT_ACCEPT") == "1":
        with open(README, "w", encoding="utf-8") as file:
            file.write(text[:start] + found + text[end:])
        say(f"skipped, not tested: the column `{entry}` of the README's table of sessions was written anew")
        return
    checks.that(f"the README's table of sessions is what was found by `{entry}`", written == found, found)
