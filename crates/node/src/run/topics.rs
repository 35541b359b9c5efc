//! The topics that an application's guests use; they are created before any guest runs.

use std::collections::BTreeMap;

use rusm_runtime::Handle;
use rusm_runtime::topic::TopicConfig;
use rusm_store::Store;

use crate::failure::Failure;
use crate::settings::app::TopicStorage;

/// Checks that there is a store for the topics that need one.
pub(crate) fn check(topics: &BTreeMap<String, TopicStorage>, has_store: bool) -> Result<(), Failure> {
    let on_disk = topics.iter().find(|(_, storage)| matches!(storage, TopicStorage::OnDisk));
    on_disk.filter(|_| !has_store).map_or(Ok(()), |(name, _)| Err(without_store(name)))
}

fn without_store(name: &str) -> Failure {
    Failure::Usage(format!("topics.{name}: it is on disk, and the node has no store: set store.path"))
}

/// Creates the topics, or opens those that the store already has.
pub(crate) fn open(
    runtime: &Handle,
    topics: &BTreeMap<String, TopicStorage>,
    store: Option<&Store>,
) -> Result<(), Failure> {
    for (name, storage) in topics {
        let failed = |why: String| Failure::Usage(format!("topics.{name}: {why}"));
        match (storage, store) {
            (TopicStorage::InMemory, _) => {
                drop(runtime.topics().create(name).map_err(|error| failed(error.to_string()))?);
            }
            (TopicStorage::OnDisk, Some(store)) => {
                let opened = store.open_topic(&runtime.topics(), name, TopicConfig::default());
                let topic = opened.map_err(|error| failed(error.to_string()))?;
                tracing::info!(topic = %name, messages = topic.view(0).messages, "topic is open");
            }
            (TopicStorage::OnDisk, None) => {
                return Err(without_store(name));
            }
        }
    }
    Ok(())
}
