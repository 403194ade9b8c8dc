// Runs BullMQ, a job queue made of Lua scripts, streams, sorted sets and
// blocking pops, against a server.
//
// usage: node bullmq.js HOST:PORT
//
// It deletes what is in the server's database.

import { FlowProducer, Queue, QueueEvents, Worker } from 'bullmq';
import Redis from 'ioredis';
import { address, assert, check, runChecks, until } from './check.js';

const at = address();
const connection = { ...at, maxRetriesPerRequest: null };
const redis = new Redis(connection);
const names = (jobs) => jobs.map((job) => job.name);

let queues = 0;

// withQueue calls use with a queue of its own and what makes workers of it, and closes them all.
async function withQueue(use) {
  const open = [];
  const name = `queue-${++queues}`;
  const opened = (thing) => {
    thing.on('error', (err) => console.error(`${name}: ${err.stack ?? err}`));
    open.push(thing);
    return thing;
  };
  const queue = opened(new Queue(name, { connection }));
  const work = (handler, options = {}) => opened(new Worker(name, handler, { connection, ...options }));
  const events = () => opened(new QueueEvents(name, { connection }));
  try {
    await use(queue, work, events);
  } finally {
    await Promise.all(open.reverse().map((thing) => thing.close()));
  }
}

// settled waits until a queue has that many completed jobs and nothing to do.
function settled(queue, completed) {
  return until(`${completed} jobs completed`, async () => {
    const n = await queue.getJobCounts();
    return n.completed === completed && n.waiting + n.active + n.delayed + n.prioritized === 0;
  });
}

check('order, priorities, events and results', () => withQueue(async (queue, work, events) => {
  const seen = events();
  await seen.waitUntilReady();
  await queue.addBulk([1, 2, 3].map((i) => ({ name: `low-${i}`, data: { i }, opts: { priority: 10 } })));
  await queue.add('high', { i: 4 }, { priority: 1 });
  const last = await queue.add('first', { i: 5 });
  assert.deepEqual(await queue.getJobCounts('waiting', 'prioritized'), { waiting: 1, prioritized: 4 });
  const done = [];
  work(async (job) => {
    done.push(job.name);
    await job.updateProgress(50);
    await job.log(`working on ${job.name}`);
    return { twice: job.data.i * 2 };
  });
  assert.deepEqual(await last.waitUntilFinished(seen, 20_000), { twice: 10 });
  await settled(queue, 5);
  assert.deepEqual(done, ['first', 'high', 'low-1', 'low-2', 'low-3']);
  assert.deepEqual((await queue.getJobLogs(last.id)).logs, ['working on first']);
  assert.equal((await queue.getJob(last.id)).progress, 50);
}));

check('delayed jobs', () => withQueue(async (queue, work) => {
  const ran = [];
  const start = Date.now();
  work(async (job) => { ran.push([job.name, Date.now() - start]); }, { concurrency: 4 });
  for (const delay of [900, 300, 600]) await queue.add(`after-${delay}`, {}, { delay });
  const moved = await queue.add('moved', {}, { delay: 3_600_000 });
  await moved.changeDelay(1200);
  const promoted = await queue.add('promoted', {}, { delay: 3_600_000 });
  await promoted.promote();
  await settled(queue, 5);
  // Jobs that are due by the time the worker looks run in any order, with Redis too, so only the times are compared.
  assert.deepEqual(ran.map(([name]) => name).sort(), ['after-300', 'after-600', 'after-900', 'moved', 'promoted']);
  for (const [name, ms] of ran) {
    const want = name === 'promoted' ? 0 : name === 'moved' ? 1200 : Number(name.split('-')[1]);
    assert.ok(ms >= want - 5, `${name} ran after ${ms} ms`);
  }
}));

check('repeated jobs', () => withQueue(async (queue, work) => {
  let ran = 0;
  work(async () => { ran++; });
  await queue.upsertJobScheduler('often', { every: 100, limit: 5 }, { name: 'repeated', data: { a: 1 } });
  await queue.upsertJobScheduler('nightly', { pattern: '0 3 * * *' }, { name: 'cron' });
  assert.deepEqual((await queue.getJobSchedulers()).map((s) => s.key ?? s.id).sort(), ['nightly', 'often']);
  await until('a repeated job has run five times', () => ran === 5);
  assert.ok(await queue.removeJobScheduler('nightly'));
  await until('nothing is left to do', async () => {
    const n = await queue.getJobCounts('waiting', 'active', 'delayed');
    return n.waiting + n.active + n.delayed === 0;
  });
  assert.equal(ran, 5);
}));

