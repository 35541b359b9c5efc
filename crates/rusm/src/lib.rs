//! An Erlang-style actor runtime for Rust and WebAssembly that can be watched.
//!
//! This is the crate that an application depends on. It contains the runtime and, behind features of the same names,
//! the `console` for observers (enabled by default), the durable `store`, `wasm` guests, `serve` for
//! HTTP, `otlp` for OpenTelemetry, and support for a `test`.
//!
//! # Hello
//!
//! A process is a future with a pid, a mailbox and an exit reason. Any `Send` value can be a message.
//!
//! ```
//! use rusm::{Config, Context, Pid, Runtime};
//!
//! struct Greet {
//!     from: Pid,
//!     name: &'static str,
//! }
//!
//! async fn greeter(ctx: Context) {
//!     loop {
//!         let Greet { from, name } = ctx.receive_of::<Greet>().await;
//!         ctx.send(from, format!("hello, {name}")).await;
//!     }
//! }
//!
//! let runtime = Runtime::start(Config::default())?;
//! let greeter = runtime.spawn(greeter)?;
//! let guest = runtime.spawn(move |ctx: Context| async move {
//!     ctx.send(greeter, Greet { from: ctx.pid(), name: "world" }).await;
//!     assert_eq!(ctx.receive_of::<String>().await, "hello, world");
//! })?;
//! runtime.wait(guest);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Supervision
//!
//! A process that panics ends alone. Its supervisor starts it again, and gives up if it crashes too often.
//!
//! ```
//! use rusm::supervisor::{ChildSpec, Strategy, Supervisor};
//! use rusm::{Config, Context, Runtime};
//!
//! async fn worker(ctx: Context) {
//!     let divisor = ctx.receive_of::<u32>().await;
//!     println!("{}", 12 / divisor); // sending 0 is a panic, and a restart
//! }
//!
//! let runtime = Runtime::start(Config::default())?;
//! let app = runtime.spawn(|ctx: Context| async move {
//!     let supervisor = Supervisor::new(Strategy::OneForOne).child(ChildSpec::new("worker", worker));
//!     supervisor.start_link(&ctx).await.expect("the worker starts");
//!     // … the supervisor ends with the process to which it is linked
//! })?;
//! runtime.wait(app);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Typed actors
//!
//! The attribute [`actor`](macro@actor) turns the methods of a type into messages, each with its own reply type. A call has
//! a timeout, and fails at once if the actor ends. A wrong type does not compile.
//!
//! ```
//! use rusm::prelude::*;
//!
//! #[derive(Clone)]
//! struct Counter(u64);
//!
//! #[actor]
//! impl Counter {
//!     fn add(&mut self, number: u64) {
//!         self.0 += number;
//!     }
//!
//!     fn total(&self) -> u64 {
//!         self.0
//!     }
//! }
//!
//! let runtime = Runtime::start(Config::default())?;
//! let total = runtime.block_on(|ctx| async move {
//!     let counter = Counter::start_link(&ctx, Counter(10)).await.expect("it starts");
//!     counter.add(&ctx, 5).await;
//!     counter.total(&ctx).await
//! });
//! assert_eq!(total, Ok(15));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Topics
//!
//! A [`topic`] delivers messages to many readers: at most once to subscribers, at least once to the consumers of a
//! subscription, which acknowledge each message.
//!
//! ```
//! use rusm::topic::{Message, SubscriptionConfig};
//! use rusm::{Config, Runtime};
//!
//! let runtime = Runtime::start(Config::default())?;
//! let orders = runtime.topics().create("orders")?;
//! let billing = orders.create_subscription("billing", SubscriptionConfig::default())?;
//! orders.blocking_publish(Message::new("tea"))?;
//!
//! let mut consumer = billing.consumer();
//! let lease = consumer.blocking_next()?;
//! assert_eq!(lease.message.payload(), "tea");
//! consumer.ack(lease.id); // without it, the message is delivered again
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The store
//!
//! The feature `store` has a durable key-value store. All waiting writes share one sync of the disk. It also
//! keeps topics (`Store::open_topic`) and counters.
//!
#![cfg_attr(feature = "store", doc = "```")]
#![cfg_attr(not(feature = "store"), doc = "```ignore")]
//! use rusm::store::{Store, StoreConfig};
//!
//! # let directory = tempfile::tempdir()?;
//! let store = Store::open(directory.path().join("shop.redb"), StoreConfig::default())?;
//! let accounts = store.bucket("accounts")?;
//! accounts.put("ada", "10").wait()?; // a process awaits it instead
//! assert_eq!(accounts.get("ada").wait()?.as_deref(), Some(&b"10"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Observing
//!
//! One call makes a runtime visible: `rusm-top shop` shows its processes, supervisors, timers and topics while it runs, and
//! a store after `store.attach(&runtime)`. A program can read the same with [`observe`].
//!
#![cfg_attr(feature = "console", doc = "```no_run")]
#![cfg_attr(not(feature = "console"), doc = "```ignore")]
//! use rusm::console::{Console, ConsoleConfig};
//! use rusm::{Config, Runtime};
//!
//! let runtime = Runtime::start(Config::default())?;
//! let _console = Console::bind(&runtime, ConsoleConfig::named("shop"))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Serving
//!
//! The feature `serve` answers HTTP, WebSocket connections and streams of events. Each connection and each request is a process, so
//! a crash answers 500 to one client, and rusm-top shows what each request does.
//!
#![cfg_attr(feature = "serve", doc = "```no_run")]
#![cfg_attr(not(feature = "serve"), doc = "```ignore")]
//! use rusm::serve::{Request, Router, ServeConfig, Server};
//! use rusm::{Config, Runtime};
//!
//! let runtime = Runtime::start(Config::default())?;
//! let router = Router::new().route("GET /hello/:name", async |request: Request| {
//!     format!("hello, {}\n", request.param("name").unwrap_or("world"))
//! })?;
//! let _server = Server::start(&runtime, ServeConfig::listen(([127, 0, 0, 1], 8080)), router)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Exporting
//!
//! The feature `otlp` sends metrics, log lines and spans to a collector of OpenTelemetry. Nothing in the program waits for
//! the collector.
//!
#![cfg_attr(feature = "otlp", doc = "```no_run")]
#![cfg_attr(not(feature = "otlp"), doc = "```ignore")]
//! use std::time::Duration;
//!
//! use rusm::console::{Console, ConsoleConfig};
//! use rusm::otlp::{Exporter, OtlpConfig};
//! use rusm::{Config, Runtime};
//! use tracing_subscriber::layer::SubscriberExt;
//! use tracing_subscriber::util::SubscriberInitExt;
//!
//! let exporter = Exporter::start(&OtlpConfig::new("http://127.0.0.1:4318").with_environment()?)?;
//! tracing_subscriber::registry().with(exporter.layer()).init();
//! let runtime = Runtime::start(Config::default())?;
//! let console = Console::bind(&runtime, ConsoleConfig::named("shop"))?;
//! let metrics = console.metrics();
//! exporter.set_metrics(move || metrics.text(Duration::from_secs(2)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Tests in virtual time
//!
//! The feature `test` runs an application on one thread. A seed determines the schedule, and the clock jumps to the
//! next timer, so a failure can be repeated and an hour takes no time.
//!
#![cfg_attr(feature = "test", doc = "```")]
#![cfg_attr(not(feature = "test"), doc = "```ignore")]
//! use std::time::Duration;
//!
//! rusm::test::explore(0..100, |ctx| async move {
//!     let me = ctx.pid();
//!     for number in [1, 2] {
//!         ctx.spawn(move |ctx| async move {
//!             ctx.sleep(Duration::from_secs(3600)).await;
//!             ctx.send(me, number).await;
//!         });
//!     }
//!     let sum = ctx.receive_of::<i32>().await + ctx.receive_of::<i32>().await;
//!     assert_eq!(sum, 3); // in every schedule
//! });
//! ```
//!
//! # Modules and features
//!
//! | For | Look at | Feature |
//! |---|---|---|
//! | processes, messages, links, monitors, timers | [`Runtime`], [`Context`], [`Handle`] | |
//! | typed actors, restarts | [`actor`](mod@actor), [`supervisor`], [`state_machine`] | |
//! | finding processes | [`Context::register`], [`registry`] | |
//! | many workers, shared state | [`pool`], [`table`] | |
//! | data between processes | [`topic`], [`ring`], [`stream`] | |
//! | counters, limits of rates, periodic work | [`counter`], [`ticker`] | |
//! | reading what an observer shows | [`observe`] | |
//! | an endpoint for rusm-top, metrics | `console` | `console`, on by default |
//! | data and jobs that survive | `store` | `store` |
//! | HTTP, WebSocket, server-sent events | `serve` | `serve` |
//! | processes in WebAssembly | `wasm` | `wasm` |
//! | processes on other nodes | `cluster` | `cluster`; `cluster-network` adds the network, which takes minutes to compile |
//! | OpenTelemetry | `otlp` | `otlp` |
//! | schedules by a seed, virtual time | `test` | `test` |
//!
//! # With tokio
//!
//! Sockets, timers and channels of tokio work in a process. A task of tokio reaches processes through a [`Handle`], which is
//! `Clone + Send + Sync`; a [`Context`] belongs to its process. Blocking code stops its scheduler: [`Context::spawn_blocking`]
//! runs it elsewhere. [The page about tokio](https://github.com/rusm/rusm/blob/main/docs/tokio.md) says what runs where.
//!
//! # Platforms
//!
//! Linux on 64-bit x86 and ARM, Rust 1.95 or newer. See the [guide](https://github.com/rusm/rusm/blob/main/docs/guide/README.md),
//! [all documents](https://github.com/rusm/rusm/blob/main/docs/README.md) and the
//! [policy](https://github.com/rusm/rusm/blob/main/docs/policy.md) on versions.

