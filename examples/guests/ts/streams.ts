// Bytes from one process to another, and two ends that notice each other's death. To open one needs the capability
// `streams`; an end that was given to this process is its own to use.
//
// An end comes as `{ kind: "opaque", type: "stream-reader" }` or `"stream-writer"`, and is accepted then. A guest that imports
// this targets the world `rusm:runtime/streaming` beside `actor` (keeper.wit does).

import world from "rusm:runtime/streams@0.1.0";
import { trying } from "./error";
import type { Data, Pid } from "./rusm";
import { bytes } from "./web";

/** The end of a stream that writes. */
export class Writer {
  constructor(private readonly stream: number) {}

  /** Opens a stream that holds at most `capacity` bytes, a power of two up to 1,048,576; the end that reads goes to a process. */
  static open(to: Pid, capacity: number): Writer {
    return new Writer(trying(() => world.open(to, capacity)));
  }

  /** The oldest end that came and was not accepted yet: one that writes, as its type said. */
  static accept(): Writer | undefined {
    const stream = world.accept();
    return stream === null ? undefined : new Writer(stream);
  }

  /** Writes all of the bytes, and waits while there is no room for them. */
  write(data: Data): void {
    trying(() => world.write(this.stream, bytes(data)));
  }

  /** Ends the stream; the reader still gets what is there. */
  close(): boolean {
    return world.close(this.stream);
  }
}

/** The end of a stream that reads. */
export class Reader {
  constructor(private readonly stream: number) {}

  /** The oldest end that came and was not accepted yet: one that reads, as its type said. */
  static accept(): Reader | undefined {
    const stream = world.accept();
    return stream === null ? undefined : new Reader(stream);
  }

  /** At most so many bytes, at least one, as soon as there are any; none at the end of the stream. */
  read(most: number): Uint8Array {
    return trying(() => world.read(this.stream, most));
  }

  /** All bytes up to the end of the stream. */
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

  /** Reads no more; the writer is told. */
  close(): boolean {
    return world.close(this.stream);
  }
}
