// Forwards messages from one topic of the node to another. A message is acknowledged in the first topic only after it
// was published to the second, so another courier forwards what a courier had leased when it ended.
//
//   FROM ──next──▶ courier ──publish──▶ TO, with key and attributes, and its number as `carried`; then ack
//     ▲               ├── begins with `again`, first attempt ──▶ nack
//     └───────────────┘
//                     ├── `bundle` ──▶ forwards all waiting messages as one batch
//                     ├── `hear` ──▶ publishes `listening`, then the next message published to FROM, as `heard …`
//                     └── `stop` ──▶ ack, unsubscribe, and publish `N carried` as the last message
//
// Arguments: FROM and TO, by default `letters` and `delivered`. The profile must grant both topics.

import { actor, label } from "rusm";
import { type Settled, Topic } from "rusm/topics";
import { utf8 } from "rusm/web";

export const run = actor(([from = "letters", to = "delivered"]) => {
  label("courier");
  // Also forward messages published before the first courier started, and keep the order within a key.
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

/** Logs a message that this courier no longer had leased: another courier forwards it again. */
function said(settled: Settled): void {
  if (settled !== "done") console.warn(`a letter was not settled: ${settled}`);
}
