// A supervised server with state, called by its registered name.
//
//   run ──▶ supervisor ──▶ counter      "add 2" ──▶ "2", "add 3" ──▶ "5", "get" ──▶ "5"
//                             ╳         "crash": it exits, is restarted, and counts from 0
//
// Without arguments it demonstrates all of this; with the argument `serve` it runs only the counter.

import { actor, ask, exit, label, messages, type Pid, sleep, supervise, unlink, whereis } from "rusm";

const NAME = "counter";
const PATIENCE_MS = 5000;

export const run = actor(([role]) => {
  if (role === undefined) show();
  else if (role === "serve") serve();
  else throw `${JSON.stringify(role)} is neither "serve" nor nothing`;
});

/** Runs the server. Its state is a local variable of its loop. */
function serve(): void {
  let count = 0;
  for (const request of messages()) {
    const [word, amount = ""] = request.text().split(" ");
    if (word === "crash") throw `told to crash at ${count}`;
    if (word === "add" && /^-?\d+$/.test(amount)) {
      count += Number(amount);
    } else if (word !== "get") {
      // Reply with an error instead of exiting: an invalid request must not affect other callers.
      request.reply("error: it is none of add NUMBER, get, crash");
      continue;
    }
    label(`counter at ${count}`);
    request.reply(String(count));
  }
}

/** Runs a client of the server. */
function show(): void {
  const supervisor = supervise([{ id: "counter", args: ["serve"], name: NAME }], { intensity: 3 });

  const counter = find();
  console.log(`add 2: ${ask(counter, "add 2")}, add 3: ${ask(counter, "add 3")}`);
  try {
    console.warn(`it did not crash: ${ask(counter, "crash")}`);
  } catch (error) {
    console.log(`${counter}: ${error}`);
  }
  const restarted = find();
  console.log(`${restarted} was started instead, at ${ask(restarted, "get")}`);

  unlink(supervisor);
  exit(supervisor);
}

/** Waits for the counter and returns its pid: after a crash its name is free until the supervisor has restarted it. */
function find(): Pid {
  for (let waitedMs = 0; waitedMs < PATIENCE_MS; waitedMs++) {
    const pid = whereis(NAME);
    if (pid !== undefined) return pid;
    sleep(1);
  }
  throw `there is no ${NAME}`;
}
