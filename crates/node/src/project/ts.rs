//! The files of a project in TypeScript: a program, the SDK, the interfaces of the node, and how npm builds it.

use super::kind::{Kind, Project};

/// Programs that a project starts with. The guest is also an example that tests run.
const GUEST: &str = include_str!("../../../../examples/guests/ts/hello.ts");
const HTTP: &str = "\
// Answers HTTP requests: curl http://127.0.0.1:8080/you

import { Response, serve } from \"rusm/http\";

export const handler = serve(async (request) => {
  if (request.method === \"POST\") return Response.json({ got: await request.json() });
  return new Response(`hello, ${request.path.slice(1) || \"world\"}\\n`);
});
";

/// The worlds of the components. A component imports all of its world.
const GUEST_WORLD: &str = "\
package rusm:guests;

world app {
    include rusm:runtime/actor@0.1.0;
    include rusm:runtime/streaming@0.1.0;
    // For topics.ts and kv.ts, on a node that has topics and a store:
    // include rusm:runtime/publishing@0.1.0;
    // include rusm:store/storage@0.1.0;
}
";
const HTTP_WORLD: &str = include_str!("../../../../examples/guests/ts/web.wit");

const TSCONFIG: &str = "\
{
  \"compilerOptions\": {
    \"target\": \"es2020\", \"module\": \"es2020\", \"moduleResolution\": \"bundler\", \"lib\": [\"es2020\"], \"types\": [], \"strict\": true,
    \"noUncheckedIndexedAccess\": true, \"noEmit\": true, \"paths\": { \"rusm\": [\"./sdk/rusm\"], \"rusm/*\": [\"./sdk/*\"] }
  },
  \"include\": [\"src/*.ts\", \"sdk/*.ts\"]
}
";

/// The SDK and the interfaces that it calls: those that every component needs, and the others.
const SDK: [(&str, &str); 8] = [
    ("sdk/promise.ts", include_str!("../../../../sdk/ts/promise.ts")),
    ("sdk/web.ts", include_str!("../../../../sdk/ts/web.ts")),
    ("sdk/error.ts", include_str!("../../../../sdk/ts/error.ts")),
    ("sdk/words.ts", include_str!("../../../../sdk/ts/words.ts")),
    ("sdk/world.d.ts", include_str!("../../../../sdk/ts/world.d.ts")),
    ("wit/deps/runtime/rusm.wit", include_str!("../../../../wit/runtime/rusm.wit")),
    ("wit/deps/runtime/streams.wit", include_str!("../../../../wit/runtime/streams.wit")),
    ("wit/deps/runtime/topics.wit", include_str!("../../../../wit/runtime/topics.wit")),
];
const GUEST_SDK: [(&str, &str); 5] = [
    ("sdk/rusm.ts", include_str!("../../../../sdk/ts/rusm.ts")),
    ("sdk/streams.ts", include_str!("../../../../sdk/ts/streams.ts")),
    ("sdk/topics.ts", include_str!("../../../../sdk/ts/topics.ts")),
    ("sdk/kv.ts", include_str!("../../../../sdk/ts/kv.ts")),
    ("wit/deps/store/kv.wit", include_str!("../../../../wit/store/kv.wit")),
];
const HTTP_SDK: [(&str, &str); 3] = [
    ("sdk/http.ts", include_str!("../../../../sdk/ts/http.ts")),
    ("sdk/http_world.d.ts", include_str!("../../../../sdk/ts/http_world.d.ts")),
    ("wit/deps/http/http.wit", include_str!("../../../../wit/http/http.wit")),
];

/// Returns a project of this name.
pub(super) fn project(kind: Kind, name: &str) -> Project {
    let (program, world, further) = match kind {
        Kind::Guest => (GUEST, GUEST_WORLD.to_owned(), &GUEST_SDK[..]),
        Kind::Http => (HTTP, HTTP_WORLD.replace("world web", "world app"), &HTTP_SDK[..]),
    };
    let component = format!("build/{name}.wasm");
    let mut files = vec![
        ("package.json", package(name, &component)),
        ("tsconfig.json", TSCONFIG.to_owned()),
        ("src/app.ts", program.to_owned()),
        ("wit/app.wit", world),
        (".gitignore", "/build\n/node_modules\n".to_owned()),
    ];
    files.extend(SDK.iter().chain(further).map(|(path, text)| (*path, (*text).to_owned())));
    Project { files, component, needs: "needs Node 18 or newer, with npm".to_owned() }
}

fn package(name: &str, component: &str) -> String {
    format!(
        "{{\n  \"name\": \"{name}\",\n  \"private\": true,\n  \"type\": \"module\",\n  \"scripts\": {{\n    \"check\": \"tsc\",\n    \
         \"build\": \"esbuild src/app.ts --bundle --format=esm --platform=neutral --target=es2016 --external:rusm:* \
         --log-level=warning --outfile=build/app.js && componentize-qjs --wit wit --js build/app.js --world app --sync \
         --stub-wasi --minify --output {component}\"\n  }},\n  \"devDependencies\": {{ \"componentize-qjs\": \"0.4.5\", \
         \"esbuild\": \"0.28.2\", \"typescript\": \"5.9.3\" }}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_every_file_that_it_imports() {
        for kind in [Kind::Guest, Kind::Http] {
            let project = project(kind, "my-shop");
            let text = |wanted: &str| {
                project.files.iter().find(|(path, _)| *path == wanted).map_or("", |(_, text)| text.as_str())
            };

            assert!(text("package.json").contains(&format!("--output {}", project.component)));
            let imports = project.files.iter().flat_map(|(_, text)| text.lines()).filter_map(|line| {
                let (_, from) = line.split_once(" from \"./")?;
                from.split('"').next()
            });
            let missing: Vec<&str> = imports.filter(|name| text(&format!("sdk/{name}.ts")).is_empty()).collect();
            assert!(missing.is_empty(), "{missing:?}");
            assert!(text("wit/app.wit").contains("world app {"));
        }
    }
}
