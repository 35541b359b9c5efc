//! Metrics of the text format `OpenMetrics` in the JSON of OTLP.
//!
//! ```text
//!   # TYPE shop_orders counter            ──▶ {"name":"shop_orders","sum":{"isMonotonic":true,…
//!   shop_orders_total{payment="card"} 3   ──▶   "dataPoints":[{"attributes":[…],"asInt":"3",…}]}}
//! ```
//!
//! The names are those of the text, as the specification of OpenTelemetry recommends, except for metrics of HTTP that have
//! a name of OpenTelemetry. A family of an unknown type is a gauge.

use serde_json::{Map, Value, json};

use crate::record::{attribute, number};

/// Points that count since the start, not since the last export.
const CUMULATIVE: u8 = 2;

/// Families with the names that OpenTelemetry defines, and their units.
const HTTP_NAMES: [(&str, &str, &str); 2] = [
    ("http_server_request_duration_seconds", "http.server.request.duration", "s"),
    ("http_server_active_requests", "http.server.active_requests", "{request}"),
];
/// Labels with the names that OpenTelemetry defines.
const HTTP_LABELS: [(&str, &str); 5] = [
    ("http_request_method", "http.request.method"),
    ("http_route", "http.route"),
    ("server_address", "server.address"),
    ("server_port", "server.port"),
    ("url_scheme", "url.scheme"),
];

/// A family of metrics while its lines are read.
#[derive(Default)]
struct Family<'a> {
    name: &'a str,
    help: String,
    unit: &'a str,
    kind: &'a str,
    points: Vec<Value>,
    /// Series of a histogram: labels without `le`, and what was read of it.
    histograms: Vec<(Vec<(&'a str, String)>, Histogram)>,
}

#[derive(Default)]
struct Histogram {
    sum: Option<f64>,
    count: Option<u64>,
    bounds: Vec<f64>,
    /// Number of observations up to each bound.
    cumulative: Vec<u64>,
}

/// Converts all metrics of a text. Returns each as JSON, and the number of their points. Lines that are not valid are left
/// out.
pub(crate) fn parse(text: &str, started_ns: u64, now_ns: u64) -> (Vec<String>, u64) {
    let mut converted = Converted { metrics: Vec::new(), points: 0, started_ns, now_ns };
    let mut family = Family::default();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (word, name, rest) = (words.next(), words.next(), words.next());
            let (Some(word @ ("HELP" | "TYPE" | "UNIT")), Some(name)) = (word, name) else { continue };
            if name != family.name {
                converted.add(std::mem::take(&mut family));
                family.name = name;
            }
            match word {
                "HELP" => family.help = unescaped(rest.unwrap_or_default()),
                "TYPE" => family.kind = rest.unwrap_or_default(),
                _ => family.unit = rest.unwrap_or_default(),
            }
        } else if let Some((name, labels, value)) = sample(line).filter(|(name, ..)| !name.is_empty()) {
            let is_known = if family.kind.is_empty() { name == family.name } else { name.starts_with(family.name) };
            if !is_known {
                converted.add(std::mem::replace(&mut family, Family { name, ..Family::default() }));
            }
            family.sample(name, labels, value, started_ns, now_ns);
        }
    }
    converted.add(family);
    (converted.metrics, converted.points)
}

struct Converted {
    metrics: Vec<String>,
    points: u64,
    started_ns: u64,
    now_ns: u64,
}

impl Converted {
    fn add(&mut self, family: Family<'_>) {
        let mut points = family.points;
        for (labels, histogram) in family.histograms {
            points.extend(histogram.point(&labels, self.started_ns, self.now_ns));
        }
        if points.is_empty() {
            return;
        }
        self.points += points.len() as u64;
        let (name, unit) = HTTP_NAMES
            .iter()
            .find(|(text_name, _, _)| *text_name == family.name)
            .map_or_else(|| (family.name, unit_of(family.unit)), |(_, name, unit)| (*name, *unit));
        let (data, properties) = match family.kind {
            "counter" => ("sum", json!({ "aggregationTemporality": CUMULATIVE, "isMonotonic": true })),
            "histogram" => ("histogram", json!({ "aggregationTemporality": CUMULATIVE })),
            _ => ("gauge", json!({})),
        };
        let mut properties = properties;
        properties["dataPoints"] = Value::Array(points);
        let mut metric = json!({ "name": name, "description": family.help, "unit": unit });
        metric[data] = properties;
        self.metrics.push(metric.to_string());
    }
}

