// The web console. Everything that comes from the server is put into the page as text: nothing is parsed as HTML.
'use strict';

const $ = id => document.getElementById(id);

// el makes an element with attributes, and children that are elements or texts.
function el(name, attrs, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attrs || {})) {
    if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else if (v !== null && v !== undefined && v !== false) e.setAttribute(k, v);
  }
  e.append(...children.flat().map(c => c instanceof Node ? c : String(c ?? '')));
  return e;
}
function svg(name, attrs, text) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [k, v] of Object.entries(attrs || {})) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return e;
}
// show writes a string of the server, bytes that are no text with escapes.
function show(v) {
  if (v === null || v === undefined) return '(nil)';
  if (Array.isArray(v)) return v.map(show).join(', ');
  if (typeof v === 'object' && 'base64' in v)
    return Array.from(atob(v.base64), c => c >= ' ' && c <= '~' ? c : '\\x' + c.charCodeAt(0).toString(16).padStart(2, '0')).join('');
  if (typeof v === 'object' && 'error' in v) return v.error;
  return String(v);
}
const isError = v => v && typeof v === 'object' && 'error' in v;

async function call(path, body) {
  const r = await fetch('/console/' + path, {
    method: body === undefined ? 'GET' : 'POST', headers: {'X-Basalt-Console': '1', 'Content-Type': 'application/json'},
    body: body === undefined ? undefined : JSON.stringify(body), credentials: 'same-origin',
  });
  const v = await r.json();
  if (r.status === 401 && path !== 'login') signedOut();
  if (!r.ok) throw new Error(v.error || r.statusText);
  return v;
}
const run = (...commands) => call('run', {commands});
const fail = e => { $('error').textContent = e.message; $('error').hidden = false; };

function bytes(n) {
  for (const u of ['B', 'KiB', 'MiB', 'GiB', 'TiB']) {
    if (n < 1024 || u === 'TiB') return (n < 10 && u !== 'B' ? n.toFixed(1) : Math.round(n)) + ' ' + u;
    n /= 1024;
  }
}
const count = n => n >= 1e6 ? (n / 1e6).toFixed(2) + ' M' : n >= 1e4 ? (n / 1e3).toFixed(1) + ' k' : Math.round(n).toString();
const micros = n => n >= 1e6 ? (n / 1e6).toFixed(1) + ' s' : n >= 1000 ? (n / 1000).toFixed(1) + ' ms' : Math.round(n) + ' µs';
const percent = n => (100 * n).toFixed(1) + ' %';

// info reads the text of INFO.
function info(text) {
  const f = {};
  for (const line of show(text).split('\n')) {
    const at = line.indexOf(':');
    if (at > 0 && line[0] !== '#') f[line.slice(0, at)] = line.slice(at + 1).trim();
  }
  return f;
}

