// A service that keeps values in the node's store; large values are sent and received through streams.
//
//   call, tag 1    key, 0, value    ──▶ `kept`
//   call, tag 2    key              ──▶ the value
//   call, tag 3    pid, key         ──▶ the number of bytes; a stream to that process carries the value
//   call, tag 4    key, 0, new key  ──▶ `moved`, unless the key does not exist or the new one does
//   the end of a stream             its bytes become the value of the key `stream`
//
// The values are in the bucket `keeper`, which the profile must grant.

import { Bucket, Commit } from "rusm/kv";
import { actor, label, type Message, Pid, receive } from "rusm";
import { Reader, Writer } from "rusm/streams";

const VALUES = new Bucket("keeper");
/** Capacity of a stream in bytes. */
const CAPACITY = 4096;

export const run = actor(() => {
  label("keeper");
  for (;;) {
    const next = receive();
    if (next.kind === "message") {
      try {
        answer(next);
      } catch (error) {
        next.reply(`error: ${error instanceof Error ? error.message : String(error)}`);
      }
    } else if (next.kind === "opaque" && next.type === "stream-reader") {
      const reader = Reader.accept();
      if (reader === undefined) continue;
      VALUES.put("stream", reader.readToEnd());
      reader.close();
    }
  }
});

function answer(request: Message): void {
  switch (request.tag) {
    case 1:
      keep(request.body);
      request.reply("kept");
      break;
    case 2:
      request.reply(valueOf(request.body));
      break;
    case 3:
      give(request);
      break;
    case 4:
      rename(request.body);
      request.reply("moved");
      break;
    default:
      throw new Error(`tag ${request.tag} is none of 1 to 4`);
  }
}

function keep(row: Uint8Array): void {
  const [key, value] = halves(row);
  VALUES.put(key, value);
}

/** Moves a value atomically: no reader sees it under both keys, or under neither. */
function rename(keys: Uint8Array): void {
  const [from, to] = halves(keys);
  const value = valueOf(from);
  const commit = new Commit().expect(VALUES, from, value).expect(VALUES, to, undefined);
  if (!commit.put(VALUES, to, value).delete(VALUES, from).run()) throw new Error("something has changed");
}

function halves(both: Uint8Array): [Uint8Array, Uint8Array] {
  const end = both.indexOf(0);
  if (end < 0) throw new Error("between key and value there is a byte 0");
  return [both.slice(0, end), both.slice(end + 1)];
}

function valueOf(key: Uint8Array): Uint8Array {
  const value = VALUES.get(key);
  if (value === undefined) throw new Error("no such key");
  return value;
}

/** Replies before it writes: the caller may start to read only after the reply. */
function give(request: Message): void {
  const to = Pid.fromBytes(request.body);
  if (to === undefined) throw new Error("a request begins with the twelve bytes of a pid");
  const value = valueOf(request.body.slice(12));
  const writer = Writer.open(to, CAPACITY);
  request.reply(String(value.length));
  writer.write(value);
  writer.close();
}
