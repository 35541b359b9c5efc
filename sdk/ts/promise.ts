// Promises for components without an event loop.
//
// All calls into the node return when they have a result, so a promise only waits for jobs that are ready. `settled` runs
// them. Async functions use these promises if esbuild lowers them (`--target=es2016`).
//
// An interpreter runs this for every `await`, so it creates few objects. Fields are not private by `#`: at this target each
// such field would be a look-up in a table.

type Settle<T> = (value: T | PromiseLike<T>) => void;
type Reject = (reason: unknown) => void;
type Callback = ((value: never) => unknown) | null | undefined;

const enum Tag {
  Pending,
  Fulfilled,
  Rejected,
}

/** What happens when a promise is settled: one of two callbacks, whose result settles another promise. */
interface Reaction {
  fulfilled: Callback;
  rejected: Callback;
  target: JobPromise<unknown>;
}

/** Jobs that are ready, oldest first: reactions, each with the promise that it has waited for. */
const jobs: (Reaction | JobPromise<unknown>)[] = [];
/** Position of the oldest job that has not begun, and the position from which on those before it are removed. */
let next = 0;
const NEXT_MAX = 512;

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && typeof (value as { then?: unknown }).then === "function";
}

function settle(promise: JobPromise<unknown>, tag: Tag, value: unknown): void {
  if (promise.tag !== Tag.Pending) return;
  promise.tag = tag;
  promise.value = value;
  const waiting = promise.waiting;
  promise.waiting = undefined;
  if (waiting !== undefined) for (const reaction of waiting) jobs.push(reaction, promise);
}

function resolve(promise: JobPromise<unknown>, value: unknown): void {
  if (value instanceof JobPromise) {
    if (value === promise) settle(promise, Tag.Rejected, new TypeError("a promise waits for itself"));
    else wait(value, { fulfilled: null, rejected: null, target: promise });
  } else if (isThenable(value)) {
    run(promise, (fulfil, reject) => value.then(fulfil, reject));
  } else {
    settle(promise, Tag.Fulfilled, value);
  }
}

/** Calls an executor with the functions that settle a promise, of which the first call counts. */
function run(promise: JobPromise<unknown>, executor: (fulfil: (value: unknown) => void, reject: Reject) => void): void {
  let isDone = false;
  const reject = (reason: unknown): void => {
    if (isDone) return;
    isDone = true;
    settle(promise, Tag.Rejected, reason);
  };
  try {
    executor((value) => {
      if (isDone) return;
      isDone = true;
      resolve(promise, value);
    }, reject);
  } catch (thrown) {
    reject(thrown);
  }
}

function wait(promise: JobPromise<unknown>, reaction: Reaction): void {
  if (promise.tag !== Tag.Pending) jobs.push(reaction, promise);
  else if (promise.waiting === undefined) promise.waiting = [reaction];
  else promise.waiting.push(reaction);
}

function react(reaction: Reaction, promise: JobPromise<unknown>): void {
  const { target } = reaction;
  const callback = promise.tag === Tag.Fulfilled ? reaction.fulfilled : reaction.rejected;
  if (!callback) {
    settle(target, promise.tag, promise.value);
    return;
  }
  try {
    resolve(target, callback(promise.value as never));
  } catch (thrown) {
    settle(target, Tag.Rejected, thrown);
  }
}

/** A promise as in ECMAScript, with a queue of jobs that `settled` runs. */
export class JobPromise<T> implements PromiseLike<T> {
  /** @internal */
  tag: Tag = Tag.Pending;
  /** @internal */
  value: unknown = undefined;
  /** @internal */
  waiting: Reaction[] | undefined = undefined;

  constructor(executor?: (resolve: Settle<T>, reject: Reject) => void) {
    // `then` settles the promise itself.
    if (executor !== undefined) run(this, executor as never);
  }

  then<A = T, B = never>(
    fulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): JobPromise<A | B> {
    const target = new JobPromise<A | B>();
    wait(this, { fulfilled, rejected, target });
    return target;
  }

  catch<B = never>(rejected?: ((reason: unknown) => B | PromiseLike<B>) | null): JobPromise<T | B> {
    return this.then(null, rejected);
  }

  finally(done?: (() => void) | null): JobPromise<T> {
    return this.then(
      (value) => {
        done?.();
        return value;
      },
      (reason) => {
        done?.();
        throw reason;
      },
    );
  }

  static resolve<T>(value: T | PromiseLike<T>): JobPromise<T> {
    if (value instanceof JobPromise) return value;
    const promise = new JobPromise<T>();
    resolve(promise, value);
    return promise;
  }

  static reject<T = never>(reason: unknown): JobPromise<T> {
    const promise = new JobPromise<T>();
    settle(promise, Tag.Rejected, reason);
    return promise;
  }

  static all<T>(values: Iterable<T | PromiseLike<T>>): JobPromise<T[]> {
    return new JobPromise((resolve, reject) => {
      const all: T[] = [];
      let missing = 1;
      const count = (): void => {
        if (--missing === 0) resolve(all);
      };
      let at = 0;
      for (const value of values) {
        const place = at++;
        missing++;
        JobPromise.resolve(value).then((result) => {
          all[place] = result;
          count();
        }, reject);
      }
      count();
    });
  }

  static race<T>(values: Iterable<T | PromiseLike<T>>): JobPromise<T> {
    return new JobPromise((resolve, reject) => {
      for (const value of values) JobPromise.resolve(value).then(resolve, reject);
    });
  }
}

/** Runs all jobs, and returns the value of a promise; throws its reason, or an error if nothing can settle it any more. */
export function settled<T>(value: T | PromiseLike<T>): T {
  if (!isThenable(value)) return value;
  const promise = JobPromise.resolve(value as PromiseLike<T>);
  while (next < jobs.length) {
    const reaction = jobs[next] as Reaction;
    const waited = jobs[next + 1] as JobPromise<unknown>;
    next += 2;
    if (next >= NEXT_MAX) {
      jobs.splice(0, next);
      next = 0;
    }
    react(reaction, waited);
  }
  if (promise.tag === Tag.Fulfilled) return promise.value as T;
  if (promise.tag === Tag.Rejected) throw promise.value;
  throw new TypeError("a promise that nothing settles: build with esbuild --target=es2016");
}

(globalThis as unknown as { Promise: unknown }).Promise = JobPromise;
