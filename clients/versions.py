"""The versions of the clients, from the files here that name them, from Debian, or from a program itself."""
import json
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


def said(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def pinned(file, pattern):
    found = re.search(pattern, (HERE / file).read_text(encoding="utf-8"))
    return found[1] if found else "?"


def version(kind, name):
    name_pattern = re.escape(name)
    match kind:
        case "pip":
            return pinned("python/requirements.txt", rf"(?m)^{name_pattern}==(\S+)")
        case "npm":
            return json.loads((HERE / "node/package.json").read_text(encoding="utf-8"))["dependencies"][name]
        case "go":
            return pinned("go/go.mod", rf"{name_pattern} v(\S+)")
        case "maven":
            return pinned("java/pom.xml", rf"<artifactId>{name_pattern}</artifactId><version>([^<]+)")
        case "cargo":
            return pinned("rust/Cargo.toml", rf'(?m)^{name_pattern} = .*version = "=([^"]+)')
        case "debian":
            return said("dpkg-query", "-W", "-f=${Version}", name)
        case "program":
            found = re.search(r"(?:from|Ver) ([0-9][^ ,]*)", said(name, "--version"))
            return found[1] if found else "?"
    raise ValueError(f"clients.json: {kind} is no kind of version")


def of(clients, placed):
    """Client -> its version."""
    return {client["name"]: version(*placed(client["version"]).split(" ", 1)) for client in clients}
