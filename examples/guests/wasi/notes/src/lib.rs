//! A component of `wasi:http/proxy` that keeps notes in the store of its node.
//!
//! ```text
//!   PUT /KEY, GET /KEY, DELETE /KEY     one note, in the bucket that the configuration names
//!   GET /                               the keys of all notes
//!   POST /KEY                           adds 1 to a number
//!   PUT /?a=1&b=2, DELETE /?a&b         several notes at once
//! ```

use std::io::{Read, Write};

use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{Fields, IncomingRequest, Method, OutgoingBody, OutgoingResponse, ResponseOutparam};

wit_bindgen::generate!({
    inline: "
        package rusm:notes;
        world notes {
            import wasi:keyvalue/store@0.2.0-draft;
            import wasi:keyvalue/atomics@0.2.0-draft;
            import wasi:keyvalue/batch@0.2.0-draft;
            import wasi:config/store@0.2.0-rc.1;
            import wasi:logging/logging@0.1.0-draft;
        }
    ",
    path: ["../../../../wit/wasi/keyvalue.wit", "../../../../wit/wasi/config.wit", "../../../../wit/wasi/logging.wit"],
    world: "rusm:notes/notes",
    generate_all,
});

use wasi::config::store as config;
use wasi::keyvalue::{atomics, batch, store};
use wasi::logging::logging::{Level, log};

struct Notes;

wasip2::http::proxy::export!(Notes);

impl Guest for Notes {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let target = request.path_with_query().unwrap_or_default();
        let method = request.method();
        log(Level::Info, "notes", &format!("{method:?} {target}"));
        let (status, text) = match answer(&method, &target, &request) {
            Ok(text) => (200, text),
            Err(store::Error::NoSuchStore) => (404, "no such bucket\n".to_owned()),
            Err(store::Error::AccessDenied) => (403, "the bucket is not granted\n".to_owned()),
            Err(store::Error::Other(why)) => (500, format!("{why}\n")),
        };
        respond(out, status, &text);
    }
}

fn answer(method: &Method, target: &str, request: &IncomingRequest) -> Result<String, store::Error> {
    let name = config::get("bucket").ok().flatten().unwrap_or_default();
    let bucket = store::open(&name)?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let key = path.trim_start_matches('/');
    let pairs = || query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    match method {
        Method::Put if key.is_empty() => {
            let rows: Vec<(String, Vec<u8>)> = pairs().map(|(key, value)| (key.to_owned(), value.into())).collect();
            batch::set_many(&bucket, &rows)?;
            Ok(format!("{} notes\n", rows.len()))
        }
        Method::Delete if key.is_empty() => {
            let keys: Vec<String> = pairs().map(|(key, _)| key.to_owned()).collect();
            let found = batch::get_many(&bucket, &keys)?.into_iter().flatten().count();
            batch::delete_many(&bucket, &keys)?;
            Ok(format!("{found} of {} notes\n", keys.len()))
        }
        Method::Put => {
            bucket.set(key, &body(request))?;
            Ok("kept\n".to_owned())
        }
        Method::Delete => {
            let was_there = bucket.exists(key)?;
            bucket.delete(key)?;
            Ok(format!("{was_there}\n"))
        }
        Method::Post => Ok(format!("{}\n", atomics::increment(&bucket, key, 1)?)),
        _ if key.is_empty() => {
            let mut page = bucket.list_keys(None)?;
            let mut keys = page.keys;
            while let Some(cursor) = page.cursor {
                page = bucket.list_keys(Some(cursor))?;
                keys.append(&mut page.keys);
            }
            Ok(keys.iter().map(|key| format!("{key}\n")).collect())
        }
        _ if key == "config" => {
            let mut values = config::get_all().unwrap_or_default();
            values.sort();
            Ok(values.iter().map(|(key, value)| format!("{key} = {value}\n")).collect())
        }
        _ => match bucket.get(key)? {
            Some(value) => Ok(format!("{}\n", String::from_utf8_lossy(&value))),
            None => Err(store::Error::Other(format!("no note {key:?}"))),
        },
    }
}

fn body(request: &IncomingRequest) -> Vec<u8> {
    let body = request.consume().expect("the first call");
    let mut stream = body.stream().expect("the first call");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("the client sends it");
    bytes
}

fn respond(out: ResponseOutparam, status: u16, text: &str) {
    let fields = Fields::new();
    fields.append("content-type", b"text/plain; charset=utf-8").expect("a valid field");
    fields.append("content-length", text.len().to_string().as_bytes()).expect("a valid field");
    let response = OutgoingResponse::new(fields);
    response.set_status_code(status).expect("a valid status");
    let body = response.body().expect("the first call");
    ResponseOutparam::set(out, Ok(response));
    let mut stream = body.write().expect("the first call");
    stream.write_all(text.as_bytes()).expect("the client reads");
    drop(stream);
    OutgoingBody::finish(body, None).expect("the declared length");
}
