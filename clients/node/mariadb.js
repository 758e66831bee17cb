// node's mariadb. See ../README.md.
const mariadb = require("mariadb");
const { given, isPrepared, place, run, value } = require("./told");

// Given an address in place of a name, this driver looks for "localhost" in the certificate.
const ssl = place.ssl && { ...place.ssl, checkServerIdentity: () => undefined };
const options = (more) => ({ ...place, ssl, permitLocalInfile: true, allowPublicKeyRetrieval: true, connectAttributes: { app: "clients" }, ...more });
const result = (rows) => ({ columns: rows?.meta?.map?.((field) => [field.name(), field.columnType]), rows });

run({
  connect: (more) => mariadb.createConnection(options(more)),
  async new(more) {
    await this.close();
    this.connection = await this.connect(more);
    return "ok";
  },
  async close() {
    await this.connection?.end().catch(() => {});
  },
  server() { return this.connection.serverVersion(); },
  compressed() { return this.new({ compress: true }); },
  async another() { return this.connect(); },
  async identity() { return (await this.connection.query("SELECT CONNECTION_ID() AS id"))[0].id; },
  query: async function (sql) { return result(await this.connection.query(sql)); },
  multi(sql) { return this.query(sql); },
  async execute(sql, ...parts) {
    const values = parts.map(value);
    return result(await (isPrepared ? this.connection.execute(sql, values) : this.connection.query(sql, values)));
  },
  async repeat(sql, ...rows) {
    const told = [];
    if (!isPrepared) for (const row of rows) told.push(await this.connection.query(sql, row.map(value)));
    if (!isPrepared) return told;
    const statement = await this.connection.prepare(sql);
    for (const row of rows) told.push(await statement.execute(row.map(value)));
    statement.close();
    return told;
  },
  batch(sql, ...rows) { return this.connection.batch(sql, rows.map((row) => row.map(value))); },
  async stream(sql) {
    const rows = [];
    for await (const row of this.connection.queryStream(sql)) rows.push(row);
    return rows;
  },
  begin() { return this.connection.beginTransaction().then(() => "ok"); },
  commit() { return this.connection.commit().then(() => "ok"); },
  rollback() { return this.connection.rollback().then(() => "ok"); },
  ping() { return this.connection.ping().then(() => "ok"); },
  reset() { return this.connection.reset().then(() => "ok"); },
  async user(name) {
    await this.connection.changeUser(name === "wrong" ? { user: given("USER"), password: "wrong" } : { user: name, password: given("PASSWORD"), database: given("SCHEMA") });
    return "ok";
  },
  load(sql) { return this.query(sql); },
  async timeout(sql, seconds) { return result(await this.connection.query({ sql, timeout: given("SERVER") === "mariadb" ? 1000 * seconds : 0 })); },
  async pool(size, sql) {
    const pool = mariadb.createPool(options({ connectionLimit: size }));
    const told = await Promise.all(Array.from({ length: 3 * size }, () => pool.query(sql)));
    await pool.end();
    return told;
  },
});
