// The page in a real browser, before a real primary with two replicas: logged in with each key, a failover and orders while it is open, hostile
// names and texts, the program stopped and started, and axe's rules, in light and dark and at 360 px.
//
// usage: node page.test.js UNDERSTUDY [PICTURES]   the program, with understudy-lab beside it; a directory for pictures of what was seen
'use strict';
const { execFileSync, spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const assert = require('node:assert/strict');
const { chromium } = require('playwright-core');

const [program, pictures] = process.argv.slice(2).map((name) => path.resolve(name));
const stage = `page-${process.pid}`;
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'understudy-page-'));
const LONG_MS = 60_000;
const children = [];

const say = (text) => console.log(`${new Date().toISOString().slice(11, 23)}  ${text}`);
const run = (...args) => execFileSync(program, args, { cwd: dir, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: 5 * LONG_MS });
const lab = (...args) => run('lab', ...args, '--name', stage);

/** A child of this test, which ends with it. */
function start(command, args, log) {
  const out = fs.openSync(path.join(dir, log), 'a');
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', command, ...args], { cwd: dir, stdio: ['pipe', out, out] });
  children.push(child);
  return child;
}
const ended = (child) => new Promise((resolve) => (child.exitCode !== null || child.signalCode !== null ? resolve() : child.once('exit', resolve)));

async function until(what, is) {
  for (const end = Date.now() + LONG_MS; ;) {
    const value = await Promise.resolve().then(is).catch((error) => { if (Date.now() > end) throw error; return false; });
    if (value) return value;
    assert.ok(Date.now() < end, `not within ${LONG_MS / 1000} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** The cluster, and a configuration for it. Returns the page's address and the nodes' sockets. */
function prepare() {
  lab('up', 'replication', '--semi-sync');
  const { host_address: host, nodes } = JSON.parse(lab('status', '--json'));
  fs.writeFileSync(path.join(dir, 'read.key'), 'a-key-that-only-reads\n', { mode: 0o600 });
  const node = ({ name, address }) => `[[cluster.node]]\nname = "${name}"\naddress = "${address}"\n`;
  fs.writeFileSync(path.join(dir, 'understudy.toml'), `[cluster]\nname = "shop"\nid = 5\nkind = "replication"\n${nodes.map(node).join('')}`
    + '[cluster.monitor]\nuser = "understudy"\npassword = "understudy"\n[cluster.replication]\nuser = "replication"\npassword = "replication"\n'
    + `[listen]\nmysql = "${host}:6033"\nhttp = "${host}:6080"\n[state]\ndir = "state"\n[api]\nread_key_file = "read.key"\n`, { mode: 0o600 });
  return { host, url: `http://${host}:6080/`, socket: (name) => path.join(path.dirname(nodes.find((other) => other.name === name).error_log), 'mysqld.sock') };
}

async function serve(url) {
  const child = start(program, ['serve'], 'log');
  await until('it serves', async () => (await fetch(`${url}healthz`)).ok);
  return child;
}

const HOSTILE = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>\'"&`';

/** A session that has a transaction open, and a temporary table. */
function session({ host }, user, password) {
  start('mariadb', ['-h', host, '-P', '6033', '-u', user, `-p${password}`, 'sbtest'], 'session').stdin.write('CREATE TEMPORARY TABLE found (id INT);\nBEGIN;\nSELECT 1;\n');
}

/** The same of a user with a hostile name, which has at most 80 characters. */
function hostile(cluster, writer) {
  const user = HOSTILE.replace(/<script>.*/, ''), quoted = `\`${user}\`@'%'`;
  execFileSync('mariadb', ['-u', 'root', '-S', cluster.socket(writer), '-e', `CREATE USER ${quoted} IDENTIFIED BY 'x'; GRANT ALL ON sbtest.* TO ${quoted}`]);
  session(cluster, user, 'x');
  return user;
}

// ---- the browser

const asked = []; // every address that the browser asked for
const complaints = []; // what its console said

async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: 'light', ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(LONG_MS);
  page.on('request', (request) => asked.push(request.url()));
  page.on('pageerror', (error) => complaints.push(`error: ${error.stack}`));
  page.on('console', (message) => { if (!/status of 40[13]|ERR_|Failed to load resource/.test(message.text())) complaints.push(message.text()); });
  await page.goto(url);
  return page;
}
async function login(page, key) {
  await page.fill('#key', key);
  await page.keyboard.press('Enter');
}
const text = (page, selector) => page.locator(selector).first().innerText();
const shows = (page, selector, wanted) => until(`${selector} shows ${wanted}`, async () => wanted.test(await text(page, selector)));

/** axe's rules for WCAG 2.2 A and AA, and its best practices. It is run in a world of its own, as the page's policy lets no other script in. */
async function axe(page, what) {
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send('Page.getFrameTree');
  const { executionContextId } = await session.send('Page.createIsolatedWorld', { frameId: frameTree.frame.id });
  const source = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
  await session.send('Runtime.evaluate', { expression: source, contextId: executionContextId });
  const { result } = await session.send('Runtime.evaluate', {
    expression: 'axe.run().then(({ violations, passes }) => JSON.stringify({ passes: passes.length, violations: violations.map(({ id, nodes }) => [id, nodes.map(({ html, failureSummary }) => html + " " + failureSummary)]) }))',
    contextId: executionContextId, awaitPromise: true, returnByValue: true,
  });
  const { passes, violations } = JSON.parse(result.value);
  assert.deepEqual(violations, [], `${what}: ${JSON.stringify(violations, null, 1)}`);
  assert.ok(passes > 15, `${what}: only ${passes} rules had something to look at`);
  say(`axe, ${what}: ${passes} rules pass, none is violated`);
}

async function picture(page, name, options = {}) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.ok(wide <= 0, `${name}: wider than its window by ${wide} px`);
  if (pictures) await page.screenshot({ path: path.join(pictures, `${name}.png`), ...options });
}

