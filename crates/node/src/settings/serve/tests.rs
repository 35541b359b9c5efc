use std::time::Duration;

use super::*;
use crate::settings::tests::settings;

fn sites(file: &str) -> Result<Vec<Site>, String> {
    settings(file, &[]).map(|read| read.app.sites).map_err(|error| error.to_string())
}

const ROUTE: &str = "[[serve.route]]\npattern = \"GET /*\"\nfolder = \"public\"\n";

#[test]
fn a_server_has_its_address_its_limits_and_its_routes() {
    let file = format!(
        "[modules]\nusers = \"users/app.wasm\"\n[[serve]]\nname = \"web\"\nlisten = \"0.0.0.0:80\"\ncertificate = \
         \"c.pem\"\nkey = \"k.pem\"\nhealth = false\n[serve.limits]\nbody_bytes = \"16MiB\"\nhandler_timeout = \"5s\"\n\
         queue = 7\n[[serve.route]]\npattern = \"/users/:id\"\nmodule = \"users\"\nprofile = \"network\"\nmemory_max = \
         \"8MiB\"\nargs = [\"a\"]\n{ROUTE}"
    );

    let [site] = sites(&file).unwrap().try_into().unwrap();

    assert_eq!((site.name.as_deref(), site.listen), (Some("web"), "0.0.0.0:80".parse().unwrap()));
    assert_eq!(site.tls, Some(TlsFiles { certificate: "c.pem".into(), key: "k.pem".into() }));
    assert!(!site.has_health && !site.access_log);
    assert_eq!((site.limits.body_bytes, site.limits.handler_timeout), (16 << 20, Duration::from_secs(5)));
    assert_eq!((site.limits.queue, site.limits.in_flight), (7, 1_000), "no more in flight than instances");
    let guest = SiteGuest {
        module: "users/app.wasm".into(),
        args: vec!["a".to_owned()],
        profile: "network".to_owned(),
        limits: GuestLimits { memory_max_bytes: Some(8 << 20), ..GuestLimits::default() },
        reuse: InstanceReuse::Request,
    };
    let routes = [
        SiteRoute { pattern: "/users/:id".to_owned(), target: Target::Guest(guest), rates: vec![] },
        SiteRoute { pattern: "GET /*".to_owned(), target: Target::Folder("public".into()), rates: vec![] },
    ];
    assert_eq!(site.routes, routes);
}

