// Carries messages from one topic of the node to another. A message is off the first one only once it is in the second, so
// one that a courier had when it ended is carried by the next.
//
//   FROM ──next──▶ courier ──publish──▶ TO, with key and attributes, and `carried`: how many it was; then ack
//     ▲               ├── `again` in front, at its first attempt ──▶ nack
//     └───────────────┘
//                     ├── `bundle` ──▶ all that wait are carried at once
//                     ├── `hear` ──▶ says `listening`, and then the next message of FROM as it is published: `heard …`
//                     └── `stop` ──▶ ack, give up the share, and `N carried` as the last message
//
// Arguments: FROM and TO, `letters` and `delivered` without them; its profile must grant both.

import { actor, label } from "./rusm";
import { type Settled, Topic } from "./topics";
import { utf8 } from "./web";

export const run = actor(([from = "letters", to = "delivered"]) => {
  label("courier");
  // What was posted before the first courier came is carried, too, and all of a key in its order.
  const options = { ordered: true, oldest: true, ackDeadlineMs: 600_000 };
  const [source, delivered] = [new Topic(from), new Topic(to)];
  const letters = source.subscribeWith("courier", options);
  for (let carried = 0; ; ) {
    const letter = letters.next();
    const text = letter.text();
    if (text === "stop") {
      said(letters.ack(letter));
      letters.unsubscribe();
      delivered.publish(`${carried} carried`);
      return;
    }
    if (text === "bundle") {
      said(letters.extend(letter, 1_000));
      const bundle = letters.nextBatch(100);
      carried += bundle.length;
      delivered.publishAll(bundle);
      letters.ackAll(bundle);
      said(letters.ack(letter));
      continue;
    }
    if (text === "hear") {
      const listener = source.listen({ tag: "drop-oldest", val: 8 });
      delivered.publish("listening");
      const heard = listener.hear();
      listener.stop();
      delivered.publish(`heard ${utf8(heard.payload)}`);
      said(letters.ack(letter));
      continue;
    }
    if (letter.attempt === 1 && text.startsWith("again")) {
      said(letters.nack(letter));
      continue;
    }
    carried++;
    const attributes: [string, string][] = [...letter.attributes, ["carried", String(carried)]];
    delivered.publish(letter.payload, { key: letter.key, attributes });
    said(letters.ack(letter));
  }
});

/** A letter that was taken away meanwhile is carried by somebody else too. */
function said(settled: Settled): void {
  if (settled !== "done") console.warn(`a letter was not settled: ${settled}`);
}