async function keys(page, url, right) {
  await axe(page, 'the question for the key');
  await login(page, 'wrong');
  await shows(page, '#refused', /the API key is not right/);
  assert.equal(await page.locator('#cluster').isVisible(), false);
  await login(page, right);
  await shows(page, '#headline', /db1 writes\. Statements flow\./);
  assert.equal(await page.evaluate(() => JSON.stringify({ ...sessionStorage, ...localStorage })), '{}', 'kept without being asked to');
  const reader = await open(page.context().browser(), url, { viewport: { width: 360, height: 740 } });
  await reader.check('#keep');
  await login(reader, 'a-key-that-only-reads');
  await shows(reader, '#role', /This key only reads/);
  await reader.reload();
  await shows(reader, '#headline', /db1 writes/);
  assert.equal(await reader.locator('[data-order]').count(), 0, 'a reader is offered no orders');
  await reader.click('#forget');
  assert.equal(await reader.evaluate(() => sessionStorage.length), 0);
  await reader.context().close();
  say('both keys, a wrong one, kept and forgotten');
}

/** A drain by keyboard, undone; a switchover that is looked at and cancelled, then given. */
async function orders(page) {
  const drain = page.getByRole('button', { name: 'Drain: db3' });
  await drain.focus();
  await page.keyboard.press('Enter');
  await shows(page, '#ask-title', /Drain db3\?/);
  assert.equal(await page.evaluate(() => document.activeElement.closest('dialog')?.id), 'ask', 'the dialog has the focus');
  await page.locator('#yes').focus();
  await page.keyboard.press('Enter');
  await shows(page, '#result', /db3 is drained/);
  await page.getByRole('button', { name: 'Undo: undrain db3' }).click();
  await page.click('#yes');
  await shows(page, '#result', /db3 takes sessions again/);
  const promote = page.getByRole('button', { name: 'Make primary: db2' });
  await until('db2 can be promoted', async () => {
    await promote.click();
    await shows(page, '#ask-text', /hands over to db2/);
    const can = /can be tried/.test(await text(page, '#ask-text'));
    if (!can) await page.keyboard.press('Escape');
    return can;
  });
  await axe(page, 'the look before a switchover');
  await picture(page, 'page-switchover');
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement.dataset.node), 'db2', 'the focus is where it was');
  assert.match(await text(page, '#headline'), /db1 writes/, 'nothing was ordered');
  await promote.click();
  await until('it was looked before', () => page.locator('#yes').isEnabled());
  await page.click('#yes');
  await shows(page, '#result', /db2 writes, term 2/);
  await shows(page, '#headline', /db2 writes\. Statements flow\./);
  await shows(page, '#changes', /db2 wrote .* after the decision/);
  say(`ordered: ${await text(page, '#result p')}`);
}

/** The primary is killed while the page is open. */
async function failover(page) {
  lab('fault', 'db2', 'kill');
  await shows(page, '#headline', /db[13] writes\. Statements flow\./);
  await shows(page, '#nodes li:nth-child(2)', /dead/);
  await shows(page, '#changes', /db[13] is to write, term 3[\s\S]*db[13] writes, term 3/);
  await shows(page, '#journal', /db2 is dead/);
  await shows(page, '#now', /Since \d{4}-.* UTC, for \d.* s, term 3/);
  say(`seen: ${(await text(page, '#changes li')).replace(/\s+/g, ' ').slice(0, 300)}`);
}

