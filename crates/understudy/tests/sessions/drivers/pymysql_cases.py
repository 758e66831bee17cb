"""The cases of main.rs with PyMySQL: HOST PORT USER PASSWORD CASE FIRST-ID. Each call's outcome is a line; at NOW the test does its part."""
import sys

import pymysql

HOST, PORT, USER, PASSWORD, CASE, FIRST = sys.argv[1:]
FIRST = int(FIRST)


def connect():
    return pymysql.connect(host=HOST, port=int(PORT), user=USER, password=PASSWORD, database="sbtest", read_timeout=60)


def told(what, call):
    try:
        print(f"{what}: {call()}", flush=True)
        return True
    except pymysql.Error as error:
        print(f"{what}: error {error.args[0]}", flush=True)
        return False


def now():
    print("NOW", flush=True)
    sys.stdin.readline()


def ask(connection, sql, args=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, args)
        rows = cursor.fetchall()
        return [list(map(str, row)) for row in rows] if cursor.description else "ok"


def insert(connection, at):
    return ask(connection, "INSERT INTO d VALUES (%s, %s)", (FIRST + at, "it's"))


def ping(connection):
    connection.ping(reconnect=False)
    return "ok"


def commit(connection):
    connection.commit()
    return "ok"


def rollback(connection):
    connection.rollback()
    return "ok"


def lost(pings):
    one = connect()
    told("insert", lambda: insert(one, 0))
    now()
    if pings:
        told("ping", lambda: ping(one))
    told("commit", lambda: commit(one))


def lost_rolled_back():
    one = connect()
    told("insert", lambda: insert(one, 0))
    now()
    told("rollback", lambda: rollback(one))
    told("insert", lambda: insert(one, 1))
    told("commit", lambda: commit(one))


def killed_itself():
    one = connect()
    told("insert", lambda: insert(one, 0))
    told("kill", lambda: ask(one, f"KILL QUERY {one.thread_id()}"))
    told("insert", lambda: insert(one, 1))
    told("commit", lambda: commit(one))


def killed_other():
    one, other = connect(), connect()
    other_id = other.thread_id()
    told("insert", lambda: insert(one, 0))
    told("kill", lambda: ask(one, f"KILL QUERY {other_id}"))
    told("commit", lambda: commit(one))


def defaults():
    one = connect()
    told("insert", lambda: insert(one, 0))
    one.close()
    one = connect()
    told("insert", lambda: insert(one, 1))
    told("commit", lambda: commit(one))
    one.close()


def find(one):
    for name in ("\\' OR 1=1 -- ", "it's", "a\\"):
        told("find", lambda: ask(one, "SELECT COUNT(*) FROM d WHERE name = %s", (name,)))
        told("back", lambda: ask(one, "SELECT HEX(%s)", (name,)))


def quote():
    one = connect()
    told("insert", lambda: insert(one, 0))
    find(one)


def moved():
    one = connect()
    told("insert", lambda: insert(one, 0))
    told("commit", lambda: commit(one))
    now()
    told("ping", lambda: ping(one))
    told("insert", lambda: insert(one, 1))
    told("ping", lambda: ping(one))
    told("commit", lambda: commit(one))


def moved_open():
    one = connect()
    told("insert", lambda: insert(one, 0))
    now()
    told("insert", lambda: insert(one, 1))
    told("commit", lambda: commit(one))
    told("insert", lambda: insert(one, 2))
    told("rollback", lambda: rollback(one))


def own_quotes():
    one = connect()
    told("set", lambda: ask(one, "SET sql_mode = 'NO_BACKSLASH_ESCAPES'"))
    now()
    told("insert", lambda: ask(one, "INSERT INTO d VALUES (%s, %s)", (FIRST, "it's a\\")))
    told("commit", lambda: commit(one))
    find(one)


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