impl<'a> Family<'a> {
    /// Adds a sample, if it belongs to this family.
    fn sample(&mut self, name: &str, labels: Vec<(&'a str, String)>, value: &str, started_ns: u64, now_ns: u64) {
        let Some(suffix) = name.strip_prefix(self.name) else { return };
        match (self.kind, suffix) {
            ("counter", "_total") => self.points.push(point(&labels, value, Some(started_ns), now_ns)),
            ("histogram", "_bucket" | "_sum" | "_count") => self.part(suffix, labels, value),
            ("counter" | "histogram", _) => {}
            (_, "") => self.points.push(point(&labels, value, None, now_ns)),
            _ => {}
        }
    }

    /// Adds a part of a histogram.
    fn part(&mut self, suffix: &str, mut labels: Vec<(&'a str, String)>, value: &str) {
        let bound = labels.iter().position(|(label, _)| *label == "le").map(|index| labels.remove(index).1);
        // The lines of a series follow each other.
        if self.histograms.last().is_none_or(|(last, _)| *last != labels) {
            self.histograms.push((labels, Histogram::default()));
        }
        let Some((_, histogram)) = self.histograms.last_mut() else { return };
        match suffix {
            "_sum" => histogram.sum = value.parse().ok(),
            "_count" => histogram.count = whole(value),
            _ => {
                let Some((count, bound)) = whole(value).zip(bound) else { return };
                histogram.cumulative.push(count);
                if let Some(bound) = bound.parse().ok().filter(|bound: &f64| bound.is_finite()) {
                    histogram.bounds.push(bound);
                }
            }
        }
    }
}

impl Histogram {
    /// Returns the point, if the histogram is complete: one bucket more than bounds, and a count.
    fn point(self, labels: &[(&str, String)], started_ns: u64, now_ns: u64) -> Option<Value> {
        let count = self.count.filter(|_| self.cumulative.len() == self.bounds.len() + 1)?;
        let before = std::iter::once(0).chain(self.cumulative.iter().copied());
        let each = self.cumulative.iter().zip(before).map(|(up_to, before)| up_to.saturating_sub(before).to_string());
        let mut point = Map::new();
        point.insert("attributes".to_owned(), attributes(labels));
        point.insert("startTimeUnixNano".to_owned(), started_ns.to_string().into());
        point.insert("timeUnixNano".to_owned(), now_ns.to_string().into());
        point.insert("count".to_owned(), count.to_string().into());
        if let Some(sum) = self.sum {
            point.insert("sum".to_owned(), number(sum));
        }
        point.insert("bucketCounts".to_owned(), each.collect::<Vec<_>>().into());
        point.insert("explicitBounds".to_owned(), self.bounds.into());
        Some(Value::Object(point))
    }
}

fn point(labels: &[(&str, String)], value: &str, started_ns: Option<u64>, now_ns: u64) -> Value {
    let mut point = json!({ "attributes": attributes(labels), "timeUnixNano": now_ns.to_string() });
    if let Some(started_ns) = started_ns {
        point["startTimeUnixNano"] = started_ns.to_string().into();
    }
    match value.parse::<i64>() {
        Ok(_) => point["asInt"] = value.into(),
        Err(_) => point["asDouble"] = number(value.parse().unwrap_or(f64::NAN)),
    }
    point
}

fn attributes(labels: &[(&str, String)]) -> Value {
    let name = |label: &str| HTTP_LABELS.iter().find(|(known, _)| *known == label).map(|(_, name)| *name);
    labels.iter().map(|(label, value)| attribute(name(label).unwrap_or(label), value)).collect()
}

/// Returns a unit as UCUM writes it.
fn unit_of(unit: &str) -> &str {
    match unit {
        "seconds" => "s",
        "bytes" => "By",
        "ratio" => "1",
        other => other,
    }
}

fn whole(value: &str) -> Option<u64> {
    value.parse().ok().or_else(|| value.parse().ok().map(|number: f64| number as u64))
}

/// Name of a sample, its labels and its value.
type Sample<'a> = (&'a str, Vec<(&'a str, String)>, &'a str);

/// Splits a line.
fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(within) = rest.strip_prefix('{') {
        rest = within;
        while !rest.starts_with('}') {
            let (label, value) = rest.trim_start_matches(',').split_once("=\"")?;
            let end = closing_quote(value)?;
            labels.push((label, unescaped(&value[..end])));
            rest = &value[end + 1..];
        }
        rest = &rest[1..];
    }
    Some((name, labels, rest.trim_start().split(' ').next()?))
}

/// Returns the position of the quote that ends a value.
fn closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

/// Replaces `\n`, `\"` and `\\`.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(text: &str) -> Vec<Value> {
        parse(text, 5, 9).0.iter().map(|metric| serde_json::from_str(metric).unwrap()).collect()
    }

    #[test]
    fn counters_are_cumulative_sums_and_gauges_have_no_start() {
        let text = "# HELP shop_orders Orders \\\\ \\n accepted.\n# TYPE shop_orders counter\n\
                    shop_orders_total{payment=\"card\"} 3\nshop_orders_total{payment=\"a \\\"b\\\\\"} 1.5\n\
                    # HELP up Time.\n# TYPE up gauge\n# UNIT up seconds\nup 2.5\n# EOF\n";

        assert_eq!(
            metrics(text),
            [
                json!({
                    "name": "shop_orders", "description": "Orders \\ \n accepted.", "unit": "",
                    "sum": { "aggregationTemporality": 2, "isMonotonic": true, "dataPoints": [
                        { "attributes": [attribute("payment", "card")], "asInt": "3",
                          "startTimeUnixNano": "5", "timeUnixNano": "9" },
                        { "attributes": [attribute("payment", "a \"b\\")], "asDouble": 1.5,
                          "startTimeUnixNano": "5", "timeUnixNano": "9" },
                    ] },
                }),
                json!({
                    "name": "up", "description": "Time.", "unit": "s",
                    "gauge": { "dataPoints": [{ "attributes": [], "asDouble": 2.5, "timeUnixNano": "9" }] },
                }),
            ]
        );
        assert_eq!(parse(text, 5, 9).1, 3);
    }

    #[test]
    fn a_histogram_has_the_names_of_opentelemetry_and_counts_of_each_bucket() {
        let name = "http_server_request_duration_seconds";
        let series = |method: &str, counts: [u64; 3]| {
            let [first, second, third] = counts;
            format!(
                "{name}_sum{{http_request_method=\"{method}\"}} 0.5\n\
                 {name}_count{{http_request_method=\"{method}\"}} {third}\n\
                 {name}_bucket{{le=\"0.005\",http_request_method=\"{method}\"}} {first}\n\
                 {name}_bucket{{le=\"0.01\",http_request_method=\"{method}\"}} {second}\n\
                 {name}_bucket{{le=\"+Inf\",http_request_method=\"{method}\"}} {third}\n"
            )
        };
        let text = format!(
            "# HELP {name} Time.\n# TYPE {name} histogram\n# UNIT {name} seconds\n{}{}",
            series("GET", [1, 1, 4]),
            series("PUT", [0, 2, 2])
        );

        let found = metrics(&text);
        assert_eq!((&found[0]["name"], &found[0]["unit"]), (&json!("http.server.request.duration"), &json!("s")));
        let points = found[0]["histogram"]["dataPoints"].as_array().unwrap();
        assert_eq!(points.len(), 2);
        assert_eq!(
            points[0],
            json!({
                "attributes": [attribute("http.request.method", "GET")], "count": "4", "sum": 0.5,
                "bucketCounts": ["1", "0", "3"], "explicitBounds": [0.005, 0.01],
                "startTimeUnixNano": "5", "timeUnixNano": "9",
            })
        );
        assert_eq!(points[1]["bucketCounts"], json!(["0", "2", "0"]));
    }

    #[test]
    fn a_sample_without_a_type_is_a_gauge() {
        let found =
            metrics("shop_orders_total{a=\"1\"} 3\nshop_orders_total{a=\"2\"} 4\n# TYPE up gauge\nup 1\nload 0.5");
        let names: Vec<_> = found.iter().map(|metric| metric["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["shop_orders_total", "up", "load"]);
        assert_eq!(found[0]["gauge"]["dataPoints"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn damaged_text_gives_fewer_metrics_and_no_panic() {
        let text = "# TYPE a counter\na_total 1\na_total{b=\"c} 2\na_total{b} 3\n# TYPE\n# HELP\n#\n{\na\n\
                    # TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_count 3\n# TYPE g gauge\ng NaN\ng +Inf\ng wrong";
        let found = metrics(text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[1]["gauge"]["dataPoints"][1]["asDouble"], "Infinity");
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            drop(parse(&text[..end], 0, 0));
        }
    }
}
