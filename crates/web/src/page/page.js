// The page at `GET /`: what /v1/live, /v1/samples and the journal tell, as a document, and the orders of an operator.
//
// Whatever a server, a client or a journal says becomes the text of a node or the value of an attribute that cannot run (`make`), never HTML.
// The key is in this file's memory, in sessionStorage where the reader wishes it, and in the header X-Api-Key: never in an address.
'use strict';

const HOUR_MS = 3600_000, FINE_MS = 300_000, COARSE_MS = 10_000; // samples older than FINE_MS are kept COARSE_MS apart
const STALE_MS = 5_000; // a state comes each second, and the manager's view is believed for so long (VIEW_AGE_MAX)
const SILENT_MS = 15_000; // a connection that has said nothing for so long is made again
const DAY_MS = 86_400_000, JOURNAL_STEP = 50, CHANGES = 5;

let key = sessionStorage.getItem('key'), role = null, id = null; // id: the cluster's number in the API's paths
let status = null, heardAt = 0, triedAt = 0, stream = null, retryMs = 1000, isWhole = false; // isWhole: samples from before this connection were asked for
let changes = [], areChangesOld = true; // of the writer, the newest first
let journal = [], journalShown = JOURNAL_STEP, journalAsked = '';
const series = new Map(); // node -> [{ at, up, questions, writes, behind, latency }]

// ---- elements

const $ = (name) => document.getElementById(name);
const SVG = 'http://www.w3.org/2000/svg';

/** An element; `children` that are not elements become text. What has no value is left out. */
function make(name, attributes = {}, ...children) {
  const is = ['svg', 'path', 'line', 'rect'].includes(name);
  const element = is ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) element.setAttribute(attribute, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** Makes `old` like `now` and keeps what is the same, so that focus, selection and a screen reader's place stay. */
function morph(old, now) {
  if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName) return old.replaceWith(now);
  if (old.nodeType === Node.TEXT_NODE) { if (old.data !== now.data) old.data = now.data; return; }
  for (const { name } of [...old.attributes]) if (!now.hasAttribute(name) && name !== 'open') old.removeAttribute(name);
  for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  fill(old, [...now.childNodes]);
}
function fill(parent, children) {
  const old = [...parent.childNodes];
  children = children.flat().filter(Boolean).map((child) => (child instanceof Node ? child : document.createTextNode(child)));
  children.forEach((child, at) => (old[at] ? morph(old[at], child) : parent.append(child)));
  old.slice(children.length).forEach((child) => child.remove());
}
const show = (name, ...children) => fill($(name), children);

// ---- words

const figure = (value) => (value === undefined || value === null ? '–' : String(value));
function span(ms) {
  const s = ms / 1000;
  if (s < 1) return `${s.toFixed(3)} s`;
  if (s < 120) return `${s.toFixed(s < 60 ? 1 : 0)} s`;
  const parts = [[Math.floor(s / 86400), 'd'], [Math.floor(s / 3600) % 24, 'h'], [Math.floor(s / 60) % 60, 'min'], [Math.floor(s) % 60, 's']];
  const first = parts.findIndex(([count]) => count > 0);
  return parts.slice(first, first + 2).map(([count, unit]) => `${count} ${unit}`).join(' ');
}
const moment = (ms) => new Date(ms).toISOString().replace('T', ' ').slice(0, 19);
const rate = (value) => (value === undefined || value === null ? '–' : value < 10 && !Number.isInteger(value) ? value.toFixed(1) : Math.round(value).toLocaleString('en'));
/** Milliseconds since 1970 by the server's clock, when it told its last state: this machine's may be another. */
const clock = () => status.started_unix_ms + status.now_ms;
const isReplication = () => status.kind === 'replication';
const lost = (node) => ['dead', 'silent'].includes(node.state) || !node.linked;
function roleOf(node) {
  if (status.writers === 'all') return 'takes writes';
  return node.writer ? (isReplication() ? 'primary' : 'writer') : isReplication() ? 'replica' : 'standby';
}
function behind(node) {
  if (lost(node)) return 'unknown';
  if (!isReplication()) return figure(node.facts?.recv_queue);
  return node.reads?.age_ms === null || node.reads?.age_ms === undefined ? '–' : node.reads.age_ms < 1000 ? '< 1 s' : span(node.reads.age_ms);
}

