"""The drivers of PEP 249: dbapi.py pymysql | MySQLdb | mysql.connector | mariadb. See ../README.md."""
import importlib
import sys
import threading
import time

import told
from told import AUTHORITY, HOST, IS_PREPARED, IS_TLS, PASSWORD, PORT, SCHEMA, USER, NoSuchCall, value

NAME = sys.argv[1]
DRIVER = importlib.import_module(NAME)
MARK = "?" if NAME == "mariadb" else "%s"


def options(user, schema):
    given = {"host": HOST, "port": int(PORT), "user": user, "password": PASSWORD, "database": schema}
    if NAME == "pymysql":
        given |= {"charset": "utf8mb4", "local_infile": True, "client_flag": DRIVER.constants.CLIENT.MULTI_STATEMENTS, "read_timeout": 60}
        given |= {"ssl_ca": AUTHORITY} if IS_TLS else {"ssl_disabled": True}
    elif NAME == "MySQLdb":
        given |= {"charset": "utf8mb4", "local_infile": 1, "read_timeout": 60}
        given |= {"ssl": {"ca": AUTHORITY}} if IS_TLS else {}
    elif NAME == "mysql.connector":
        given |= {"charset": "utf8mb4", "allow_local_infile": True, "use_pure": True, "read_timeout": 20}
        given |= {"ssl_ca": AUTHORITY} if IS_TLS else {"ssl_disabled": True}
    else:
        given |= {"local_infile": True, "read_timeout": 60}
        given |= {"ssl_ca": AUTHORITY, "ssl_verify_cert": True} if IS_TLS else {}
    return given


