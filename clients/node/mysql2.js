// node's mysql2. See ../README.md.
const fs = require("fs");
const mysql = require("mysql2/promise");
const { given, isPrepared, place, run, value } = require("./told");

const options = (more) => ({ ...place, charset: "utf8mb4", supportBigNumbers: true, connectAttributes: { app: "clients" }, ...more });
const result = ([rows, fields]) => ({ columns: fields?.flat().map((field) => field && [field.name, field.columnType]), rows });

run({
  connect: (more) => mysql.createConnection(options(more)),
  async new(more) {
    await this.close();
    this.connection = await this.connect(more);
    return "ok";
  },
  async close() {
    await this.connection?.end().catch(() => {});
  },
  compressed() { return this.new({ compress: true }); },
  async another() {
    const connection = await this.connect();
    return { query: (sql) => connection.query(sql), end: () => connection.end() };
  },
  async identity() { return (await this.connection.query("SELECT CONNECTION_ID() AS id"))[0][0].id; },
  query: async function (sql) { return result(await this.connection.query(sql)); },
  multi(sql) { return this.query(sql); },
  async execute(sql, ...parts) {
    const values = parts.map(value);
    return result(await (isPrepared ? this.connection.execute(sql, values) : this.connection.query(sql, values)));
  },
  async repeat(sql, ...rows) {
    if (!isPrepared) return Promise.all(rows.map((row) => this.execute(sql, ...row)));
    const statement = await this.connection.prepare(sql);
    const told = [];
    for (const row of rows) told.push((await statement.execute(row.map(value)))[0]);
    await statement.close();
    return told;
  },
  async batch(sql, ...rows) {
    if (isPrepared) {
      for (const row of rows) await this.execute(sql, ...row);
      return rows.length;
    }
    return result(await this.connection.query(sql.replace("(?, ?)", "?"), [rows.map((row) => row.map(value))]));
  },
  async stream(sql) {
    const rows = [];
    for await (const row of this.connection.connection.query(sql).stream({ highWaterMark: 5 })) rows.push(row);
    return rows;
  },
  begin() { return this.connection.beginTransaction().then(() => "ok"); },
  commit() { return this.connection.commit().then(() => "ok"); },
  rollback() { return this.connection.rollback().then(() => "ok"); },
  ping() { return this.connection.ping().then(() => "ok"); },
  reset() { return this.connection.reset ? this.connection.reset().then(() => "ok") : this.connection.changeUser({ database: given("SCHEMA") }).then(() => "ok"); },
  async user(name) {
    await this.connection.changeUser(name === "wrong" ? { user: given("USER"), password: "wrong" } : { user: name, password: given("PASSWORD"), database: given("SCHEMA") });
    return "ok";
  },
  async load(sql) {
    return result(await this.connection.query({ sql, infileStreamFactory: (path) => fs.createReadStream(path) }));
  },
  async timeout(sql, seconds) { return result(await this.connection.query({ sql, timeout: 1000 * seconds })); },
  async pool(size, sql) {
    const pool = mysql.createPool(options({ connectionLimit: size }));
    const told = await Promise.all(Array.from({ length: 3 * size }, () => pool.query(sql)));
    await pool.end();
    return told.map(result);
  },
});
