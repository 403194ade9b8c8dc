// Runs ioredis against a server: what an application does with it.
//
// usage: node ioredis.js HOST:PORT
//
// It deletes what is in the server's database.

import Redis from 'ioredis';
import { address, assert, check, once, runChecks, until } from './check.js';

const at = address();
const redis = new Redis({ ...at, maxRetriesPerRequest: 0, connectionName: 'compat' });

check('values of each type', async () => {
  assert.equal(await redis.set('s', 'v', 'EX', 100, 'NX'), 'OK');
  assert.equal(await redis.set('s', 'w', 'NX'), null);
  assert.deepEqual(await redis.getBuffer('s'), Buffer.from('v'));
  await redis.hset('h', { a: 1, b: 'two' });
  assert.deepEqual(await redis.hgetall('h'), { a: '1', b: 'two' });
  await redis.zadd('z', 1.5, 'm', '+inf', 'n');
  assert.deepEqual(await redis.zrange('z', 0, -1, 'WITHSCORES'), ['m', '1.5', 'n', 'inf']);
  await redis.mset(new Map([['x', '1'], ['y', '2']]));
  assert.deepEqual(await redis.mget('x', 'y', 'none'), ['1', '2', null]);
  await assert.rejects(redis.lpush('s', 'x'), /^ReplyError: WRONGTYPE Operation against a key/);
  const binary = Buffer.from([0, 255, 13, 10, 128]);
  await redis.set(binary, binary);
  assert.deepEqual(await redis.getBuffer(binary), binary);
});

check('pipeline', async () => {
  const pipeline = redis.pipeline();
  for (let i = 0; i < 1000; i++) pipeline.set(`k${i}`, i).get(`k${i}`);
  pipeline.lpush('k0', 'x');
  const replies = await pipeline.exec();
  for (let i = 0; i < 1000; i++) assert.deepEqual(replies[2 * i + 1], [null, String(i)]);
  assert.match(replies[2000][0].message, /^WRONGTYPE/);
});

check('transactions', async () => {
  const replies = await redis.multi().set('n', 1).incr('n').lpush('n', 'x').get('n').exec();
  assert.deepEqual([replies[0], replies[1], replies[3]], [[null, 'OK'], [null, 2], [null, '2']]);
  assert.match(replies[2][0].message, /^WRONGTYPE/);
  await assert.rejects(redis.multi().incr('n').call('nosuchcommand').exec(), /EXECABORT/);
  assert.equal(await redis.get('n'), '2');
  const other = redis.duplicate();
  await redis.watch('n');
  await other.incr('n');
  assert.equal(await redis.multi().set('n', 'lost').exec(), null);
  assert.equal(await redis.get('n'), '3');
  other.disconnect();
});

check('automatic pipelining', async () => {
  const auto = new Redis({ ...at, enableAutoPipelining: true, maxRetriesPerRequest: 0 });
  const replies = await Promise.all(Array.from({ length: 2000 }, (_, i) => auto.incrby('sum', i).then(() => auto.set(`a${i}`, i))));
  assert.ok(replies.every((r) => r === 'OK'));
  assert.equal(await auto.get('sum'), String((2000 * 1999) / 2));
  assert.equal(await auto.dbsize(), 2001);
  auto.disconnect();
});

check('pub/sub', async () => {
  const sub = redis.duplicate();
  assert.equal(await sub.subscribe('news', 'more'), 2);
  assert.equal(await sub.psubscribe('p.*'), 3);
  const message = once(sub, 'message');
  const pmessage = once(sub, 'pmessage');
  assert.equal(await redis.publish('news', 'hello'), 1);
  assert.equal(await redis.publish('p.x', Buffer.from('there')), 1);
  assert.deepEqual(await message, ['news', 'hello']);
  assert.deepEqual(await pmessage, ['p.*', 'p.x', 'there']);
  await assert.rejects(sub.get('x'), /subscriber mode/);
  await sub.unsubscribe('news', 'more');
  await sub.punsubscribe('p.*');
  assert.equal(await sub.get('none'), null);
  sub.disconnect();
});

