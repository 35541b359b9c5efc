// All guests in one module, so that QuickJS is in the repository once: `rusm run guests.wasm counter`.

import { run as counter } from "./counter";
import { run as digest } from "./digest";
import { run as hello } from "./hello";
import { run as pingPong } from "./ping_pong";
import { roles } from "./rusm";

export const run = roles({ counter, digest, hello, "ping-pong": pingPong });
