// Runs ioredis's cluster client against a cluster of which one node is named.
//
// usage: node ioredis-cluster.js HOST:PORT

import Redis from 'ioredis';
import { address, assert, check, runChecks } from './check.js';

const cluster = new Redis.Cluster([address()], { scaleReads: 'slave', redisOptions: { maxRetriesPerRequest: 3 } });

check('keys of all slots', async () => {
  const keys = Array.from({ length: 500 }, (_, i) => `io:${i}`);
  await Promise.all(keys.map((key, i) => cluster.set(key, i)));
  assert.equal(await cluster.exists('io:1'), 1);
  for (const [i, key] of keys.entries()) {
    // A replica may be behind its master: the master is asked when it has not got the key yet.
    const got = (await cluster.get(key)) ?? (await cluster.multi().get(key).exec())[0][1];
    assert.equal(got, String(i));
  }
});

check('several keys of one slot', async () => {
  await cluster.mset('{io}a', '1', '{io}b', '2');
  const replies = await cluster.multi().incr('{io}a').mget('{io}a', '{io}b').exec();
  assert.deepEqual(replies, [[null, 2], [null, ['2', '2']]]);
  await assert.rejects(cluster.mset('{io}a', '1', '{other}b', '2'), /CROSSSLOT|same slot|different/);
  const script = 'return redis.call("get", KEYS[1])';
  assert.equal(await cluster.eval(script, 1, '{io}b'), '2');
});


await new Promise((resolve) => cluster.once('ready', resolve));
runChecks('ioredis cluster', async () => {});
