// Byte streams between processes. Each end notices when the other's process ends. Opening a stream needs the capability
// `streams`; using an end that was sent to this process does not.
//
// An end is received as `{ kind: "opaque", type: "stream-reader" }` or `"stream-writer"`, and must then be accepted.
// A guest that imports this module must target the world `rusm:runtime/streaming` besides `actor`, as
// examples/guests/ts/keeper.wit does.

import world from "rusm:runtime/streams@0.1.0";
import { trying } from "./error";
import type { Data, Pid } from "./rusm";
import { bytes } from "./web";

/** Writing end of a stream. */
export class Writer {
  constructor(private readonly stream: number) {}

  /** Opens a stream of at most `capacity` bytes, a power of two up to 1,048,576. Sends the reading end to `to`. */
  static open(to: Pid, capacity: number): Writer {
    return new Writer(trying(() => world.open(to, capacity)));
  }

  /** Accepts the oldest end that was received and not yet accepted. Call it for the type `stream-writer`. */
  static accept(): Writer | undefined {
    const stream = world.accept();
    return stream === null ? undefined : new Writer(stream);
  }

  /** Writes all bytes, and waits while the stream is full. */
  write(data: Data): void {
    trying(() => world.write(this.stream, bytes(data)));
  }

  /** Ends the stream; the reader still gets the bytes in it. Returns false if the end does not exist. */
  close(): boolean {
    return world.close(this.stream);
  }
}

/** Reading end of a stream. */
export class Reader {
  constructor(private readonly stream: number) {}

  /** Accepts the oldest end that was received and not yet accepted. Call it for the type `stream-reader`. */
  static accept(): Reader | undefined {
    const stream = world.accept();
    return stream === null ? undefined : new Reader(stream);
  }

  /** Returns at most `most` bytes, and waits until there is at least one; returns no bytes at the end of the stream. */
  read(most: number): Uint8Array {
    return trying(() => world.read(this.stream, most));
  }

  /** Returns all bytes up to the end of the stream. */
  readToEnd(): Uint8Array {
    const parts: Uint8Array[] = [];
    let length = 0;
    for (let part = this.read(65536); part.length > 0; part = this.read(65536)) {
      parts.push(part);
      length += part.length;
    }
    const all = new Uint8Array(length);
    let at = 0;
    for (const part of parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }

  /** Closes the reading end; further writes fail. Returns false if the end does not exist. */
  close(): boolean {
    return world.close(this.stream);
  }
}
