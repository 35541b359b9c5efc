// A service that computes SHA-2 digests; the node does the arithmetic.
//
//   call, tag 0 or 256    bytes ──▶ their SHA-256
//   call, tag 384, 512    bytes ──▶ their SHA-384, SHA-512
//   call, tag 1           n (four bytes, little-endian) ──▶ SHA-256 applied n times to 32 zero bytes

import { actor, digest, label, type Message, messages } from "rusm";

export const run = actor(() => {
  label("digest service");
  for (const request of messages()) request.reply(answer(request));
});

function answer(request: Message): string | Uint8Array {
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
    default:
      return `error: tag ${request.tag} is none of 0, 1, 256, 384, 512`;
  }
}

/** Computes a chain of digests, each of the previous one: much work for one message. */
function chain(length: Uint8Array): string | Uint8Array {
  if (length.length !== 4) return "error: the length of a chain has four bytes";
  const count = new DataView(length.buffer, length.byteOffset).getUint32(0, true);
  let link: Uint8Array = new Uint8Array(32);
  for (let made = 0; made < count; made++) link = digest("SHA-256", link);
  return link;
}