check('keyspace events', async () => {
  const before = (await redis.config('GET', 'notify-keyspace-events'))[1];
  await redis.config('SET', 'notify-keyspace-events', 'KEA');
  try {
    const sub = redis.duplicate();
    const seen = [];
    await sub.psubscribe('__key*__:*');
    sub.on('pmessage', (_pattern, channel, message) => seen.push(`${channel} ${message}`));
    await redis.set('e', 'v', 'PX', 50);
    await redis.lpush('l', 'x');
    await redis.del('l');
    // The key may expire before the others are written, so each event is awaited for itself.
    for (const want of [
      '__keyspace@0__:e set', '__keyevent@0__:set e', '__keyspace@0__:e expire', '__keyevent@0__:lpush l',
      '__keyspace@0__:l lpush', '__keyevent@0__:del l', '__keyspace@0__:e expired', '__keyevent@0__:expired e',
    ]) {
      await until(`${want} has been seen`, () => seen.includes(want), 10_000);
    }
    sub.disconnect();
  } finally {
    await redis.config('SET', 'notify-keyspace-events', before);
  }
});

check('streams', async () => {
  const reader = redis.duplicate();
  const read = reader.xread('BLOCK', 10_000, 'STREAMS', 's', '$');
  await until('a client is blocked', async () => (await redis.client('LIST')).includes('cmd=xread'));
  const id = await redis.xadd('s', '*', 'f', 'v');
  assert.deepEqual(await read, [['s', [[id, ['f', 'v']]]]]);
  await redis.xgroup('CREATE', 's', 'g', '0');
  assert.deepEqual(await redis.xreadgroup('GROUP', 'g', 'c', 'COUNT', 10, 'STREAMS', 's', '>'), [['s', [[id, ['f', 'v']]]]]);
  const pending = await redis.xpending('s', 'g', '-', '+', 10);
  assert.deepEqual([pending[0][0], pending[0][1], pending[0][3]], [id, 'c', 1]);
  assert.equal(await redis.xack('s', 'g', id), 1);
  assert.equal(await reader.xread('BLOCK', 20, 'STREAMS', 's', '$'), null);
  reader.disconnect();
});

check('blocking pops', async () => {
  const waiters = Array.from({ length: 20 }, () => redis.duplicate());
  const popped = Promise.all(waiters.map((w) => w.blpop('q', 20)));
  await until('twenty clients are blocked', async () => /blocked_clients:20\r/.test(await redis.info('clients')));
  for (let i = 0; i < 20; i++) await redis.rpush('q', i);
  const values = (await popped).map(([, v]) => Number(v)).sort((a, b) => a - b);
  assert.deepEqual(values, Array.from({ length: 20 }, (_, i) => i));
  waiters.forEach((w) => w.disconnect());
});

check('scans', async () => {
  const pipeline = redis.pipeline();
  for (let i = 0; i < 1200; i++) pipeline.set(`scan:${i}`, i).hset('h', `f${i}`, i);
  await pipeline.exec();
  const keys = new Set();
  for await (const batch of redis.scanStream({ match: 'scan:*', count: 100 })) batch.forEach((k) => keys.add(k));
  assert.equal(keys.size, 1200);
  const fields = new Set();
  for await (const batch of redis.hscanStream('h', { count: 100 })) for (let i = 0; i < batch.length; i += 2) fields.add(batch[i]);
  assert.equal(fields.size, 1200);
});

check('commands in Lua', async () => {
  const scripted = new Redis({
    ...at,
    maxRetriesPerRequest: 0,
    scripts: { add: { numberOfKeys: 2, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1]) + redis.call('INCRBY', KEYS[2], ARGV[2])" } },
  });
  scripted.defineCommand('reply', { lua: 'return {KEYS[1], ARGV[1], 3.7, false, {ok = "FINE"}, cjson.decode("[1,2]")}' });
  await redis.script('FLUSH');
  assert.equal(await scripted.add('a', 'b', 2, 3), 5);
  assert.deepEqual(await scripted.reply(1, 'k', 'x'), ['k', 'x', 3, null, 'FINE', [1, 2]]);
  const replies = await scripted.pipeline().add('a', 'b', 1, 1).get('a').exec();
  assert.deepEqual(replies, [[null, 7], [null, '3']]);
  const inMulti = await scripted.multi().add('a', 'b', 1, 1).get('b').exec();
  assert.deepEqual(inMulti, [[null, 9], [null, '5']]);
  await assert.rejects(scripted.eval("return redis.call('LPUSH', KEYS[1], 'x')", 1, 'a'), /WRONGTYPE/);
  scripted.disconnect();
});

check('monitor', async () => {
  const monitor = await redis.monitor();
  const seen = once(monitor, 'monitor');
  await redis.set('seen', 'by monitor');
  const [, args] = await seen;
  assert.deepEqual(args, ['set', 'seen', 'by monitor']);
  monitor.disconnect();
});

await runChecks('ioredis', () => redis.flushdb());
