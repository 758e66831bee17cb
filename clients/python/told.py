"""Carries out clients/operations.json by a driver and prints one line an operation: what its steps gave. The drivers' own calls are in the programs beside this file."""
import datetime
import decimal
import hashlib
import json
import os
import time

HOST, PORT, USER, PASSWORD, SCHEMA, AUTHORITY = (os.environ[f"CLIENT_{name}"] for name in ("HOST", "PORT", "USER", "PASSWORD", "SCHEMA", "AUTHORITY"))
IS_PREPARED = os.environ["CLIENT_PROTOCOL"] == "prepared"
IS_TLS = os.environ["CLIENT_TLS"] == "on"
FILE = os.environ["CLIENT_FILE"]
OTHER = SCHEMA + "_other"
KINDS = {
    "int": int, "uint": int, "float": float, "str": str, "bytes": bytes.fromhex, "decimal": decimal.Decimal, "null": lambda _: None,
    "datetime": datetime.datetime.fromisoformat, "date": datetime.date.fromisoformat, "bool": lambda text: text == "true",
}


class NoSuchCall(Exception):
    """The driver has no call for this step."""


def value(text):
    kind, _, rest = text.partition(":")
    return KINDS[kind](rest)


def shown(result):
    """A result in one line; a long one by its length and digest."""
    text = result if isinstance(result, str) else repr(result)
    if len(text) <= 1500:
        return text.replace("\n", "\\n")
    return f"{len(text)} characters, {hashlib.md5(text.encode()).hexdigest()}"


def filled(part):
    if isinstance(part, list):
        return [filled(item) for item in part]
    if isinstance(part, str):
        return part.replace("$SCHEMA", SCHEMA).replace("$OTHER", OTHER).replace("$FILE", FILE)
    return part


def operations():
    with open(os.environ["CLIENT_OPERATIONS"], encoding="utf-8") as file:
        return [one for one in json.load(file) if one.get("on", os.environ["CLIENT_SERVER"]) == os.environ["CLIENT_SERVER"]]


def rounds():
    """Every operation once, and again until the time is over."""
    until = time.monotonic() + float(os.environ["CLIENT_SECONDS"])
    is_first = True
    while is_first or time.monotonic() < until:
        for operation in operations():
            if is_first or not operation.get("once"):
                yield operation
        is_first = False


def told(name, outcomes):
    print(f"{name}: {' | '.join(outcomes)}", flush=True)


def run(client):
    """`client` has a method for each word of a step; what it returns is shown."""
    client.new()
    for operation in rounds():
        outcomes = []
        for word, *parts in operation["steps"]:
            call = getattr(client, word, None)
            try:
                if call is None:
                    raise NoSuchCall
                outcomes.append(shown(call(*filled(parts))))
            except NoSuchCall:
                outcomes.append("no such call")
            except Exception as error:  # whatever a driver raises is what it told
                outcomes.append(shown(client.error(error)))
        told(operation["name"], outcomes)
    client.close()


def pause(milliseconds):
    time.sleep(milliseconds / 1000)
    return "ok"


def writes(client, count, milliseconds):
    for number in range(count):
        client.execute("INSERT INTO ledger VALUES (?, ?)", f"int:{number}", f"int:{number * 3}")
        pause(milliseconds)
    return "ok"


def transfers(client, count, milliseconds):
    for _ in range(count):
        client.begin()
        client.execute("UPDATE account SET v = v - ? WHERE id = 1", "int:7")
        pause(milliseconds)
        client.execute("UPDATE account SET v = v + ? WHERE id = 2", "int:7")
        client.commit()
    return "ok"
