"""asyncmy. See ../README.md."""
import asyncio

import asyncmy
import asyncmy.cursors
import told
from told import AUTHORITY, HOST, IS_TLS, PASSWORD, PORT, SCHEMA, USER, value


class Client:
    """Each method is run to its end: told.run calls them as those of any driver."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.connection = None

    def options(self):
        given = {"host": HOST, "port": int(PORT), "user": USER, "password": PASSWORD, "charset": "utf8mb4", "autocommit": True, "local_infile": True, "read_timeout": 20}
        if IS_TLS:
            import ssl

            given["ssl"] = ssl.create_default_context(cafile=AUTHORITY)
        given["client_flag"] = asyncmy.constants.CLIENT.MULTI_STATEMENTS
        return given

    def done(self, call):
        return self.loop.run_until_complete(call)

    def error(self, error):
        return f"{type(error).__name__} {error.args}"

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def new(self):
        self.close()
        self.connection = self.done(asyncmy.connect(db=SCHEMA, **self.options()))
        return "ok"

    def server(self):
        return self.connection.get_server_info()

    async def run(self, sql, values=None, kind=asyncmy.cursors.Cursor):
        async with self.connection.cursor(cursor=kind) as cursor:
            await cursor.execute(sql, values)
            found = []
            while True:
                columns = [column[:2] for column in cursor.description or ()]
                found.append((columns, list(await cursor.fetchall()) if columns else None, cursor.rowcount, cursor.lastrowid))
                if not await cursor.nextset():
                    return found

    def query(self, sql):
        return self.done(self.run(sql))

    multi = query

    def execute(self, sql, *parameters):
        return self.done(self.run(sql.replace("?", "%s"), tuple(map(value, parameters))))

    def repeat(self, sql, *rows):
        return [self.execute(sql, *row) for row in rows]

    def batch(self, sql, *rows):
        async def many():
            async with self.connection.cursor() as cursor:
                return await cursor.executemany(sql.replace("?", "%s"), [tuple(map(value, row)) for row in rows])

        return self.done(many())

    def call(self, name, *parameters):
        async def calling():
            async with self.connection.cursor() as cursor:
                answer = await cursor.callproc(name, [*map(value, parameters), 0])
                found = [await cursor.fetchall()]
                while await cursor.nextset():
                    found.append(await cursor.fetchall())
                return answer, found

        return self.done(calling())

    def stream(self, sql):
        async def read():
            async with self.connection.cursor(cursor=asyncmy.cursors.SSCursor) as cursor:
                await cursor.execute(sql)
                return [tuple(row) async for row in cursor]

        return self.done(read())

    def begin(self):
        self.done(self.connection.begin())
        return "ok"

    def commit(self):
        self.done(self.connection.commit())
        return "ok"

    def rollback(self):
        self.done(self.connection.rollback())
        return "ok"

    def isolation(self, level):
        return self.query(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")

    def ping(self):
        self.done(self.connection.ping(reconnect=False))
        return "ok"

    def schema(self, name):
        self.done(self.connection.select_db(name))
        return "ok"

    def infile(self, sql, content):
        with open(told.FILE, "w", encoding="utf-8") as file:
            file.write(content)
        return self.query(sql)

    def large(self, size):
        return self.execute("SELECT LENGTH(?), SHA2(?, 256)", "str:" + "z" * size, "str:" + "z" * size)

    def pool(self, size, sql):
        async def taken(pool):
            async with pool.acquire() as connection, connection.cursor() as cursor:
                await cursor.execute(sql)
                return await cursor.fetchall()

        async def all_of():
            pool = await asyncmy.create_pool(minsize=1, maxsize=size, db=SCHEMA, **self.options())
            found = await asyncio.gather(*(taken(pool) for _ in range(3 * size)))
            pool.close()
            await pool.wait_closed()
            return found

        return self.done(all_of())

    writes = told.writes
    transfers = told.transfers
    pause = staticmethod(told.pause)


told.run(Client())
