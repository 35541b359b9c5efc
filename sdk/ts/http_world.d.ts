// The interfaces of `rusm:http`, as componentize-qjs passes them to JavaScript.

declare module "rusm:http/types@0.1.0" {
  export type Fields = [string, string][];
  export interface WorldRequest {
    method: string;
    target: string;
    headers: Fields;
    body: Uint8Array;
    peer: string;
  }
  export interface WorldResponse {
    status: number;
    headers: Fields;
    body: Uint8Array;
  }
  export type WorldMessage = { tag: "text"; val: string } | { tag: "binary"; val: Uint8Array };
}

declare module "rusm:http/streaming@0.1.0" {
  import type { Fields } from "rusm:http/types@0.1.0";
  const streaming: {
    start(status: number, headers: Fields): boolean;
    write(part: Uint8Array): boolean;
  };
  export default streaming;
}

declare module "rusm:http/websocket@0.1.0" {
  import type { WorldMessage } from "rusm:http/types@0.1.0";
  export type Event = { tag: "message"; val: WorldMessage } | { tag: "timeout" } | { tag: "closed" };
  const websocket: {
    accept(): void;
    receive(timeoutMs: number | null): Event;
    send(message: WorldMessage): boolean;
    close(code: number, reason: string): void;
  };
  export default websocket;
}
