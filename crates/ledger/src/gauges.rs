//! The figures for the `metrics` facade, which hands them to whatever exporter the program has installed.

use crate::Ledger;
use crate::background::Background;
use crate::families::{ALL, Family, Kind, Sink, Unit, Value};
use crate::snapshot::Snapshot;
use std::io;
use std::string::{String, ToString};
use std::time::Duration;

impl Ledger {
    /// Describes all figures to the recorder that is installed: names as in [`Ledger::prometheus`].
    pub fn describe_metrics(&self) {
        for family in ALL {
            // The facade has no unit for a share of 1; without one is how exporters take it.
            let unit = match family.unit {
                Unit::Bytes => metrics::Unit::Bytes,
                Unit::Seconds => metrics::Unit::Seconds,
                Unit::Count | Unit::Ratio => metrics::Unit::Count,
            };
            match family.kind {
                Kind::Counter => metrics::describe_counter!(family.name, unit, family.help),
                Kind::Gauge => metrics::describe_gauge!(family.name, unit, family.help),
            }
        }
    }

    /// Records all figures, as [`Ledger::prometheus`] takes them: gauges are set, counters set to their absolute
    /// value. Times of pressure are counted in whole seconds, as the facade's counters are whole numbers.
    pub fn record_metrics(&self) {
        Snapshot::take().tell(&mut Facade);
    }
}

struct Facade;

impl Sink for Facade {
    fn family(&mut self, _: &'static Family) {}

    fn sample(
        &mut self,
        family: &'static Family,
        label: Option<(&'static str, &str)>,
        value: Value,
    ) {
        let labels: Option<(&'static str, String)> =
            label.map(|(key, text)| (key, text.to_string()));
        let labels = labels.as_slice();
        match family.kind {
            Kind::Counter => {
                let whole = match value {
                    Value::Whole(number) => number,
                    Value::Real(number) => number as u64,
                };
                metrics::counter!(family.name, labels).absolute(whole);
            }
            Kind::Gauge => {
                let real = match value {
                    Value::Whole(number) => number as f64,
                    Value::Real(number) => number,
                };
                metrics::gauge!(family.name, labels).set(real);
            }
        }
    }
}

/// Records the figures once a period, on a thread of its own, until it is dropped.
#[derive(Debug)]
#[must_use = "it records until it is dropped"]
pub struct MetricsRecorder {
    thread: Background,
}

impl MetricsRecorder {
    /// Describes the figures, records them now and then once a period. Install the program's recorder before.
    /// What is recorded to is the global one. In fork's child nothing is recorded: start another there.
    ///
    /// # Errors
    /// What the system says when it has no thread to give.
    pub fn every(period: Duration) -> io::Result<Self> {
        let thread = Background::start("homefree-gauges", move |orders| {
            orders.call(|| crate::ledger().describe_metrics());
            loop {
                orders.call(|| crate::ledger().record_metrics());
                if !orders.pause(period) {
                    break;
                }
            }
        })?;
        Ok(Self { thread })
    }

    /// Whether the thread is there and runs.
    pub fn runs(&self) -> bool {
        self.thread.runs()
    }

    /// Panics of the program's recorder, which are caught.
    pub fn panics(&self) -> u64 {
        self.thread.panics()
    }
}
