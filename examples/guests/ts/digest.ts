// A service that computes SHA-2 digests; the node does the arithmetic.
//
//   call, tag 0 or 256    bytes ──▶ their SHA-256
//   call, tag 384, 512    bytes ──▶ their SHA-384, SHA-512
//   call, tag 1           n (four bytes, little-endian) ──▶ SHA-256 applied n times to 32 zero bytes
//   call, tag 2, 3        as tag 1 and tag 256, by `crypto.subtle`, which returns promises

import { actor, digest, label, type Message, messages } from "rusm";

type Answer = string | Uint8Array;

export const run = actor(async () => {
  label("digest service");
  for (const request of messages()) {
    const answered = answer(request);
    request.reply(answered instanceof Promise ? await answered : answered);
  }
});

function answer(request: Message): Answer | Promise<Answer> {
  switch (request.tag) {
    case 0:
    case 256:
      return digest("SHA-256", request.body);
    case 384:
      return digest("SHA-384", request.body);
    case 512:
      return digest("SHA-512", request.body);
    case 1:
      return chain(request.body);
    case 2:
      return subtleChain(request.body);
    case 3:
      return crypto.subtle.digest("SHA-256", request.body).then((made) => new Uint8Array(made));
    default:
      return `error: tag ${request.tag} is none of 0, 1, 2, 3, 256, 384, 512`;
  }
}

/** Computes a chain of digests, each of the previous one: much work for one message. */
function chain(length: Uint8Array): Answer {
  const count = countOf(length);
  if (count === undefined) return BAD_LENGTH;
  let link: Uint8Array = new Uint8Array(32);
  for (let made = 0; made < count; made++) link = digest("SHA-256", link);
  return link;
}

/** The same chain, with a promise for each digest. */
async function subtleChain(length: Uint8Array): Promise<Answer> {
  const count = countOf(length);
  if (count === undefined) return BAD_LENGTH;
  let link = new ArrayBuffer(32);
  for (let made = 0; made < count; made++) link = await crypto.subtle.digest("SHA-256", link);
  return new Uint8Array(link);
}

const BAD_LENGTH = "error: the length of a chain has four bytes";

function countOf(length: Uint8Array): number | undefined {
  if (length.length !== 4) return undefined;
  return new DataView(length.buffer, length.byteOffset).getUint32(0, true);
}
