// An application on TypeORM (over mysql2): entities, relations, transactions, locks, a pool. See ../README.md.
const { DataSource, EntitySchema, Like } = require("typeorm");
const { given, pause, place, shown } = require("./told");

const Customer = new EntitySchema({
  name: "customer",
  columns: { id: { type: Number, primary: true, generated: true }, name: { type: String, length: 80, unique: true }, joined: { type: "datetime", precision: 3 } },
  relations: { orders: { type: "one-to-many", target: "order", inverseSide: "customer", cascade: true } },
});
const Order = new EntitySchema({
  name: "order",
  tableName: "orders",
  columns: { id: { type: Number, primary: true, generated: true }, total: { type: "decimal", precision: 10, scale: 2 }, note: { type: "json" }, paid: { type: "boolean", default: false } },
  relations: { customer: { type: "many-to-one", target: "customer", inverseSide: "orders", onDelete: "CASCADE" } },
});

async function tables(source) {
  await source.synchronize(true);
  return (await source.query("SELECT table_name AS name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ('customer', 'orders') ORDER BY 1")).map((row) => row.name);
}

async function saved(source) {
  const customers = [0, 1, 2].map((n) => ({ name: `müller ${n} 😀`, joined: new Date(2024, 1, 29, 12, n, 0, 250), orders: [0, 1].map((k) => ({ total: `${n}.${k}5`, note: { k, é: null } })) }));
  return (await source.getRepository("customer").save(customers)).map((one) => [one.id, one.name, one.orders.map((order) => order.id)]);
}

async function read(source) {
  const found = await source.getRepository("customer").find({ where: { name: Like("%1%") }, relations: { orders: true }, order: { id: "ASC", orders: { id: "ASC" } } });
  const sums = await source.getRepository("order").createQueryBuilder("o").select("o.customerId", "customer").addSelect("SUM(o.total)", "sum").groupBy("o.customerId").orderBy("o.customerId").getRawMany();
  return [found, sums, await source.getRepository("order").findAndCount({ take: 2, skip: 1, order: { id: "ASC" } })];
}

async function undone(source) {
  const outcome = await source.transaction(async (manager) => {
    await manager.save("customer", { name: "new", joined: new Date(2024, 0, 1) });
    await manager.save("customer", { name: "müller 1 😀", joined: new Date(2024, 0, 1) });
  }).catch((error) => `${error.constructor.name} ${error.code} ${error.message}`);
  return [outcome, await source.getRepository("customer").count()];
}

async function changed(source) {
  const orders = source.getRepository("order");
  const updated = await orders.update({ customer: { id: 1 } }, { paid: true });
  await orders.upsert({ id: 1, total: "9.99", note: {} }, ["id"]);
  return [updated.affected, await orders.findOneBy({ id: 1 }), (await orders.delete({ paid: true })).affected];
}

async function written(source) {
  for (let n = 0; n < 20; n++) {
    await source.transaction("SERIALIZABLE", async (manager) => {
      const one = await manager.findOne("order", { where: { id: 3 }, lock: { mode: "pessimistic_write" } });
      await pause(20);
      await manager.update("order", { id: 3 }, { total: String(Number(one.total) + 1) });
    });
  }
  return source.getRepository("order").findOneBy({ id: 3 });
}

async function main() {
  const { host, port, user, password, database, ssl } = place;
  const source = new DataSource({ type: "mysql", host, port, username: user, password, database, ssl, entities: [Customer, Order], charset: "utf8mb4", poolSize: 3 });
  await source.initialize();
  const until = Date.now() + 1000 * Number(given("SECONDS"));
  do {
    for (const one of [tables, saved, read, undone, changed, written]) {
      console.log(`${one.name}: ${shown(await one(source).catch((error) => `error ${error.errno} ${error.message}`))}`);
    }
  } while (Date.now() < until);
  await source.destroy();
}

main();