// ---- the API

async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: { 'X-Api-Key': key }, cache: 'no-store', credentials: 'omit', redirect: 'error' });
  if (answer.status === 401) throw Object.assign(new Error((await answer.json()).message), { isKey: true });
  return answer;
}
async function data(path, options) {
  const answer = await (await ask(path, options)).json();
  if (!answer.success) throw new Error(answer.message);
  return options?.method ? answer : answer.data;
}

/** Reads the events until the stream ends; `told(name, data)` gets each. */
async function events(signal, told) {
  const answer = await ask('/v1/live', { signal });
  if (!answer.ok) throw new Error((await answer.json()).message);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ''; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split('\n\n');
    rest = parts.pop();
    for (const part of parts) {
      const [, name, text] = /^event: (\w+)\ndata: (.*)$/s.exec(part) ?? [];
      if (name) told(name, JSON.parse(text));
    }
  }
}

/** Connects, and connects again after an end, for as long as the page is visible and has a key. */
async function live() {
  if (stream || !key || document.hidden) return;
  const mine = (stream = new AbortController());
  triedAt = Date.now();
  try {
    role = (await data('/v1/key', { signal: mine.signal })).role;
    [heardAt, isWhole] = [Date.now(), false];
    await events(mine.signal, heard);
    throw new Error('Understudy has ended the stream');
  } catch (error) {
    if (stream !== mine) return;
    stream = null;
    if (error.isKey) return forget(error.message);
    link(`No connection: ${error.message}. Trying again.`, true);
    setTimeout(live, retryMs);
    retryMs = Math.min(retryMs * 2, 10_000);
  }
}
function hangUp() { const old = stream; stream = null; old?.abort(); }

function heard(name, said) {
  heardAt = Date.now();
  retryMs = 1000;
  if (name === 'sample') return keep(said.node, said.sample);
  if (name !== 'status') return;
  const isFirst = status === null;
  [status, id] = [said, said.id];
  if (isFirst) { $('login').hidden = true; $('forget').hidden = $('cluster').hidden = false; }
  if (!isWhole) loadSamples();
  const last = said.decisions.at(-1);
  if (`${last?.at_unix_ms} ${last?.text}` !== journalAsked) loadJournal(`${last?.at_unix_ms} ${last?.text}`, last?.text);
  link('Live', false);
  draw();
}

async function loadSamples() {
  isWhole = true;
  const now = clock(), asked = [`since=${now - HOUR_MS}&every_ms=${COARSE_MS}`, `since=${now - FINE_MS}`];
  const answers = await Promise.all(asked.map((query) => data(`/v1/samples?${query}`))).catch(() => { isWhole = false; });
  for (const { node, samples: coarse } of answers?.[0].nodes ?? []) {
    const fine = answers[1].nodes.find((other) => other.node === node)?.samples ?? [], newer = (series.get(node) ?? []).filter(({ at }) => at > now);
    const before = (samples, next) => samples.filter(({ at_unix_ms }) => !(at_unix_ms >= next));
    series.set(node, []);
    before([...before(coarse, fine[0]?.at_unix_ms), ...fine], newer[0]?.at).forEach((sample) => keep(node, sample));
    series.get(node).push(...newer);
  }
}
async function loadJournal(asked, newest) {
  journalAsked = asked;
  const week = clock() - 7 * DAY_MS, again = () => { journalAsked = ''; };
  const said = await data(`/api/cluster/${id}/journal?after=${journal.at(-1)?.at_unix_ms ?? week}`).catch(again) ?? [];
  journal.push(...said.filter((entry) => entry.at_unix_ms > (journal.at(-1)?.at_unix_ms ?? 0)));
  areChangesOld ||= said.length > 0;
  const known = areChangesOld && await data(`/api/cluster/${id}/changes?after=${week}`).catch(again);
  // What was asked for since then is newer.
  if (known && asked === journalAsked) [changes, areChangesOld] = [known.reverse(), false];
  // The decision is on disk a little later than it is in the state.
  if (newest && !journal.slice(-JOURNAL_STEP).some(({ text }) => text === newest)) journalAsked = '';
  drawJournal();
}

