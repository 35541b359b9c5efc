//! Fields of a response as HTTP wants them, whatever its handler says: those that tell where its body ends, and those of
//! HTTP/2.

use http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, Method, StatusCode};
use http_body::Body as _;

use crate::request::Response;

/// Makes the fields of a response tell where its body ends. They are the server's: a handler that could choose them would
/// write the next response of the connection, too.
pub(super) fn declare_framing(response: &mut Response, method: &Method) {
    response.headers_mut().remove(TRANSFER_ENCODING);
    let Some(declared) = response.headers().get(CONTENT_LENGTH) else { return };
    let status = response.status();
    // These describe a body that is not sent.
    let is_described = *method == Method::HEAD || status == StatusCode::NOT_MODIFIED;
    // Digits alone: `+7` is a number to `parse`, but not to clients.
    let digits = declared.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let declared = digits.and_then(|text| text.parse::<u64>().ok());
    let is_one = response.headers().get_all(CONTENT_LENGTH).iter().nth(1).is_none();
    let exact = response.body().size_hint().exact().filter(|_| !is_described);
    match exact {
        _ if status == StatusCode::NO_CONTENT => drop(response.headers_mut().remove(CONTENT_LENGTH)),
        Some(bytes) if declared != Some(bytes) || !is_one => {
            drop(response.headers_mut().insert(CONTENT_LENGTH, bytes.into()));
        }
        // Also checks the length of a described body: clients would refuse anything but digits.
        None if declared.is_none() || !is_one => drop(response.headers_mut().remove(CONTENT_LENGTH)),
        _ => {}
    }
}

/// Fields of a connection, which HTTP/2 does not have.
const CONNECTION_FIELDS: [HeaderName; 6] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Removes what clients of HTTP/2 must refuse: fields of a connection, and blanks around values. After this, nothing else
/// removes a field.
pub(super) fn fit_http2(headers: &mut HeaderMap) {
    for name in &CONNECTION_FIELDS {
        headers.remove(name);
    }
    for value in headers.values_mut() {
        let bytes = value.as_bytes();
        let is_blank = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b' ' | b'\t'));
        if !is_blank(bytes.first()) && !is_blank(bytes.last()) {
            continue;
        }
        if let Ok(mut trimmed) = HeaderValue::from_bytes(bytes.trim_ascii()) {
            trimmed.set_sensitive(value.is_sensitive());
            *value = trimmed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Body;

    /// Returns the lengths that a response declares in the end.
    fn declared(status: u16, method: &Method, body: Body, fields: &[&str]) -> Vec<String> {
        let mut response = http::Response::builder().status(status);
        for field in fields {
            response = response.header(CONTENT_LENGTH, *field);
        }
        let mut response = response.header(TRANSFER_ENCODING, "chunked").body(body).expect("valid fields");
        declare_framing(&mut response, method);
        assert!(!response.headers().contains_key(TRANSFER_ENCODING));
        let fields = response.headers().get_all(CONTENT_LENGTH).iter();
        fields.map(|field| field.to_str().expect("digits").to_owned()).collect()
    }

    #[test]
    fn the_length_of_a_known_body_is_declared_whatever_its_handler_says() {
        let known = || Body::from("0123456789");
        let stream = || Body::stream(futures_util::stream::empty::<Result<Vec<u8>, crate::BoxError>>());
        for wrong in [&["5"][..], &["50"], &["-1"], &["+10"], &["five"], &["10", "10"], &["10", "5"]] {
            assert_eq!(declared(200, &Method::GET, known(), wrong), ["10"], "{wrong:?}");
        }
        assert_eq!(declared(200, &Method::GET, Body::empty(), &["3"]), ["0"]);
        assert_eq!(declared(200, &Method::GET, known(), &["10"]), ["10"]);
        assert!(declared(200, &Method::GET, known(), &[]).is_empty());
        // The connection counts the bytes of a stream.
        assert_eq!(declared(200, &Method::GET, stream(), &["7"]), ["7"]);
        assert!(declared(200, &Method::GET, stream(), &["7", "7"]).is_empty());
        assert!(declared(200, &Method::GET, stream(), &["+7x"]).is_empty());
        assert!(declared(200, &Method::GET, stream(), &["+7"]).is_empty());
        assert!(declared(200, &Method::HEAD, Body::empty(), &["+7"]).is_empty());
        // These have no body.
        assert_eq!(declared(200, &Method::HEAD, Body::empty(), &["7"]), ["7"]);
        assert_eq!(declared(304, &Method::GET, Body::empty(), &["7"]), ["7"]);
        assert!(declared(204, &Method::GET, Body::empty(), &["7"]).is_empty());
    }

    #[test]
    fn http2_has_no_fields_of_a_connection_and_no_blanks_around_values() {
        let response = http::Response::builder().header("a", " one two\t").header("a", "\t").header("b", "x");
        let response = response.header("connection", "b").header("keep-alive", "timeout=5");
        let mut response = response.body(Body::empty()).expect("valid fields");

        fit_http2(response.headers_mut());

        let values = response.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        assert_eq!(values.collect::<Vec<_>>(), [("a", &b"one two"[..]), ("a", b""), ("b", b"x")]);
    }
}
