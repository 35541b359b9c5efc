//! Routes: which handler answers which method, host and path.
//!
//! ```text
//!   GET /users/:id      one segment, read by `request.param("id")`
//!   /files/*            any method; the rest of the path, read by `request.param("rest")`
//!   GET api.local/      only for this host
//! ```

mod canonical;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use http::header::{ALLOW, HOST};
use http::{HeaderValue, Method, StatusCode};
use rusm_runtime::embed::PerScheduler;
use thiserror::Error;

use self::canonical::canonical;
use crate::handler::{Handler, ResponseFuture};
use crate::limits::rate::{RateLimit, RateLimiter};
use crate::request::{IntoResponse, Params, Request, plain};
use crate::stats::route::RouteStats;

/// Name of the parameter that stands for the rest of a path.
const REST: &str = "rest";
/// Largest number of parameters of a path; the library panics beyond it.
const PARAMETERS_MAX: usize = 25;

/// Reason why a route was not added.
#[derive(Debug, Error)]
pub enum RouteError {
    /// The pattern is not valid.
    #[error("invalid route `{pattern}`: {why}")]
    Invalid {
        /// The pattern.
        pattern: String,
        /// The mistake, and the valid form.
        why: String,
    },
}

/// A table of routes, which is a [`Handler`].
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::{Request, Router};
///
/// let router = Router::new()
///     .route("GET /", async |_: Request| "hello\n")?
///     .route("GET /users/:id", async |request: Request| format!("user {}\n", request.param("id").unwrap_or("")))?;
/// # Ok::<(), rusm::serve::RouteError>(())
/// ```
#[derive(Default)]
pub struct Router {
    hosts: BTreeMap<Option<Box<str>>, HostRoutes>,
    routes: Vec<Arc<Route>>,
}

/// The routes of a host, or of all hosts, by method; without a method, of any.
#[derive(Default)]
struct HostRoutes(Vec<(Option<Method>, Vec<Paths>)>);

/// Paths that the library can tell from each other; the others of the same method are in further tables.
#[derive(Default)]
struct Paths {
    table: matchit::Router<usize>,
    targets: Vec<PathTarget>,
}

struct PathTarget {
    rank: Rank,
    /// The path without the names of its parameters.
    shape: String,
    route: RouteRefs,
}

/// How exact the path of a route is, the most exact one first: by the kinds of its segments, from the first one on.
type Rank = Box<[SegmentKind]>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SegmentKind {
    Literal,
    Parameter,
    Rest,
}

/// A handler with its figures.
pub(crate) struct Route {
    label: Arc<str>,
    limits: Vec<RateLimit>,
    /// Figures and limiters go on after a reload: they are those of the route with the same label before it.
    stats: OnceLock<Arc<RouteStats>>,
    rates: OnceLock<Arc<[RateLimiter]>>,
    /// True if the handler runs in the process of the connection.
    pub(crate) is_inline: bool,
    /// True if no limit of the rate or of the requests in flight counts for it.
    pub(crate) is_unlimited: bool,
    pub(crate) handler: Box<dyn Handler>,
}

/// Determines the process that runs the handler of a route, and whether limits admit its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    Process,
    Inline,
    Unlimited,
}

/// A reference to a route, for a request.
pub(crate) type RouteRef = Arc<Arc<Route>>;

/// References to a route. Each scheduler counts those of its requests by itself, so that schedulers do not wait for one
/// count.
#[derive(Debug)]
pub(crate) struct RouteRefs(PerScheduler<RouteRef>);

impl RouteRefs {
    pub(crate) fn new(route: &Arc<Route>) -> Self {
        Self(PerScheduler::new(|| Arc::new(Arc::clone(route))))
    }

    /// Returns a reference that this scheduler counts.
    pub(crate) fn here(&self) -> RouteRef {
        Arc::clone(self.0.here())
    }
}

/// Target of a request.
pub(crate) enum Routed {
    Found(RouteRef, Params),
    /// The path exists for other methods.
    NotAllowed(String),
    NotFound,
}

impl Route {
    /// Creates the route of the requests that lead nowhere.
    pub(crate) fn unrouted() -> Self {
        Self::new("(no route)", Vec::new(), Box::new(async |_: Request| Routed::refusal(None)))
    }