#[test]
fn a_server_without_an_address_listens_for_this_machine_alone() {
    let listen = |line: &str| sites(&format!("[[serve]]\n{line}\n{ROUTE}")).unwrap()[0].listen.to_string();

    assert_eq!(listen(""), "127.0.0.1:8080");
    assert_eq!(listen("listen = 3000"), "127.0.0.1:3000");
    assert_eq!(listen("listen = \"localhost:1\""), "127.0.0.1:1");
    assert_eq!(listen("listen = \"[::]:443\""), "[::]:443");
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest() {
    let error = |file: String| sites(&file).unwrap_err();

    assert_eq!(
        error(format!("[[serve]]\nlisen = 1\n{ROUTE}")),
        "unknown setting \"serve.lisen\" in rusm.toml (serve 1): did you mean \"serve.listen\"?"
    );
    assert_eq!(
        error(format!("[[serve]]\n[serve.limits]\nhead_byte = 1\n{ROUTE}")),
        "unknown setting \"serve.limits.head_byte\" in rusm.toml (serve 1): did you mean \"serve.limits.head_bytes\"?"
    );
    assert_eq!(
        error("[[serve]]\nname = \"web\"\n[[serve.route]]\npattern = \"/\"\nmodul = \"a\"".to_owned()),
        "unknown setting \"serve.route.modul\" in rusm.toml (serve \"web\"), route \"/\": did you mean \
         \"serve.route.module\"?"
    );
    let route = |key: &str| error(format!("[[serve]]\n[[serve.route]]\n{key} = \"/\""));
    assert!(route("path").ends_with("did you mean \"serve.route.pattern\"?"));
    let far = route("xyzzy");
    assert!(far.contains(": the keys of serve.route are ") && far.contains("pattern, module"), "{far}");
    assert!(error("[[serv]]".to_owned()).ends_with("did you mean \"serve\"?"));
}

#[test]
fn what_is_missing_or_contradicts_is_named() {
    let error = |file: String| sites(&file).unwrap_err();
    let route = |text: &str| error(format!("[[serve]]\n[[serve.route]]\n{text}"));

    assert_eq!(error("[[serve]]".to_owned()), "serve.route is missing in rusm.toml (serve 1)");
    assert_eq!(error("[serve]".to_owned()), "serve in rusm.toml must be written as [[serve]]");
    assert_eq!(
        error(format!("[[serve]]\nkey = \"k\"\n{ROUTE}")),
        "serve.certificate is missing in rusm.toml (serve 1)"
    );
    assert_eq!(route("folder = \"a\""), "serve.route.pattern is missing in rusm.toml (serve 1)");
    assert_eq!(
        route("pattern = \"/\""),
        "serve.route.module or serve.route.folder is missing in rusm.toml (serve 1), route \"/\""
    );
    assert!(route("pattern = \"/\"\nmodule = \"a\"\nfolder = \"b\"").ends_with("must be either a module or a folder"));
    assert_eq!(
        route("pattern = \"/\"\nfolder = \"b\"\nmemory_max = \"1MiB\""),
        "serve.route.memory_max in rusm.toml (serve 1), route \"/\" is for a module, and a folder ignores it: \
         remove it"
    );
    assert!(route("pattern = \"/\"\nmodule = \"a\"\nprofile = \"trustd\"").ends_with("did you mean \"trusted\"?"));
    assert!(error(format!("[[serve]]\nlisten = \"here\"\n{ROUTE}")).contains("must be an address such as"));
    assert_eq!(
        error(format!("[[serve]]\n{ROUTE}[[serve]]\nlisten = 8080\n{ROUTE}")),
        "serve.listen in rusm.toml (serve 2) must be another address than that of an earlier server"
    );
    assert!(sites(&format!("[[serve]]\nlisten = 0\n{ROUTE}[[serve]]\nlisten = 0\n{ROUTE}")).is_ok());
}

#[test]
fn a_route_says_which_requests_share_an_instance() {
    let route = |line: &str| format!("[[serve]]\n[[serve.route]]\npattern = \"/*\"\nmodule = \"a.wasm\"\n{line}\n");
    let reuse = |line: &str| match &sites(&route(line)).unwrap()[0].routes[0].target {
        Target::Guest(guest) => guest.reuse,
        Target::Folder(_) => unreachable!("the route has a module"),
    };
    let pool = |idle, requests| InstanceReuse::Pool { idle, requests };

    assert_eq!(reuse(""), InstanceReuse::Request);
    assert_eq!(reuse("instances = \"connection\""), InstanceReuse::Connection);
    assert_eq!([reuse("instances = 8"), reuse("instances = { pool = 2, requests = 5 }")], [pool(8, 1_000), pool(2, 5)]);
    for wrong in ["0", "\"client\"", "{ pool = 2, request = 5 }", "{ requests = 5 }", "true"] {
        let error = sites(&route(&format!("instances = {wrong}"))).unwrap_err();
        assert!(error.contains("must be \"request\", \"connection\", a number of instances to keep"), "{error}");
    }
}

#[test]
fn a_server_and_its_routes_have_limits_of_the_rate() {
    let file = format!(
        "[[serve]]\n[[serve.rate]]\nper_second = 1000\nburst = 50\n{ROUTE}[[serve.route.rate]]\nper_minute = 90\n\
         per_client = true\n[[serve.route.rate]]\nper_second = 20\nwaiting = 5\n"
    );

    let [site] = sites(&file).unwrap().try_into().unwrap();

    assert_eq!(site.rates, [RateLimit::token_bucket(1_000.0, 50).unwrap()]);
    let of_route = [RateLimit::token_bucket(1.5, 2).unwrap().per_client(), RateLimit::leaky_bucket(20.0, 5).unwrap()];
    assert_eq!(site.routes[0].rates, of_route);
}

#[test]
fn a_wrong_limit_of_the_rate_is_refused_with_what_is_valid() {
    let error = |rate: &str| sites(&format!("[[serve]]\n[[serve.rate]]\n{rate}\n{ROUTE}")).unwrap_err();

    assert_eq!(
        error("burst = 1"),
        "serve.rate in rusm.toml (serve 1) must be a rate in either per_second or per_minute"
    );
    assert!(error("per_second = 1\nper_minute = 1").ends_with("either per_second or per_minute"));
    assert!(error("per_second = 1\nburst = 1\nwaiting = 1").ends_with("either a burst or waiting requests"));
    assert!(error("per_second = 0").contains("must be a number between 1 and 10000000"));
    assert!(
        error("per_minute = 1\nburst = 4000000").contains("is not between 1 and"),
        "{}",
        error("per_minute = 1\nburst = 4000000")
    );
    assert_eq!(
        error("per_secnd = 1"),
        "unknown setting \"serve.rate.per_secnd\" in rusm.toml (serve 1): did you mean \"serve.rate.per_second\"?"
    );
    let of_route = sites(&format!("[[serve]]\n{ROUTE}rate = 1")).unwrap_err();
    assert!(of_route.ends_with("must be written as [[serve.route.rate]]"), "{of_route}");
}