// ---- what is drawn

function link(text, isBad) {
  show('link', text);
  $('link').className = isBad ? 'bad' : 'good';
  document.body.classList.toggle('stale', isBad);
}

function draw() {
  document.title = `${status.cluster}: ${status.gate === 'open' ? (status.writer ?? 'open') : 'held'} – Understudy`;
  show('title', `${status.cluster} (${status.id})`);
  show('role', role === 'reader' ? 'This key only reads.' : '');
  if (status.view_age_ms > STALE_MS) link(`The manager has said nothing for ${span(status.view_age_ms)}: what stands here is old`, true);
  drawNow();
  show('nodes', status.nodes.map(nodeCard));
  drawSessions();
  drawCharts();
}

function drawNow() {
  const one = status.writers === 'one', isOpen = status.gate === 'open', { hold } = status.proxy;
  const who = one ? (status.writer ? `${status.writer} writes` : 'Nobody writes') : 'All nodes take writes';
  show('headline', make('span', { class: isOpen ? 'good' : 'bad' }, `${who}. ${isOpen ? 'Statements flow.' : `Statements wait: ${status.hold_because ?? 'no lane is open'}`}`));
  const changed = status.writer_changed_ms;
  const at = changed === null || changed === undefined ? journalWriterSince() : status.started_unix_ms + changed;
  const since = at === null ? 'Since before the journal begins' : `Since ${moment(at)} UTC, for ${span(clock() - at)}`;
  const errors = status.proxy.errors.filter(({ count }) => count > 0).map(({ code, name, count }) => `${code} ${name} × ${count}`).join(', ');
  show('now',
    one && make('p', {}, `${since}, term ${status.term}${status.candidate ? `; the next would be ${status.candidate}` : ''}`),
    status.order && make('p', { class: 'warn' }, `Under way: ${status.order}`),
    make('p', {}, `${hold.waiting} statements wait in the hold queue; ${hold.held} were held since the start (${hold.resumed} resumed, ${hold.expired} expired, ${hold.evicted} evicted, ${hold.gone} left), at most ${hold.waiting_max} at once`),
    make('p', {}, `Errors given to clients: ${errors || 'none'}`),
    status.flow_control && make('p', { class: 'warn' }, status.flow_control),
    ...(status.recovery?.notes ?? []).map((note) => make('p', { class: 'dim' }, note)));
}