    pub(crate) fn new(pattern: &str, limits: Vec<RateLimit>, handler: Box<dyn Handler>) -> Self {
        let (stats, rates) = (OnceLock::new(), OnceLock::new());
        Self { label: pattern.into(), limits, stats, rates, is_inline: false, is_unlimited: false, handler }
    }

    pub(crate) const fn label(&self) -> &Arc<str> {
        &self.label
    }

    pub(crate) fn stats(&self) -> &Arc<RouteStats> {
        self.stats.get_or_init(|| Arc::new(RouteStats::new(&self.label)))
    }

    pub(crate) fn rates(&self) -> &[RateLimiter] {
        self.rates.get_or_init(|| self.limits.iter().copied().map(RateLimiter::new).collect())
    }

    /// Goes on with the figures of this route before a reload, and with its limiters if the limits are the same.
    fn resume(&self, before: &Self) {
        // Both are unset in a route that has answered nothing.
        drop(self.stats.set(Arc::clone(before.stats())));
        if self.limits == before.limits
            && let Some(rates) = before.rates.get()
        {
            drop(self.rates.set(Arc::clone(rates)));
        }
    }
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Route").field(&self.label).finish()
    }
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.routes.iter().map(|route| route.label())).finish()
    }
}

impl Router {
    /// Creates a table without routes, which answers 404.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a route: a method, which may be left out, a host, which may be left out, and a path.
    ///
    /// # Errors
    /// [`RouteError`] if the pattern is not valid, or exists already.
    pub fn route(mut self, pattern: &str, handler: impl Handler) -> Result<Self, RouteError> {
        self.add(pattern, Vec::new(), Admission::Process, Box::new(handler))?;
        Ok(self)
    }

    /// Adds a route with a handler that runs in the process of the connection. This is for handlers that do little: a
    /// request costs less, and observers see its CPU time as that of its connection.
    ///
    /// A panic still answers 500 to that request alone, and [`Limits::handler_timeout`](crate::Limits) drops the
    /// handler. A WebSocket or a streamed body has a process of its own from its start on. To exit the process of such a
    /// request ends its connection. HTTP/2 requests always have a process.
    ///
    /// # Errors
    /// [`RouteError`] if the pattern is not valid, or exists already.
    pub fn inline_route(mut self, pattern: &str, handler: impl Handler) -> Result<Self, RouteError> {
        self.add(pattern, Vec::new(), Admission::Inline, Box::new(handler))?;
        Ok(self)
    }

    /// Adds a route for checks of the server's health: no limit of the rate or of the requests in flight refuses its
    /// requests, or lets them wait. Its handler runs as that of an [`inline_route`](Self::inline_route).
    ///
    /// # Errors
    /// [`RouteError`] if the pattern is not valid, or exists already.
    pub fn unlimited_route(mut self, pattern: &str, handler: impl Handler) -> Result<Self, RouteError> {
        self.add(pattern, Vec::new(), Admission::Unlimited, Box::new(handler))?;
        Ok(self)
    }

    /// Adds a route with limits of the rate, all of which its requests must keep.
    ///
    /// ```
    /// # mod rusm { pub use rusm_serve as serve; }
    /// use rusm::serve::{RateLimit, Request, Router};
    ///
    /// let per_client = RateLimit::token_bucket(10.0, 20)?.per_client();
    /// let router = Router::new().limited_route("POST /login", [per_client], async |_: Request| "hello\n")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RouteError`] if the pattern is not valid, or exists already.
    pub fn limited_route(
        mut self,
        pattern: &str,
        limits: impl IntoIterator<Item = RateLimit>,
        handler: impl Handler,
    ) -> Result<Self, RouteError> {
        self.add(pattern, limits.into_iter().collect(), Admission::Process, Box::new(handler))?;
        Ok(self)
    }

