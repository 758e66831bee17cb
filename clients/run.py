#!/usr/bin/env -S python3 -B
"""Runs clients that others wrote directly at a server and through Understudy, and compares what they tell. See README.md.

run.py [--servers A,B] [--clients A,B] [--tls on,off] [--jobs N] [--seconds N] [--out DIR] [--document FILE]
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import cluster
import document
import table
import versions

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
FETCHED = ROOT / "target/clients"
# Where scripts/servers.sh unpacks the servers of other versions.
UNPACKED = pathlib.Path(os.environ.get("UNDERSTUDY_SERVERS") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "understudy/servers")
SERVERS = ["host", "mariadb-11.8", "mysql-9.7"]
# A client's program that has not ended by then has hung.
CLIENT_LIMIT_SECONDS = 400


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=lambda text: text.split(","), default=SERVERS)
    parser.add_argument("--clients", type=lambda text: text.split(","), default=None, help="names of clients.json; all of them without")
    parser.add_argument("--tls", type=lambda text: text.split(","), default=["off", "on", "unset"])
    parser.add_argument("--protocols", type=lambda text: text.split(","), default=["text", "prepared"])
    parser.add_argument("--jobs", type=int, default=6, help="clients at a time")
    parser.add_argument("--seconds", type=float, default=8, help="how long a client goes on beside switchovers")
    parser.add_argument("--program", default=str(ROOT / "target/dist/understudy"))
    parser.add_argument("--out", type=pathlib.Path, default=FETCHED / "run")
    parser.add_argument("--document", type=pathlib.Path, default=None, help="the compatibility table is written here")
    return parser.parse_args()


def end(*_):
    """SIGTERM ends the clusters, too."""
    sys.exit("run: ended by a signal")


def clients(names):
    with open(HERE / "clients.json", encoding="utf-8") as file:
        known = json.load(file)
    unknown = set(names or []) - {client["name"] for client in known}
    if unknown:
        sys.exit(f"run: no such client: {', '.join(sorted(unknown))}")
    return [client for client in known if names is None or client["name"] in names]


def placed(text):
    return text.replace("$FETCHED", str(FETCHED)).replace("$HERE", str(HERE)).replace("$SERVERS", str(UNPACKED))


class Run:
    """One client in one setting: {client, server, tls, protocol}, and what it told in each way."""

    def __init__(self, client, server, kind, tls, protocol, number):
        self.client, self.server, self.kind, self.tls, self.protocol, self.number = client, server, kind, tls, protocol, number
        self.told = {}

    def name(self):
        return f"{self.client['name']} {self.server} tls-{self.tls} {self.protocol}"

    def play(self, way, place, seconds, work):
        """Starts the client's program, and keeps what it told as `way`."""
        host, port, authority = place
        schema = f"c_{self.number}"
        file = work / f"{schema}.csv"
        given = {
            "HOST": host, "PORT": port, "USER": "app", "PASSWORD": cluster.PASSWORD, "SCHEMA": schema, "TLS": self.tls, "AUTHORITY": authority,
            "PROTOCOL": self.protocol, "SECONDS": str(seconds), "SERVER": self.kind, "OPERATIONS": str(HERE / "operations.json"), "FILE": str(file),
        }
        environment = os.environ | {f"CLIENT_{name}": text for name, text in given.items()}
        # Sets are told in the same order each time.
        environment |= {"PYTHONHASHSEED": "0"}
        environment |= {name: placed(text) for name, text in self.client.get("environment", {}).items()}
        command = [placed(word) for word in self.client["command"]]
        limited = ["setpriv", "--pdeathsig", "KILL", "timeout", "--kill-after", "5", str(CLIENT_LIMIT_SECONDS)]
        began = time.monotonic()
        ended = subprocess.run([*limited, *command], env=environment, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, check=False)
        lines = ended.stdout.splitlines()
        if ended.returncode:
            lines.append(f"end: {'hung' if ended.returncode in (124, 137) else f'exit code {ended.returncode}'}: {' / '.join(ended.stderr.splitlines()[-3:])}")
        self.told[way] = lines
        print(f"{self.name()} {way}: {len(lines)} lines, {time.monotonic() - began:.1f} s", flush=True)


def play_server(server, options, chosen, work):
    """Every client on one server: directly and through, and then through beside switchovers."""
    work.mkdir()
    with cluster.Cluster(options.program, server, work) as here:
        protocols = lambda client: [one for one in client["protocols"] if one in options.protocols]
        fitting = [client for client in chosen if server in client.get("servers", server)]
        settings = [(client, tls, protocol) for client in fitting for tls in options.tls if tls in client.get("tls", ["off", "on"]) for protocol in protocols(client)]
        runs = [Run(client, server, here.kind, tls, protocol, number) for number, (client, tls, protocol) in enumerate(settings, 1)]
        here.schemas(len(runs), json.loads((HERE / "operations.json").read_text(encoding="utf-8")))

        def quiet(run):
            run.play("direct", direct, 0, work)
            run.play("through", here.through(), 0, work)

        direct = here.direct()
        unset = [run for run in runs if run.tls == "unset"]
        each(quiet, [run for run in runs if run not in unset], options.jobs)
        moved = [0, []]
        if options.seconds:
            with cluster.Switchovers(here) as switchovers:
                moving = [run for run in runs if not run.client.get("quiet")]
                each(lambda run: run.play("moved", here.through(), options.seconds, work), moving, options.jobs)
            moved = [switchovers.done, switchovers.refused]
        if unset:
            here.serve_anew(tls="")
            direct = here.direct()
            # One after the other: the first logs in under TLS, so that server and proxy remember the account for the next, which has none.
            each(quiet, unset, 1)
        shutil.copy(work / "serve.log", options.out / f"serve-{server}.log")
        return {"server": server, "version": here.version(), "switchovers": moved[0], "refused": moved[1], "runs": runs}


def each(action, runs, jobs):
    threads = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        for done in [threads.submit(action, run) for run in runs]:
            done.result()
    finally:
        threads.shutdown(cancel_futures=True)


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, end)
    chosen = clients(options.clients)
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    played, failed = [], []
    with tempfile.TemporaryDirectory(prefix="understudy-clients-") as work:
        for server in options.servers:
            try:
                played.append(play_server(server, options, chosen, pathlib.Path(work) / server))
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                failed.append(f"{server}: {error}")
            causes = json.loads((HERE / "causes.json").read_text(encoding="utf-8"))
            unexplained = table.write(played, causes, options.out)
    if options.document:
        options.document.write_text(document.text(played, versions.of(chosen, placed)), encoding="utf-8")
    print((options.out / "table.txt").read_text(encoding="utf-8"), end="")
    print("\n".join(failed))
    sys.exit(1 if unexplained or failed else 0)


if __name__ == "__main__":
    main()
