//! `[[serve]]`: the servers of a node, with their routes to guests and folders.
//!
//! ```text
//!   [[serve]] listen, certificate, key ─▶ Site ◀─ [serve.limits] by name
//!     [[serve.route]] pattern ─▶ module with profile and limits, or folder
//! ```
//!
//! `docs/serve-command.md` describes every key; a test compares it with the fields of the sections below.

mod instances;
mod rates;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rusm_serve::{Limits, RateLimit, TlsFiles};
use rusm_wasm::{GuestLimits, InstanceReuse, Profiles, SANDBOXED};
use serde::Deserialize;
use toml::{Table, Value};

use crate::settings::error::SettingsError;
use crate::settings::layers::in_section;
use crate::settings::limits::{U32_MAX, section_with_limits};
use crate::settings::profile::known_profile;
use crate::settings::raw::{RawSetting, RawSettings, section, tables};
use crate::settings::value::{Flag, Number, Size, Strings, Text, Time};
use instances::Instances;

/// Address of a server if none is set.
pub(crate) const DEFAULT_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), DEFAULT_PORT);
const DEFAULT_PORT: u16 = 8080;
/// Keys of a route to a folder.
const KEYS_OF_FOLDER: [&str; 3] = ["pattern", "folder", "rate"];

/// `[[serve]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ServeSection {
    name: Option<Text>,
    listen: Option<ServeAddress>,
    certificate: Option<Text>,
    key: Option<Text>,
    access_log: Flag,
    health: Option<Flag>,
    limits: Option<RawSetting>,
    rate: Option<RawSetting>,
    route: Option<RawSetting>,
}

section_with_limits! {
    /// `[[serve.route]]`.
    struct RouteSection {
        pattern: Option<Text>,
        module: Option<Text>,
        folder: Option<Text>,
        args: Strings,
        profile: Option<RawSetting>,
        instances: Instances,
        rate: Option<RawSetting>,
    }
}

/// Defines `[serve.limits]`; its keys are those of [`Limits`].
macro_rules! serve_limits {
    ($($field:ident: $type:ty => $convert:expr,)+) => {
        /// `[serve.limits]`.
        #[derive(Debug, Default, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct ServeLimitsSection {
            $($field: Option<$type>,)+
        }

        impl ServeLimitsSection {
            fn limits(&self) -> Limits {
                let default = Limits::default();
                Limits {
                    $($field: self.$field.map_or(default.$field, |value| $convert(value.0)),)+
                }
            }
        }
    };
}

const fn as_is<T: Copy>(value: T) -> T {
    value
}

const fn u32_of(value: u64) -> u32 {
    value as u32
}

const fn usize_of(value: u64) -> usize {
    value as usize
}

serve_limits! {
    connections: Number<1, U32_MAX> => u32_of,
    in_flight: Number<1, U32_MAX> => u32_of,
    queue: Number<0, U32_MAX> => u32_of,
    queue_timeout: Time => as_is,
    target_bytes: Size<U32_MAX> => usize_of,
    head_bytes: Size<U32_MAX> => usize_of,
    head_fields: Number<1, 10_000> => usize_of,
    body_bytes: Size<{ u64::MAX }> => as_is,
    bodies_bytes: Size<{ u64::MAX }> => as_is,
    responses_bytes: Size<{ u64::MAX }> => as_is,
    head_timeout: Time => as_is,
    body_timeout: Time => as_is,
    handler_timeout: Time => as_is,
    idle_timeout: Time => as_is,
    write_timeout: Time => as_is,
    h2_streams: Number<1, U32_MAX> => u32_of,
    h2_resets: Number<1, U32_MAX> => usize_of,
    ws_frame_bytes: Size<U32_MAX> => usize_of,
    ws_message_bytes: Size<U32_MAX> => usize_of,
    ws_ping: Time => as_is,
}

/// A server with valid settings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Site {
    pub(crate) name: Option<String>,
    pub(crate) listen: SocketAddr,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) access_log: bool,
    /// True if it answers `/healthz` and `/readyz`.
    pub(crate) has_health: bool,
    pub(crate) limits: Limits,
    /// Limits of the rate of all requests.
    pub(crate) rates: Vec<RateLimit>,
    pub(crate) routes: Vec<SiteRoute>,
}

