// Web APIs that QuickJS lacks and the node can provide: console, TextEncoder, TextDecoder, crypto.

import world, { type Hash } from "rusm:runtime/crypto@0.1.0";
import log from "rusm:runtime/log@0.1.0";
import random from "rusm:runtime/random@0.1.0";
import { failure, trying } from "./error";
import "./promise";

type Level = "error" | "warn" | "info" | "debug";

// The interpreter has no TextEncoder. Its functions for base64 and for addresses do the same work many times faster than a
// loop: `encodeURIComponent` writes UTF-8 as `%` and two digits, which `unescape` makes characters below 256.

/** Encodes text as UTF-8; returns bytes unchanged. */
export function bytes(body: string | Uint8Array): Uint8Array {
  if (typeof body !== "string") return body;
  // UTF-8 cannot encode an unpaired surrogate.
  return Uint8Array.fromBase64(btoa(unescape(encodeURIComponent(body.toWellFormed()))));
}

/** Decodes UTF-8; bytes that are not valid become `�`. */
export function utf8(encoded: Uint8Array): string {
  try {
    return decodeURIComponent(escape(atob(encoded.toBase64())));
  } catch {
    return lossyUtf8(encoded);
  }
}

function lossyUtf8(encoded: Uint8Array): string {
  let text = "";
  for (let i = 0; i < encoded.length; ) {
    const first = encoded[i++]!;
    const more = first < 0x80 ? 0 : first >= 0xc2 && first < 0xe0 ? 1 : (first & 0xf0) === 0xe0 ? 2 : first >= 0xf0 && first < 0xf5 ? 3 : -1;
    let code = more < 0 ? -1 : first & (0x7f >> (more === 0 ? 0 : more + 1));
    for (let n = 0; n < more && code >= 0; n++) {
      const next = encoded[i] ?? 0;
      const isRest = (next & 0xc0) === 0x80;
      code = isRest ? (code << 6) | (next & 0x3f) : -1;
      if (isRest) i++;
    }
    const least = [0, 0x80, 0x800, 0x10000][more] ?? 0;
    const isCharacter = code >= least && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
    text += String.fromCodePoint(isCharacter ? code : 0xfffd);
  }
  return text;
}

const HASHES: Record<string, Hash> = { "SHA-256": "sha256", "SHA-384": "sha384", "SHA-512": "sha512" };

function hashOf(algorithm: string | { name: string }): Hash {
  const name = typeof algorithm === "string" ? algorithm : algorithm.name;
  const hash = HASHES[name] ?? HASHES[name.toUpperCase()];
  if (hash === undefined) throw new TypeError(`${JSON.stringify(name)} is none of ${Object.keys(HASHES).join(", ")}`);
  return hash;
}

/** Returns the digest of `data`, computed by the node: `digest("SHA-256", "text")`. */
export function digest(algorithm: string, data: string | Uint8Array): Uint8Array {
  const hash = hashOf(algorithm);
  const body = typeof data === "string" ? bytes(data) : data;
  // Do not use `trying`: creating a closure costs a tenth of a digest.
  try {
    return world.digest(hash, body);
  } catch (thrown) {
    throw failure(thrown);
  }
}

/** Returns the keyed digest (HMAC, RFC 2104) of `data`. */
export function hmac(algorithm: string, key: string | Uint8Array, data: string | Uint8Array): Uint8Array {
  const hash = hashOf(algorithm);
  return trying(() => world.hmac(hash, bytes(key), bytes(data)));
}

/** Returns random bytes from the operating system, at most 65,536. */
export function randomBytes(count: number): Uint8Array {
  return trying(() => random.bytes(count));
}

function view(data: ArrayBuffer | ArrayBufferView): Uint8Array {
  return data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

function show(value: unknown): string {
  if (typeof value === "string") return value;
  if (value instanceof Error || typeof value !== "object" || value === null) return String(value);
  // Prefer a `toString` that the object defines itself.
  return value.toString === Object.prototype.toString ? (JSON.stringify(value) ?? String(value)) : String(value);
}

const line =
  (level: Level) =>
  (...values: unknown[]): void =>
    log.line(level, values.map(show).join(" "));

const webConsole = { log: line("info"), info: line("info"), warn: line("warn"), error: line("error"), debug: line("debug") };

class WebTextEncoder {
  readonly encoding = "utf-8";
  encode(text = ""): Uint8Array {
    return bytes(text);
  }
}

class WebTextDecoder {
  readonly encoding = "utf-8";
  decode(data?: ArrayBuffer | ArrayBufferView): string {
    return data === undefined ? "" : utf8(view(data));
  }
}

const webCrypto = {
  subtle: {
    /** As on the Web: returns a promise. `digest` of this package returns the digest itself. */
    digest(algorithm: string | { name: string }, data: ArrayBuffer | ArrayBufferView): Promise<ArrayBuffer> {
      // No closure: creating one costs as much as the digest.
      try {
        const made = world.digest(hashOf(algorithm), view(data));
        const isWhole = made.byteLength === made.buffer.byteLength;
        return Promise.resolve((isWhole ? made : made.slice()).buffer as ArrayBuffer);
      } catch (thrown) {
        return Promise.reject(failure(thrown));
      }
    },
  },
  getRandomValues<T extends ArrayBufferView>(target: T): T {
    view(target).set(randomBytes(target.byteLength));
    return target;
  },
};

declare global {
  const btoa: (binary: string) => string;
  const atob: (base64: string) => string;
  interface Uint8Array {
    toBase64(): string;
  }
  interface Uint8ArrayConstructor {
    fromBase64(base64: string): Uint8Array<ArrayBuffer>;
  }
  interface String {
    toWellFormed(): string;
  }
  const console: typeof webConsole;
  const TextEncoder: typeof WebTextEncoder;
  const TextDecoder: typeof WebTextDecoder;
  const crypto: typeof webCrypto;
}

Object.assign(globalThis, {
  console: webConsole,
  TextEncoder: WebTextEncoder,
  TextDecoder: WebTextDecoder,
  crypto: webCrypto,
});