    fn add(
        &mut self,
        pattern: &str,
        limits: Vec<RateLimit>,
        admission: Admission,
        handler: Box<dyn Handler>,
    ) -> Result<(), RouteError> {
        let invalid = |why: &str| RouteError::Invalid { pattern: pattern.to_owned(), why: why.to_owned() };
        let (method, target) = match pattern.split_once(' ') {
            None => (None, pattern),
            Some((method, target)) => {
                let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
                let method = is_method.then(|| Method::from_bytes(method.as_bytes()).ok()).flatten();
                (
                    Some(method.ok_or_else(|| invalid("the method is written in capitals, as in `GET /`"))?),
                    target.trim(),
                )
            }
        };
        let start = target.find('/').ok_or_else(|| invalid("the path starts with `/`, as in `GET /users/:id`"))?;
        let (host, path) = target.split_at(start);
        if target.contains(|character: char| character.is_whitespace() || "?#".contains(character)) {
            return Err(invalid("it has one space at most, after the method, and no query"));
        }
        if host.contains(':') && !host.ends_with(']') {
            return Err(invalid("a host is written without a port"));
        }
        let path = Pattern::parse(path).map_err(&invalid)?;
        let host = (!host.is_empty()).then(|| host.to_ascii_lowercase().into_boxed_str());
        let (is_inline, is_unlimited) = (admission != Admission::Process, admission == Admission::Unlimited);
        let route = Arc::new(Route { is_inline, is_unlimited, ..Route::new(pattern, limits, handler) });
        let target = PathTarget { rank: path.rank(), shape: path.shape(), route: RouteRefs::new(&route) };
        let path = path.matchit();
        let tables = self.hosts.entry(host).or_default().tables(method);
        if tables.iter().flat_map(|paths| &paths.targets).any(|known| known.shape == target.shape) {
            return Err(invalid("it exists already"));
        }
        for paths in tables.iter_mut() {
            match paths.table.insert(path.clone(), paths.targets.len()) {
                Ok(()) => {
                    paths.targets.push(target);
                    self.routes.push(route);
                    return Ok(());
                }
                Err(matchit::InsertError::Conflict { .. }) => {}
                Err(error) => return Err(invalid(&error.to_string())),
            }
        }
        let mut paths = Paths::default();
        paths.table.insert(path, 0).map_err(|error| invalid(&error.to_string()))?;
        paths.targets.push(target);
        tables.push(paths);
        self.routes.push(route);
        Ok(())
    }

    /// Returns the routes with their figures, in the order in which they were added.
    pub(crate) fn routes(&self) -> Vec<Arc<Route>> {
        self.routes.clone()
    }

    /// Goes on with the figures and limiters that the same routes had before a reload.
    pub(crate) fn resume(&self, before: &[Arc<Route>]) {
        let before: HashMap<&str, &Arc<Route>> = before.iter().map(|route| (&**route.label(), route)).collect();
        for route in &self.routes {
            if let Some(before) = before.get(&**route.label()) {
                route.resume(before);
            }
        }
    }

    /// Finds the route of a request: of those for its method, the one with the most exact path. The host's own routes come
    /// first.
    pub(crate) fn find(&self, host: Option<&str>, method: &Method, path: &str) -> Routed {
        let path = &*canonical(path);
        // The paths of all hosts come first in the map.
        let has_hosts = self.hosts.last_key_value().is_some_and(|(host, _)| host.is_some());
        let of_host = host
            .filter(|_| has_hosts)
            .and_then(|host| self.hosts.get(&Some(host.to_ascii_lowercase().into_boxed_str())));
        let mut allowed = Vec::new();
        for routes in of_host.into_iter().chain(self.hosts.get(&None)) {
            if let Some((target, params)) = routes.find(method, path) {
                return Routed::Found(target.route.here(), params);
            }
            allowed.extend(routes.allowed(path).filter(|method| !allowed.contains(method)).collect::<Vec<_>>());
        }
        if allowed.is_empty() { Routed::NotFound } else { Routed::NotAllowed(allowed.join(", ")) }
    }
}