class Client:
    connection = None

    def error(self, error):
        return f"{type(error).__name__} {getattr(error, 'errno', None)} {getattr(error, 'sqlstate', None)} {error.args}"

    def connect(self, user=USER, schema=SCHEMA, **more):
        connection = DRIVER.connect(**options(user, schema), **more)
        connection.autocommit = True if NAME in ("mysql.connector", "mariadb") else connection.autocommit
        if NAME in ("pymysql", "MySQLdb"):
            connection.autocommit(True)
        return connection

    def close(self):
        if self.connection is not None:
            try:
                self.connection.close()
            except DRIVER.Error:
                pass
            self.connection = None

    def new(self):
        self.close()
        self.connection = self.connect()
        return "ok"

    def cursor(self, has_parameters=False):
        if IS_PREPARED and has_parameters:
            return {"mysql.connector": lambda: self.connection.cursor(prepared=True), "mariadb": lambda: self.connection.cursor(binary=True)}[NAME]()
        return self.connection.cursor()

    def results(self, cursor):
        found = []
        while True:
            if cursor.description:
                columns = [tuple(column[:2]) for column in cursor.description]
                found.append((columns, [tuple(row) for row in cursor.fetchall()]))
            else:
                found.append((cursor.rowcount, cursor.lastrowid))
            if not hasattr(cursor, "nextset") or not cursor.nextset():
                return found

    def server(self):
        if NAME == "pymysql":
            return self.connection.get_server_info(), self.connection.server_charset
        return getattr(self.connection, "server_info", None) or self.connection.get_server_info()

    def query(self, sql):
        cursor = self.cursor()
        try:
            cursor.execute(sql)
            if cursor.description:
                return [column[:2] for column in cursor.description], [tuple(row) for row in cursor.fetchall()], cursor.rowcount
            return cursor.rowcount, cursor.lastrowid, getattr(cursor, "warnings", None)
        finally:
            cursor.close()

    def multi(self, sql):
        with_results = self.connection.cursor()
        try:
            with_results.execute(sql)
            return self.results(with_results)
        finally:
            with_results.close()

    def execute(self, sql, *parameters):
        cursor = self.cursor(has_parameters=True)
        try:
            cursor.execute(sql.replace("?", MARK), tuple(map(value, parameters)))
            rows = [tuple(row) for row in cursor.fetchall()] if cursor.description else None
            return rows, cursor.rowcount, cursor.lastrowid
        finally:
            cursor.close()

    def repeat(self, sql, *rows):
        cursor = self.cursor(has_parameters=True)
        found = []
        for row in rows:
            cursor.execute(sql.replace("?", MARK), tuple(map(value, row)))
            found.append([tuple(row) for row in cursor.fetchall()])
        cursor.close()
        return found

    def batch(self, sql, *rows):
        cursor = self.cursor(has_parameters=True)
        try:
            cursor.executemany(sql.replace("?", MARK), [tuple(map(value, row)) for row in rows])
            return cursor.rowcount
        finally:
            cursor.close()

    def call(self, name, *parameters):
        cursor = self.connection.cursor()
        answer = cursor.callproc(name, [*map(value, parameters), 0])
        if NAME == "mysql.connector":
            found = [result.fetchall() for result in cursor.stored_results()]
        else:
            found = self.results(cursor)
        cursor.close()
        return answer, found

    def stream(self, sql):
        if NAME in ("pymysql", "MySQLdb"):
            cursor = self.connection.cursor(importlib.import_module(NAME + ".cursors").SSCursor)
        else:
            cursor = self.connection.cursor(buffered=False)
        cursor.execute(sql)
        rows = [tuple(row) for row in cursor.fetchall()] if NAME == "MySQLdb" else list(map(tuple, cursor))
        cursor.close()
        return len(rows), rows

    def fetch(self, sql, size):
        if NAME == "mariadb":
            cursor = self.connection.cursor(buffered=False, cursor_type=DRIVER.constants.CURSOR.READ_ONLY, prefetch_size=size, binary=True)
        elif NAME == "mysql.connector":
            cursor = self.cursor()
        else:
            raise NoSuchCall
        cursor.execute(sql)
        rows = []
        while part := cursor.fetchmany(size):
            rows += map(tuple, part)
        cursor.close()
        return len(rows), rows

    def begin(self):
        if NAME == "mysql.connector":
            self.connection.start_transaction()
        else:
            self.query("BEGIN")
        return "ok"

    def commit(self):
        self.connection.commit()
        return "ok"

    def rollback(self):
        self.connection.rollback()
        return "ok"

    def isolation(self, level):
        self.query(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        return "ok"

    def ping(self):
        self.connection.ping(**{"pymysql": {"reconnect": False}}.get(NAME, {}))
        return "ok"

    def reset(self):
        if not hasattr(self.connection, "reset") and not hasattr(self.connection, "cmd_reset_connection"):
            raise NoSuchCall
        getattr(self.connection, "cmd_reset_connection", getattr(self.connection, "reset", None))()
        return "ok"

    def user(self, name):
        password = PASSWORD if name != "wrong" else "wrong"
        if NAME == "mysql.connector":
            self.connection.cmd_change_user(name if name != "wrong" else USER, password, SCHEMA)
        elif NAME in ("mariadb", "MySQLdb"):
            self.connection.change_user(name if name != "wrong" else USER, password, SCHEMA)
        else:
            raise NoSuchCall
        return "ok"

    def schema(self, name):
        if NAME in ("pymysql", "MySQLdb"):
            self.connection.select_db(name)
        elif NAME == "mysql.connector":
            self.connection.cmd_init_db(name)
        else:
            self.connection.database = name
        return "ok"

    def infile(self, sql, content):
        with open(told.FILE, "w", encoding="utf-8") as file:
            file.write(content)
        return self.query(sql)

    def large(self, size):
        return self.execute("SELECT LENGTH(?), SHA2(?, 256)", "str:" + "z" * size, "str:" + "z" * size)

    def killed(self, sql):
        """Killed by another connection, again and again until it has ended."""
        identity = self.query("SELECT CONNECTION_ID()")[1][0][0]
        done = threading.Event()

        def kill():
            other = self.connect()
            while not done.wait(0.3):
                try:
                    other.cursor().execute(f"KILL QUERY {identity}")
                except DRIVER.Error:
                    pass
            other.close()

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            return self.query(sql)
        finally:
            done.set()
            killer.join()

    def compressed(self):
        more = {"pymysql": None, "MySQLdb": {"compress": True}, "mysql.connector": {"compress": True}, "mariadb": {"compress": True}}[NAME]
        if more is None:
            raise NoSuchCall
        self.close()
        self.connection = self.connect(**more)
        return "ok"

    def pool(self, size, sql):
        if NAME == "mysql.connector":
            from mysql.connector import pooling

            pool = pooling.MySQLConnectionPool(pool_name="p", pool_size=size, **options(USER, SCHEMA))
            taken = [pool.get_connection() for _ in range(size)]
        elif NAME == "mariadb":
            pool = DRIVER.ConnectionPool(pool_name=f"p{time.monotonic_ns()}", pool_size=size, **options(USER, SCHEMA))
            taken = [pool.get_connection() for _ in range(size)]
        else:
            raise NoSuchCall
        found = []
        for connection in taken:
            cursor = connection.cursor()
            cursor.execute(sql)
            found.append(cursor.fetchall())
            cursor.close()
            connection.close()
        if NAME == "mariadb":
            pool.close()
        else:
            pool._remove_connections()
        return found

    writes = told.writes
    transfers = told.transfers
    pause = staticmethod(told.pause)


told.run(Client())
