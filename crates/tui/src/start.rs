//! Preparation of the first frame: attaches to the source, and derives the initial state of the model from the options
//! and the environment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::cli::options::{FPS_LOCAL, FPS_REMOTE, Options, Source};
use crate::connection::{self, ConnectionHandle, Dialer, Discovery, Inbox};
use crate::demo::Demo;
use crate::exit::Error;
use crate::model::message::{LinkEvent, Msg};
use crate::model::{Capabilities, Start};
use crate::replay::index::Index;
use crate::replay::player::Player;
use crate::terminal::TerminalColors;

/// Speed at which a recording is read to print one frame: its data may be minutes after its beginning.
const SPEED_OF_ONE_FRAME: f64 = 1_000.0;

/// Pause between two looks at the end of a recording.
const REPLAY_IDLE: Duration = Duration::from_secs(1);

/// Attaches to the source. A node that cannot be reached is an error, so that the user does not see a blank screen.
pub(crate) async fn attach(options: &Options, inbox: &Inbox) -> Result<ConnectionHandle, Error> {
    match &options.source {
        Source::Demo { seed } => Ok(play(Demo::new(*seed), inbox.clone())),
        Source::Replay { path, speed } => {
            let index = Index::open(path).map_err(Error::Recording)?;
            let prints_one_frame = options.once.is_some() && options.frames == Some(1);
            let speed = if prints_one_frame { speed.max(SPEED_OF_ONE_FRAME) } else { *speed };
            Ok(replay(Player::new(index, speed), inbox.clone()))
        }
        Source::Node(target) => {
            let dialer = Dialer {
                target: target.clone(),
                discovery: Discovery::from_env(),
                token_file: options.token_file.clone(),
                timeout: options.timeout,
                ssh: options.ssh.clone(),
                tunnel: Arc::default(),
            };
            let dialled = dialer.dial().await?;
            Ok(connection::maintain(dialled, dialer, inbox.clone()))
        }
    }
}

/// Plays the demo like a connection.
fn play(mut demo: Demo, inbox: Inbox) -> ConnectionHandle {
    let (commands, mut from_model) = mpsc::channel(64);
    let received_bytes = Arc::new(AtomicU64::new(0));
    let outgoing = ConnectionHandle { commands, retry: Arc::new(Notify::new()), received_bytes, over_ssh: false };
    let received = Arc::clone(&outgoing.received_bytes);
    tokio::spawn(async move {
        let start = Instant::now();
        // Start the demo's clock ahead, so that the charts have history from the first frame.
        let elapsed = || start.elapsed() + Duration::from_secs(41);
        inbox.post(Msg::Link(LinkEvent::Connected)).await;
        inbox.post(Msg::Server(demo.hello())).await;
        loop {
            for message in demo.poll(elapsed()) {
                received.fetch_add(rusm_protocol::encode(&message).len() as u64, Ordering::Relaxed);
                inbox.post(Msg::Server(message)).await;
            }
            let pause = demo.due().saturating_sub(elapsed());
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                command = from_model.recv() => {
                    let Some(command) = command else { return };
                    for message in demo.receive(command, elapsed()) {
                        inbox.post(Msg::Server(message)).await;
                    }
                }
            }
        }
    });
    outgoing
}

/// Plays a recording like a connection.
fn replay(mut player: Player, inbox: Inbox) -> ConnectionHandle {
    let (commands, mut from_model) = mpsc::channel(64);
    let outgoing = ConnectionHandle {
        commands,
        retry: Arc::new(Notify::new()),
        received_bytes: Arc::new(AtomicU64::new(0)),
        over_ssh: false,
    };
    tokio::spawn(async move {
        let start = Instant::now();
        inbox.post(Msg::Link(LinkEvent::Connected)).await;
        loop {
            for msg in player.poll(start.elapsed()) {
                inbox.post(msg).await;
            }
            let pause = player.due().map_or(REPLAY_IDLE, |due| due.saturating_sub(start.elapsed()));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                command = from_model.recv() => {
                    let Some(command) = command else { return };
                    for msg in player.receive(command, start.elapsed()) {
                        inbox.post(msg).await;
                    }
                }
            }
        }
    });
    outgoing
}

/// Returns the initial state of a model for these options.
pub(crate) fn start(options: &Options, size: crate::model::input::key::Size, over_ssh: bool) -> Start {
    let (target, demo) = match &options.source {
        Source::Node(target) => (target.to_string(), false),
        Source::Demo { .. } => ("demo data".to_owned(), true),
        Source::Replay { path, .. } => (path.display().to_string(), false),
    };
    let colors = TerminalColors::from_env(options.color);
    Start {
        capabilities: Capabilities { ascii: options.ascii || !locale_is_utf8(), color: colors.depth.is_some() },
        size,
        tab: options.tab,
        filter: options.filter.clone(),
        sort: options.sort,
        frame_hz: frame_hz(options, over_ssh),
        target,
        demo,
        replay: matches!(options.source, Source::Replay { .. }),
        run: options.run.clone(),
        profile: options.profile.clone(),
        palette: colors.palette(options, None),
        keys: options.keys.clone(),
        read_only: options.read_only,
        owns_node: options.owns_node,
        columns: options.columns.clone(),
        guest_columns: options.guest_columns.clone(),
        hidden_lints: options.hidden_lints.clone(),
    }
}

/// Returns the frame rate, which defaults to a lower value if the screen or the node is remote.
fn frame_hz(options: &Options, over_ssh: bool) -> f64 {
    if let Some(interval) = options.interval {
        return 1.0 / interval.as_secs_f64();
    }
    let far = over_ssh || std::env::var_os("SSH_CONNECTION").is_some_and(|value| !value.is_empty());
    f64::from(options.fps.unwrap_or(if far { FPS_REMOTE } else { FPS_LOCAL }).clamp(1, 60))
}

/// The first of these variables that is set determines the character set. If none is set, UTF-8 is assumed.
fn locale_is_utf8() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| {
        let value = std::env::var(name).ok()?;
        (!value.is_empty()).then(|| value.to_ascii_lowercase())
    });
    set.is_none_or(|value| value.contains("utf-8") || value.contains("utf8"))
}
