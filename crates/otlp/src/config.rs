//! Configuration of an exporter, from the program or from the standard variables of OpenTelemetry.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use http::header::{HeaderName, HeaderValue};
use thiserror::Error;

/// Standard variables that [`OtlpConfig::with_environment`] reads.
pub const VARIABLES: [&str; 11] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_SERVICE_NAME",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_METRIC_EXPORT_INTERVAL",
    "OTEL_METRICS_EXPORTER",
    "OTEL_LOGS_EXPORTER",
    "OTEL_TRACES_EXPORTER",
];

/// The only encoding: OTLP over HTTP with JSON.
const PROTOCOL: &str = "http/json";

/// Configuration of an exporter.
///
/// ```
/// # mod rusm { pub use rusm_otlp as otlp; }
/// use std::time::Duration;
///
/// use rusm::otlp::OtlpConfig;
///
/// let mut config = OtlpConfig::new("http://127.0.0.1:4318");
/// config.service_name = Some("shop".to_owned());
/// config.interval = Duration::from_secs(10);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct OtlpConfig {
    /// Base address of the collector, such as `http://127.0.0.1:4318`; `/v1/metrics`, `/v1/logs` and `/v1/traces` are added.
    pub endpoint: String,
    /// Headers of each request, for example an API key. They are never printed.
    pub headers: Vec<(String, String)>,
    /// Value of `service.name`. Default: none, which means the name of the program.
    pub service_name: Option<String>,
    /// Further attributes of the resource.
    pub attributes: Vec<(String, String)>,
    /// True if metrics are exported. Default: true.
    pub metrics: bool,
    /// True if events of `tracing` are exported as logs. Default: true.
    pub logs: bool,
    /// True if spans of `tracing` are exported as traces. Default: true.
    pub traces: bool,
    /// Time between two exports of metrics. Default: 60 s.
    pub interval: Duration,
    /// Time that a record waits for others, so that they are sent together. Default: 1 s.
    pub delay: Duration,
    /// Time limit of a request. Default: 10 s.
    pub timeout: Duration,
    /// Pause before the second try of a request; each further pause is twice as long, up to 30 s. Default: 1 s.
    pub first_pause: Duration,
    /// File with the certificates, in PEM format, that sign the one of the collector. Default: none, which means those of
    /// Mozilla.
    pub certificate: Option<PathBuf>,
}

/// Error of the configuration or of the start of an exporter.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// A value breaks a rule.
    #[error("{0}")]
    Invalid(String),
    /// The thread cannot be started.
    #[error("cannot start the thread rusm-otlp: {0}")]
    Thread(std::io::Error),
}

fn invalid<T>(message: String) -> Result<T, OtlpError> {
    Err(OtlpError::Invalid(message))
}

impl OtlpConfig {
    /// Returns the defaults for a collector at this address.
    pub fn new(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            headers: Vec::new(),
            service_name: None,
            attributes: Vec::new(),
            metrics: true,
            logs: true,
            traces: true,
            interval: Duration::from_mins(1),
            delay: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
            first_pause: Duration::from_secs(1),
            certificate: None,
        }
    }

    /// Replaces values by those of the [standard variables](VARIABLES) that are set and not empty.
    ///
    /// # Errors
    /// [`OtlpError::Invalid`] names the variable with a wrong value.
    pub fn with_environment(mut self) -> Result<Self, OtlpError> {
        for name in VARIABLES {
            if let Some(value) = std::env::var(name).ok().filter(|value| !value.is_empty()) {
                self.set(name, &value)?;
            }
        }
        Ok(self)
    }

    /// Sets the value of a standard variable; other variables are ignored.
    ///
    /// # Errors
    /// [`OtlpError::Invalid`] names the variable.
    pub fn set(&mut self, variable: &str, value: &str) -> Result<(), OtlpError> {
        let milliseconds = || match value.trim().parse() {
            Ok(ms) => Ok(Duration::from_millis(ms)),
            Err(_) => invalid(format!("{variable} of {value:?} must be a number of milliseconds")),
        };
        let pairs = || match parse_pairs(value) {
            Ok(pairs) => Ok(pairs),
            Err(error) => invalid(format!("{variable}: {error}")),
        };
        // Other exporters may be set for other programs: `none` and `prometheus` both mean that this one is off.
        let is_on = || value.split(',').any(|name| name.trim() == "otlp");
        match variable {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => value.clone_into(&mut self.endpoint),
            "OTEL_EXPORTER_OTLP_HEADERS" => self.headers = pairs()?,
            "OTEL_EXPORTER_OTLP_TIMEOUT" => self.timeout = milliseconds()?,
            "OTEL_EXPORTER_OTLP_CERTIFICATE" => self.certificate = Some(value.into()),
            "OTEL_EXPORTER_OTLP_PROTOCOL" if value.trim() != PROTOCOL => {
                return invalid(format!("{variable} of {value:?} must be {PROTOCOL}, the only one that rusm supports"));
            }
            "OTEL_SERVICE_NAME" => self.service_name = Some(value.to_owned()),
            "OTEL_RESOURCE_ATTRIBUTES" => self.attributes = pairs()?,
            "OTEL_METRIC_EXPORT_INTERVAL" => self.interval = milliseconds()?,
            "OTEL_METRICS_EXPORTER" => self.metrics = is_on(),
            "OTEL_LOGS_EXPORTER" => self.logs = is_on(),
            "OTEL_TRACES_EXPORTER" => self.traces = is_on(),
            _ => {}
        }
        Ok(())
    }

    /// Returns the address of a signal.
    pub(crate) fn uri(&self, path: &str) -> Result<Uri, OtlpError> {
        let endpoint = &self.endpoint;
        let uri = format!("{}{path}", endpoint.trim_end_matches('/')).parse::<Uri>().ok();
        let is_valid = |uri: &Uri| {
            let has_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
            has_scheme && uri.query().is_none() && uri.authority().is_some_and(|host| !host.as_str().contains('@'))
        };
        match uri.filter(is_valid) {
            Some(uri) => Ok(uri),
            // It may have a password before the `@`.
            None if endpoint.contains('@') => {
                invalid("the OTLP endpoint must be an address such as http://127.0.0.1:4318, without a user".to_owned())
            }
            None => invalid(format!("the OTLP endpoint {endpoint:?} must be an address such as http://127.0.0.1:4318")),
        }
    }

    /// Returns the headers in the form of requests.
    pub(crate) fn parsed_headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>, OtlpError> {
        let parse = |(name, value): &(String, String)| {
            let header = name.parse::<HeaderName>().ok().zip(HeaderValue::from_str(value).ok());
            header.map_or_else(|| invalid(format!("the OTLP header {name:?} is not a valid HTTP header")), Ok)
        };
        self.headers.iter().map(parse).collect()
    }
}