function nodeCard(node) {
  const lane = status.proxy.lanes.find((other) => other.node === node.name) ?? {};
  const standby = status.warm?.standbys.find((other) => other.node === node.name);
  const capacity = status.capacity.find((other) => other.node === node.name);
  const is = lost(node) ? 'bad' : node.problem || node.doubt || node.others ? 'warn' : 'good';
  const isDrained = node.sessions_max === 0;
  const word = isReplication() && node.state === 'synced' ? 'running' : node.state;
  const rows = [
    ['Why', `${node.reason}${lost(node) && node.answered_ms_ago !== null ? `; last answered ${span(node.answered_ms_ago)} ago` : ''}`],
    ['Lane', `${node.lane}, ${figure(lane.sessions)} sessions, ${figure(lane.running)} running${node.sessions_max === null ? '' : `, limit ${node.sessions_max}`}`],
    [isReplication() ? 'Behind' : 'Queue', node.writer && isReplication() ? undefined : behind(node)],
    ['A second', node.rates && !lost(node) && `${rate(node.rates.questions)} queries, ${rate(node.rates.writes)} writes, ${rate(node.rates.applied)} applied`],
    ['Reads', node.reads?.lane && `${node.reads.lane}${node.reads.why ? `: ${node.reads.why}` : ''}`],
    ['Stuck', node.stuck && `has not committed for ${span(node.stuck.ms)}`],
    ['Warmth', standby && (standby.warmth?.sentence ?? standby.why ?? standby.state)],
    ['Window', node.recovery?.sentence],
    ['Capacity', capacity?.sentence],
    ['Advice', node.advice.length > 0 && node.advice.join('; ')],
  ].filter(([, text]) => text);
  const button = (order, text) => make('button', { type: 'button', 'data-order': order, 'data-node': node.name, 'aria-label': `${text}: ${node.name}` }, text);
  return make('li', { class: `card is-${is}` },
    make('div', { class: 'head' }, make('h3', {}, node.name), make('span', { class: `tag ${is}` }, `${roleOf(node)}, ${word}`)),
    make('p', { class: 'dim' }, `${node.address}, so for ${span(node.since_ms)}`),
    make('dl', {}, rows.flatMap(([name, text]) => [make('dt', {}, name), make('dd', {}, text)])),
    role === 'operator' && make('p', { class: 'buttons' },
      status.writers === 'one' && !node.writer && !isDrained && button('switchover', isReplication() ? 'Make primary' : 'Make writer'),
      isDrained ? button('undrain', 'Undrain') : button('drain', 'Drain')));
}

function drawSessions() {
  const { proxy } = status, sessions = proxy.sessions ?? [];
  show('sessions',
    make('p', {}, `${proxy.clients} clients now, ${proxy.clients_total} since the start; ${proxy.sessions_moved} times a session was moved; ${proxy.sessions_pinned} cannot move now; ${proxy.statements_again} statements were sent again`),
    sessions.length === 0 ? make('p', { class: 'dim' }, 'None is held, has a transaction open, or cannot move.')
      : make('ul', { class: 'rows card' }, sessions.map((session) => make('li', {},
        make('b', {}, `${session.user} from ${session.client}`), ` on ${session.node || 'no node yet'}: ${session.what}`,
        session.ties && make('span', { class: 'warn' }, `; cannot move: ${session.ties}`),
        make('span', { class: 'dim' }, ` (session ${session.id}, connected for ${span(session.connected_s * 1000)}${session.what.startsWith('idle') ? '' : `; if it is cut, ${session.cost}`})`)))));
}

// ---- traffic

function keep(node, { at_unix_ms: at, at_us, uptime_s, questions, inserts, updates, deletes, threads_running, galera, replication }) {
  const all = series.get(node) ?? [];
  series.set(node, all);
  const written = [inserts, updates, deletes].includes(null) ? null : inserts + updates + deletes;
  all.push({ at, us: at_us, up: uptime_s, questions, written, running: threads_running, behind: galera ? galera.recv_queue : replication?.lag_s, latency: galera?.latency_us });
  const old = all.findIndex((sample) => sample.at > at - FINE_MS);
  if (old > 1 && all[old - 1].at - all[old - 2].at < COARSE_MS) all.splice(old - 1, 1);
  while (all.length && all[0].at < at - HOUR_MS - COARSE_MS) all.shift();
}

/** Growth a second between two samples of one run of the server; null where that is not known. */
function growth(field) {
  return (sample, before) => {
    if (!before || sample[field] === null || before[field] === null || sample.up < before.up || sample[field] < before[field]) return null;
    return ((sample[field] - before[field]) * 1e6) / (sample.us - before.us);
  };
}
const gauge = (field, factor = 1) => (sample) => (sample[field] === null || sample[field] === undefined ? null : sample[field] * factor);

function drawCharts() {
  const kinds = [['Queries a second', growth('questions')], ['Writes a second', growth('written')], ['Statements running', gauge('running')]];
  if (isReplication()) kinds.push(['Seconds behind', gauge('behind')]);
  else kinds.push(['Write sets queued', gauge('behind')], ['Replication latency, ms', gauge('latency', 1e-3)]);
  show('charts', kinds.map(([title, value]) => chart(title, value)));
}

