// All guests in one module, so that the repository has only one copy of QuickJS: `rusm run guests.wasm counter`.

import { roles } from "rusm";
import { run as counter } from "./counter";
import { run as crash } from "./crash";
import { run as digest } from "./digest";
import { run as hello } from "./hello";
import { run as hog } from "./hog";
import { run as pingPong } from "./ping_pong";
import { run as spin } from "./spin";

export const run = roles({ counter, crash, digest, hello, hog, "ping-pong": pingPong, spin });
