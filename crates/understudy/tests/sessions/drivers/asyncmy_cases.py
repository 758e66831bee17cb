"""The cases of main.rs with asyncmy: HOST PORT USER PASSWORD CASE FIRST-ID. Each call's outcome is a line; at NOW the test does its part."""
import asyncio
import sys

import asyncmy
from asyncmy.errors import MySQLError

HOST, PORT, USER, PASSWORD, CASE, FIRST = sys.argv[1:]
FIRST = int(FIRST)


async def connect():
    return await asyncmy.connect(host=HOST, port=int(PORT), user=USER, password=PASSWORD, database="sbtest", read_timeout=60)


async def told(what, call):
    try:
        print(f"{what}: {await call}", flush=True)
    except MySQLError as error:
        print(f"{what}: error {error.args[0]}", flush=True)


def now():
    print("NOW", flush=True)
    sys.stdin.readline()


async def ask(connection, sql, args=None):
    async with connection.cursor() as cursor:
        await cursor.execute(sql, args)
        rows = await cursor.fetchall() if cursor.description else None
        return "ok" if rows is None else [list(map(str, row)) for row in rows]


async def insert(connection, at):
    return await ask(connection, "INSERT INTO d VALUES (%s, %s)", (FIRST + at, "it's"))


async def ping(connection):
    await connection.ping(reconnect=False)
    return "ok"


async def commit(connection):
    await connection.commit()
    return "ok"


async def rollback(connection):
    await connection.rollback()
    return "ok"


async def lost(pings):
    one = await connect()
    await told("insert", insert(one, 0))
    now()
    if pings:
        await told("ping", ping(one))
    await told("commit", commit(one))


async def lost_rolled_back():
    one = await connect()
    await told("insert", insert(one, 0))
    now()
    await told("rollback", rollback(one))
    await told("insert", insert(one, 1))
    await told("commit", commit(one))


async def killed_itself():
    one = await connect()
    await told("insert", insert(one, 0))
    await told("kill", ask(one, f"KILL QUERY {one.thread_id()}"))
    await told("insert", insert(one, 1))
    await told("commit", commit(one))


async def killed_other():
    one, other = await connect(), await connect()
    other_id = other.thread_id()
    await told("insert", insert(one, 0))
    await told("kill", ask(one, f"KILL QUERY {other_id}"))
    await told("commit", commit(one))


async def defaults():
    one = await connect()
    await told("insert", insert(one, 0))
    one.close()
    one = await connect()
    await told("insert", insert(one, 1))
    await told("commit", commit(one))
    one.close()


async def find(one):
    for name in ("\\' OR 1=1 -- ", "it's", "a\\"):
        await told("find", ask(one, "SELECT COUNT(*) FROM d WHERE name = %s", (name,)))
        await told("back", ask(one, "SELECT HEX(%s)", (name,)))


async def quote():
    one = await connect()
    await told("insert", insert(one, 0))
    await find(one)


async def moved():
    one = await connect()
    await told("insert", insert(one, 0))
    await told("commit", commit(one))
    now()
    await told("ping", ping(one))
    await told("insert", insert(one, 1))
    await told("ping", ping(one))
    await told("commit", commit(one))


async def moved_open():
    one = await connect()
    await told("insert", insert(one, 0))
    now()
    await told("insert", insert(one, 1))
    await told("commit", commit(one))
    await told("insert", insert(one, 2))
    await told("rollback", rollback(one))


async def own_quotes():
    one = await connect()
    await told("set", ask(one, "SET sql_mode = 'NO_BACKSLASH_ESCAPES'"))
    now()
    await told("insert", ask(one, "INSERT INTO d VALUES (%s, %s)", (FIRST, "it's a\\")))
    await told("commit", commit(one))
    await find(one)


asyncio.run(
    {
        "lost": lambda: lost(True),
        "lost_without_ping": lambda: lost(False),
        "lost_rolled_back": lost_rolled_back,
        "killed_other": killed_other,
        "killed_itself": killed_itself,
        "defaults": defaults,
        "quote": quote,
        "moved": moved,
        "moved_open": moved_open,
        "own_quotes": own_quotes,
    }[CASE]()
)
