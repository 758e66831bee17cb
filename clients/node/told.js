// Carries out clients/operations.json by a driver of node and prints one line an operation. The drivers' own calls are in the programs beside this file. See ../README.md.
const crypto = require("crypto");
const fs = require("fs");

const given = (name) => process.env[`CLIENT_${name}`];
const isPrepared = given("PROTOCOL") === "prepared";

const place = {
  host: given("HOST"),
  port: Number(given("PORT")),
  user: given("USER"),
  password: given("PASSWORD"),
  database: given("SCHEMA"),
  multipleStatements: true,
};
if (given("TLS") === "on") place.ssl = { ca: fs.readFileSync(given("AUTHORITY")) };

function value(text) {
  const at = text.indexOf(":");
  const [kind, rest] = [text.slice(0, at), text.slice(at + 1)];
  switch (kind) {
    case "int": case "uint": return Number.isSafeInteger(Number(rest)) ? Number(rest) : BigInt(rest);
    case "float": return Number(rest);
    case "bytes": return Buffer.from(rest, "hex");
    case "null": return null;
    case "bool": return rest === "true";
    case "datetime": return new Date(rest.replace(" ", "T"));
    default: return rest;
  }
}

function plain(_, item) {
  if (typeof item === "bigint") return `${item}n`;
  if (item && item.type === "Buffer") return `bytes ${Buffer.from(item.data).toString("hex")}`;
  return item;
}

// What the server told of the session's state is compared in "session tracking" alone: Understudy has more of it told.
function untracked(key, item) {
  if (key === "stateChanges") return undefined;
  return key === "serverStatus" ? item & ~0x4000 : plain(key, item);
}

function shown(told, isTracked) {
  const text = (typeof told === "string" ? told : JSON.stringify(told, isTracked ? plain : untracked)).replaceAll("\n", "\\n");
  return text.length <= 1500 ? text : `${text.length} characters, ${crypto.createHash("md5").update(text).digest("hex")}`;
}

function filled(part) {
  if (Array.isArray(part)) return part.map(filled);
  if (typeof part !== "string") return part;
  return part.replaceAll("$SCHEMA", given("SCHEMA")).replaceAll("$OTHER", given("SCHEMA") + "_other").replaceAll("$FILE", given("FILE"));
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(() => resolve("ok"), milliseconds));

// What is the same with every driver, over `client.query(sql)` and `client.execute(sql, values)`.
const common = {
  pause: (_, milliseconds) => pause(milliseconds),
  begin: (client) => client.begin(),
  isolation: (client, level) => client.query(`SET SESSION TRANSACTION ISOLATION LEVEL ${level}`),
  large: (client, size) => client.execute("SELECT LENGTH(?), SHA2(?, 256)", "str:" + "z".repeat(size), "str:" + "z".repeat(size)),
  infile(client, sql, content) {
    fs.writeFileSync(given("FILE"), content);
    return client.load(sql);
  },
  async writes(client, count, milliseconds) {
    for (let n = 0; n < count; n++) {
      await client.execute("INSERT INTO ledger VALUES (?, ?)", `int:${n}`, `int:${3 * n}`);
      await pause(milliseconds);
    }
    return "ok";
  },
  async transfers(client, count, milliseconds) {
    for (let n = 0; n < count; n++) {
      await client.begin();
      await client.execute("UPDATE account SET v = v - ? WHERE id = 1", "int:7");
      await pause(milliseconds);
      await client.execute("UPDATE account SET v = v + ? WHERE id = 2", "int:7");
      await client.commit();
    }
    return "ok";
  },
  async killed(client, sql) {
    const id = await client.identity();
    const other = await client.another();
    let isOver = false;
    const killing = (async () => {
      while (!isOver) {
        await pause(300);
        if (!isOver) await other.query(`KILL QUERY ${id}`).catch(() => {});
      }
    })();
    try {
      return await client.query(sql);
    } finally {
      isOver = true;
      await killing;
      await other.end();
    }
  },
};

async function run(client) {
  const operations = JSON.parse(fs.readFileSync(given("OPERATIONS"), "utf8")).filter((one) => !one.on || one.on === given("SERVER"));
  const until = Date.now() + 1000 * Number(given("SECONDS"));
  await client.new();
  for (let round = 0; round === 0 || Date.now() < until; round++) {
    for (const operation of operations) {
      if (round > 0 && operation.once) continue;
      const told = [];
      for (const [word, ...parts] of operation.steps) {
        const call = client[word] ? client[word].bind(client) : common[word] && common[word].bind(null, client);
        try {
          told.push(call ? shown((await call(...filled(parts))) ?? "nothing", operation.name === "session tracking") : "no such call");
        } catch (error) {
          told.push(shown(`error ${error.errno} ${error.sqlState} ${error.code} ${error.sqlMessage ?? error.message}`));
        }
      }
      console.log(`${operation.name}: ${told.join(" | ")}`);
    }
  }
  await client.close();
}

module.exports = { given, isPrepared, pause, place, run, shown, value };
