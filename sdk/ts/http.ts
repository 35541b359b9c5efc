// Components that answer requests of HTTP, with `Request`, `Response` and `Headers` as on the Web.
//
//   import { serve, Response } from "rusm/http";
//
//   export const handler = serve(async (request) => {
//     const order = await request.json();
//     return Response.json({ taken: order });
//   });
//
// Each request has an instance of its own, so a call that waits delays nobody else. The functions are those of
// wit/http/http.wit.

/// <reference path="./world.d.ts" />
/// <reference path="./http_world.d.ts" />

import streaming from "rusm:http/streaming@0.1.0";
import type { Fields, WorldRequest, WorldResponse } from "rusm:http/types@0.1.0";
import websocket from "rusm:http/websocket@0.1.0";
import { settled } from "./promise";
import { bytes, utf8 } from "./web";

/** Content of a response. */
export type BodyInit = string | Uint8Array | ArrayBuffer | null;

// An interpreter runs what follows for every request. Fields are therefore not private by `#`, which at this target would be
// a look-up in a table, loops do not destructure, and what few requests need is made when it is asked for.

/** Header fields; names are compared without case. */
export class Headers implements Iterable<[string, string]> {
  /** @internal */
  fields: Fields;

  constructor(init?: Headers | Fields | Record<string, string>) {
    this.fields = [];
    if (init === undefined) return;
    const entries = init instanceof Headers ? init.fields : Array.isArray(init) ? init : Object.entries(init);
    for (let i = 0; i < entries.length; i++) this.append(entries[i]![0], entries[i]![1]);
  }

  /** @internal Takes fields whose names are in lower case, without a copy. */
  static of(fields: Fields): Headers {
    const headers = new Headers();
    headers.fields = fields;
    return headers;
  }

  append(name: string, value: string): void {
    this.fields.push([name.toLowerCase(), value]);
  }

  /** All values of the field, separated by commas; null if there is none. */
  get(name: string): string | null {
    const { fields } = this;
    const wanted = name.toLowerCase();
    let values: string | null = null;
    for (let i = 0; i < fields.length; i++) {
      const field = fields[i]!;
      if (field[0] === wanted) values = values === null ? field[1] : `${values}, ${field[1]}`;
    }
    return values;
  }

  has(name: string): boolean {
    return this.get(name) !== null;
  }

  set(name: string, value: string): void {
    this.delete(name);
    this.append(name, value);
  }

  delete(name: string): void {
    const wanted = name.toLowerCase();
    this.fields = this.fields.filter((field) => field[0] !== wanted);
  }

  [Symbol.iterator](): Iterator<[string, string]> {
    return this.fields[Symbol.iterator]();
  }

  forEach(call: (value: string, name: string) => void): void {
    for (const [name, value] of this.fields) call(value, name);
  }
}

/** A body that is read as a whole. */
class Body {
  bodyUsed = false;

  /** @internal What is read, or goes to the client, which is not a use of the body. */
  constructor(readonly content: Uint8Array) {}

  bytes(): Promise<Uint8Array> {
    if (this.bodyUsed) return Promise.reject(new TypeError("the body was read already"));
    this.bodyUsed = true;
    return Promise.resolve(this.content);
  }

  arrayBuffer(): Promise<ArrayBuffer> {
    return this.bytes().then((content) => content.slice().buffer as ArrayBuffer);
  }

  text(): Promise<string> {
    return this.bytes().then(utf8);
  }

  json(): Promise<unknown> {
    return this.text().then((text) => JSON.parse(text) as unknown);
  }
}

/** A request. */
export class Request extends Body {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: Headers;
  /** Address of the client. */
  readonly peer: string;

  constructor(world: WorldRequest) {
    super(world.body);
    this.method = world.method;
    this.target = world.target;
    this.headers = Headers.of(world.headers);
    this.peer = world.peer;
  }

  /** The target with the host that the client has named. */
  get url(): string {
    return `http://${this.headers.get("host") ?? "localhost"}${this.target}`;
  }

  /** Path of the target. */
  get path(): string {
    const { target } = this;
    const end = target.indexOf("?");
    return end < 0 ? target : target.slice(0, end);
  }
}

/** A response. */
export class Response extends Body {
  readonly status: number;
  readonly headers: Headers;

  constructor(body: BodyInit = null, init: { status?: number; headers?: Headers | Fields | Record<string, string> } = {}) {
    super(body === null ? new Uint8Array() : body instanceof ArrayBuffer ? new Uint8Array(body) : bytes(body));
    this.status = init.status ?? 200;
    this.headers = new Headers(init.headers);
    if (typeof body === "string" && !this.headers.has("content-type")) {
      this.headers.append("content-type", "text/plain;charset=UTF-8");
    }
  }

  get ok(): boolean {
    return this.status >= 200 && this.status < 300;
  }

  static json(value: unknown, init: { status?: number } = {}): Response {
    return new Response(JSON.stringify(value), { ...init, headers: { "content-type": "application/json" } });
  }

  static redirect(url: string, status = 302): Response {
    return new Response(null, { status, headers: { location: url } });
  }
}

/** An event of a stream, or its data. */
export type ServerEvent = string | { data: string; id?: string; event?: string };

/** Sends server-sent events, as fast as the client reads; ends when the client leaves. */
export function events(all: Iterable<ServerEvent>): Response {
  streaming.start(200, [
    ["content-type", "text/event-stream"],
    ["cache-control", "no-cache"],
  ]);
  for (const one of all) {
    const event = typeof one === "string" ? { data: one } : one;
    const line = (name: string, value?: string): string => (value === undefined ? "" : `${name}: ${value.replace(/[\r\n\0]/g, "")}\n`);
    const data = event.data.split(/\r\n|\n|\r/).map((part) => `data: ${part}\n`);
    if (!streaming.write(bytes(`${line("id", event.id)}${line("event", event.event)}${data.join("")}\n`))) break;
  }
  return new Response();
}

/** A WebSocket, on the side of the server. */
export interface Socket {
  /** Waits for a message; undefined once the client has gone, null if none comes within the time. */
  receive(timeoutMs?: number): string | Uint8Array | null | undefined;
  /** Sends a message; false once the client has gone. */
  send(message: string | Uint8Array): boolean;
  close(code?: number, reason?: string): void;
}

const socket: Socket = {
  receive(timeoutMs) {
    const event = websocket.receive(timeoutMs ?? null);
    return event.tag === "message" ? event.val.val : event.tag === "timeout" ? null : undefined;
  },
  send(message) {
    return websocket.send(typeof message === "string" ? { tag: "text", val: message } : { tag: "binary", val: message });
  },
  close(code = 1000, reason = "") {
    websocket.close(code, reason);
  },
};

/** Makes a WebSocket of the connection, and runs a function on it; throws if the client did not ask for one. */
export function upgrade(run: (socket: Socket) => void): Response {
  websocket.accept();
  run(socket);
  return new Response();
}

/** The export of a component that answers requests. */
export interface Handler {
  handle(request: WorldRequest): WorldResponse;
}

/** Makes a function the handler of this component: `export const handler = serve(…)`. */
export function serve(answer: (request: Request) => Response | Promise<Response>): Handler {
  return {
    handle(world) {
      const response = settled(answer(new Request(world)));
      return { status: response.status, headers: response.headers.fields, body: response.content };
    },
  };
}
