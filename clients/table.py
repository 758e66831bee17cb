"""Compares what clients told directly and through Understudy, and writes it: table.txt, result.json and told.json."""
import fnmatch
import json
import re


# What no two runs have in common: the number of a connection in an error's text.
VOLATILE = [(re.compile(r"conn=\d+"), "conn=N")]


def by_operation(lines):
    """Operation -> its lines, one a round."""
    found = {}
    for line in lines:
        name, _, outcome = line.partition(": ")
        for pattern, same in VOLATILE:
            outcome = pattern.sub(same, outcome).replace("\0", "\\0")
        found.setdefault(name, []).append(outcome)
    return found


def differences(run):
    """[{operation, way, direct, through, rounds, of}] of one run: each outcome that is not the direct one."""
    direct = by_operation(run.told["direct"])
    found = []
    # A client that fails at once fails through Understudy alike, and shows nothing.
    if "end" in direct:
        found.append({"operation": "end", "way": "direct", "direct": direct["end"][0], "through": "(it is of no use)", "rounds": 1, "of": 1})
    for way in ("through", "moved"):
        lines = by_operation(run.told.get(way, []))
        for operation in [*direct, *(name for name in lines if name not in direct)]:
            wanted = direct.get(operation, ["(nothing)"])[0]
            outcomes = lines.get(operation, ["(nothing)"] if way in run.told else [])
            for outcome in dict.fromkeys(outcomes):
                if outcome != wanted:
                    found.append({"operation": operation, "way": way, "direct": wanted, "through": outcome, "rounds": outcomes.count(outcome), "of": len(outcomes)})
    return found


def cause_of(causes, run, difference):
    """The first row of causes.json that fits: client, server, operation and way are patterns; `through` is a regular expression; `after` is an
    operation that must differ in the same way."""
    differing = [one["operation"] for one in run.differences if one["way"] == difference["way"]]
    for cause in causes:
        if cause.get("after", difference["operation"]) not in differing:
            continue
        names = {"client": run.client["name"], "server": run.server, "operation": difference["operation"], "way": difference["way"], "protocol": run.protocol, "tls": run.tls}
        if all(any(fnmatch.fnmatchcase(names[key], one) for one in cause.get(key, "*").split("|")) for key in names) and re.search(cause.get("through", ""), difference["through"]):
            return cause["cause"]
    return None


def apart(direct, through):
    """The steps that differ: "step 3: DIRECT <> THROUGH"."""
    one, two = direct.split(" | "), through.split(" | ")
    if len(one) != len(two):
        return f"{direct[:300]} <> {through[:300]}"
    return "; ".join(f"step {n}: {a[:200]} <> {b[:200]}" for n, (a, b) in enumerate(zip(one, two), 1) if a != b)


def judged(run, causes):
    """The differences of a run, each with its cause."""
    run.differences = differences(run)
    for difference in run.differences:
        difference["cause"] = cause_of(causes, run, difference)
    return run.differences


def write(played, causes, out):
    """Writes table.txt, result.json (what differs) and told.json (all that was told); returns how many differences have no cause."""
    lines, result, told = [], [], []
    for server in played:
        lines.append(f"{server['server']} {server['version']}: {server['switchovers']} switchovers, {len(server['refused'])} refused")
        lines += [f"  refused, {server['refused'].count(why)} times: {why}" for why in sorted(set(server["refused"]))]
        for run in server["runs"]:
            found = judged(run, causes)
            names = {"client": run.client["name"], "server": run.server, "tls": run.tls, "protocol": run.protocol}
            counts = {way: [len(set(by_operation(one))), len(one)] for way, one in run.told.items()}
            result.append(names | {"operations and lines": counts, "differences": found})
            told.append(names | {"told": run.told})
            lines.append(f"  {run.name()}: {counts['direct'][0]} operations, {counts.get('moved', [0, 0])[1]} beside switchovers, {len(found)} differences")
            for difference in found:
                lines.append(f"    {difference['way']} {difference['operation']} ({difference['rounds']} of {difference['of']}): {apart(difference['direct'], difference['through'])}")
                lines.append(f"      cause: {difference['cause'] or 'NONE'}")
    every = [difference for one in result for difference in one["differences"]]
    unexplained = sum(one["cause"] is None for one in every)
    lines.append(f"{len(result)} runs, {len(every)} differences, {unexplained} without a cause")
    (out / "table.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, value in (("result.json", result), ("told.json", told)):
        (out / name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return unexplained