#[cfg(feature = "console")]
#[doc(inline)]
pub use rusm_console as console;
#[doc(inline)]
pub use rusm_runtime::*;

#[cfg(feature = "cluster")]
#[doc(inline)]
pub use rusm_cluster as cluster;
#[cfg(feature = "otlp")]
#[doc(inline)]
pub use rusm_otlp as otlp;
#[cfg(feature = "serve")]
#[doc(inline)]
pub use rusm_serve as serve;
#[cfg(feature = "store")]
#[doc(inline)]
pub use rusm_store as store;
#[cfg(feature = "wasm")]
#[doc(inline)]
pub use rusm_wasm as wasm;

/// Turns the methods of an `impl` block into the messages of a typed [`actor`](mod@actor).
///
/// Each method with `&self` or `&mut self` is a message. The attribute writes an enum of the messages (`CacheMessage`), a
/// reference with the same methods (`CacheRef`), and the implementation of [`Actor`](actor::Actor), which starts it.
///
/// ```
/// use std::collections::HashMap;
///
/// use rusm::prelude::*;
///
/// #[derive(Clone, Default)]
/// struct Cache(HashMap<String, String>);
///
/// #[actor]
/// impl Cache {
///     fn put(&mut self, key: String, value: String) {
///         self.0.insert(key, value);
///     }
///
///     fn get(&self, key: &str) -> Option<String> {
///         self.0.get(key).cloned()
///     }
/// }
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let cache = Cache::start_link(&ctx, Cache::default()).await?;
///     cache.put(&ctx, "colour", "blue").await;
///     assert_eq!(cache.get(&ctx, "colour").await?.as_deref(), Some("blue"));
///     Ok::<(), ExitReason>(())
/// })?;
/// # Ok::<(), ExitReason>(())
/// ```
///
/// | A method that | is |
/// |---|---|
/// | returns nothing, or a [`Flow`](actor::Flow) | sent: the sender does not wait for it |
/// | returns a value, `()` too if it is written | called: the caller waits for the value, at most 5 s, or as `with_timeout` says |
/// | takes a [`ReplyTo<R>`](ReplyTo) | called, and may answer later, through another process too |
/// | returns a [`Flow`](actor::Flow) | able to stop the actor |
/// | has `#[info]` | called with messages of its parameter's type, for example [`Down`], which no reference sends |
/// | has `#[skip]` | not a message |
///
/// Each of them may be `async`, and take a [`&Context`](Context). The methods of the reference take the caller first: a
/// [`Context`] or a [`Handle`]. A parameter of type `String` or `&str` accepts any text.
///
/// A function `init` with arguments of its own creates the state, and may fail; without one, the state itself is the
/// argument. `terminate(self)` is called at the end. The options of the attribute are `message = Name` and
/// `reference = Name` for the names, `unmatched = warn`, `drop` or `crash` for messages that nothing handles, and
/// `crate = path` for a renamed crate.
///
/// ```
/// use rusm::prelude::*;
///
/// struct Door {
///     keeper: Pid,
///     is_open: bool,
/// }
///
/// #[actor(unmatched = crash)]
/// impl Door {
///     async fn init(ctx: &Context, keeper: Pid) -> Result<Self, ExitReason> {
///         ctx.monitor(keeper);
///         let number: u32 = "12".parse()?; // any error may end the start
///         Ok(Self { keeper, is_open: number > 10 })
///     }
///
///     fn is_open(&self, reply: ReplyTo<bool>, ctx: &Context) {
///         reply.send(ctx, self.is_open);
///     }
///
///     fn demolish(&mut self) -> Flow {
///         Flow::Stop(ExitReason::Normal)
///     }
///
///     #[info]
///     fn keeper_left(&mut self, down: Down) {
///         self.is_open &= down.pid != self.keeper;
///     }
///
///     async fn terminate(self, reason: &ExitReason) {
///         println!("the door is gone: {reason}");
///     }
/// }
/// ```
///
/// The messages are an enum, `CacheMessage` above, with a variant for each method: `CacheMessage::Put { key, value }` and
/// `CacheMessage::Get { key, reply }`. The reference is also an [`Address`](actor::Address) of this enum, for whatever
/// sends a message by itself: a timer, a [`Pool`](pool::Pool), or a topic.
///
/// ```
/// use std::time::Duration;
///
/// use rusm::prelude::*;
/// use rusm::topic::{Message, Overflow};
///
/// #[derive(Clone, Default)]
/// struct Ticker(Vec<String>);
///
/// #[actor]
/// impl Ticker {
///     fn show(&mut self, line: String) {
///         self.0.push(line);
///     }
///
///     fn lines(&self) -> Vec<String> {
///         self.0.clone()
///     }
/// }
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.run(|ctx| async move {
///     let ticker = Ticker::start_link(&ctx, Ticker::default()).await?;
///     let news = ctx.topics().find_or_create("news")?;
///     let show = |news: Message| TickerMessage::Show { line: String::from_utf8_lossy(news.payload()).into_owned() };
///     news.subscribe(Overflow::Block).forward_to(&ctx, ticker.into(), show)?;
///     news.publish(Message::new("rain")).await?;
///     ctx.send_after(ticker.pid(), Duration::from_millis(1), TickerMessage::Show { line: "sun".into() });
///     while ticker.lines(&ctx).await?.len() < 2 {
///         ctx.sleep(Duration::from_millis(1)).await;
///     }
///     Ok(())
/// })?;
/// # Ok::<(), ExitReason>(())
/// ```
///
/// A wrong type of an argument does not compile:
///
/// ```compile_fail
/// # use rusm::prelude::*;
/// struct Sum(u64);
///
/// #[actor]
/// impl Sum {
///     fn add(&mut self, number: u64) {
///         self.0 += number;
///     }
/// }
///
/// async fn wrong(ctx: &Context, sum: SumRef) {
///     sum.add(ctx, "four").await;
/// }
/// ```
///
/// Two methods for one type of other messages do not compile, whatever names they call it by:
///
/// ```compile_fail,E0119
/// # use rusm::prelude::*;
/// type Ended = Down;
///
/// struct Sum(u64);
///
/// #[actor]
/// impl Sum {
///     #[info]
///     fn down(&mut self, _: Down) {}
///
///     #[info]
///     fn ended(&mut self, _: Ended) {}
/// }
/// ```
pub use rusm_macros::actor;

pub mod prelude;

// The examples of the guides are tests.
#[cfg(all(doctest, feature = "store"))]
#[doc = include_str!("../../../docs/counters.md")]
#[doc = include_str!("../../../docs/store.md")]
#[doc = include_str!("../../../docs/topics.md")]
struct Guides;

#[cfg(all(doctest, feature = "store", feature = "test"))]
#[doc = include_str!("../../../docs/tokio.md")]
#[doc = include_str!("../../../docs/guide/README.md")]
#[doc = include_str!("../../../docs/guide/1-processes.md")]
#[doc = include_str!("../../../docs/guide/2-actors.md")]
#[doc = include_str!("../../../docs/guide/3-supervision.md")]
#[doc = include_str!("../../../docs/guide/4-names.md")]
#[doc = include_str!("../../../docs/guide/5-pools-and-tables.md")]
#[doc = include_str!("../../../docs/guide/6-jobs.md")]
#[doc = include_str!("../../../docs/guide/7-tokio.md")]
#[doc = include_str!("../../../docs/guide/9-watching.md")]
#[doc = include_str!("../../../docs/guide/10-testing.md")]
struct Chapters;

#[cfg(all(doctest, feature = "wasm"))]
#[doc = include_str!("../../../docs/guide/11-guests.md")]
struct GuestsGuide;

#[cfg(all(doctest, feature = "serve", feature = "store"))]
#[doc = include_str!("../../../docs/guide/8-serving.md")]
#[doc = include_str!("../../../docs/serving.md")]
struct ServingGuide;
