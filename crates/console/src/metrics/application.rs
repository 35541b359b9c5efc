//! Metrics that the application has registered, under their own names.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use rusm_runtime::Handle;
use rusm_runtime::metrics::{MetricKind, MetricReport, MetricValue};
use rusm_runtime::observe;

/// The metrics of the application in a node.
#[derive(Debug)]
pub(super) struct Application(pub(super) Handle);

impl Collector for Application {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> Result<(), Error> {
        for report in observe::metrics(&self.0) {
            let kind = match report.kind {
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge => MetricType::Gauge,
                MetricKind::Histogram => MetricType::Histogram,
            };
            let encoder = to.encode_descriptor(&report.name, &report.help, None, kind)?;
            encode_series(encoder, &report)?;
        }
        Ok(())
    }
}

fn encode_series(mut encoder: MetricEncoder<'_>, report: &MetricReport) -> Result<(), Error> {
    for (values, value) in &report.series {
        let labels: Vec<(String, String)> =
            report.labels.iter().zip(values).map(|(name, value)| (name.to_string(), value.to_string())).collect();
        if labels.is_empty() {
            encode_value(&mut encoder, value)?;
        } else {
            encode_value(&mut encoder.encode_family(&labels)?, value)?;
        }
    }
    Ok(())
}

fn encode_value(encoder: &mut MetricEncoder<'_>, value: &MetricValue) -> Result<(), Error> {
    match value {
        MetricValue::Counter(number) => encoder.encode_counter::<NoLabelSet, _, f64>(number, None),
        MetricValue::Gauge(number) => encoder.encode_gauge(number),
        MetricValue::Histogram { sum, buckets } => {
            let count = buckets.iter().map(|(_, count)| count).sum();
            encoder.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
        }
    }
}
