//! The files of a project in TypeScript: a program, the SDK, the interfaces of the node, and how npm builds it.

/// The program that a project starts with.
const PROGRAM: &str = "\
// Answers requests of HTTP: curl http://127.0.0.1:8080/you

import { Response, serve } from \"rusm/http\";

export const handler = serve(async (request) => {
  if (request.method === \"POST\") return Response.json({ got: await request.json() });
  return new Response(`hello, ${request.path.slice(1) || \"world\"}\\n`);
});
";

const WORLD: &str = include_str!("../../../../examples/guests/ts/web.wit");

const TSCONFIG: &str = "\
{
  \"compilerOptions\": {
    \"target\": \"es2020\", \"module\": \"es2020\", \"moduleResolution\": \"bundler\", \"lib\": [\"es2020\"], \"types\": [], \"strict\": true,
    \"noUncheckedIndexedAccess\": true, \"noEmit\": true, \"paths\": { \"rusm/*\": [\"./sdk/*\"] }
  },
  \"include\": [\"src/*.ts\", \"sdk/*.ts\"]
}
";

/// The SDK, and the interfaces that it calls.
const PARTS: [(&str, &str); 11] = [
    ("sdk/http.ts", include_str!("../../../../sdk/ts/http.ts")),
    ("sdk/http_world.d.ts", include_str!("../../../../sdk/ts/http_world.d.ts")),
    ("sdk/promise.ts", include_str!("../../../../sdk/ts/promise.ts")),
    ("sdk/web.ts", include_str!("../../../../sdk/ts/web.ts")),
    ("sdk/error.ts", include_str!("../../../../sdk/ts/error.ts")),
    ("sdk/words.ts", include_str!("../../../../sdk/ts/words.ts")),
    ("sdk/world.d.ts", include_str!("../../../../sdk/ts/world.d.ts")),
    ("wit/deps/http/http.wit", include_str!("../../../../wit/http/http.wit")),
    ("wit/deps/runtime/rusm.wit", include_str!("../../../../wit/runtime/rusm.wit")),
    ("wit/deps/runtime/streams.wit", include_str!("../../../../wit/runtime/streams.wit")),
    ("wit/deps/runtime/topics.wit", include_str!("../../../../wit/runtime/topics.wit")),
];

/// Path of the component in a project of this name.
pub(super) fn component(name: &str) -> String {
    format!("build/{name}.wasm")
}

/// Returns the files of a project, each with its path.
pub(super) fn files(name: &str) -> Vec<(&'static str, String)> {
    let own = [
        ("package.json", package(name)),
        ("tsconfig.json", TSCONFIG.to_owned()),
        ("src/app.ts", PROGRAM.to_owned()),
        ("wit/web.wit", WORLD.to_owned()),
        (".gitignore", "/build\n/node_modules\n".to_owned()),
    ];
    own.into_iter().chain(PARTS.map(|(path, text)| (path, text.to_owned()))).collect()
}

fn package(name: &str) -> String {
    let component = component(name);
    format!(
        "{{\n  \"name\": \"{name}\",\n  \"private\": true,\n  \"type\": \"module\",\n  \"scripts\": {{\n    \"check\": \"tsc\",\n    \
         \"build\": \"esbuild src/app.ts --bundle --format=esm --platform=neutral --target=es2016 --external:rusm:* \
         --log-level=warning --outfile=build/app.js && componentize-qjs --wit wit --js build/app.js --world web --sync \
         --stub-wasi --minify --output {component}\"\n  }},\n  \"devDependencies\": {{ \"componentize-qjs\": \"0.4.5\", \
         \"esbuild\": \"0.28.2\", \"typescript\": \"5.9.3\" }}\n}}\n"
    )
}