impl HostRoutes {
    /// Returns the tables of a method.
    fn tables(&mut self, method: Option<Method>) -> &mut Vec<Paths> {
        let at = self.0.iter().position(|(known, _)| *known == method).unwrap_or_else(|| {
            self.0.push((method, Vec::new()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    /// Returns the most exact path for a method. The handler of `GET` also answers `HEAD`.
    fn find(&self, method: &Method, path: &str) -> Option<(&PathTarget, Params)> {
        let mut best: Option<(&PathTarget, u8, Params)> = None;
        for (of, tables) in &self.0 {
            let distance = match of {
                Some(of) if of == method => 0,
                Some(of) if *method == Method::HEAD && *of == Method::GET => 1,
                Some(_) => continue,
                None => 2,
            };
            for paths in tables {
                let Some((index, params)) = matched(&paths.table, path) else { continue };
                let target = &paths.targets[index];
                let is_better =
                    |(best, known, _): &(&PathTarget, u8, Params)| (&target.rank, distance) < (&best.rank, *known);
                if best.as_ref().is_none_or(is_better) {
                    best = Some((target, distance, params));
                }
            }
        }
        best.map(|(target, _, params)| (target, params))
    }

    /// Returns the methods for which a path exists.
    fn allowed(&self, path: &str) -> impl Iterator<Item = &str> {
        let has = move |tables: &[Paths]| tables.iter().any(|paths| matched(&paths.table, path).is_some());
        self.0
            .iter()
            .filter(move |(_, tables)| has(tables))
            .filter_map(|(method, _)| method.as_ref().map(Method::as_str))
    }
}

/// The path of a pattern.
struct Pattern<'a>(Vec<Segment<'a>>);

enum Segment<'a> {
    /// In its [canonical] spelling.
    Literal(Cow<'a, str>),
    Parameter(&'a str),
    Rest,
}

impl<'a> Pattern<'a> {
    fn parse(path: &'a str) -> Result<Self, &'static str> {
        let (mut segments, mut names) = (Vec::new(), Vec::new());
        let last = path.matches('/').count();
        for (index, segment) in path.split('/').enumerate() {
            segments.push(match segment.strip_prefix(':') {
                Some(name) => {
                    names.push(name);
                    Segment::Parameter(name)
                }
                None if segment == "*" && index == last => {
                    names.push(REST);
                    Segment::Rest
                }
                None if segment.contains('*') => return Err("a `*` must be the whole last segment, as in `/files/*`"),
                None => Segment::Literal(canonical(segment)),
            });
        }
        if names.len() > PARAMETERS_MAX {
            return Err("it has more than 25 parameters");
        }
        if (1..names.len()).any(|index| names[..index].contains(&names[index])) {
            return Err("two parameters have one name; that of a `*` is `rest`");
        }
        Ok(Self(segments))
    }

    fn rank(&self) -> Rank {
        let kind = |segment: &Segment<'_>| match segment {
            Segment::Literal(_) => SegmentKind::Literal,
            Segment::Parameter(_) => SegmentKind::Parameter,
            Segment::Rest => SegmentKind::Rest,
        };
        self.0.iter().map(kind).collect()
    }

    /// Returns the path without the names of its parameters. Literals are without braces.
    fn shape(&self) -> String {
        self.written(|_| "{}".to_owned())
    }

    /// Returns the path as the library writes it. The colon tells a parameter from the rest of a path.
    fn matchit(&self) -> String {
        self.written(|name| format!("{{:{name}}}"))
    }

    fn written(&self, parameter: impl Fn(&str) -> String) -> String {
        let segments = self.0.iter().map(|segment| match segment {
            Segment::Literal(text) => text.to_string(),
            Segment::Parameter(name) => parameter(name),
            Segment::Rest => format!("{{*{REST}}}"),
        });
        segments.collect::<Vec<_>>().join("/")
    }
}

/// Finds a path. The library wants at least one character for the rest of a path; `/files/` has an empty one.
fn matched(paths: &matchit::Router<usize>, path: &str) -> Option<(usize, Params)> {
    let found = paths.at(path).ok();
    // `/files/*` is more exact for `/files/` than `/*`, of which the library knows that it matches.
    let may_be_empty = path.ends_with('/') && found.as_ref().is_none_or(|found| found.params.get(REST).is_some());
    let empty_rest = if may_be_empty { matched_with_empty_rest(paths, path) } else { None };
    empty_rest.or_else(|| found.map(|found| (*found.value, Params(found.params.iter().map(named).collect()))))
}

/// Finds a path that ends with a slash, with an empty rest.
fn matched_with_empty_rest(paths: &matchit::Router<usize>, path: &str) -> Option<(usize, Params)> {
    // No other parameter matches an empty segment.
    let longer = format!("{path}/");
    let found = paths.at(&longer).ok()?;
    let mut params: Vec<(&str, &str)> = found.params.iter().collect();
    if params.pop()? != (REST, "/") {
        return None;
    }
    Some((*found.value, Params(params.into_iter().chain([(REST, "")]).map(named).collect())))
}

fn named((name, value): (&str, &str)) -> (Box<str>, Box<str>) {
    (name.strip_prefix(':').unwrap_or(name).into(), value.into())
}

/// Returns the host of a request without its port.
pub(crate) fn host_of(request: &http::request::Parts) -> Option<&str> {
    let host = request.uri.host().or_else(|| request.headers.get(HOST).and_then(|host| host.to_str().ok()))?;
    Some(
        host.rsplit_once(':')
            .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
            .map_or(host, |(host, _)| host),
    )
}

impl Routed {
    /// Returns the response to a request that leads nowhere.
    pub(crate) fn refusal(allowed: Option<&str>) -> crate::Response {
        let Some(allowed) = allowed else { return plain(StatusCode::NOT_FOUND, "not found") };
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
        if let Ok(allowed) = HeaderValue::from_str(allowed) {
            response.headers_mut().insert(ALLOW, allowed);
        }
        response
    }
}

impl Handler for Router {
    fn handle(&self, mut request: Request) -> ResponseFuture {
        match self.find(host_of(&request.head), &request.head.method, request.head.uri.path()) {
            Routed::Found(route, params) => {
                request.params.0.extend(params.0);
                route.handler.handle(request)
            }
            Routed::NotAllowed(allowed) => {
                Box::pin(std::future::ready(Routed::refusal(Some(&allowed)).into_response()))
            }
            Routed::NotFound => Box::pin(std::future::ready(Routed::refusal(None).into_response())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router(patterns: &[&str]) -> Router {
        patterns.iter().fold(Router::new(), |router, pattern| {
            router.route(pattern, async |_: Request| ()).expect("the pattern is valid")
        })
    }

    fn found(router: &Router, host: Option<&str>, method: &Method, path: &str) -> String {
        match router.find(host, method, path) {
            Routed::Found(route, params) => {
                let params: Vec<_> = params.0.iter().map(|(name, value)| format!(" {name}={value}")).collect();
                format!("{}{}", route.label(), params.concat())
            }
            Routed::NotAllowed(allowed) => format!("405 {allowed}"),
            Routed::NotFound => "404".to_owned(),
        }
    }

    #[test]
    fn a_request_leads_to_the_most_exact_route() {
        let router =
            router(&["GET /", "GET /users/:id", "POST /users/:id", "/files/*", "GET /users/me", "GET api.local/"]);
        let get = |path| found(&router, None, &Method::GET, path);

        assert_eq!(get("/"), "GET /");
        assert_eq!(get("/users/7"), "GET /users/:id id=7");
        assert_eq!(get("/users/me"), "GET /users/me");
        assert_eq!(get("/files/a/b.txt"), "/files/* rest=a/b.txt");
        assert_eq!(get("/files/"), "/files/* rest=");
        assert_eq!((get("/users/"), get("/files")), ("404".to_owned(), "404".to_owned()));
        assert_eq!(get("/users/7/x"), "404");
        assert_eq!(found(&router, None, &Method::HEAD, "/users/7"), "GET /users/:id id=7");
        assert_eq!(found(&router, None, &Method::PUT, "/users/7"), "405 GET, POST");
        assert_eq!(found(&router, Some("API.local"), &Method::GET, "/"), "GET api.local/");
        assert_eq!(found(&router, Some("other"), &Method::GET, "/"), "GET /");
        assert_eq!(found(&router, Some("api.local"), &Method::GET, "/users/7"), "GET /users/:id id=7");
    }

    #[test]
    fn paths_that_overlap_are_told_apart_by_how_exact_they_are() {
        let router = router(&[
            "GET /*",
            "POST /:tenant/login",
            "DELETE /:id",
            "GET /:id/x",
            "GET /users/:id",
            "POST /users/*",
            "/api/*",
        ]);
        let get = |path| found(&router, None, &Method::GET, path);
        let post = |path| found(&router, None, &Method::POST, path);

        assert_eq!(post("/a/login"), "POST /:tenant/login tenant=a");
        assert_eq!((post("/a/b/c"), post("/")), ("405 GET".to_owned(), "405 GET".to_owned()));
        assert_eq!(found(&router, None, &Method::DELETE, "/7"), "DELETE /:id id=7");
        assert_eq!(found(&router, None, &Method::DELETE, "/a/b"), "405 GET");
        assert_eq!(get("/a/login"), "GET /* rest=a/login");
        assert_eq!((get("/7/x"), get("/7/y")), ("GET /:id/x id=7".to_owned(), "GET /* rest=7/y".to_owned()));
        assert_eq!(get("/users/a/b"), "GET /* rest=users/a/b");
        assert_eq!(
            (post("/users/a/b"), post("/users/")),
            ("POST /users/* rest=a/b".to_owned(), "POST /users/* rest=".to_owned())
        );
        assert_eq!((post("/api/a"), get("/api/a")), ("/api/* rest=a".to_owned(), "/api/* rest=a".to_owned()));
    }

    #[test]
    fn a_path_is_found_by_every_spelling() {
        let router = router(&["GET /private/*", "GET /*"]);
        let get = |path| found(&router, None, &Method::GET, path);

        let guarded = super::tests::router(&["GET /:tenant/*", "GET /api/:id", "GET /*"]);
        assert_eq!(found(&guarded, None, &Method::GET, "/api/"), "GET /:tenant/* tenant=api rest=");
        assert_eq!(get("/%70rivate/x%2Dy"), "GET /private/* rest=x-y");
        assert_eq!(
            (get("/private/"), get("/other/")),
            ("GET /private/* rest=".to_owned(), "GET /* rest=other/".to_owned())
        );
        assert_eq!(get("/private%2fx"), "GET /* rest=private%2Fx");
        assert_eq!(
            (get("/100%"), get("/%zz%6")),
            ("GET /* rest=100%25".to_owned(), "GET /* rest=%25zz%256".to_owned())
        );
        assert_eq!(get("/%c3%a4%"), "GET /* rest=%C3%A4%25");
        // The percent sign of a broken escape must not begin another one.
        assert_eq!(
            (get("/%%370rivate/x"), get("/%+7")),
            ("GET /* rest=%2570rivate/x".to_owned(), "GET /* rest=%25+7".to_owned())
        );
    }

    #[test]
    fn a_pattern_matches_every_spelling_too() {
        let router = router(&["GET /@scope/*", "GET /caf%c3%a9", "GET /%7Eu/x", "GET /a%2Bb", "GET /{x}", "GET /*"]);
        let get = |path| found(&router, None, &Method::GET, path);

        for path in ["/@scope/x", "/%40scope/x"] {
            assert_eq!(get(path), "GET /@scope/* rest=x");
        }
        for path in ["/caf%C3%A9", "/caf%c3%A9", "/café"] {
            assert_eq!(get(path), "GET /caf%c3%a9");
        }
        assert_eq!((get("/~u/x"), get("/%7eu/x")), ("GET /%7Eu/x".to_owned(), "GET /%7Eu/x".to_owned()));
        assert_eq!(
            (get("/a+b"), get("/{x}"), get("/%7bx%7D")),
            ("GET /a%2Bb".to_owned(), "GET /{x}".to_owned(), "GET /{x}".to_owned())
        );
    }

    #[test]
    fn a_parameter_is_no_rest_of_a_path_whatever_its_name() {
        let router = router(&["GET /v/:rest", "POST /*"]);

        assert_eq!(found(&router, None, &Method::GET, "/v/"), "405 POST");
        assert_eq!(found(&router, None, &Method::GET, "/v/7"), "GET /v/:rest rest=7");
    }

    #[test]
    fn methods_are_listed_once() {
        let router = router(&["GET /a", "GET api.local/a"]);

        assert_eq!(found(&router, Some("api.local"), &Method::PUT, "/a"), "405 GET");
    }

    #[test]
    fn a_wrong_pattern_is_refused_with_the_right_form() {
        let error = |pattern: &str| router(&["GET /a"]).route(pattern, async |_: Request| ()).unwrap_err().to_string();

        assert!(error("get /").contains("the method is written in capitals"));
        assert!(error("GET users").contains("the path starts with `/`"));
        assert!(error("GET /a*/b").contains("must be the whole last segment"));
        assert!(error("GET /a").contains("it exists already"));
        assert!(error("GET /%61").contains("it exists already"));
        assert!(error("GET /a/:rest/*").contains("two parameters have one name"));
        assert!(
            error(&["GET ", &(0..26).map(|n| format!("/:p{n}")).collect::<Vec<_>>().concat()].concat())
                .contains("25 parameters")
        );
        for pattern in ["GET /b?x=1", "GET\t/b", "GET /b c"] {
            assert!(error(pattern).contains("no query"), "{pattern}");
        }
        assert!(error("a.local:80/").contains("a host is written without a port"));
    }
}
