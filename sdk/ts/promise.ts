// Promises for components without an event loop.
//
// All calls into the node return when they have a result, so a promise only waits for jobs that are ready. `settled` runs
// them. Async functions use these promises if esbuild lowers them (`--target=es2016`).

type Settle<T> = (value: T | PromiseLike<T>) => void;
type Reject = (reason: unknown) => void;
type State<T> = { tag: "pending" } | { tag: "fulfilled"; value: T } | { tag: "rejected"; reason: unknown };

/** Jobs that are ready, oldest first. */
const jobs: (() => void)[] = [];

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && typeof (value as { then?: unknown }).then === "function";
}

/** A promise as in ECMAScript, with a queue of jobs that `settled` runs. */
export class JobPromise<T> implements PromiseLike<T> {
  #state: State<T> = { tag: "pending" };
  #waiting: (() => void)[] = [];

  constructor(executor: (resolve: Settle<T>, reject: Reject) => void) {
    let isDone = false;
    const once =
      <A>(settle: (argument: A) => void) =>
      (argument: A): void => {
        if (!isDone) {
          isDone = true;
          settle(argument);
        }
      };
    const reject = once<unknown>((reason) => this.#settle({ tag: "rejected", reason }));
    try {
      executor(once<T | PromiseLike<T>>((value) => this.#resolve(value)), reject);
    } catch (thrown) {
      reject(thrown);
    }
  }

  #resolve(value: T | PromiseLike<T>): void {
    if (isThenable(value)) {
      jobs.push(() => {
        value.then(
          (inner) => this.#resolve(inner),
          (reason: unknown) => this.#settle({ tag: "rejected", reason }),
        );
      });
    } else {
      this.#settle({ tag: "fulfilled", value });
    }
  }

  #settle(state: State<T>): void {
    if (this.#state.tag !== "pending") return;
    this.#state = state;
    jobs.push(...this.#waiting);
    this.#waiting = [];
  }

  /** The result of the promise, if it has one. */
  get state(): State<T> {
    return this.#state;
  }

  then<A = T, B = never>(
    fulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): JobPromise<A | B> {
    return new JobPromise<A | B>((resolve, reject) => {
      const react = (): void => {
        const state = this.#state;
        try {
          if (state.tag === "fulfilled") {
            resolve(fulfilled ? fulfilled(state.value) : (state.value as unknown as A));
          } else if (state.tag === "rejected") {
            if (rejected) resolve(rejected(state.reason));
            else reject(state.reason);
          }
        } catch (thrown) {
          reject(thrown);
        }
      };
      if (this.#state.tag === "pending") this.#waiting.push(react);
      else jobs.push(react);
    });
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
    return value instanceof JobPromise ? value : new JobPromise((resolve) => resolve(value));
  }

  static reject<T = never>(reason: unknown): JobPromise<T> {
    return new JobPromise((_, reject) => reject(reason));
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
  for (let job = jobs.shift(); job !== undefined; job = jobs.shift()) job();
  const state = promise.state;
  if (state.tag === "fulfilled") return state.value;
  if (state.tag === "rejected") throw state.reason;
  throw new TypeError("a promise that nothing settles: build with esbuild --target=es2016");
}

(globalThis as unknown as { Promise: unknown }).Promise = JobPromise;