/// A route of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SiteRoute {
    pub(crate) pattern: String,
    pub(crate) target: Target,
    pub(crate) rates: Vec<RateLimit>,
}

impl Site {
    /// Returns the components that handle requests.
    pub(crate) fn guests(&self) -> impl Iterator<Item = &SiteGuest> {
        self.routes.iter().filter_map(SiteRoute::guest)
    }
}

impl SiteRoute {
    pub(crate) const fn guest(&self) -> Option<&SiteGuest> {
        match &self.target {
            Target::Guest(guest) => Some(guest),
            Target::Folder(_) => None,
        }
    }
}

/// The handler of the requests of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Guest(SiteGuest),
    Folder(PathBuf),
}

/// A component of `wasi:http`, with the settings of its instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SiteGuest {
    pub(crate) module: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) profile: String,
    pub(crate) limits: GuestLimits,
    pub(crate) reuse: InstanceReuse,
}

/// The parts of the settings that servers refer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    /// Name of the file.
    pub(super) origin: &'a str,
    /// Folder that relative paths start from.
    pub(super) dir: &'a Path,
    pub(super) modules: &'a BTreeMap<String, PathBuf>,
    pub(super) profiles: &'a Profiles,
    /// Number of guests that the engine can run at once.
    pub(super) capacity: u32,
}

/// Returns the place of a server in a file, for errors.
pub(super) fn site_origin(file: &str, number: usize, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{file} (serve {name:?})"),
        None => format!("{file} (serve {number})"),
    }
}

