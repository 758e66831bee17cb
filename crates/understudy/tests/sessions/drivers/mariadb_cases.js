// The cases of main.rs with node's `mariadb`: HOST PORT USER PASSWORD CASE FIRST-ID. Each call's outcome is a line; at NOW the test does its part.
const mariadb = require('mariadb');
const readline = require('readline');

const [host, port, user, password, which, first] = process.argv.slice(2);
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

const connect = () => mariadb.createConnection({ host, port: Number(port), user, password, database: 'sbtest', socketTimeout: 60000 });

async function told(what, call) {
  try {
    console.log(`${what}: ${await call()}`);
  } catch (error) {
    console.log(`${what}: error ${error.errno}`);
  }
}

async function now() {
  console.log('NOW');
  await lines.next();
}

async function ask(connection, sql, args) {
  const rows = await connection.query({ sql, rowsAsArray: true }, args);
  return Array.isArray(rows) ? JSON.stringify(rows.map((row) => row.map(String))) : 'ok';
}

const insert = (connection, at) => ask(connection, 'INSERT INTO d VALUES (?, ?)', [Number(first) + at, "it's"]);
const ping = async (connection) => { await connection.ping(); return 'ok'; };
const begin = async (connection) => { await connection.beginTransaction(); return 'ok'; };
const rollback = async (connection) => { await connection.rollback(); return 'ok'; };
const commit = async (connection) => { await connection.commit(); return 'ok'; };

async function lost(pings) {
  const one = await connect();
  one.on('error', () => {});
  await told('begin', () => begin(one));
  await told('insert', () => insert(one, 0));
  await now();
  if (pings) await told('ping', () => ping(one));
  await told('commit', () => commit(one));
}

async function find(one) {
  for (const name of ["\\' OR 1=1 -- ", "it's", 'a\\']) {
    await told('find', () => ask(one, 'SELECT COUNT(*) FROM d WHERE name = ?', [name]));
    await told('back', () => ask(one, 'SELECT HEX(?)', [name]));
  }
}

const cases = {
  lost: () => lost(true),
  lost_without_ping: () => lost(false),
  async lost_rolled_back() {
    const one = await connect();
    one.on('error', () => {});
    await told('begin', () => begin(one));
    await told('insert', () => insert(one, 0));
    await now();
    await told('rollback', () => rollback(one));
    await told('begin', () => begin(one));
    await told('insert', () => insert(one, 1));
    await told('commit', () => commit(one));
  },
  async killed_itself() {
    const one = await connect();
    await told('begin', () => begin(one));
    await told('insert', () => insert(one, 0));
    await told('kill', () => ask(one, `KILL QUERY ${one.threadId}`));
    await told('insert', () => insert(one, 1));
    await told('commit', () => commit(one));
  },
  async killed_other() {
    const [one, other] = [await connect(), await connect()];
    await told('begin', () => begin(one));
    await told('insert', () => insert(one, 0));
    await told('kill', () => ask(one, `KILL QUERY ${other.threadId}`));
    await told('commit', () => commit(one));
  },
  async defaults() {
    let one = await connect();
    await told('insert', () => insert(one, 0));
    await one.end();
    one = await connect();
    await told('insert', () => insert(one, 1));
    await told('commit', () => commit(one));
    await one.end();
  },
  async quote() {
    const one = await connect();
    await told('insert', () => insert(one, 0));
    await find(one);
  },
  async moved() {
    const one = await connect();
    await told('begin', () => begin(one));
    await told('insert', () => insert(one, 0));
    await told('commit', () => commit(one));
    await now();
    await told('ping', () => ping(one));
    await told('begin', () => begin(one));
    await told('insert', () => insert(one, 1));
    await told('ping', () => ping(one));
    await told('commit', () => commit(one));
  },
  async moved_open() {
    const one = await connect();
    await told('begin', () => begin(one));
    await told('insert', () => insert(one, 0));
    await now();
    await told('insert', () => insert(one, 1));
    await told('commit', () => commit(one));
    await told('begin', () => begin(one));
    await told('insert', () => insert(one, 2));
    await told('rollback', () => rollback(one));
  },
  async own_quotes() {
    const one = await connect();
    await told('set', () => ask(one, "SET sql_mode = 'NO_BACKSLASH_ESCAPES'"));
    await now();
    await told('insert', () => ask(one, 'INSERT INTO d VALUES (?, ?)', [Number(first), "it's a\\"]));
    await find(one);
  },
};
cases[which]().then(() => process.exit(0));
