// What the checks of this directory share: a list of named checks that are run
// one after the other, each with a time limit, and the process's exit status.

import assert from 'node:assert/strict';

const checks = [];

// check registers a check: a function that throws, or whose promise is rejected, when it fails.
export function check(name, run) {
  checks.push({ name, run });
}

// address reads HOST:PORT from the command line.
export function address() {
  const [host, port] = (process.argv[2] ?? '').split(/:(?=\d+$)/);
  if (!host || !port) {
    console.error(`usage: node ${process.argv[1]} HOST:PORT`);
    process.exit(2);
  }
  return { host, port: Number(port) };
}

// runChecks runs what was registered and ends the process: 0 when every check passed, else 1.
export async function runChecks(client, before) {
  let failed = 0;
  for (const { name, run } of checks) {
    try {
      await before();
      await within(170_000, run());
    } catch (err) {
      failed++;
      console.error(`${client}, ${name}: ${err.stack ?? err}`);
    }
  }
  if (failed === 0) console.log(`${client}: ${checks.length} checks`);
  process.exit(failed === 0 ? 0 : 1);
}

// within rejects when a promise takes longer than so many milliseconds.
export function within(ms, promise, what = 'it') {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took longer than ${ms} ms`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// once resolves with the arguments of an emitter's next event of that name.
export function once(emitter, event, ms = 20_000) {
  return within(ms, new Promise((resolve) => emitter.once(event, (...args) => resolve(args))), `the event ${event}`);
}

// until polls a condition of the server that it has no event for.
export async function until(what, condition, ms = 60_000) {
  const end = Date.now() + ms;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`after ${ms} ms still not: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export { assert };
