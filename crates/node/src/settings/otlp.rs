//! `[otlp]`: export to a collector of OpenTelemetry.

use serde::Deserialize;

use crate::settings::error::SettingsError;
use crate::settings::raw::RawSetting;
use crate::settings::value::{PathText, Text, Time};

/// Settings of the export.
#[cfg(feature = "otlp")]
pub(crate) type OtlpSettings = rusm_otlp::OtlpConfig;

/// Settings of the export; none exist without the feature.
#[cfg(not(feature = "otlp"))]
#[derive(Clone, Copy, Debug)]
pub(crate) enum OtlpSettings {}

/// `[otlp]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct OtlpSection {
    endpoint: Option<RawSetting>,
    headers: Option<RawSetting>,
    timeout: Option<Time>,
    certificate: Option<PathText>,
    protocol: Option<RawSetting>,
    service_name: Option<Text>,
    attributes: Option<RawSetting>,
    interval: Option<Time>,
    metrics: Option<Export>,
    logs: Option<Export>,
    traces: Option<Export>,
}

impl OtlpSection {
    /// Returns the settings, if there is an endpoint. The name of the node is the name of the service.
    #[cfg(feature = "otlp")]
    pub(super) fn settings(self) -> Result<Option<OtlpSettings>, SettingsError> {
        use rusm_otlp::OtlpConfig;

        const PROTOCOL: &str = "http/json";

        if let Some(protocol) = self.protocol.filter(|raw| !raw.text().is_ok_and(|text| text == PROTOCOL)) {
            return Err(protocol.invalid(&format!("must be {PROTOCOL}, the only one that rusm supports")));
        }
        let Some(endpoint) = self.endpoint else { return Ok(None) };
        let default = OtlpConfig::new(endpoint.text()?);
        let is_on = |signal: Option<Export>| signal.is_none_or(|signal| signal.0);
        let config = OtlpConfig {
            headers: pairs(self.headers.as_ref())?,
            service_name: self.service_name.map(|name| name.0),
            attributes: pairs(self.attributes.as_ref())?,
            metrics: is_on(self.metrics),
            logs: is_on(self.logs),
            traces: is_on(self.traces),
            interval: self.interval.map_or(default.interval, |time| time.0),
            timeout: self.timeout.map_or(default.timeout, |time| time.0),
            certificate: self.certificate.map(|path| path.0),
            ..default
        };
        config.check().map_err(|error| SettingsError::Invalid(error.to_string()))?;
        Ok(Some(config))
    }

    #[cfg(not(feature = "otlp"))]
    pub(super) fn settings(self) -> Result<Option<OtlpSettings>, SettingsError> {
        let signals = [self.metrics, self.logs, self.traces];
        let is_off = signals.iter().all(|signal| signal.is_some_and(|signal| !signal.0));
        match self.endpoint {
            Some(endpoint) if !is_off => {
                Err(endpoint.invalid("cannot be used: this rusm is built without the feature otlp"))
            }
            _ => Ok(None),
        }
    }
}

/// Returns the settings of the export of a node: its service has the node's name, unless they name it.
#[cfg(feature = "otlp")]
pub(crate) fn of_node(otlp: Option<&OtlpSettings>, node: &str) -> Option<OtlpSettings> {
    let otlp = otlp?;
    let is_named = otlp.service_name.is_some() || otlp.attributes.iter().any(|(key, _)| key == "service.name");
    let service_name = if is_named { otlp.service_name.clone() } else { Some(node.to_owned()) };
    Some(OtlpSettings { service_name, ..otlp.clone() })
}

#[cfg(not(feature = "otlp"))]
pub(crate) fn of_node(otlp: Option<&OtlpSettings>, _: &str) -> Option<OtlpSettings> {
    otlp.copied()
}

/// Parses `key=value` pairs with commas between them.
#[cfg(feature = "otlp")]
fn pairs(raw: Option<&RawSetting>) -> Result<Vec<(String, String)>, SettingsError> {
    let Some(raw) = raw else { return Ok(Vec::new()) };
    rusm_otlp::parse_pairs(raw.text()?).map_err(|error| raw.invalid_secret(&format!("is not valid: {error}")))
}

/// True, false, or the names of exporters, of which `otlp` is this one.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "RawSetting")]
struct Export(bool);

impl TryFrom<RawSetting> for Export {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        let named = raw.text().ok().map(|text| text.split(',').any(|name| name.trim() == "otlp"));
        raw.value.as_bool().or(named).map(Self).ok_or_else(|| raw.wrong_type("true or false"))
    }
}

#[cfg(all(test, feature = "otlp"))]
mod tests {
    use std::time::Duration;

    use crate::settings::tests::settings;

    #[test]
    fn the_export_has_an_endpoint_and_the_standard_variables_win_over_the_file() {
        let file = "[node]\nname = \"shop\"\n[otlp]\nendpoint = \"http://collector:4318\"\ninterval = \"15s\"\n\
                    headers = \"api-key=a%20b\"\ntraces = false";
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://other/base"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
            ("OTEL_LOGS_EXPORTER", "none"),
            ("OTEL_SERVICE_NAME", ""),
            ("OTEL_PROPAGATORS", "baggage"),
        ];

        let found = settings(file, &variables).unwrap().otlp.unwrap();
        assert_eq!(found.endpoint, "https://other/base");
        assert_eq!(found.headers, [("api-key".to_owned(), "a b".to_owned())]);
        assert_eq!(found.attributes, [("deployment.environment.name".to_owned(), "test".to_owned())]);
        assert_eq!((found.metrics, found.logs, found.traces), (true, false, false));
        assert_eq!((found.interval, found.timeout), (Duration::from_secs(15), Duration::from_millis(2_500)));
        assert_eq!(found.service_name, None, "an empty variable is not set");
        let exported = settings(file, &variables).unwrap().exporter("rusm").unwrap();
        assert_eq!(exported.service_name.as_deref(), Some("shop"));
        let named = settings(file, &[("OTEL_RESOURCE_ATTRIBUTES", "service.name=till")]).unwrap().exporter("rusm");
        assert_eq!(named.unwrap().service_name, None, "the attribute names it");
        assert!(settings("", &[("OTEL_SERVICE_NAME", "shop")]).unwrap().otlp.is_none());
    }

    #[test]
    fn a_wrong_value_is_named_and_a_secret_is_not_shown() {
        let error = |file: &str| settings(&format!("[otlp]\n{file}"), &[]).unwrap_err().to_string();
        let with = |line: &str| error(&format!("endpoint = \"http://collector:4318\"\n{line}"));

        assert_eq!(
            error("endpoint = \"collector:4318\""),
            "the OTLP endpoint \"collector:4318\" must be an address such as http://127.0.0.1:4318"
        );
        assert_eq!(
            with("headers = \"secret\""),
            "otlp.headers in rusm.toml is not valid: part 1 must be key=value, with % only before two hexadecimal digits"
        );
        assert_eq!(
            with("protocol = \"grpc\""),
            "otlp.protocol of \"grpc\" in rusm.toml must be http/json, the only one that rusm supports"
        );
        assert!(with("interval = \"0s\"").contains("must be at least 1ms"));
        assert!(with("metric = true").ends_with("did you mean \"otlp.metrics\"?"));
    }
}
