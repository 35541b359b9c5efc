// Two processes send a number back and forth.
//
//   pinger ── pid of the pinger, number ──▶ ponger
//          ◀────── number ─────────────────
//
// Without arguments it starts its own ponger and runs the pinger; with the argument `pong` it runs only the ponger.

import { actor, exit, label, messages, nowNs, Pid, receive, self, send, spawnLink, unlink } from "rusm";

/** Default number of round trips; the first argument overrides it. */
const ROUND_TRIPS = "10000";

export const run = actor(([argument = ROUND_TRIPS]) => {
  if (argument === "pong") pong();
  else if (/^\d+$/.test(argument)) ping(Number(argument));
  else throw `${JSON.stringify(argument)} is no number of round trips`;
});

function ping(roundTrips: number): void {
  const ponger = spawnLink({ args: ["pong"] });
  const started = nowNs();

  // A message does not carry its sender: include the pid for the reply.
  const from = self().toBytes();
  for (let number = 0; number < roundTrips; number++) {
    const bytes = new Uint8Array(16);
    bytes.set(from);
    new DataView(bytes.buffer).setUint32(12, number, true);
    send(ponger, bytes);
    const pong = receive();
    const back = pong.kind === "message" ? new DataView(pong.body.buffer, pong.body.byteOffset).getUint32(0, true) : NaN;
    if (back !== number) throw `number ${number} came back as ${back}`;
  }

  console.log(`${roundTrips} round trips in ${(nowNs() - started) / 1e6} ms`);
  unlink(ponger);
  exit(ponger);
}

/** Sends the bytes after the pid back to that pid. */
function pong(): void {
  label("ponger");
  for (const ping of messages()) {
    const from = Pid.fromBytes(ping.body);
    if (from === undefined) throw "a ping begins with the twelve bytes of a pid";
    send(from, ping.body.subarray(12));
  }
}
