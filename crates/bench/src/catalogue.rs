//! The list of all scenarios. A new scenario needs a file and one line here.

use crate::component_storm::ComponentStorm;
use crate::counter_micro::CounterMicro;
use crate::counter_redb::CounterRedb;
use crate::counter_sweep::CounterSweep;
use crate::counter_variants::{CounterVariant, Variant};
use crate::crypto_ops::CryptoOps;
use crate::fairness::Fairness;
use crate::fan_in::FanIn;
use crate::fault_recovery::FaultRecovery;
use crate::kv_storm::KvStorm;
use crate::kv_versus::KvVersus;
use crate::module_storm::ModuleStorm;
use crate::nearest::suggestion;
use crate::parked::Parked;
use crate::ping_pong::PingPong;
use crate::pipe_live::PipeLive;
use crate::plan::RequestError;
use crate::pubsub_fanout::PubsubFanout;
use crate::ring_chunk::RingChunk;
use crate::ring_contention::RingContention;
use crate::ring_footprint::RingFootprint;
use crate::ring_sharing::RingSharing;
use crate::ring_size::RingSize;
use crate::ring_slow::RingSlow;
use crate::ring_versus::RingVersus;
use crate::ring_wake::RingWake;
use crate::scenario::Scenario;
use crate::spawn_storm::SpawnStorm;
use crate::stream_pipe::StreamPipe;
use crate::timer_empty::TimerEmpty;
use crate::timer_firing::TimerFiring;
use crate::timer_jitter::TimerJitter;
use crate::timer_kfactor::TimerKfactor;
use crate::timer_path::TimerPath;
use crate::timer_share::TimerShare;
use crate::timer_start::TimerStart;
use crate::timer_sweep::TimerSweep;
use crate::timer_switch::TimerSwitch;
use crate::timer_tasks::TimerTasks;
use crate::topic_churn::TopicChurn;
use crate::topic_durable::TopicDurable;
use crate::topic_fanout::TopicFanout;
use crate::topic_firehose::TopicFirehose;
use crate::topic_herd::TopicHerd;
use crate::topic_micro::TopicMicro;
use crate::topic_mix::TopicMix;
use crate::topic_saturation::TopicSaturation;
use crate::topic_soak::TopicSoak;
use crate::topic_throughput::TopicThroughput;

/// All scenarios, in menu order.
pub fn catalogue() -> &'static [&'static dyn Scenario] {
    &[
        &SpawnStorm,
        &PingPong,
        &FanIn,
        &FaultRecovery,
        &Parked,
        &ModuleStorm,
        &ComponentStorm,
        &Fairness,
        &PubsubFanout,
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
        suggestion: suggestion(id, ids().collect::<Vec<_>>()),
    })
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
