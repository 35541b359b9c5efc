// Sends the messages of a topic to its client as server-sent events: `GET /NAME` sends those of the topic NAME from now
// on. The stream ends when the topic is closed.
//
// The profile must grant the topic.

import { RusmError } from "rusm/error";
import { events, Response, serve, type Request } from "rusm/http";
import { type Listener, Topic } from "rusm/topics";
import { utf8 } from "rusm/web";

function answer(request: Request): Response {
  // Listens before the head is sent, so that a client that has the head misses nothing.
  let listener: Listener;
  try {
    listener = new Topic(request.path.slice(1)).listen();
  } catch (thrown) {
    if (!(thrown instanceof RusmError)) throw thrown;
    return new Response(`${thrown}\n`, { status: thrown.kind === "denied" ? 403 : 404 });
  }
  return events(messages(listener));
}

function* messages(listener: Listener): Generator<string> {
  for (;;) {
    try {
      yield utf8(listener.hear().payload);
    } catch (thrown) {
      if (thrown instanceof RusmError && thrown.kind === "no-such") return;
      throw thrown;
    }
  }
}

export const handler = serve(answer);
