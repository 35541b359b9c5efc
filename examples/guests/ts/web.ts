// Answers requests of HTTP as the guest `sockets` in Rust does: text, the request's body, events, and a WebSocket.

import { events, Response, serve, upgrade, type Request } from "rusm/http";

async function answer(request: Request): Promise<Response> {
  switch (request.path) {
    case "/echo":
      return new Response(await request.bytes());
    case "/json":
      return Response.json({ got: await request.json() }, { status: 201 });
    case "/digest": {
      const digest = await crypto.subtle.digest("SHA-256", await request.arrayBuffer());
      return new Response([...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join(""));
    }
    case "/events":
      return events(numbered());
    case "/socket":
      return upgrade((socket) => {
        for (let message = socket.receive(1000); message !== undefined; message = socket.receive(1000)) {
          if (message === "bye") socket.close(4000, "goodbye");
          else socket.send(message ?? "tick");
        }
      });
    case "/trap":
      throw new Error("an error before the response");
    case "/wrong":
      return new Response(null, { headers: { "a b": "c" } });
  }
  if (request.path.startsWith("/status/")) return new Response("", { status: Number(request.path.slice(8)) });
  return new Response(`${request.method} ${request.target} from ${request.headers.get("host")}\n`, {
    headers: { "content-type": "text/plain; charset=utf-8" },
  });
}

function* numbered(): Generator<{ id: string; data: string }> {
  for (let number = 1; number <= 3; number++) yield { id: String(number), data: `event ${number}` };
}

export const handler = serve(answer);
