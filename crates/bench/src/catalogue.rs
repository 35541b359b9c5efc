//! The list of all scenarios. A new scenario needs a file and one line here.

use crate::run::plan::{Plan, Request, RequestError};
use crate::scenario::Scenario;
use crate::scenarios::actors::fan_in::FanIn;
use crate::scenarios::actors::fault_recovery::FaultRecovery;
use crate::scenarios::actors::parked::Parked;
use crate::scenarios::actors::ping_pong::PingPong;
use crate::scenarios::actors::spawn_storm::SpawnStorm;
use crate::scenarios::cluster::distributed_fanout::DistributedFanout;
use crate::scenarios::cluster::keyed_failover::KeyedFailover;
use crate::scenarios::counters::counter_micro::CounterMicro;
use crate::scenarios::counters::counter_redb::CounterRedb;
use crate::scenarios::counters::counter_sweep::CounterSweep;
use crate::scenarios::counters::variants::{CounterVariant, Variant};
use crate::scenarios::rings::pipe_live::PipeLive;
use crate::scenarios::rings::ring_chunk::RingChunk;
use crate::scenarios::rings::ring_contention::RingContention;
use crate::scenarios::rings::ring_footprint::RingFootprint;
use crate::scenarios::rings::ring_sharing::RingSharing;
use crate::scenarios::rings::ring_size::RingSize;
use crate::scenarios::rings::ring_slow::RingSlow;
use crate::scenarios::rings::ring_versus::RingVersus;
use crate::scenarios::rings::ring_wake::RingWake;
use crate::scenarios::rings::stream_pipe::StreamPipe;
use crate::scenarios::serving::connection_scale::ConnectionScale;
use crate::scenarios::serving::connection_storm::ConnectionStorm;
use crate::scenarios::serving::handlers::Handlers;
use crate::scenarios::serving::http_throughput::HttpThroughput;
use crate::scenarios::serving::sse_fanout::SseFanout;
use crate::scenarios::serving::ws_echo::WsEcho;
use crate::scenarios::store::kv_storm::KvStorm;
use crate::scenarios::store::kv_versus::KvVersus;
use crate::scenarios::timing::timer_empty::TimerEmpty;
use crate::scenarios::timing::timer_firing::TimerFiring;
use crate::scenarios::timing::timer_jitter::TimerJitter;
use crate::scenarios::timing::timer_kfactor::TimerKfactor;
use crate::scenarios::timing::timer_path::TimerPath;
use crate::scenarios::timing::timer_share::TimerShare;
use crate::scenarios::timing::timer_start::TimerStart;
use crate::scenarios::timing::timer_sweep::TimerSweep;
use crate::scenarios::timing::timer_switch::TimerSwitch;
use crate::scenarios::timing::timer_tasks::TimerTasks;
use crate::scenarios::topics::pubsub_fanout::PubsubFanout;
use crate::scenarios::topics::topic_churn::TopicChurn;
use crate::scenarios::topics::topic_durable::TopicDurable;
use crate::scenarios::topics::topic_fanout::TopicFanout;
use crate::scenarios::topics::topic_firehose::TopicFirehose;
use crate::scenarios::topics::topic_herd::TopicHerd;
use crate::scenarios::topics::topic_micro::TopicMicro;
use crate::scenarios::topics::topic_mix::TopicMix;
use crate::scenarios::topics::topic_saturation::TopicSaturation;
use crate::scenarios::topics::topic_soak::TopicSoak;
use crate::scenarios::topics::topic_throughput::TopicThroughput;
use crate::scenarios::wasm::component_storm::ComponentStorm;
use crate::scenarios::wasm::crypto_ops::CryptoOps;
use crate::scenarios::wasm::fairness::Fairness;
use crate::scenarios::wasm::module_storm::ModuleStorm;
use rusm_text::suggestion;

/// All scenarios, in menu order.
pub fn catalogue() -> &'static [&'static dyn Scenario] {
    &[
        &SpawnStorm,
        &PingPong,
        &FanIn,
        &FaultRecovery,
        &Parked,
        &ConnectionStorm,
        &ConnectionScale,
        &HttpThroughput(Handlers::Chosen),
        &HttpThroughput(Handlers::TypeScript),
        &WsEcho(Handlers::Chosen),
        &WsEcho(Handlers::TypeScript),
        &SseFanout(Handlers::Chosen),
        &SseFanout(Handlers::TypeScript),
        &ModuleStorm,
        &ComponentStorm,
        &Fairness,
        &PubsubFanout,
        &DistributedFanout,
        &KeyedFailover,
        &CryptoOps,
        &StreamPipe,
        &KvStorm,
        &KvVersus,
        &TimerPath,
        &TimerEmpty,
        &TimerKfactor,
        &TimerStart,
        &TimerSwitch,
        &TimerTasks,
        &TimerJitter,
        &TimerSweep,
        &TimerFiring,
        &TimerShare,
        &RingContention,
        &RingSharing,
        &RingChunk,
        &RingSize,
        &RingFootprint,
        &RingWake,
        &RingSlow,
        &RingVersus,
        &PipeLive,
        &CounterVariant(Variant::Vsa),
        &CounterVariant(Variant::Atomic),
        &CounterVariant(Variant::Batch),
        &CounterVariant(Variant::Crdt),
        &CounterVariant(Variant::Token),
        &CounterVariant(Variant::Leaky),
        &CounterRedb,
        &CounterSweep,
        &CounterMicro,
        &TopicFirehose,
        &TopicFanout,
        &TopicThroughput,
        &TopicDurable,
        &TopicHerd,
        &TopicSaturation,
        &TopicSoak,
        &TopicMix,
        &TopicChurn,
        &TopicMicro,
    ]
}

/// Returns the scenario with the given id.
///
/// # Errors
/// [`RequestError::UnknownScenario`], which names the nearest id.
pub fn find(id: &str) -> Result<&'static dyn Scenario, RequestError> {
    let ids = || catalogue().iter().map(|scenario| scenario.card().id);
    catalogue().iter().find(|scenario| scenario.card().id == id).copied().ok_or_else(|| RequestError::UnknownScenario {
        name: id.to_owned(),
        suggestion: suggestion(id, &ids().collect::<Vec<_>>()),
    })
}

impl Plan {
    /// Finds the requested scenario in the catalogue, and checks the request.
    ///
    /// # Errors
    /// [`RequestError`] for the first field that is not valid.
    pub fn of(request: &Request) -> Result<Self, RequestError> {
        Self::check(find(&request.scenario)?, request)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_cards_say_what_they_must() {
        let ids: BTreeSet<_> = catalogue().iter().map(|scenario| scenario.card().id).collect();

        assert_eq!(ids.len(), catalogue().len());
        for scenario in catalogue() {
            let card = scenario.card();
            assert!(card.details.len() >= 3, "{}", card.id);
            assert!(card.sampling >= 1 && card.ops_per_timed >= 1, "{}", card.id);
        }
    }

    #[test]
    fn the_source_file_of_every_card_exists() {
        let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        for scenario in catalogue() {
            let file = scenario.card().source_file;
            assert!(std::path::Path::new(repository).join(file).is_file(), "{file}");
        }
    }

    #[test]
    fn an_unknown_scenario_is_answered_with_the_nearest() {
        let error = find("spawn-strom").unwrap_err();

        assert_eq!(error.to_string(), r#"unknown scenario "spawn-strom": did you mean "spawn-storm"?"#);
    }
}
