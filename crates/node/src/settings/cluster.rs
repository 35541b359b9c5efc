//! `[cluster]`: how a node joins others.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

use crate::settings::error::SettingsError;
use crate::settings::raw::RawSetting;
use crate::settings::value::Text;

/// Default port of a node for other nodes.
pub(crate) const DEFAULT_PORT: u16 = 7447;

/// Settings of a node that joins others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterSettings {
    /// Address at which other nodes connect.
    pub(crate) listen: SocketAddr,
    /// Nodes to join, as `HOST:PORT`.
    pub(crate) join: Vec<String>,
    /// Name of the cluster, which all certificates have.
    pub(crate) name: String,
    /// Folder with the certificates; `None` for a node that stays on this machine.
    pub(crate) certificates: Option<PathBuf>,
}

/// `[cluster]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ClusterSection {
    enabled: Option<Enabled>,
    listen: Option<Listen>,
    join: Option<Join>,
    name: Option<Text>,
    certificates: Option<Text>,
}

impl ClusterSection {
    /// Returns the settings, if the node joins others: it is told to, or has nodes to join.
    pub(super) fn settings(self) -> Option<ClusterSettings> {
        let join = self.join.map(|join| join.0).unwrap_or_default();
        let is_enabled = self.enabled.map_or_else(|| !join.is_empty() || self.listen.is_some(), |enabled| enabled.0);
        is_enabled.then(|| ClusterSettings {
            listen: self.listen.map_or_else(|| SocketAddr::from(([127, 0, 0, 1], DEFAULT_PORT)), |listen| listen.0),
            join,
            name: self.name.map_or_else(|| "rusm".to_owned(), |name| name.0),
            certificates: self.certificates.map(|dir| dir.0.into()),
        })
    }
}

/// True or false; the flag has it as text.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "RawSetting")]
struct Enabled(bool);

impl TryFrom<RawSetting> for Enabled {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        let text = raw.text().ok().and_then(|text| text.parse().ok());
        raw.value.as_bool().or(text).map(Self).ok_or_else(|| raw.wrong_type("true or false"))
    }
}

/// `"10.0.0.4:7447"`, or an IP address alone, for the default port.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "RawSetting")]
struct Listen(SocketAddr);

impl TryFrom<RawSetting> for Listen {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        let text = raw.text()?;
        let address = text.parse().ok().or_else(|| Some(SocketAddr::new(text.parse().ok()?, DEFAULT_PORT)));
        address
            .map(Self)
            .ok_or_else(|| raw.invalid("must be an IP address, with or without a port, such as 10.0.0.4:7447"))
    }
}

/// Nodes to join: a list, or text with commas between them. The default port is added.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawSetting")]
struct Join(Vec<String>);

impl TryFrom<RawSetting> for Join {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        let hosts = match raw.text() {
            Ok(text) => text.split(',').map(|host| host.trim().to_owned()).collect(),
            Err(_) => raw.strings()?,
        };
        // An address of IPv6 may have the brackets that it has before a port.
        let bare = |host: &'_ str| host.strip_prefix('[')?.strip_suffix(']').map(ToOwned::to_owned);
        let with_port = |host: &String| match bare(host).as_ref().unwrap_or(host).parse::<std::net::IpAddr>() {
            Ok(address) => SocketAddr::new(address, DEFAULT_PORT).to_string(),
            Err(_) if host.contains(':') => host.clone(),
            Err(_) => format!("{host}:{DEFAULT_PORT}"),
        };
        let is_valid = |host: &str| {
            host.rsplit_once(':').is_some_and(|(host, port)| {
                let is_name = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
                !host.is_empty() && host.chars().all(is_name) && port.parse::<u16>().is_ok_and(|port| port != 0)
            })
        };
        let hosts: Vec<String> = hosts.iter().map(with_port).collect();
        match hosts.iter().find(|host| !is_valid(host)) {
            Some(wrong) => Err(raw.invalid_part(wrong, "must be a host with or without a port, such as 10.0.0.4:7447")),
            None => Ok(Self(hosts)),
        }
    }
}
