"""docs/compatibility.md, made from a run."""
import datetime

HEAD = """# Compatibility with clients

Made by `make test-clients` on {day}; not edited by hand. The clients are those of [clients/](../clients/README.md), in the versions that are named there. Each carries out the same list
of operations (`clients/operations.json`; programs, applications and the tests that come with a driver have their own) directly at a server and through Understudy, and tells what each gave. "same" means: line for line
what it told directly, in each setting: TLS off and on (below: what this run had), and with parameters in the text and prepared, where the client has both. The accounts are of each server's own plugin: `mysql_native_password` on
MariaDB, `caching_sha2_password` on MySQL. Then it goes on through Understudy, again and again, while a planned switchover begins every two seconds. A driver "with its defaults" is told nothing about TLS, and neither is Understudy.

{switchovers}
"""

TAIL = """
Not here: MySqlConnector of .NET, whose registry the machines of the tests do not reach.
"""


def cell(runs, ways, numbers):
    """"same", or the numbers of the causes; "-" where it was not tried."""
    runs = [run for run in runs if set(ways) & set(run.told)]
    found = [difference for run in runs for difference in run.differences if difference["way"] in ways]
    if not runs:
        return "-"
    return ", ".join(f"[{number}](#what-differs)" for number in sorted({numbers[one["cause"]] for one in found})) or "same"


def rows(played, versions, ways, numbers):
    names = list(dict.fromkeys(run.client["name"] for server in played for run in server["runs"]))
    yield "| client | version | " + " | ".join(server["title"] for server in played) + " |"
    yield "|---|---|" + "---|" * len(played)
    for name in names:
        cells = [cell([run for run in server["runs"] if run.client["name"] == name], ways, numbers) for server in played]
        yield f"| {name} | {versions[name]} | {' | '.join(cells)} |"


def text(played, versions):
    for server in played:
        is_mariadb = "MariaDB" in server["version"] or server["server"] != "mysql-9.7"
        server["title"] = f"{'MariaDB' if is_mariadb else 'MySQL'} {server['version'].split('-')[0]}"
    differing = [(run, difference) for server in played for run in server["runs"] for difference in run.differences]
    causes = list(dict.fromkeys(difference["cause"] for _, difference in differing))
    numbers = {cause: number for number, cause in enumerate(causes, 1)}
    tls = {server["title"]: " and ".join(sorted({run.tls for run in server["runs"]} - {"unset"})) for server in played}
    moved = [f"{server['title']}: TLS {tls[server['title']]}; {server['switchovers']} switchovers beside the clients, {len(server['refused'])} orders refused." for server in played]
    lines = [HEAD.format(day=datetime.date.today(), switchovers=" ".join(moved)), "## Directly and through", "", *rows(played, versions, ["through"], numbers)]
    lines += ["", "## Beside switchovers", "", *rows(played, versions, ["moved"], numbers), "", "## What differs", "", "| | cause | clients | operations |", "|---|---|---|---|"]
    for cause, number in numbers.items():
        of_it = [(run, difference) for run, difference in differing if difference["cause"] == cause]
        clients = ", ".join(dict.fromkeys(run.client["name"] for run, _ in of_it))
        operations = ", ".join(dict.fromkeys(difference["operation"] for _, difference in of_it))
        lines.append(f"| {number} | {cause or 'not known yet'} | {clients} | {operations} |")
    return "\n".join(lines) + "\n" + TAIL