function chart(title, value) {
  const range = Number(document.querySelector('[name="range"]:checked').value) * 1000;
  const now = clock(), first = Math.min(now - 60_000, ...[...series.values()].map((all) => all[0]?.at ?? now));
  const from = Math.max(now - range, first), width = now - from;
  const lines = status.nodes.map(({ name }) => {
    // An hour of every second would be a blot.
    const all = (series.get(name) ?? []).filter(((last) => (sample) => range <= FINE_MS || sample.at - last >= COARSE_MS ? ((last = sample.at), true) : false)(0));
    return { name, points: all.map((sample, at) => ({ at: sample.at, value: value(sample, all[at - 1]) })).filter(({ at }) => at >= from) };
  });
  const top = Math.max(1, ...lines.flatMap(({ points }) => points.map((point) => point.value ?? 0)));
  const path = (points) => {
    let before = null, text = '';
    for (const { at, value } of points) {
      if (value === null) { before = null; continue; }
      text += `${before && at - before < 3 * COARSE_MS ? 'L' : 'M'}${(((at - from) / width) * 600).toFixed(1)} ${(100 - (value / top) * 96).toFixed(1)}`;
      before = at;
    }
    return text;
  };
  const last = (name) => {
    const [before, sample] = (series.get(name) ?? []).slice(-2);
    return sample && sample.at > now - STALE_MS ? rate(value(sample, before)) : '–';
  };
  const said = lines.map(({ name }) => `${name} ${last(name)}`).join(', ');
  return make('div', { class: 'card chart' }, make('h3', {}, title),
    make('div', { class: 'axis' }, make('span', {}, `at most ${rate(top)}`)),
    make('svg', { viewBox: '0 0 600 100', preserveAspectRatio: 'none', role: 'img', 'aria-label': `${title}: now ${said}; at most ${rate(top)}` },
      changes.map(({ ended_unix_ms: ended }) => ended > from && make('line', { class: 'changed', x1: ((ended - from) / width) * 600, x2: ((ended - from) / width) * 600, y1: 0, y2: 100 })),
      lines.map(({ points }, at) => make('path', { class: `s${at % 6}`, d: path(points) }))),
    make('div', { class: 'axis' }, make('span', {}, `${span(width)} ago`), make('span', {}, 'now')),
    make('div', { class: 'legend' }, lines.map(({ name }, at) => make('span', {},
      make('svg', { viewBox: '0 0 20 6', 'aria-hidden': 'true' }, make('line', { class: `s${at % 6}`, x1: 0, x2: 20, y1: 3, y2: 3, 'stroke-width': 2 })), `${name} ${last(name)}`))));
}

// ---- journal

/** Since when the present writer is the writer, by the journal: what earlier runs of the program have decided is there, too. */
function journalWriterSince() {
  const all = changes.filter(({ end }) => end === 'writes'), other = all.findIndex(({ to }) => to !== status.writer);
  return (other < 0 ? all : all.slice(0, other)).at(-1)?.ended_unix_ms ?? null;
}

