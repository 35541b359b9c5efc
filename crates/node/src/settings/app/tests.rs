//! Applications as users write them, including mistakes.

use super::*;
use crate::settings::layers::from_file;

fn read(text: &str) -> Result<App, String> {
    let path = Path::new("shop/rusm.toml");
    let sections = from_file(path, text, &mut RawSettings::new()).map_err(|error| error.to_string())?;
    App::read(path, &sections).map_err(|error| error.to_string())
}

fn refused(text: &str) -> String {
    let line = read(text).unwrap_err();
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

#[test]
fn what_is_said_is_taken_and_the_rest_has_its_default() {
    let app = read(
        r#"
        [[process]]
        module = "web.wasm"
        [[process]]
        name = "pool"
        module = "worker.wat"
        args = ["-v", "x y"]
        count = 3
        profile = "clockwork"
        memory_max = "1MiB"
        restart = "permanent"
        shutdown = "brutal_kill"
        [modules]
        helper = "lib/helper.wasm"
        [supervisor]
        strategy = "rest_for_one"
        intensity = 5
        period = "1m"
        backoff_first = "100ms"
        [profile.clockwork]
        capabilities = ["timers", "exit-others"]
        [limits]
        message_max = "64KiB"
        [engine]
        capacity = 10
        room = "slabs"
        cache = false
        tick = "2ms"
        "#,
    )
    .unwrap();

    let [web, pool] = &app.processes[..] else { panic!("two processes") };
    assert_eq!((web.name.as_str(), web.module.as_path()), ("web", Path::new("shop/web.wasm")));
    assert_eq!((web.count, web.restart, web.profile.as_str()), (1, Restart::Transient, SANDBOXED));
    assert_eq!(web.shutdown, Shutdown::Timeout(Duration::from_secs(5)));
    assert_eq!((pool.args.len(), pool.limits.memory_max_bytes), (2, Some(1 << 20)));
    assert_eq!((pool.restart, pool.shutdown), (Restart::Permanent, Shutdown::BrutalKill));
    assert_eq!(pool.ids().collect::<Vec<_>>(), ["pool.1".into(), "pool.2".into(), "pool.3".into()]);
    assert_eq!(app.modules["helper"], Path::new("shop/lib/helper.wasm"));
    let backoff = Backoff { first: Duration::from_millis(100), limit: Duration::from_secs(30) };
    let intensity = Intensity { restarts: 5, period: Duration::from_mins(1) };
    assert_eq!(app.supervision, Supervision { strategy: Strategy::RestForOne, intensity, backoff: Some(backoff) });
    assert_eq!((app.wasm.capacity, app.wasm.allocator, &app.wasm.cache_dir), (10, InstanceAllocator::Slabs, &None));
    assert_eq!((app.wasm.message_max_bytes, app.wasm.tick), (65_536, Duration::from_millis(2)));
    let clockwork = app.wasm.profiles.find("clockwork").unwrap();
    assert_eq!(clockwork.iter().map(Capability::word).collect::<Vec<_>>(), ["exit-others", "timers"]);
}

#[test]
fn an_unknown_key_is_answered_with_the_nearest() {
    assert_eq!(
        refused("[[process]]\nmodule = \"a\"\ncuont = 2"),
        "unknown setting \"process.cuont\" in shop/rusm.toml (process \"a\"): did you mean \"process.count\"?"
    );
    assert_eq!(
        refused("[engine]\ncapasity = 2"),
        "unknown setting \"engine.capasity\" in shop/rusm.toml: did you mean \"engine.capacity\"?"
    );
    assert_eq!(
        refused("[[proces]]\nmodule = \"a\""),
        "unknown setting \"proces\" in shop/rusm.toml: did you mean \"process\"?"
    );
    assert!(refused("[profile.mine]\ncapability = []").ends_with("did you mean \"profile.NAME.capabilities\"?"));
    for bucket in [String::new(), "b".repeat(256)] {
        let error =
            refused(&format!("[profile.mine]\ncapabilities = [\"kv\"]\nbuckets = [\"*\", \"a*\", \"{bucket}\"]"));
        assert!(error.ends_with("must be a name of 1 to 255 bytes, or a prefix and a star"), "{error}");
    }
    let error = refused("[profile.mine]\ncapabilities = [\"kv\"]\nbuckets = [\"topic/orders\"]");
    assert!(error.ends_with("belongs to a topic: grant the topic with topics instead"), "{error}");
}

#[test]
fn every_mistake_is_named_with_its_place_and_what_would_be_right() {
    let process = |rest: &str| refused(&format!("[[process]]\nname = \"web\"\nmodule = \"a.wasm\"\n{rest}"));
    let of = "in shop/rusm.toml (process \"web\")";

    assert_eq!(process("count = 0"), format!("process.count of \"0\" {of} must be a number between 1 and 1000000"));
    assert_eq!(process("count = \"2\""), format!("process.count of \"2\" {of} must be a whole number"));
    assert_eq!(
        process("profile = \"netwrk\""),
        format!(
            "process.profile of \"netwrk\" {of} must be one of network, sandboxed, trusted: did you mean \"network\"?"
        )
    );
    assert!(process("restart = \"permanant\"").ends_with("did you mean \"permanent\"?"));
    assert!(process("shutdown = \"soon\"").contains("must be a time such as 5s, brutal_kill or infinity"));
    assert_eq!(process("args = \"-v\""), format!("process.args of \"-v\" {of} must be a list of strings"));
    assert!(process("memory_max = \"lots\"").ends_with("must be a size between 1 and 4 GiB"));
    assert!(process("register = \"w\"\ncount = 2").ends_with("and process.count must be 1"));
    assert_eq!(refused("[[process]]\nname = \"x\""), "process.module is missing in shop/rusm.toml (process \"x\")");
    assert_eq!(refused("[[process]]\n"), "process.module is missing in shop/rusm.toml (process 1)");
    assert_eq!(refused("[process]\nmodule = \"a\""), "process in shop/rusm.toml must be written as [[process]]");
    assert_eq!(refused("engine = 3"), "engine in shop/rusm.toml must be a section of its own");
    assert!(refused("[supervisor]\nstrategy = \"one_for_al\"").ends_with("did you mean \"one_for_all\"?"));
    assert!(refused("[engine]\ntick = \"2m\"").ends_with("must be a time between 0.1ms and 1s"));
}

#[test]
fn a_limit_above_that_of_all_guests_or_of_the_profile_is_refused() {
    let limits = "[limits]\nmemory_max = \"32MiB\"\n[profile.mine]\ncapabilities = []\nparts_max = 2\n";
    let process =
        |rest: &str| refused(&format!("{limits}[[process]]\nmodule = \"a.wasm\"\nprofile = \"mine\"\n{rest}"));
    let of = "in shop/rusm.toml (process \"a\") is above";
    assert_eq!(
        process("memory_max = \"64MiB\""),
        format!("process.memory_max of 64 MiB {of} limits.memory_max of 32 MiB: raise that one, or lower this one")
    );
    assert_eq!(
        process("parts_max = 3"),
        format!("process.parts_max of 3 {of} profile.mine.parts_max of 2: raise that one, or lower this one")
    );
    let profile = refused("[profile.big]\ncapabilities = []\nmessage_max = \"1GiB\"");
    assert!(profile.starts_with("profile.NAME.message_max of 1 GiB in shop/rusm.toml (profile \"big\") is above "));
    let route = "[[serve]]\nlisten = \"127.0.0.1:0\"\n[[serve.route]]\npattern = \"/a\"\nmodule = \"a.wasm\"\n";
    let route = refused(&format!("{limits}{route}memory_max = \"33MiB\""));
    assert!(
        route.starts_with("serve.route.memory_max of 33 MiB in shop/rusm.toml (serve 1), route \"/a\" is above "),
        "{route}"
    );
    let rounded = refused("[limits]\nmessage_max = 65535\n[[process]]\nmodule = \"a.wasm\"\nmessage_max = \"64KiB\"");
    assert!(rounded.contains(" of 65536 in ") && rounded.contains(" of 65535: "), "{rounded}");
    assert!(read(&format!("{limits}[[process]]\nmodule = \"a.wasm\"\nmemory_max = \"32MiB\"")).is_ok());
}

#[test]
fn a_process_may_name_its_module_as_the_modules_do() {
    let app = read("[[process]]\nmodule = \"old\"\n[modules]\nold = \"a/x.wasm\"\nnew = \"b/x.wasm\"").unwrap();

    let process = &app.processes[0];
    assert_eq!((process.name.as_str(), process.module.as_path()), ("old", Path::new("shop/a/x.wasm")));
}

#[test]
fn names_and_numbers_that_do_not_go_together_are_refused() {
    let twice = "[[process]]\nmodule = \"a/x.wasm\"\n[[process]]\nmodule = \"b/x.wasm\"";
    assert_eq!(refused(twice), "two processes in shop/rusm.toml are called \"x\": give them different names");
    let registered = ["x", "y"].map(|name| format!("[[process]]\nmodule = \"{name}.wasm\"\nregister = \"till\"\n"));
    assert_eq!(
        refused(&registered.concat()),
        "two processes in shop/rusm.toml register the name \"till\": give them different names"
    );
    let numbered = "[[process]]\nmodule = \"x.wasm\"\ncount = 2\n[[process]]\nname = \"x.2\"\nmodule = \"y.wasm\"";
    assert!(refused(numbered).contains("called \"x.2\""));
    assert_eq!(
        refused("[[process]]\nmodule = \"x.wasm\"\ncount = 5_000"),
        "5000 processes in shop/rusm.toml exceed engine.capacity of 1000: lower process.count or raise \
         engine.capacity"
    );
}

#[test]
fn profiles_are_made_of_known_words_and_leave_the_built_in_ones_alone() {
    assert_eq!(
        refused("[profile.mine]\ncapabilities = [\"spwan\"]"),
        "profile.NAME.capabilities of \"spwan\" in shop/rusm.toml (profile \"mine\") is not a capability: did you mean \
         \"spawn\"?"
    );
    assert!(refused("[profile.mine]\ncapabilities = [\"xyzzy\"]").contains("must be one of spawn, exit-others, names"));
    assert!(
        refused("[profile.trusted]\ncapabilities = []").contains("profile \"trusted\" in shop/rusm.toml is built in")
    );
    assert!(refused("[profile.mine]").starts_with("profile.NAME.capabilities is missing"));
}

#[test]
fn a_process_and_a_profile_say_what_one_guest_may_use() {
    let limits_text = "memory_max = \"128KiB\"\ntable_max_elements = 100\nparts_max = 3\nmessage_max = \"4KiB\"\ncpu_max = 25\n\
         sent_max = \"1MiB\"\nmailbox_capacity = 64\n";
    let limits = GuestLimits {
        memory_max_bytes: Some(131_072),
        table_max_elements: Some(100),
        parts_max: Some(3),
        message_max_bytes: Some(4_096),
        cpu_max_percent: Some(25),
        sent_max_bytes: Some(1 << 20),
        mailbox_capacity: Some(64),
    };

    let process = format!("[[process]]\nmodule = \"a.wasm\"\n{limits_text}");
    let app = read(&format!("{process}[profile.tight]\ncapabilities = []\n{limits_text}")).unwrap();

    assert_eq!(app.processes[0].limits, limits);
    assert_eq!(app.wasm.profiles.limits("tight").unwrap(), limits);
    assert_eq!(app.wasm.profiles.limits("trusted").unwrap(), GuestLimits::default());
    let cpu = |share: &str| refused(&format!("[profile.tight]\ncapabilities = []\ncpu_max = {share}"));
    let of = "in shop/rusm.toml (profile \"tight\")";
    assert_eq!(cpu("0"), format!("profile.NAME.cpu_max of \"0\" {of} must be a number between 1 and 100"));
    assert_eq!(cpu("\"a lot\""), format!("profile.NAME.cpu_max of \"a lot\" {of} must be a whole number"));
}

#[test]
fn topics_are_in_memory_or_on_disk_and_a_profile_names_those_that_there_are() {
    let clerk = |topics: &str| format!("[profile.clerk]\ncapabilities = [\"topics\"]\ntopics = {topics}\n");
    let file = |topics: &str| format!("[topics]\norders = \"disk\"\nnews = \"memory\"\n{}", clerk(topics));

    let app = read(&file("[\"orders\", \"log/*\"]")).unwrap();

    assert_eq!((app.topics["orders"], app.topics["news"]), (TopicStorage::OnDisk, TopicStorage::InMemory));
    assert!(app.wasm.topics && !read("").unwrap().wasm.topics);
    assert_eq!(
        refused("[topics]\norders = \"disc\""),
        "topics.NAME of \"disc\" in shop/rusm.toml (topic \"orders\") must be memory or disk: did you mean \"disk\"?"
    );
    assert_eq!(
        refused("[topics]\norders = 3"),
        "topics.NAME of 3 in shop/rusm.toml (topic \"orders\") must be \"memory\" or \"disk\""
    );
    assert_eq!(
        refused("[topics]\n\"\" = \"disk\""),
        "topics.NAME of \"\" in shop/rusm.toml must be 1 to 255 bytes long"
    );
    assert_eq!(refused("topics = 3"), "topics in shop/rusm.toml must be a section of its own");
    assert_eq!(
        refused(&file("[\"oders\"]")),
        "profile.NAME.topics of \"oders\" in shop/rusm.toml (profile \"clerk\") is not in [topics]: did you mean \
         \"orders\"?"
    );
    assert!(refused(&file("\"orders\"")).ends_with("must be a list of strings"));
}

#[test]
fn one_guest_of_the_command_line_takes_the_engine_of_the_file_and_none_of_its_processes() {
    let app = read("[[process]]\nmodule = \"x.wasm\"\n[engine]\ncapacity = 3").unwrap();
    let given = |count: &str| {
        RawSettings::from([("process.count".to_owned(), RawSetting::of_text("process.count", count, "--count"))])
    };

    let alone = app.clone().with_single_guest(Path::new("app.wasm"), "app", &["-v".to_owned()], &given("3")).unwrap();
    let large = RawSetting::of_text("process.memory_max", "64MiB", "--memory-max");
    let large = RawSettings::from([("process.memory_max".to_owned(), large)]);
    let large = app.clone().with_single_guest(Path::new("app.wasm"), "app", &[], &large).unwrap();
    let too_many = app.with_single_guest(Path::new("app.wasm"), "app", &[], &given("4")).unwrap_err().to_string();

    assert_eq!(alone.processes.len(), 1);
    assert_eq!((alone.processes[0].module.as_path(), alone.processes[0].count), (Path::new("app.wasm"), 3));
    assert_eq!(large.wasm.memory_max_bytes, 64 << 20, "its limit is that of all guests");
    assert!(too_many.starts_with("4 processes in the command line exceed engine.capacity of 3"), "{too_many}");
}

#[test]
fn the_usual_cache_is_used_unless_told_otherwise() {
    let dir = |text: &str| read(text).unwrap().wasm.cache_dir;

    assert_eq!(dir(""), default_cache_dir());
    assert_eq!(dir("[engine]\ncache = true"), default_cache_dir());
    assert_eq!(dir("[engine]\ncache = false"), None);
    assert_eq!(dir("[engine]\ncache = \"compiled\""), Some(PathBuf::from("shop/compiled")));
}
