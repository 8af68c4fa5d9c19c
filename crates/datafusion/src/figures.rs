//! Figures for metrics and logs.

use crate::difference::{Difference, size};
use crate::pool::LedgerPool;
use datafusion_execution::memory_pool::MemoryPool;
use std::fmt::Write;

/// Name, kind and meaning, in the order of [`Difference::figures`].
const FIGURES: [(&str, &str, &str); 10] = [
    (
        "declared_bytes",
        "gauge",
        "Reserved in the memory pool now.",
    ),
    (
        "declared_peak_bytes",
        "gauge",
        "The most that was reserved since the baseline.",
    ),
    (
        "real_bytes",
        "gauge",
        "Really held above the baseline, by the ledger.",
    ),
    (
        "real_peak_bytes",
        "gauge",
        "The most that was really held above the baseline.",
    ),
    ("baseline_bytes", "gauge", "Held before the pool's work."),
    ("undeclared_bytes", "gauge", "Really held and not declared."),
    (
        "undeclared_peak_bytes",
        "gauge",
        "The largest excess of real over declared that was seen.",
    ),
    (
        "unused_peak_bytes",
        "gauge",
        "The largest excess of declared over real that was seen.",
    ),
    (
        "refused_total",
        "counter",
        "Requests refused on the real number.",
    ),
    (
        "declined_total",
        "counter",
        "Requests refused by the wrapped pool.",
    ),
];

impl Difference {
    /// Names without a prefix, and values, for whatever takes metrics.
    pub fn figures(&self) -> [(&'static str, u64); 10] {
        let values = [
            self.declared,
            self.declared_peak,
            self.real,
            self.real_peak,
            self.baseline,
            self.undeclared(),
            self.undeclared_peak,
            self.unused_peak,
            self.refused,
            self.declined,
        ];
        std::array::from_fn(|n| (FIGURES[n].0, values[n]))
    }

    /// Prometheus' text format, each name with the prefix `homefree_datafusion_` and the label `pool`. One text for
    /// one pool: a scrape that holds several would say `# HELP` several times, so collect those by
    /// [`Difference::figures`].
    pub fn prometheus(&self, pool: &str) -> String {
        let label = pool
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        let mut text = String::new();
        for ((name, value), (_, kind, help)) in self.figures().into_iter().zip(FIGURES) {
            let _ = write!(
                text,
                "# HELP homefree_datafusion_{name} {help}\n# TYPE homefree_datafusion_{name} {kind}\n\
                 homefree_datafusion_{name}{{pool=\"{label}\"}} {value}\n"
            );
        }
        text
    }
}

impl<P: MemoryPool + ?Sized> LedgerPool<P> {
    /// The difference and a line for each consumer, for a log.
    pub fn report(&self) -> String {
        let mut text = format!("{self}: {}\n", self.difference());
        for consumer in self.consumers() {
            let _ = writeln!(
                text,
                "  {}#{}{}: declared {}, peak {}, refused {}",
                consumer.name,
                consumer.id,
                if consumer.can_spill {
                    " (can spill)"
                } else {
                    ""
                },
                size(consumer.declared),
                size(consumer.peak),
                consumer.refused
            );
        }
        for ended in self.ended_consumers() {
            let _ = writeln!(
                text,
                "  {} (ended, {}): largest peak {}, refused {}",
                ended.name,
                ended.count,
                size(ended.peak),
                ended.refused
            );
        }
        text
    }
}
