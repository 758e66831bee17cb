"""A real cluster of the lab with Understudy before it, as a user would run it; and switchovers one after the other beside clients."""
import json
import os
import pathlib
import subprocess
import threading
import time

# The passwords are printed: the lab has no secrets.
PASSWORD = "secret"
START_LIMIT_SECONDS = 90


def lines_of(path, count=15):
    return "\n".join(path.read_text(errors="replace").splitlines()[-count:])


class Cluster:
    """`server` is "host" (the machine's MariaDB) or a name that scripts/servers.sh knows."""

    def __init__(self, program, server, work):
        self.program, self.server, self.work = program, server, pathlib.Path(work)
        self.kind = "mysql" if server.startswith("mysql") else "mariadb"
        # A stage's name has 20 characters at most.
        self.stage = f"c{os.getpid()}-{server.replace('.', '').replace('-', '')[:9]}"
        self.serving = None
        # The commands ask this program, and no other that runs on the machine.
        self.environment = os.environ | {"UNDERSTUDY_RUN_DIR": str(self.work)}
        self.config = self.work / "understudy.toml"

    def __enter__(self):
        try:
            self.up()
            self.accounts()
            self.serve(f'tls = "verified"\ntls_ca_file = "{self.authority}"\n')
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.stop()
        subprocess.run([self.program, "lab", "down", "--name", self.stage], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    def stop(self):
        if self.serving is None:
            return
        self.serving.terminate()
        try:
            self.serving.wait(40)
        except subprocess.TimeoutExpired:
            self.serving.kill()
            self.serving.wait()

    def ask(self, *arguments, limit_seconds=120):
        return subprocess.run([self.program, *arguments], capture_output=True, text=True, timeout=limit_seconds, check=False, env=self.environment)

    def up(self):
        more = [] if self.server == "host" else ["--server", self.server]
        options = ["max_allowed_packet=64M", "local_infile=1"]
        more += [word for option in options for word in ("--server-option", option)]
        ended = self.ask("lab", "up", "replication", "--semi-sync", "--tls", "--name", self.stage, *more, limit_seconds=300)
        if ended.returncode:
            raise RuntimeError(f"lab up: {ended.stderr}")
        told = json.loads(self.ask("lab", "status", "--name", self.stage, "--json").stdout)
        self.nodes = {node["name"]: node for node in told["nodes"]}
        self.host, self.authority = told["host_address"], told["authority"]

    def version(self):
        return self.as_root("SELECT @@version").strip()

    def as_root(self, sql):
        socket = pathlib.Path(self.nodes["db1"]["error_log"]).parent / "mysqld.sock"
        ended = subprocess.run(["mariadb", "-u", "root", "-S", socket, "-N", "-e", sql], capture_output=True, text=True, timeout=60, check=False)
        if ended.returncode:
            raise RuntimeError(f"{sql}: {ended.stderr}")
        return ended.stdout

    def accounts(self):
        for name in ("app", "second"):
            self.as_root(f"CREATE USER {name}@'%' IDENTIFIED BY '{PASSWORD}'; GRANT ALL ON `c\\_%`.* TO {name}@'%'")

    def schemas(self, count, operations):
        """c_1 and c_1_other, and so on, with what the operations drop in them: the first round has no other warnings than those after it."""
        dropped = {tuple(step[1].split()[1::3]) for one in operations if one.get("on", self.kind) == self.kind for step in one["steps"] if step[0] == "query" and " IF EXISTS " in step[1]}
        made = {"TABLE": "CREATE TABLE {} (id INT)", "PROCEDURE": "CREATE DEFINER = app@'%' PROCEDURE {}() SELECT 1", "SEQUENCE": "CREATE SEQUENCE {}"}
        there = "".join(f"{made[kind].format(name)};" for kind, name in sorted(dropped) if name != "absent")
        self.as_root("".join(f"CREATE DATABASE c_{n}; CREATE DATABASE c_{n}_other; USE c_{n}; {there}" for n in range(1, count + 1)))

    def serve_anew(self, tls):
        self.stop()
        self.serve(tls)

    def serve(self, tls):
        """`tls` is the lines of the configuration about TLS to the nodes; none: Understudy's defaults."""
        nodes = "".join(f'[[cluster.node]]\nname = "{name}"\naddress = "{node["address"]}"\n' for name, node in self.nodes.items())
        self.config.write_text(
            f'[cluster]\nname = "clients"\nid = 1\nkind = "replication"\n{tls}{nodes}'
            '[cluster.monitor]\nuser = "understudy"\npassword = "understudy"\n[cluster.replication]\nuser = "replication"\npassword = "replication"\n'
            f'[listen]\nmysql = "{self.host}:6133"\nhttp = "{self.host}:6180"\n[state]\ndir = "{self.work}/state"\n'
            # Wrong passwords are a part of the operations, and all clients come from one address.
            "[proxy]\npassword_errors_max = 1000\n"
        )
        log = self.work / "serve.log"
        with log.open("a") as file:
            command = ["setpriv", "--pdeathsig", "KILL", self.program, "serve", "--config", str(self.config)]
            self.serving = subprocess.Popen(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, env=self.environment)
        self.await_well(log)

    def await_well(self, log):
        until = time.monotonic() + START_LIMIT_SECONDS
        while time.monotonic() < until:
            if self.ask("status", "--config", str(self.config), "--exit-code").returncode == 0:
                return
            if self.serving.poll() is not None:
                break
            time.sleep(0.2)
        raise RuntimeError(f"understudy serve is not ready:\n{lines_of(log)}")

    def writer(self):
        told = self.ask("status", "--config", str(self.config), "--json")
        return json.loads(told.stdout)["writer"]

    def direct(self):
        """Where a client reaches the writer itself: host, port, the authority that signed its certificate."""
        host, port = self.nodes[self.writer()]["address"].rsplit(":", 1)
        return host, port, self.authority

    def through(self):
        return self.host, "6133", f"{self.work}/state/https.crt"


class Switchovers:
    """One begins every two seconds, or when the one before has ended."""

    def __init__(self, cluster, every_seconds=2.0):
        self.cluster, self.every_seconds = cluster, every_seconds
        self.over = threading.Event()
        self.done, self.refused = 0, []

    def __enter__(self):
        self.thread = threading.Thread(target=self.go_on)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def go_on(self):
        names = sorted(self.cluster.nodes)
        while not self.over.is_set():
            began = time.monotonic()
            to = names[(names.index(self.cluster.writer()) + 1) % len(names)]
            ended = self.cluster.ask("switchover", "--to", to, "--config", str(self.cluster.config))
            if ended.returncode:
                self.refused.append(f"{ended.stdout} {ended.stderr}".strip())
            else:
                self.done += 1
            self.over.wait(max(0.0, self.every_seconds - (time.monotonic() - began)))