// plot draws one or two series over time. A sample without a value is a gap.
function plot(title, list, names, unit, top) {
  const W = 420, H = 130, L = 58, B = 18;
  const s = svg('svg', {viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': title});
  const max = top || Math.max(1e-9, ...list.flatMap(x => names.map(n => x[n]))) * 1.1;
  const from = list.length ? list[0].at : 0, span = Math.max(1, (list.length ? list[list.length - 1].at : 1) - from);
  for (let i = 0; i <= 2; i++) {
    const y = 6 + (H - B - 6) * i / 2;
    s.append(svg('line', {x1: L, x2: W, y1: y, y2: y, class: 'axis'}));
    s.append(svg('text', {x: L - 5, y: y + 4, 'text-anchor': 'end'}, unit(max * (1 - i / 2))));
  }
  names.forEach((n, i) => {
    let path = '', gap = true;
    for (const x of list) {
      if (x[n] !== null) {
        const to = `${(L + (W - L) * (x.at - from) / span).toFixed(1)},${(H - B - (H - B - 6) * Math.min(1, x[n] / max)).toFixed(1)}`;
        path += gap ? `M${to}L${to}` : `L${to}`; // a line to itself shows a lone sample as a dot
      }
      gap = x[n] === null;
    }
    s.append(svg('path', {d: path, class: 'series' + i}));
  });
  if (list.length) {
    const time = ms => new Date(ms).toLocaleTimeString([], {hour: '2-digit', minute: '2-digit', second: '2-digit'});
    s.append(svg('text', {x: L, y: H - 4}, time(from)));
    s.append(svg('text', {x: W, y: H - 4, 'text-anchor': 'end'}, time(list[list.length - 1].at)));
  }
  const last = list.length ? list[list.length - 1] : null;
  const legend = el('span', {class: 'dim'}, ...names.map((n, i) =>
    el('span', {class: 'key' + i}, ' ' + (names.length > 1 ? n + ' ' : '') + (!last ? '' : last[n] === null ? '–' : unit(last[n])))));
  return el('div', {class: 'card'}, el('h2', {}, title, legend), s);
}
const tile = (name, value) => el('div', {class: 'tile'}, el('span', {class: 'dim'}, name), el('b', {}, value));

function table(head, rows, numeric) {
  const cls = i => numeric && numeric.includes(i) ? 'n' : null;
  return el('div', {class: 'scroll'}, el('table', {},
    head.some(h => h) ? el('thead', {}, el('tr', {}, head.map((h, i) => el('th', {class: cls(i)}, h)))) : '',
    el('tbody', {}, rows.map(r => el('tr', {}, r.map((c, i) => el('td', {class: cls(i)}, c)))))));
}
// whole is a name that is not broken into lines.
const whole = text => el('span', {class: 'whole'}, text);
const card = (title, ...children) => el('div', {class: 'card'}, el('h2', {}, title), ...children);

let writes = false, timer = 0, tab = '', draws = 0;

const pages = {
  async Overview() {
    const [history, replies] = await Promise.all([call('history'), run(['INFO'])]);
    if (isError(replies[0])) throw new Error(replies[0].error);
    const f = info(replies[0]);
    const hit = (+f.keyspace_hits) / Math.max(1, (+f.keyspace_hits) + (+f.keyspace_misses));
    const ratio = (hit, miss) => (+hit) + (+miss) > 0 ? percent(+hit / ((+hit) + (+miss))) : '–';
    const keys = Object.entries(f).filter(([k]) => /^db\d+$/.test(k)).map(([, v]) => +(v.match(/keys=(\d+)/) || [0, 0])[1]).reduce((a, b) => a + b, 0);
    return [el('div', {class: 'tiles'},
      tile('version', f.basalt_version || f.redis_version), tile('role', f.role), tile('up', Math.floor(f.uptime_in_seconds / 3600) + ' h ' + Math.floor(f.uptime_in_seconds / 60) % 60 + ' min'),
      tile('keys', count(keys)), tile('clients', f.connected_clients), tile('blocked', f.blocked_clients),
      tile('memory', bytes(+f.used_memory_rss || +f.used_memory)), tile('database', bytes(+f.used_db_size || 0)),
      tile('key hits', percent(hit)), tile('record cache hits', ratio(f.record_cache_hits, f.record_cache_misses)),
      tile('block cache hits', ratio(f.block_cache_hit, f.block_cache_miss)),
      tile('replicas', f.connected_slaves || 0), tile('expired keys', count(+f.expired_keys || 0))),
    el('div', {class: 'grid'},
      plot('Commands a second', history, ['ops'], count), plot('Latency', history, ['p50', 'p99'], micros),
      plot('Network, bytes a second', history, ['in', 'out'], bytes), plot('Block cache hits', history, ['hits'], percent, 1),
      plot('Memory', history, ['memory'], bytes), plot('Flushes and compactions, bytes a second', history, ['written'], bytes))];
  },

  async Storage() {
    const all = await call('files');
    return all.filter(f => f.levels.some(l => l.files) || f.memtables > 4096).map(f => {
      const levels = f.levels.filter(l => l.files);
      const max = Math.max(1, ...levels.map(l => l.bytes)), W = 500, H = 18;
      const rows = levels.map(l => {
        const s = svg('svg', {viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `${l.files} files of level ${l.level}`});
        const wide = Math.max(6, W * Math.sqrt(l.bytes / max)), n = Math.min(l.files, 80);
        for (let j = 0; j < n; j++) {
          s.append(svg('rect', {x: wide * j / n, y: 0, width: Math.max(1, wide / n - (n > 40 ? .5 : 1.5)), height: H, rx: 2,
            class: j < l.compacting ? 'file busy' : 'file'}));
        }
        return el('div', {class: 'level'}, el('b', {}, 'L' + l.level), s, el('span', {class: 'dim'},
          `${l.files} ${l.files === 1 ? 'file' : 'files'}, ${bytes(l.bytes)}, score ${l.score > 100 ? 'over 100' : l.score.toFixed(2)}` +
          (l.written ? `, ${bytes(l.written)} written` + (l.level && l.write_amp ? ` (×${l.write_amp.toFixed(1)})` : '') : '') +
          (l.compacting ? `, ${l.compacting} being compacted` : '')));
      });
      const busy = f.levels.reduce((n, l) => n + l.compacting, 0);
      return card(f.family, el('p', {class: 'dim'}, `about ${count(f.keys)} records, memtables ${bytes(f.memtables)}, ` +
        (busy ? `${busy} ${busy === 1 ? 'file is' : 'files are'} being compacted, ` : '') + `${bytes(f.pending)} to be compacted` +
        (f.sum.write_amp ? `, write amplification ${f.sum.write_amp.toFixed(1)}` : '') +
        (f.hits + f.misses ? `, block cache hits ${percent(f.hits / (f.hits + f.misses))}` : '')),
      ...rows);
    });
  },

  async Keys() { return keysPage(); },

  async 'Slow log'() {
    const [log, latency] = await run(['SLOWLOG', 'GET', '128'], ['LATENCY', 'LATEST']);
    if (isError(log)) throw new Error(log.error);
    return [card('Slow commands', table(['id', 'when', 'took', 'command', 'client'], log.map(e =>
      [e[0], new Date(e[1] * 1000).toLocaleString(), micros(e[2]), el('code', {}, e[3].map(show).join(' ').slice(0, 500)), whole(show(e[4]))]), [0, 2])),
    card('Latency events', Array.isArray(latency) ? table(['event', 'last', 'latest ms', 'greatest ms'], latency.map(e =>
      [show(e[0]), new Date(e[1] * 1000).toLocaleString(), e[2], e[3]]), [2, 3]) : show(latency))];
  },

  async Clients() {
    const [text] = await run(['CLIENT', 'LIST']);
    if (isError(text)) throw new Error(text.error);
    const rows = show(text).trim().split('\n').map(line => Object.fromEntries(line.split(' ').map(p => [p.slice(0, p.indexOf('=')), p.slice(p.indexOf('=') + 1)])));
    return [card(rows.length + ' clients', table(['id', 'address', 'name', 'user', 'age s', 'idle s', 'db', 'last command', 'in buffer', 'out buffer', ''], rows.map(r =>
      [r.id, r.addr, r.name, r.user, r.age, r.idle, r.db, r.cmd, r.qbuf, r.omem,
        writes ? el('button', {onclick: () => run(['CLIENT', 'KILL', 'ID', r.id]).then(draw, fail)}, 'Kill') : '']), [0, 4, 5, 6, 8, 9]))];
  },

  async Replication() {
    const [text, mode, cluster, nodes] = await run(['INFO', 'replication'], ['INFO', 'cluster'], ['CLUSTER', 'INFO'], ['CLUSTER', 'NODES']);
    const f = info(text), latest = +f.master_repl_offset || 0;
    const replicas = Object.entries(f).filter(([k]) => /^slave\d+$/.test(k))
      .map(([, v]) => Object.fromEntries(v.split(',').map(p => [p.slice(0, p.indexOf('=')), p.slice(p.indexOf('=') + 1)])));
    return [card('This server', table(['', ''], Object.entries(f).filter(([k]) => !/^slave\d+$/.test(k)).map(([k, v]) => [whole(k), v]))),
      card('Replicas', replicas.length ? table(['address', 'state', 'has', 'writes behind', ''], replicas.map(r =>
        [whole(r.ip + ':' + r.port), r.state, r.offset, r.lag, lagBar(latest, +r.lag)]), [2, 3]) : el('p', {class: 'dim'}, 'none')),
      card('Cluster', info(mode).cluster_enabled === '0' ? el('p', {class: 'dim'}, 'Cluster mode is off.') :
        isError(cluster) ? el('p', {class: 'dim'}, cluster.error) : el('pre', {}, show(cluster))),
      isError(nodes) ? '' : card('Slots', slots(show(nodes)))];
  },

  async Settings() {
    const [[list], about] = await Promise.all([run(['CONFIG', 'GET', '*']), call('settings')]);
    if (isError(list)) throw new Error(list.error);
    const values = new Map(pairs(list));
    const filter = el('input', {placeholder: 'Filter', type: 'search', oninput: () => fill()});
    const live = el('input', {type: 'checkbox', onchange: () => fill()});
    const body = el('div', {});
    const secret = n => /pass|auth|token|namespace/.test(n);
    const fill = () => body.replaceChildren(table(['setting', 'value', 'changes', ''], about.filter(s => values.has(s.name) &&
      s.name.includes(filter.value.toLowerCase()) && (s.dynamic || !live.checked)).map(s => {
      const n = s.name, v = values.get(n), mine = writes && s.dynamic && !secret(n);
      const input = el('input', {value: v, 'aria-label': n});
      return [el('span', {class: 'name'}, n), mine ? input : el('code', {}, secret(n) && v ? '(set)' : v),
        s.dynamic ? (s.protected ? 'at run time, protected' : 'at run time') : 'at the start',
        el('span', {class: 'dim'}, mine ? [el('button', {onclick: () => run(['CONFIG', 'SET', n, input.value]).then(r => { if (isError(r[0])) fail(new Error(r[0].error)); else draw(); }, fail)}, 'Set'), ' '] : [], s.comment)];
    })));
    fill();
    return [card('Settings', el('p', {class: 'dim'}, writes ? 'A change is lost at a restart unless CONFIG REWRITE is called.' :
      'Read only: admin-console-writes lets the console change what may change at run time.'),
    el('div', {class: 'bar'}, filter, el('label', {}, live, ' changes at run time')), body)];
  },
};

// lagBar shows how far a replica is behind: full means a hundredth of all writes, or a thousand.
function lagBar(latest, lag) {
  const s = svg('svg', {viewBox: '0 0 100 8', class: 'bar-svg', role: 'img', 'aria-label': 'lag'});
  s.append(svg('rect', {x: 0, y: 0, width: 100, height: 8, rx: 3, class: 'track'}));
  s.append(svg('rect', {x: 0, y: 0, width: Math.min(100, 100 * lag / Math.max(1000, latest / 100)), height: 8, rx: 3, class: 'file busy'}));
  return s;
}

// slots draws which node has which slots, from the text of CLUSTER NODES.
function slots(text) {
  return table(['node', 'role', 'slots', ''], text.trim().split('\n').map(line => line.trim().split(' ')).map(w => {
    const ranges = w.slice(8).filter(r => /^\d+(-\d+)?$/.test(r)).map(r => r.split('-').map(Number)).map(r => [r[0], r[r.length - 1]]);
    const s = svg('svg', {viewBox: '0 0 1024 16', class: 'bar-svg', preserveAspectRatio: 'none', role: 'img', 'aria-label': 'slots of ' + w[1]});
    s.append(svg('rect', {x: 0, y: 0, width: 1024, height: 16, class: 'track'}));
    for (const [first, last] of ranges) s.append(svg('rect', {x: first / 16, y: 0, width: Math.max(2, (last - first + 1) / 16), height: 16, class: 'file'}));
    return [whole((w[1] || '').split('@')[0]), (w[2] || '').replace('myself,', '') + (/myself/.test(w[2]) ? ', this node' : ''),
      ranges.reduce((n, [first, last]) => n + last - first + 1, 0), s];
  }), [2]);
}

const browser = {db: 0, pattern: '*', cursor: '0', keys: [], key: null, at: '0'};

async function scan(more) {
  if (!more) Object.assign(browser, {cursor: '0', keys: []});
  const before = browser.keys.length;
  for (let i = 0; i < 20 && browser.keys.length < before + 100; i++) {
    const r = await run(['SELECT', String(browser.db)], ['SCAN', browser.cursor, 'MATCH', browser.pattern, 'COUNT', '200']);
    for (const v of r) if (isError(v)) throw new Error(v.error);
    browser.cursor = show(r[1][0]);
    browser.keys.push(...r[1][1]);
    if (browser.cursor === '0') break;
  }
}

// biggest looks at 2,000 more keys and keeps the 25 that need most of all it has seen.
const big = {cursor: '0', seen: 0, all: []};
async function biggest(more) {
  if (!more) Object.assign(big, {cursor: '0', seen: 0, all: []});
  const until = big.seen + 2000;
  let size = 0;
  do {
    const r = await run(['SELECT', String(browser.db)], ['SCAN', big.cursor, 'MATCH', browser.pattern, 'COUNT', '200'], ['DBSIZE']);
    if (isError(r[1])) throw new Error(r[1].error);
    big.cursor = show(r[1][0]);
    size = +r[2] || 0;
    const keys = r[1][1], sizes = keys.length ? await run(...keys.map(k => ['MEMORY', 'USAGE', k])) : [];
    keys.forEach((k, i) => big.all.push([k, +sizes[i] || 0]));
    big.all = big.all.sort((a, b) => b[1] - a[1]).slice(0, 25);
    big.seen += keys.length;
  } while (big.cursor !== '0' && big.seen < until);
  return card(`The biggest of ${count(big.seen)} keys` + (big.cursor === '0' ? '' : ` (the database has ${count(size)})`),
    table(['key', 'size'], big.all.map(([k, n]) => [el('button', {class: 'mono', onclick: () => open(k)}, show(k)), bytes(n)]), [1]),
    big.cursor === '0' ? '' : el('button', {onclick: () => find(biggest(true))}, 'Look at 2,000 more'));
}

// hottest shows the keys that get the most commands.
async function hottest() {
  const list = await call('hot');
  return card('The hottest keys', el('p', {class: 'dim'}, 'Of the last minutes, from a sample of the commands: each key has at least this share of those that name a key.'),
    list.length ? table(['key', 'namespace', 'share', 'about a second'], list.map(h => [
      h.db < 0 ? el('span', {class: 'mono'}, show(h.key)) : el('button', {class: 'mono', onclick: () => { browser.db = h.db; open(h.key); }}, show(h.key)),
      h.namespace, percent(h.share), count(h.per_second)]), [2, 3]) : el('p', {class: 'dim'}, 'No key stands out.'));
}
const find = promise => promise.then(c => { found = c; browser.key = null; draw(); }, fail);

const readers = {
  string: async (k, at) => [['GETRANGE', k, at, String(+at + 4095)], r => [show(r), +at + 4096]],
  list: async (k, at) => [['LRANGE', k, at, String(+at + 99)], r => [r.map((v, i) => [+at + i, show(v)]), +at + 100]],
  set: async (k, at) => [['SSCAN', k, at, 'COUNT', '100'], r => [r[1].map(v => [show(v)]), show(r[0])]],
  hash: async (k, at) => [['HSCAN', k, at, 'COUNT', '100'], r => [pairs(r[1]), show(r[0])]],
  zset: async (k, at) => [['ZRANGE', k, at, String(+at + 99), 'WITHSCORES'], r => [pairs(r), +at + 100]],
  stream: async (k, at) => [['XRANGE', k, at === '0' ? '-' : '(' + at, '+', 'COUNT', '50'],
    r => [r.map(e => [show(e[0]), show(e[1])]), r.length === 50 ? show(r[r.length - 1][0]) : '0']],
  'ReJSON-RL': async k => [['JSON.GET', k], r => [show(r), 0]],
  sortedint: async (k, at) => [['SIRANGE', k, at, '100'], r => [r.map(v => [show(v)]), +at + 100]],
  hyperloglog: async k => [['PFCOUNT', k], r => ['about ' + show(r) + ' elements', 0]],
  'MBbloom--': async k => [['BF.INFO', k], r => [pairs(r), 0]],
  'TDIS-TYPE': async k => [['TDIGEST.INFO', k], r => [pairs(r), 0]],
  bitmap: async k => [['BITCOUNT', k], r => [show(r) + ' bits are set', 0]],
};
const sizes = {string: 'STRLEN', list: 'LLEN', set: 'SCARD', hash: 'HLEN', zset: 'ZCARD', stream: 'XLEN', sortedint: 'SICARD'};
function pairs(list) {
  const rows = [];
  for (let i = 0; i + 1 < list.length; i += 2) rows.push([show(list[i]), show(list[i + 1])]);
  return rows;
}

async function keyCard(k, at) {
  const db = ['SELECT', String(browser.db)];
  const [, type, ttl, memory] = await run(db, ['TYPE', k], ['PTTL', k], ['MEMORY', 'USAGE', k]);
  const kind = show(type);
  const rows = [['type', kind], ['expires', ttl === -1 ? 'never' : ttl === -2 ? 'is gone' : 'in ' + (ttl / 1000).toFixed(1) + ' s'], ['bytes', show(memory)]];
  const parts = [];
  if (sizes[kind]) rows.push([kind === 'string' ? 'length' : 'elements', show((await run(db, [sizes[kind], k]))[1])]);
  if (readers[kind]) {
    const [command, read] = await readers[kind](k, at);
    const reply = (await run(db, command))[1];
    if (isError(reply)) parts.push(el('p', {class: 'error'}, reply.error));
    else {
      const [value, next] = read(reply);
      parts.push(Array.isArray(value) ? table([], value) : el('pre', {}, value));
      const total = rows.length > 3 ? +rows[3][1] : 0;
      if (typeof next === 'number' ? next > 0 && next < total : next !== '0' && next !== at && reply.length)
        parts.push(el('button', {onclick: () => open(k, String(next))}, 'Next page'));
    }
  }
  let raw = null;
  try { raw = await call('raw', {key: k, db: browser.db}); } catch (e) { raw = {records: [], error: e.message}; }
  if (raw.version) rows.push(['version', raw.version]);
  const ldb = r => `ldb --db=${raw.dir} --column_family=${r.family} --hex get ${r.key}`;
  return [card(show(k), table(['', ''], rows), writes ? el('div', {class: 'bar'},
    el('button', {onclick: () => { if (confirm('Delete ' + show(k) + '?')) run(db, ['UNLINK', k]).then(() => { browser.key = null; return scan(); }).then(draw, fail); }}, 'Delete')) : ''),
  card('Value', ...parts),
  card('Records on the disk', raw.error ? el('p', {class: 'dim'}, raw.error) : table(['family', 'key', 'value', 'bytes'],
    raw.records.map(r => [whole(r.family), el('code', {title: ldb(r)}, r.key), el('code', {}, r.value), r.size]), [3]),
  raw.records.length ? el('pre', {class: 'dim'}, ldb(raw.records[0])) : '')];
}
function open(k, at) { browser.key = k; browser.at = at || '0'; draw(); }

let found = null;
async function keysPage() {
  if (!browser.keys.length) await scan();
  const pattern = el('input', {value: browser.pattern, 'aria-label': 'pattern', type: 'search'});
  const db = el('input', {value: browser.db, 'aria-label': 'database', type: 'number', min: 0, max: 999});
  const search = e => { e.preventDefault(); browser.pattern = pattern.value || '*'; browser.db = +db.value || 0; browser.key = null; found = null; scan().then(draw, fail); };
  const list = el('div', {class: 'list'}, browser.keys.map(k => el('button', {class: browser.key === k ? 'on mono' : 'mono', onclick: () => open(k)}, show(k))));
  if (browser.cursor !== '0') list.append(el('button', {onclick: () => scan(true).then(draw, fail)}, 'More …'));
  return [el('form', {class: 'bar', onsubmit: search}, pattern, el('label', {}, 'database ', db), el('button', {}, 'Search'),
    el('button', {type: 'button', onclick: () => find(biggest())}, 'Biggest keys'),
    el('button', {type: 'button', onclick: () => find(hottest())}, 'Hottest keys')),
  el('div', {class: 'two'}, card(browser.keys.length + ' keys' + (browser.cursor !== '0' ? ' so far' : ''), list),
    el('div', {}, browser.key !== null ? await keyCard(browser.key, browser.at) : found || card('', el('p', {class: 'dim'}, 'Choose a key.'))))];
}

// How often a page is drawn anew, in seconds; pages with inputs are not.
const refresh = {Overview: 2, Storage: 5, Clients: 5, 'Slow log': 10, Replication: 5};

async function draw() {
  clearTimeout(timer);
  const mine = ++draws, name = tab;
  try {
    const children = await pages[name]();
    if (mine !== draws) return;
    $('view').replaceChildren(...children);
    $('error').hidden = true;
  } catch (e) {
    if (mine === draws) fail(e);
  }
  if (refresh[name] && mine === draws) timer = setTimeout(draw, refresh[name] * 1000);
}
function choose(name) {
  tab = name;
  location.hash = encodeURIComponent(name);
  for (const b of $('tabs').children) b.toggleAttribute('aria-current', false), b.textContent === name && b.setAttribute('aria-current', 'page');
  draw();
}
function signedIn(v) {
  writes = v.writes;
  $('who').textContent = v.user + (writes ? '' : ', read only');
  $('login').hidden = true;
  $('tabs').hidden = $('logout').hidden = false;
  const [wanted, key] = location.hash.slice(1).split('/').map(decodeURIComponent);
  if (key !== undefined) browser.key = key; // #Keys/KEY
  choose(wanted in pages ? wanted : 'Overview');
}
function signedOut() {
  clearTimeout(timer);
  draws++;
  $('view').replaceChildren();
  $('tabs').hidden = $('logout').hidden = true;
  $('login').hidden = false;
  $('who').textContent = '';
}

for (const name of Object.keys(pages)) $('tabs').append(el('button', {onclick: () => choose(name)}, name));
$('login').addEventListener('submit', async e => {
  e.preventDefault();
  const f = e.target.elements;
  try {
    signedIn(await call('login', {user: f.user.value, password: f.password.value}));
    $('loginError').textContent = '';
    f.password.value = '';
  } catch (err) {
    $('loginError').textContent = err.message;
  }
});
$('logout').addEventListener('click', () => call('logout', {}).finally(signedOut));
// A server without a password, on this machine, needs no form.
call('login', {user: '', password: ''}).then(signedIn, signedOut);
