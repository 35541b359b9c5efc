//! The lines that stay in the terminal after the user quits: the state in which the node was left.

use std::time::Duration;

use crate::model::ends::Ends;
use crate::model::{Link, Model, format};

/// Maximum number of warnings that are listed.
const LINTS_MAX: usize = 5;

/// Returns the lines, without a line end; `None` if the node sent nothing.
pub(crate) fn summary(model: &Model, watched: Duration) -> Option<String> {
    let (hello, frame) = (model.hello()?, model.live_frame()?);
    let dot = if model.capabilities.ascii { "-" } else { "·" };
    let seen = &frame.observer;
    let ends = Ends::of(seen);
    let name = if model.demo { format!("{} (DEMO)", hello.node.name) } else { hello.node.name.clone() };
    let state = match model.link {
        Link::Lost { .. } => "connection lost, last seen",
        _ if model.owns_node => "ended",
        _ => "left running",
    };
    let mut lines = vec![
        format!(
            "{name}, pid {} {dot} watched {} {dot} {state} after {}",
            hello.node.os_pid,
            format::age(watched.as_millis() as u64),
            format::clock(frame.uptime_ms)
        ),
        format!(
            "{} processes {dot} {} cores {dot} {} resident {dot} {} crashed {dot} {} restarts",
            format::grouped(seen.process_count),
            format::cores(seen.cpu_pct),
            format::bytes(seen.memory.rss_bytes),
            format::grouped(ends.crashed),
            format::grouped(seen.restarts_total)
        ),
    ];
    if let Some(scenario) = &frame.scenario {
        lines.push(format!(
            "{scenario} runs: {} ops/s, p99 {}",
            format::short(frame.ops_per_sec),
            format::nanos(frame.latency.p99_ns, "u")
        ));
    }
    for lint in seen.lints.iter().take(LINTS_MAX) {
        let who = if lint.pid.is_empty() { String::new() } else { format!(" {}", lint.pid) };
        lines.push(format!("! {}{who}: {}", lint.id, lint.text));
    }
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::Demo;
    use crate::model::Start;
    use crate::model::message::{LinkEvent, Msg};
    use crate::model::update::update;

    #[test]
    fn the_state_of_the_node_stays_below_the_prompt() {
        let mut demo = Demo::new(1);
        let mut model = Model::new(Start { demo: true, ..Start::default() });
        assert_eq!(summary(&model, Duration::ZERO), None);
        update(&mut model, Msg::Link(LinkEvent::Connected), Duration::ZERO);
        update(&mut model, Msg::Server(demo.hello()), Duration::ZERO);
        for message in demo.poll(Duration::from_mins(1)) {
            update(&mut model, Msg::Server(message), Duration::from_mins(1));
        }

        let text = summary(&model, Duration::from_secs(61)).unwrap();

        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("(DEMO), pid ") && lines[0].contains("watched 1m01"), "{text}");
        assert!(lines[1].starts_with("1,000,0") && lines[1].contains(" crashed · "), "{text}");
    }
}