function drawChanges() {
  const all = changes.slice(0, CHANGES);
  if (all.length === 0) return show('changes', make('p', {}, 'The journal of the last seven days has none.'));
  show('changes', make('ul', { class: 'changes' }, all.map((change) => {
    const { from, to, decided_unix_ms: decided, ended_unix_ms: ended, seen, done, clients } = change, steps = [...seen, ...done];
    const first = steps[0].at_unix_ms, whole = Math.max(1, steps.at(-1).at_unix_ms - first), what = change.change ?? 'outage';
    const took = ended === null ? 'not ended' : change.end === 'undone' ? `undone after ${span(ended - decided)}` : `${to} wrote ${span(ended - decided)} after the decision`;
    const errors = clients?.errors.map(([code, count]) => `${code} × ${count}`).join(', ');
    return make('li', { class: 'card' }, make('h3', {}, `${moment(decided)} UTC: ${what}${from && to && from !== to ? ` from ${from} to ${to}` : ''}: ${took}`),
      make('ol', { class: 'steps' }, steps.map((step, at) => {
        const since = step.at_unix_ms, until = steps[at + 1]?.at_unix_ms ?? since;
        const offset = since - decided;
        return make('li', {}, make('span', { class: 'mono' }, `${offset < 0 ? '−' : '+'}${(Math.abs(offset) / 1000).toFixed(3)} s`),
          make('svg', { viewBox: '0 0 100 10', preserveAspectRatio: 'none', role: 'img', 'aria-label': `${span(until - since)} until the next` },
            make('rect', { x: ((since - first) / whole) * 98, y: 2, width: Math.max(1, ((until - since) / whole) * 98), height: 6 })),
          make('span', { class: step.level === 'info' ? null : step.level === 'warn' ? 'warn' : 'bad' }, step.text));
      })),
      clients && make('p', { class: 'dim' }, `Clients: ${clients.held} statements waited${clients.held_at_most_ms === null ? '' : `, those that went on at most ${span(clients.held_at_most_ms)}`}; errors: ${errors || 'none'}`));
  })));
}

function drawJournal() {
  const wanted = $('filter').value.toLowerCase();
  const fitting = journal.filter(({ text, level }) => `${level} ${text}`.toLowerCase().includes(wanted));
  show('journal', fitting.slice(-journalShown).reverse().map(({ at_unix_ms, level, text }) => make('li', {},
    make('time', { class: 'mono dim', datetime: new Date(at_unix_ms).toISOString() }, moment(at_unix_ms)),
    make('span', { class: level === 'info' ? 'dim' : level === 'warn' ? 'warn' : 'bad' }, level), make('span', {}, text))));
  $('more').hidden = fitting.length <= journalShown;
  drawChanges();
}

// ---- orders

const TITLES = {
  switchover: (node) => `Make ${node} the ${isReplication() ? 'primary' : 'writer'}?`,
  drain: (node) => `Drain ${node}?`,
  undrain: (node) => `Let ${node} take sessions again?`,
};
let asked = null; // the order in the open dialog

async function question(order, node) {
  const moves = order === 'switchover' || (order === 'drain' && status.nodes.some((other) => other.name === node && other.writer));
  const mine = (asked = { order, node, from: status.writer });
  show('ask-title', TITLES[order](node));
  show('ask-text', make('p', {}, moves ? 'Looking at what could make it fail, or slow …' : order === 'drain' ? `New sessions go to other nodes. Those on ${node} leave at their next boundary.` : `${node} is given sessions like the others.`));
  show('yes', { switchover: `Switch over to ${node}`, drain: `Drain ${node}`, undrain: `Undrain ${node}` }[order]);
  for (const name of ['force', 'cold']) $(name).checked = false;
  $('budget').value = '';
  $('force').parentElement.hidden = $('budget').hidden = document.querySelector('[for="budget"]').hidden = order === 'undrain';
  $('ask-cold').hidden = true;
  $('yes').disabled = moves;
  $('ask').showModal();
  if (!moves) return;
  const to = order === 'switchover' ? `?to=${encodeURIComponent(node)}` : '';
  const said = await data(`/api/cluster/${id}/preflight${to}`).catch((error) => ({ rows: [], error: error.message }));
  if (asked !== mine) return;
  const grave = ['fails', 'slow', 'note'], rows = said.rows.filter(({ verdict }) => grave.includes(verdict)).sort((a, b) => grave.indexOf(a.verdict) - grave.indexOf(b.verdict));
  const line = (row) => make('li', {}, make('b', { class: { fails: 'bad', slow: 'warn' }[row.verdict] }, row.verdict), ` ${row.check}: ${row.node} ${row.sentence}${row.remedy ? `; ${row.remedy}` : ''}`);
  fill($('ask-text'), [
    make('p', { class: said.error || said.fails ? 'bad' : 'good' }, said.error ?? `${said.from ?? 'Nobody'} hands over to ${said.to ?? 'nobody'}: ${said.fails ? 'checks fail' : 'it can be tried'}.`),
    make('ul', { class: 'rows' }, rows.map(line)),
    make('details', {}, make('summary', {}, `${said.rows.length - rows.length} checks are well`), make('ul', { class: 'rows' }, said.rows.filter((row) => !rows.includes(row)).map(line))),
  ]);
  $('ask-cold').hidden = order !== 'switchover' || !said.rows.some(({ check, verdict }) => check === 'warm' && verdict === 'fails');
  asked.fails = order === 'switchover' && Boolean(said.error || said.fails);
  allow();
}
const allow = () => { $('yes').disabled = Boolean(asked?.fails) && !$('force').checked && !$('cold').checked; };