impl Context<'_> {
    /// Reads all `[[serve]]` entries.
    pub(super) fn sites(self, entries: Option<&Value>) -> Result<Vec<Site>, SettingsError> {
        let tables = tables(entries, "serve", "written as [[serve]]", self.origin)?;
        let sites: Vec<Site> =
            (1..).zip(tables).map(|(number, table)| self.site(number, table)).collect::<Result<_, _>>()?;
        for (index, site) in sites.iter().enumerate() {
            if site.listen.port() != 0 && sites[..index].iter().any(|other| other.listen == site.listen) {
                return Err(SettingsError::Shape {
                    key: "serve.listen".to_owned(),
                    origin: format!("{} (serve {})", self.origin, index + 1),
                    due: "another address than that of an earlier server",
                });
            }
        }
        Ok(sites)
    }

    fn site(self, number: usize, table: &Table) -> Result<Site, SettingsError> {
        let name = table.get("name").and_then(Value::as_str);
        let origin = site_origin(self.origin, number, name);
        let given: ServeSection = section(&in_section("serve", &origin, table.clone()), "serve", &origin)?;
        let entries = given.route.as_ref().map(|route| &route.value);
        let shape = "written as [[serve.route]]";
        let routes =
            tables(entries, "serve.route", shape, &origin)?.into_iter().map(|table| self.route(table, &origin));
        let routes: Vec<SiteRoute> = routes.collect::<Result<_, _>>()?;
        if routes.is_empty() {
            return Err(SettingsError::Missing { key: "serve.route", origin });
        }
        let limits = match given.limits.as_ref().map(|limits| &limits.value) {
            None => Table::new(),
            Some(Value::Table(limits)) => limits.clone(),
            Some(_) => {
                return Err(SettingsError::Shape {
                    key: "serve.limits".to_owned(),
                    origin,
                    due: "a section of its own",
                });
            }
        };
        self.finished(&given, limits, routes, origin)
    }

    /// Returns a site from its parts.
    fn finished(
        self,
        given: &ServeSection,
        limits: Table,
        routes: Vec<SiteRoute>,
        origin: String,
    ) -> Result<Site, SettingsError> {
        let is_bounded = limits.contains_key("in_flight");
        let limits: ServeLimitsSection =
            section(&in_section("serve.limits", &origin, limits), "serve.limits", &origin)?;
        let mut limits = limits.limits();
        let has_guests = routes.iter().any(|route| route.guest().is_some());
        if has_guests && !is_bounded {
            // A request that waits its turn is better than one that is refused for lack of an instance.
            limits.in_flight = limits.in_flight.min(self.capacity);
        }
        let path = |text: &Text| self.dir.join(&text.0);
        let tls = match (&given.certificate, &given.key) {
            (Some(certificate), Some(key)) => Some(TlsFiles { certificate: path(certificate), key: path(key) }),
            (None, None) => None,
            (Some(_), None) => return Err(SettingsError::Missing { key: "serve.key", origin }),
            (None, Some(_)) => return Err(SettingsError::Missing { key: "serve.certificate", origin }),
        };
        Ok(Site {
            name: given.name.as_ref().map(|name| name.0.clone()),
            listen: given.listen.map_or(DEFAULT_ADDRESS, |listen| listen.0),
            tls,
            access_log: given.access_log.0,
            has_health: given.health.is_none_or(|health| health.0),
            limits,
            rates: rates::rates(given.rate.as_ref(), "serve.rate", &origin)?,
            routes,
        })
    }

    fn route(self, table: &Table, origin: &str) -> Result<SiteRoute, SettingsError> {
        let origin = match table.get("pattern").and_then(Value::as_str) {
            Some(pattern) => format!("{origin}, route {pattern:?}"),
            None => origin.to_owned(),
        };
        let given: RouteSection = section(&in_section("serve.route", &origin, table.clone()), "serve.route", &origin)?;
        let Some(Text(pattern)) = &given.pattern else {
            return Err(SettingsError::Missing { key: "serve.route.pattern", origin });
        };
        let target = match (&given.module, &given.folder) {
            (Some(Text(module)), None) => {
                let module = self.modules.get(module).cloned().unwrap_or_else(|| self.dir.join(module));
                Target::Guest(self.guest(&given, module)?)
            }
            (None, Some(Text(folder))) => {
                if let Some(key) = table.keys().find(|key| !KEYS_OF_FOLDER.contains(&key.as_str())) {
                    return Err(SettingsError::NotForFolder { what: format!("serve.route.{key} in {origin}") });
                }
                Target::Folder(self.dir.join(folder))
            }
            (None, None) => {
                return Err(SettingsError::Missing { key: "serve.route.module or serve.route.folder", origin });
            }
            (Some(_), Some(_)) => {
                let (key, due) = ("serve.route".to_owned(), "either a module or a folder");
                return Err(SettingsError::Shape { key, origin, due });
            }
        };
        let rates = rates::rates(given.rate.as_ref(), "serve.route.rate", &origin)?;
        Ok(SiteRoute { pattern: pattern.clone(), target, rates })
    }

    fn guest(self, given: &RouteSection, module: PathBuf) -> Result<SiteGuest, SettingsError> {
        let profile = given.profile.as_ref().map(|raw| known_profile(raw, self.profiles)).transpose()?;
        Ok(SiteGuest {
            module,
            args: given.args.0.clone(),
            profile: profile.unwrap_or_else(|| SANDBOXED.to_owned()),
            limits: given.limits(),
            reuse: given.instances.0,
        })
    }

    /// Returns a site that answers all requests with one component or one folder, as the command line describes it.
    pub(super) fn single(self, target: &Path, site: &RawSettings, route: &RawSettings) -> Result<Site, SettingsError> {
        let given: ServeSection = section(site, "serve", self.origin)?;
        let of_route: RouteSection = section(route, "serve.route", self.origin)?;
        let target = if target.is_dir() {
            if let Some(flag) = route.values().next() {
                return Err(SettingsError::NotForFolder { what: flag.origin().to_owned() });
            }
            Target::Folder(target.to_owned())
        } else {
            Target::Guest(self.guest(&of_route, target.to_owned())?)
        };
        let routes = vec![SiteRoute { pattern: "/*".to_owned(), target, rates: Vec::new() }];
        self.finished(&given, Table::new(), routes, self.origin.to_owned())
    }
}

/// `"0.0.0.0:80"`, or a port of this machine alone.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "RawSetting")]
struct ServeAddress(SocketAddr);

impl TryFrom<RawSetting> for ServeAddress {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        let local = |port: u16| SocketAddr::new(DEFAULT_ADDRESS.ip(), port);
        let address = match &raw.value {
            Value::String(text) => match text.parse() {
                Ok(port) => Some(local(port)),
                Err(_) => text.replace("localhost:", "127.0.0.1:").parse().ok(),
            },
            Value::Integer(port) => u16::try_from(*port).ok().map(local),
            _ => return Err(raw.wrong_type("a string or a port")),
        };
        address
            .map(Self)
            .ok_or_else(|| raw.invalid("must be an address such as 127.0.0.1:8080 or 0.0.0.0:80, or a port"))
    }
}

#[cfg(test)]
mod tests;