/** Texts of servers and clients are shown, and run nowhere: a user's name, and then every text of the status and the journal. */
async function texts(page, url, key, user) {
  await shows(page, '#sessions', new RegExp(user.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')));
  const real = (await (await fetch(`${url}api/cluster/5/status`, { headers: { 'X-Api-Key': key } })).json()).data;
  const words = ['kind', 'writers', 'gate'];
  const spoil = (value, name) => {
    if (typeof value === 'string') return words.includes(name) ? value : HOSTILE;
    if (Array.isArray(value)) return value.map((one) => spoil(one, name));
    return value && typeof value === 'object' ? Object.fromEntries(Object.entries(value).map(([field, one]) => [field, spoil(one, field)])) : value;
  };
  const other = await open(page.context().browser(), url);
  const entry = (at, kind) => ({ at_unix_ms: Date.now() - at, level: HOSTILE, text: HOSTILE, about: { kind, node: HOSTILE, from: HOSTILE } });
  const journal = [entry(9000, 'chosen'), entry(8000, 'writes')];
  const change = { change: HOSTILE, from: HOSTILE, to: HOSTILE, term: 1, decided_unix_ms: Date.now() - 9000, end: 'writes', ended_unix_ms: Date.now() - 8000, seen: [], done: journal, after: [], clients: { since_unix_ms: 0, connected: 1, held: HOSTILE, held_at_most_ms: null, left: 0, moved: 0, again: 0, errors: [[HOSTILE, HOSTILE]] } };
  const json = (said) => ({ contentType: 'application/json', body: JSON.stringify({ success: true, message: '', data: said }) });
  await other.route('**/v1/live', (route) => route.fulfill({ contentType: 'text/event-stream', body: `event: status\ndata: ${JSON.stringify({ ...spoil(real), order: HOSTILE, hold_because: HOSTILE })}\n\n` }));
  await other.route('**/journal?*', (route) => route.fulfill(json(journal)));
  await other.route('**/changes?*', (route) => route.fulfill(json([change])));
  await other.route('**/preflight*', (route) => route.fulfill(json({ from: HOSTILE, to: HOSTILE, fails: true, rows: [{ check: HOSTILE, node: HOSTILE, verdict: 'fails', sentence: HOSTILE, remedy: HOSTILE }] })));
  await login(other, key);
  const literally = (selector) => until(`${selector} has it as text`, async () => (await text(other, selector)).includes(HOSTILE));
  for (const place of ['#title', '#headline', '#now', '#nodes', '#sessions', '#changes', '#journal']) await literally(place);
  await other.locator('#nodes [data-order]').first().click();
  for (const place of ['#ask-title', '#ask-text', '#yes']) await literally(place);
  assert.equal(await other.evaluate(() => document.querySelectorAll('img, #main script').length), 0);
  assert.equal(await other.evaluate(() => window.hit), undefined);
  await other.context().close();
  say('hostile texts are texts');
}

/** The program stops while the page is open, and comes back: the page says that it is old, and goes on by itself. */
async function restarted(page, url, child) {
  child.kill('SIGTERM');
  await shows(page, '#link', /No connection/);
  await ended(child);
  assert.ok(await page.evaluate(() => document.body.classList.contains('stale')));
  const next = await serve(url);
  await shows(page, '#link', /^Live$/);
  await shows(page, '#headline', /db[13] writes\. Statements flow\./);
  say('stopped, started: the page has gone on by itself');
  return next;
}

async function looks(browser, url, key) {
  const sizes = [['light', 1280, 'light'], ['dark', 1280, 'dark'], ['narrow', 360, 'light']];
  for (const [name, width, colorScheme] of sizes) {
    const page = await open(browser, url, { viewport: { width, height: 900 }, colorScheme });
    await login(page, key);
    await shows(page, '#headline', /writes/);
    await page.check('[name="range"][value="300"]');
    await until('half a minute of curves is there', async () => (await page.locator('.chart path').first().getAttribute('d')).split('L').length > 30);
    await axe(page, name);
    await picture(page, `page-${name}`, { clip: { x: 0, y: 0, width, height: name === 'narrow' ? 1500 : 1450 }, fullPage: true });
    await page.context().close();
  }
}

async function main() {
  const cluster = prepare();
  let child = await serve(cluster.url);
  const key = fs.readFileSync(path.join(dir, 'state', 'api.key'), 'utf8').trim();
  start(program, ['lab', 'load', `${cluster.host}:6033`, '--clients', 'retrying', '--threads', '3', '--rate', '20', '--time', '600'], 'load');
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
  try {
    say(`Chromium ${browser.version()}`);
    const page = await open(browser, cluster.url);
    await keys(page, cluster.url, key);
    await orders(page);
    await failover(page);
    session(cluster, 'sbtest', 'sbtest');
    await shows(page, '#sessions', /sbtest from .*transaction is open.*cannot move: temporary table/);
    await looks(browser, cluster.url, key);
    const writer = (await text(page, '#headline')).split(' ')[0];
    await texts(page, cluster.url, key, hostile(cluster, writer));
    child = await restarted(page, cluster.url, child);
    assert.ok(asked.length > 20 && asked.every((url) => url.startsWith(cluster.url) && !url.includes(key)), asked.join('\n'));
    assert.deepEqual(complaints, []);
    say(`${asked.length} requests, all to Understudy, none with the key in its address; the console said nothing`);
  } finally {
    await browser.close();
  }
}

async function clean() {
  for (const child of children) child.kill('SIGKILL');
  await Promise.all(children.map(ended));
  lab('down');
  fs.rmSync(dir, { recursive: true });
}

main().then(() => say('ok'), (error) => {
  console.error(error);
  console.error(execFileSync('tail', ['-n', '30', path.join(dir, 'log')], { encoding: 'utf8' }));
  process.exitCode = 1;
}).finally(() => clean().catch((error) => { console.error(error); process.exitCode = 1; }));