async function give({ order, node, from }) {
  const body = order === 'undrain' ? {} : { force: $('force').checked || undefined, budget_ms: $('budget').value === '' ? undefined : Number($('budget').value) };
  if (order === 'switchover') Object.assign(body, { to: node, from: from ?? undefined, cold: $('cold').checked || undefined });
  const path = `/api/cluster/${id}/${order === 'switchover' ? order : `node/${encodeURIComponent(node)}/${order}`}`;
  show('result', make('p', {}, `${order} ${node}: ordered, waiting for its end`));
  const undo = order === 'switchover' ? from && { order, node: from } : { order: order === 'drain' ? 'undrain' : 'drain', node };
  try {
    const { message, data: done } = await data(path, { method: 'PUT', body: JSON.stringify(body) });
    show('result', make('p', { class: 'good' }, message),
      undo && done.changed && make('button', { type: 'button', 'data-order': undo.order, 'data-node': undo.node }, `Undo: ${undo.order} ${undo.node}`));
  } catch (error) {
    show('result', make('p', { class: 'bad' }, `Refused: ${error.message}`));
  }
}

// ---- what the reader does

function forget(why = '') {
  hangUp();
  sessionStorage.removeItem('key');
  [key, status, role, journal, changes, areChangesOld, journalAsked] = [null, null, null, [], [], true, ''];
  series.clear();
  $('cluster').hidden = $('forget').hidden = true;
  $('login').hidden = false;
  $('key').value = '';
  link('No key.', true);
  show('role'); show('result'); show('refused', why);
  $('key').focus();
}
$('login').addEventListener('submit', (event) => {
  event.preventDefault();
  key = $('key').value.trim();
  $('key').value = '';
  if ($('keep').checked) sessionStorage.setItem('key', key);
  show('refused');
  link('Connecting', false);
  live();
});
$('forget').addEventListener('click', () => forget());
$('filter').addEventListener('input', drawJournal);
$('more').addEventListener('click', () => { journalShown += JOURNAL_STEP * 4; drawJournal(); });
$('range').addEventListener('change', drawCharts);
$('force').addEventListener('change', allow);
$('cold').addEventListener('change', allow);
$('ask').addEventListener('close', () => {
  const order = asked;
  asked = null;
  if ($('ask').returnValue === 'yes' && order) give(order);
  $('ask').returnValue = '';
});
$('main').addEventListener('click', ({ target }) => {
  const button = target.closest('[data-order]');
  if (button && status) question(button.dataset.order, button.dataset.node);
});
// A browser keeps few connections to one server for all its pages: a page that nobody sees gives its own back.
document.addEventListener('visibilitychange', () => { if (document.hidden) hangUp(); else live(); });
setInterval(() => {
  const silent = Date.now() - heardAt;
  if (stream && status && silent > STALE_MS) link(`No news for ${span(silent)}: what stands here is old`, true);
  if (stream && Date.now() - Math.max(heardAt, triedAt) > SILENT_MS) { hangUp(); live(); }
}, 1000);
if (key) live();