impl fmt::Debug for OtlpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of headers are secrets.
        let headers: Vec<&String> = self.headers.iter().map(|(name, _)| name).collect();
        let Self { endpoint, service_name, attributes, metrics, logs, traces, interval, .. } = self;
        f.debug_struct("OtlpConfig")
            .field("endpoint", endpoint)
            .field("headers", &headers)
            .field("service_name", service_name)
            .field("attributes", attributes)
            .field("metrics", metrics)
            .field("logs", logs)
            .field("traces", traces)
            .field("interval", interval)
            .finish_non_exhaustive()
    }
}

/// Parses `key=value,key2=value2`, the format of headers and of attributes of the resource. Bytes of values may be
/// percent-encoded.
///
/// # Errors
/// The part that is not a pair. The text does not contain its value, which may be a secret.
pub fn parse_pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty()).enumerate();
    parts
        .map(|(index, part)| {
            let wrong = || format!("part {} must be key=value, with % only before two hexadecimal digits", index + 1);
            let (key, value) = part.split_once('=').ok_or_else(wrong)?;
            let key = key.trim();
            let value = decoded(value.trim()).filter(|_| !key.is_empty()).ok_or_else(wrong)?;
            Ok((key.to_owned(), value))
        })
        .collect()
}

/// Replaces `%20` by the byte that it means.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded_and_a_wrong_one_is_named_without_its_value() {
        let pairs = parse_pairs("api-key=s%3Dcret%2c, team = shop floor ,").unwrap();
        let expected = [("api-key", "s=cret,"), ("team", "shop floor")];
        assert_eq!(pairs, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));

        for wrong in ["secret", "a=1,secret", "=secret", "a=%2", "a=%zz", "a=%+1", "a=%ff"] {
            let error = parse_pairs(wrong).unwrap_err();
            assert!(error.starts_with("part ") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn standard_variables_are_read_and_a_wrong_value_names_its_variable() {
        let mut config = OtlpConfig::new("http://127.0.0.1:4318");
        for (variable, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://otlp.example/base/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_SERVICE_NAME", "shop"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "5000"),
            ("OTEL_METRICS_EXPORTER", "prometheus,otlp"),
            ("OTEL_LOGS_EXPORTER", "none"),
            ("OTEL_OTHER", "ignored"),
        ] {
            config.set(variable, value).unwrap();
        }

        assert_eq!(config.uri("/v1/logs").unwrap().to_string(), "https://otlp.example/base/v1/logs");
        assert_eq!((config.timeout, config.interval), (Duration::from_millis(2_500), Duration::from_secs(5)));
        assert_eq!((config.metrics, config.logs, config.traces), (true, false, true));
        assert_eq!(config.service_name.as_deref(), Some("shop"));
        assert!(!format!("{config:?}").contains("secret"));
        config.check().unwrap();

        let error = |variable: &str, value: &str| config.clone().set(variable, value).unwrap_err().to_string();
        assert_eq!(
            error("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            "OTEL_EXPORTER_OTLP_PROTOCOL of \"grpc\" must be http/json, the only one that rusm supports"
        );
        assert_eq!(
            error("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
            "OTEL_EXPORTER_OTLP_TIMEOUT of \"10s\" must be a number of milliseconds"
        );
        assert!(error("OTEL_EXPORTER_OTLP_HEADERS", "x").starts_with("OTEL_EXPORTER_OTLP_HEADERS: part 1 must be"));
    }

    #[test]
    fn an_address_without_a_scheme_and_a_header_that_http_forbids_are_errors() {
        for endpoint in ["127.0.0.1:4318", "ftp://host", "http://", "http://user:word@host", "http://host/?a=b", ""] {
            let error = OtlpConfig::new(endpoint).check().unwrap_err().to_string();
            assert!(error.contains("must be an address such as http://127.0.0.1:4318"), "{endpoint}: {error}");
            assert!(!error.contains("word"), "{error}");
        }
        let headers = vec![("two words".to_owned(), "secret".to_owned())];
        let error = OtlpConfig { headers, ..OtlpConfig::new("http://host") }.check().unwrap_err().to_string();
        assert_eq!(error, "the OTLP header \"two words\" is not a valid HTTP header");
    }
}