check('failing jobs are tried again', () => withQueue(async (queue, work) => {
  const tries = new Map();
  work(async (job) => {
    const n = (tries.get(job.name) ?? 0) + 1;
    tries.set(job.name, n);
    if (job.name === 'hopeless' || n < 3) throw new Error(`${job.name} fails`);
    return n;
  }, { concurrency: 3 });
  await queue.add('exponential', {}, { attempts: 5, backoff: { type: 'exponential', delay: 50 } });
  await queue.add('fixed', {}, { attempts: 3, backoff: { type: 'fixed', delay: 20 } });
  const hopeless = await queue.add('hopeless', {}, { attempts: 2, backoff: 10 });
  await until('one job has failed', async () => (await queue.getFailedCount()) === 1);
  await settled(queue, 2);
  assert.deepEqual(Object.fromEntries(tries), { exponential: 3, fixed: 3, hopeless: 2 });
  const [failed] = await queue.getFailed();
  assert.deepEqual([failed.id, failed.failedReason, failed.stacktrace.length], [hopeless.id, 'hopeless fails', 2]);
  await failed.retry();
  await until('it has failed again', async () => tries.get('hopeless') === 3 && (await queue.getFailedCount()) === 1);
}));

check('a job that a stopped worker held', () => withQueue(async (queue, work) => {
  await queue.add('stalled', {});
  let held;
  const taken = new Promise((resolve) => { held = resolve; });
  const dead = work(async () => { held(); await new Promise(() => {}); }, { lockDuration: 300, skipLockRenewal: true, skipStalledCheck: true });
  await taken;
  let ran = 0;
  work(async () => { ran++; }, { stalledInterval: 300 });
  await settled(queue, 1);
  assert.equal(ran, 1);
  await dead.close(true);
}));

check('a rate limit, pausing and draining', () => withQueue(async (queue, work) => {
  await queue.pause();
  await queue.addBulk(Array.from({ length: 6 }, (_, i) => ({ name: `job-${i}` })));
  const times = [];
  work(async () => { times.push(Date.now()); }, { limiter: { max: 2, duration: 300 } });
  assert.ok(await queue.isPaused());
  assert.equal(times.length, 0);
  await queue.resume();
  await settled(queue, 6);
  assert.ok(times[5] - times[0] >= 550, `six jobs at two in 300 ms took ${times[5] - times[0]} ms`);
  await queue.pause();
  await queue.add('drained', {});
  await queue.drain();
  assert.equal(await queue.getWaitingCount(), 0);
  assert.equal((await queue.clean(0, 100, 'completed')).length, 6);
  await queue.obliterate({ force: true });
  const left = await redis.keys(`bull:${queue.name}:*`);
  assert.deepEqual(left.filter((key) => !key.endsWith(':limiter')), []); // the limiter expires by itself
}));

check('flows', () => withQueue(async (queue, work) => {
  const flows = new FlowProducer({ connection });
  const order = [];
  work(async (job) => {
    order.push(job.name);
    if (job.name !== 'parent') return job.data.n;
    return Object.values(await job.getChildrenValues()).reduce((a, b) => a + b, 0);
  });
  const { job } = await flows.add({
    name: 'parent', queueName: queue.name,
    children: [1, 2, 3].map((n) => ({ name: `child-${n}`, queueName: queue.name, data: { n } })),
  });
  await settled(queue, 4);
  assert.equal(order[3], 'parent');
  assert.equal((await queue.getJob(job.id)).returnvalue, 6);
  await flows.close();
}));

check('one job for an identifier', () => withQueue(async (queue, work) => {
  await Promise.all(Array.from({ length: 20 }, () => queue.add('same', {}, { jobId: 'one' })));
  await Promise.all(Array.from({ length: 20 }, () => queue.add('once', {}, { deduplication: { id: 'two' } })));
  assert.deepEqual(names(await queue.getWaiting()).sort(), ['once', 'same']);
  work(async () => {});
  await settled(queue, 2);
}));

check('10,000 jobs through 8 workers, each done once', () => withQueue(async (queue, work) => {
  const jobs = 10_000;
  const done = new Map();
  const workers = Array.from({ length: 8 }, () => work(async (job) => {
    done.set(job.data.i, (done.get(job.data.i) ?? 0) + 1);
    await redis.incr('side-effect');
    if (job.data.i % 100 === 0 && job.attemptsMade === 0) throw new Error('tried again');
    return job.data.i;
  }, { concurrency: 10 }));
  let completed = 0;
  workers.forEach((w) => w.on('completed', () => { completed++; }));
  const start = Date.now();
  for (let from = 0; from < jobs; from += 1000) {
    await queue.addBulk(Array.from({ length: 1000 }, (_, k) => ({
      name: 'job', data: { i: from + k }, opts: { attempts: 2, backoff: 10, delay: (from + k) % 10 === 1 ? 50 : 0 },
    })));
  }
  await until(`${jobs} jobs completed`, async () => (await queue.getCompletedCount()) === jobs, 150_000);
  const ms = Date.now() - start;
  assert.equal(done.size, jobs, 'jobs that ran');
  for (const [i, times] of done) assert.equal(times, i % 100 === 0 ? 2 : 1, `job ${i} ran ${times} times`);
  assert.equal(Number(await redis.get('side-effect')), jobs + jobs / 100);
  await until('every worker has told', () => completed === jobs, 5_000);
  assert.deepEqual(await queue.getJobCounts('waiting', 'active', 'delayed', 'failed', 'completed'),
    { waiting: 0, active: 0, delayed: 0, failed: 0, completed: jobs });
  console.log(`bullmq: ${jobs} jobs in ${ms} ms, ${Math.round((jobs * 1000) / ms)} a second`);
}));

await runChecks('bullmq', () => redis.flushdb());
