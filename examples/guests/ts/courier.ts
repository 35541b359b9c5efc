// Carries messages from one topic of the node to another. A message is off the first one only once it is in the second, so
// one that a courier had when it ended is carried by the next.
//
//   FROM ──next──▶ courier ──publish──▶ TO, with key and attributes, and `carried`: how many it was; then ack
//     ▲               ├── `again` in front, at its first attempt ──▶ nack
//     └───────────────┘
//                     └── `stop` ──▶ ack, give up the share, and `N carried` as the last message
//
// Arguments: FROM and TO, `letters` and `delivered` without them; its profile must grant both.

import { actor, label } from "./rusm";
import { type Settled, Topic } from "./topics";

export const run = actor(([from = "letters", to = "delivered"]) => {
  label("courier");
  const [letters, delivered] = [new Topic(from).subscribe("courier"), new Topic(to)];
  for (let carried = 0; ; ) {
    const letter = letters.next();
    const text = letter.text();
    if (text === "stop") {
      said(letters.ack(letter));
      letters.unsubscribe();
      delivered.publish(`${carried} carried`);
      return;
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
